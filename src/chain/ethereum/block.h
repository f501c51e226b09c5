// Ethereum's blocks of all forks, as they are encoded:
//
//   block  = rlp([header, [transaction...], [ommer header...]]) with [withdrawal...] behind it from Shanghai on
//   header = rlp([parent hash, ommers hash, coinbase, state root, transactions root, receipts root, bloom, difficulty,
//                 number, gas limit, gas used, timestamp, extra data, mix hash, nonce]), then as far as the fork has
//                 them
//            base fee, withdrawals root, blob gas used, excess blob gas, parent beacon block root, requests hash
//   withdrawal = rlp([index, validator index, address, amount in Gwei])
//
// Blocks of Quern itself are chain/types' and no others. Plain values.
#pragma once

#include <optional>
#include <vector>

#include "base/rlp.h"
#include "chain/types/block.h"

namespace quern::chain::ethereum {

struct Header {
    Hash32 parent_hash;
    Hash32 ommers_hash;
    types::Address coinbase;
    Hash32 state_root;
    Hash32 transactions_root;
    Hash32 receipts_root;
    types::Bloom logs_bloom;
    Uint256 difficulty;
    std::uint64_t number = 0;
    std::uint64_t gas_limit = 0;
    std::uint64_t gas_used = 0;
    std::uint64_t timestamp = 0;  // seconds
    Bytes extra_data;
    Hash32 mix_hash;  // from Paris on prev_randao
    FixedBytes<8> nonce;
    std::optional<Uint256> base_fee;                 // EIP-1559
    std::optional<Hash32> withdrawals_root;          // EIP-4895
    std::optional<std::uint64_t> blob_gas_used;      // EIP-4844
    std::optional<std::uint64_t> excess_blob_gas;    // EIP-4844
    std::optional<Hash32> parent_beacon_block_root;  // EIP-4788
    std::optional<Hash32> requests_hash;             // EIP-7685

    Hash32 hash;  // of the bytes that it was read from
};

struct Block {
    std::size_t encoded_bytes = 0;
    Header header;
    std::vector<Bytes> transactions;  // envelopes
    std::vector<Header> ommers;
    std::optional<std::vector<types::Withdrawal>> withdrawals;
    // What the header has to say of them.
    Hash32 transactions_root;
    Hash32 ommers_hash;
    std::optional<Hash32> withdrawals_root;
};

// Strict. Errors: rlp.*.
[[nodiscard]] Expected<Header> read_header(rlp::Reader& in);
[[nodiscard]] Expected<Block> decode_block(BytesView bytes);

}  // namespace quern::chain::ethereum
