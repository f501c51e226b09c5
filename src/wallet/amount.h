// Amounts, addresses and hashes as people write them on a command line. Used by quern-wallet, quern-genesis and
// quern-cli. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/uint256.h"
#include "chain/types/address.h"
#include "chain/types/amount.h"

namespace quern::wallet {

using chain::types::in_qrn;
using chain::types::kQrnDecimals;
inline constexpr std::size_t kGweiDecimals = 9;

// "1.5qrn", "2gwei", "1000" (grains) or "0x3e8" (grains). Errors: amount.too_many_decimals, uint256.*.
[[nodiscard]] Expected<Uint256> parse_amount(std::string_view text);

// The value, or its error with the option (or file) that it came from before the detail.
template <class T>
[[nodiscard]] Expected<T> named(std::string_view source, Expected<T> value) {
    if (value) return value;
    const std::string& detail = value.error().detail;
    return detailed(value.error(), std::string(source) + (detail.empty() ? "" : ": " + detail));
}
// The same for what an option says: "--to 0xAA: expected 40 hex digits". Errors: as parse_amount(), address.*.
[[nodiscard]] Expected<Uint256> amount_of_option(std::string_view option, const std::string& text);
[[nodiscard]] Expected<chain::types::Address> address_of_option(std::string_view option, const std::string& text);

}  // namespace quern::wallet
