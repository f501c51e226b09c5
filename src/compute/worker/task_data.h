// A task's data tensors as a worker reads them: by leaves of 16 KiB, when a step first asks for one, from its node. One
// of more than a shard is read by shard (crypto/content_shards.h): the node needs those that are read of alone.
// TaskData is what all threads that work for a task share: the leaf hashes, which make the ids that the task names
// (of shards those that were read of last), and the leaves that were read last. Thread-safe. A DataReader is what one
// run reads them through.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/data.h"

namespace quern::compute::worker {

inline constexpr std::uint64_t kKeptDataBytes = 256U << 20;  // leaves of a task's data
// A node that is busy with other things, or that fetches a shard from others, is asked again: what a step has computed
// so far is lost with it. Not for long, since other tasks' work waits for the thread; the node goes on fetching.
inline constexpr std::chrono::milliseconds kDataPatience{5'000};
inline constexpr std::uint64_t kDataAskAgainMs = 250;
// Shards whose leaf hashes a worker keeps: 2 MiB each.
inline constexpr std::size_t kKeptShards = 128;
inline constexpr std::size_t kTriedShards = 4;  // of a data tensor, before a worker takes on a task

// What a worker keeps of data tensors of these sizes at most: the leaf hashes, and leaves.
[[nodiscard]] std::uint64_t kept_data_bytes(const vm::tensor::ProgramHeader& header,
                                            std::uint64_t most_leaves = kKeptDataBytes,
                                            unsigned shard_level = crypto::kContentShardLevel);

class TaskData {
public:
    // Fetches the leaf hashes of the contents `roots`, as many as the header has data tensors, or the lists of their
    // shards. A root of zeros is of a tensor that is not there yet: reading it is content.not_found. Errors: those of
    // NodeView::content_leaves and content_shards; inputs.wrong_data_size when a content has not the header's size.
    [[nodiscard]] static Expected<std::shared_ptr<const TaskData>> load(NodeView& node,
                                                                        const vm::tensor::ProgramHeader& header,
                                                                        std::span<const Hash32> roots,
                                                                        std::uint64_t kept_bytes = kKeptDataBytes,
                                                                        unsigned level = crypto::kContentShardLevel);

    // The same data with another content as the last tensor, which has the size of what it takes the place of. What is
    // kept of it is at most a quarter of what this may keep. Errors as load.
    [[nodiscard]] Expected<std::shared_ptr<const TaskData>> with_last(
        NodeView& node, const Hash32& root, unsigned level = crypto::kContentShardLevel) const;

    // Whether some shards of each list can be had: a few that `rng` draws, so that who holds back a part of his data is
    // found out before anybody answers for reading them. Errors as content_leaves.
    [[nodiscard]] Status try_shards(NodeView& node, Rng& rng) const;

    using Hashes = std::shared_ptr<const std::vector<Hash32>>;
    struct Set {
        Hash32 id;
        std::uint64_t size = 0;
        crypto::ContentShards shards;  // no list: the content is its only shard
        Hashes leaves;                 // of that one
        [[nodiscard]] std::uint64_t leaves_per_shard() const;
        [[nodiscard]] Hash32 shard_id(std::uint64_t shard) const;
        [[nodiscard]] std::uint64_t shard_bytes(std::uint64_t shard) const;
    };
    [[nodiscard]] const std::vector<Set>& sets() const { return sets_; }
    using Leaf = std::shared_ptr<const Bytes>;
    // nullptr: not kept.
    [[nodiscard]] Leaf find(std::size_t set, std::uint64_t number) const;
    // The one that was read longest ago goes when there is no room.
    void keep(std::size_t set, std::uint64_t number, Leaf leaf) const;
    // The same of a shard's leaf hashes.
    [[nodiscard]] Hashes find_hashes(std::size_t set, std::uint64_t shard) const;
    void keep_hashes(std::size_t set, std::uint64_t shard, Hashes hashes) const;

private:
    explicit TaskData(std::uint64_t kept_bytes) : kept_bytes_(kept_bytes) {}
    // What it is read by. Errors as load.
    [[nodiscard]] static Expected<Set> find_set(NodeView& node, const Hash32& root, std::uint64_t size, unsigned level,
                                                std::size_t number);

    using Key = std::pair<std::size_t, std::uint64_t>;
    struct Kept {
        Key key;
        Leaf leaf;
    };
    const std::uint64_t kept_bytes_;
    std::vector<Set> sets_;
    mutable Mutex mutex_;
    mutable std::list<Kept> kept_ QUERN_GUARDED_BY(mutex_);  // read last first
    mutable std::map<Key, std::list<Kept>::iterator> places_ QUERN_GUARDED_BY(mutex_);
    mutable std::uint64_t bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    struct KeptHashes {
        Key key;
        Hashes hashes;
    };
    mutable std::list<KeptHashes> hashes_ QUERN_GUARDED_BY(mutex_);  // read last first, kKeptShards at most
};

// Reads go through `node`, one at a time, while the thread whose connection it is waits for the run.
class DataReader final : public vm::tensor::DataSource {
public:
    explicit DataReader(std::shared_ptr<const TaskData> data) : data_(std::move(data)) {}
    // For the runs that come: both outlive them. `cancellation` (null: never) ends the waiting for a busy node.
    void bind(NodeView& node, const Cancellation* cancellation);

    [[nodiscard]] bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override;
    [[nodiscard]] std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const override;

    // Why something could not be read since this was asked last; until then nothing more is asked of the node. Errors:
    // those of NodeView::read_content; content.id_mismatch (busy: the node's fault).
    [[nodiscard]] std::optional<Error> take_missing();
    // Of a run that ended before its end: what take_missing gives, or worker.stopped.
    [[nodiscard]] Status why_ended(const Cancellation& stopping);

private:
    [[nodiscard]] TaskData::Leaf leaf(std::size_t set, std::uint64_t number) const;
    [[nodiscard]] Expected<TaskData::Leaf> fetch(std::size_t set, std::uint64_t number,
                                                 const std::vector<Hash32>& hashes) const QUERN_REQUIRES(mutex_);
    // The leaf hashes of a shard; nullptr as of a leaf.
    [[nodiscard]] TaskData::Hashes hashes(std::size_t set, std::uint64_t shard) const;
    [[nodiscard]] Expected<TaskData::Hashes> fetch_hashes(std::size_t set, std::uint64_t shard) const
        QUERN_REQUIRES(mutex_);
    // The answer of `ask`, asked again while it is busy and there is patience.
    template <class Ask>
    [[nodiscard]] auto patiently(const Ask& ask) const QUERN_REQUIRES(mutex_);

    const std::shared_ptr<const TaskData> data_;
    mutable Mutex mutex_;
    NodeView* node_ QUERN_GUARDED_BY(mutex_) = nullptr;
    const Cancellation* cancellation_ QUERN_GUARDED_BY(mutex_) = nullptr;
    mutable std::optional<Error> missing_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::compute::worker
