// How a worker plays the dispute game: given the game as the chain has it, the next move of one party. Holds what the
// party knows (programs, its own history, how to get the state before a step) and rebuilds traces and micro-traces on
// demand; moves depend on nothing else, so a worker that restarts goes on where it was. Used by solvers, verifiers and
// whistleblowers; a dishonest party of tests plays the same strategy with its altered execution. One thread at a time.
//
// Of a stride the roots of its states are rebuilt once, for `steps`, and kept. Of a step no output is kept. Games of
// one party may share what they execute (StepShare). What a phase asks for is taken from a tapped run of its own: the
// roots of all outputs for `state` and `trace`; one node's tile hashes for `tile`; one tile's micro-trace for `micro`
// and `element`; the tiles that one element reads for `leaf`. So a dispute runs its step four times at most, three of
// them only to the disputed node, and as often again after a restart.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <variant>

#include "base/cancellation.h"
#include "compute/core/dispute_game.h"
#include "compute/core/step_share.h"
#include "vm/tensor/executor.h"

namespace quern::compute::core {

struct NoMove {};   // nothing to do now: the other side is to move, or moving could only lose
struct Concede {};  // the party's own claim is not what it can stand for
using Move = std::variant<NoMove, SplitMove, LeafWitness, Concede>;

inline constexpr std::string_view kMoveCancelled = "dispute.cancelled";
inline constexpr std::string_view kDataMissing = "dispute.data_missing";

// Of a micro-trace whose states take no more all are kept, of a longer one those that the game asks for, which are
// computed again for each question.
inline constexpr std::uint64_t kKeptMicroBytes = 16U << 20;

struct DisputeParty {
    const TaskPrograms* programs = nullptr;  // outlives the strategy
    // S_0, S_u, … S_N as the party claims them; in probe games those of the history that the report is about.
    std::vector<Hash32> history;
    // S_{step-1}, the state before step `step`: usually replayed from a checkpoint.
    std::function<Expected<vm::tensor::State>(std::uint64_t step)> state_before;
    // Roots of S_first … S_last, of one stride, as this party computes them; asked for where a stride has several
    // steps.
    std::function<Expected<std::vector<Hash32>>(std::uint64_t first, std::uint64_t last)> states_of;
    const vm::tensor::DataSource* data = nullptr;  // outlives the strategy
    vm::tensor::Tensor seed;
    vm::tensor::arith::Backend backend = vm::tensor::arith::Backend::scalar;
    ThreadPool* pool = nullptr;  // may be null
    // Shared with the party's other games about the same task (programs, data, seed, alterations); null: of this game.
    std::shared_ptr<StepShare> share;
    std::uint64_t kept_micro_bytes = kKeptMicroBytes;
    // Only of a dishonest party: how it altered the outputs of nodes of a step when it computed its history.
    std::function<void(std::uint64_t step, std::uint32_t node, vm::tensor::Tensor& output)> alter;
};

// What a strategy holds of a step besides the states that are kept before steps, data and seed: a tapped run, and what
// it keeps of one and of a stride of `stride` steps. Between two moves only the latter.
[[nodiscard]] std::uint64_t dispute_bytes(const vm::tensor::Program& program, std::uint64_t stride);
[[nodiscard]] std::uint64_t game_bytes(const vm::tensor::Program& program, std::uint64_t stride);  // the latter
[[nodiscard]] std::uint64_t game_bytes(std::span<const vm::tensor::Program> programs,
                                       std::uint64_t stride);  // the most of them

class DisputeStrategy {
public:
    explicit DisputeStrategy(DisputeParty party);
    ~DisputeStrategy();
    DisputeStrategy(DisputeStrategy&&) noexcept;
    DisputeStrategy& operator=(DisputeStrategy&&) noexcept;

    // The move that `side` (this party's side) should make now. `post`: the defender's that waits, which the rival
    // answers; null when none does. In the `leaf` phase, and where the tile phase meets an input node, whoever is right
    // proves it and whoever is wrong keeps still (its clock, or the other's proof, ends it). Errors: those of
    // state_before and states_of; dispute.wrong_state when they are not the history's; dispute.bad_game;
    // dispute.post_missing and dispute.wrong_post, where the rival is not given the post that waits;
    // dispute.cancelled (busy) soon after the cancellation was requested, and dispute.data_missing (busy) where the
    // data source had not what was asked of it: what was finished before is kept.
    [[nodiscard]] Expected<Move> next_move(const Game& game, Side side, const SplitMove* post,
                                           const Cancellation* cancellation = nullptr);
    // The witness of the disputed leaf from this party's execution, right or not. Errors: as next_move;
    // dispute.wrong_phase.
    [[nodiscard]] Expected<LeafWitness> leaf_witness(const Game& game, const Cancellation* cancellation = nullptr);

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::compute::core
