// What a worker does about a task, as a pure function of what it knows: transactions to send and work to do. Solver,
// verifier, whistleblower, custodian, the player of disputes and the sender of ticks decide here and nowhere else; the
// shell (shell.h) performs. Decisions are made anew from the chain's state, so a restart loses none, and the same state
// asks for the same again: the sender (sender.h) sends each purpose once. No clocks, files, sockets or threads. Times:
// a transaction that is sent now is executed in block `height` + 1 at the earliest, whose market time is above the
// newest block's by a millisecond at least; an action is refused from its deadline on.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "chain/params/params.h"
#include "chain/types/native_objects.h"
#include "compute/core/dispute_strategy.h"
#include "compute/worker/faults.h"
#include "compute/worker/finding.h"
#include "compute/worker/watched.h"

namespace quern::compute::worker {

using chain::types::Address;
using chain::types::Claim;
using chain::types::Dispute;
using chain::types::Task;
using chain::types::TaskClaim;

// Data that nobody gives may still come: it is called missing in the last quarter of the window, when a transaction of
// the next blocks is still in time.
inline constexpr std::uint64_t kMissingShare = 4;
inline constexpr std::uint64_t kTickSpreadMs = 1'500;    // over which workers spread the same due tick
inline constexpr std::uint64_t kMaxSegments = 1U << 14;  // a solver's progress file holds a record for each
inline constexpr std::size_t kMaxGameBytes = 1U << 20;   // of a dispute as the node tells it

// Who decides, and what it was told to do.
struct Me {
    Address address;
    bool solver = false;
    bool verifier = false;
    bool whistleblower = false;
    bool custodian = false;
    bool ticks = true;
    Uint256 bid_price;  // grains per work unit, the least of profiles too; 0: half of the task's cap
    std::uint64_t max_memory_mib = 0;
    std::uint32_t speed_class = 0;  // what its bids promise; 0: whatever a task asks for
    std::uint32_t bandwidth_class = 0;
    // The chain's forced_error_inverse; nullopt: not known so far, and nothing is revealed that depends on it.
    std::optional<std::uint64_t> forced_error_inverse{};
    Fault fault = Fault::none;  // test builds only: those of wrong choices; others are the replays' and trainings'
    std::uint64_t max_disputes = chain::params::MarketParams{}.max_disputes;  // the chain's, once it matters
    bool profiles = true;  // as a verifier, where it was drawn for it
};

// --- What this process has found out so far --------------------------------------------------------------------------
// Whether an open task is one to bid on: its contents are here and are what their roots say.
struct Examined {
    bool fit = false;
    std::string unfit;  // why it never will be
};
struct CheckpointRecord {
    std::uint64_t step = 0;
    Hash32 state_root;
    Hash32 content;
    std::uint32_t loss = 0;
    std::vector<Hash32> loss_path;
    QUERN_FIELDS(v("step", step), v("stateRoot", state_root), v("content", content), v("loss", loss),
                 v("lossPath", loss_path))
};
// A training of a stretch in the task's present round.
struct Trained {
    std::vector<CheckpointRecord> checkpoints;                    // stored, and not posted yet
    std::shared_ptr<const std::vector<Hash32>> history;           // S_a, S_{a+u}, … S_b; null until it is complete
    std::shared_ptr<const chain::types::TaskProvePayload> proof;  // its manifest is stored
};
// A replay for the task's present draw.
struct Replayed {
    bool data_missing = false;  // what was given is not what was claimed
    bool data_awaited = false;  // not all is here: it is on its way, or nobody has it so far
    bool data_checked = false;  // every checkpoint that it starts from is here
    std::shared_ptr<const Finding> finding;
};
// What a profiler shows of a task, and the salt that it sealed it with: written before anything of it is told.
struct SealedProfile {
    Bytes measures;  // compute/core/profiling.h
    Hash32 salt;
    QUERN_FIELDS(v("measures", measures), v("salt", salt))
};
struct Profiled {
    std::shared_ptr<const SealedProfile> found;  // null: not measured so far
};
// What a custodian was drawn to keep.
struct Kept {
    bool data_missing = false;  // what was given is not what was claimed
    bool data_awaited = false;  // not all is here: it is on its way, or cannot be had so far
    bool data_checked = false;  // all of it is here
};
struct PlannedMove {
    std::string position;
    core::Move move;
};
struct DisputeView {
    std::shared_ptr<const Dispute> dispute;
    std::shared_ptr<const core::Game> game;      // null when it is closed or unreadable
    std::shared_ptr<const PlannedMove> planned;  // for the game's position; null: not computed
};
// That this worker was drawn as the watcher of a report: what the chain checks it by.
struct WatchTicket {
    Bytes public_key;  // 64 bytes
    Bytes proof;       // 81 bytes: its VRF's
};
struct View {
    std::uint64_t height = 0;     // of the newest block
    std::uint64_t market_ms = 0;  // its market time
    const TaskClaim& live;
    Examined examined;
    Trained trained;
    Replayed report;
    Replayed watch;
    std::vector<DisputeView> disputes;
    bool all_disputes = true;  // false: the node did not tell some of them
    // What reports have revealed, by their result roots, as far as it was asked for.
    std::map<Hash32, std::shared_ptr<const std::vector<Hash32>>> probes;
    bool covered = true;  // the solver's bond covers a bid on it beside all other bids (bid_cover.h)
    // What answers the question about a settled task's last state; null: it was not read.
    std::shared_ptr<const chain::types::DataAnswerPayload> piece{};
    // Of a whistleblower: whether it looks at a claim that nothing but its role makes it look at.
    bool watches = true;
    std::map<std::uint8_t, WatchTicket> tickets{};  // of a whistleblower: by the places of the reports that it watches
    Kept kept{};                                    // of a custodian
    Profiled profiled{};                            // of a profiler
    bool covers_profile = true;                     // it pays, and its bond can answer for it (profile_cover.h)
    Uint256 gas_price{};                            // the node's, where profiles are asked for; 0: not known
};

// --- What it wants ---------------------------------------------------------------------------------------------------
struct Attempt {
    std::string purpose;  // names the action; sent once while it waits
    chain::types::NativeKind kind = chain::types::NativeKind::tick;
    Bytes payload;
    bool each_block = false;  // after a refusal: tried again with the next block, else some blocks later
};
// The first of them that the node does not say would fail.
struct Send {
    std::vector<Attempt> attempts;
};
struct Decline {  // not bid on; for the log
    std::string reason;
};
// Work that is to be going on: what is no longer asked for is dropped, what was found is asked for by asking again.
struct Examine {};
struct Train {};
struct Report {};
struct Watch {};
struct Keep {
    std::size_t place = 0;  // among the claim's custodians
};
struct Play {
    std::uint64_t dispute = 0;
    core::Side side = core::Side::defender;
    bool due = false;                                  // a move of this side is
    std::shared_ptr<const std::vector<Hash32>> claim;  // null: the history that the solver published
    std::uint64_t deadline = 0;                        // market time from which the game is decided; 0: it waits
};
struct ReadProbes {  // the report's are not those that were computed here
    chain::types::VerifierReport report;
};
struct ReadPiece {};  // of the last state, that the submitter asks for
struct Profile {};    // the first segments, as a profiler
using Action = std::variant<Send, Decline, Examine, Train, Report, Watch, Keep, Play, ReadProbes, ReadPiece, Profile>;

// The place among the claim's present custodians; nullopt: none.
[[nodiscard]] std::optional<std::size_t> custodian_place(const TaskClaim& live, const Address& address);

// Whether what is held of the task's reward, now or once it has settled, is this solver's.
[[nodiscard]] bool is_owed(const Task& task, const Address& solver);

[[nodiscard]] std::vector<Action> decide(const Me& me, const View& view);

// Tells the chain what a verifier or a custodian can do, so that it is not drawn for more; nothing when the bond says
// so already.
[[nodiscard]] std::optional<Attempt> declare(const chain::types::RoleBond& bond, const chain::types::Capacity& mine);

// Names a position of a game: each has one move of a side.
[[nodiscard]] std::string position_of(const core::Game& game);

}  // namespace quern::compute::worker
