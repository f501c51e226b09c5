#include "chain/types/address.h"

#include "crypto/hash.h"

namespace quern::chain::types {

Address address_of(const crypto::PublicKey& key) { return crypto::address20(key); }

std::string to_checksum_address(const Address& address) {
    std::string text = to_hex0x(address);
    const Hash32 hash = crypto::keccak256(as_bytes(std::string_view(text).substr(2)));
    for (std::size_t i = 0; i < 40; ++i) {
        const unsigned nibble = i % 2 == 0 ? hash.data[i / 2] >> 4 : hash.data[i / 2] & 15U;
        char& digit = text[i + 2];
        if (nibble >= 8 && digit >= 'a' && digit <= 'f') digit = static_cast<char>(digit - 'a' + 'A');
    }
    return text;
}

Expected<Address> parse_address(std::string_view text) {
    if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
    if (text.size() != 40) return fail("address.bad_length", "expected 40 hex digits");
    const auto bytes = from_hex(text);
    if (!bytes) return fail("address.bad_hex", bytes.error().detail);
    const Address address = Address::copy_of(*bytes);
    const bool has_lower = text.find_first_of("abcdef") != std::string_view::npos;
    const bool has_upper = text.find_first_of("ABCDEF") != std::string_view::npos;
    if (has_lower && has_upper && std::string_view(to_checksum_address(address)).substr(2) != text)
        return fail("address.bad_checksum", "EIP-55; expected " + to_checksum_address(address));
    return address;
}

}  // namespace quern::chain::types
