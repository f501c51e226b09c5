// Ethereum's state transition by one transaction, in the rules of any fork: whether it may be in a block, what it does,
// what it costs. Used by the node's executor and by the runner of official state tests. Pure functions over the world
// they are given.
#pragma once

#include <optional>

#include "vm/evm/world.h"

namespace quern::vm::evm {

class Machine;  // machine.h

struct AccessListItem {
    Address address;
    std::vector<Hash32> keys;
};

struct SignedAuthorization {  // EIP-7702
    Uint256 chain_id;
    Address address;  // whose code is delegated to; zero: no delegation any more
    std::uint64_t nonce = 0;
    std::optional<Address> signer;  // absent: the signature is none
};

enum class TransactionType : std::uint8_t { legacy = 0, access_list = 1, dynamic_fee = 2, blob = 3, set_code = 4 };

// A transaction with its sender recovered. Fields that a type lacks are left as they are.
struct TransactionInput {
    TransactionType type = TransactionType::legacy;
    Address sender;
    std::uint64_t nonce = 0;
    std::optional<Address> to;  // absent: makes a contract
    Uint256 value;
    std::uint64_t gas_limit = 0;
    Uint256 max_fee_per_gas;  // types 0 and 1: the gas price, as the next
    Uint256 max_priority_fee_per_gas;
    BytesView data;
    std::vector<AccessListItem> access_list;
    std::vector<SignedAuthorization> authorizations;
    Uint256 max_fee_per_blob_gas;
    std::vector<Hash32> blob_hashes;
    std::optional<std::uint64_t> chain_id;  // absent in unprotected legacy transactions
};

struct TransactionResult {
    bool succeeded = false;
    std::uint64_t gas_used = 0;  // after refunds and the floor of EIP-7623
    Bytes output;                // returned or revert data
    std::optional<Address> created;
};

// Gas that is due before anything runs: base, data, access list, creation, authorizations.
[[nodiscard]] std::uint64_t intrinsic_gas(const TransactionInput& tx, Revision revision);
[[nodiscard]] std::uint64_t floor_gas(const TransactionInput& tx, Revision revision);  // EIP-7623; 0 before Prague

// Applies it: takes the fee from the sender, runs it, refunds, pays the tip to the coinbase, ends the transaction in
// the world. The base fee's part is burned. After an error the world is as before. The errors' names are those of
// execution-specs in lower case behind "tx.": TransactionException.NONCE_MISMATCH_TOO_LOW is tx.nonce_mismatch_too_low.
// `block_gas_left` is what the block's limit leaves for it.
[[nodiscard]] Expected<TransactionResult> execute_transaction(Machine& machine, World& world, const BlockContext& block,
                                                              Revision revision, const TransactionInput& tx,
                                                              std::uint64_t block_gas_left);

}  // namespace quern::vm::evm
