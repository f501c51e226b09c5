#include "rpc/values.h"

#include <array>
#include <charconv>

#include "base/hex_digits.h"

namespace quern::rpc {
namespace {

using chain::api::BlockSelector;

constexpr std::size_t kHashText = 66;  // "0x" and 64 digits

Expected<std::string_view> hex_text(const json::Value& value) {
    const auto text = value.as_string();
    if (!text) return fail("value.wrong_type", "expected a hex string, got " + std::string(value.type_name()));
    if (!text->starts_with("0x") && !text->starts_with("0X"))
        return fail("value.bad_hex", "hex string without 0x prefix");
    return *text;
}

Expected<Bytes> whole_bytes(std::string_view text) {
    text.remove_prefix(2);
    if (text.size() % 2 != 0) return fail("value.bad_hex", "hex string of odd length");
    auto bytes = from_hex(text);
    if (!bytes || text.starts_with("0x") || text.starts_with("0X")) return fail("value.bad_hex", "invalid hex string");
    return bytes;
}

// Each address of each call of a batch comes through here.
template <std::size_t N>
Expected<FixedBytes<N>> fixed(const json::Value& value, const char* what) {
    QUERN_TRY(const std::string_view text, hex_text(value));
    if (text.size() != 2 * N + 2)
        return fail("value.bad_hex", "hex string has length " + std::to_string(text.size() - 2) + ", want " +
                                         std::to_string(2 * N) + " for " + what);
    FixedBytes<N> bytes;
    for (std::size_t i = 0; i < N; ++i) {
        const int high = hex_digit(text[2 + 2 * i]);
        const int low = hex_digit(text[3 + 2 * i]);
        if (high < 0 || low < 0) return fail("value.bad_hex", "invalid hex string");
        bytes.data[i] = static_cast<std::uint8_t>(high << 4 | low);
    }
    return bytes;
}

}  // namespace

std::string quantity(std::uint64_t value) {
    std::array<char, 18> text{'0', 'x'};
    return {text.data(), std::to_chars(text.data() + 2, text.data() + text.size(), value, 16).ptr};
}
std::string quantity(const Uint256& value) {
    return value.fits_u64() ? quantity(value.low_u64()) : value.to_hex_quantity();
}
std::string hex(BytesView bytes) { return to_hex0x(bytes); }

Expected<Uint256> read_quantity(const json::Value& value) {
    QUERN_TRY(const std::string_view text, hex_text(value));
    if (text.size() == 2) return fail("value.bad_quantity", "empty hex number");
    if (text.size() > 3 && text[2] == '0') return fail("value.bad_quantity", "hex number with leading zero digits");
    auto number = Uint256::from_hex_quantity(text);
    if (!number) return fail("value.bad_quantity", "invalid hex number");
    return number;
}

Expected<std::uint64_t> read_quantity64(const json::Value& value) {
    QUERN_TRY(const Uint256 number, read_quantity(value));
    if (!number.fits_u64()) return fail("value.out_of_range", "hex number > 64 bits");
    return number.low_u64();
}

Expected<std::uint64_t> read_number(const json::Value& value) {
    if (!value.is_integer()) return read_quantity64(value);
    const auto number = value.as_u64();
    if (!number) return fail("value.out_of_range", "negative number");
    return *number;
}

Expected<Bytes> read_data(const json::Value& value) {
    QUERN_TRY(const std::string_view text, hex_text(value));
    return whole_bytes(text);
}

Status check_data(const json::Value& value) {
    QUERN_TRY(std::string_view text, hex_text(value));
    text.remove_prefix(2);
    if (text.size() % 2 != 0) return fail("value.bad_hex", "hex string of odd length");
    int all = 0;
    for (const char c : text) all |= hex_digit(c);
    return all < 0 ? Status(fail("value.bad_hex", "invalid hex string")) : Status();
}

Expected<Hash32> read_hash(const json::Value& value) { return fixed<32>(value, "a hash"); }

Expected<chain::types::Address> read_address(const json::Value& value) { return fixed<20>(value, "an address"); }

Expected<BlockSelector> read_block(const json::Value& value) {
    BlockSelector selector;
    if (value.is_object()) {  // EIP-1898
        const json::Value* number = value.find("blockNumber");
        const json::Value* hash = value.find("blockHash");
        if ((number == nullptr) == (hash == nullptr))
            return fail("value.bad_block", "give one of blockNumber and blockHash");
        if (hash != nullptr) {
            selector.kind = BlockSelector::Kind::hash;
            QUERN_TRY(selector.hash, read_hash(*hash));
            return selector;
        }
        if (number->is_object()) return fail("value.bad_block", "blockNumber must be a number or a tag");
        return read_block(*number);
    }
    const auto text = value.as_string();
    if (!text) return fail("value.bad_block", "expected a block number, tag or hash");
    if (*text == "latest" || *text == "safe" || *text == "finalized") return selector;
    if (*text == "pending") {
        selector.kind = BlockSelector::Kind::pending;
        return selector;
    }
    if (*text == "earliest") {
        selector.kind = BlockSelector::Kind::earliest;
        return selector;
    }
    if (text->size() == kHashText) {
        selector.kind = BlockSelector::Kind::hash;
        QUERN_TRY(selector.hash, read_hash(value));
        return selector;
    }
    selector.kind = BlockSelector::Kind::number;
    QUERN_TRY(selector.number, read_quantity64(value));
    return selector;
}

}  // namespace quern::rpc
