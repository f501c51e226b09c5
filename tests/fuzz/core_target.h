// The stateful fuzz target of the consensus core: three honest validators and a Byzantine one, driven by the input's
// bytes. One thread.
#pragma once

#include "fuzz/target.h"

namespace quern::fuzz {

// Input: operations of one byte each, with the bytes that they take. True when a block became final.
bool run_sdbft_core(BytesView input);
[[nodiscard]] std::vector<Seed> seeds_sdbft_core();

}  // namespace quern::fuzz
