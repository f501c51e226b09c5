// A Store for tests that behaves as a disk does when the power goes: what was written without sync may be lost, whole
// batches at a time, newest first. It can also refuse writes, and a refused one may have reached the disk all the same,
// as when the sync fails after the log was written. Thread-safe as MemoryStore is.
#pragma once

#include <limits>

#include "chain/store/memory_kv.h"

namespace quern::chain::store {

class FaultStore final : public Store {
public:
    // `durable` is what survives; it must outlive this store and be written by nobody else.
    explicit FaultStore(Store& durable);

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override { return visible()->get(key); }
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        return visible()->for_each(prefix, start, visit);
    }
    [[nodiscard]] Status write(const WriteBatch& batch, bool sync) override;
    [[nodiscard]] std::unique_ptr<Reader> snapshot() const override { return visible()->snapshot(); }

    // Power loss and restart: of the batches that were not synced only the oldest `surviving` are left.
    [[nodiscard]] Status crash(std::size_t surviving = 0);
    [[nodiscard]] std::size_t unsynced_batches() const;
    // After `count` more writes each fails with store.io and changes nothing that can be read. With `first_is_logged`
    // the first of them is one of the batches that may survive a crash.
    void fail_writes_after(std::size_t count, bool first_is_logged = false);
    // That were asked for since this was made or crashed, refused ones included.
    [[nodiscard]] std::size_t writes() const;

private:
    [[nodiscard]] Status reload() QUERN_REQUIRES(mutex_);
    [[nodiscard]] std::shared_ptr<MemoryStore> visible() const;

    Store& durable_;
    mutable Mutex mutex_;
    std::shared_ptr<MemoryStore> visible_ QUERN_GUARDED_BY(mutex_) = std::make_shared<MemoryStore>();
    std::vector<WriteBatch> unsynced_ QUERN_GUARDED_BY(mutex_);
    std::size_t writes_left_ QUERN_GUARDED_BY(mutex_) = std::numeric_limits<std::size_t>::max();
    std::size_t writes_ QUERN_GUARDED_BY(mutex_) = 0;
    bool log_next_refused_ QUERN_GUARDED_BY(mutex_) = false;
};

}  // namespace quern::chain::store
