// What keeping a task costs whoever makes it grow: bytes of the state that its objects may take, and the deposits for
// them, which come back when the objects are deleted. Used by execution, RPC's estimate and wallets. Pure functions;
// thread-safe. Rules: doc/market.md, "Deposits for bytes".
//
//   task's deposit      = storage_deposit_per_byte * (its submission + kTaskBytes + max_bids * kBidBytes
//                         + profilers * kProfilerBytes + claims * (kClaimBytes + custody_bytes(c) + kMaxDraws * m *
//                         (kReportBytes + kDisputeBytes)))
//   challenge's deposit = storage_deposit_per_byte * kDisputeBytes, of a commitment and of the dispute it becomes
//   evidence commitment's deposit = storage_deposit_per_byte * kEvidenceCommitmentBytes
//   sealed verdict's deposit      = storage_deposit_per_byte * kWatchBytes
#pragma once

#include "chain/market/work.h"

namespace quern::chain::market {

// The claims of a settled stretch stay until so many more are settled: for who looks back, not for who goes on.
inline constexpr std::uint32_t kKeptStretches = 2;

// What one object of a kind takes at most; unit tests hold the largest ones against them.
inline constexpr std::uint64_t kTaskBytes = 1'024;  // beside its submission, bids and profilers
inline constexpr std::uint64_t kBidBytes = 160;
inline constexpr std::uint64_t kProfilerBytes = 448;    // with what it is paid or loses
inline constexpr std::uint64_t kClaimBytes = 1'472;     // with what its solver is paid or loses
inline constexpr std::uint64_t kReportBytes = 768;      // with what its verifier is paid or loses
inline constexpr std::uint64_t kDisputeBytes = 10'752;  // with its game, and its number in the claim
inline constexpr std::uint64_t kChallengeBytes = 256;   // a commitment, which becomes a dispute
inline constexpr std::uint64_t kEvidenceCommitmentBytes = 128;
inline constexpr std::uint64_t kWatchBytes = 256;      // a watcher's sealed verdict
inline constexpr std::uint64_t kCustodyBytes = 96;     // of the record without its custodians
inline constexpr std::uint64_t kCustodianBytes = 352;  // of each, with what it is paid or loses
// Of a claim with so many custodians.
[[nodiscard]] constexpr std::uint64_t custody_bytes(std::uint64_t custodians) {
    return custodians == 0 ? 0 : kCustodyBytes + custodians * kCustodianBytes;
}

// The submission as the task keeps it: what openings prove is decided when it is accepted.
[[nodiscard]] types::TaskSubmitPayload kept_submission(types::TaskSubmitPayload spec);
// Claims of a task that can be in the state at once, of all its rounds, when it has so many stretches.
[[nodiscard]] std::uint64_t claims_kept(const params::MarketParams& market, std::uint64_t stretches);
// Bytes that a task, and what is made for it without a payer of its own, may take.
[[nodiscard]] std::uint64_t stored_bytes(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                                         std::uint64_t stretches);

[[nodiscard]] Uint256 task_deposit(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                                   const PlannedWork& plan);
[[nodiscard]] Uint256 challenge_deposit(const params::MarketParams& market);
[[nodiscard]] Uint256 evidence_deposit(const params::MarketParams& market);
[[nodiscard]] Uint256 watch_deposit(const params::MarketParams& market);

}  // namespace quern::chain::market
