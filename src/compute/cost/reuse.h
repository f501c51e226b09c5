// How long ago a step last touched what it touches, in bytes: what says which cache it is in. Internal to compute/cost.
// One thread.
#pragma once

#include <array>
#include <vector>

#include "vm/tensor/plan.h"

namespace quern::compute::cost {

inline constexpr std::size_t kLevels = 6;
// Bytes touched since; of less than a quarter of the first nothing is counted: the nearest cache has it.
inline constexpr std::array<double, kLevels> kLadder{131072, 524288, 2097152, 8388608, 33554432, 134217728};

// `bytes` that were touched so long ago, by levels, those between two levels shared out.
[[nodiscard]] std::array<double, kLevels> levels_of(double bytes, double ago);

class Reuse {
public:
    Reuse(const vm::tensor::Program& program, const vm::tensor::ExecutionPlan& plan, std::size_t threads);

    // Of `words` words of the root from `offset` on: their bytes by levels.
    std::array<double, kLevels> touch(std::size_t root, std::ptrdiff_t offset, double words);

private:
    std::vector<double> base_;   // by root: where it begins, in words of one space
    std::vector<double> words_;  // by root
    std::vector<double> last_;   // by part of that space: when it was touched
    double part_words_ = 1;
    double now_ = 0;  // bytes touched so far
    double threads_ = 1;
};

}  // namespace quern::compute::cost
