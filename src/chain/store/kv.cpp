#include "chain/store/kv.h"

#include "chain/store/tables.h"

namespace quern::chain::store {

void WriteBatch::append(WriteBatch more) {
    operations_.insert(operations_.end(), std::make_move_iterator(more.operations_.begin()),
                       std::make_move_iterator(more.operations_.end()));
}

Bytes table_key(Table table, std::initializer_list<BytesView> parts) {
    std::size_t size = 1;
    for (const BytesView part : parts) size += part.size();
    Bytes key;
    key.reserve(size);
    key.push_back(static_cast<std::uint8_t>(table));
    for (const BytesView part : parts) append(key, part);
    return key;
}

}  // namespace quern::chain::store
