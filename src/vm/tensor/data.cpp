// No floating-point type may appear in this file: data_word is part of the chain's verdict.
#include "vm/tensor/data.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "crypto/content_id.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {
namespace {

constexpr std::array<std::pair<std::string_view, DataType>, 5> kNames{{{"f32", DataType::f32},
                                                                       {"i32", DataType::i32},
                                                                       {"u8", DataType::u8},
                                                                       {"i8", DataType::i8},
                                                                       {"u16", DataType::u16}}};

constexpr std::size_t kReadBytes = 16384;  // of a window at once: a multiple of each element's size

std::uint32_t word_of(DataType type, const std::uint8_t* at) {
    switch (type) {
        case DataType::u8:
            return *at;
        case DataType::i8:
            return (*at ^ 0x80U) - 0x80U;
        case DataType::u16:
            return static_cast<std::uint32_t>(at[0] | at[1] << 8);
        case DataType::f32:
        case DataType::i32:
            break;
    }
    return static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8 |
           static_cast<std::uint32_t>(at[2]) << 16 | static_cast<std::uint32_t>(at[3]) << 24;
}

// One window: elements [first, first + length) of the tensor, +0 beyond its end.
bool read_window(const DataSet& data, const DataSource& source, std::size_t set, std::uint64_t first,
                 std::size_t length, std::uint32_t* out) {
    const std::size_t size = element_bytes(data.type);
    const std::uint64_t inside = first >= data.elements ? 0 : std::min<std::uint64_t>(length, data.elements - first);
    std::array<std::uint8_t, kReadBytes> bytes;
    for (std::uint64_t done = 0; done < inside;) {
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(inside - done, kReadBytes / size));
        if (!source.read(set, (first + done) * size, {bytes.data(), part * size})) return false;
        for (std::size_t i = 0; i < part; ++i) out[done + i] = word_of(data.type, bytes.data() + i * size);
        done += part;
    }
    std::fill(out + inside, out + length, 0U);
    return true;
}

}  // namespace

std::string_view name_of(DataType type) {
    for (const auto& [name, each] : kNames)
        if (each == type) return name;
    return "unknown";
}

std::optional<DataType> data_type_of(std::string_view name) {
    for (const auto& [each, type] : kNames)
        if (each == name) return type;
    return std::nullopt;
}

std::vector<Hash32> MemoryData::roots() const {
    std::vector<Hash32> roots;
    for (const Bytes& set : sets_) roots.push_back(crypto::content_id_of(set));
    return roots;
}

bool MemoryData::read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const {
    if (set >= sets_.size() || first > sets_[set].size() || out.size() > sets_[set].size() - first) return false;
    std::memcpy(out.data(), sets_[set].data() + first, out.size());
    return true;
}

std::optional<std::vector<Hash32>> MemoryData::tile_path(std::size_t set, std::uint64_t tile) const {
    if (set >= sets_.size()) return std::nullopt;
    const BytesView bytes(sets_[set]);
    std::vector<Hash32> hashes;
    for (std::size_t at = 0; at < bytes.size(); at += kTileBytes)
        hashes.push_back(crypto::merkle_leaf(bytes.subspan(at, std::min<std::size_t>(kTileBytes, bytes.size() - at))));
    if (tile >= hashes.size()) return std::nullopt;
    return crypto::merkle_path(hashes, tile);
}

bool read_windows(const ProgramHeader& header, const Node& node, const std::uint32_t* index, const DataSource& data,
                  std::uint32_t* out, ThreadPool* pool) {
    const std::size_t set = node.attributes[0];
    const std::uint64_t stride = node.attributes[1];
    const std::size_t length = node.shape.columns();
    const std::size_t rows = node.shape.elements() / length;
    std::atomic<bool> complete = true;
    parallel_parts(pool, rows, node.shape.elements(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end && complete; ++row)  // a product of 32-bit numbers fits
            if (!read_window(header.data[set], data, set, index[row] * stride, length, out + row * length))
                complete = false;
    });
    return complete;
}

std::uint64_t data_tiles(const DataSet& data) { return (data_bytes(data) + kTileBytes - 1) / kTileBytes; }

std::size_t data_tile_bytes(const DataSet& data, std::uint64_t tile) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(kTileBytes, data_bytes(data) - tile * kTileBytes));
}

Tile pack_data_tile(BytesView bytes) {
    Tile tile{};
    for (std::size_t i = 0; i < bytes.size(); ++i) tile[i / 4] |= static_cast<std::uint32_t>(bytes[i]) << (8 * (i % 4));
    return tile;
}

std::uint32_t data_word(DataType type, const Tile& tile, std::uint64_t at) {
    const std::uint64_t first = at * element_bytes(type);
    const std::uint32_t word = tile[first / 4] >> (8 * (first % 4));
    const std::array<std::uint8_t, 4> bytes{static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(word >> 8),
                                            static_cast<std::uint8_t>(word >> 16),
                                            static_cast<std::uint8_t>(word >> 24)};
    return word_of(type, bytes.data());
}

std::optional<Bytes> read_data_tile(const DataSet& data, const DataSource& source, std::size_t set,
                                    std::uint64_t tile) {
    if (tile >= data_tiles(data)) return std::nullopt;
    Bytes bytes(data_tile_bytes(data, tile));
    if (!source.read(set, tile * kTileBytes, bytes)) return std::nullopt;
    return bytes;
}

}  // namespace quern::vm::tensor
