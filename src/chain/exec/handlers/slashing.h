// How tasks pay and slash. Every payment and every slash of a task goes through here: it is recorded in
// the task, and announced. Used by the task, verification and dispute handlers, by one thread.
#pragma once

#include "chain/exec/handlers/context.h"

namespace quern::chain::exec::handlers {

// From the task's escrow. Error task.escrow_empty (an invariant: it does not happen).
[[nodiscard]] Status pay_from_escrow(Context& context, types::Task& task, const types::Address& to,
                                     const Uint256& amount, std::string_view reason);

// For bytes of the state that are kept no more. No payment of the task: it is the payer's own money.
void return_deposit(Context& context, std::uint64_t task, const types::Address& payer, const Uint256& deposit);

// Who shares in a slash beside the burn, the submitter and the treasury, in this order.
struct SlashShares {
    std::optional<types::Address> winner;     // of the game: γ
    std::vector<types::Address> fees{};       // verifiers that are paid ...
    Uint256 fee{};                            // ... this much each
    std::optional<types::Address> accuser{};  // gets the bounty
    Uint256 proven_cost{};                    // the accuser's
    bool unproven = false;                    // nobody can show who is right: all of it is burned
};
// Takes `amount` out of the locked part of a bond and distributes it: submitter_percent to the submitter, burn_percent
// burned, then the shares, the rest to the treasury vault (market::split_slash); or nothing to anybody.
[[nodiscard]] Status slash(Context& context, types::Task& task, types::Role role, const types::Address& address,
                           const Uint256& amount, std::string_view reason, const SlashShares& shares = {});
inline constexpr std::uint64_t kWhole = 100;  // percent
// Takes `percent` of what is locked so, and unlocks the rest.
[[nodiscard]] Status slash_part(Context& context, types::Task& task, types::Role role, const types::Address& address,
                                const Uint256& locked, std::uint64_t percent, std::string_view reason,
                                const SlashShares& shares = {});

}  // namespace quern::chain::exec::handlers
