#include "chain/market/escrow.h"

#include "chain/market/custody.h"
#include "chain/market/shares.h"
#include "chain/market/storage.h"
#include "chain/market/watchers.h"

namespace quern::chain::market {
namespace {

Expected<Uint256> or_overflow(const std::optional<Uint256>& value) {
    if (!value) return fail("task.price_overflow");
    return *value;
}

// What who checks or measures is paid for so much work.
Expected<Uint256> fee_for(const Uint256& price, const Uint256& work) {
    QUERN_TRY(const Uint256 cost, work_price(price, work));
    return or_overflow(mul_div(cost, params::kVerifierFeeNumerator, params::kVerifierFeeDenominator));
}

}  // namespace

Expected<Uint256> work_price(const Uint256& price, const Uint256& work) {
    return or_overflow(checked_mul(price, work));
}

Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price, std::uint64_t steps) {
    return fee_for(price, sampled_work(work, steps));
}

Expected<Uint256> profiler_fee(const TaskWork& work, const Uint256& price) {
    return fee_for(price, profiled_work(work));
}

Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price) {
    return verifier_fee(work, price, tranche_steps(work.plan.steps, work.plan.tranche));
}

Expected<Escrow> escrow_of(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                           const Uint256& storage_deposit) {
    return escrow_left(work, price_cap, tax, storage_deposit, 0, {});
}

Expected<Escrow> escrow_left(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                             const Uint256& storage_deposit, std::uint32_t settled, const Uint256& settled_work) {
    const std::uint64_t steps = work.plan.steps;
    const std::uint64_t tranche = work.plan.tranche;
    const std::uint64_t stretches = stretch_count(steps, tranche);
    Escrow escrow;
    escrow.tax = tax - tax_due(tax, settled_work, work.plan.total);
    escrow.storage_deposit = storage_deposit;
    escrow.custody_fee = work.custody_fee;
    QUERN_TRY(escrow.verifier_fee, verifier_fee(work, price_cap));
    if (settled < stretches) {
        QUERN_TRY(escrow.reward, work_price(price_cap, work.plan.total - settled_work));
        const Stretch last = stretch_of(steps, tranche, static_cast<std::uint32_t>(stretches - 1));
        QUERN_TRY(Uint256 fees, verifier_fee(work, price_cap, last.steps));
        QUERN_TRY(const Uint256 others,
                  or_overflow(checked_mul(escrow.verifier_fee, Uint256(stretches - 1 - settled))));
        QUERN_TRY(fees, or_overflow(checked_add(fees, others)));
        QUERN_TRY(escrow.verifier_fees, or_overflow(checked_mul(fees, work.verifiers)));
        QUERN_TRY(escrow.custody_fees,
                  or_overflow(checked_mul(work.custody_fee, Uint256(stretches - settled) * Uint256(work.custodians))));
    }
    if (work.profilers != 0) {
        QUERN_TRY(escrow.profiler_fee, profiler_fee(work, price_cap));
        QUERN_TRY(escrow.profiler_fees, or_overflow(checked_mul(escrow.profiler_fee, work.profilers)));
    }
    for (const Uint256& part : {escrow.reward, escrow.verifier_fees, escrow.custody_fees, escrow.profiler_fees,
                                escrow.tax, escrow.storage_deposit}) {
        QUERN_TRY(escrow.total, or_overflow(checked_add(escrow.total, part)));
    }
    return escrow;
}

Expected<Escrow> escrow_of(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                           const PlannedWork& plan) {
    TaskWork work = task_work(spec, plan);
    work.custodians = market.custodians;
    QUERN_TRY(work.custody_fee, custody_fee(market, plan));
    return escrow_of(work, spec.money.price_cap, spec.money.tax, task_deposit(market, spec, plan));
}

Uint256 escrow_left(const types::Task& task) {
    const auto escrow = escrow_left(work_of(task), task.spec.money.price_cap, task.spec.money.tax, task.deposit,
                                    task.settled, task.settled_work);
    return escrow ? escrow->total : Uint256();
}

Uint256 solver_reward(const types::Claim& claim) { return work_price(claim.price, claim.work).value_or(Uint256()); }

Uint256 held_share(const params::MarketParams& market, const Uint256& reward) {
    return percent_of(reward, market.held_percent);
}

Uint256 held_after(const types::Task& task) {
    Uint256 held = task.held;
    for (const auto& asked : task.asked) held += asked.prepaid;
    return held;
}

Uint256 verifier_fee(const types::Task& task, std::uint32_t stretch) {
    return verifier_fee(work_of(task), task.spec.money.price_cap, stretch_of(task, stretch).steps).value_or(Uint256());
}

Uint256 profiler_fee(const types::Task& task) {
    return profiler_fee(work_of(task), task.spec.money.price_cap).value_or(Uint256());
}

Uint256 price_at_cap(const types::Task& task, const Uint256& work) {
    return work_price(task.spec.money.price_cap, work).value_or(Uint256());
}

}  // namespace quern::chain::market
