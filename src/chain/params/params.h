// Every price and limit of the chain's rules, by name, and the networks. Values are data: a genesis file may set the
// parameters (tables.h declares them, parameters.h reads and checks them). Plain values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/uint256.h"
#include "chain/params/tables.h"
#include "chain/types/address.h"
#include "chain/types/native_objects.h"
#include "chain/types/native_tx.h"

namespace quern::chain::params {

inline constexpr std::uint64_t kMainnetChainId = 7876;
inline constexpr std::uint64_t kTestnetChainId = 7877;
inline constexpr std::uint64_t kDevnetChainId = 7878;

#define QUERN_CONSTANT(type, name, value, doc) inline constexpr type name = value;
QUERN_CONSTANTS(QUERN_CONSTANT)
#undef QUERN_CONSTANT

#define QUERN_MEMBER(type, member, name, standard, least, most, doc) type member = standard;
struct MarketParams {
    QUERN_MARKET_PARAMETERS(QUERN_MEMBER)
};
struct StakingParams {
    QUERN_STAKING_PARAMETERS(QUERN_MEMBER)
};
struct ChainParams {
    std::uint64_t chain_id = kDevnetChainId;
    std::string network = "devnet";
    QUERN_BLOCK_PARAMETERS(QUERN_MEMBER)
    MarketParams market;
    StakingParams staking;
    bool check_invariants = true;  // after each block; devnet and debug builds
    // What votes and evidence are bound to. Not in the genesis file, which it is the hash of: whoever opens the chain
    // sets it.
    Hash32 genesis_hash;
};
#undef QUERN_MEMBER

// Gas of a native kind: fixed + per payload byte + per touched object.
struct NativeGas {
    std::uint64_t fixed = 0;
    std::uint64_t per_byte = 0;
};
[[nodiscard]] NativeGas native_gas(types::NativeKind kind);

// Reserved addresses 0x00…5101 to 0x00…5106, one per group of kinds.
[[nodiscard]] types::Address reserved_address(types::NativeKind kind);

}  // namespace quern::chain::params
