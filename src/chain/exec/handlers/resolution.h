// Disputes as their claim sees them: opening a game, and what follows when one is decided. Rules: doc/market.md,
// "Lifecycle" (Disputes, In pieces) and "Slashes". Used by one thread.
#pragma once

#include "chain/exec/handlers/slashing.h"
#include "compute/core/dispute_game.h"
#include "compute/core/verification_report.h"

namespace quern::chain::exec::handlers {

namespace core = compute::core;

// What two parties disagree about, before it has a number.
struct NewDispute {
    std::uint32_t target = 0;
    types::Address defender;
    Uint256 defender_locked;
    types::Address rival;
    types::Role rival_role = types::Role::whistleblower;
    Uint256 rival_locked;
    Uint256 deposit;               // the rival's
    std::uint64_t accused_at = 0;  // market time; 0: a FAIL
    core::Game game;
};
[[nodiscard]] core::GameContext game_context(const LoadedClaim& live);
// Whether a game of the defender's is open there: another one waits until it ends.
[[nodiscard]] Expected<bool> has_open_game(const Context& context, const types::Claim& claim,
                                           const types::Address& defender);
// Stores the dispute and counts it in the claim. `waits`: has_open_game of its defender.
[[nodiscard]] Status open_dispute(Context& context, LoadedClaim& live, NewDispute dispute, bool waits);
// A dispute for each FAIL that is revealed: the verifier's own history against the solver's.
[[nodiscard]] Status open_report_disputes(Context& context, LoadedClaim& live);

// Puts a changed game back into its dispute (deadline included: 0 while it waits) without storing it.
void update_game(types::Dispute& dispute, const core::Game& game);
// Closes a dispute whose game is decided: slashes, pays, begins the defender's next game and moves the claim on. One
// that is moot has no loser. Stores disputes; the caller stores the rest.
[[nodiscard]] Status conclude_dispute(Context& context, LoadedClaim& live, types::Dispute& dispute,
                                      const core::Game& game);
// The claim's open disputes, in order. They are among its newest: what was closed before them is not looked at.
[[nodiscard]] Expected<std::vector<types::Dispute>> open_disputes(const Context& context, const types::Claim& claim);
// Closes open disputes that are moot without a loser, kMaxSwept at most: those about the history of a solver that has
// lost it, and those about a report whose verifier has. The newest first, so that the one that is played is the last.
// Returns their number; the rest is closed by ticks.
[[nodiscard]] Expected<std::size_t> close_moot(Context& context, types::Claim& claim);
// A verifier has broken the rule which of its results it tells: it is slashed, what is open about its report is moot.
[[nodiscard]] Status punish_choice(Context& context, LoadedClaim& live, types::VerifierReport& report);
// A verifier has shown which probe's hash it was forced to tell wrong. Games about that in which nobody has moved go on
// about the true hash; who has disputed the told one with that was right, and so was the verifier: nobody loses then.
[[nodiscard]] Status correct_probe_games(Context& context, LoadedClaim& live, const types::VerifierReport& report,
                                         const core::OpenedChoice& choice);
// Begins the oldest game of each verifier that plays none: after games that were corrected may have been closed, which
// whatever closes moot ones does.
[[nodiscard]] Status begin_corrected_games(Context& context, const LoadedClaim& live);
// Nobody stands for the claim's history any more, nor for those of later stretches; the claim goes on as
// continue_voided says.
[[nodiscard]] Status begin_void(Context& context, LoadedClaim& live, const std::string& reason);
// Moves on such a claim: it is void once no dispute about it or its verifiers' reports is open, no challenge that
// was committed in time can be revealed any more, and what was committed is dropped; else sets its deadline.
[[nodiscard]] Status continue_voided(Context& context, LoadedClaim& live);
// After disputes were closed: a claim that waits for others goes on waiting, else leaves `disputed`.
[[nodiscard]] Status continue_disputed(Context& context, LoadedClaim& live);

// Keeps a disputed claim's deadline at the earliest of its games that have begun (voided and without one: where reveals
// end; something to be closed or dropped: the next block). True when it changed.
[[nodiscard]] Expected<bool> refresh_deadline(const Context& context, types::Claim& claim);
[[nodiscard]] Expected<std::uint64_t> earliest_dispute_deadline(const Context& context, const types::Claim& claim);

}  // namespace quern::chain::exec::handlers
