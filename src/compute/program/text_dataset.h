// Text as a character-level data set: a vocabulary of the bytes that occur, and windows of their numbers. Used by
// quern-compile. Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/expected.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::program {

struct TextDataset {
    vm::tensor::Tensor windows;  // i32 [1,1,windows,context+1]; row w: bytes w*context .. w*context+context
    std::string vocabulary;      // distinct bytes, ascending; token t stands for vocabulary[t]
};

// Texts are joined in the given order; what does not fill a last window is left out. Consecutive windows share one
// byte, so that each byte but the first is a target once. The vocabulary is the bytes that occur, or a data set's that
// a model was trained on, in which all of them must be. Errors: dataset.too_short, dataset.bad_context,
// dataset.too_large, dataset.unknown_character.
[[nodiscard]] Expected<TextDataset> build_text_dataset(std::span<const std::string_view> texts, std::uint32_t context,
                                                       std::string_view vocabulary = {});

// A safetensors file with the tensor "data" and metadata "format" = "quern-text-1", "vocabulary" in hexadecimal.
[[nodiscard]] Expected<Bytes> write_text_dataset(const TextDataset& dataset);
// Errors: dataset.not_a_text_data_set, dataset.bad_vocabulary (empty, unsorted, longer than 256, a token beyond it),
// safetensors.*, state_file.not_a_data_set.
[[nodiscard]] Expected<TextDataset> read_text_dataset(BytesView file);

}  // namespace quern::compute::program
