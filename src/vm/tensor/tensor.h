// Tensors of the canonical machine: four dimensions, 32-bit words, row major. Used by programs, executors,
// commitments and the chain's leaf. Plain values; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::vm::tensor {

enum class DType : std::uint8_t { f32 = 1, i32 = 2 };  // serialised in programs

inline constexpr std::uint32_t kTileSide = 32;                      // a tile is 32 x 32 words, or 1 x 1,024
inline constexpr std::uint32_t kTileWords = kTileSide * kTileSide;  // 1,024
inline constexpr std::uint32_t kTileBytes = kTileWords * 4;         // 4,096
inline constexpr std::uint64_t kMaxTensorElements = 1ULL << 31;     // 8 GiB; larger shapes are invalid

// Every tensor has four dims, right aligned: a scalar is [1,1,1,1], a vector of n is [1,1,1,n], a matrix
// [1,1,rows,columns]. No dim is 0. The last two are tiled, separately for each of the d0*d1 leading indices: by 32 x
// 32, or where there is one row by 1 x 1,024, so that a vector fills its tiles. Ragged tiles are padded with +0.
struct Shape {
    std::array<std::uint32_t, 4> dims{1, 1, 1, 1};

    constexpr bool operator==(const Shape&) const = default;
    [[nodiscard]] constexpr std::uint64_t leading() const { return std::uint64_t{dims[0]} * dims[1]; }
    [[nodiscard]] constexpr std::uint32_t rows() const { return dims[2]; }
    [[nodiscard]] constexpr std::uint32_t columns() const { return dims[3]; }
    [[nodiscard]] constexpr std::uint64_t elements() const { return leading() * dims[2] * dims[3]; }
    [[nodiscard]] constexpr std::uint32_t tile_height() const { return dims[2] == 1 ? 1 : kTileSide; }
    [[nodiscard]] constexpr std::uint32_t tile_width() const { return dims[2] == 1 ? kTileWords : kTileSide; }
    [[nodiscard]] constexpr std::uint64_t tile_rows() const {
        return (std::uint64_t{dims[2]} + tile_height() - 1) / tile_height();
    }
    [[nodiscard]] constexpr std::uint64_t tile_columns() const {
        return (std::uint64_t{dims[3]} + tile_width() - 1) / tile_width();
    }
    [[nodiscard]] constexpr std::uint64_t tiles() const { return leading() * tile_rows() * tile_columns(); }
    // No dim is 0 and elements() <= kMaxTensorElements, computed without overflow. Error: tensor.bad_shape.
    [[nodiscard]] Status validate() const;
    [[nodiscard]] std::string to_string() const;  // "[1,1,64,256]"
};

// Position of a tile: leading index, tile row, tile column. Tile number = (leading * tile_rows + row) * tile_columns +
// column: the order of the leaves in the tensor's Merkle tree.
struct TileIndex {
    std::uint64_t leading = 0;
    std::uint64_t row = 0;
    std::uint64_t column = 0;
};
[[nodiscard]] TileIndex tile_index(const Shape& shape, std::uint64_t tile_number);
[[nodiscard]] std::uint64_t tile_number(const Shape& shape, const TileIndex& index);

using Tile = std::array<std::uint32_t, kTileWords>;  // element (r, c) at r * tile width + c; serialised little endian

struct Tensor {
    DType dtype = DType::f32;
    Shape shape;
    std::vector<std::uint32_t> words;  // shape.elements() words; f32 as IEEE-754 bits, i32 as two's complement

    bool operator==(const Tensor&) const = default;
};

// The tile with zero padding. `tile` is in range.
[[nodiscard]] Tile read_tile(const Tensor& tensor, std::uint64_t tile);
void read_tile(const Tensor& tensor, std::uint64_t tile, Tile& to);
// Words whose bytes in memory are those of tile_bytes: what crypto::TileLeaves hashes.
void to_hashed_words(Tile& tile);
[[nodiscard]] Bytes tile_bytes(const Tile& tile);               // 4,096 bytes, little endian words
[[nodiscard]] Expected<Tile> tile_from_bytes(BytesView bytes);  // error tensor.bad_tile_size

// --- Commitments (doc/verification.md) -------------------------------------------------------------------------
[[nodiscard]] Hash32 tile_hash(const Tile& tile);                     // merkle_leaf of its bytes
[[nodiscard]] std::vector<Hash32> tile_hashes(const Tensor& tensor);  // in tile order
// The content id of its tiles' bytes in order. Dtype and dims are not in it: they come from the program's record.
[[nodiscard]] Hash32 tensor_root(const Tensor& tensor);
[[nodiscard]] Hash32 tensor_root_of(std::span<const Hash32> tile_hashes);
// The root of a state: list_id(state) over the slots' tensor roots.
[[nodiscard]] Hash32 state_root(std::span<const Hash32> slot_roots);

}  // namespace quern::vm::tensor
