#include "chain/exec/handlers/resolution.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "chain/exec/handlers/custody.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/claim_state.h"
#include "chain/market/delays.h"
#include "compute/core/claims.h"
#include "compute/core/history.h"
#include "compute/core/task_spec.h"

namespace quern::chain::exec::handlers {
namespace {

using types::ClaimState;
using types::DisputeWinner;
using types::Role;

// Counts a game that begins among those of a party, and gives its clock there.
Expected<std::uint64_t> take_up(Context& context, const types::Task& task, Role role, const types::Address& party) {
    QUERN_TRY(auto bond, load_bond(context.state, role, party));
    const std::uint64_t others = bond.games++;
    store_bond(context.state, bond);
    return market::dispute_clock(context.market(), task, others);
}

Status begin(Context& context, const types::Task& task, const types::Dispute& dispute, core::Game& game) {
    QUERN_TRY(const auto defenders, take_up(context, task, core::defender_role(dispute.target), dispute.defender));
    QUERN_TRY(const auto rivals, take_up(context, task, dispute.rival_role, dispute.rival));
    core::begin_game(game, {defenders, rivals}, context.market_ms);
    return {};
}

// A bond stays, however empty, until nothing is counted in it.
Status leave_game(Context& context, Role role, const types::Address& party) {
    QUERN_TRY(auto bond, load_bond(context.state, role, party));
    if (bond.games == 0) return fault("state.corrupt_object", "a party plays fewer games than there are");
    --bond.games;
    store_bond(context.state, bond);
    return {};
}

Status close(Context& context, types::Claim& claim, types::Dispute& dispute, DisputeWinner winner,
             std::string_view reason, bool begun) {
    if (begun) {
        QUERN_CHECK(leave_game(context, core::defender_role(dispute.target), dispute.defender));
        QUERN_CHECK(leave_game(context, dispute.rival_role, dispute.rival));
    }
    dispute.closed_at = context.height;
    dispute.posted_at = 0;
    dispute.deadline = 0;
    dispute.winner = winner;
    dispute.reason = std::string(reason);
    --claim.open_disputes;
    store_dispute(context.state, dispute);
    emit(context, types::KindGroup::disputes, events::DisputeClosed{dispute.id, claim.id.task, winner, dispute.reason});
    return {};
}

// At the price cap, of a verifier that failed the solver: its samples.
Uint256 sampled_cost(const LoadedClaim& live) {
    return market::price_at_cap(live.task,
                                market::sampled_work(market::work_of(live.task), market::stretch_of(live).steps));
}

// Static work of what a winner, or who accused the solver, had to compute, at the price cap: what catching a cheat is
// worth must not follow from the price that the cheat bid.
Uint256 proven_cost(const LoadedClaim& live, const types::Dispute& dispute) {
    const auto& task = live.task;
    Uint256 units = live.claim.work;
    if (dispute.target != 0)  // a rival needs no more than the segment in question
        units = task.segment_work;
    else if (dispute.rival_role == Role::verifier)
        return sampled_cost(live);
    return market::price_at_cap(task, units);
}

// Of a loser that one game was about.
SlashShares shares_of(const LoadedClaim& live, const types::Dispute& dispute, const types::Address& winner) {
    return {.winner = winner, .accuser = winner, .proven_cost = proven_cost(live, dispute)};
}

// The rival's stake: its own lock, or of a verifier that failed the solver its report's.
Status slash_rival(Context& context, LoadedClaim& live, const types::Dispute& dispute, const SlashShares& shares) {
    if (types::has_own_stake(dispute))
        return slash(context, live.task, dispute.rival_role, dispute.rival, dispute.rival_locked, "false_accusation",
                     shares);
    QUERN_TRY(auto reports, load_reports(context.state, live.claim));
    for (auto& report : reports)
        if (report.verifier == dispute.rival) return end_report(context, live, report, kWhole, "false_fail", shares);
    return fail("dispute.no_report");
}

Status release_rival(Context& context, const types::Dispute& dispute) {
    if (!types::has_own_stake(dispute)) return {};  // the report's lock stands until the round ends
    return unlock_bond(context, dispute.claim.task, dispute.rival_role, dispute.rival, dispute.rival_locked);
}

// Whether a defender that lost answers for it. A PASS claims the segments that its verifier was drawn for, and no
// others; until the game has come to a stride, losing means that the verifier did not even show whose history it
// passed.
bool answers_for(const LoadedClaim& live, const types::Dispute& dispute, const core::Game& game) {
    const std::uint64_t step = core::disputed_from(game);
    if (!core::is_pass_target(dispute.target) || step == 0) return true;
    const auto& spec = live.task.spec;
    const auto drawn = core::segments_of(live.task, live.claim, dispute.defender);
    return std::binary_search(drawn.begin(), drawn.end(),
                              core::segment_of(step, spec.work.interval, market::stretch_of(live).before));
}

// Whether a challenge that was committed before the claim was void can still be revealed: against the history while a
// lock answers for it, else against a PASS.
bool awaits_reveals(const Context& context, const types::Claim& claim) {
    if (claim.commitments == 0 || context.market_ms >= claim.challenge_hold) return false;
    return (claim.passes != 0 || !market::is_history_lost(claim)) &&
           !context.state.native_range(types::KeyOf<types::ChallengeCommitment>::all(claim.id), {}, 1).empty();
}

bool is_fail(const types::VerifierReport& report) { return is_active(report) && report.revealed() && !report.pass; }
// Whether a verifier may have found the history wrong: it had the data, and has not said that it is right. A solver
// that is drawn against may concede to a friend before anything is revealed.
bool may_have_failed(const types::VerifierReport& report) {
    return is_fail(report) || (is_active(report) && !report.revealed() && report.custody == 1);
}

// Of those who play against the history, and have not lost: whoever said first that it is wrong. A solver may concede
// to a friend, so who brought it down is not who found it out. FAILs come before all challenges, also those that wait
// for others' reports: a verifier is drawn, while a solver's friend knows where to look before anybody else.
Expected<std::optional<types::Dispute>> first_accusation(const Context& context, const types::Claim& claim,
                                                         const types::Dispute& decided, bool rival_wins) {
    std::optional<types::Dispute> first;
    if (rival_wins) first = decided;
    QUERN_TRY(const auto open, open_disputes(context, claim));
    for (const auto& other : open) {
        if (other.target != 0) continue;
        if (!first || std::tie(other.accused_at, other.id) < std::tie(first->accused_at, first->id)) first = other;
    }
    return first;
}

// The solver's claim is void, and those of later stretches with it: it is slashed, and the other games about it are
// moot. Those who passed it answer for their own claims in games of their own: a loser's loss proves nothing about
// others (a solver may play badly on purpose). While such games are open or may come the claim waits, then its task is
// open again.
Status void_history(Context& context, LoadedClaim& live, const types::Dispute& dispute, bool rival_wins) {
    auto& [task, claim] = live;
    SlashShares shares;
    if (rival_wins) shares.winner = dispute.rival;
    shares.fee = market::verifier_fee(task, claim.id.stretch);
    QUERN_TRY(const auto reports, load_reports(context.state, claim));
    for (const auto& report : reports)
        if (may_have_failed(report)) shares.fees.push_back(report.verifier);
    const auto fail = std::find_if(reports.begin(), reports.end(), is_fail);
    QUERN_TRY(const auto first, first_accusation(context, claim, dispute, rival_wins));
    if (fail != reports.end()) {
        shares.accuser = fail->verifier;
        shares.proven_cost = sampled_cost(live);
    } else if (first) {
        shares.accuser = first->rival;
        shares.proven_cost = proven_cost(live, *first);
    }
    QUERN_CHECK(slash(context, task, Role::solver, claim.solver, claim.locked, "wrong_result", shares));
    claim.locked = Uint256();
    bar(task, claim.solver);
    return begin_void(context, live, "solver_slashed");
}

Status void_report(Context& context, LoadedClaim& live, const types::Dispute& dispute, bool rival_wins) {
    const std::size_t place = core::target_report(dispute.target);
    if (place >= live.claim.drawn) return fail("dispute.no_report");
    QUERN_TRY(auto report, load_report(context.state, live.claim, place));
    SlashShares shares;
    if (rival_wins) shares = shares_of(live, dispute, dispute.rival);
    const bool passed = core::is_pass_target(dispute.target);
    QUERN_CHECK(end_report(context, live, report, kWhole, passed ? "passed_wrong_result" : "wrong_probe", shares));
    QUERN_CHECK(close_moot(context, live.claim));
    return begin_corrected_games(context, live);
}

// Why there is nothing left to be decided in an open one: "moot", another one has decided it; "forced", both sides say
// the same since the defender has shown what it was forced to tell. Empty: there is.
Expected<std::string_view> moot_reason(const Context& context, const types::Claim& claim,
                                       const types::Dispute& dispute) {
    constexpr std::string_view kNone;
    if (dispute.target == 0) return market::is_history_lost(claim) ? "moot" : kNone;
    const std::size_t place = core::target_report(dispute.target);
    if (place >= claim.drawn) return kNone;
    QUERN_TRY(const auto report, load_report(context.state, claim, place));
    if (report.slashed()) return "moot";
    if (report.choice != types::ReportChoice::forced || !core::is_probe_target(dispute.target)) return kNone;
    QUERN_TRY(const auto game, types::decode_record<core::Game>(dispute.game));
    return game.claims.size() == 2 && game.claims[0] == game.claims[1] ? "forced" : kNone;
}

// Closes an open dispute that nobody loses.
Status close_without_loser(Context& context, types::Claim& claim, types::Dispute& dispute, std::string_view reason,
                           bool begun) {
    QUERN_CHECK(close(context, claim, dispute, DisputeWinner::none, reason, begun));
    // What nobody is accused of takes nobody's place.
    if (reason == "forced" && claim.report_rivals != 0) --claim.report_rivals;
    return release_rival(context, dispute);
}

// A defender plays one game of a claim at a time, in the order in which they were opened: begins its oldest, unless
// that goes on already.
Status begin_next_game(Context& context, const LoadedClaim& live, const types::Address& defender) {
    QUERN_TRY(auto open, open_disputes(context, live.claim));
    const auto next = std::find_if(open.begin(), open.end(),
                                   [&](const types::Dispute& dispute) { return dispute.defender == defender; });
    if (next == open.end()) return {};
    QUERN_TRY(auto game, types::decode_record<core::Game>(next->game));
    if (core::has_begun(game)) return {};
    QUERN_CHECK(begin(context, live.task, *next, game));
    update_game(*next, game);
    store_dispute(context.state, *next);
    return {};
}

}  // namespace

core::GameContext game_context(const LoadedClaim& live) {
    const auto& spec = live.task.spec;
    const market::Stretch stretch = market::stretch_of(live);
    return {spec.plan,
            core::data_roots_of(spec, live.claim),
            live.claim.seed_beacon,
            spec.work.stride,
            market::stride_count(stretch.steps, spec.work.stride) + 1,
            stretch.before};
}

Expected<bool> has_open_game(const Context& context, const types::Claim& claim, const types::Address& defender) {
    QUERN_TRY(const auto open, open_disputes(context, claim));
    return std::any_of(open.begin(), open.end(),
                       [&](const types::Dispute& other) { return other.defender == defender; });
}

Status open_dispute(Context& context, LoadedClaim& live, NewDispute opened, bool waits) {
    auto& [task, claim] = live;
    QUERN_TRY(auto globals, load_globals(context.state));
    types::Dispute dispute;
    dispute.id = globals.next_dispute++;
    store_globals(context.state, globals);
    dispute.claim = claim.id;
    dispute.target = opened.target;
    dispute.defender = opened.defender;
    dispute.rival = opened.rival;
    dispute.rival_role = opened.rival_role;
    dispute.defender_locked = opened.defender_locked;
    dispute.rival_locked = opened.rival_locked;
    dispute.deposit = opened.deposit;
    dispute.accused_at = opened.accused_at;
    dispute.opened_at = context.height;
    opened.game.charged_to = core::kNotBegun;
    if (!waits) QUERN_CHECK(begin(context, task, dispute, opened.game));
    update_game(dispute, opened.game);
    store_dispute(context.state, dispute);
    claim.disputes.push_back(dispute.id);
    ++claim.open_disputes;
    emit(context, types::KindGroup::disputes,
         events::DisputeOpened{dispute.id, claim.id.task, claim.id.stretch, dispute.target, dispute.defender,
                               dispute.rival});
    return {};
}

namespace {

Status open_report_dispute(Context& context, LoadedClaim& live, const types::VerifierReport& report, bool waits) {
    auto& [task, claim] = live;
    NewDispute opened;
    opened.defender = claim.solver;
    opened.defender_locked = claim.locked;
    opened.rival = report.verifier;
    opened.rival_role = Role::verifier;
    opened.rival_locked = report.locked;
    QUERN_TRY(opened.game, core::open_history_game(game_context(live), claim.history_root, report.rival_root,
                                                   market::dispute_clock(context.market(), task), context.market_ms));
    return open_dispute(context, live, std::move(opened), waits);
}

}  // namespace

Status open_report_disputes(Context& context, LoadedClaim& live) {
    if (live.claim.passes >= live.claim.revealed) return {};
    QUERN_TRY(const auto reports, load_reports(context.state, live.claim));
    QUERN_TRY(bool waits, has_open_game(context, live.claim, live.claim.solver));
    for (const auto& report : reports) {
        if (!is_fail(report)) continue;
        QUERN_CHECK(open_report_dispute(context, live, report, waits));
        waits = true;
    }
    return {};
}

void update_game(types::Dispute& dispute, const core::Game& game) {
    dispute.game = types::encode_record(game);
    dispute.deadline = core::next_deadline(game);
}

Status conclude_dispute(Context& context, LoadedClaim& live, types::Dispute& dispute, const core::Game& game) {
    auto& claim = live.claim;
    if (game.verdict == core::Verdict::none) return fail("dispute.not_decided");
    const bool begun = core::has_begun(game);
    QUERN_TRY(const auto moot, moot_reason(context, claim, dispute));
    if (!moot.empty()) {
        QUERN_CHECK(close_without_loser(context, claim, dispute, moot, begun));
        QUERN_CHECK(begin_next_game(context, live, dispute.defender));
        return continue_disputed(context, live);
    }
    const bool about_history = dispute.target == 0;
    const bool answers = answers_for(live, dispute, game);
    switch (game.verdict) {
        case core::Verdict::none:
            break;
        case core::Verdict::defender_wins: {
            QUERN_CHECK(close(context, claim, dispute, DisputeWinner::defender, game.reason, begun));
            QUERN_CHECK(slash_rival(context, live, dispute, shares_of(live, dispute, dispute.defender)));
            break;
        }
        case core::Verdict::rival_wins:
            // What the verifier was drawn for is known to whoever accuses it, and so is where two histories differ
            // first: else a friend of it would take the places of those who accuse in earnest, and all the time of its
            // clocks, for nothing.
            if (!answers) {
                QUERN_CHECK(close(context, claim, dispute, DisputeWinner::defender, "not_sampled", begun));
                QUERN_CHECK(slash_rival(context, live, dispute, {}));
                break;
            }
            QUERN_CHECK(close(context, claim, dispute, DisputeWinner::rival, game.reason, begun));
            QUERN_CHECK(release_rival(context, dispute));
            if (about_history) return void_history(context, live, dispute, true);
            QUERN_CHECK(void_report(context, live, dispute, true));
            break;
        case core::Verdict::both_lose:
            QUERN_CHECK(close(context, claim, dispute, DisputeWinner::neither, game.reason, begun));
            QUERN_CHECK(slash_rival(context, live, dispute, {}));
            if (about_history) return void_history(context, live, dispute, false);
            if (answers) QUERN_CHECK(void_report(context, live, dispute, false));
            break;
    }
    QUERN_CHECK(begin_next_game(context, live, dispute.defender));
    return continue_disputed(context, live);
}

Status punish_choice(Context& context, LoadedClaim& live, types::VerifierReport& report) {
    // Whoever has found it out before the verifier says so has the bounty.
    SlashShares shares;
    QUERN_TRY(const auto open, open_disputes(context, live.claim));
    const auto first = std::find_if(open.begin(), open.end(), [&](const types::Dispute& each) {
        return each.target != 0 && core::target_report(each.target) == report.place;
    });
    if (first != open.end()) shares = shares_of(live, *first, first->rival);
    QUERN_CHECK(end_report(context, live, report, kWhole, "wrong_choice", shares));
    QUERN_CHECK(close_moot(context, live.claim));
    QUERN_CHECK(begin_corrected_games(context, live));
    if (live.claim.state == ClaimState::revealing) return conclude_revealing(context, live, false);
    return continue_disputed(context, live);
}

namespace {

// Whether a game is about the probe at that place of a report, and about none of its others. Two may be of one node in
// one step; which of them is meant the chain does not know then.
enum class AboutProbe { no, yes, perhaps };
AboutProbe is_about(const core::Game& game, const std::vector<core::Probe>& probes, std::size_t place) {
    const auto fits = [&](const core::Probe& probe) {
        return probe.step == game.probe_step && probe.node == game.probe_node;
    };
    if (place >= probes.size() || !fits(probes[place])) return AboutProbe::no;
    return std::count_if(probes.begin(), probes.end(), fits) == 1 ? AboutProbe::yes : AboutProbe::perhaps;
}

}  // namespace

Status correct_probe_games(Context& context, LoadedClaim& live, const types::VerifierReport& report,
                           const core::OpenedChoice& choice) {
    QUERN_TRY(const auto plan, core::TaskPlan::decode(live.task.spec.plan));
    const auto probes = core::draw_probes(live.claim.verify_beacon, report.verifier,
                                          core::segments_of(live.task, live.claim, report.verifier),
                                          live.task.spec.work.interval, plan, market::stretch_of(live).before);
    QUERN_TRY(auto open, open_disputes(context, live.claim));
    for (auto& dispute : open) {
        if (!core::is_probe_target(dispute.target) || core::target_report(dispute.target) != report.place) continue;
        if (dispute.rounds != 0) continue;  // who has moved stands for what was told
        QUERN_TRY(auto game, types::decode_record<core::Game>(dispute.game));
        const AboutProbe about = is_about(game, probes, choice.probe);
        if (about == AboutProbe::no) continue;
        // Which of two it is nobody can tell: nobody shall lose by it.
        const Hash32 corrected = about == AboutProbe::yes ? choice.true_hash : game.claims.back();
        if (!core::correct_probe(game, choice.told_hash, corrected)) continue;
        update_game(dispute, game);
        store_dispute(context.state, dispute);
    }
    QUERN_CHECK(close_moot(context, live.claim));
    QUERN_CHECK(begin_corrected_games(context, live));
    return continue_disputed(context, live);
}

Status begin_corrected_games(Context& context, const LoadedClaim& live) {
    QUERN_TRY(const auto reports, load_reports(context.state, live.claim));
    for (const auto& report : reports)
        if (report.choice == types::ReportChoice::forced) QUERN_CHECK(begin_next_game(context, live, report.verifier));
    return {};
}

Status continue_disputed(Context& context, LoadedClaim& live) {
    auto& claim = live.claim;
    if (claim.voided) return continue_voided(context, live);
    if (claim.state != ClaimState::disputed) return {};
    if (claim.open_disputes == 0) return await_challenges(context, live, "disputes_closed");
    QUERN_CHECK(refresh_deadline(context, claim));
    return {};
}

Expected<std::vector<types::Dispute>> open_disputes(const Context& context, const types::Claim& claim) {
    std::vector<types::Dispute> open;
    for (auto id = claim.disputes.rbegin(); id != claim.disputes.rend() && open.size() < claim.open_disputes; ++id) {
        QUERN_TRY(auto dispute, load_dispute(context.state, *id));
        if (dispute.closed_at == 0) open.push_back(std::move(dispute));
    }
    std::reverse(open.begin(), open.end());
    return open;
}

Expected<std::size_t> close_moot(Context& context, types::Claim& claim) {
    std::size_t closed = 0;
    QUERN_TRY(auto open, open_disputes(context, claim));
    for (auto dispute = open.rbegin(); dispute != open.rend() && closed < params::kMaxSwept; ++dispute) {
        QUERN_TRY(const auto moot, moot_reason(context, claim, *dispute));
        if (moot.empty()) continue;
        QUERN_CHECK(close_without_loser(context, claim, *dispute, moot, dispute->deadline != 0));
        ++closed;
    }
    return closed;
}

Status begin_void(Context& context, LoadedClaim& live, const std::string& reason) {
    auto& claim = live.claim;
    QUERN_CHECK(void_later(context, live));
    QUERN_CHECK(release_custodians(context, claim.id));  // they are in no game, and cannot answer any more
    claim.voided = true;
    // Who has shown that it found the history wrong plays for it, whatever else brings the claim down: else a lie falls
    // cheaply with what its solver gives to a friend.
    if (claim.state == ClaimState::revealing && !market::is_history_lost(claim))
        QUERN_CHECK(open_report_disputes(context, live));
    QUERN_TRY(const std::size_t closed, close_moot(context, claim));
    if (closed == params::kMaxSwept) QUERN_CHECK(begin_next_game(context, live, claim.solver));
    QUERN_CHECK(begin_corrected_games(context, live));
    claim.challenge_hold = market::reveal_expected(context.market(), context.market_ms);
    if (claim.open_disputes == 0 && !awaits_reveals(context, claim) && claim.commitments <= params::kMaxSwept)
        return void_claim(context, live, reason);
    enter(context, claim, ClaimState::disputed, 0, reason);
    QUERN_CHECK(refresh_deadline(context, claim));
    return {};
}

Status continue_voided(Context& context, LoadedClaim& live) {
    auto& claim = live.claim;
    if (claim.open_disputes == 0 && !awaits_reveals(context, claim)) {
        if (claim.commitments <= params::kMaxSwept) {
            const std::string reason = claim.reason;
            return void_claim(context, live, reason);
        }
        QUERN_CHECK(drop_commitments(context, live, !market::is_history_lost(claim)));
    }
    QUERN_CHECK(refresh_deadline(context, claim));
    return {};
}

Expected<std::uint64_t> earliest_dispute_deadline(const Context& context, const types::Claim& claim) {
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    QUERN_TRY(const auto open, open_disputes(context, claim));
    for (const auto& dispute : open) {
        QUERN_TRY(const auto moot, moot_reason(context, claim, dispute));
        if (!moot.empty()) return context.market_ms + 1;
        if (dispute.deadline != 0) earliest = std::min(earliest, dispute.deadline);
    }
    return earliest;
}

Expected<bool> refresh_deadline(const Context& context, types::Claim& claim) {
    if (claim.state != ClaimState::disputed) return false;
    std::uint64_t deadline = claim.challenge_hold;
    if (claim.open_disputes > 0) {
        QUERN_TRY(deadline, earliest_dispute_deadline(context, claim));
    } else if (claim.voided && !awaits_reveals(context, claim)) {
        deadline = context.market_ms + 1;
    }
    const bool changed = deadline != claim.deadline;
    claim.deadline = deadline;
    return changed;
}

}  // namespace quern::chain::exec::handlers
