// Recursive Length Prefix, Ethereum's canonical serialisation (Yellow Paper, appendix B).
//
//   item   = string | list
//   string = byte in 00..7f, alone
//          | (0x80 + length) bytes            length 0..55 (a single byte < 0x80 must not use this form)
//          | (0xb7 + n) length[n] bytes       length > 55, n big-endian bytes without leading zeros
//   list   = (0xc0 + length) items            length of the items' encodings, 0..55
//          | (0xf7 + n) length[n] items       length > 55
//
// Decoding is strict: non-canonical lengths, trailing bytes and lengths past the end are errors, and nothing is
// allocated by what an encoding claims. Thread-safe: readers hold a view and no more.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/expected.h"
#include "base/uint256.h"

namespace quern {
inline namespace base {
namespace rlp {

// Builds an encoding: begin_list()/end_list() nest; finish() yields the bytes (all lists closed).
class Writer {
public:
    Writer& bytes(BytesView value);
    Writer& integer(std::uint64_t value);
    Writer& integer(const Uint256& value);
    Writer& boolean(bool value) { return integer(std::uint64_t{value}); }
    template <std::size_t N>
    Writer& fixed(const FixedBytes<N>& value) {
        return bytes(value.view());
    }
    Writer& raw(BytesView encoded_item);  // an item that is encoded already
    Writer& begin_list();
    Writer& end_list();
    [[nodiscard]] Bytes finish() &&;

private:
    Bytes out_;
    std::vector<std::size_t> open_;  // offsets in out_ at which the open lists' payloads start
};

// One decoded item: a view into the input.
struct Item {
    bool is_list = false;
    BytesView payload;  // a string's bytes, or a list's encoded items
    BytesView whole;    // with the prefix
};

// Reads consecutive items. Errors: rlp.truncated, rlp.non_canonical_length, rlp.non_canonical_byte,
// rlp.length_overflow, rlp.expected_string, rlp.expected_list, rlp.leading_zero, rlp.integer_overflow,
// rlp.wrong_length, rlp.trailing_bytes.
class Reader {
public:
    explicit Reader(BytesView input) : rest_(input) {}

    [[nodiscard]] bool at_end() const { return rest_.empty(); }
    [[nodiscard]] BytesView rest() const { return rest_; }
    [[nodiscard]] Expected<Item> next();
    [[nodiscard]] Expected<Reader> list();        // enters a list
    [[nodiscard]] Expected<BytesView> bytes();    // a string
    [[nodiscard]] Expected<std::uint64_t> u64();  // canonical integer
    [[nodiscard]] Expected<Uint256> u256();
    [[nodiscard]] Expected<bool> boolean();  // 0 or 1
    template <std::size_t N>
    [[nodiscard]] Expected<FixedBytes<N>> fixed() {
        QUERN_TRY(const BytesView view, bytes());
        if (view.size() != N) return fail("rlp.wrong_length");
        return FixedBytes<N>::copy_of(view);
    }
    [[nodiscard]] Status expect_end() const;

private:
    BytesView rest_;
};

// The whole input must be one item.
[[nodiscard]] Expected<Item> decode_single(BytesView input);
// The whole input must be one list; the result reads its items.
[[nodiscard]] Expected<Reader> decode_list(BytesView input);
// Every nested item is checked; depth is limited by kMaxDepth (error rlp.too_deep).
[[nodiscard]] Status validate(BytesView input);
inline constexpr int kMaxDepth = 1024;

}  // namespace rlp
}  // namespace base
}  // namespace quern
