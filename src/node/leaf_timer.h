// Times the leaves that this node executes for disputes, for people and benchmarks; no result depends on it. The chain
// thread runs the executions and commits; leaf_microseconds() is thread-safe. Times are kept in a side table of the
// database ("leaf_ns/<dispute>"), so that they survive restarts.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "chain/exec/block_executor.h"
#include "chain/store/kv.h"

namespace quern::node {

class LeafTimer final : public chain::exec::ExecutionObserver {
public:
    void leaf_begins(std::uint64_t dispute) override;
    void leaf_ended(std::uint64_t dispute) override;

    // Forgets what was measured since the last commit: the block is executed again.
    void discard() { pending_.clear(); }
    // What was measured for the block that is being committed goes into its batch ...
    void write(chain::store::WriteBatch& batch) const;
    // ... and becomes visible once it is stored.
    void publish();

    [[nodiscard]] std::optional<double> microseconds(const chain::store::Reader& reader, std::uint64_t dispute) const;

private:
    std::chrono::steady_clock::time_point begun_;
    std::map<std::uint64_t, std::uint64_t> pending_;  // dispute -> nanoseconds
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> known_;  // of this run; guarded by mutex_
};

}  // namespace quern::node
