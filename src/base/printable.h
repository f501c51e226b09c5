// Text of others on a terminal. What a node, a file or a peer says may hold sequences that clear the screen, colour it,
// name the window or write a question that nobody asked. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern {
inline namespace base {

// Bytes of one message that are shown.
inline constexpr std::size_t kMaxShownBytes = 4'096;
inline constexpr std::size_t kUnlimited = ~std::size_t{0};

// Which characters below 0x20 stay.
enum class Lines : bool { one, many };  // many: line ends and tabulators

// The text with each byte as \xNN (two lower-case hexadecimal digits) that is below 0x20, is 0x7f, is no part of valid
// UTF-8 (RFC 3629), or belongs to a character of the second set of controls (U+0080 to U+009F, ECMA-48) or to one that
// turns the direction of writing (U+202A to U+202E, U+2066 to U+2069). Of a text of more than `most` bytes the first
// ones, whole characters, and how many more there are.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = kMaxShownBytes, Lines lines = Lines::one);

}  // namespace base
}  // namespace quern
