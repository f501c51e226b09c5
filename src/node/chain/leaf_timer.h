// Times the leaves that this node executes for disputes, for people and benchmarks; no result depends on it. The chain
// thread runs the executions and commits; microseconds() is thread-safe. Each executed block keeps its own times until
// it is committed or dropped. Committed ones are in a side table of the database ("leaf_ns/<dispute>"), so that they
// survive restarts.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "chain/exec/result/observer.h"
#include "chain/store/kv.h"

namespace quern::node {

using LeafTimes = std::map<std::uint64_t, std::uint64_t>;  // dispute -> nanoseconds

class LeafTimer final : public chain::exec::ExecutionObserver {
public:
    void leaf_begins(std::uint64_t dispute) override;
    void leaf_ended(std::uint64_t dispute) override;

    // Begins another execution: forgets what the last one measured.
    void discard() { pending_.clear(); }
    // What was measured since.
    [[nodiscard]] LeafTimes take() { return std::exchange(pending_, {}); }
    // The times of the block that is being committed go into its batch ...
    static void write(const LeafTimes& times, chain::store::WriteBatch& batch);
    // ... and become visible once it is stored.
    void publish(const LeafTimes& times);

    [[nodiscard]] std::optional<double> microseconds(const chain::store::Reader& reader, std::uint64_t dispute) const;

private:
    std::chrono::steady_clock::time_point begun_;
    LeafTimes pending_;
    mutable Mutex mutex_;
    LeafTimes known_ QUERN_GUARDED_BY(mutex_);  // of this run
};

}  // namespace quern::node
