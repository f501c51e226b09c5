// Ethereum's JSON forms of numbers, bytes, hashes, addresses and block names (execution-apis, base types): reading them
// from arguments and writing them into results. Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "base/uint256.h"
#include "chain/api/chain_reader.h"

namespace quern::rpc {

// "0x" quantities without leading zeros.
[[nodiscard]] std::string quantity(std::uint64_t value);
[[nodiscard]] std::string quantity(const Uint256& value);
[[nodiscard]] std::string hex(BytesView bytes);

// Errors: value.wrong_type, value.bad_quantity, value.out_of_range.
[[nodiscard]] Expected<Uint256> read_quantity(const json::Value& value);
[[nodiscard]] Expected<std::uint64_t> read_quantity64(const json::Value& value);
// As read_quantity64, or a plain JSON integer: for Quern's own ids and limits.
[[nodiscard]] Expected<std::uint64_t> read_number(const json::Value& value);
// "0x" and whole bytes, any case. Errors: value.wrong_type, value.bad_hex.
[[nodiscard]] Expected<Bytes> read_data(const json::Value& value);
// Whether read_data would succeed, with its errors, without making the bytes.
[[nodiscard]] Status check_data(const json::Value& value);
[[nodiscard]] Expected<Hash32> read_hash(const json::Value& value);
[[nodiscard]] Expected<chain::types::Address> read_address(const json::Value& value);
// "latest", "safe", "finalized", "pending", "earliest", a quantity, a block hash, or EIP-1898's object.
// Error: value.bad_block.
[[nodiscard]] Expected<chain::api::BlockSelector> read_block(const json::Value& value);

}  // namespace quern::rpc
