#include "chain/store/leveldb_kv.h"

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <algorithm>

namespace quern::chain::store {
namespace {

// An empty view may hold no address, which LevelDB would hand to memcmp.
leveldb::Slice slice(BytesView bytes) {
    if (bytes.empty()) return {};
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
BytesView view(const leveldb::Slice& bytes) { return as_bytes(std::string_view(bytes.data(), bytes.size())); }

tl::unexpected<Error> failed(const leveldb::Status& status, const std::string& folder) {
    const std::string text = folder + ": " + status.ToString();
    return fault(status.IsCorruption() ? "store.corrupt" : "store.io", text);
}

Expected<std::optional<Bytes>> get_from(leveldb::DB& db, const leveldb::Snapshot* snapshot, BytesView key,
                                        const std::string& folder) {
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.snapshot = snapshot;
    std::string value;
    const leveldb::Status status = db.Get(options, slice(key), &value);
    if (status.IsNotFound()) return std::optional<Bytes>{};
    if (!status.ok()) return failed(status, folder);
    return std::optional<Bytes>(to_bytes(as_bytes(value)));
}

Status visit_from(leveldb::DB& db, const leveldb::Snapshot* snapshot, BytesView prefix, BytesView start,
                  const Reader::Visitor& visit, const std::string& folder) {
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;  // a scan must not push out what point reads need
    options.snapshot = snapshot;
    const std::unique_ptr<leveldb::Iterator> iterator(db.NewIterator(options));
    const leveldb::Slice first = slice(prefix);
    iterator->Seek(slice(start).compare(first) > 0 ? slice(start) : first);
    for (; iterator->Valid() && iterator->key().starts_with(first); iterator->Next())
        if (!visit(view(iterator->key()), view(iterator->value()))) break;
    if (!iterator->status().ok()) return failed(iterator->status(), folder);
    return {};
}

}  // namespace

// Members are destroyed in reverse order: the database before its cache and filter.
struct LevelDbStore::Impl {
    std::string folder;
    std::unique_ptr<leveldb::Cache> cache;
    std::unique_ptr<const leveldb::FilterPolicy> filter;
    std::unique_ptr<leveldb::DB> db;
};

class LevelDbStore::Snapshot final : public Reader {
public:
    explicit Snapshot(const Impl& impl) : impl_(impl), snapshot_(impl.db->GetSnapshot()) {}
    ~Snapshot() override { impl_.db->ReleaseSnapshot(snapshot_); }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;

    Expected<std::optional<Bytes>> get(BytesView key) const override {
        return get_from(*impl_.db, snapshot_, key, impl_.folder);
    }
    Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        return visit_from(*impl_.db, snapshot_, prefix, start, visit, impl_.folder);
    }

private:
    const Impl& impl_;
    const leveldb::Snapshot* snapshot_;
};

Expected<std::unique_ptr<LevelDbStore>> LevelDbStore::open(const std::string& folder, const LevelDbOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->folder = folder;
    impl->cache.reset(leveldb::NewLRUCache(options.cache_bytes));
    if (options.bloom_bits_per_key > 0) impl->filter.reset(leveldb::NewBloomFilterPolicy(options.bloom_bits_per_key));
    leveldb::Options settings;
    settings.create_if_missing = options.create_if_missing;
    settings.paranoid_checks = true;
    settings.write_buffer_size = options.write_buffer_bytes;
    settings.max_file_size = options.max_file_bytes;
    settings.max_open_files = options.max_open_files;
    settings.block_cache = impl->cache.get();
    settings.filter_policy = impl->filter.get();
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(settings, folder, &db);
    if (!status.ok()) {
        const std::string text = status.ToString();
        // LevelDB has no code of its own for these two.
        if (text.find("/LOCK") != std::string::npos && (text.find("temporarily unavailable") != std::string::npos ||
                                                        text.find("already held") != std::string::npos))
            return fault("store.locked", folder + " is open in another process");
        if (text.find("does not exist") != std::string::npos) return fault("store.not_found", folder);
        return failed(status, folder);
    }
    impl->db.reset(db);
    return std::unique_ptr<LevelDbStore>(new LevelDbStore(std::move(impl)));
}

LevelDbStore::LevelDbStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LevelDbStore::~LevelDbStore() = default;

Expected<std::optional<Bytes>> LevelDbStore::get(BytesView key) const {
    return get_from(*impl_->db, nullptr, key, impl_->folder);
}

Status LevelDbStore::for_each(BytesView prefix, BytesView start, const Visitor& visit) const {
    return visit_from(*impl_->db, nullptr, prefix, start, visit, impl_->folder);
}

Status LevelDbStore::write(const WriteBatch& batch, bool sync) {
    leveldb::WriteBatch changes;
    for (const auto& operation : batch.operations()) {
        if (operation.value)
            changes.Put(slice(operation.key), slice(*operation.value));
        else
            changes.Delete(slice(operation.key));
    }
    leveldb::WriteOptions options;
    options.sync = sync;
    const leveldb::Status status = impl_->db->Write(options, &changes);
    if (!status.ok()) return failed(status, impl_->folder);
    return {};
}

std::unique_ptr<Reader> LevelDbStore::snapshot() const { return std::make_unique<Snapshot>(*impl_); }

}  // namespace quern::chain::store
