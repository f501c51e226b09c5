// Byte pairs: how text is cut into words, which pairs are learnt, that encoding loses nothing, and hostile
// vocabularies.
#include "compute/program/byte_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "compute/program/text_dataset.h"
#include "crypto/hash.h"

namespace quern::compute::program {
namespace {

using Pair = BytePairs::Pair;

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        words.emplace_back(text.substr(0, first_word(text)));
        text.remove_prefix(words.back().size());
    }
    return words;
}

std::string decoded(const BytePairs& pairs, const std::vector<std::uint16_t>& tokens) {
    std::string text;
    for (const std::uint16_t token : tokens) text += pairs.piece(token);
    return text;
}

std::vector<Pair> learnt(std::string_view text, std::uint32_t tokens) {
    const auto pairs = BytePairs::learn(text, tokens);
    EXPECT_TRUE(pairs) << pairs.error().to_string();
    return pairs->pairs();
}

using Words = std::vector<std::string>;

TEST(BytePairs, cuts_text_into_words_of_one_class_with_the_space_before) {
    EXPECT_EQ(words_of("It is 42kg, (or\xc3\xa9) not!"),
              (Words{"It", " is", " 42", "kg", ",", " (", "or\xc3\xa9", ")", " not", "!"}));
    EXPECT_EQ(words_of("a  b"), (Words{"a", " ", " b"}));
    EXPECT_EQ(words_of("a\n\n   b\n c"), (Words{"a", "\n\n  ", " b", "\n", " c"}));
    EXPECT_EQ(words_of("a\tb"), (Words{"a", "\t", "b"}));
    EXPECT_EQ(words_of("a  "), (Words{"a", "  "}));
    EXPECT_EQ(words_of(" "), (Words{" "}));
    EXPECT_EQ(words_of(std::string_view("\0\x7f\xff", 3)), (Words{std::string("\0\x7f", 2), "\xff"}));
    EXPECT_EQ(words_of("[@`{/:"), (Words{"[@`{/:"}));
    EXPECT_EQ(words_of(" " + std::string(300, 'x')),
              (Words{" " + std::string(127, 'x'), std::string(128, 'x'), std::string(45, 'x')}));
}

TEST(BytePairs, joins_the_most_frequent_pair_and_of_equal_ones_the_smallest) {
    EXPECT_EQ(learnt("ab ab ab cd", 300), (std::vector<Pair>{{'a', 'b'}, {' ', 256}}));
    EXPECT_EQ(learnt("xy-yz-xy-yz", 300), (std::vector<Pair>{{'x', 'y'}, {'y', 'z'}}));
    EXPECT_EQ(learnt("yz-xy-yz-xy", 300), (std::vector<Pair>{{'x', 'y'}, {'y', 'z'}}));
    EXPECT_EQ(learnt("xy-yz-xy-yz", 257), (std::vector<Pair>{{'x', 'y'}}));
    EXPECT_TRUE(learnt("abc", 300).empty());  // none occurs twice
    EXPECT_TRUE(learnt("", 300).empty());
}

TEST(BytePairs, counts_each_place_and_joins_from_left_to_right) {
    // "aaaaa": four places; then (aa, aa) and (aa, a) are in it once, in each of two words.
    const auto pairs = BytePairs::learn("aaaaa-aaaaa", 300);
    ASSERT_TRUE(pairs);
    EXPECT_EQ(pairs->pairs(), (std::vector<Pair>{{'a', 'a'}, {256, 'a'}, {256, 257}}));
    EXPECT_EQ(pairs->encode("aaaaa"), (std::vector<std::uint16_t>{258}));
    EXPECT_EQ(pairs->encode("aaa"), (std::vector<std::uint16_t>{257}));
    EXPECT_EQ(pairs->encode("aaaa"), (std::vector<std::uint16_t>{256, 256}));
}

// The definition, word by word: each pair in turn, everywhere.
std::vector<std::uint16_t> encoded_slowly(const BytePairs& pairs, std::string_view text) {
    std::vector<std::uint16_t> all;
    for (const std::string& word : words_of(text)) {
        std::vector<std::uint16_t> symbols;
        for (const char c : word) symbols.push_back(static_cast<unsigned char>(c));
        for (std::size_t p = 0; p < pairs.pairs().size(); ++p)
            for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
                if (Pair{symbols[i], symbols[i + 1]} == pairs.pairs()[p]) {
                    symbols[i] = static_cast<std::uint16_t>(kByteTokens + p);
                    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i + 1));
                }
        all.insert(all.end(), symbols.begin(), symbols.end());
    }
    return all;
}

