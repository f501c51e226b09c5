// Disputes as their claim sees them: opening a game, and what follows when one is decided. Rules: doc/market.md,
// "Deposits and outcomes". Used by one thread.
#pragma once

#include "chain/exec/handlers/slashing.h"
#include "compute/core/dispute_game.h"

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
    Uint256 deposit;  // the rival's
    core::Game game;
};
[[nodiscard]] core::GameContext game_context(const TaskClaim& live);
// Stores the dispute and counts it in the claim. Its game waits while another one of its defender's is open there.
[[nodiscard]] Status open_dispute(Context& context, types::Claim& claim, NewDispute dispute);
// A verifier's FAIL: its own history against the solver's.
[[nodiscard]] Status open_report_dispute(Context& context, TaskClaim& live, const types::VerifierReport& report);

// Puts a changed game back into its dispute (deadline included: 0 while it waits) without storing it.
void update_game(types::Dispute& dispute, const core::Game& game);
// Closes a dispute whose game is decided: slashes, pays, begins the defender's next game and moves the claim on. Stores
// disputes; the caller stores the rest.
[[nodiscard]] Status conclude_dispute(Context& context, TaskClaim& live, types::Dispute& dispute,
                                      const core::Game& game);
// The claim's open disputes, in order. They are among its newest: what was closed before them is not looked at.
[[nodiscard]] Expected<std::vector<types::Dispute>> open_disputes(const Context& context, const types::Claim& claim);
// Closes the open disputes, all or those about the given targets, without a loser: what they were about is void.
[[nodiscard]] Status close_disputes(Context& context, types::Claim& claim, std::string_view reason,
                                    std::initializer_list<std::uint32_t> targets = {});
// Nobody stands for the claim's history any more, nor for those of later stretches; the claim goes on as
// continue_voided says. Games about it are moot, unless its solver must not get out of them (`plays_on`).
[[nodiscard]] Status begin_void(Context& context, TaskClaim& live, const std::string& reason, bool plays_on = false);
// Moves on such a claim: it is void once no dispute about it or its verifiers' reports is open and no challenge that
// was committed in time can be revealed any more; else sets its deadline.
[[nodiscard]] Status continue_voided(Context& context, TaskClaim& live);

// Keeps a disputed claim's deadline at the earliest of its games that have begun (voided and without one: where reveals
// end). True when it changed.
[[nodiscard]] Expected<bool> refresh_deadline(const Context& context, types::Claim& claim);
[[nodiscard]] Expected<std::uint64_t> earliest_dispute_deadline(const Context& context, const types::Claim& claim);

}  // namespace quern::chain::exec::handlers
