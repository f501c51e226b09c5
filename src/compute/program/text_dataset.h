// Text as a character-level data set: a vocabulary of the bytes that occur, and their numbers one after the other,
// which is the data tensor byte by byte. Used by quern-compile. Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/expected.h"

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
inline constexpr std::size_t kMaxDescriptionBytes = 4096;
// The vocabulary of `tokens` by their description. Errors: dataset.not_a_text_data_set, dataset.bad_vocabulary (empty,
// unsorted, longer than 256, a token beyond it).
[[nodiscard]] Expected<std::string> read_vocabulary(BytesView tokens, std::string_view description);

}  // namespace quern::compute::program
