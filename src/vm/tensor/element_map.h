// Which element of which operand an output element is made of, for the ops that read one element of each operand.
// Shared by the chain's leaf and the rebuilding of micro-traces. Internal to vm/tensor. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "vm/tensor/graph.h"

namespace quern::vm::tensor {

using Coordinates = std::array<std::uint64_t, 4>;

// Coordinates of word `element` (row * tile width + column) of a tile; they may lie in the padding.
[[nodiscard]] Coordinates tile_coordinates(const Shape& shape, std::uint64_t tile, std::uint32_t element);
[[nodiscard]] bool is_inside(const Shape& shape, const Coordinates& at);
// Row-major position in the tensor.
[[nodiscard]] std::uint64_t logical_index(const Shape& shape, const Coordinates& at);
[[nodiscard]] Coordinates coordinates_of(const Shape& shape, std::uint64_t logical_index);
// The tile that holds the element, and its place there.
[[nodiscard]] std::uint64_t tile_of(const Shape& shape, const Coordinates& at);
[[nodiscard]] std::uint32_t element_of(const Shape& shape, const Coordinates& at);

struct ElementSource {
    std::uint32_t operand = 0;
    Coordinates at{};
};
// Where operand `operand` of an elementwise node is read for the output element `at`.
[[nodiscard]] ElementSource elementwise_source(const Shape& operand_shape, std::uint32_t operand,
                                               const Coordinates& at);
// Where the index of row `row` under the leading indices of `at` stands, for gather_rows and scatter_add_rows.
[[nodiscard]] Coordinates index_coordinates(const Shape& index, const Coordinates& at, std::uint64_t row);

}  // namespace quern::vm::tensor
