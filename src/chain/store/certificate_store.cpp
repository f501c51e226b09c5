#include "chain/store/certificate_store.h"

#include <algorithm>

#include "base/big_endian.h"
#include "chain/store/tables.h"

namespace quern::chain::store {
namespace {

constexpr std::size_t kHashOffset = 1 + 8 + 8 + 1;  // in a key

}  // namespace

void CertificateStore::put(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint8_t type,
                           const Hash32& hash, BytesView encoded) {
    batch.put(table_key(Table::certificate, {be64(epoch), be64(view), BytesView(&type, 1), hash}), encoded);
}

Expected<std::vector<Bytes>> CertificateStore::find(std::uint64_t epoch, std::uint64_t view, std::uint8_t type) const {
    std::vector<Bytes> found;
    Bytes prefix = table_key(Table::certificate, {be64(epoch), be64(view)});
    if (type != 0) prefix.push_back(type);
    QUERN_CHECK(reader_.for_each(prefix, {}, [&found](BytesView, BytesView value) {
        found.push_back(to_bytes(value));
        return true;
    }));
    return found;
}

Expected<std::size_t> CertificateStore::prune(WriteBatch& batch, std::uint64_t epoch) const {
    const Bytes end = table_key(Table::certificate, {be64(epoch)});
    std::size_t erased = 0;
    QUERN_CHECK(reader_.for_each(table_key(Table::certificate), {}, [&](BytesView key, BytesView) {
        if (erased == kMaxPrunedAtOnce || !std::lexicographical_compare(key.begin(), key.end(), end.begin(), end.end()))
            return false;
        batch.erase(to_bytes(key));
        ++erased;
        return true;
    }));
    return erased;
}

Status CertificateStore::thin(WriteBatch& batch, std::uint64_t epoch, const std::set<Hash32>& blocks) const {
    return reader_.for_each(table_key(Table::certificate, {be64(epoch)}), {}, [&](BytesView key, BytesView) {
        if (key.size() == kHashOffset + Hash32::kSize && blocks.contains(Hash32::copy_of(key.subspan(kHashOffset))))
            batch.erase(to_bytes(key));
        return true;
    });
}

void EvidenceStore::put(WriteBatch& batch, const Bytes20& convict, BytesView encoded) {
    batch.put(table_key(Table::evidence, {convict}), encoded);
}

void EvidenceStore::erase(WriteBatch& batch, const Bytes20& convict) {
    batch.erase(table_key(Table::evidence, {convict}));
}

Expected<std::vector<std::pair<Bytes20, Bytes>>> EvidenceStore::all() const {
    std::vector<std::pair<Bytes20, Bytes>> found;
    bool is_corrupt = false;
    QUERN_CHECK(reader_.for_each(table_key(Table::evidence), {}, [&](BytesView key, BytesView value) {
        is_corrupt = key.size() != 1 + Bytes20::kSize;
        if (!is_corrupt) found.emplace_back(Bytes20::copy_of(key.subspan(1)), to_bytes(value));
        return !is_corrupt;
    }));
    if (is_corrupt) return fault("store.corrupt", "evidence");
    return found;
}

}  // namespace quern::chain::store
