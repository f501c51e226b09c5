#include "base/printable.h"

#include <algorithm>
#include <cstdint>

namespace quern {
inline namespace base {
namespace {

constexpr std::uint8_t kDelete = 0x7f;
constexpr std::uint32_t kLastControl = 0x9f;  // of the second set
constexpr std::uint32_t kMostCharacter = 0x10ffff;

// A character of UTF-8 at the front of `text`: how many bytes it has, 0 where there is none.
struct Character {
    std::uint32_t code = 0;
    std::size_t bytes = 0;
};
Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
    const std::uint8_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    std::uint32_t code = lead & (0xffU >> (bytes + 1));
    for (std::size_t at = 1; at < bytes; ++at) {
        if ((byte(at) & 0xc0U) != 0x80U) return {};
        code = code << 6 | (byte(at) & 0x3fU);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by bytes: shorter forms are the only ones
    if (code < kLeast[bytes] || code > kMostCharacter || (code >= 0xd800 && code <= 0xdfff)) return {};
    return {code, bytes};
}

bool is_shown(std::uint32_t code, Lines lines) {
    if (code < 0x20) return lines == Lines::many && (code == '\n' || code == '\t');
    if (code >= kDelete && code <= kLastControl) return false;
    return !(code >= 0x202a && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& out, std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (const char each : bytes) {
        const auto byte = static_cast<std::uint8_t>(each);
        out += "\\x";
        out += kDigits[byte >> 4];
        out += kDigits[byte & 0xfU];
    }
}

}  // namespace

std::string printable(std::string_view text, std::size_t most, Lines lines) {
    std::string shown;
    shown.reserve(std::min(text.size(), most));
    while (!text.empty()) {
        const Character next = first_character(text);
        const std::size_t bytes = std::max<std::size_t>(next.bytes, 1);
        if (bytes > most) break;
        const std::string_view whole = text.substr(0, bytes);
        if (next.bytes != 0 && is_shown(next.code, lines))
            shown += whole;
        else
            append_escaped(shown, whole);
        text.remove_prefix(bytes);
        most -= bytes;
    }
    if (!text.empty()) shown.append("... (").append(std::to_string(text.size())).append(" bytes more)");
    return shown;
}

}  // namespace base
}  // namespace quern
