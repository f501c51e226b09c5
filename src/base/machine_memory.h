// How much memory this machine has, to be asked before a program, a state or another thing that somebody else has made
// is given any. Used by quern-compile, quern-train and quern-wallet. Thread-safe.
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace quern {
inline namespace base {

// Bytes of main memory, in use or not; 2^64 - 1 where the system does not say.
[[nodiscard]] std::uint64_t machine_memory();
// Error: memory.too_little, with both figures in MiB.
[[nodiscard]] Status check_memory(std::uint64_t needed, std::uint64_t memory = machine_memory());

}  // namespace base
}  // namespace quern
