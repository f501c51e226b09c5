// The genesis file: parameters, allocations, validators and first bonds of a network, and the state and header that
// follow from it. Used by the node at first start and by the tool that makes and checks such files. Pure; thread-safe.
//
//   {"format": "quern-genesis-1", "network": "devnet", "chain_id": 7878, "timestamp_ms": 1700000000000,
//    "check_invariants": true,
//    "block": {...}, "market": {...}, "staking": {...}: the parameters of chain/params/tables.h (doc/parameters.md),
//    "allocations": [{"address": "0x…", "balance": "1000"}],
//    "validators": [{"public_key": "0x…" (64 bytes), "stake": "1000"}],
//    "bonds": [{"address": "0x…", "role": "solver", "amount": "1000"}]}
// Amounts are grains: decimal strings, or JSON integers where they fit. "block", "market" and "staking" may be left
// out or give some fields: the others keep their defaults. Unknown fields are errors.
#pragma once

#include "base/json.h"
#include "chain/params/params.h"
#include "chain/state/overlay.h"
#include "chain/types/block.h"

namespace quern::chain::exec {

inline constexpr std::size_t kMaxGenesisBytes = 16U << 20;
inline constexpr std::size_t kMaxGenesisEntries = 100'000;  // of each list

struct GenesisAllocation {
    types::Address address;
    Uint256 balance;
};
struct GenesisValidator {
    Bytes public_key;  // 64 bytes
    Uint256 stake;
};
struct GenesisBond {
    types::Address address;
    types::Role role = types::Role::solver;
    Uint256 amount;
};

struct Genesis {
    params::ChainParams params;
    std::uint64_t timestamp_ms = 0;
    std::vector<GenesisAllocation> allocations;
    std::vector<GenesisValidator> validators;
    std::vector<GenesisBond> bonds;
};

// Parses and checks. Errors: json.*, genesis.unknown_field, genesis.bad_format, genesis.bad_value,
// genesis.missing_field, and those of check_genesis.
[[nodiscard]] Expected<Genesis> parse_genesis(std::string_view text);
// Errors: genesis.no_validators, genesis.bad_validator_key, genesis.zero_amount, genesis.duplicate_address,
// genesis.reserved_address, genesis.supply_overflow, genesis.bad_parameter, genesis.too_many_entries,
// genesis.stake_too_small.
[[nodiscard]] Status check_genesis(const Genesis& genesis);
// With every field given; parse_genesis reads it back to the same value.
[[nodiscard]] json::Value to_json(const Genesis& genesis);

// Writes the first state: allocations, validators, the committees of epochs 0 and 1, bonds, globals, and the reserved
// addresses' code. The genesis was
// checked and the overlay is empty.
void apply_genesis(const Genesis& genesis, state::Overlay& overlay);
// Header of block 0. Its beacon binds the whole genesis, parameters included, so that the hash tells networks apart.
// `committee_hash` is consensus' hash of the validators.
// The beacon of block 0, and the seed of epochs 0 and 1.
[[nodiscard]] Hash32 genesis_beacon(const Genesis& genesis);
[[nodiscard]] types::BlockHeader genesis_header(const Genesis& genesis, const Hash32& state_root,
                                                const Hash32& native_root, const Hash32& committee_hash);

// 0x60006000fd: PUSH1 0 PUSH1 0 REVERT, the code of reserved addresses, so that a contract's size check passes.
[[nodiscard]] Bytes reserved_code();

[[nodiscard]] Expected<types::Role> parse_role(std::string_view name);  // error genesis.bad_value

}  // namespace quern::chain::exec
