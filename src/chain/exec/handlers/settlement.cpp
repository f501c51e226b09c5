// How claims end: what they lock is released, those that are settled are paid for, and what is left of the task goes
// on, is given to somebody else, or has ended. Rules: doc/market.md, "Tranches".
#include <algorithm>
#include <utility>

#include "chain/exec/handlers/custody.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"
#include "chain/market/storage.h"
#include "chain/market/watchers.h"
#include "compute/core/task_imports.h"
#include "compute/core/task_plan.h"
#include "crypto/merkle.h"

namespace quern::chain::exec::handlers {
namespace {

using types::Claim;
using types::ClaimState;
using types::Role;
using types::TaskState;

// Frees what is locked for a claim but for the solver's lock, and custodians', which custody or begin_void frees. No
// dispute is open, and of commitments there are as many left as drop_commitments drops.
Status release_claim(Context& context, LoadedClaim& live, bool punished) {
    live.claim.voided = false;
    QUERN_CHECK(release_reports(context, live.claim));
    return drop_commitments(context, live, punished);
}

Status release_lock(Context& context, std::uint64_t task, const types::Address& solver, Uint256& locked) {
    return unlock_bond(context, task, Role::solver, solver, std::exchange(locked, Uint256()));
}

}  // namespace

bool could_reveal(const Context& context, const Claim& claim, const types::ChallengeCommitment& commitment) {
    return commitment.since >= claim.proved_since &&
           market::reveal_expected(context.market(), commitment.since) <= context.market_ms;
}

Status drop_commitment(Context& context, LoadedClaim& live, const types::ChallengeCommitment& commitment,
                       bool punished) {
    auto& [task, claim] = live;
    const std::uint64_t percent = punished ? context.market().no_challenge_reveal_slash_percent : 0;
    QUERN_CHECK(slash_part(context, task, commitment.role, commitment.challenger, commitment.stake, percent,
                           "no_challenge_reveal"));
    return_deposit(context, task.id, commitment.challenger, commitment.deposit);
    context.state.erase_native(
        types::key_of<types::ChallengeCommitment>(claim.id, commitment.challenger, commitment.commitment));
    --claim.commitments;
    return {};
}

Status drop_commitments(Context& context, LoadedClaim& live, bool punished) {
    auto& claim = live.claim;
    if (claim.commitments == 0) return {};
    for (const auto& [key, value] : context.state.native_range(
             types::KeyOf<types::ChallengeCommitment>::all(claim.id), {},
             static_cast<std::size_t>(std::min<std::uint64_t>(claim.commitments, params::kMaxSwept)))) {
        auto challenge = types::decode_record<types::ChallengeCommitment>(value);
        if (!challenge) return fault("state.corrupt_object", challenge.error().to_string());
        QUERN_CHECK(drop_commitment(context, live, *challenge, punished && could_reveal(context, claim, *challenge)));
    }
    return {};
}

namespace {

// Once no claim of the round can be settled any more the task opens again. `ended` is one of them, as it is now.
Status end_round(Context& context, types::Task& task, const Claim& ended) {
    std::string reason;
    for (const types::ClaimId& id : types::unsettled_claims(task)) {
        Claim claim = ended;
        if (id != ended.id) {
            QUERN_TRY(claim, load_claim(context.state, id));
        }
        if (!types::is_final(claim.state)) return {};
        if (reason.empty()) reason = claim.reason;
    }
    auto& seat = task.seats[0];
    QUERN_CHECK(release_lock(context, task.id, seat.solver, seat.locked));
    return reopen(context, task, reason);
}

}  // namespace

Status void_claim(Context& context, LoadedClaim& live, std::string_view reason) {
    auto& [task, claim] = live;
    // While a lock answered for the history there was something to reveal: else places would be held for gas until the
    // data of a friend are missing.
    QUERN_CHECK(release_claim(context, live, !claim.locked.is_zero()));
    QUERN_CHECK(release_lock(context, claim.id.task, claim.solver, claim.locked));
    enter(context, claim, ClaimState::voided, 0, reason);
    QUERN_CHECK(void_later(context, live));
    return end_round(context, task, claim);
}

Status void_later(Context& context, LoadedClaim& live) {
    for (const types::ClaimId& id : types::unsettled_claims(live.task)) {
        if (id.stretch <= live.claim.id.stretch) continue;
        QUERN_TRY(auto later, load_claim(context.state, id));
        if (types::is_final(later.state) || later.voided) continue;
        LoadedClaim other{std::move(live.task), std::move(later)};
        const Status fallen = begin_void(context, other, "earlier_void");
        live.task = std::move(other.task);
        QUERN_CHECK(fallen);
        context.state.store(types::key_of<Claim>(other.claim.id), other.claim);
    }
    return {};
}

namespace {

// The deposit does not pay for it, since it stays; the gas of submitting, bidding, proving and reporting does, each of
// which costs more than its bytes.
Status record_proof(Context& context, const types::Task& task, const Claim& claim, std::string_view reason) {
    QUERN_TRY(const auto plan, compute::core::TaskPlan::decode(task.spec.plan));
    types::ProofRecord proof;
    proof.task = task.id;
    proof.seat = claim.id.seat;
    proof.submitter = task.submitter;
    proof.solver = claim.solver;
    proof.submission = crypto::merkle_leaf(types::encode_record(task.spec));
    proof.plan = crypto::merkle_leaf(task.spec.plan);
    proof.slot_root = plan.header().slot_root;
    proof.init_root = task.spec.init_root;
    proof.data_roots = task.spec.data_roots;
    proof.seed_beacon = claim.seed_beacon;
    proof.final_root = claim.final_root;
    proof.steps = task.steps;
    proof.loss = claim.loss;
    proof.passes = task.passes;
    proof.settled_at = context.height;
    proof.reason = reason;
    proof.imports = task.spec.imports.list;
    context.state.set_native(types::key_of<types::ProofRecord>(proof.task, proof.seat), types::encode_record(proof));
    return {};
}

// The solver, those whose reports stand, and those who keep what they were drawn for.
Status pay_claim(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    const Uint256 reward = market::solver_reward(claim);
    // Of the last stretch, with which the task ends: what the submitter paid for is its last state.
    if (claim.id.stretch + 1 == market::stretch_count(task)) task.held = market::held_share(context.market(), reward);
    QUERN_CHECK(pay_from_escrow(context, task, claim.solver, reward - task.held, "solver_reward"));
    const Uint256 fee = market::verifier_fee(task, claim.id.stretch);
    QUERN_TRY(const auto reports, load_reports(context.state, claim));
    for (const auto& report : reports)
        if (is_active(report) && report.revealed())
            QUERN_CHECK(pay_from_escrow(context, task, report.verifier, fee, "verifier_fee"));
    return pay_custodians(context, live);
}

// The solver's lock for a claim that is settled goes on to a stretch that has none yet, or is free.
Status pass_on_lock(Context& context, types::Task& task, Claim& claim) {
    auto& seat = task.seats[claim.id.seat];
    if (seat.stretches == market::stretch_count(task))
        return release_lock(context, claim.id.task, claim.solver, claim.locked);
    seat.locked += std::exchange(claim.locked, Uint256());
    return {};
}

// The tax of the stretch goes into the vault, and what watchers of its forced errors have earned comes out of it.
Status pay_jackpots(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    const bool is_last = task.settled + 1 == market::stretch_count(task);
    const Uint256 before = market::tax_due(task.spec.money.tax, task.settled_work, task.total_work);
    const Uint256 after = market::tax_due(task.spec.money.tax,
                                          is_last ? task.total_work : task.settled_work + claim.work, task.total_work);
    const auto escrow = checked_sub(task.escrow, after - before);
    if (!escrow) return fail("task.escrow_empty");
    task.escrow = *escrow;
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.jackpot_vault += after - before;
    QUERN_TRY(auto reports, load_reports(context.state, claim));
    for (auto& report : reports) {
        if (!types::is_active(report) || report.found == 0) continue;
        const Uint256 whole = std::min(globals.jackpot_vault,
                                       market::jackpot(context.market(), after - before, task.spec.work.verifiers));
        report.jackpot = market::jackpot_share(whole, report.found);
        for (const auto& [key, value] : context.state.native_range(
                 types::KeyOf<types::Watch>::all(claim.id, claim.draws, report.place), {}, params::kMaxSeals)) {
            QUERN_TRY(const auto watch, types::decode_record<types::Watch>(value));
            if (!watch.found || report.jackpot.is_zero()) continue;
            globals.jackpot_vault -= report.jackpot;
            pay_account(context, watch.watcher, report.jackpot);
            emit(context, types::KindGroup::tasks, events::Paid{task.id, watch.watcher, report.jackpot, "jackpot"});
        }
        store_report(context.state, report);
    }
    store_globals(context.state, globals);
    return {};
}

// What a next round would begin with.
void take_over(types::Task& task, const Claim& claim) {
    const std::uint32_t passes = claim.passes;
    task.passes = task.settled == 0 ? passes : std::min(task.passes, passes);
    ++task.settled;
    task.failures = 0;
    auto& begun = task.rounds_begun;
    begun.push_back(task.round);
    if (begun.size() > market::kKeptStretches + 1) begun.erase(begun.begin());
    task.settled_work += claim.work;
    task.start_root = claim.final_root;
    task.start_history = claim.history_content;
    task.start_custody = claim.custody_content;
}

// A stretch that is settled, and not the last: what it was to cost at most and did not goes back, its claim keeps what
// was paid and taken for it, and the task goes on.
Status settle_stretch(Context& context, LoadedClaim& live, std::string_view reason) {
    auto& [task, claim] = live;
    const auto rest = checked_sub(task.escrow, market::escrow_left(task));
    if (!rest) return fail("task.escrow_empty");
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, *rest, "refund"));
    claim.payments = std::exchange(task.payments, {});
    claim.slashes = std::exchange(task.slashes, {});
    enter(context, claim, ClaimState::settled, 0, reason);
    QUERN_TRY(const auto next, load_claim(context.state, {task.id, 0, task.settled, task.round}));
    if (types::is_final(next.state)) return end_round(context, task, claim);
    return begin_next(context, task, next);
}

