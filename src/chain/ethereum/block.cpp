#include "chain/ethereum/block.h"

#include "chain/state/trie.h"
#include "crypto/hash.h"

namespace quern::chain::ethereum {
namespace {

Status read_transactions(rlp::Reader& in, Block& block) {
    QUERN_TRY(rlp::Reader items, in.list());
    while (!items.at_end()) {
        QUERN_TRY(const rlp::Item item, items.next());
        block.transactions.push_back(to_bytes(item.is_list ? item.whole : item.payload));
    }
    block.transactions_root = state::ordered_trie_root(block.transactions);
    return {};
}

Status read_ommers(rlp::Reader& in, Block& block) {
    QUERN_TRY(const rlp::Item whole, in.next());
    if (!whole.is_list) return fail("rlp.expected_list");
    block.ommers_hash = crypto::keccak256(whole.whole);
    rlp::Reader items(whole.payload);
    while (!items.at_end()) {
        QUERN_TRY(block.ommers.emplace_back(), read_header(items));
    }
    return {};
}

Status read_withdrawals(rlp::Reader& in, Block& block) {
    QUERN_TRY(rlp::Reader items, in.list());
    block.withdrawals.emplace();
    std::vector<Bytes> encodings;
    while (!items.at_end()) {
        QUERN_TRY(const rlp::Item item, items.next());
        QUERN_TRY(rlp::Reader fields, rlp::Reader(item.whole).list());
        encodings.push_back(to_bytes(item.whole));
        types::Withdrawal& withdrawal = block.withdrawals->emplace_back();
        QUERN_TRY(withdrawal.index, fields.u64());
        QUERN_TRY(withdrawal.validator_index, fields.u64());
        QUERN_TRY(withdrawal.address, fields.fixed<types::Address::kSize>());
        QUERN_TRY(withdrawal.amount_gwei, fields.u64());
        QUERN_CHECK(fields.expect_end());
    }
    block.withdrawals_root = state::ordered_trie_root(encodings);
    return {};
}

}  // namespace

Expected<Header> read_header(rlp::Reader& in) {
    QUERN_TRY(const rlp::Item item, in.next());
    QUERN_TRY(rlp::Reader fields, rlp::Reader(item.whole).list());
    Header header;
    header.hash = crypto::keccak256(item.whole);
    QUERN_TRY(header.parent_hash, fields.fixed<32>());
    QUERN_TRY(header.ommers_hash, fields.fixed<32>());
    QUERN_TRY(header.coinbase, fields.fixed<20>());
    QUERN_TRY(header.state_root, fields.fixed<32>());
    QUERN_TRY(header.transactions_root, fields.fixed<32>());
    QUERN_TRY(header.receipts_root, fields.fixed<32>());
    QUERN_TRY(header.logs_bloom, fields.fixed<256>());
    QUERN_TRY(header.difficulty, fields.u256());
    QUERN_TRY(header.number, fields.u64());
    QUERN_TRY(header.gas_limit, fields.u64());
    QUERN_TRY(header.gas_used, fields.u64());
    QUERN_TRY(header.timestamp, fields.u64());
    QUERN_TRY(const BytesView extra_data, fields.bytes());
    header.extra_data = to_bytes(extra_data);
    QUERN_TRY(header.mix_hash, fields.fixed<32>());
    QUERN_TRY(header.nonce, fields.fixed<8>());
    if (!fields.at_end()) {
        QUERN_TRY(header.base_fee, fields.u256());
    }
    if (!fields.at_end()) {
        QUERN_TRY(header.withdrawals_root, fields.fixed<32>());
    }
    if (!fields.at_end()) {
        QUERN_TRY(header.blob_gas_used, fields.u64());
    }
    if (!fields.at_end()) {
        QUERN_TRY(header.excess_blob_gas, fields.u64());
    }
    if (!fields.at_end()) {
        QUERN_TRY(header.parent_beacon_block_root, fields.fixed<32>());
    }
    if (!fields.at_end()) {
        QUERN_TRY(header.requests_hash, fields.fixed<32>());
    }
    QUERN_CHECK(fields.expect_end());
    return header;
}

Expected<Block> decode_block(BytesView bytes) {
    QUERN_TRY(rlp::Reader in, rlp::decode_list(bytes));
    Block block;
    block.encoded_bytes = bytes.size();
    QUERN_TRY(block.header, read_header(in));
    QUERN_CHECK(read_transactions(in, block));
    QUERN_CHECK(read_ommers(in, block));
    if (!in.at_end()) QUERN_CHECK(read_withdrawals(in, block));
    QUERN_CHECK(in.expect_end());
    return block;
}

}  // namespace quern::chain::ethereum
