// The keys of some prefixes in memory, in order, with their values: those over which execution walks (role bonds,
// validators by stake). A walk in the database pays for the dead as well: for keys that were erased and for older
// versions, of which somebody can make thousands for the price of gas, and compaction comes late. Here it pays for what
// lives. LiveRanges follows the database: whoever commits tells it of each batch. Thread-safe.
#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "chain/store/kv.h"

namespace quern::chain::store {

class LiveRanges {
public:
    static constexpr std::size_t kPage = 64;  // entries that are copied under the lock at once

    // Walks within these prefixes alone are answered.
    explicit LiveRanges(std::vector<Bytes> prefixes) : prefixes_(std::move(prefixes)) {}
    LiveRanges(const LiveRanges&) = delete;
    LiveRanges& operator=(const LiveRanges&) = delete;

    // What `reader`, the state after block `height`, holds. Errors: the reader's.
    [[nodiscard]] Status load(const Reader& reader, std::uint64_t height);
    // Block `height` wrote this batch.
    void apply(const WriteBatch& batch, std::uint64_t height);

    using Entries = std::vector<std::pair<Bytes, Bytes>>;
    // Up to kPage entries that start with `prefix`, from `start` on; fewer are the last. Nothing when it does not know
    // that prefix, or not as of block `height`, where one is given.
    [[nodiscard]] std::optional<Entries> page(BytesView prefix, BytesView start,
                                              const std::optional<std::uint64_t>& height) const;
    [[nodiscard]] std::size_t size() const;

private:
    [[nodiscard]] bool covers(BytesView prefix_or_key) const;

    const std::vector<Bytes> prefixes_;
    mutable Mutex mutex_;
    std::map<Bytes, Bytes, BytesLess> entries_ QUERN_GUARDED_BY(mutex_);
    std::uint64_t height_ QUERN_GUARDED_BY(mutex_) = 0;
};

// A database with those walks in memory.
class LiveRangesReader final : public Reader {
public:
    // Of the database itself, by whoever commits to it.
    LiveRangesReader(const Reader& below, std::shared_ptr<const LiveRanges> ranges)
        : below_(below), ranges_(std::move(ranges)) {}
    // Of a snapshot after block `height`: in memory while the newest block is that one.
    LiveRangesReader(std::unique_ptr<Reader> snapshot, std::shared_ptr<const LiveRanges> ranges, std::uint64_t height)
        : snapshot_(std::move(snapshot)), below_(*snapshot_), ranges_(std::move(ranges)), height_(height) {}

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override { return below_.get(key); }
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;
    // Whether a walk over it needs no database.
    [[nodiscard]] bool is_in_memory(BytesView prefix) const { return ranges_->page(prefix, {}, height_).has_value(); }

private:
    const std::unique_ptr<Reader> snapshot_;
    const Reader& below_;
    const std::shared_ptr<const LiveRanges> ranges_;
    const std::optional<std::uint64_t> height_;
};

}  // namespace quern::chain::store
