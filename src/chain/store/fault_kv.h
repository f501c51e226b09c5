// A Store for tests that behaves as a disk does when the power goes: what was written without sync may be lost, whole
// batches at a time, newest first. It can also refuse writes. Thread-safe as MemoryStore is.
#pragma once

#include <limits>

#include "chain/store/memory_kv.h"

namespace quern::chain::store {

class FaultStore final : public Store {
public:
    // `durable` is what survives; it must outlive this store and be written by nobody else.
    explicit FaultStore(Store& durable);

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override { return visible_->get(key); }
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        return visible_->for_each(prefix, start, visit);
    }
    [[nodiscard]] Status write(const WriteBatch& batch, bool sync) override;
    [[nodiscard]] std::unique_ptr<Reader> snapshot() const override { return visible_->snapshot(); }

    // Power loss and restart: of the batches that were not synced only the oldest `surviving` are left.
    [[nodiscard]] Status crash(std::size_t surviving = 0);
    [[nodiscard]] std::size_t unsynced_batches() const;
    // After `count` more writes each fails with store.io and changes nothing.
    void fail_writes_after(std::size_t count);

private:
    [[nodiscard]] Status reload();

    Store& durable_;
    mutable std::mutex mutex_;
    std::unique_ptr<MemoryStore> visible_;
    std::vector<WriteBatch> unsynced_;
    std::size_t writes_left_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace quern::chain::store
