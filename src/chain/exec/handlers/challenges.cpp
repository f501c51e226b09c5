// challenge_commit, challenge_reveal: how anybody with a whistleblower bond opens a dispute, and a verifier that was
// drawn for the claim one about another's report. Commit and reveal, so that a challenge
// cannot be copied from the mempool. A commitment stakes the same whoever came before; a reveal that opens the n-th
// dispute of the round, of those about the history or of those about reports, raises its stake to n times as much. So
// what raises an honest challenger's stake has been staked on a claim of its own, and a commitment that could have been
// revealed gives way when places are short.
#include <algorithm>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/claim_state.h"
#include "chain/market/delays.h"
#include "chain/market/storage.h"
#include "compute/core/claims.h"

namespace quern::chain::exec::handlers {
namespace {

using types::ClaimState;
using types::NativeKind;

// Claims can be challenged from the proof until their end.
Expected<LiveClaim> load_challengeable(const Context& context, std::uint64_t task, std::uint32_t stretch) {
    QUERN_TRY(auto live, load_live(context.state, task, stretch));
    if (live.claim.state < ClaimState::proved) return fail("task.wrong_state", types::to_string(live.claim.state));
    if (live.claim.solver == context.sender) return fail("challenge.own_claim");
    return live;
}

// The claim's disputes that compete with a new one for places, and that raise its stake.
std::uint64_t& rivals_of(types::Claim& claim, std::uint32_t target) {
    return target == 0 ? claim.rivals : claim.report_rivals;
}

// The oldest commitment whose owner had the time to reveal it.
Expected<std::optional<types::ChallengeCommitment>> overdue_commitment(const Context& context,
                                                                       const types::Claim& claim) {
    std::optional<types::ChallengeCommitment> oldest;
    for (const auto& [key, value] :
         context.state.native_range(types::KeyOf<types::ChallengeCommitment>::all(claim.id), {}, claim.commitments)) {
        QUERN_TRY(auto commitment, types::decode_record<types::ChallengeCommitment>(value));
        if (market::reveal_expected(context.market(), commitment.since) > context.market_ms) continue;
        if (!oldest || commitment.since < oldest->since) oldest = std::move(commitment);
    }
    return oldest;
}

// Whether the sender was drawn for the claim and has not been slashed in it.
Expected<bool> is_drawn_for(const Context& context, const types::Claim& claim) {
    QUERN_TRY(const auto reports, load_reports(context.state, claim));
    return std::any_of(reports.begin(), reports.end(), [&](const types::VerifierReport& report) {
        return report.verifier == context.sender && !report.slashed();
    });
}

// Whose bond of the sender's has the stake free. What is leaving a bond answers for no new challenge.
Expected<types::Role> staking_role(const Context& context, const types::Claim& claim, const Uint256& stake) {
    QUERN_TRY(const auto watching, load_bond(context.state, types::Role::whistleblower, context.sender));
    if (free_part(watching) >= stake) return types::Role::whistleblower;
    Uint256 most = free_part(watching);
    QUERN_TRY(const bool drawn, is_drawn_for(context, claim));
    if (drawn) {
        QUERN_TRY(const auto verifying, load_bond(context.state, types::Role::verifier, context.sender));
        if (free_part(verifying) >= stake) return types::Role::verifier;
        most = std::max(most, free_part(verifying));
    }
    return fail("bond.insufficient", "free " + most.to_decimal() + ", need " + stake.to_decimal());
}

Expected<types::ChallengeCommitment> load_commitment(const Context& context, const types::ClaimId& claim,
                                                     const types::ChallengeRevealPayload& data) {
    const Hash32 commitment = core::challenge_commitment(context.sender, data.claim, data.salt);
    QUERN_TRY(auto stored, context.state.load<types::ChallengeCommitment>(claim, context.sender, commitment));
    if (!stored) return fail("challenge.not_committed");
    if (stored->since >= context.market_ms) return fail("challenge.too_early", "reveal in a later block");
    return std::move(*stored);
}

// A commitment speaks for itself as long as it takes to reveal it. One that was held back names nothing that others had
// not named before: else a solver's friend commits after the proof and reveals when somebody has found it out.
std::uint64_t accused_at(const Context& context, const types::ChallengeCommitment& commitment) {
    const bool held_back = context.market_ms >= market::reveal_expected(context.market(), commitment.since);
    return held_back ? context.market_ms : commitment.since;
}

// A rival history against the solver's: of the solver, or of a verifier that passed it.
Status open_history(const Context& context, const LoadedClaim& live, const types::ChallengeRevealPayload& data,
                    NewDispute& opened) {
    const auto& [task, claim] = live;
    QUERN_TRY(const auto opening, core::decode_history_challenge(data.opening));
    QUERN_CHECK(
        core::check_history_challenge(opening, data.claim, claim.history_root, claim.start_root,
                                      market::stride_count(market::stretch_of(live).steps, task.spec.work.stride)));
    QUERN_TRY(opened.game, core::open_history_game(game_context(live), claim.history_root, data.claim,
                                                   market::dispute_clock(context.market(), task), context.market_ms));
    return {};
}

// The probe that is challenged in a result of the report's.
Expected<core::ProbeTarget> probe_in(const LoadedClaim& live, const types::VerifierReport& report,
                                     const Hash32& result_root, const types::ChallengeRevealPayload& data) {
    const auto& [task, claim] = live;
    QUERN_TRY(const auto opening, core::decode_probe_challenge(data.opening));
    core::ReportContext about;
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    about.plan = &plan;
    about.stretch = market::stretch_of(live);
    about.verify_beacon = claim.verify_beacon;
    about.verifier = report.verifier;
    about.result_root = result_root;
    about.interval = task.spec.work.interval;
    about.segments = core::segments_of(task, claim, report.verifier);
    return core::check_probe_challenge(opening, data.claim, about);
}

// Whether what is challenged is what the report was forced to tell, as it has shown since: nobody is wrong then.
bool is_corrected(const LoadedClaim& live, const types::VerifierReport& report,
                  const types::ChallengeRevealPayload& data) {
    return report.choice == types::ReportChoice::forced && !probe_in(live, report, core::answered_root(report), data) &&
           probe_in(live, report, report.result_root, data);
}

// Whether the target is a claim that has fallen to somebody else since the challenger committed, or so shortly before
// that it may not have known. Else to name what has fallen would be a way to have a stake back whenever the time comes
// to reveal, and places could be held for gas: neither a report that was slashed for its silence, of which nobody could
// accuse it, nor one that fell earlier.
Expected<bool> is_beaten(const Context& context, const LoadedClaim& live, const types::ChallengeRevealPayload& data,
                         std::uint64_t committed_at) {
    const auto& claim = live.claim;
    if (data.target == 0) return market::is_history_lost(claim);
    const std::size_t place = core::target_report(data.target);
    if (place >= claim.drawn) return false;
    QUERN_TRY(const auto report, load_report(context.state, claim, place));
    if (core::is_probe_target(data.target) && is_corrected(live, report, data)) return true;
    return report.slashed() && report.revealed() &&
           committed_at < market::reveal_expected(context.market(), report.slashed_at);
}

Status open_probe(const Context& context, const LoadedClaim& live, const types::VerifierReport& report,
                  const types::ChallengeRevealPayload& data, NewDispute& opened) {
    const auto& [task, claim] = live;
    QUERN_TRY(const auto probe, probe_in(live, report, core::answered_root(report), data));
    QUERN_TRY(opened.game, core::open_probe_game(game_context(live), claim.history_root, probe.step, probe.node,
                                                 probe.tile, probe.defender_hash, data.claim,
                                                 market::dispute_clock(context.market(), task), context.market_ms));
    return {};
}

Expected<NewDispute> new_dispute(const Context& context, const LoadedClaim& live,
                                 const types::ChallengeRevealPayload& data) {
    const auto& claim = live.claim;
    NewDispute opened;
    opened.target = data.target;
    opened.rival = context.sender;
    if (data.target == 0) {
        opened.defender = claim.solver;
        opened.defender_locked = claim.locked;
        QUERN_CHECK(open_history(context, live, data, opened));
        return opened;
    }
    const std::size_t place = core::target_report(data.target);
    if (place >= claim.drawn) return fail("challenge.no_such_report");
    QUERN_TRY(const auto report, load_report(context.state, claim, place));
    if (report.verifier == context.sender) return fail("challenge.own_claim");
    if (!stands_for(report)) return fail("challenge.report_not_standing");
    opened.defender = report.verifier;
    opened.defender_locked = report.locked;
    if (core::is_pass_target(data.target))
        QUERN_CHECK(open_history(context, live, data, opened));
    else
        QUERN_CHECK(open_probe(context, live, report, data, opened));
    return opened;
}

}  // namespace

// --- challenge_commit ------------------------------------------------------------------------------------------------

Status Handler<NativeKind::challenge_commit>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.commitment.is_zero()) return fail("challenge.zero_commitment");
    return {};
}

