// Byte-pair encoding of text (Sennrich, Haddow and Birch 2016; over bytes, as GPT-2 has it): a vocabulary is 256 bytes
// and pairs of earlier tokens, learnt by joining the most frequent pair again and again. Used by quern-compile. The
// same bytes give the same vocabulary and tokens everywhere: no locale, no order of hashes, ties go to the smallest
// pair. Pure; thread-safe.
//
// Text is cut into words first, and no token reaches over two of them. Bytes are of four classes: letters (A to Z, a to
// z and all from 0x80 on, so that UTF-8 stays together), digits, spaces (space, \t, \n, \v, \f, \r) and all others. A
// word is a run of one class; a single space before a run of another class belongs to that run's word, and a run of
// spaces leaves it its last one. A word is cut after kMaxTokenBytes. The words, one after the other, are the text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace quern::compute::program {

inline constexpr std::uint32_t kByteTokens = 256;
inline constexpr std::uint32_t kMaxByteTokens = 65'536;  // of a vocabulary: tokens are u16
inline constexpr std::size_t kMaxTokenBytes = 128;       // of a word, and so of a token
// Different words of a text that is learnt from: some 300 bytes of memory each.
inline constexpr std::size_t kMaxLearntWords = std::size_t{1} << 22;

// The bytes that the first word of `text`, which is not empty, takes.
[[nodiscard]] std::size_t first_word(std::string_view text);

class BytePairs {
public:
    struct Pair {
        std::uint16_t left = 0;
        std::uint16_t right = 0;
        auto operator<=>(const Pair&) const = default;
    };

    BytePairs();  // the 256 bytes
    // Token 256 + i is pairs[i]. Errors, with the pair's number: byte_pairs.too_many (tokens), byte_pairs.bad_pair (of
    // a token that is not earlier), byte_pairs.duplicate_pair, byte_pairs.too_long (the token).
    [[nodiscard]] static Expected<BytePairs> of(const std::vector<Pair>& pairs);
    // Learns at most `tokens` tokens: fewer where no pair occurs twice any more. Each place counts where both stand
    // side by side in a word, as often as the word occurs. Errors: byte_pairs.bad_size (not 257 to kMaxByteTokens),
    // byte_pairs.too_many_words.
    [[nodiscard]] static Expected<BytePairs> learn(std::string_view text, std::uint32_t tokens,
                                                   std::size_t most_words = kMaxLearntWords);

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(pieces_.size()); }
    [[nodiscard]] const std::vector<Pair>& pairs() const { return pairs_; }
    // The bytes of a token below size().
    [[nodiscard]] std::string_view piece(std::uint32_t token) const { return pieces_[token]; }
    // In each word the earliest pair is joined first, from left to right. Total: any bytes have tokens.
    [[nodiscard]] std::vector<std::uint16_t> encode(std::string_view text) const;

private:
    [[nodiscard]] Status add(Pair pair);
    void encode_word(std::string_view word, std::vector<std::uint16_t>& tokens) const;

    struct Joined {
        Pair pair;
        std::uint16_t token = 0;
    };
    [[nodiscard]] std::uint32_t token_of(Pair pair) const;  // kNone: it is no token
    static constexpr std::uint32_t kNone = kMaxByteTokens;
    std::vector<Pair> pairs_;
    std::vector<std::string> pieces_;
    std::vector<std::vector<Joined>> by_left_;  // of each token the pairs that begin with it, ascending
};

}  // namespace quern::compute::program
