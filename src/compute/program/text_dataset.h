// Text as a data set: a vocabulary and the numbers of its tokens one after the other, which are the data tensor. Tokens
// are the bytes that occur, or byte pairs (byte_pairs.h). Used by quern-compile. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/expected.h"
#include "compute/program/byte_pairs.h"
#include "vm/tensor/graph.h"

namespace quern::compute::program {

struct TextDataset {
    Bytes tokens;            // u8: the file, and the content that a task names
    std::string vocabulary;  // the distinct bytes, ascending; token t stands for vocabulary[t]
};

// Texts are joined in the given order. The vocabulary is the bytes that occur, or a data set's that a model was trained
// on, in which all of them must be. Errors: dataset.too_short (not two bytes), dataset.unknown_character.
[[nodiscard]] Expected<TextDataset> build_text_dataset(std::span<const std::string_view> texts,
                                                       std::string_view vocabulary = {});

// What the tokens' file does not say, as JSON: {"format": "quern-text-2", "dtype": "u8", "elements", "vocabulary" in
// hexadecimal}.
[[nodiscard]] std::string describe_text_dataset(const TextDataset& dataset);
// The vocabulary of `tokens` by their description. Errors: dataset.not_a_text_data_set, dataset.bad_vocabulary (empty,
// unsorted, longer than 256, a token beyond it).
[[nodiscard]] Expected<std::string> read_vocabulary(BytesView tokens, std::string_view description);
// --- Either kind -----------------------------------------------------------------------------------------------------
class TextVocabulary {
public:
    TextVocabulary() = default;
    TextVocabulary(std::string characters) : characters_(std::move(characters)) {}  // NOLINT: token t is [t]
    explicit TextVocabulary(BytePairs pairs) : pairs_(std::move(pairs)) {}

    [[nodiscard]] std::uint32_t size() const;
    [[nodiscard]] vm::tensor::DataType type() const;                  // of its data sets: u8, of byte pairs u16
    [[nodiscard]] std::string_view piece(std::uint32_t token) const;  // bytes of a token below size()
    // Error dataset.unknown_character: a byte that the characters lack.
    [[nodiscard]] Expected<std::vector<std::uint32_t>> encode(std::string_view text) const;
    [[nodiscard]] const std::string& characters() const { return characters_; }  // empty of byte pairs
    [[nodiscard]] const std::optional<BytePairs>& pairs() const { return pairs_; }

private:
    std::string characters_;
    std::optional<BytePairs> pairs_;
};

// Tokens as the data tensor holds them: u16, little endian. Error dataset.too_short: not two.
[[nodiscard]] Expected<Bytes> byte_pair_tokens(const BytePairs& pairs, std::string_view text);

// {"format": "quern-bpe-1", "dtype": "u16", "elements", "merges": [[left, right]...]}: merges[i] is token 256 + i.
[[nodiscard]] std::string describe_byte_pairs(const BytePairs& pairs, std::uint64_t elements);
// The vocabulary alone, whatever file it lies beside: strict, no other fields. Errors: dataset.not_byte_pairs,
// dataset.bad_vocabulary (the form of a pair), byte_pairs.*.
[[nodiscard]] Expected<BytePairs> read_byte_pairs(std::string_view description);
// Of either kind, by its format. Errors: those of read_vocabulary and read_byte_pairs; here too
// dataset.not_a_text_data_set where it describes another file, dataset.bad_vocabulary where a token is beyond it.
[[nodiscard]] Expected<TextVocabulary> read_text_vocabulary(BytesView tokens, std::string_view description);
inline constexpr std::size_t kMaxDescriptionBytes = std::size_t{1} << 20;

}  // namespace quern::compute::program
