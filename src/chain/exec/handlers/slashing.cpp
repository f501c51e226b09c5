#include "chain/exec/handlers/slashing.h"

#include <type_traits>

#include "chain/exec/handlers/events.h"
#include "chain/market/shares.h"

namespace quern::chain::exec::handlers {
namespace {

// Events tell of all of them.
template <class Record>
void keep_newest(std::vector<Record>& records, std::type_identity_t<Record> record) {
    if (records.size() >= types::kMaxKeptRecords) records.erase(records.begin());
    records.push_back(std::move(record));
}

void record_payment(Context& context, types::Task& task, const types::Address& to, const Uint256& amount,
                    std::string_view reason) {
    if (amount.is_zero()) return;
    pay_account(context, to, amount);
    keep_newest(task.payments, types::Payment{to, amount, std::string(reason)});
    emit(context, types::KindGroup::tasks, events::Paid{task.id, to, amount, std::string(reason)});
}

}  // namespace

Status pay_from_escrow(Context& context, types::Task& task, const types::Address& to, const Uint256& amount,
                       std::string_view reason) {
    const auto rest = checked_sub(task.escrow, amount);
    if (!rest) return fail("task.escrow_empty");
    task.escrow = *rest;
    record_payment(context, task, to, amount, reason);
    return {};
}

void return_deposit(Context& context, std::uint64_t task, const types::Address& payer, const Uint256& deposit) {
    if (deposit.is_zero()) return;
    pay_account(context, payer, deposit);
    emit(context, types::KindGroup::tasks, events::Paid{task, payer, deposit, "storage_deposit"});
}

Status slash(Context& context, types::Task& task, types::Role role, const types::Address& address,
             const Uint256& amount, std::string_view reason, const SlashShares& shares) {
    if (amount.is_zero()) return {};
    QUERN_CHECK(seize_bond(context, role, address, amount));
    keep_newest(task.slashes, types::SlashRecord{address, role, amount, std::string(reason)});
    emit(context, types::KindGroup::roles, events::Slashed{address, task.id, role, amount, std::string(reason)});

    market::SlashSplit split;
    split.burned = amount;
    if (!shares.unproven)
        split = market::split_slash(context.market(), amount,
                                    {shares.winner.has_value(), shares.fee, shares.fees.size(),
                                     shares.accuser.has_value(), shares.proven_cost});
    record_payment(context, task, task.submitter, split.to_submitter, "slash_share");
    if (shares.winner) record_payment(context, task, *shares.winner, split.dispute_cost, "dispute_cost");
    for (std::size_t i = 0; i < split.fees.size(); ++i)
        record_payment(context, task, shares.fees[i], split.fees[i], "verifier_fee");
    if (shares.accuser) record_payment(context, task, *shares.accuser, split.bounty, "bounty");
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.burned += split.burned;
    globals.treasury_vault += split.treasury;
    store_globals(context.state, globals);
    return {};
}

Status slash_part(Context& context, types::Task& task, types::Role role, const types::Address& address,
                  const Uint256& locked, std::uint64_t percent, std::string_view reason, const SlashShares& shares) {
    const Uint256 lost = market::percent_of(locked, percent);
    QUERN_CHECK(slash(context, task, role, address, lost, reason, shares));
    return unlock_bond(context, task.id, role, address, locked - lost);
}

}  // namespace quern::chain::exec::handlers
