#include "base/bytes.h"

#include "base/hex_digits.h"

namespace quern {
inline namespace base {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(std::string& text, BytesView bytes) {
    std::size_t at = text.size();
    text.resize(at + 2 * bytes.size());
    for (const auto byte : bytes) {
        text[at++] = kHexDigits[byte >> 4];
        text[at++] = kHexDigits[byte & 15];
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
    Bytes bytes(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = hex_digit(text[i]);
        const int low = hex_digit(text[i + 1]);
        if ((high | low) < 0) return fail("hex.bad_digit", "at offset " + std::to_string(i));
        bytes[i / 2] = static_cast<std::uint8_t>(high << 4 | low);
    }
    return bytes;
}

}  // namespace base
}  // namespace quern
