#include "base/base64.h"

#include <cstdint>

namespace quern {
inline namespace base {

std::string base64(std::string_view text) {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((text.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < text.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; ++j)
            group = group << 8 | (i + j < text.size() ? static_cast<std::uint8_t>(text[i + j]) : 0U);
        for (std::size_t j = 0; j < 4; ++j) out += i + j <= text.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    const auto digit = [](char c) -> int {
        if (c >= 'A' && c <= 'Z') return c - 'A';
        if (c >= 'a' && c <= 'z') return c - 'a' + 26;
        if (c >= '0' && c <= '9') return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
    };
    if (text.size() % 4 != 0) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    for (std::size_t i = 0; i < text.size(); i += 4) {
        const bool is_last = i + 4 == text.size();
        const std::size_t padding = !is_last ? 0 : text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const int value = j < 4 - padding ? digit(text[i + j]) : 0;
            if (value < 0) return std::nullopt;
            group = group << 6 | static_cast<std::uint32_t>(value);
        }
        for (std::size_t j = 0; j < 3 - padding; ++j) out += static_cast<char>(group >> (16 - 8 * j) & 0xff);
        if (is_last && (group & ((1U << (8 * padding)) - 1)) != 0) return std::nullopt;
    }
    return out;
}

}  // namespace base
}  // namespace quern
