// A small chain for market tests: blocks through BlockExecution, each an overlay with its invariants checked, and a
// step program of three nodes with one slot (which is the loss), so that real histories, reports and dispute games cost
// microseconds.
#pragma once

#include <functional>

#include "chain/market/delays.h"
#include "compute/core/claims.h"
#include "compute/core/dispute_strategy.h"
#include "compute/core/history.h"
#include "compute/core/profiling.h"
#include "compute/core/program_opening.h"
#include "compute/core/task_spec.h"
#include "support.h"
#include "support/posts.h"

namespace quern::chain::exec::test {

namespace core = compute::core;
using quern::test::waiting_post;
namespace tensor = vm::tensor;
using types::ClaimState;
using types::NativeKind;
using types::Role;
using types::TaskClaim;
using types::TaskState;

// loss := loss + 1.5 in each step; of a plan of both programs each second step also takes a quarter of that off.
struct TinyProgram {
    TinyProgram();
    tensor::Program program;
    tensor::Program second;  // of more nodes, over the same slot
    // Of a task of so many steps: of the program alone, or of both in turn (3 steps or more).
    [[nodiscard]] const core::TaskPrograms& programs(std::uint64_t steps) const;
    [[nodiscard]] const core::TaskPrograms& both(std::uint64_t steps) const;
    // The same of three data tensors: one of its own, the limits, and what claims bring.
    [[nodiscard]] const core::TaskPrograms& tolerant(std::uint64_t steps) const;
    tensor::MemoryData data;  // which no step reads
    tensor::State init;
    std::unique_ptr<core::ProgramProver> prover;
    [[nodiscard]] Hash32 init_root() const { return tensor::state_root(init); }
};
const TinyProgram& tiny();

// What somebody computed: the truth, or with one step altered from which it goes on consistently; from the beginning,
// or from where another one had come to.
struct History {
    const core::TaskPrograms* programs = nullptr;
    std::uint64_t altered_step = 0;  // 0: the truth
    std::uint32_t mask = 0;          // flipped bits of the altered output
    std::uint64_t stride = 1;
    std::vector<tensor::State> states;  // S_0 … S_N
    std::vector<Hash32> step_roots;     // theirs
    std::vector<Hash32> roots;          // of S_0, S_u, … S_N: what is committed to
    Hash32 root;
    [[nodiscard]] std::uint32_t loss(std::uint64_t step) const { return states[step][0].words[0]; }
    // What is committed to of a stretch, and its root.
    [[nodiscard]] std::vector<Hash32> roots_of(const market::Stretch& stretch) const;
    [[nodiscard]] Hash32 root_of(const market::Stretch& stretch) const { return core::history_root(roots_of(stretch)); }
    [[nodiscard]] bool is_altered_in(const market::Stretch& stretch) const {
        return altered_step > stretch.before && altered_step <= stretch.last();
    }
};
[[nodiscard]] History compute_history(const core::TaskPrograms& programs, std::uint64_t altered_step = 0,
                                      std::uint32_t mask = 0, std::uint64_t stride = 1, const History* base = nullptr,
                                      std::uint64_t from = 0);
[[nodiscard]] History compute_history(std::uint64_t steps, std::uint64_t altered_step = 0, std::uint32_t mask = 0,
                                      std::uint64_t stride = 1);
// The same from another first state.
[[nodiscard]] History compute_history_from(const tensor::State& first, const core::TaskPrograms& programs,
                                           std::uint64_t altered_step = 0, std::uint32_t mask = 0,
                                           std::uint64_t stride = 1);
// Probe results of a report over this history; with `tile_mask` wrong in the first probe.
struct ReportData {
    core::SealedReport sealed;
    std::vector<core::Probe> probes;
};
[[nodiscard]] ReportData make_report(const TaskClaim& live, const types::Address& verifier, const History& history,
                                     bool pass, const Hash32& rival_root, std::uint64_t randomness,
                                     std::uint32_t tile_mask = 0);
// The opening of the first probe tile of a revealed report; `prover` is of the program of its step.
[[nodiscard]] core::ProbeChallenge open_probe(const ReportData& data, const core::ProgramProver& prover);
// A party of a dispute that stands for `history`; in a probe game `probe_step` may be altered by `probe_mask`.
[[nodiscard]] core::DisputeParty party_of(const TaskClaim& live, const History& history, std::uint64_t probe_step = 0,
                                          std::uint64_t probe_node = 0, std::uint32_t probe_mask = 0);

// A party that plays its history badly on purpose: the constant of each step is wrong by `mask`, its outcome is right.
[[nodiscard]] core::DisputeParty clumsy_party_of(const TaskClaim& live, const History& history, std::uint32_t mask);
// Opening of a challenge by this history, or by what of it belongs to a stretch.
[[nodiscard]] Bytes history_opening(const History& history);
[[nodiscard]] Bytes history_opening(const History& history, const market::Stretch& stretch);

struct World {
    World();

