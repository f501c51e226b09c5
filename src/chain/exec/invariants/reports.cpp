#include "chain/exec/invariants/invariants.h"
#include "chain/market/custody.h"

namespace quern::chain::exec::invariants {
namespace {

Status wrong(const types::ClaimId& id) {
    return fail("invariant.report_counts",
                "task " + std::to_string(id.task) + " stretch " + std::to_string(id.stretch));
}

Status wrong_custody(const types::ClaimId& id) {
    return fail("invariant.custody", "task " + std::to_string(id.task) + " stretch " + std::to_string(id.stretch));
}

// What the claim says of its reports, counted anew.
Status check_counts(const state::Overlay& state, const types::ClaimId& id, const types::Claim& claim) {
    types::Claim counted;
    for (std::uint8_t place = 0; place < claim.drawn; ++place) {
        QUERN_TRY(const auto report, state.load<types::VerifierReport>(id, place));
        if (!report || report->claim != id || report->place != place) return wrong(id);
        if (report->custody == 1) ++counted.received;
        if (report->custody == 2) ++counted.missing;
        if (!types::is_active(*report)) continue;
        ++counted.active;
        if (!report->commitment.is_zero()) ++counted.committed;
        if (report->revealed()) ++counted.revealed;
        if (types::stands_for(*report)) ++counted.passes;
        if (report->choice != types::ReportChoice::sealed) ++counted.opened;
        if (report->choice == types::ReportChoice::forced)
            counted.awaited = static_cast<std::uint8_t>(counted.awaited + report->seals - report->found);
    }
    const bool agree = counted.received == claim.received && counted.missing == claim.missing &&
                       counted.active == claim.active && counted.committed == claim.committed &&
                       counted.revealed == claim.revealed && counted.passes == claim.passes &&
                       counted.opened == claim.opened && counted.awaited == claim.awaited;
    return agree ? Status{} : wrong(id);
}

// A report that is there has a claim that says so.
Status check_report(const state::Overlay& state, const types::VerifierReport& report) {
    QUERN_TRY(const auto claim, state.load<types::Claim>(report.claim));
    if (!claim || report.place >= claim->drawn) return wrong(report.claim);
    return check_counts(state, report.claim, *claim);
}

// A claim that is erased takes its reports along.
Status check_erased(const state::Overlay& state, const Bytes& claim_key) {
    const auto before = state.base().native(claim_key);
    if (!before) return {};
    QUERN_TRY(const auto claim, types::decode_record<types::Claim>(*before));
    for (std::uint8_t place = 0; place < claim.drawn; ++place)
        if (state.native(types::key_of<types::VerifierReport>(claim.id, place))) return wrong(claim.id);
    if (state.native(types::key_of<types::Custody>(claim.id))) return wrong_custody(claim.id);
    return {};
}

// Custodians that are there are those of a claim whose task has so many of each, and answer only while it may wait for
// their receipts.
Status check_custody(const state::Overlay& state, const types::Custody& custody, const types::Claim* claim) {
    QUERN_TRY(const auto task, state.load<types::Task>(custody.claim.task));
    const std::size_t drawn = custody.custodians.size();
    if (claim == nullptr || !task || claim->custody_content.is_zero() || drawn > task->custodians ||
        drawn < market::custody_quorum(task->custodians) || custody.draws == 0 || custody.draws > params::kMaxDraws)
        return wrong_custody(custody.claim);
    const bool waits = claim->state == types::ClaimState::custody;
    if (!custody.lock.is_zero() && (!waits || custody.draw_at != 0)) return wrong_custody(custody.claim);
    // Nothing goes on that a quorum has not said it keeps.
    const bool gone_on =
        claim->state >= types::ClaimState::committing && !claim->voided && claim->state != types::ClaimState::voided;
    return gone_on && !market::is_kept(custody) ? wrong_custody(custody.claim) : Status{};
}

Status check_custody_of(const state::Overlay& state, const types::Claim& claim) {
    QUERN_TRY(const auto custody, state.load<types::Custody>(claim.id));
    return custody ? check_custody(state, *custody, &claim) : Status{};
}

}  // namespace

Status check_reports(const state::Overlay& state) {
    for (const auto& [key, value] : state.changed_native()) {
        if (key.empty()) continue;
        const bool is_claim = key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::claim);
        if (is_claim && !value) {
            QUERN_CHECK(check_erased(state, key));
        } else if (is_claim) {
            QUERN_TRY(const auto claim, types::decode_record<types::Claim>(*value));
            QUERN_CHECK(check_counts(state, claim.id, claim));
            QUERN_CHECK(check_custody_of(state, claim));
        } else if (value && key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::report)) {
            QUERN_TRY(const auto report, types::decode_record<types::VerifierReport>(*value));
            QUERN_CHECK(check_report(state, report));
        } else if (value && key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::custody)) {
            QUERN_TRY(const auto custody, types::decode_record<types::Custody>(*value));
            QUERN_TRY(const auto claim, state.load<types::Claim>(custody.claim));
            QUERN_CHECK(check_custody(state, custody, claim ? &*claim : nullptr));
        }
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