struct Handler<NativeKind::challenge_commit>::Prepared {
    LiveClaim live;
    std::optional<types::ChallengeCommitment> displaced;
    types::Role role = types::Role::whistleblower;
    Uint256 stake;
};

auto Handler<NativeKind::challenge_commit>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto live, load_challengeable(context, data.task, data.stretch));
    const auto& claim = live.claim;
    if (claim.voided) return fail("challenge.claim_void", "the solver has lost");
    if (claim.challenge_until != 0 && context.market_ms >= claim.challenge_until)
        return fail("challenge.window_closed", "at market time " + std::to_string(claim.challenge_until));
    if (context.state.native(types::key_of<types::ChallengeCommitment>(claim.id, context.sender, data.commitment)))
        return fail("challenge.already_committed");
    std::optional<types::ChallengeCommitment> displaced;  // gives way to this one
    if (claim.commitments >= context.market().max_commitments) {
        QUERN_TRY(displaced, overdue_commitment(context, claim));
        if (!displaced) return fail("challenge.too_many", "try again in the next block");
    }
    const Uint256 stake = market::challenge_stake(context.market(), live.task);
    QUERN_TRY(const types::Role role, staking_role(context, claim, stake));
    QUERN_CHECK(check_balance(context, market::challenge_deposit(context.market())));
    return Prepared{std::move(live), std::move(displaced), role, stake};
}

