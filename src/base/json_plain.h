// Reads what most JSON texts are: ASCII strings without escapes, whole numbers, no error. Of these it makes what the
// strict parser would, several times as fast, as it looks at eight characters of a string at once; of all others
// nothing: those are for the strict parser, which also says what is wrong. Private to json.cpp, whose Builder it fills.
// Bounded by the builder's limits; no recursion. Used by one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace quern {
inline namespace base {
namespace json {

template <class Builder>
class PlainReader {
public:
    explicit PlainReader(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

    // False when the text is not that plain.
    [[nodiscard]] bool read(Builder& builder) {
        for (;;) {
            if (!value(builder)) return false;
            // Values that end here end what holds them, too.
            for (bool ended = true; ended;) {
                skip_spaces();
                if (open_.empty()) return at_ == end_;
                if (at_ == end_) return false;
                Open& inner = open_.back();
                ++inner.count;
                const char c = *at_++;
                if (c == ',') {
                    if (inner.is_object && !key(builder)) return false;
                    ended = false;
                } else if (c == (inner.is_object ? '}' : ']')) {
                    if (!close(builder, inner.count)) return false;
                } else {
                    return false;
                }
            }
        }
    }

private:
    struct Open {
        bool is_object;
        std::uint32_t count;  // of values that have ended
    };

    void skip_spaces() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
    }
    bool close(Builder& builder, std::uint32_t count) {
        const bool is_object = open_.back().is_object;
        open_.pop_back();
        return is_object ? builder.EndObject(count) : builder.EndArray(count);
    }
    // A value whole, or the beginning of an array or object up to its first value.
    bool value(Builder& builder) {
        for (;;) {
            skip_spaces();
            if (at_ == end_) return false;
            switch (*at_) {
                case '"': {
                    std::string_view text;
                    return string(text) && builder.plain_string(text);
                }
                case '{':
                case '[': {
                    const bool is_object = *at_++ == '{';
                    if (!(is_object ? builder.StartObject() : builder.StartArray())) return false;
                    open_.push_back({is_object, 0});
                    skip_spaces();
                    if (at_ == end_) return false;
                    if (*at_ == (is_object ? '}' : ']')) {
                        ++at_;
                        return close(builder, 0);
                    }
                    if (is_object && !key(builder)) return false;
                    continue;
                }
                case 't':
                    return literal("true") && builder.Bool(true);
                case 'f':
                    return literal("false") && builder.Bool(false);
                case 'n':
                    return literal("null") && builder.Null();
                default:
                    return number(builder);
            }
        }
    }
    bool key(Builder& builder) {
        skip_spaces();
        std::string_view text;
        if (at_ == end_ || *at_ != '"' || !string(text)) return false;
        skip_spaces();
        if (at_ == end_ || *at_++ != ':') return false;
        return builder.plain_key(text);
    }
    bool literal(std::string_view word) {
        if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    bool number(Builder& builder) {
        const char* const begin = at_;
        if (*at_ == '-') ++at_;
        const char* const first = at_;
        while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
        const auto digits = at_ - first;
        if (digits == 0 || (digits > 1 && *first == '0')) return false;
        if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return false;
        return builder.RawNumber(begin, static_cast<std::uint32_t>(at_ - begin), false);
    }
    // What stands between the quotes.
    bool string(std::string_view& text) {
        const char* const begin = ++at_;
        constexpr std::uint64_t kOnes = 0x0101010101010101U;
        constexpr std::uint64_t kHigh = 0x8080808080808080U;
        // High bits where a byte is zero; bytes behind the first such may be wrong, which does not matter here.
        const auto zeros = [&](std::uint64_t word) { return (word - kOnes) & ~word & kHigh; };
        while (end_ - at_ >= 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, at_, sizeof word);
            const std::uint64_t special = ((word - kOnes * 0x20) | word) & kHigh;  // below 0x20, from 0x80 on
            if ((special | zeros(word ^ (kOnes * '"')) | zeros(word ^ (kOnes * '\\'))) != 0) break;
            at_ += 8;
        }
        for (; at_ != end_; ++at_) {
            const auto byte = static_cast<unsigned char>(*at_);
            if (byte == '"') {
                text = {begin, static_cast<std::size_t>(at_ - begin)};
                ++at_;
                return true;
            }
            if (byte < 0x20 || byte >= 0x80 || byte == '\\') return false;
        }
        return false;
    }

    const char* at_;
    const char* const end_;
    std::vector<Open> open_;
};

}  // namespace json
}  // namespace base
}  // namespace quern
