// Text of a file in messages: what a terminal would obey is no part of them. Used by the file readers. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace quern::compute::program {

// Whether text has control characters other than tabs and ends of lines (below 0x20, 0x7f, U+0080 to U+009f in UTF-8).
[[nodiscard]] inline bool has_controls(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool is_space = byte == '\t' || byte == '\n' || byte == '\r';
        if ((byte < 0x20 && !is_space) || byte == 0x7f) return true;
        if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
    }
    return false;
}

// The first bytes of a text, with '?' for each that is not ASCII or a control character.
[[nodiscard]] inline std::string readable(std::string_view text, std::size_t most = 64) {
    std::string shown(text.substr(0, most));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return shown;
}

}  // namespace quern::compute::program
