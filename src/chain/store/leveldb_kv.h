// A Store on disk through LevelDB, with checksums verified on every read. Thread-safe. One process at a time per
// folder.
#pragma once

#include <memory>
#include <string>

#include "chain/store/kv.h"

namespace quern::chain::store {

struct LevelDbOptions {
    std::size_t cache_bytes = std::size_t{64} << 20;
    // Of new values, twice while one is being written to disk. The larger it is, the fewer values that are overwritten
    // soon reach a table, and the less is merged: with a million accounts a transfer takes 99 us of CPU with 128 MiB,
    // 118 with 64 and 143 with 32.
    std::size_t write_buffer_bytes = std::size_t{128} << 20;
    std::size_t max_file_bytes = std::size_t{32} << 20;
    int bloom_bits_per_key = 10;  // 0: no filter
    // Tables that stay open: with those of max_file_bytes, 32 GB without reopening one at a cold read. LevelDB maps
    // them into memory and closes the file, so they cost no descriptors.
    int max_open_files = 1000;
    bool create_if_missing = true;
};

class LevelDbStore final : public Store {
public:
    // The folder's parent must exist. Errors: store.locked (another process has it open), store.not_found,
    // store.corrupt, store.io.
    [[nodiscard]] static Expected<std::unique_ptr<LevelDbStore>> open(const std::string& folder,
                                                                      const LevelDbOptions& options = {});
    ~LevelDbStore() override;
    LevelDbStore(const LevelDbStore&) = delete;
    LevelDbStore& operator=(const LevelDbStore&) = delete;

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override;
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;
    [[nodiscard]] Status write(const WriteBatch& batch, bool sync) override;
    [[nodiscard]] std::unique_ptr<Reader> snapshot() const override;

private:
    struct Impl;
    class Snapshot;
    explicit LevelDbStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::chain::store
