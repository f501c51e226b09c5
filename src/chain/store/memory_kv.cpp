#include "chain/store/memory_kv.h"

namespace quern::chain::store {

class MemoryStore::Snapshot final : public Reader {
public:
    explicit Snapshot(std::shared_ptr<const Map> map) : map_(std::move(map)) {}
    Expected<std::optional<Bytes>> get(BytesView key) const override { return find(*map_, key); }
    Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        visit_range(*map_, prefix, start, visit);
        return {};
    }

private:
    std::shared_ptr<const Map> map_;
};

MemoryStore::MemoryStore() : map_(std::make_shared<Map>()) {}

std::shared_ptr<const MemoryStore::Map> MemoryStore::current() const {
    const MutexLock lock(mutex_);
    return map_;
}

std::optional<Bytes> MemoryStore::find(const Map& map, BytesView key) {
    const auto found = map.find(key);
    if (found == map.end()) return std::nullopt;
    return found->second;
}

void MemoryStore::visit_range(const Map& map, BytesView prefix, BytesView start, const Visitor& visit) {
    const BytesView from = BytesLess()(prefix, start) ? start : prefix;
    for (auto it = map.lower_bound(from); it != map.end(); ++it) {
        const BytesView key = it->first;
        if (key.size() < prefix.size() || !equal(key.first(prefix.size()), prefix)) return;
        if (!visit(key, it->second)) return;
    }
}

Expected<std::optional<Bytes>> MemoryStore::get(BytesView key) const {
    const MutexLock lock(mutex_);
    return find(*map_, key);
}

Status MemoryStore::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    visit_range(*current(), prefix, start, visit);
    return {};
}

Status MemoryStore::write(const WriteBatch& batch, bool) {
    const MutexLock lock(mutex_);
    if (map_.use_count() > 1) map_ = std::make_shared<Map>(*map_);
    for (const auto& operation : batch.operations()) {
        if (operation.value)
            (*map_)[operation.key] = *operation.value;
        else
            map_->erase(operation.key);
    }
    return {};
}

std::unique_ptr<Reader> MemoryStore::snapshot() const { return std::make_unique<Snapshot>(current()); }

std::size_t MemoryStore::size() const { return current()->size(); }

}  // namespace quern::chain::store
