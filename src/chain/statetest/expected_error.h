// Whether an error is the one that a fixture expects. Pure; thread-safe.
#pragma once

#include <string_view>

namespace quern::chain::statetest {

// `name` is "tx.nonce_is_max" or "block.invalid_gaslimit", `expected` what execution-spec-tests calls it, or several of
// such: "TransactionException.NONCE_IS_MAX|...". Names of older fixtures ("TR_NonceHasMaxValue") are none of ours: then
// any error is right.
[[nodiscard]] bool is_expected(std::string_view name, std::string_view expected);

}  // namespace quern::chain::statetest
