// The nodes that say whether a segment is accepted: refused_by() as integer operations on words. Of the judge's
// program. Pure; thread-safe.
#pragma once

#include "compute/program/builder.h"
#include "compute/tolerance/distance/measuring.h"

namespace quern::compute::tolerance::judge {

// 1 where refused_by() refuses nothing, else 0: i32 scalar. limits: f32 [1,1,1,7], in the order of tolerance::Limits. A
// measure that is invalid is +0; `exact` is not asked for, since nobody claims exact slots.
[[nodiscard]] program::Value build_verdict(program::Builder& b, const distance::Measures& measures,
                                           program::Value limits);

}  // namespace quern::compute::tolerance::judge
