// The state machines of a task and of its claim: every transition that more than one kind makes. A function takes the
// task, or the task with its live claim, by reference, changes it and the bonds and accounts around it; its caller
// stores it. Diagram and rules: doc/market.md. Used by one thread.
#pragma once

#include <initializer_list>

#include "chain/exec/handlers/slashing.h"

namespace quern::chain::exec::handlers {

// Enters a state and announces it. `deadline` is the market time from which a tick moves it on; 0 in final states, and
// of a running task.
void enter(Context& context, types::Task& task, types::TaskState state, std::uint64_t deadline,
           std::string_view reason);
void enter(Context& context, types::Claim& claim, types::ClaimState state, std::uint64_t deadline,
           std::string_view reason);

// --- Bidding ---------------------------------------------------------------------------------------------------------
void open_bidding(Context& context, types::Task& task, std::string_view reason);
// No bids come any more: waits for the beacon that decides near ties, which nobody knew who could still bid. Without a
// bid there is nothing to wait for and the task expires.
[[nodiscard]] Status close_bidding(Context& context, types::Task& task);
// Gives the task to the next bid whose bond covers it and for which there are as many verifiers as the task asks for:
// training is public, so that what nobody will check must not begin. Of an `open` task draws the order of the bids
// first. Who is not covered loses its deposit and may not bid on this task again. Without a bid that is left: expires
// the task where verifiers are missing, else reopens it.
[[nodiscard]] Status assign_next(Context& context, types::Task& task, const Hash32& beacon, std::string_view reason);
// The solver of an `assigned` task let it down: a part of its bond is lost, the rest is free again, it may not bid on
// this task again. The next bid gets the task.
[[nodiscard]] Status give_to_next(Context& context, types::Task& task, std::string_view reason);
// The task has been begun: those whose bids were left for the case that it is not get their deposits back.
[[nodiscard]] Status release_bids(Context& context, types::Task& task);
// Of a payload's form. Error task.unknown: no task has the number 0.
[[nodiscard]] Status check_task_id(std::uint64_t id);
// Begins a new round with bidding, at the first stretch that is not settled; after too many the task has failed.
// Nothing is locked for it.
[[nodiscard]] Status reopen(Context& context, types::Task& task, std::string_view reason);
// Everything but the storage deposit and what is held of the reward goes back to the submitter. Nothing is locked for
// it.
[[nodiscard]] Status close_task(Context& context, types::Task& task, types::TaskState state, std::string_view reason);

// --- Training --------------------------------------------------------------------------------------------------------
// The claim of the seat's next stretch, which takes a part of the seat's lock; stored. The task runs from its first one
// on.
[[nodiscard]] Status begin_claim(Context& context, types::Task& task, const Hash32& start_root);
// The next stretch after `newest`, once that is proved and if not too many are unsettled: the training goes on while
// what there is of it is verified.
[[nodiscard]] Status begin_next(Context& context, types::Task& task, const types::Claim& newest);
// It may not bid on this task again.
void bar(types::Task& task, const types::Address& solver);
// As give_to_next of a solver that has begun: its newest claim is void.
[[nodiscard]] Status dismiss_worker(Context& context, LoadedClaim& live, std::string_view reason);

// --- Verification ----------------------------------------------------------------------------------------------------
// Error task.wrong_state.
[[nodiscard]] Status check_state_is(const types::Claim& claim, std::initializer_list<types::ClaimState> states);
inline constexpr std::string_view kNotDrawn = "verify.not_drawn";
// The sender's. Error kNotDrawn.
[[nodiscard]] Expected<types::VerifierReport> load_own_report(const Context& context, const types::Claim& claim);
// Before an active report becomes one that is not: the claim counts it no more.
void leave(types::Claim& claim, const types::VerifierReport& report);
// Slashes `percent` of what the report has locked and unlocks the rest; from then on it counts as absent. Stores it.
[[nodiscard]] Status end_report(Context& context, LoadedClaim& live, types::VerifierReport& report,
                                std::uint64_t percent, std::string_view reason, const SlashShares& shares = {});
// Unlocks the bonds that answer for the claim's reports.
[[nodiscard]] Status release_reports(Context& context, types::Claim& claim);
// After the proof: waits for the beacon that draws the verifiers; first for `pause_s`, whose end is the draw's anchor,
// so that nobody has more time between beacon and draw than it takes to send a tick.
void await_draw(Context& context, types::Claim& claim, std::string_view reason, std::uint64_t pause_s = 0);
// Draws m verifiers, and custodians where the task has some and none were drawn yet; fewer of those, and none of these,
// once `verify_s` have passed in vain.
[[nodiscard]] Status draw_verifiers(Context& context, LoadedClaim& live);
// Each leaves its state once every active verifier has answered, or (deadline_passed) whoever did not is slashed;
// custody not without its custodians.
[[nodiscard]] Status conclude_custody(Context& context, LoadedClaim& live, bool deadline_passed);
[[nodiscard]] Status conclude_committing(Context& context, LoadedClaim& live, bool deadline_passed);
[[nodiscard]] Status conclude_revealing(Context& context, LoadedClaim& live, bool deadline_passed);
// Reports can be revealed, where errors are forced once the beacon is drawn that forces them (draw_forced).
[[nodiscard]] Status begin_revealing(Context& context, LoadedClaim& live);
[[nodiscard]] Status draw_forced(Context& context, LoadedClaim& live);
// Into `disputed` while disputes are open, else into `challenge`. Without a PASS that stands: verifiers are drawn
// again, and after the last draw the proof waits for challenges as it is.
[[nodiscard]] Status await_challenges(Context& context, LoadedClaim& live, std::string_view reason);

// The windows of a claim are over that is the next one to settle: its verifiers show which result they had to tell,
// then its watchers that they had found the forced errors; then it settles.
[[nodiscard]] Status conclude_challenges(Context& context, LoadedClaim& live);
[[nodiscard]] Status conclude_opening(Context& context, LoadedClaim& live, bool deadline_passed);
[[nodiscard]] Status conclude_jackpots(Context& context, LoadedClaim& live, bool deadline_passed);

// --- Ends ------------------------------------------------------------------------------------------------------------
// Whether a commitment's owner had the time to reveal it and there was something to reveal: what was committed before
// the verifiers were drawn (again) may speak of reports that are gone.
[[nodiscard]] bool could_reveal(const Context& context, const types::Claim& claim,
                                const types::ChallengeCommitment& commitment);
// Erases a commitment and frees its stake; when `punished`, without the part that a commitment without reveal costs.
[[nodiscard]] Status drop_commitment(Context& context, LoadedClaim& live, const types::ChallengeCommitment& commitment,
                                     bool punished);
// The same of kMaxSwept of them, or of all when there are fewer; `punished`: of those that could have been revealed.
[[nodiscard]] Status drop_commitments(Context& context, LoadedClaim& live, bool punished);
// Releases what the claim locks; it has kMaxSwept commitments at most. Those of later stretches fall with it; once no
// claim of the round is left to be decided the task opens again, or has failed.
[[nodiscard]] Status void_claim(Context& context, LoadedClaim& live, std::string_view reason);
// The claims of later stretches begin with what nobody stands for: they are void as `live` is, each as soon as the
// games about it and its verifiers' reports are decided. They are stored.
[[nodiscard]] Status void_later(Context& context, LoadedClaim& live);
// Releases what the claim locks and pays for it. After the last stretch the task ends. While more is to be erased and
// dropped before than one transaction should, does a part of that, and the next tick goes on.
[[nodiscard]] Status settle(Context& context, LoadedClaim& live);

// Pays what is held, if anything is, to the solver of the last stretch. No question is open.
[[nodiscard]] Status release_held(Context& context, types::Task& task);
// Nobody has answered: the held share is the submitter's, and what it prepaid comes back.
[[nodiscard]] Status forfeit_held(Context& context, types::Task& task);

// Erases the claims that a final task still has, with their reports and disputes, whose deposits go back: kMaxSwept
// objects at most. Whether all are gone.
[[nodiscard]] Expected<bool> delete_claims(Context& context, const types::Task& task);

}  // namespace quern::chain::exec::handlers