    void begin();  // the next block
    Result send(const types::Address& from, NativeKind kind, const Bytes& payload);
    template <types::Record T>
    Result send(const types::Address& from, NativeKind kind, const T& payload) {
        return send(from, kind, types::encode_record(payload));
    }
    // The same through the reserved address.
    template <types::Record T>
    Result call(const types::Address& from, NativeKind kind, const T& payload) {
        return send_transaction(from, call_transaction(from, kind, types::encode_record(payload)));
    }
    types::Transaction call_transaction(const types::Address& from, NativeKind kind, const Bytes& payload) const;
    Result send_transaction(const types::Address& from, const types::Transaction& tx);
    [[nodiscard]] Status finish();

    // One transaction in a block of its own; the test fails when an invariant breaks.
    template <types::Record T>
    Result one(const types::Address& from, NativeKind kind, const T& payload) {
        begin();
        auto result = send(from, kind, payload);
        const auto status = finish();
        EXPECT_TRUE(status) << status.error().to_string();
        return result;
    }
    void skip(std::uint64_t blocks);
    void skip_to(std::uint64_t next_height);     // so that the next block has this height
    void skip_until(std::uint64_t market_time);  // so that the next block is the first that has come to it
    void skip_until_due(std::uint64_t id);       // so that in the next block the task's tick is
    Result tick(std::uint64_t task);

    [[nodiscard]] types::Task task(std::uint64_t id) const { return *shared_task(id); }
    // Decoded once for each change.
    [[nodiscard]] std::shared_ptr<const types::Task> shared_task(std::uint64_t id) const;
    // With the task's present claim; state none where it has none.
    [[nodiscard]] TaskClaim live(std::uint64_t id) const { return *shared_live(id); }
    [[nodiscard]] std::shared_ptr<const TaskClaim> shared_live(std::uint64_t id) const;
    // With each of its unsettled claims; without one as shared_live.
    [[nodiscard]] std::vector<std::shared_ptr<const TaskClaim>> shared_claims(std::uint64_t id) const;
    [[nodiscard]] types::Claim claim(std::uint64_t id) const { return shared_live(id)->claim; }
    // Of the present claim, by place.
    [[nodiscard]] std::vector<types::VerifierReport> reports(std::uint64_t id) const {
        return shared_live(id)->reports;
    }
    [[nodiscard]] types::Claim claim(std::uint64_t id, std::uint8_t round) const;
    [[nodiscard]] std::optional<types::Claim> stored_claim(const types::ClaimId& id) const;
    [[nodiscard]] std::optional<types::Custody> custody(const types::ClaimId& id) const;
    // In the task's present round.
    [[nodiscard]] TaskClaim live_stretch(std::uint64_t id, std::uint32_t stretch) const;
    // Of the claim while the task runs, else of the task: when a tick moves it on, and why it is where it is.
    [[nodiscard]] std::uint64_t deadline(std::uint64_t id) const;
    [[nodiscard]] std::string reason(std::uint64_t id) const;
    [[nodiscard]] bool exists(std::uint64_t id) const;
    // Of the task and of all that has no payer of its own: what its deposit is for.
    [[nodiscard]] std::size_t bytes_of(std::uint64_t id) const;
    [[nodiscard]] types::Dispute dispute(std::uint64_t id) const { return *shared_dispute(id); }
    [[nodiscard]] std::shared_ptr<const types::Dispute> shared_dispute(std::uint64_t id) const;
    [[nodiscard]] std::optional<types::ProofRecord> proof(std::uint64_t task, std::uint16_t seat = 0) const;
    [[nodiscard]] types::RoleBond bond(Role role, const types::Address& of) const;
    [[nodiscard]] types::Globals globals() const;
    [[nodiscard]] std::uint64_t market_ms() const { return globals().market_ms; }
    [[nodiscard]] const types::Receipt& last_receipt() const { return execution->receipts().back(); }

