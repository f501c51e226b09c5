// A Store in memory, for tests and tools. Thread-safe; snapshots share the map until the next write.
#pragma once

#include <map>

#include "base/mutex.h"
#include "chain/store/kv.h"

namespace quern::chain::store {

class MemoryStore final : public Store {
public:
    MemoryStore();

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override;
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;
    [[nodiscard]] Status write(const WriteBatch& batch, bool sync) override;
    [[nodiscard]] std::unique_ptr<Reader> snapshot() const override;
    [[nodiscard]] std::size_t size() const;

private:
    using Map = std::map<Bytes, Bytes, BytesLess>;
    class Snapshot;

    [[nodiscard]] std::shared_ptr<const Map> current() const;
    static std::optional<Bytes> find(const Map& map, BytesView key);
    static void visit_range(const Map& map, BytesView prefix, BytesView start, const Visitor& visit);

    mutable Mutex mutex_;
    std::shared_ptr<Map> map_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::chain::store
