// Blocks and what is looked up about them: receipts, transactions' places, the canonical chain, finalization records,
// the head. Writers add to a batch that the caller writes, so that one finalized block is one synced batch together
// with its state. Blocks and receipts are encoded by chain/types; here they are bytes. A BlockStore holds a reader and
// no state of its own, so it is as thread-safe as the reader.
#pragma once

#include <span>

#include "chain/store/kv.h"

namespace quern::chain::store {

struct BlockId {
    std::uint64_t number = 0;
    Hash32 hash;
    bool operator==(const BlockId&) const = default;
};

struct TransactionPlace {
    BlockId block;
    std::uint32_t position = 0;  // in the block
    bool operator==(const TransactionPlace&) const = default;
};

class BlockStore {
public:
    explicit BlockStore(const Reader& reader) : reader_(reader) {}

    static void put_block(WriteBatch& batch, const Hash32& hash, BytesView encoded);
    // In the order of the block's transactions.
    static void put_receipts(WriteBatch& batch, const Hash32& block_hash, std::span<const Bytes> receipts);
    // Positions follow the order of `transaction_hashes`.
    static void put_transaction_places(WriteBatch& batch, const BlockId& block,
                                       std::span<const Hash32> transaction_hashes);
    static void put_canonical(WriteBatch& batch, const BlockId& block);
    // The canonical block `number` was proposed in this view.
    static void put_height(WriteBatch& batch, std::uint64_t epoch, std::uint64_t view, std::uint64_t number);
    static void put_finalization(WriteBatch& batch, const Hash32& block_hash, BytesView record);
    static void put_head(WriteBatch& batch, const BlockId& head);
    static void erase_block(WriteBatch& batch, const Hash32& hash);  // an unfinalized sibling, with its receipts

    // nullopt when there is none. Errors: store.corrupt, store.io.
    [[nodiscard]] Expected<std::optional<Bytes>> block(const Hash32& hash) const;
    [[nodiscard]] Expected<std::optional<std::vector<Bytes>>> receipts(const Hash32& block_hash) const;
    [[nodiscard]] Expected<std::optional<TransactionPlace>> transaction_place(const Hash32& transaction_hash) const;
    [[nodiscard]] Expected<std::optional<Hash32>> canonical_hash(std::uint64_t number) const;
    [[nodiscard]] Expected<std::optional<std::uint64_t>> height_of(std::uint64_t epoch, std::uint64_t view) const;
    [[nodiscard]] Expected<std::optional<Bytes>> finalization(const Hash32& block_hash) const;
    [[nodiscard]] Expected<std::optional<BlockId>> head() const;

private:
    const Reader& reader_;
};

// Small named values (database version, genesis hash).
void put_meta(WriteBatch& batch, std::string_view name, BytesView value);
[[nodiscard]] Expected<std::optional<Bytes>> get_meta(const Reader& reader, std::string_view name);

}  // namespace quern::chain::store
