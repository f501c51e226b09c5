// A network as other tools describe one: operations of the ONNX standard between named tensors. Read from files by
// onnx_file.h, laid into programs by network_lowering.h. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compute/program/precision.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::program {

// Limits of what a file may hold. Elements are of one tensor, and of all together.
inline constexpr std::size_t kMaxNetworkNodes = 1U << 16;
inline constexpr std::size_t kMaxNetworkTensors = 1U << 14;
inline constexpr std::size_t kMaxNetworkRank = 8;
inline constexpr std::uint64_t kMaxNetworkElements = 1ULL << 30;
inline constexpr std::uint64_t kMaxWholeElements = 1ULL << 25;  // of those the whole numbers and booleans
inline constexpr std::size_t kMaxNetworkName = 1024;
inline constexpr std::size_t kMaxNodeEdges = 1024;  // inputs and outputs of a node, elements of a list of an attribute

using Dims = std::vector<std::uint64_t>;  // none of them 0

// Of no dims 1. What is 2^64 and more is 2^64 - 1, which no tensor has: a product of dims from a file never wraps.
[[nodiscard]] inline std::uint64_t product(std::span<const std::uint64_t> dims) {
    std::uint64_t result = 1;
    for (const std::uint64_t dim : dims)
        if (__builtin_mul_overflow(result, dim, &result)) result = ~std::uint64_t{0};
    return result;
}

// A tensor whose words the file holds: numbers as binary32, whole numbers and booleans in 64 bits.
struct NetworkTensor {
    Dims dims;
    bool is_float = true;
    std::shared_ptr<const std::vector<std::uint32_t>> floats;  // binary32 bits, row by row
    std::vector<std::int64_t> whole;

    [[nodiscard]] std::uint64_t elements() const { return product(dims); }
};

using NetworkAttribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, NetworkTensor>;

struct NetworkNode {
    std::string op;                    // "Conv"
    std::string name;                  // "/layer1/conv1/Conv"; may be empty
    std::vector<std::string> inputs;   // empty: left out
    std::vector<std::string> outputs;  // the same
    std::map<std::string, NetworkAttribute> attributes;
};

struct Network {
    std::string input;                      // what an example goes into
    std::vector<std::uint64_t> input_dims;  // 0: any; the first is the batch
    bool input_is_whole = false;            // whole numbers: tokens
    std::string output;                     // the first of the file's
    std::uint32_t opset = 0;                // of the standard's default domain
    std::map<std::string, NetworkTensor> initializers;
    std::set<std::string> frozen;    // of those, what is not to be trained
    std::vector<NetworkNode> nodes;  // each behind those whose outputs it takes
};

// How it is trained, which no file of the standard says.
struct NetworkTraining {
    std::set<std::string> frozen{};  // initializers that are not trained
    // Of linear layers: of each product (Gemm, MatMul) by numbers of the file, turned or reshaped at most.
    Precision precision = Precision::f32;
    LayerPrecision layer_precision{};  // by the node's name, or its first output's where it has none
};

}  // namespace quern::compute::program
