// Whom this node has accused already: one who signs twice does so in each view, and one pair of an epoch is enough. The
// oldest epochs are forgotten first. Thread-safe.
#pragma once

#include <set>

#include "base/bytes.h"
#include "base/mutex.h"

namespace quern::node {

inline constexpr std::size_t kMaxAccused = 4096;

class Accusations {
public:
    // True the first time.
    [[nodiscard]] bool add(const Bytes20& signer, std::uint64_t epoch) {
        const MutexLock lock(mutex_);
        if (!known_.emplace(epoch, signer).second) return false;
        if (known_.size() > kMaxAccused) known_.erase(known_.begin());
        return true;
    }
    [[nodiscard]] std::size_t size() const {
        const MutexLock lock(mutex_);
        return known_.size();
    }

private:
    mutable Mutex mutex_;
    std::set<std::pair<std::uint64_t, Bytes20>> known_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
