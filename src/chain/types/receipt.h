// Receipts and logs, Ethereum's consensus form (EIP-658, EIP-2718) and the stored form with what RPC needs besides.
#pragma once

#include <vector>

#include "chain/types/block.h"

namespace quern::chain::types {

struct Log {
    Address address;
    std::vector<Hash32> topics;  // at most 4
    Bytes data;
    bool operator==(const Log&) const = default;
};

struct Receipt {
    TxType type = TxType::legacy;
    bool success = false;
    std::uint64_t cumulative_gas_used = 0;
    std::vector<Log> logs;
    // Not in the consensus form:
    std::uint64_t gas_used = 0;
    Uint256 effective_gas_price;
    std::string failure;  // result code's name and detail when !success, e.g. "task.not_open"
    bool operator==(const Receipt&) const = default;
};

void bloom_add(Bloom& bloom, BytesView value);
[[nodiscard]] Bloom bloom_of(const std::vector<Log>& logs);
[[nodiscard]] bool bloom_may_contain(const Bloom& bloom, BytesView value);

// type || rlp([status, cumulative, bloom, logs]); the bloom is bloom_of its logs, which receipts do not carry along.
[[nodiscard]] Bytes encode_consensus(const Receipt& receipt, const Bloom& bloom);
[[nodiscard]] Bytes encode_stored(const Receipt& receipt);
[[nodiscard]] Expected<Receipt> decode_stored_receipt(BytesView bytes);

}  // namespace quern::chain::types
