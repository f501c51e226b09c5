// Amounts as people write and read them: grains, or with a unit. Used by the command line programs. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/uint256.h"

namespace quern {

inline constexpr std::size_t kQrnDecimals = 18;
inline constexpr std::size_t kGweiDecimals = 9;

// "1.5qrn", "2gwei", "1000" (grains) or "0x3e8" (grains). Errors: amount.too_many_decimals, uint256.*.
[[nodiscard]] inline Expected<Uint256> parse_amount(std::string_view text) {
    if (text.starts_with("0x")) return Uint256::from_hex_quantity(text);
    std::size_t decimals = 0;
    const auto unit = [&](std::string_view suffix, std::size_t places) {
        if (!text.ends_with(suffix)) return;
        text.remove_suffix(suffix.size());
        decimals = places;
    };
    unit("qrn", kQrnDecimals);
    unit("gwei", kGweiDecimals);
    const std::size_t dot = text.find('.');
    std::string digits(text.substr(0, dot));
    std::string fraction(dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1));
    if (fraction.size() > decimals || (dot != std::string_view::npos && fraction.empty()))
        return fail("amount.too_many_decimals", std::string(text));
    fraction.append(decimals - fraction.size(), '0');
    return Uint256::from_decimal(digits + fraction);
}

// Grains as QRN, without trailing zeros: "1.5".
[[nodiscard]] inline std::string in_qrn(const Uint256& grains) {
    std::string digits = grains.to_decimal();
    if (digits.size() <= kQrnDecimals) digits.insert(0, kQrnDecimals + 1 - digits.size(), '0');
    digits.insert(digits.size() - kQrnDecimals, ".");
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
    return digits;
}

}  // namespace quern
