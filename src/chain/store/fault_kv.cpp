#include "chain/store/fault_kv.h"

#include <algorithm>
#include <utility>

namespace quern::chain::store {

FaultStore::FaultStore(Store& durable) : durable_(durable) {
    const MutexLock lock(mutex_);
    if (!reload()) writes_left_ = 0;
}

std::shared_ptr<MemoryStore> FaultStore::visible() const {
    const MutexLock lock(mutex_);
    return visible_;
}

Status FaultStore::reload() {
    WriteBatch all;
    QUERN_CHECK(durable_.for_each({}, {}, [&](BytesView key, BytesView value) {
        all.put(to_bytes(key), value);
        return true;
    }));
    visible_ = std::make_shared<MemoryStore>();
    return visible_->write(all, false);
}

Status FaultStore::write(const WriteBatch& batch, bool sync) {
    const MutexLock lock(mutex_);
    ++writes_;
    if (writes_left_ == 0) {
        if (std::exchange(log_next_refused_, false)) unsynced_.push_back(batch);
        return fault("store.io", "injected fault");
    }
    --writes_left_;
    unsynced_.push_back(batch);
    QUERN_CHECK(visible_->write(batch, sync));
    if (!sync) return {};
    for (const auto& earlier : unsynced_) QUERN_CHECK(durable_.write(earlier, true));
    unsynced_.clear();
    return {};
}

Status FaultStore::crash(std::size_t surviving) {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < std::min(surviving, unsynced_.size()); ++i)
        QUERN_CHECK(durable_.write(unsynced_[i], true));
    unsynced_.clear();
    writes_left_ = std::numeric_limits<std::size_t>::max();
    writes_ = 0;
    log_next_refused_ = false;
    return reload();
}

std::size_t FaultStore::unsynced_batches() const {
    const MutexLock lock(mutex_);
    return unsynced_.size();
}

void FaultStore::fail_writes_after(std::size_t count, bool first_is_logged) {
    const MutexLock lock(mutex_);
    writes_left_ = count;
    log_next_refused_ = first_is_logged;
}

std::size_t FaultStore::writes() const {
    const MutexLock lock(mutex_);
    return writes_;
}

}  // namespace quern::chain::store
