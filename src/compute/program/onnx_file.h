// Files of the ONNX standard (onnx.ai, IR version 3 to 8, operator sets 9 to 17), as PyTorch and other tools export
// them: read, and written back with trained words. Used by quern-compile and quern-train. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/expected.h"
#include "compute/program/network.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxOnnxBytes = std::size_t{1} << 30;
// Of all but the raw data of initializers: a parsed message takes some fifty times its bytes.
inline constexpr std::size_t kMaxOnnxStructure = std::size_t{16} << 20;
inline constexpr std::uint32_t kMinOnnxOpset = 9;
inline constexpr std::uint32_t kMaxOnnxOpset = 17;

// The graph with one input that no initializer gives. Metadata "quern.frozen" names initializers that are not trained,
// one an entry. Numbers of 16 and 64 bits become binary32, rounded to nearest.
// Errors, each with the name of what is wrong: onnx.too_long, onnx.not_onnx, onnx.too_many, onnx.unknown_version,
// onnx.external_data, onnx.bad_tensor (dims that do not fit the data, a type that has no place here), onnx.bad_name,
// onnx.bad_attribute, onnx.subgraph, onnx.inputs (none, or more than one), onnx.no_output, onnx.duplicate (two tensors
// of one name), onnx.not_sorted (a node takes what comes behind it, or nothing gives).
[[nodiscard]] Expected<Network> read_onnx(BytesView file);

// What a training has made of an initializer: its words in the file's order, binary32 bits.
struct TrainedWords {
    std::string_view name;
    std::span<const std::uint32_t> words;
};
// A copy of a file that read_onnx() takes, with these words in the initializers of these names, as raw data in the type
// that each has: in one of 16 bits rounded to the nearest, half ways to even. All else is as it was, fields that this
// version does not know included. The same file and words give the same bytes. Errors: onnx.too_long, onnx.not_onnx,
// onnx.unknown_initializer (there is none of that name), onnx.duplicate (there are two), onnx.bad_tensor (it holds no
// numbers, or another count of them), onnx.external_data, onnx.out_of_range (a number is too large for 16 bits).
[[nodiscard]] Expected<Bytes> replace_initializers(BytesView file, std::span<const TrainedWords> trained);

}  // namespace quern::compute::program