// The round in which a stretch came first of the unsettled ones: of one of the newest, else before any round of those.
std::uint32_t round_begun(const types::Task& task, std::uint32_t stretch) {
    const std::uint32_t before_present = task.settled - std::min(stretch, task.settled);
    const std::size_t present = task.rounds_begun.size() - 1;
    return before_present > present ? task.rounds_begun.front() : task.rounds_begun[present - before_present];
}

// Erases a claim with its reports and custodians, and disputes and sealed verdicts, whose deposits go back, as far as
// `left` objects go: a claim with those is one. None is open. Whether it is gone.
Expected<bool> delete_claim(Context& context, const types::ClaimId& id, std::size_t& left) {
    QUERN_TRY(auto claim, context.state.load<Claim>(id));
    if (!claim) return true;
    for (; !claim->disputes.empty() && left > 0; --left) {
        const std::uint64_t number = claim->disputes.back();
        QUERN_TRY(const auto dispute, load_dispute(context.state, number));
        return_deposit(context, id.task, dispute.rival, dispute.deposit);
        context.state.erase_native(types::key_of<types::Dispute>(number));
        claim->disputes.pop_back();
    }
    for (const auto& [key, value] : context.state.native_range(types::KeyOf<types::Watch>::all(id), {}, left)) {
        QUERN_TRY(const auto watch, types::decode_record<types::Watch>(value));
        return_deposit(context, id.task, watch.watcher, watch.deposit);
        context.state.erase_native(key);
        --left;
    }
    if (left == 0) {
        context.state.store(types::key_of<Claim>(id), *claim);
        return false;
    }
    for (std::uint8_t place = 0; place < claim->drawn; ++place)
        context.state.erase_native(types::key_of<types::VerifierReport>(id, place));
    forget_custodians(context, id);
    context.state.erase_native(types::key_of<Claim>(id));
    --left;
    return true;
}

