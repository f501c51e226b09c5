// The two step programs by which a verifier judges a segment in tolerance mode: the training over a state that holds
// the solver's claim as well, and the distance between what the replay gives and that claim, as one step of canonical
// operations, so that it can be disputed like any other (doc/tolerance.md). Used by verifiers, profilers and what
// measures them. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compute/core/task_plan.h"
#include "compute/program/builder.h"
#include "compute/tolerance/measures.h"
#include "vm/tensor/executor.h"

namespace quern::compute::tolerance::distance {

// How a slot of the training is compared.
enum class Class : std::uint8_t {
    exact,      // every backend must give its bits: counters, powers of Adam's betas, what is not trained
    parameter,  // exported, and the step's loss depends on it: one vector, all parameters together
    companion,  // "<prefix>.<parameter>", such as moments: one vector for each prefix
    rest,       // each for itself, relative to its size: the loss, running statistics
    loose,      // a parameter that is not compared with the replay, only kept from moving further than others do
};

// By slot. A slot is exact when what it depends on, from step to step, is integer operations, data, copies and the
// primitives of IEEE-754 alone, other than fma (doc/tolerance.md, "Classes"). Errors: tolerance.no_parameters (none is
// compared), tolerance.rounded_integers (an i32 slot depends on rounding, so that no distance is small).
// `loose` names parameters whose true gradient is zero, of which Adam makes steps of full size of rounding noise, such
// as a bias before a batch norm; tolerance.unknown_parameter: one of them is no trained parameter.
[[nodiscard]] Expected<std::vector<Class>> classify(const vm::tensor::Program& training,
                                                    std::span<const std::string> loose = {});

// Both over one slot list: the training's, "claimed.<slot>" of all of them, "previous.<slot>" of those that are not
// exact, "distance.<measure>" of each measure (f32 scalars). `training` does what it did and keeps all others;
// `distance` keeps all but the last.
struct SegmentPrograms {
    vm::tensor::Program training;
    vm::tensor::Program distance;
    std::vector<Class> classes;      // of the training's slots
    std::size_t training_slots = 0;  // how many these are
    std::size_t first_measure = 0;   // the slot of measure 0

    // The plan's body of a segment of k steps, k 1 at least: [train x k, distance].
    [[nodiscard]] std::vector<core::PlanItem> body(std::uint64_t k) const;
};
// Of a valid program. Errors: those of classify, program.* (names too long, too many slots).
[[nodiscard]] Expected<SegmentPrograms> build_segment_programs(const vm::tensor::Program& training,
                                                               std::span<const std::string> loose = {});

// The state that a replay starts from: the solver's checkpoint before the segment, its claim after it. Both are states
// of the training program. Error executor.bad_state.
[[nodiscard]] Expected<vm::tensor::State> segment_state(const SegmentPrograms& programs,
                                                        const vm::tensor::State& previous,
                                                        const vm::tensor::State& claimed);
// Its slots' roots by those of the two checkpoints, without the words: so a chain that knows these knows the input of a
// dispute. Each as many as the training has slots; fewer give an empty list.
[[nodiscard]] std::vector<Hash32> segment_slot_roots(const SegmentPrograms& programs, std::span<const Hash32> previous,
                                                     std::span<const Hash32> claimed);

// What a state after the distance program says.
[[nodiscard]] Measured read_measured(const SegmentPrograms& programs, const vm::tensor::State& state);

}  // namespace quern::compute::tolerance::distance
