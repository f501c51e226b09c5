#include "base/rlp.h"

namespace quern {
inline namespace base {
namespace rlp {
namespace {

constexpr std::uint8_t kShortString = 0x80;
constexpr std::uint8_t kLongString = 0xb7;
constexpr std::uint8_t kShortList = 0xc0;
constexpr std::uint8_t kLongList = 0xf7;
constexpr std::size_t kMaxShort = 55;

// Writes the prefix of a string (base 0x80) or list (base 0xc0) into `prefix`; returns its size, at most 9.
std::size_t make_prefix(std::uint8_t base, std::size_t length, std::uint8_t (&prefix)[9]) {
    if (length <= kMaxShort) {
        prefix[0] = static_cast<std::uint8_t>(base + length);
        return 1;
    }
    std::size_t width = 0;
    for (std::size_t rest = length; rest != 0; rest >>= 8) ++width;
    prefix[0] = static_cast<std::uint8_t>(base + kMaxShort + width);
    for (std::size_t i = 0; i < width; ++i) prefix[width - i] = static_cast<std::uint8_t>(length >> (8 * i));
    return width + 1;
}

}  // namespace

Writer& Writer::bytes(BytesView value) {
    if (value.size() == 1 && value[0] < kShortString) {
        out_.push_back(value[0]);
        return *this;
    }
    std::uint8_t prefix[9];
    const std::size_t size = make_prefix(kShortString, value.size(), prefix);
    out_.insert(out_.end(), prefix, prefix + size);
    append(out_, value);
    return *this;
}

Writer& Writer::integer(std::uint64_t value) {
    std::uint8_t big_endian[8];
    std::size_t length = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        const auto byte = static_cast<std::uint8_t>(value >> shift);
        if (length != 0 || byte != 0) big_endian[length++] = byte;
    }
    return bytes({big_endian, length});
}

Writer& Writer::integer(const Uint256& value) { return bytes(value.to_be_minimal()); }

Writer& Writer::raw(BytesView encoded_item) {
    append(out_, encoded_item);
    return *this;
}

Writer& Writer::begin_list() {
    // Most lists are short records: one allocation instead of one for each doubling.
    if (out_.capacity() == 0) {
        out_.reserve(128);
        open_.reserve(4);
    }
    open_.push_back(out_.size());
    return *this;
}

Writer& Writer::end_list() {
    const std::size_t start = open_.back();
    open_.pop_back();
    std::uint8_t prefix[9];
    const std::size_t size = make_prefix(kShortList, out_.size() - start, prefix);
    out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(start), prefix, prefix + size);
    return *this;
}

Bytes Writer::finish() && { return std::move(out_); }

Expected<Item> Reader::next() {
    if (rest_.empty()) return fail("rlp.truncated", "an item is missing");
    const std::uint8_t first = rest_[0];
    if (first < kShortString) {
        Item item{false, rest_.first(1), rest_.first(1)};
        rest_ = rest_.subspan(1);
        return item;
    }
    const bool is_list = first >= kShortList;
    const std::uint8_t base = is_list ? kShortList : kShortString;
    const std::uint8_t long_base = is_list ? kLongList : kLongString;
    std::size_t header = 1;
    std::size_t length = 0;
    if (first <= long_base) {
        length = static_cast<std::size_t>(first - base);
    } else {
        const auto width = static_cast<std::size_t>(first - long_base);
        if (rest_.size() < 1 + width) return fail("rlp.truncated", "length of length");
        if (rest_[1] == 0) return fail("rlp.non_canonical_length", "leading zero");
        if (width > sizeof(std::size_t)) return fail("rlp.length_overflow");
        for (std::size_t i = 0; i < width; ++i) length = length << 8 | rest_[1 + i];
        if (length <= kMaxShort) return fail("rlp.non_canonical_length", "short length in long form");
        header += width;
    }
    if (length > rest_.size() - header) return fail("rlp.truncated", "payload");
    if (!is_list && header == 1 && length == 1 && rest_[1] < kShortString) return fail("rlp.non_canonical_byte");
    Item item{is_list, rest_.subspan(header, length), rest_.first(header + length)};
    rest_ = rest_.subspan(header + length);
    return item;
}

Expected<Reader> Reader::list() {
    QUERN_TRY(const Item item, next());
    if (!item.is_list) return fail("rlp.expected_list");
    return Reader(item.payload);
}

Expected<BytesView> Reader::bytes() {
    QUERN_TRY(const Item item, next());
    if (item.is_list) return fail("rlp.expected_string");
    return item.payload;
}

Expected<std::uint64_t> Reader::u64() {
    QUERN_TRY(const BytesView view, bytes());
    if (view.size() > 8) return fail("rlp.integer_overflow");
    if (!view.empty() && view[0] == 0) return fail("rlp.leading_zero");
    std::uint64_t value = 0;
    for (const auto byte : view) value = value << 8 | byte;
    return value;
}

Expected<Uint256> Reader::u256() {
    QUERN_TRY(const BytesView view, bytes());
    if (view.size() > 32) return fail("rlp.integer_overflow");
    if (!view.empty() && view[0] == 0) return fail("rlp.leading_zero");
    return Uint256::from_be(view);
}

Expected<bool> Reader::boolean() {
    QUERN_TRY(const std::uint64_t value, u64());
    if (value > 1) return fail("rlp.integer_overflow", "not a boolean");
    return value == 1;
}

Status Reader::expect_end() const {
    if (!rest_.empty()) return fail("rlp.trailing_bytes", std::to_string(rest_.size()) + " bytes");
    return {};
}

Expected<Item> decode_single(BytesView input) {
    Reader reader(input);
    QUERN_TRY(const Item item, reader.next());
    QUERN_CHECK(reader.expect_end());
    return item;
}

Expected<Reader> decode_list(BytesView input) {
    QUERN_TRY(const Item item, decode_single(input));
    if (!item.is_list) return fail("rlp.expected_list");
    return Reader(item.payload);
}

Status validate(BytesView input) {
    QUERN_TRY(const Item top, decode_single(input));
    std::vector<Reader> open;
    if (top.is_list) open.emplace_back(top.payload);
    while (!open.empty()) {
        if (open.back().at_end()) {
            open.pop_back();
            continue;
        }
        QUERN_TRY(const Item item, open.back().next());
        if (item.is_list) {
            if (open.size() >= static_cast<std::size_t>(kMaxDepth)) return fail("rlp.too_deep");
            open.emplace_back(item.payload);
        }
    }
    return {};
}

}  // namespace rlp
}  // namespace base
}  // namespace quern
