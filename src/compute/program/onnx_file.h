// Files of the ONNX standard (onnx.ai, IR version 3 to 8, operator sets 9 to 17), as PyTorch and other tools export
// them. Used by quern-compile. Pure; thread-safe.
#pragma once

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

}  // namespace quern::compute::program
