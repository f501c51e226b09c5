// custody_receipt, verify_commit, verify_reveal: what drawn verifiers send, each in its state of the round; that data
// is missing as long as nothing was committed. Receipts are custodians', too.
#include "chain/exec/handlers/custody.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/delays.h"
#include "chain/types/probe_event.h"
#include "compute/core/history.h"
#include "compute/core/verification_report.h"

namespace quern::chain::exec::handlers {

namespace core = compute::core;

namespace {

using types::ClaimState;
using types::NativeKind;

struct OwnReport {
    LiveClaim live;
    types::VerifierReport report;
};

// Whether what ends with the claim's deadline is the wait for a beacon: verifiers' time is not over with it.
Expected<bool> awaits_beacon(const Context& context, const types::Claim& claim) {
    if (claim.state != ClaimState::custody) return market::awaits_forced_beacon(claim);
    QUERN_TRY(const auto custody, load_custody(context, claim.id));
    return market::awaits_custodians(claim, custody);
}

// The task's claim, in one of `states`.
template <class Payload>
Expected<LiveClaim> load_open(const Context& context, const Payload& data, std::initializer_list<ClaimState> states) {
    QUERN_TRY(auto live, load_live(context.state, data.task, data.stretch));
    QUERN_CHECK(check_state_is(live.claim, states));
    QUERN_TRY(const bool waits, awaits_beacon(context, live.claim));
    if (context.market_ms >= live.claim.deadline && !waits)
        return fail("task.deadline_passed", "market time " + std::to_string(live.claim.deadline));
    return live;
}

// The same with the sender's standing report in it.
template <class Payload>
Expected<OwnReport> load_own(const Context& context, const Payload& data, std::initializer_list<ClaimState> states) {
    OwnReport own;
    QUERN_TRY(own.live, load_open(context, data, states));
    QUERN_TRY(own.report, load_own_report(context, own.live.claim));
    if (!is_active(own.report)) return fail("verify.not_active");
    return own;
}

}  // namespace

// --- custody_receipt -------------------------------------------------------------------------------------------------

Status Handler<NativeKind::custody_receipt>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    return {};
}

struct Handler<NativeKind::custody_receipt>::Prepared {
    LiveClaim live;
    std::optional<types::VerifierReport> report;  // the sender's, as a verifier ...
    std::optional<types::Custody> custody;        // ... or as a custodian,
    std::size_t place = 0;                        // who has this one
};

namespace {

using types::CustodyReceiptPayload;

Status check_receipt(const types::Claim& claim, const types::VerifierReport& report,
                     const CustodyReceiptPayload& data) {
    if (!is_active(report)) return fail("verify.not_active");
    if (claim.state == ClaimState::custody) return report.custody == 0 ? Status{} : fail("verify.already_received");
    // Others have ended the custody window, or what a replay reads later was not there: to wait for it must not cost.
    if (data.data_ok) return fail("task.wrong_state", types::to_string(claim.state));
    return report.commitment.is_zero() ? Status{} : fail("verify.already_committed");
}

Status receive(Context& context, types::Claim& claim, types::VerifierReport& report, bool data_ok) {
    if (report.custody == 1) --claim.received;  // it takes that back
    ++(data_ok ? claim.received : claim.missing);
    if (!data_ok) {  // without the data there is nothing to answer for
        leave(claim, report);
        QUERN_CHECK(unlock_bond(context, claim.id.task, types::Role::verifier, report.verifier, report.locked));
        report.locked = Uint256();
    }
    report.custody = data_ok ? 1 : 2;
    store_report(context.state, report);
    return {};
}

}  // namespace

auto Handler<NativeKind::custody_receipt>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    Prepared prepared;
    QUERN_TRY(prepared.live, load_open(context, data, {ClaimState::custody, ClaimState::committing}));
    const auto& claim = prepared.live.claim;
    auto report = load_own_report(context, claim);
    if (report) {
        QUERN_CHECK(check_receipt(claim, *report, data));
        prepared.report = std::move(*report);
        return prepared;
    }
    if (report.error().name != kNotDrawn) return fail(report.error());
    QUERN_TRY(prepared.custody, load_custody(context, claim.id));
    QUERN_TRY(prepared.place, place_to_answer(context, claim, prepared.custody, data.data_ok));
    return prepared;
}

