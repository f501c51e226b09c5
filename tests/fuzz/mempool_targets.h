// The pool's target (mempool_targets.cpp).
#pragma once

#include "fuzz/target.h"

namespace quern::fuzz {

[[nodiscard]] std::span<const Target> mempool_targets();

}  // namespace quern::fuzz
