// Why an execution that was begun fails, beside what native kinds say: geth's words, which clients match on. Used by
// execution and by what tries calls out. Plain constants.
#pragma once

#include <string_view>

namespace quern::chain::exec {

inline constexpr std::string_view kOutOfGas = "out of gas";
inline constexpr std::string_view kInsufficientForTransfer = "insufficient funds for transfer";

}  // namespace quern::chain::exec