// Of a stretch that came to be the first unsettled one and is that no more.
Expected<bool> delete_settled(Context& context, const types::Task& task, std::uint32_t stretch, std::size_t& left) {
    return delete_claim(context, {task.id, 0, stretch, round_begun(task, stretch + 1)}, left);
}

// Those of the claim's stretch in the rounds before: it began as the second of two, when the one before it was first.
Expected<bool> delete_void(Context& context, const types::Task& task, const types::ClaimId& before, std::size_t& left) {
    types::ClaimId id = before;
    for (id.round = round_begun(task, id.stretch - std::min(id.stretch, 1U)); id.round < before.round; ++id.round) {
        QUERN_TRY(const bool gone, delete_claim(context, id, left));
        if (!gone) return false;
    }
    return true;
}

// What leaves the state with a claim that settles: the claim of an earlier stretch that is kept no longer, void ones of
// its own, and commitments but for the last kMaxSwept. False: not all of it yet.
Expected<bool> clear_way(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    std::size_t left = params::kMaxSwept;
    if (task.settled >= market::kKeptStretches) {
        QUERN_TRY(const bool gone, delete_settled(context, task, task.settled - market::kKeptStretches, left));
        if (!gone) return false;
    }
    if (task.settled + 1 < market::stretch_count(task)) {
        QUERN_TRY(const bool gone, delete_void(context, task, claim.id, left));
        if (!gone) return false;
    }
    if (claim.commitments <= params::kMaxSwept) return true;
    QUERN_CHECK(drop_commitments(context, live, true));
    return false;
}

}  // namespace

