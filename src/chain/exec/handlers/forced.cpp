// watch_commit, watch_reveal, report_open: forced errors. Some reports must tell a result that is altered in one bit,
// so that those who look for lies find some; a whistleblower that was drawn as the watcher of such a report and has
// sealed the true result before the verifier shows that it was forced is paid a jackpot. Rules: doc/market.md, "Forced
// errors".
#include <algorithm>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/storage.h"
#include "chain/market/watchers.h"
#include "compute/core/claims.h"
#include "compute/core/verification_report.h"
#include "crypto/vrf.h"

namespace quern::chain::exec::handlers {
namespace {

using types::ClaimState;
using types::NativeKind;
using types::ReportChoice;
using types::Watch;

// A claim and one of its reports.
struct OneReport {
    LiveClaim live;
    types::VerifierReport report;
};

Expected<OneReport> load_report_of(const Context& context, std::uint64_t task, std::uint32_t stretch,
                                   std::uint8_t place) {
    OneReport one;
    QUERN_TRY(one.live, load_live(context.state, task, stretch));
    if (place >= one.live.claim.drawn) return fail("watch.no_such_report", std::to_string(place));
    QUERN_TRY(one.report, load_report(context.state, one.live.claim, place));
    return one;
}

// The states of ends have deadlines of their own; before that a deadline is that of what the claim waits for.
Status check_in_time(const Context& context, const types::Claim& claim) {
    if (claim.state < ClaimState::opening || context.market_ms < claim.deadline) return {};
    return fail("task.deadline_passed", "market time " + std::to_string(claim.deadline));
}

// A report that stands, and of which nobody knows yet what it had to tell.
Status check_sealed(const types::VerifierReport& report) {
    if (!types::stands_for(report)) return fail("verify.not_standing");
    if (report.choice != ReportChoice::sealed) return fail("verify.already_opened");
    return {};
}

// Whether the sender was drawn as its watcher: by the output of its own key, which nobody knows before it is shown.
Status check_ticket(const Context& context, const OneReport& one, const types::WatchCommitPayload& data) {
    const auto& claim = one.live.claim;
    const crypto::PublicKey key{FixedBytes<64>::copy_of(data.public_key)};
    if (types::address_of(key) != context.sender) return fail("watch.not_the_senders_key");
    QUERN_TRY(const auto bond, load_bond(context.state, types::Role::whistleblower, context.sender));
    if (bond.bonded.is_zero()) return fail("watch.no_bond");
    if (bond.raised_at >= claim.reveal_at)
        return fail("watch.bond_too_young", "raised at height " + std::to_string(bond.raised_at));
    const Hash32 message = core::watch_message(claim.forced_beacon, claim.id, claim.draws, one.report.place);
    QUERN_TRY(const Hash32 output, crypto::vrf_verify(key, message, data.proof));
    if (!market::is_watcher(output, bond.bonded, claim.watch_bonds)) return fail("watch.not_drawn");
    return {};
}

}  // namespace

// --- watch_commit ----------------------------------------------------------------------------------------------------

Status Handler<NativeKind::watch_commit>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.seal.is_zero()) return fail("watch.zero_seal");
    if (data.public_key.size() != FixedBytes<64>::kSize) return fail("watch.not_the_senders_key");
    if (data.proof.size() != crypto::VrfProof::kSize) return fail("vrf.wrong_length");
    return {};
}

struct Handler<NativeKind::watch_commit>::Prepared {
    OneReport one;
};

auto Handler<NativeKind::watch_commit>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto one, load_report_of(context, data.task, data.stretch, data.report));
    const auto& claim = one.live.claim;
    QUERN_CHECK(check_state_is(claim, {ClaimState::revealing, ClaimState::challenge, ClaimState::disputed}));
    if (claim.voided) return fail("watch.claim_void", "nothing is paid for it");
    if (claim.forced_beacon.is_zero()) return fail("watch.no_forced_errors");
    QUERN_CHECK(check_sealed(one.report));
    if (one.report.verifier == context.sender || claim.solver == context.sender) return fail("watch.own_claim");
    if (context.state.native(types::key_of<Watch>(claim.id, claim.draws, data.report, context.sender)))
        return fail("watch.already_sealed");
    if (one.report.seals >= params::kMaxSeals) return fail("watch.too_many");
    QUERN_CHECK(check_ticket(context, one, data));
    QUERN_CHECK(check_balance(context, market::watch_deposit(context.market())));
    return Prepared{std::move(one)};
}

Status Handler<NativeKind::watch_commit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, report] = prepared.one;
    Watch watch;
    watch.claim = live.claim.id;
    watch.draw = live.claim.draws;
    watch.report = data.report;
    watch.watcher = context.sender;
    watch.seal = data.seal;
    watch.deposit = market::watch_deposit(context.market());
    QUERN_CHECK(take_from_account(context, context.sender, watch.deposit));
    context.state.store(types::key_of<Watch>(watch.claim, watch.draw, watch.report, watch.watcher), watch);
    ++report.seals;
    store_report(context.state, report);
    emit(context, types::KindGroup::verification,
         events::WatchSealed{data.task, context.sender, data.stretch, data.report, watch.deposit});
    return {};
}

