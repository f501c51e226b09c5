#include "chain/exec/handlers/custody.h"

#include <utility>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/custody.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"

namespace quern::chain::exec::handlers {
namespace {

using types::ClaimState;
using types::Custody;
using types::Role;

void store_custody(Context& context, const Custody& custody) {
    context.state.store(types::key_of<Custody>(custody.claim), custody);
}

Uint256 custodian_lock(const Context& context, const types::Task& task) {
    return market::percent_of(market::verifier_bond(context.market(), task), context.market().custodian_bond_percent);
}

Status unlock_silent(Context& context, const Custody& custody) {
    for (const auto& custodian : custody.custodians)
        if (custodian.receipt == 0)
            QUERN_CHECK(unlock_bond(context, custody.claim.task, Role::custodian, custodian.address, custody.lock));
    return {};
}

// Takes a part of what those lock who have said nothing.
Status slash_silent(Context& context, types::Task& task, const Custody& custody) {
    for (const auto& custodian : custody.custodians)
        if (custodian.receipt == 0)
            QUERN_CHECK(slash_part(context, task, Role::custodian, custodian.address, custody.lock,
                                   context.market().no_reveal_slash_percent, "no_custody_receipt"));
    return {};
}

}  // namespace

Expected<std::optional<Custody>> load_custody(const Context& context, const types::ClaimId& id) {
    return context.state.load<Custody>(id);
}

Expected<std::vector<types::Address>> find_custodians(const Context& context, const LoadedClaim& live,
                                                      const CustodyDraw& draw) {
    const auto& [task, claim] = live;
    DrawTerms terms{draw.anchor, custodian_lock(context, task), {}, draw.excluded};
    terms.demand.classes.bandwidth = task.spec.classes.bandwidth;  // they compute nothing
    terms.excluded.insert(terms.excluded.end(), {claim.solver, task.submitter});
    // However many are busy: a draw that they put off would draw the verifiers anew, and who can make its own bonds
    // busy or free would decide about that when it knows who they are.
    QUERN_TRY(auto drawn,
              draw_bonds(context, Role::custodian, terms, draw_hash("custodians", draw.beacon, claim.id, draw.draws),
                         task.custodians, params::kMaxDrawTries));
    if (drawn.size() < market::custody_quorum(task.custodians)) drawn.clear();
    return drawn;
}

Status take_custodians(Context& context, const LoadedClaim& live, const std::vector<types::Address>& drawn,
                       std::uint8_t draws) {
    const auto& [task, claim] = live;
    Custody custody;
    custody.claim = claim.id;
    custody.draws = static_cast<std::uint8_t>(draws + 1);
    custody.lock = custodian_lock(context, task);
    for (const auto& address : drawn) {
        QUERN_CHECK(lock_whole_bond(context, task.id, Role::custodian, address, custody.lock));
        const auto place = static_cast<std::uint8_t>(custody.custodians.size());
        custody.custodians.push_back({address, 0});
        emit(context, types::KindGroup::verification,
             events::CustodianDrawn{task.id, address, claim.id.stretch, place});
    }
    store_custody(context, custody);
    return {};
}

Expected<std::size_t> place_to_answer(const Context& context, const types::Claim& claim,
                                      const std::optional<Custody>& custody, bool data_ok) {
    if (!custody) return fail(kNotDrawn);
    const auto place = market::place_of(*custody, context.sender);
    if (!place) return fail(kNotDrawn);
    // Others have ended the custody window: what has come since is kept and paid as well.
    if (claim.state != ClaimState::custody && !data_ok) return fail("task.wrong_state", types::to_string(claim.state));
    if (market::awaits_custodians(claim, custody)) return fail("verify.not_active", "custodians are drawn again");
    if (custody->custodians[*place].receipt != 0) return fail("verify.already_received");
    return *place;
}

Status take_receipt(Context& context, Custody& custody, std::size_t place, bool data_ok) {
    auto& custodian = custody.custodians[place];
    custodian.receipt = data_ok ? 1 : 2;
    store_custody(context, custody);
    return unlock_bond(context, custody.claim.task, Role::custodian, custodian.address, custody.lock);
}

Expected<Keeping> judge_custodians(Context& context, LoadedClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    QUERN_TRY(auto custody, load_custody(context, claim.id));
    if (!custody || market::is_kept(*custody)) return Keeping::kept;
    if (market::awaits_custodians(claim, custody) || (!deadline_passed && !market::is_denied(*custody)))
        return Keeping::waits;
    // Who could have answered yet is not to blame for others' receipts.
    QUERN_CHECK(deadline_passed ? slash_silent(context, task, *custody) : unlock_silent(context, *custody));
    custody->lock = Uint256();
    const bool last = custody->draws >= params::kMaxDraws;
    if (!last) custody->draw_at = context.height;
    store_custody(context, *custody);
    if (last) return Keeping::failed;
    enter(context, claim, ClaimState::custody, market::draw_due(context.market_ms), "custodians_redrawn");
    return Keeping::waits;
}

Expected<bool> redraw_custodians(Context& context, LoadedClaim& live, Custody custody) {
    auto& [task, claim] = live;
    CustodyDraw draw;
    QUERN_TRY(draw.beacon, beacon_at(context, market::draw_height(custody.draw_at)));
    draw.anchor = market::anchor_of(custody.draw_at, context.height);
    draw.draws = custody.draws;
    QUERN_TRY(const auto reports, load_reports(context.state, claim));
    for (const auto& report : reports) draw.excluded.push_back(report.verifier);
    QUERN_TRY(const auto drawn, find_custodians(context, live, draw));
    if (drawn.empty()) return false;
    QUERN_CHECK(take_custodians(context, live, drawn, custody.draws));
    enter(context, claim, ClaimState::custody, context.market_ms + market::in_ms(task.spec.windows.verify_s),
          "custodians_drawn");
    return true;
}

Status release_custodians(Context& context, const types::ClaimId& id) {
    QUERN_TRY(auto custody, load_custody(context, id));
    if (!custody || custody->lock.is_zero()) return {};
    QUERN_CHECK(unlock_silent(context, *custody));
    custody->lock = Uint256();
    store_custody(context, *custody);
    return {};
}

void forget_custodians(Context& context, const types::ClaimId& id) {
    context.state.erase_native(types::key_of<Custody>(id));
}

Status pay_custodians(Context& context, LoadedClaim& live) {
    QUERN_TRY(const auto custody, load_custody(context, live.claim.id));
    if (!custody) return {};
    for (const auto& custodian : custody->custodians)
        if (custodian.receipt == 1)
            QUERN_CHECK(pay_from_escrow(context, live.task, custodian.address, live.task.custody_fee, "custodian_fee"));
    return {};
}

}  // namespace quern::chain::exec::handlers
