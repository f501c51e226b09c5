// Every limit and price of the chain, by name, and the networks. Consensus rules that change are features with a height
// (features.h). Values are data: a genesis file may set those under "market" and "block". Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/uint256.h"
#include "chain/types/address.h"
#include "chain/types/native_tx.h"

namespace quern::chain::params {

inline constexpr std::uint64_t kGrainsPerQrn = 1'000'000'000'000'000'000ULL;
inline constexpr std::uint64_t kMainnetChainId = 7876;
inline constexpr std::uint64_t kTestnetChainId = 7877;
inline constexpr std::uint64_t kDevnetChainId = 7878;
inline constexpr std::uint64_t kBeaconWindow = 512;  // heights whose beacons are kept in state
inline constexpr std::uint64_t kBeaconDelay = 2;     // d: draws use beacon(h + d)
inline constexpr std::uint64_t kMaxFutureMs = 2000;  // a block's timestamp against the local clock

inline constexpr std::uint64_t kCapacityBlocks = 32;  // from one declaration of a capacity to the next

struct MarketParams {
    Uint256 dispute_cost = kGrainsPerQrn / 100;  // γ: worst on-chain cost of one honest dispute path, grains
    std::uint64_t solver_bond_gammas = 1000;     // solver's lock = max(this x γ, 2 x reward at the price cap)
    std::uint64_t verifier_bond_fees = 10;       // verifier's lock = max(this x its fee, verifier_bond_gammas x γ)
    std::uint64_t verifier_bond_gammas = 100;
    std::uint64_t min_bond_gammas = 100;         // a role's bond is at least this x γ, or nothing
    std::uint64_t challenge_stake_gammas = 100;  // challenge stake = this x γ
    std::uint64_t dispute_clock_blocks = 600;    // chess clock of each side, beside the task's heartbeat_blocks
    std::uint64_t unbonding_blocks = 100;
    std::uint64_t no_start_slash_percent = 5;    // of the locked bond of a winner that does not start
    std::uint64_t no_reveal_slash_percent = 10;  // verifier's commit without reveal, and the like
    // Challenger's: it can reveal in the next block, and an unrevealed commitment takes a place from others.
    std::uint64_t no_challenge_reveal_slash_percent = 50;
    std::uint64_t burn_percent = 25;          // of a slash, at least
    std::uint64_t submitter_percent = 10;     // of a slash
    std::uint64_t bounty_cost_percent = 150;  // winner's bounty <= this % of its proven cost
    std::uint64_t max_rounds = 4;             // reopenings before a task fails
    std::uint64_t max_bids = 64;
    std::uint64_t max_disputes = 64;      // challenges of a round against the history, and as many against reports
    std::uint64_t max_commitments = 256;  // challenges of a task that are committed and not revealed
    std::uint64_t max_verifiers = 16;
    std::uint64_t min_deadline_blocks = 3;
    std::uint64_t max_deadline_blocks = 1'000'000;
    std::uint64_t retention_blocks = 100'000;       // final tasks and disputes stay this long
    std::uint64_t forced_error_inverse = 200;       // 1 / p_f (its use comes with the watchers)
    Uint256 storage_deposit = kGrainsPerQrn / 100;  // per task
};

struct StakingParams {
    std::uint64_t max_validators = 100;  // in a committee
    Uint256 min_validator_stake = kGrainsPerQrn;
    // From the end of the last epoch that the stake counted in. The evidence window is as long. 21 days of seconds.
    std::uint64_t unbonding_blocks = 1'814'400;
    std::uint64_t double_sign_slash_per_mille = 50;  // before the part that grows with the share convicted together
    std::uint64_t reporter_percent = 5;              // of a slash, to whoever sent the evidence
    std::uint64_t max_unbonding_entries = 7;         // per delegator and validator
};
inline constexpr std::uint64_t kMinEpochLength = 4;
inline constexpr std::uint64_t kMinUnbondingEpochs = 3;

struct ChainParams {
    std::uint64_t chain_id = kDevnetChainId;
    std::string network = "devnet";
    std::uint64_t block_gas_limit = 30'000'000;
    Uint256 initial_base_fee = 1'000'000'000;
    Uint256 min_base_fee = 7;
    std::uint64_t min_block_ms = 200;
    std::uint64_t max_idle_ms = 1000;
    std::uint64_t delta_ms = 300;  // Δ: the bound on message delay that the timers of consensus assume
    std::uint64_t epoch_length = 50;
    MarketParams market;
    StakingParams staking;
    bool check_invariants = true;  // after each block; devnet and debug builds
    // What votes and evidence are bound to. Not in the genesis file, which it is the hash of: whoever opens the chain
    // sets it.
    Hash32 genesis_hash;
};

// Gas of a native kind: fixed + per payload byte + per touched object.
struct NativeGas {
    std::uint64_t fixed = 0;
    std::uint64_t per_byte = 0;
};
[[nodiscard]] NativeGas native_gas(types::NativeKind kind);
inline constexpr std::uint64_t kNativeGasPerObject = 5'000;

// What a party of a task answers with. They depend on the price cap and not on the winning bid, so that a low bid buys
// neither less checking nor cheaper cheating. `reward` and `fee` at the cap. nullopt: above 2^256.
[[nodiscard]] std::optional<Uint256> solver_bond(const MarketParams& market, const Uint256& reward);
[[nodiscard]] std::optional<Uint256> verifier_bond(const MarketParams& market, const Uint256& fee);
[[nodiscard]] Uint256 min_bond(const MarketParams& market);

// Reserved addresses 0x00…5101 to 0x00…5106, one per group of kinds.
[[nodiscard]] types::Address reserved_address(types::NativeKind kind);
[[nodiscard]] bool is_reserved(const types::Address& address);

}  // namespace quern::chain::params
