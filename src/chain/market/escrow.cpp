#include "chain/market/escrow.h"

#include "chain/params/params.h"

namespace quern::chain::market {
namespace {

Expected<Uint256> or_overflow(const std::optional<Uint256>& value) {
    if (!value) return fail("task.price_overflow");
    return *value;
}

}  // namespace

Expected<Uint256> work_price(const Uint256& price, const Uint256& work) {
    return or_overflow(checked_mul(price, work));
}

Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price) {
    QUERN_TRY(const Uint256 cost, work_price(price, sampled_work(work)));
    return or_overflow(mul_div(cost, params::kVerifierFeeNumerator, params::kVerifierFeeDenominator));
}

Expected<Escrow> escrow_of(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                           const Uint256& storage_deposit) {
    Escrow escrow;
    escrow.tax = tax;
    escrow.storage_deposit = storage_deposit;
    QUERN_TRY(escrow.reward, work_price(price_cap, work.plan.total));
    QUERN_TRY(escrow.verifier_fee, verifier_fee(work, price_cap));
    QUERN_TRY(escrow.verifier_fees, or_overflow(checked_mul(escrow.verifier_fee, work.verifiers)));
    for (const Uint256& part : {escrow.reward, escrow.verifier_fees, escrow.tax, escrow.storage_deposit}) {
        QUERN_TRY(escrow.total, or_overflow(checked_add(escrow.total, part)));
    }
    return escrow;
}

Expected<Escrow> escrow_of(const types::TaskSubmitPayload& spec, const PlannedWork& plan,
                           const Uint256& storage_deposit) {
    return escrow_of(task_work(spec, plan), spec.price_cap, spec.tax, storage_deposit);
}

Uint256 solver_reward(const types::Task& task, const Uint256& price) {
    return work_price(price, task.total_work).value_or(Uint256());
}

Uint256 verifier_fee(const types::Task& task) {
    return verifier_fee(work_of(task), task.spec.price_cap).value_or(Uint256());
}

Uint256 price_at_cap(const types::Task& task, const Uint256& work) {
    return work_price(task.spec.price_cap, work).value_or(Uint256());
}

}  // namespace quern::chain::market
