#include "wallet/amount.h"

namespace quern::wallet {

Expected<Uint256> parse_amount(std::string_view text) {
    if (text.starts_with("0x")) return Uint256::from_hex_quantity(text);
    std::size_t decimals = 0;
    const auto unit = [&](std::string_view suffix, std::size_t places) {
        if (!text.ends_with(suffix)) return;
        text.remove_suffix(suffix.size());
        decimals = places;
    };
    unit("qrn", kQrnDecimals);
    if (decimals == 0) unit("gwei", kGweiDecimals);
    const std::size_t dot = text.find('.');
    std::string digits(text.substr(0, dot));
    std::string fraction(dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1));
    if (fraction.size() > decimals || (dot != std::string_view::npos && fraction.empty()))
        return fail("amount.too_many_decimals",
                    decimals == 0 ? "without a unit these are grains, which are whole; 1.5 QRN is 1.5qrn"
                                  : "a grain is 10^-18 qrn, 1 qrn is 10^9 gwei");
    fraction.append(decimals - fraction.size(), '0');
    const auto number = Uint256::from_decimal(digits + fraction);
    if (!number) return detailed(number.error(), "a number of grains, or one with its unit: 1.5qrn, 2gwei");
    return *number;
}

Expected<Uint256> amount_of_option(std::string_view option, const std::string& text) {
    return named(std::string(option) + " " + text, parse_amount(text));
}

Expected<chain::types::Address> address_of_option(std::string_view option, const std::string& text) {
    return named(std::string(option) + " " + text, chain::types::parse_address(text));
}

}  // namespace quern::wallet
