// Base64 (RFC 4648, section 4), for HTTP basic authentication. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern {
inline namespace base {

// With padding.
[[nodiscard]] std::string base64(std::string_view text);
// Strict: padding where it belongs, no other characters. nullopt for anything else.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace base
}  // namespace quern
