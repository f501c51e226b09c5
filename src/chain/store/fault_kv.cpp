#include "chain/store/fault_kv.h"

#include <algorithm>

namespace quern::chain::store {

FaultStore::FaultStore(Store& durable) : durable_(durable), visible_(std::make_unique<MemoryStore>()) {
    if (!reload()) writes_left_ = 0;
}

Status FaultStore::reload() {
    WriteBatch all;
    QUERN_CHECK(durable_.for_each({}, {}, [&](BytesView key, BytesView value) {
        all.put(to_bytes(key), value);
        return true;
    }));
    visible_ = std::make_unique<MemoryStore>();
    return visible_->write(all, false);
}

Status FaultStore::write(const WriteBatch& batch, bool sync) {
    const std::lock_guard lock(mutex_);
    if (writes_left_ == 0) return fault("store.io", "injected fault");
    --writes_left_;
    unsynced_.push_back(batch);
    QUERN_CHECK(visible_->write(batch, sync));
    if (!sync) return {};
    for (const auto& earlier : unsynced_) QUERN_CHECK(durable_.write(earlier, true));
    unsynced_.clear();
    return {};
}

Status FaultStore::crash(std::size_t surviving) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < std::min(surviving, unsynced_.size()); ++i)
        QUERN_CHECK(durable_.write(unsynced_[i], true));
    unsynced_.clear();
    writes_left_ = std::numeric_limits<std::size_t>::max();
    return reload();
}

std::size_t FaultStore::unsynced_batches() const {
    const std::lock_guard lock(mutex_);
    return unsynced_.size();
}

void FaultStore::fail_writes_after(std::size_t count) {
    const std::lock_guard lock(mutex_);
    writes_left_ = count;
}

}  // namespace quern::chain::store