Status Handler<NativeKind::challenge_commit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, displaced, role, stake] = prepared;
    auto& claim = live.claim;
    if (displaced) QUERN_CHECK(drop_commitment(context, live, *displaced, could_reveal(context, claim, *displaced)));
    QUERN_CHECK(lock_bond(context, data.task, role, context.sender, stake));
    const Uint256 deposit = market::challenge_deposit(context.market());
    QUERN_CHECK(take_from_account(context, context.sender, deposit));
    ++claim.commitments;
    claim.challenge_hold = market::reveal_expected(context.market(), context.market_ms);
    if (claim.state == ClaimState::challenge) claim.deadline = std::max(claim.deadline, claim.challenge_hold);
    store_live(context.state, live);
    context.state.store(
        types::key_of<types::ChallengeCommitment>(claim.id, context.sender, data.commitment),
        types::ChallengeCommitment{claim.id, context.sender, data.commitment, context.market_ms, role, stake, deposit});
    emit(context, types::KindGroup::disputes,
         events::ChallengeCommitted{data.task, context.sender, data.stretch, data.commitment, role, stake, deposit});
    return {};
}

// --- challenge_reveal ------------------------------------------------------------------------------------------------

Status Handler<NativeKind::challenge_reveal>::check_form(const params::MarketParams& market, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.target != 0 && core::target_report(data.target) >= market.max_verifiers)
        return fail("challenge.no_such_report");
    if (data.opening.size() > core::kMaxChallengeBytes) return fail("challenge.too_large");
    return {};
}

struct Handler<NativeKind::challenge_reveal>::Prepared {
    LiveClaim live;
    types::ChallengeCommitment commitment;
};

auto Handler<NativeKind::challenge_reveal>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto live, load_challengeable(context, data.task, data.stretch));
    const auto& claim = live.claim;
    QUERN_TRY(auto commitment, load_commitment(context, claim.id, data));
    // Against the solver's history a verifier says FAIL.
    if (commitment.role == types::Role::verifier && data.target == 0) return fail("challenge.not_a_report");
    if (claim.voided && context.market_ms >= claim.challenge_hold)
        return fail("challenge.window_closed", "at market time " + std::to_string(claim.challenge_hold));
    // What reports had to tell is out: a forced error is no news, and nobody's lie.
    if (claim.state >= ClaimState::opening) return fail("challenge.window_closed", types::to_string(claim.state));
    return Prepared{std::move(live), std::move(commitment)};
}

Status Handler<NativeKind::challenge_reveal>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [live, commitment] = prepared;
    auto& claim = live.claim;
    context.state.erase_native(
        types::key_of<types::ChallengeCommitment>(claim.id, context.sender, commitment.commitment));
    --claim.commitments;
    std::uint64_t& rivals = rivals_of(claim, data.target);
    // Somebody else was quicker and nothing is left to be accused, or no place for another dispute.
    QUERN_TRY(const bool beaten, is_beaten(context, live, data, commitment.since));
    if (beaten || rivals >= context.market().max_disputes) {
        QUERN_CHECK(unlock_bond(context, data.task, commitment.role, context.sender, commitment.stake));
        return_deposit(context, data.task, context.sender, commitment.deposit);
        emit(context, types::KindGroup::disputes,
             events::ChallengeReleased{data.task, context.sender, data.stretch, commitment.commitment});
        if (claim.voided) QUERN_CHECK(continue_voided(context, live));
        store_live(context.state, live);
        return {};
    }
    const Uint256 raised = commitment.stake * Uint256(rivals);
    QUERN_TRY(auto opened, new_dispute(context, live, data));
    QUERN_CHECK(lock_bond(context, data.task, commitment.role, context.sender, raised));
    ++rivals;
    opened.rival_role = commitment.role;
    opened.rival_locked = commitment.stake + raised;  // the lock passes from the commitment to the dispute ...
    opened.deposit = commitment.deposit;              // ... and the deposit
    opened.accused_at = accused_at(context, commitment);
    QUERN_TRY(const bool waits, has_open_game(context, claim, opened.defender));
    QUERN_CHECK(open_dispute(context, live, std::move(opened), waits));
    if (claim.state == ClaimState::challenge) {
        QUERN_CHECK(await_challenges(context, live, "challenged"));
    } else {
        QUERN_CHECK(refresh_deadline(context, claim));
    }
    store_live(context.state, live);
    return {};
}

QUERN_DEFINE_RUN(challenge_commit, market::challenge_deposit(market))
QUERN_DEFINE_RUN(challenge_reveal, kNothing)

}  // namespace quern::chain::exec::handlers
