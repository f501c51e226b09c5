#include "chain/store/block_store.h"

#include <algorithm>
#include <numeric>

#include "base/big_endian.h"
#include "base/rlp.h"
#include "chain/store/tables.h"

namespace quern::chain::store {
namespace {

// What is in the database was written by this code, so a failure to decode it is a damaged database.
tl::unexpected<Error> corrupt(std::string_view what, const Error& error) {
    return fault("store.corrupt", std::string(what) + ": " + error.to_string());
}

Expected<std::vector<Bytes>> decode_receipts(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    std::vector<Bytes> receipts;
    while (!in.at_end()) {
        QUERN_TRY(const BytesView receipt, in.bytes());
        receipts.push_back(to_bytes(receipt));
    }
    return receipts;
}

Expected<TransactionPlace> decode_place(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    TransactionPlace place;
    QUERN_TRY(place.block.hash, in.fixed<32>());
    QUERN_TRY(place.block.number, in.u64());
    QUERN_TRY(const std::uint64_t position, in.u64());
    if (position > 0xffffffff) return fail("rlp.integer_overflow");
    place.position = static_cast<std::uint32_t>(position);
    QUERN_CHECK(in.expect_end());
    return place;
}

Expected<std::uint64_t> decode_be64(BytesView bytes) {
    QUERN_TRY(const auto encoded, FixedBytes<8>::from_view(bytes));
    return from_big_endian(encoded);
}

Expected<BlockId> decode_block_id(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    BlockId id;
    QUERN_TRY(id.number, in.u64());
    QUERN_TRY(id.hash, in.fixed<32>());
    QUERN_CHECK(in.expect_end());
    return id;
}

template <class T>
Expected<std::optional<T>> read_decoded(const Reader& reader, const Bytes& key, std::string_view what,
                                        Expected<T> (*decode)(BytesView)) {
    QUERN_TRY(const std::optional<Bytes> bytes, reader.get(key));
    if (!bytes) return std::optional<T>{};
    auto value = decode(*bytes);
    if (!value) return corrupt(what, value.error());
    return std::optional<T>(std::move(*value));
}

}  // namespace

void BlockStore::put_block(WriteBatch& batch, const Hash32& hash, BytesView encoded) {
    batch.put(table_key(Table::block, {hash}), encoded);
}

void BlockStore::put_receipts(WriteBatch& batch, const Hash32& block_hash, std::span<const Bytes> receipts) {
    rlp::Writer out;
    out.begin_list();
    for (const auto& receipt : receipts) out.bytes(receipt);
    out.end_list();
    batch.put(table_key(Table::receipts, {block_hash}), std::move(out).finish());
}

void BlockStore::put_transaction_places(WriteBatch& batch, const BlockId& block,
                                        std::span<const Hash32> transaction_hashes) {
    // In the order of keys: each then finds its place in the database's table near that of the one before, in memory
    // that is at hand.
    std::vector<std::size_t> order(transaction_hashes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return transaction_hashes[a] < transaction_hashes[b]; });
    for (const std::size_t i : order) {
        rlp::Writer out;
        out.begin_list().fixed(block.hash).integer(block.number).integer(std::uint64_t{i}).end_list();
        batch.put(table_key(Table::tx_index, {transaction_hashes[i]}), std::move(out).finish());
    }
}

void BlockStore::put_canonical(WriteBatch& batch, const BlockId& block) {
    batch.put(table_key(Table::canonical, {be64(block.number)}), block.hash.view());
}

void BlockStore::put_height(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint64_t number) {
    batch.put(table_key(Table::height, {be64(epoch), be64(view)}), be64(number));
}

void BlockStore::put_finalization(WriteBatch& batch, const Hash32& block_hash, BytesView record) {
    batch.put(table_key(Table::finalization, {block_hash}), record);
}

void BlockStore::put_head(WriteBatch& batch, const BlockId& head) {
    rlp::Writer out;
    out.begin_list().integer(head.number).fixed(head.hash).end_list();
    batch.put(table_key(Table::head), std::move(out).finish());
}

void BlockStore::erase_block(WriteBatch& batch, const Hash32& hash) {
    batch.erase(table_key(Table::block, {hash}));
    batch.erase(table_key(Table::receipts, {hash}));
}

Expected<std::optional<Bytes>> BlockStore::block(const Hash32& hash) const {
    return reader_.get(table_key(Table::block, {hash}));
}

Expected<std::optional<std::vector<Bytes>>> BlockStore::receipts(const Hash32& block_hash) const {
    return read_decoded(reader_, table_key(Table::receipts, {block_hash}), "receipts", decode_receipts);
}

Expected<std::optional<TransactionPlace>> BlockStore::transaction_place(const Hash32& transaction_hash) const {
    return read_decoded(reader_, table_key(Table::tx_index, {transaction_hash}), "transaction index", decode_place);
}

Expected<std::optional<Hash32>> BlockStore::canonical_hash(std::uint64_t number) const {
    return read_decoded<Hash32>(reader_, table_key(Table::canonical, {be64(number)}), "canonical chain",
                                Hash32::from_view);
}

Expected<std::optional<std::uint64_t>> BlockStore::height_of(std::uint64_t epoch, std::uint64_t view) const {
    return read_decoded<std::uint64_t>(reader_, table_key(Table::height, {be64(epoch), be64(view)}), "height of a view",
                                       decode_be64);
}

Expected<std::optional<Bytes>> BlockStore::finalization(const Hash32& block_hash) const {
    return reader_.get(table_key(Table::finalization, {block_hash}));
}

Expected<std::optional<BlockId>> BlockStore::head() const {
    return read_decoded(reader_, table_key(Table::head), "head", decode_block_id);
}

void put_meta(WriteBatch& batch, std::string_view name, BytesView value) {
    batch.put(table_key(Table::meta, {as_bytes(name)}), value);
}

Expected<std::optional<Bytes>> get_meta(const Reader& reader, std::string_view name) {
    return reader.get(table_key(Table::meta, {as_bytes(name)}));
}

}  // namespace quern::chain::store
