#include "chain/exec/handlers/slashing.h"

#include <algorithm>

#include "chain/exec/handlers/events.h"

namespace quern::chain::exec::handlers {
namespace {

void record_payment(Context& context, types::Task& task, const types::Address& to, const Uint256& amount,
                    std::string_view reason) {
    if (amount.is_zero()) return;
    pay_account(context, to, amount);
    task.payments.push_back({to, amount, std::string(reason)});
    emit(context, types::KindGroup::tasks, events::Paid{task.id, to, amount, std::string(reason)});
}

}  // namespace

Uint256 solver_reward(const types::Task& task) {
    return core::work_price(task.price, core::total_work(work_of(task))).value_or(Uint256());
}

Uint256 verifier_fee(const types::Task& task) {
    return core::verifier_fee(work_of(task), task.spec.price_cap).value_or(Uint256());
}

Uint256 solver_bond(const params::MarketParams& market, const types::Task& task) {
    const auto reward = core::work_price(task.spec.price_cap, core::total_work(work_of(task)));
    return params::solver_bond(market, reward.value_or(Uint256())).value_or(Uint256());
}

Uint256 verifier_bond(const params::MarketParams& market, const types::Task& task) {
    return params::verifier_bond(market, verifier_fee(task)).value_or(Uint256());
}

Status pay_from_escrow(Context& context, types::Task& task, const types::Address& to, const Uint256& amount,
                       std::string_view reason) {
    const auto rest = checked_sub(task.escrow, amount);
    if (!rest) return fail("task.escrow_empty");
    task.escrow = *rest;
    record_payment(context, task, to, amount, reason);
    return {};
}

Status slash(Context& context, types::Task& task, types::Role role, const types::Address& address,
             const Uint256& amount, std::string_view reason, const SlashShares& shares) {
    if (amount.is_zero()) return {};
    const auto& market = context.market();
    QUERN_CHECK(seize_bond(context, role, address, amount));
    task.slashes.push_back({address, role, amount, std::string(reason)});
    emit(context, types::KindGroup::roles, events::Slashed{address, role, amount, std::string(reason)});

    const Uint256 to_submitter = percent_of(amount, market.submitter_percent);
    const Uint256 burned = percent_of(amount, market.burn_percent);
    Uint256 rest = amount - to_submitter - burned;
    record_payment(context, task, task.submitter, to_submitter, "slash_share");
    if (shares.winner) {
        const Uint256 bounty = std::min(rest, percent_of(shares.proven_cost, market.bounty_cost_percent));
        rest -= bounty;
        record_payment(context, task, *shares.winner, bounty, "bounty");
    }
    for (const auto& verifier : shares.fees) {
        const Uint256 fee = std::min(rest, shares.fee);
        rest -= fee;
        record_payment(context, task, verifier, fee, "verifier_fee");
    }
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.burned += burned;
    globals.treasury_vault += rest;
    store_globals(context.state, globals);
    return {};
}

}  // namespace quern::chain::exec::handlers
