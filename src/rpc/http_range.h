// HTTP byte ranges (RFC 9110, section 14). Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quern::rpc {

struct ByteRange {
    enum class Kind : std::uint8_t { whole, part, unsatisfiable } kind = Kind::whole;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

// A decimal number of 64 bits; nullopt: something else.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);
// What a Range header asks of a body of `size` bytes. A header that is missing, malformed, in another unit or with
// several ranges means the whole body, as the RFC allows.
[[nodiscard]] ByteRange parse_range(std::string_view header, std::uint64_t size);

}  // namespace quern::rpc
