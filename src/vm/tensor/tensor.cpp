#include "vm/tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "crypto/content_id.h"

namespace quern::vm::tensor {

static_assert(kTileBytes == crypto::kContentTileBytes);

Status Shape::validate() const {
    std::uint64_t product = 1;  // at most 2^31 * (2^32 - 1) before it is compared: no overflow
    for (const std::uint32_t dim : dims) {
        if (dim == 0) return fail("tensor.bad_shape", "a dim is 0 in " + to_string());
        product *= dim;
        if (product > kMaxTensorElements) return fail("tensor.bad_shape", "too many elements in " + to_string());
    }
    return {};
}

std::string Shape::to_string() const {
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (i != 0) text += ',';
        text += std::to_string(dims[i]);
    }
    return text + "]";
}

TileIndex tile_index(const Shape& shape, std::uint64_t tile_number) {
    const std::uint64_t columns = shape.tile_columns();
    const std::uint64_t per_matrix = shape.tile_rows() * columns;
    const std::uint64_t in_matrix = tile_number % per_matrix;
    return {tile_number / per_matrix, in_matrix / columns, in_matrix % columns};
}

std::uint64_t tile_number(const Shape& shape, const TileIndex& index) {
    return (index.leading * shape.tile_rows() + index.row) * shape.tile_columns() + index.column;
}

Tile read_tile(const Tensor& tensor, std::uint64_t tile) {
    Tile result;
    read_tile(tensor, tile, result);
    return result;
}

void read_tile(const Tensor& tensor, std::uint64_t tile, Tile& to) {
    const TileIndex at = tile_index(tensor.shape, tile);
    const std::size_t rows = tensor.shape.rows();
    const std::size_t columns = tensor.shape.columns();
    const std::size_t height = tensor.shape.tile_height();
    const std::size_t width = tensor.shape.tile_width();
    const std::size_t row = at.row * height;
    const std::size_t column = at.column * width;
    const std::size_t row_count = std::min(height, rows - row);
    const std::size_t column_count = std::min(width, columns - column);
    const std::uint32_t* source = tensor.words.data() + (at.leading * rows + row) * columns + column;
    if (row_count * column_count != kTileWords) to.fill(0);
    for (std::size_t r = 0; r < row_count; ++r)
        std::memcpy(to.data() + r * width, source + r * columns, column_count * sizeof(std::uint32_t));
}

void to_hashed_words(Tile& tile) {
    if constexpr (std::endian::native == std::endian::little) return;
    const Bytes bytes = tile_bytes(tile);
    std::memcpy(tile.data(), bytes.data(), kTileBytes);
}

Bytes tile_bytes(const Tile& tile) {
    Bytes bytes(kTileBytes);
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(bytes.data(), tile.data(), kTileBytes);
    } else {
        for (std::size_t i = 0; i < kTileWords; ++i)
            for (std::size_t b = 0; b < 4; ++b) bytes[4 * i + b] = static_cast<std::uint8_t>(tile[i] >> (8 * b));
    }
    return bytes;
}

Expected<Tile> tile_from_bytes(BytesView bytes) {
    if (bytes.size() != kTileBytes)
        return fail("tensor.bad_tile_size", "a tile has 4096 bytes, got " + std::to_string(bytes.size()));
    Tile tile;
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(tile.data(), bytes.data(), kTileBytes);
    } else {
        for (std::size_t i = 0; i < kTileWords; ++i)
            tile[i] = static_cast<std::uint32_t>(bytes[4 * i]) | static_cast<std::uint32_t>(bytes[4 * i + 1]) << 8 |
                      static_cast<std::uint32_t>(bytes[4 * i + 2]) << 16 |
                      static_cast<std::uint32_t>(bytes[4 * i + 3]) << 24;
    }
    return tile;
}

Hash32 tile_hash(const Tile& tile) {
    if constexpr (std::endian::native == std::endian::little)
        return crypto::merkle_leaf({reinterpret_cast<const std::uint8_t*>(tile.data()), kTileBytes});
    else
        return crypto::merkle_leaf(tile_bytes(tile));
}

std::vector<Hash32> tile_hashes(const Tensor& tensor) {
    std::vector<Hash32> hashes(tensor.shape.tiles());
    crypto::TileLeaves leaves(hashes.size());
    for (std::uint64_t tile = 0; tile < hashes.size(); ++tile) {
        Tile& words = leaves.next(hashes[tile]);
        read_tile(tensor, tile, words);
        to_hashed_words(words);
    }
    leaves.flush();
    return hashes;
}

Hash32 tensor_root(const Tensor& tensor) { return tensor_root_of(tile_hashes(tensor)); }

Hash32 tensor_root_of(std::span<const Hash32> tile_hashes) { return crypto::content_id_of_tiles(tile_hashes); }

Hash32 state_root(std::span<const Hash32> slot_roots) {
    return crypto::list_id_of(crypto::MerkleTag::state, slot_roots);
}

}  // namespace quern::vm::tensor
