// Writes the parts of the tries whose turn it is (chain/state/state_tries.h) on a thread of its own, so that no block's
// commit waits for them: in the order in which they were given, not synced, as the next block's sync covers them and a
// start repeats what is missing. What waits is bounded: then add() waits, too. add(), take_written() and finish()
// belong to one thread.
#pragma once

#include <deque>
#include <thread>

#include "base/mutex.h"
#include "chain/state/state_tries.h"

namespace quern::node {

// Of nodes that wait to be written; a full block has about 10 MiB.
inline constexpr std::size_t kMaxUnflushedBytes = std::size_t{64} << 20;

class StateFlusher {
public:
    // `store` outlives this. With a limit of 0 there is no thread, and add() writes.
    explicit StateFlusher(chain::store::Store& store, std::size_t max_bytes = kMaxUnflushedBytes);
    // Writes what waits, unless a write failed.
    ~StateFlusher();
    StateFlusher(const StateFlusher&) = delete;
    StateFlusher& operator=(const StateFlusher&) = delete;

    // After the block that the parts are taken of was written. More than the limit may wait for it alone. Errors:
    // store.* of this or an earlier write; after one nothing is written any more.
    [[nodiscard]] Status add(chain::state::DueParts due);
    // What was written since this was asked last.
    [[nodiscard]] std::vector<std::size_t> take_written();
    // Waits until nothing waits. Errors: as add.
    [[nodiscard]] Status finish();

private:
    void run();

    chain::store::Store& store_;
    const std::size_t max_bytes_;
    Mutex mutex_;
    CondVar changed_;
    std::deque<chain::state::DueParts> waiting_ QUERN_GUARDED_BY(mutex_);  // the first one is being written
    std::size_t bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::vector<std::size_t> written_ QUERN_GUARDED_BY(mutex_);
    Status status_ QUERN_GUARDED_BY(mutex_);
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace quern::node
