// The data tensor that a solver brings in tolerance mode: its checkpoints, a row a segment (compute/tolerance/judge),
// in a file as large as the tensor, in which rows that are not there yet are zeros. What was written stays where a
// killed worker goes on; a row is written before the checkpoint that follows from it is told of. One thread writes;
// reads are thread-safe beside it.
#pragma once

#include <string>

#include "compute/worker/node_view.h"
#include "vm/tensor/data.h"

namespace quern::compute::worker {

class ClaimedRows {
public:
    ClaimedRows(ClaimedRows&& other) noexcept;
    ClaimedRows& operator=(ClaimedRows&& other) = delete;
    ~ClaimedRows();
    // Opens the file at `path`, of `bytes`, rows of `row_bytes`; makes it where it is `fresh` and not there. Errors:
    // fs.*; worker.bad_rows: it has another size; worker.rows_gone: it is not there.
    [[nodiscard]] static Expected<ClaimedRows> open(const std::string& path, std::uint64_t bytes,
                                                    std::uint64_t row_bytes, bool fresh);

    [[nodiscard]] std::uint64_t row_bytes() const { return row_bytes_; }
    // Row `number`, on the disk when this returns. Errors fs.*; worker.bad_rows: there is no such row.
    [[nodiscard]] Status write(std::uint64_t number, BytesView row);
    [[nodiscard]] bool read(std::uint64_t first, std::span<std::uint8_t> out) const;

    // Uploads it all, by shard where it is larger than one; gives its content id. Errors: fs.*,
    // content.upload_refused.
    [[nodiscard]] Expected<Hash32> put(NodeView& node) const;

private:
    ClaimedRows(std::string path, int descriptor, std::uint64_t bytes, std::uint64_t row_bytes)
        : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes), row_bytes_(row_bytes) {}

    std::string path_;
    int descriptor_ = -1;
    std::uint64_t bytes_ = 0;
    std::uint64_t row_bytes_ = 1;
};

// A task's data with these rows as the last tensor.
class DataWithRows final : public vm::tensor::DataSource {
public:
    // Both outlive this. `set`: the number of the rows' tensor.
    DataWithRows(const vm::tensor::DataSource& others, const ClaimedRows& rows, std::size_t set)
        : others_(others), rows_(rows), set_(set) {}
    [[nodiscard]] bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override {
        return set == set_ ? rows_.read(first, out) : others_.read(set, first, out);
    }
    // Nobody disputes what is not proved yet.
    [[nodiscard]] std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const override {
        return set == set_ ? std::nullopt : others_.tile_path(set, tile);
    }

private:
    const vm::tensor::DataSource& others_;
    const ClaimedRows& rows_;
    const std::size_t set_;
};

}  // namespace quern::compute::worker
