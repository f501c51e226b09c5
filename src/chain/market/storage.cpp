#include "chain/market/storage.h"

#include <algorithm>

namespace quern::chain::market {

static_assert(kChallengeBytes <= kDisputeBytes, "a commitment's deposit is its dispute's");

types::TaskSubmitPayload kept_submission(types::TaskSubmitPayload spec) {
    spec.imports.roots.clear();
    spec.imports.siblings.clear();
    return spec;
}

std::uint64_t claims_kept(const params::MarketParams& market, std::uint64_t stretches) {
    const std::uint64_t settled = std::min<std::uint64_t>(stretches == 0 ? 0 : stretches - 1, kKeptStretches);
    if (stretches <= 1) return market.max_rounds + 1;
    // The first unsettled one may have failed with the one before it as often as by itself.
    return settled + 3 * market.max_rounds + types::kMaxUnsettled;
}

std::uint64_t stored_bytes(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                           std::uint64_t stretches) {
    const std::uint64_t reports = params::kMaxDraws * spec.work.verifiers;
    return types::encode_record(kept_submission(spec)).size() + kTaskBytes + market.max_bids * kBidBytes +
           spec.profiling.profilers * kProfilerBytes +
           claims_kept(market, stretches) *
               (kClaimBytes + custody_bytes(market.custodians) + reports * (kReportBytes + kDisputeBytes));
}

Uint256 task_deposit(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                     const PlannedWork& plan) {
    return market.storage_deposit_per_byte *
           Uint256(stored_bytes(market, spec, stretch_count(plan.steps, plan.tranche)));
}

Uint256 challenge_deposit(const params::MarketParams& market) {
    return market.storage_deposit_per_byte * Uint256(kDisputeBytes);
}

Uint256 evidence_deposit(const params::MarketParams& market) {
    return market.storage_deposit_per_byte * Uint256(kEvidenceCommitmentBytes);
}

Uint256 watch_deposit(const params::MarketParams& market) {
    return market.storage_deposit_per_byte * Uint256(kWatchBytes);
}

}  // namespace quern::chain::market
