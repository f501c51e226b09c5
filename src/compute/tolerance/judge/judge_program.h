// A tolerance task as an exact one: the training program T and a program that judges what a solver claims, over one
// state and one list of data, the last of which is the solver's (doc/tolerance.md, "Judged tasks"). Used by the chain's
// callers, solvers, verifiers and the compiler. Pure; thread-safe.
//
// A segment is k steps of T, the replay, and one judging step, which reads the claim of the segment:
//
//   slots  = T's, one for each claimed slot ("previous." || name, of a loose one "loose." || name),
//            "judge.segment" (i32 scalar: how many segments of the stretch are done), "judge.accepted" (i32 scalar)
//   data   = T's, the limits: f32[7], the claimed rows: f32[rows * L]
//   plan   = [[n, [[k, [0]], 1]]], 0 the training, 1 the judge; interval = stride = k + 1, N = n (k + 1)
//
// Claimed are the slots that are not exact (distance::Class), all of them f32. A row is what a solver says of them
// after a segment:
//
//   row    = for each claimed slot, in slot order: its words, row-major, from a multiple of G = 1,024 elements on;
//            its end is filled up with +0 to the next multiple of G. L is the sum.
//   bytes  = little endian words of binary32; row i of the tensor begins at byte 4 i L
//
// What the judge does with a replay r, the state p before the segment and the claim c: when every measure is within the
// limits, as tolerance::refused_by() says, claimed slots become c; else they become r, and accepted becomes 0 for good.
// So the states of a solver whose claims are near are its own, and no other claim leads anywhere but to the replay:
// who posts roots of a refused segment has to have computed it canonically. Exact slots are never claimed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compute/core/task_plan.h"
#include "compute/tolerance/distance/distance_program.h"
#include "compute/tolerance/limits.h"
#include "vm/tensor/executor.h"

namespace quern::compute::tolerance::judge {

using distance::Class;

inline constexpr std::uint32_t kRowUnit = vm::tensor::kTileWords;  // G: elements
inline constexpr std::uint64_t kMaxRows = kMaxLimitedSegments;     // 2^20, as many segments as a history has
// The index of a window is a word: rows * L / G is at most this.
inline constexpr std::uint64_t kMaxRowUnits = 0xffffffff;

struct RowSlot {
    std::size_t slot = 0;        // of the training, and of the judged programs
    std::uint64_t offset = 0;    // in elements, a multiple of kRowUnit
    std::uint64_t elements = 0;  // of the slot
};
// Where a row holds what.
struct RowLayout {
    std::uint64_t row_elements = 0;  // L
    std::vector<RowSlot> slots;      // the claimed ones, in slot order

    [[nodiscard]] std::uint64_t row_bytes() const { return 4 * row_elements; }
    // `state` of the training, or of the judged programs; `out` is row_bytes() long, all of it is written. Error
    // executor.bad_state: neither fits.
    [[nodiscard]] Status write_row(const vm::tensor::State& state, std::span<std::uint8_t> out) const;
    // Sets the claimed slots of such a state to a row's words; what lies between them is not looked at. The same error.
    [[nodiscard]] Status read_row(BytesView row, vm::tensor::State& state) const;
};

struct JudgedPrograms {
    vm::tensor::Program training;    // program 0: T's nodes, then a slot node for each new slot, which keeps it
    vm::tensor::Program judge;       // program 1
    std::vector<Class> classes;      // of T's slots
    std::size_t training_slots = 0;  // how many T has; the previous state of layout.slots[i] is slot training_slots + i
    RowLayout layout;
    std::uint64_t rows = 0;  // segments of a stretch, 1 to kMaxRows

    [[nodiscard]] std::size_t segment_slot() const { return training.slots.size() - 2; }
    [[nodiscard]] std::size_t accepted_slot() const { return training.slots.size() - 1; }
    [[nodiscard]] std::size_t limits_data() const { return training.header.data.size() - 2; }
    [[nodiscard]] std::size_t claimed_data() const { return training.header.data.size() - 1; }
    [[nodiscard]] std::uint64_t claimed_bytes() const { return rows * layout.row_bytes(); }
    // The plan's body of n segments of k steps, both 1 at least.
    [[nodiscard]] std::vector<core::PlanItem> body(std::uint64_t k, std::uint64_t n) const;
    // Errors: those of TaskPlan::make.
    [[nodiscard]] Expected<core::TaskPrograms> task(std::uint64_t k, std::uint64_t n) const;
};

// Of a valid training program, which is alone in its plan. Errors: those of classify; tolerance.bad_rows (none, or more
// than the bounds above allow); tolerance.reserved_name (a slot of the training is called as one of the judge's may
// be); program.* (names too long, too many slots or data).
[[nodiscard]] Expected<JudgedPrograms> build_judged_programs(const vm::tensor::Program& training, std::uint64_t rows,
                                                             std::span<const std::string> loose = {});

// The two programs of a judged task, whoever made them: of equal bytes with what build_judged_programs makes of the
// training in them, or error tolerance.not_a_judged_task with what differs. Of valid programs.
[[nodiscard]] Expected<JudgedPrograms> recognise(const vm::tensor::Program& training, const vm::tensor::Program& judge);
// The training T in program 0 of a judged task, as it is alone, and its loose parameters. Of a program that recognise()
// has accepted; of others it is no more than what they look like. Error tolerance.not_a_judged_task.
struct HeldTraining {
    vm::tensor::Program training;
    std::vector<std::string> loose;
};
[[nodiscard]] Expected<HeldTraining> held_training(const vm::tensor::Program& extended);
struct JudgedTask {
    JudgedPrograms programs;
    std::uint64_t k = 0;         // steps of a segment, without the judging one
    std::uint64_t segments = 0;  // of all stretches, rows at least
};
// The same of a task, with its plan.
[[nodiscard]] Expected<JudgedTask> recognise(const core::TaskPrograms& task);
// The same of one that solvers take: strides of `stride` steps end where segments do, since a solver has no canonical
// state elsewhere, and a stretch of so many steps has a row for each of its segments.
[[nodiscard]] Expected<JudgedTask> recognise(const core::TaskPrograms& task, std::uint64_t stride,
                                             std::uint64_t stretch_steps);

// The state of the judged task after `segments` segments of a stretch, none refused, the last of which ended in this
// checkpoint of the training: what a solver's roots are of. Error executor.bad_state.
[[nodiscard]] Expected<vm::tensor::State> state_after(const JudgedPrograms& programs,
                                                      const vm::tensor::State& checkpoint, std::uint64_t segments);
// S_0: state_after 0 segments.
[[nodiscard]] Expected<vm::tensor::State> first_state(const JudgedPrograms& programs,
                                                      const vm::tensor::State& training_state);
// Whether a state is a first state: for who is about to train from it. Errors: executor.bad_state,
// tolerance.bad_first_state.
[[nodiscard]] Status check_first_state(const JudgedPrograms& programs, const vm::tensor::State& state);
// The training's part of a state of the judged task: its first slots.
[[nodiscard]] vm::tensor::State training_state(const JudgedPrograms& programs, const vm::tensor::State& state);
// Whether no segment before this state was refused. Of a state of the judged task.
[[nodiscard]] bool accepted(const JudgedPrograms& programs, const vm::tensor::State& state);

}  // namespace quern::compute::tolerance::judge
