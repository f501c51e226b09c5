// Which segments of a claimed history move most, and what its rows say of that without a replay. The rows are committed
// to as the last data tensor of a claim, so everybody comes to the same segments; that the states of the history are
// these rows can be seen as well, since what a row does not hold is exact, and cheap to compute (doc/tolerance.md,
// "Samples"). Used by solvers, who name these segments, and by verifiers, who check that. Pure; one thread each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/tolerance/judge/judge_program.h"
#include "vm/tensor/data.h"
#include "vm/tensor/executor.h"

namespace quern::compute::tolerance::judge {

// The `count` segments of the largest movement in the order of order_of(), so that what is no number comes first, among
// equals the earlier ones. Ascending; all when there are no more.
[[nodiscard]] std::vector<std::uint64_t> largest_segments(std::span<const std::uint32_t> movements,
                                                          std::uint64_t count);

// The training T with updates of exact slots alone, and the nodes that these need; all other slots keep their values.
// Error program.*.
[[nodiscard]] Expected<vm::tensor::Program> exact_part(const vm::tensor::Program& training,
                                                       std::span<const Class> classes);
// Whether that is at most this part of a step's work units: else whoever submits a task could have all its verifiers
// train it for nothing, and rows are not checked.
inline constexpr std::uint64_t kMostExactPart = 8;
[[nodiscard]] Expected<bool> is_checked(const JudgedPrograms& programs);

// Goes over the rows of a stretch as if each were the state that its segment ends in: sees how far that is from the
// state before, and whether it is the history's. It holds a state of the training, its parameters twice more, and the
// arena of their differences: less than a step of the training and its state.
class RowWalk {
public:
    // All of it outlives the walk. `data` is the claim's, the rows included; `cancellation` may be null.
    struct Parts {
        const JudgedPrograms& programs;
        std::uint64_t k = 0;  // steps of a segment, without the judging one
        const vm::tensor::DataSource& data;
        const vm::tensor::Tensor& seed;
        vm::tensor::arith::Backend backend;
        ThreadPool* pool = nullptr;
        const Cancellation* cancellation = nullptr;
    };
    // `start`: the state of the judged task that the stretch begins with. Errors: executor.bad_state, program.*.
    [[nodiscard]] static Expected<std::unique_ptr<RowWalk>> make(const Parts& parts, vm::tensor::State start);
    ~RowWalk();
    RowWalk(const RowWalk&) = delete;
    RowWalk& operator=(const RowWalk&) = delete;

    // To the row of the segment `segments` further on, 1 at least: how far the parameters are from where the walk was,
    // by the nodes of the measure `movement`. Errors: busy tolerance.no_rows (cancelled, or data that cannot be had);
    // tolerance.bad_rows (there is no such row).
    [[nodiscard]] Expected<std::uint32_t> advance(std::uint64_t segments);
    // Whether the judged task's state there, with the root `root`, is the row. It is one that refused a claim, if the
    // state before was, or may be; else it is either. Error tolerance.unbound_rows.
    [[nodiscard]] Status check(const Hash32& root);

private:
    struct Impl;
    explicit RowWalk(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::compute::tolerance::judge
