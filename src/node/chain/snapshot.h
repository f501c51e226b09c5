// What readers see: the chain after one committed block, immutable. The executor publishes one per block; RPC
// threads hold the one they started with for as long as they need it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "chain/api/chain_reader.h"
#include "chain/state/flat_state.h"
#include "chain/state/past_state.h"
#include "chain/store/kv.h"

namespace quern::node {

using chain::state::kKeptStates;

struct Snapshot {
    Snapshot(std::unique_ptr<chain::store::Reader> view, std::shared_ptr<const chain::api::BlockView> newest,
             Uint256 base_fee, std::shared_ptr<chain::state::AccountCache> used_lately)
        : reader(std::move(view)),
          accounts(std::move(used_lately)),
          state(*reader, {accounts.get(), newest->block.header.number, false}),
          head(std::move(newest)),
          next_base_fee(base_fee) {}
    // An older state, read from a newer snapshot.
    Snapshot(std::shared_ptr<const Snapshot> from, std::unique_ptr<chain::state::StateAt> older,
             std::shared_ptr<const chain::api::BlockView> block, Uint256 base_fee)
        : newer(std::move(from)),
          past(older.get()),
          reader(std::move(older)),
          state(*reader),
          head(std::move(block)),
          next_base_fee(base_fee) {}
    [[nodiscard]] std::uint64_t number() const { return head->block.header.number; }
    // Errors: StateAt::prove's.
    [[nodiscard]] Expected<chain::state::AccountProof> prove(const chain::types::Address& address,
                                                             std::span<const Hash32> slots) const {
        const Hash32& root = head->block.header.state_root;
        if (past != nullptr) return past->prove(root, address, slots);
        return chain::state::PastState(*reader, number(), number()).prove(root, address, slots);
    }

    const std::shared_ptr<const Snapshot> newer;
    const chain::state::StateAt* const past = nullptr;
    const std::unique_ptr<chain::store::Reader> reader;
    const std::shared_ptr<chain::state::AccountCache> accounts;  // null: none at hand for this state
    const chain::state::FlatState state;
    const std::shared_ptr<const chain::api::BlockView> head;
    const Uint256 next_base_fee;
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// Thread-safe. Snapshots must be let go before the store closes.
class SnapshotBoard {
public:
    void publish(SnapshotPtr snapshot) {
        const Snapshot& newest = *snapshot;
        {
            const MutexLock lock(mutex_);
            kept_.push_back(std::move(snapshot));
            if (kept_.size() > kKeptStates) kept_.pop_front();
        }
        // The snapshot is among the kept ones until the same thread publishes another.
        const MutexLock lock(watcher_mutex_);
        if (watcher_) watcher_(newest);
    }
    // Called after each publication by the publishing thread, which it must not hold up. One watcher at a time; none
    // runs any more when this returns. Watching changes nothing of what readers see: hence const.
    void watch(std::function<void(const Snapshot&)> watcher) const {
        const MutexLock lock(watcher_mutex_);
        watcher_ = std::move(watcher);
    }
    // Never null after the chain was opened.
    [[nodiscard]] SnapshotPtr latest() const {
        const MutexLock lock(mutex_);
        return kept_.empty() ? nullptr : kept_.back();
    }
    // Null when that block's state is not kept.
    [[nodiscard]] SnapshotPtr at(std::uint64_t number) const {
        const MutexLock lock(mutex_);
        for (const auto& snapshot : kept_)
            if (snapshot->number() == number) return snapshot;
        return nullptr;
    }

private:
    mutable Mutex mutex_;
    std::deque<SnapshotPtr> kept_ QUERN_GUARDED_BY(mutex_);
    mutable Mutex watcher_mutex_;
    mutable std::function<void(const Snapshot&)> watcher_ QUERN_GUARDED_BY(watcher_mutex_);
};

}  // namespace quern::node
