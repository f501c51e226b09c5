// Adam's two moments of a parameter, found in a training program, and a bound that holds between them whatever the
// gradients are: what keeps claimed moments from steering the steps after them. Pure; thread-safe.
#pragma once

#include <vector>

#include "vm/tensor/graph.h"

namespace quern::compute::tolerance::distance {

// m' = keep1 * m + rate1 * g and v' = keep2 * v + rate2 * g², of one g and one shape. From m = v = 0 on it is, by the
// inequality of Cauchy and Schwarz, |m| <= sqrt(bound) * sqrt(v) with bound = rate1² / (rate2 * (1 - keep1² / keep2)).
struct MomentPair {
    std::size_t first = 0;   // slot of m
    std::size_t second = 0;  // slot of v
    float bound = 0;         // kMomentSlack times the above; a positive number. 53.7 of Adam with its usual factors
};
// Above rounding by much, and below everything that makes a difference.
inline constexpr double kMomentSlack = 1.015625;
// Squares of tiny gradients are 0, so that v lacks them: |m| up to this is allowed beside any v.
inline constexpr float kTinyMoment = 0x1p-50F;

// In the order of first's slots. Left out are pairs that no such bound holds for: keep1² >= keep2, and factors that are
// not between 0 and 1.
[[nodiscard]] std::vector<MomentPair> find_moment_pairs(const vm::tensor::Program& training);

}  // namespace quern::compute::tolerance::distance