// And of learning: all places are counted anew for each pair.
std::vector<Pair> learnt_slowly(std::string_view text, std::uint32_t tokens) {
    std::vector<Pair> pairs;
    while (kByteTokens + pairs.size() < tokens) {
        const auto so_far = BytePairs::of(pairs);
        EXPECT_TRUE(so_far);
        std::map<Pair, std::uint64_t> counts;
        for (const std::string& word : words_of(text)) {
            const auto symbols = encoded_slowly(*so_far, word);
            for (std::size_t i = 1; i < symbols.size(); ++i) ++counts[{symbols[i - 1], symbols[i]}];
        }
        const auto best = std::max_element(counts.begin(), counts.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (best == counts.end() || best->second < 2) break;
        pairs.push_back(best->first);
    }
    return pairs;
}

TEST(BytePairs, learns_and_encodes_what_the_definition_says) {
    SeededRng rng(20261127);
    for (int round = 0; round < 30; ++round) {
        std::string text;
        const std::string_view letters = round % 3 == 0 ? "a" : round % 3 == 1 ? "ab1 " : "abcde 12.\n\xc3\xa9";
        for (std::uint64_t i = 0; i < 400; ++i) text.push_back(letters[rng.below(letters.size())]);
        const auto pairs = BytePairs::learn(text, 300);
        ASSERT_TRUE(pairs);
        EXPECT_EQ(pairs->pairs(), learnt_slowly(text, 300)) << round;
        EXPECT_EQ(pairs->encode(text), encoded_slowly(*pairs, text)) << round;
        EXPECT_EQ(decoded(*pairs, pairs->encode(text)), text) << round;
        std::string other;  // any bytes have tokens
        for (int i = 0; i < 300; ++i) other.push_back(static_cast<char>(rng.below(256)));
        EXPECT_EQ(decoded(*pairs, pairs->encode(other)), other) << round;
    }
}

// Of words in which thousands of pairs are joined: one for each of their symbols. What is written here was learnt by
// counting each word anew after each join.
TEST(BytePairs, learns_the_same_of_random_text) {
    std::string text;
    std::uint64_t x = 1;
    for (int i = 0; i < 200'000; ++i) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        text.push_back(static_cast<char>('a' + (x >> 60)));
    }
    const auto pairs = BytePairs::learn(text, 20'000);
    ASSERT_TRUE(pairs);
    const auto hash_of = [](const auto& words) {
        Bytes bytes;
        for (const std::uint16_t word : words)
            for (const unsigned shift : {0U, 8U}) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
        return to_hex(crypto::sha256(bytes));
    };
    std::vector<std::uint16_t> joined;
    for (const Pair& each : pairs->pairs()) joined.insert(joined.end(), {each.left, each.right});
    EXPECT_EQ(pairs->size(), 8951U);
    EXPECT_EQ(hash_of(joined), "c9a16be044f95cf4dc8434ab11c2991e6b764bf634cd6fc19855a5afeaa49b22");
    EXPECT_EQ(hash_of(pairs->encode(text)), "353c54b65eb639b6314a01190e52300ac84c48f0f35ecd20c3a63eca380bf441");
}

TEST(BytePairs, refuses_vocabularies_that_are_none) {
    const auto error = [](const std::vector<Pair>& pairs) {
        const auto made = BytePairs::of(pairs);
        return made ? "taken" : std::string(made.error().name);
    };
    EXPECT_EQ(error({{'a', 'b'}, {256, 256}}), "taken");
    EXPECT_EQ(error({{'a', 256}}), "byte_pairs.bad_pair");  // itself
    EXPECT_EQ(error({{257, 'a'}, {'a', 'b'}}), "byte_pairs.bad_pair");
    EXPECT_EQ(error({{'a', 'b'}, {'a', 'c'}, {'a', 'b'}}), "byte_pairs.duplicate_pair");
    std::vector<Pair> doubling{{'a', 'a'}};
    while (doubling.size() < 7) {
        const auto last = static_cast<std::uint16_t>(kByteTokens + doubling.size() - 1);
        doubling.push_back({last, last});
    }
    EXPECT_EQ(error(doubling), "taken");  // 2^7 bytes
    doubling.push_back({262, 'a'});
    EXPECT_EQ(error(doubling), "byte_pairs.too_long");
    std::vector<Pair> many;
    for (std::uint32_t i = 0; i < kMaxByteTokens - kByteTokens; ++i)
        many.push_back({static_cast<std::uint16_t>(i / 256), static_cast<std::uint16_t>(i % 256)});
    EXPECT_EQ(error(many), "taken");
    many.push_back({255, 255});
    EXPECT_EQ(error(many), "byte_pairs.too_many");
}

TEST(BytePairs, bounds_sizes_and_words) {
    EXPECT_EQ(BytePairs::learn("aa aa", 256).error().name, "byte_pairs.bad_size");
    EXPECT_EQ(BytePairs::learn("aa aa", 65'537).error().name, "byte_pairs.bad_size");
    EXPECT_TRUE(BytePairs::learn("a b a", 65'536, 2 + 1));
    EXPECT_EQ(BytePairs::learn("a b c", 300, 2).error().name, "byte_pairs.too_many_words");
}

TEST(BytePairs, are_a_data_set_with_a_description) {
    const std::string text = "the cat and the hat and the bat";
    const auto pairs = BytePairs::learn(text, 260);
    ASSERT_TRUE(pairs);
    ASSERT_EQ(pairs->size(), 260U);
    const auto tokens = byte_pair_tokens(*pairs, text);
    ASSERT_TRUE(tokens);
    EXPECT_EQ((*tokens)[0] + 256 * (*tokens)[1], pairs->encode(text)[0]);
    const std::string description = describe_byte_pairs(*pairs, tokens->size() / 2);
    const auto read = read_text_vocabulary(*tokens, description);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->pairs()->pairs(), pairs->pairs());
    EXPECT_EQ(read->type(), vm::tensor::DataType::u16);
    EXPECT_EQ(read->size(), 260U);
    EXPECT_EQ(read_byte_pairs(description)->pairs(), pairs->pairs());
    EXPECT_EQ(byte_pair_tokens(*pairs, "a").error().name, "dataset.too_short");
}

TEST(BytePairs, hostile_descriptions_end_in_a_named_error) {
    const Bytes tokens{97, 0, 0, 1};  // a, 256
    const auto of = [](const std::string& merges, const std::string& rest = R"("dtype":"u16","elements":2)") {
        return R"({"format":"quern-bpe-1",)" + rest + R"(,"merges":)" + merges + "}";
    };
    const auto error = [&](const std::string& description, const Bytes& data) {
        const auto read = read_text_vocabulary(data, description);
        return read ? "taken" : std::string(read.error().name);
    };
    EXPECT_EQ(error(of("[[97,98]]"), tokens), "taken");
    EXPECT_EQ(error(of("[]"), tokens), "dataset.bad_vocabulary");  // token 256 is beyond it
    EXPECT_EQ(error(of("[[97,98]]"), Bytes{97, 0, 0, 1, 0}), "dataset.not_a_text_data_set");
    EXPECT_EQ(error(of("[[97,98]]"), Bytes{97, 0}), "dataset.not_a_text_data_set");
    for (const char* merges : {"[[97]]", "[[97,98,99]]", "[97,98]", R"([["a","b"]])", "[[97,-1]]", "[[97,65536]]",
                               "[[97,1.5]]", "[[97,18446744073709551616]]", "[null]", "[{}]"})
        EXPECT_EQ(error(of(merges), tokens).substr(0, 8), "dataset.") << merges;
    EXPECT_EQ(error(of("[[97,256]]"), tokens), "byte_pairs.bad_pair");
    EXPECT_EQ(error(of("{}"), tokens), "dataset.not_byte_pairs");
    EXPECT_EQ(error(of("[[97,98]]", R"("dtype":"u8","elements":2)"), tokens), "dataset.not_byte_pairs");
    EXPECT_EQ(error(of("[[97,98]]", R"("dtype":"u16","elements":-2)"), tokens), "dataset.not_byte_pairs");
    EXPECT_EQ(error(of("[[97,98]]", R"("more":1,"dtype":"u16","elements":2)"), tokens), "dataset.not_byte_pairs");
    std::string many = "[[0,0]";
    for (std::uint32_t i = 0; i < kMaxByteTokens - kByteTokens; ++i) many += ",[0,0]";
    EXPECT_EQ(error(of(many + "]"), tokens), "byte_pairs.too_many");
    EXPECT_EQ(error(std::string(kMaxDescriptionBytes + 1, ' '), tokens), "dataset.not_a_text_data_set");
    EXPECT_EQ(read_byte_pairs(R"({"format":"quern-text-2"})").error().name, "dataset.not_byte_pairs");
}

TEST(TextVocabulary, is_of_characters_or_of_pairs) {
    const TextVocabulary characters(std::string("abc"));
    EXPECT_EQ(characters.size(), 3U);
    EXPECT_EQ(characters.piece(1), "b");
    EXPECT_EQ(*characters.encode("cab"), (std::vector<std::uint32_t>{2, 0, 1}));
    EXPECT_EQ(characters.encode("abd").error().name, "dataset.unknown_character");
    const TextVocabulary pairs(*BytePairs::of({{'a', 'b'}}));
    EXPECT_EQ(pairs.size(), 257U);
    EXPECT_EQ(pairs.piece(256), "ab");
    EXPECT_EQ(*pairs.encode("cab"), (std::vector<std::uint32_t>{'c', 256}));
}

}  // namespace
}  // namespace quern::compute::program
