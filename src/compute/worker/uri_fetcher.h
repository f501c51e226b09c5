// Contents that no node serves, fetched from a task's uris into the node's store, as far as the operator allows
// (doc/operations.md, "Data from elsewhere"). Threads of its own do it, so that nobody who is paid waits for a
// stranger's server. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "compute/transfer/fetch.h"
#include "compute/worker/content_sources.h"
#include "compute/worker/node_view.h"

namespace quern::compute::worker {

inline constexpr std::size_t kUriFetchers = 4;           // at once, of a task one
inline constexpr std::size_t kVoluntaryUriFetchers = 3;  // of tasks that the worker does not answer for
inline constexpr std::size_t kMaxUriJobs = 256;          // waiting, under way, and lately in vain
inline constexpr std::uint64_t kUriAgainMs = 15'000;     // after one in vain; doubled each time
inline constexpr std::uint64_t kUriAgainMostMs = 600'000;
inline constexpr std::uint64_t kUriForgottenMs = 1'800'000;  // that nobody asked for it: the task is over, or nearly
inline constexpr std::uint64_t kUriFreeBytes = 1ULL << 30;  // that stay on the disk, for whatever else is written there

// Bytes that may be written below a directory; nullopt where the system does not say it.
[[nodiscard]] std::optional<std::uint64_t> available_bytes(const std::string& directory);

struct UriOptions {
    transfer::TransferOptions transfer;
    std::string directory;                  // for what is on its way
    std::uint64_t max_bytes = 16ULL << 30;  // of all that is on its way and of the parts that are kept; 0: nothing
    unsigned shard_level = crypto::kContentShardLevel;
    std::function<std::optional<std::uint64_t>(const std::string&)> available = available_bytes;
};

class UriFetcher final : public ContentSources {
public:
    // Threads begin when something is asked for first.
    UriFetcher(UriOptions options, NodeFactory connect, const Clock& clock);
    ~UriFetcher() override;  // what is under way ends, and its part stays

    [[nodiscard]] bool fetches(const chain::types::Task& task, const WantedContent& content, Duty duty) override;

private:
    enum class Stage : std::uint8_t { waiting, running, ended };
    // What a transfer under way looks at.
    struct Asked {
        std::atomic<std::uint64_t> at{0};     // last
        std::atomic<bool> makes_room{false};  // to what the worker answers for
    };
    struct Job {
        std::uint64_t task = 0;
        std::vector<transfer::SourceUri> sources;
        transfer::Wanted wanted;
        Duty duty = Duty::voluntary;
        Stage stage = Stage::waiting;
        std::uint64_t number = 0;    // the order in which they were asked for
        std::uint64_t again_at = 0;  // once ended
        std::uint64_t wait_ms = kUriAgainMs;
        std::shared_ptr<Asked> asked;
        [[nodiscard]] std::uint64_t bytes() const { return wanted.size.value_or(wanted.max_bytes); }
    };
    using Jobs = std::map<Hash32, Job, BytesLess>;

    void run();
    [[nodiscard]] Jobs::iterator next() QUERN_REQUIRES(mutex_);
    [[nodiscard]] bool is_over(const Asked& asked) const;
    // Whether there is a place in the table, which what nobody is bound to leaves to what somebody is.
    [[nodiscard]] bool has_place(Duty duty) QUERN_REQUIRES(mutex_);
    // Whether parts of others leave room for so many bytes, of those that are allowed and of those that the disk has;
    // those that nobody fetches go for it, the oldest first.
    [[nodiscard]] bool make_room(const Hash32& id, std::uint64_t bytes) QUERN_REQUIRES(mutex_);
    // Whether there were any; their parts stay until the room is needed.
    [[nodiscard]] bool stop_voluntary() QUERN_REQUIRES(mutex_);
    [[nodiscard]] Status bring(const Job& job);
    [[nodiscard]] static Status put(NodeView& node, const transfer::Fetched& content);

    const UriOptions options_;
    const NodeFactory connect_;
    const Clock& clock_;
    std::atomic<bool> stop_{false};
    Mutex mutex_;
    CondVar changed_;
    Jobs jobs_ QUERN_GUARDED_BY(mutex_);
    std::uint64_t asked_ QUERN_GUARDED_BY(mutex_) = 0;
    std::list<std::thread> threads_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::compute::worker
