// What window nodes read: the task's data tensors, which are contents, byte by byte. A run asks for windows of them, a
// dispute for single tiles with their paths. Used by the executor, by compute/torch, by disputants and by the chain's
// leaf. Sources are asked by several threads at once.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "vm/tensor/graph.h"

namespace quern::vm::tensor {

[[nodiscard]] std::string_view name_of(DataType type);  // "u8"
[[nodiscard]] std::optional<DataType> data_type_of(std::string_view name);

class DataSource {
public:
    virtual ~DataSource() = default;
    // Bytes [first, first + out.size()) of data tensor `set`, which lie within it. False: they cannot be had now. The
    // run that asked ends as if it was cancelled; why is for who gave it the source to ask.
    [[nodiscard]] virtual bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const = 0;
    // The path of tile `tile` of that tensor up to its content's top; nullopt as above.
    [[nodiscard]] virtual std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const = 0;
};

// Whole tensors in memory, which are always to be had.
class MemoryData final : public DataSource {
public:
    MemoryData() = default;
    explicit MemoryData(std::vector<Bytes> sets) : sets_(std::move(sets)) {}
    [[nodiscard]] const std::vector<Bytes>& sets() const { return sets_; }
    [[nodiscard]] std::vector<Hash32> roots() const;  // content ids
    [[nodiscard]] bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override;
    [[nodiscard]] std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const override;

private:
    std::vector<Bytes> sets_;
};

// The output of a window node: `index` are its operand's words in order, `out` its own. False: the source had not all.
[[nodiscard]] bool read_windows(const ProgramHeader& header, const Node& node, const std::uint32_t* index,
                                const DataSource& data, std::uint32_t* out, ThreadPool* pool);

// --- Tiles of data, as leaves read them: the last one of a tensor has only the bytes that there are ------------------
[[nodiscard]] std::uint64_t data_tiles(const DataSet& data);
[[nodiscard]] std::size_t data_tile_bytes(const DataSet& data, std::uint64_t tile);  // of a tile that there is
// Its bytes in a tile's words, as they stand in memory of little endian order; +0 behind them. `bytes` are at most a
// tile's.
[[nodiscard]] Tile pack_data_tile(BytesView bytes);
// Element `at` of a tile of elements of this type, as a word.
[[nodiscard]] std::uint32_t data_word(DataType type, const Tile& tile, std::uint64_t at);
// nullopt: the source has it not.
[[nodiscard]] std::optional<Bytes> read_data_tile(const DataSet& data, const DataSource& source, std::size_t set,
                                                  std::uint64_t tile);

}  // namespace quern::vm::tensor
