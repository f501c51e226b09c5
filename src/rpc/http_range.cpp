#include "rpc/http_range.h"

#include <algorithm>
#include <charconv>

namespace quern::rpc {

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    return value;
}

ByteRange parse_range(std::string_view header, std::uint64_t size) {
    constexpr std::string_view kUnit = "bytes=";
    const ByteRange whole{ByteRange::Kind::whole, 0, size};
    const ByteRange unsatisfiable{ByteRange::Kind::unsatisfiable, 0, 0};
    if (!header.starts_with(kUnit)) return whole;
    header.remove_prefix(kUnit.size());
    const std::size_t dash = header.find('-');
    if (dash == std::string_view::npos) return whole;
    const std::string_view first = header.substr(0, dash);
    const std::string_view last = header.substr(dash + 1);
    if (first.empty()) {
        const auto suffix = parse_number(last);
        if (!suffix) return whole;
        if (*suffix == 0 || size == 0) return unsatisfiable;
        const std::uint64_t length = std::min(*suffix, size);
        return {ByteRange::Kind::part, size - length, length};
    }
    const auto from = parse_number(first);
    if (!from) return whole;
    std::uint64_t to = size;
    if (!last.empty()) {
        const auto end = parse_number(last);
        if (!end || *end < *from) return whole;
        to = *end >= size ? size : *end + 1;
    }
    if (*from >= size) return unsatisfiable;
    return {ByteRange::Kind::part, *from, to - *from};
}

}  // namespace quern::rpc
