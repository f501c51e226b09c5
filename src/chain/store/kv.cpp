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

FixedBytes<8> be64(std::uint64_t value) {
    FixedBytes<8> bytes;
    for (std::size_t i = 0; i < 8; ++i) bytes.data[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
    return bytes;
}

std::uint64_t from_be64(BytesView bytes) {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes) value = value << 8 | byte;
    return value;
}

}  // namespace quern::chain::store
