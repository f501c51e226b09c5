// How many public keys this process has recovered from signatures: the dearest thing that a node does with a transfer,
// and what a restart must not do again. For logs and tests; thread-safe.
#pragma once

#include <cstdint>

namespace quern::crypto {

[[nodiscard]] std::uint64_t recoveries();

}  // namespace quern::crypto
