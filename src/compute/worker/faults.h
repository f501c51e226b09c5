// Planted dishonesty for tests and the demo: what a cheating solver, verifier or accuser would claim. quern-worker has
// the option -test-fault only in test builds (QUERN_TEST_FAULTS). Plain values.
#pragma once

#include <functional>
#include <string_view>

#include "base/expected.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

enum class Fault : std::uint8_t {
    none,
    // Solver's other histories, skip_work to interpolated.
    skip_work,         // solver: from `step` to the end no parameter or moment moves, only the counters do
    wrong_update,      // solver: in `step` the first parameter gets twice its update
    large_update,      // solver: in `step` all parameters get 64 times their update
    flip_element,      // solver: in `step` one bit of one element of one matmul's output is flipped
    wrong_slot,        // solver: in `step` it reads a bit of the first parameter otherwise than it is
    wrong_init,        // solver: in step 1 it reads parameters half as large as those that the task begins with
    easy_data,         // solver: from `step` on it trains on one token, again and again
    data_order,        // solver: from `step` on it takes what the step's windows hold in the reverse order
    altered_rate,      // solver: from `step` on parameters get half of their update
    tiny_updates,      // solver: from `step` on they get 2^-10 of it
    stale_momentum,    // solver: from `step` on the optimizer's moments stay what they are
    every_other_step,  // solver: from `step` on only each second step moves anything but the counters
    interpolated,  // solver: from `step` on parameters shrink by one part in 2^10 each, as on a line to a made-up end
    pass_without_work,  // verifier: reports PASS and invented probes without replaying
    false_accusation,   // verifier or whistleblower: accuses correct work with a history altered at `step`
    other_flip,         // the same with another bit of the element of flip_element, and shows the leaf that refutes it
    wrong_choice,       // verifier: opens the other one of its two sealed results than it has to
    silent_opening,     // verifier: never shows which of the two it had to open
    bad_custody,        // solver: its custody manifest names wrong fragments
    wrong_largest,      // solver: as the segments that move most its proof names those behind them
};

struct FaultPlan {
    Fault fault = Fault::none;
    std::uint64_t step = 0;  // 1..N; 0: the middle of the training

    // Of these the solver computes another history than the task's.
    [[nodiscard]] bool solver_cheats() const { return fault >= Fault::skip_work && fault <= Fault::interpolated; }
    // Of these a verifier or whistleblower accuses with another history than the task's.
    [[nodiscard]] bool accuser_cheats() const { return fault == Fault::false_accusation || fault == Fault::other_flip; }
};

// All names, and how a step is added.
[[nodiscard]] std::string known_faults();
// "skip_work", "wrong_update@7", ... Errors: fault.unknown, fault.bad_step.
[[nodiscard]] Expected<FaultPlan> parse_fault(std::string_view text);

// How the plan changes the outputs of `step` (of `steps`), or an empty function when it leaves that step alone. A false
// accuser's own history uses flip_element's change. `before` must outlive the function.
using Alteration = std::function<void(std::uint32_t node, vm::tensor::Tensor& output)>;
[[nodiscard]] Alteration alteration(const FaultPlan& plan, const vm::tensor::Program& program,
                                    const vm::tensor::State& before, std::uint64_t step, std::uint64_t steps);

}  // namespace quern::compute::worker