Status Handler<NativeKind::custody_receipt>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, report, custody, place] = prepared;
    QUERN_CHECK(report ? receive(context, live.claim, *report, data.data_ok)
                       : take_receipt(context, *custody, place, data.data_ok));
    emit(context, types::KindGroup::verification,
         events::CustodyReceived{data.task, context.sender, data.stretch, data.data_ok});
    QUERN_CHECK(live.claim.state == ClaimState::custody ? conclude_custody(context, live, false)
                                                        : conclude_committing(context, live, false));
    store_live(context.state, live);
    return {};
}

// --- verify_commit ---------------------------------------------------------------------------------------------------

Status Handler<NativeKind::verify_commit>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.commitment.is_zero()) return fail("verify.zero_commitment");
    return {};
}

struct Handler<NativeKind::verify_commit>::Prepared {
    OwnReport own;
};

auto Handler<NativeKind::verify_commit>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto own, load_own(context, data, {ClaimState::committing}));
    if (!own.report.commitment.is_zero()) return fail("verify.already_committed");
    return Prepared{std::move(own)};
}

Status Handler<NativeKind::verify_commit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& own = prepared.own;
    own.report.commitment = data.commitment;
    store_report(context.state, own.report);
    ++own.live.claim.committed;
    emit(context, types::KindGroup::verification,
         events::ReportCommitted{data.task, context.sender, data.stretch, data.commitment});
    QUERN_CHECK(conclude_committing(context, own.live, false));
    store_live(context.state, own.live);
    return {};
}

// --- verify_reveal ---------------------------------------------------------------------------------------------------

Status Handler<NativeKind::verify_reveal>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.pass != data.rival_root.is_zero() || (data.pass && !data.initial_path.empty()))
        return fail("verify.bad_verdict");
    return {};
}

struct Handler<NativeKind::verify_reveal>::Prepared {
    OwnReport own;
};

auto Handler<NativeKind::verify_reveal>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto own, load_own(context, data, {ClaimState::revealing}));
    const auto& report = own.report;
    if (report.revealed()) return fail("verify.already_revealed");
    if (market::awaits_forced_beacon(own.live.claim))
        return fail("verify.too_early", "the beacon that forces errors is not drawn yet");
    const market::Stretch stretch = market::stretch_of(own.live);
    QUERN_CHECK(core::check_reveal(context.sender, report.commitment, data,
                                   market::sampled_segments(market::work_of(own.live.task), stretch.steps)));
    if (data.pass) return Prepared{std::move(own)};
    if (data.rival_root == own.live.claim.history_root) return fail("verify.equal_claim");
    const std::uint64_t strides = market::stride_count(stretch.steps, own.live.task.spec.work.stride);
    if (const auto first =
            core::check_history_leaf(data.rival_root, own.live.claim.start_root, 0, strides, data.initial_path);
        !first)
        return fail("verify.bad_initial_path", first.error().to_string());
    return Prepared{std::move(own)};
}

Status Handler<NativeKind::verify_reveal>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& own = prepared.own;
    auto& report = own.report;
    report.revealed_at = context.height;
    report.pass = data.pass;
    report.rival_root = data.rival_root;
    report.opened = data.opened;
    report.result_root = data.result_root;
    report.other_leaf = data.other_leaf;
    store_report(context.state, report);
    ++own.live.claim.revealed;
    if (data.pass) ++own.live.claim.passes;
    emit(context, types::KindGroup::verification,
         events::ReportRevealed{data.task, context.sender, data.stretch, data.pass, data.rival_root});
    // Whoever challenges a probe opens it under the result root; the state need not keep what nobody may ask for.
    emit(context, types::KindGroup::verification,
         types::ProbesRevealed{data.task, context.sender, data.stretch, data.result_root, data.probes});
    QUERN_CHECK(conclude_revealing(context, own.live, false));
    store_live(context.state, own.live);
    return {};
}

QUERN_DEFINE_RUN(custody_receipt, kNothing)
QUERN_DEFINE_RUN(verify_commit, kNothing)
QUERN_DEFINE_RUN(verify_reveal, kNothing)

}  // namespace quern::chain::exec::handlers