    void bond_role(const types::Address& of, Role role, const Uint256& amount);

    // The running block's changes, over all blocks before it.
    [[nodiscard]] state::Overlay& state() { return *block_; }
    [[nodiscard]] const state::Overlay& state() const { return *block_; }
    // All invariants over everything since the empty state.
    [[nodiscard]] Status check_from_genesis();

    params::ChainParams params;
    std::uint64_t height = 0;
    std::uint64_t block_ms = 1'000;  // from each block's timestamp to the next one's
    std::unique_ptr<BlockExecution> execution;
    std::map<Hash32, std::vector<Hash32>> probes;  // as the logs of reveals have them, by result root
    // Who looks on, before each transaction and after it.
    std::function<void()> before_transaction;
    std::function<void(const types::RecoveredTransaction&, const types::Receipt&)> after_transaction;
    std::optional<Hash32> trace;  // when set: a hash over every block's changes and receipts so far

private:
    void take_claim(const types::ClaimId& id, TaskClaim& live) const;
    void fold();  // the block's changes into the blocks before it

    EmptyState empty_;
    state::Overlay committed_{empty_};
    std::optional<state::Overlay> block_;
    template <class T>
    struct Decoded {
        Bytes bytes;
        std::shared_ptr<const T> object;
    };
    template <class T>
    static std::shared_ptr<const T> shared(const state::Overlay& overlay, const Bytes& key, std::uint64_t id,
                                           std::map<std::uint64_t, Decoded<T>>& cache);
    mutable std::map<std::uint64_t, Decoded<types::Task>> tasks_;
    mutable std::map<std::uint64_t, Decoded<types::Claim>> claims_;            // by task, two for each
    mutable std::map<std::uint64_t, Decoded<types::VerifierReport>> reports_;  // kMaxVerifiers for each of these
    mutable std::map<std::uint64_t, Decoded<types::Dispute>> disputes_;
};

[[nodiscard]] types::TaskSubmitPayload spec_of(const core::TaskPrograms& programs, std::uint64_t interval);
[[nodiscard]] types::TaskSubmitPayload tiny_spec(std::uint64_t steps, std::uint64_t interval);
// In tolerance mode, with so many profilers of eight segments each.
[[nodiscard]] types::TaskSubmitPayload profiled_spec(std::uint64_t steps, std::uint64_t interval,
                                                     std::uint32_t profilers);
// Eight segments: l2 of the first is `noise`, the others are a little more, and move a little more.
[[nodiscard]] compute::tolerance::Profile some_profile(float noise, float movement = 3.0F);
[[nodiscard]] types::TaskCheckpointPayload checkpoint_of(const types::Task& task, const History& history,
                                                         std::uint64_t step);
[[nodiscard]] types::TaskProvePayload proof_of(const types::Task& task, const History& history,
                                               std::uint32_t stretch = 0);

}  // namespace quern::chain::exec::test
