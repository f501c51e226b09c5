#include "vm/tensor/element_map.h"

namespace quern::vm::tensor {

Coordinates tile_coordinates(const Shape& shape, std::uint64_t tile, std::uint32_t element) {
    const TileIndex index = tile_index(shape, tile);
    const std::uint32_t width = shape.tile_width();
    return {index.leading / shape.dims[1], index.leading % shape.dims[1],
            index.row * shape.tile_height() + element / width, index.column * width + element % width};
}

bool is_inside(const Shape& shape, const Coordinates& at) {
    for (std::size_t d = 0; d < 4; ++d)
        if (at[d] >= shape.dims[d]) return false;
    return true;
}

std::uint64_t logical_index(const Shape& shape, const Coordinates& at) {
    return ((at[0] * shape.dims[1] + at[1]) * shape.dims[2] + at[2]) * shape.dims[3] + at[3];
}

Coordinates coordinates_of(const Shape& shape, std::uint64_t logical_index) {
    Coordinates at{};
    for (std::size_t d = 4; d-- > 0;) {
        at[d] = logical_index % shape.dims[d];
        logical_index /= shape.dims[d];
    }
    return at;
}

std::uint64_t tile_of(const Shape& shape, const Coordinates& at) {
    return tile_number(shape, {at[0] * shape.dims[1] + at[1], at[2] / shape.tile_height(), at[3] / shape.tile_width()});
}

std::uint32_t element_of(const Shape& shape, const Coordinates& at) {
    return static_cast<std::uint32_t>(at[2] % shape.tile_height() * shape.tile_width() + at[3] % shape.tile_width());
}

ElementSource elementwise_source(const Shape& operand_shape, std::uint32_t operand, const Coordinates& at) {
    ElementSource source{operand, at};
    for (std::size_t d = 0; d < 4; ++d)
        if (operand_shape.dims[d] == 1) source.at[d] = 0;
    return source;
}

Coordinates index_coordinates(const Shape& index, const Coordinates& at, std::uint64_t row) {
    if (index.rows() == 1) return {at[0], at[1], 0, row};
    return {at[0], at[1], row, 0};
}

}  // namespace quern::vm::tensor
