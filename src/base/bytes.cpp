#include "base/bytes.h"

namespace quern {
inline namespace base {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

void append_hex(std::string& text, BytesView bytes) {
    for (const auto byte : bytes) {
        text.push_back(kHexDigits[byte >> 4]);
        text.push_back(kHexDigits[byte & 15]);
    }
}

}  // namespace

std::string to_hex(BytesView bytes) {
    std::string text;
    text.reserve(2 * bytes.size());
    append_hex(text, bytes);
    return text;
}

std::string to_hex0x(BytesView bytes) {
    std::string text;
    text.reserve(2 * bytes.size() + 2);
    text = "0x";
    append_hex(text, bytes);
    return text;
}

Expected<Bytes> from_hex(std::string_view text) {
    if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
    if (text.size() % 2 != 0) return fail("hex.odd_length");
    Bytes bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = hex_value(text[i]);
        const int low = hex_value(text[i + 1]);
        if (high < 0 || low < 0) return fail("hex.bad_digit", "at offset " + std::to_string(i));
        bytes.push_back(static_cast<std::uint8_t>(high << 4 | low));
    }
    return bytes;
}

}  // namespace base
}  // namespace quern