Status settle(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    QUERN_TRY(const bool clear, clear_way(context, live));
    if (!clear) {
        claim.deadline = context.market_ms + 1;
        return {};
    }
    QUERN_CHECK(release_claim(context, live, true));
    QUERN_CHECK(pay_claim(context, live));
    QUERN_CHECK(pay_jackpots(context, live));
    QUERN_CHECK(pass_on_lock(context, task, claim));
    const std::string_view confirmed = claim.passes != 0 ? "unchallenged" : "unverified";
    take_over(task, claim);
    if (task.settled < market::stretch_count(task)) return settle_stretch(context, live, confirmed);

    const std::string_view reason = task.passes != 0 ? "unchallenged" : "unverified";
    QUERN_CHECK(record_proof(context, task, claim, reason));
    enter(context, claim, ClaimState::settled, 0, confirmed);
    return close_task(context, task, TaskState::settled, reason);
}

Expected<bool> delete_claims(Context& context, const types::Task& task) {
    std::size_t left = params::kMaxSwept;
    for (std::uint32_t stretch = task.settled - std::min(task.settled, market::kKeptStretches); stretch < task.settled;
         ++stretch) {
        QUERN_TRY(const bool gone, delete_settled(context, task, stretch, left));
        if (!gone) return false;
    }
    // Of a task that is settled, those of its last stretch.
    const std::uint32_t first = task.settled - (task.settled == market::stretch_count(task) ? 1 : 0);
    for (std::uint32_t stretch = first; stretch < first + types::kMaxUnsettled; ++stretch) {
        QUERN_TRY(const bool gone, delete_void(context, task, {task.id, 0, stretch, task.round + 1}, left));
        if (!gone) return false;
    }
    return true;
}

}  // namespace quern::chain::exec::handlers
