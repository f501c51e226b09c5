#include "chain/store/certificate_store.h"

#include "chain/store/tables.h"

namespace quern::chain::store {

void CertificateStore::put(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint8_t type,
                           const Hash32& hash, BytesView encoded) {
    batch.put(table_key(Table::certificate, {be64(epoch), be64(view), BytesView(&type, 1), hash}), encoded);
}

Expected<std::vector<Bytes>> CertificateStore::find(std::uint64_t epoch, std::uint64_t view, std::uint8_t type) const {
    std::vector<Bytes> found;
    const Bytes prefix = table_key(Table::certificate, {be64(epoch), be64(view), BytesView(&type, 1)});
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

}  // namespace quern::chain::store