// --- watch_reveal ----------------------------------------------------------------------------------------------------

Status Handler<NativeKind::watch_reveal>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    return {};
}

struct Handler<NativeKind::watch_reveal>::Prepared {
    OneReport one;
    Watch watch;
};

auto Handler<NativeKind::watch_reveal>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto one, load_report_of(context, data.task, data.stretch, data.report));
    const auto& claim = one.live.claim;
    QUERN_CHECK(check_state_is(claim, {ClaimState::opening, ClaimState::jackpots}));
    QUERN_CHECK(check_in_time(context, claim));
    if (!types::stands_for(one.report)) return fail("verify.not_standing");
    if (one.report.choice != ReportChoice::forced) return fail("watch.not_forced", to_string(one.report.choice));
    QUERN_TRY(const auto watch, context.state.load<Watch>(claim.id, claim.draws, data.report, context.sender));
    if (!watch) return fail("watch.not_sealed");
    if (watch->found) return fail("watch.already_found");
    if (core::watch_seal(context.sender, data.root, data.salt) != watch->seal) return fail("watch.bad_seal");
    if (data.root != one.report.true_root) return fail("watch.wrong_root", to_hex0x(one.report.true_root));
    return Prepared{std::move(one), *watch};
}

Status Handler<NativeKind::watch_reveal>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, report] = prepared.one;
    auto& watch = prepared.watch;
    watch.found = true;
    context.state.store(types::key_of<Watch>(watch.claim, watch.draw, watch.report, watch.watcher), watch);
    ++report.found;
    store_report(context.state, report);
    --live.claim.awaited;
    emit(context, types::KindGroup::verification,
         events::ErrorFound{data.task, context.sender, data.stretch, data.report});
    if (live.claim.state == ClaimState::jackpots) QUERN_CHECK(conclude_jackpots(context, live, false));
    store_live(context.state, live);
    return {};
}

// --- report_open -----------------------------------------------------------------------------------------------------

Status Handler<NativeKind::report_open>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (!data.tile.empty() && data.tile.size() != vm::tensor::kTileBytes) return fail("verify.bad_opening", "no tile");
    return {};
}

struct Handler<NativeKind::report_open>::Prepared {
    OneReport one;
    core::OpenedChoice choice;
};

auto Handler<NativeKind::report_open>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    OneReport one;
    QUERN_TRY(one.live, load_live(context.state, data.task, data.stretch));
    const auto& claim = one.live.claim;
    QUERN_CHECK(check_state_is(claim, {ClaimState::revealing, ClaimState::disputed, ClaimState::opening}));
    QUERN_CHECK(check_in_time(context, claim));
    QUERN_TRY(one.report, load_own_report(context, claim));
    QUERN_CHECK(check_sealed(one.report));
    if (claim.forced_beacon.is_zero()) return fail("watch.no_forced_errors");
    if (claim.state != ClaimState::opening) {  // only who is accused of what it was forced to tell need not wait
        QUERN_TRY(const auto open, open_disputes(context, claim));
        const bool accused = std::any_of(open.begin(), open.end(), [&](const types::Dispute& each) {
            return core::is_probe_target(each.target) && core::target_report(each.target) == one.report.place;
        });
        if (!accused) return fail("verify.too_early", "watchers may still seal what they find");
    }
    const auto stretch = market::stretch_of(one.live);
    QUERN_TRY(
        const auto choice,
        core::check_opening(context.sender, one.report, data,
                            market::sampled_segments(market::work_of(one.live.task), stretch.steps),
                            claim.forced_beacon, core::forced_probability(context.market().forced_error_inverse)));
    return Prepared{std::move(one), choice};
}

Status Handler<NativeKind::report_open>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, report] = prepared.one;
    const auto& choice = prepared.choice;
    auto& claim = live.claim;
    if (!choice.right) {
        QUERN_CHECK(punish_choice(context, live, report));
    } else {
        report.choice = choice.forced ? ReportChoice::forced : ReportChoice::truth;
        report.true_root = data.true_root;
        store_report(context.state, report);
        ++claim.opened;
        if (choice.forced) claim.awaited = static_cast<std::uint8_t>(claim.awaited + report.seals);
        emit(context, types::KindGroup::verification,
             events::ReportOpened{data.task, context.sender, data.stretch, report.choice, report.true_root});
        if (choice.forced && claim.open_disputes != 0) QUERN_CHECK(correct_probe_games(context, live, report, choice));
    }
    if (claim.state == ClaimState::opening) QUERN_CHECK(conclude_opening(context, live, false));
    store_live(context.state, live);
    return {};
}

QUERN_DEFINE_RUN(watch_commit, market::watch_deposit(market))
QUERN_DEFINE_RUN(watch_reveal, kNothing)
QUERN_DEFINE_RUN(report_open, kNothing)

}  // namespace quern::chain::exec::handlers
