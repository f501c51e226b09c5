// The plan of a task: which program each of its steps runs. Programs over one slot list, in repeats of repeats, so that
// a training of 2^40 steps is a few bytes long, and the program and the work of any step are found without unfolding.
// Used by the chain (task_submit, money, disputes), workers, wallets and the compiler. Immutable; thread-safe.
//
//   plan = [1, [program root...], [header...], body]        RLP; headers as in programs (vm/tensor/graph.h)
//   body = [item...]            item = program number | [count, body]
//
// Steps are numbered 1 to N over the whole unfolded plan; step j leads from S_{j-1} to S_j. What is valid, and why:
// doc/plans.md.
#pragma once

#include <span>
#include <vector>

#include "base/uint256.h"
#include "chain/market/work.h"
#include "vm/tensor/graph.h"

namespace quern::compute::core {

inline constexpr std::uint64_t kPlanFormat = 1;
inline constexpr std::size_t kMaxPlanBytes = 8U << 10;
inline constexpr std::size_t kMaxPlanPrograms = 8;
inline constexpr std::size_t kMaxPlanItems = 16;  // of a body
inline constexpr std::size_t kMaxPlanBodies = 64;
inline constexpr unsigned kMaxPlanDepth = 4;  // bodies in each other, the outermost counted
inline constexpr std::uint64_t kMaxPlanCount = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kMaxPlanSteps = std::uint64_t{1} << 40;

struct PlanItem {
    std::uint32_t program = 0;   // one step of this program, when count is 1
    std::uint64_t count = 1;     // 2 and more: so many times `body`
    std::vector<PlanItem> body;  // empty when count is 1

    bool operator==(const PlanItem&) const = default;
};
[[nodiscard]] inline PlanItem plan_step(std::uint32_t program) { return {program, 1, {}}; }
[[nodiscard]] inline PlanItem plan_repeat(std::uint64_t count, std::vector<PlanItem> body) {
    return {0, count, std::move(body)};
}
// `steps` (1 at least) steps of program 0.
[[nodiscard]] std::vector<PlanItem> plain_body(std::uint64_t steps);

struct PlanProgram {
    Hash32 root;
    vm::tensor::ProgramHeader header;

    bool operator==(const PlanProgram&) const = default;
};

class TaskPlan {
public:
    // Errors: plan.too_large, plan.bad_program_count, plan.bad_program, plan.unused_program, plan.programs_differ,
    // plan.bad_body, plan.bad_count, plan.too_deep, plan.too_many_bodies, plan.not_shortest, plan.too_many_steps.
    [[nodiscard]] static Expected<TaskPlan> make(std::vector<PlanProgram> programs, std::vector<PlanItem> body);
    // Strict. Errors: those of make, plan.unknown_format, program.*, rlp.*.
    [[nodiscard]] static Expected<TaskPlan> decode(BytesView bytes);
    [[nodiscard]] const Bytes& bytes() const { return bytes_; }
    [[nodiscard]] Hash32 id() const;  // merkle_leaf of the bytes

    [[nodiscard]] const std::vector<PlanProgram>& programs() const { return programs_; }
    [[nodiscard]] const std::vector<PlanItem>& body() const { return body_; }
    // What the programs agree in may be read of any: data, slots, loss slot, commit work, state bytes.
    [[nodiscard]] const vm::tensor::ProgramHeader& header() const { return programs_.front().header; }
    [[nodiscard]] std::uint64_t steps() const { return levels_.front().steps; }  // N

    // Of step j in 1..N. Four divisions at most, whatever N is.
    [[nodiscard]] std::uint32_t program_of(std::uint64_t step) const;
    [[nodiscard]] const PlanProgram& at(std::uint64_t step) const { return programs_[program_of(step)]; }

    // --- Work, in work units, without the hashing of states ----------------------------------------------------------
    [[nodiscard]] Uint256 work_until(std::uint64_t step) const;  // of steps 1 to j, j in 0..N
    // What no `count` steps in a row exceed, from the sizes of the repeats. Exact when all programs cost the same, when
    // count is 1, and for a plan that is one repeat whenever its body's length divides count.
    [[nodiscard]] Uint256 most_work(std::uint64_t count) const;
    // Of the stretch's steps, and a commitment each `stride` of them.
    [[nodiscard]] Uint256 work_of(const chain::market::Stretch& stretch, std::uint64_t stride) const;
    // The numbers that a task's money and windows depend on, for segments of `interval` steps, a commitment each
    // `stride` of them, and stretches of `tranche` (0: one), the commitments included.
    [[nodiscard]] chain::market::PlannedWork planned(std::uint64_t interval, std::uint64_t stride,
                                                     std::uint64_t tranche = 0) const;

private:
    struct Entry {
        std::uint64_t first = 0;  // steps of the body before it
        Uint256 before;           // their work
        std::uint32_t program = 0;
        std::uint64_t count = 1;
        std::size_t level = 0;  // of its body, when count > 1
    };
    struct Level {  // a body, once
        std::vector<Entry> entries;
        std::uint64_t steps = 0;
        Uint256 work;
        std::uint64_t largest = 0;  // the most work of one of its steps
    };
    struct Place {
        std::uint32_t program = 0;
        Uint256 before;  // work of the steps before
    };
    TaskPlan() = default;
    [[nodiscard]] Expected<std::size_t> add_level(const std::vector<PlanItem>& body, unsigned depth,
                                                  std::vector<bool>& used);
    [[nodiscard]] Place find(std::uint64_t step) const;
    [[nodiscard]] std::uint64_t work_of(std::uint32_t program) const;
    [[nodiscard]] Uint256 most_work(const Level& level, std::uint64_t count) const;
    [[nodiscard]] Uint256 most_work(const Entry& entry, std::uint64_t count) const;

    std::vector<PlanProgram> programs_;
    std::vector<PlanItem> body_;
    std::vector<Level> levels_;  // the outermost first
    Bytes bytes_;
};

// A plan with its programs in full: what whoever runs its steps holds.
struct TaskPrograms {
    TaskPlan plan;
    std::vector<vm::tensor::Program> programs;  // in the plan's order, each valid

    // Of valid programs. Errors: those of TaskPlan::make.
    [[nodiscard]] static Expected<TaskPrograms> make(std::vector<vm::tensor::Program> programs,
                                                     std::vector<PlanItem> body);
    [[nodiscard]] const vm::tensor::Program& at(std::uint64_t step) const { return programs[plan.program_of(step)]; }
    // For what all agree in: slots, data, loss slot.
    [[nodiscard]] const vm::tensor::Program& any() const { return programs.front(); }
};

}  // namespace quern::compute::core
