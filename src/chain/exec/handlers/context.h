// What a native handler works with, and the money and object helpers that all of them share. A handler changes state
// only through these, so that each grain and each lock is accounted for. Used inside chain/exec, by one thread.
#pragma once

#include "chain/exec/result/observer.h"
#include "chain/exec/result/result_code.h"
#include "chain/market/bonds.h"
#include "chain/params/params.h"
#include "chain/state/overlay.h"
#include "chain/types/abi.h"
#include "chain/types/receipt.h"

namespace quern::chain::exec::handlers {

using market::free_part;

struct Context {
    const params::ChainParams& params;
    state::Overlay& state;
    std::uint64_t height = 0;
    types::Address sender;
    std::uint64_t payload_bytes = 0;  // of the running transaction's payload
    std::uint64_t gas = 0;            // charged to it before touched objects
    ExecutionObserver* observer = nullptr;
    std::uint64_t market_ms = 0;  // market time of the block: what deadlines and clocks are compared with

    [[nodiscard]] const params::MarketParams& market() const { return params.market; }
};

// --- Objects ---------------------------------------------------------------------------------------------------------
[[nodiscard]] Expected<types::Globals> load_globals(const state::Overlay& state);
void store_globals(state::Overlay& state, const types::Globals& globals);
// An address without a bond has an empty one.
[[nodiscard]] Expected<types::RoleBond> load_bond(const state::Overlay& state, types::Role role,
                                                  const types::Address& address);
void store_bond(state::Overlay& state, const types::RoleBond& bond);  // erases an empty one that plays nothing
// Error task.unknown.
[[nodiscard]] Expected<types::Task> load_task(const state::Overlay& state, std::uint64_t id);
void store_task(state::Overlay& state, const types::Task& task);
// A task and one of its claims. Its reports are loaded where they are looked at.
struct LoadedClaim {
    types::Task task;
    types::Claim claim;
};
// A running task with one of its claims of this round; and what of the task was stored, so that it is written only
// where it changed.
struct LiveClaim : LoadedClaim {
    Bytes stored_task;
};
// The claim of a stretch that is not settled. Errors task.unknown; task.wrong_state when the task is not running, or
// the claim has ended; task.no_such_claim.
[[nodiscard]] Expected<LiveClaim> load_live(const state::Overlay& state, std::uint64_t task, std::uint32_t stretch);
// The newest one. Errors task.unknown; task.wrong_state when the task is not running.
[[nodiscard]] Expected<LiveClaim> load_newest(const state::Overlay& state, types::Task task);
// One of which its task says that it is there.
[[nodiscard]] Expected<types::Claim> load_claim(const state::Overlay& state, const types::ClaimId& id);
[[nodiscard]] LiveClaim make_live(types::Task task, types::Claim claim);
// The claim that an open dispute is about.
[[nodiscard]] Expected<LiveClaim> load_live(const state::Overlay& state, const types::ClaimId& id);
// Also store the task where it differs from what was loaded.
void store_live(state::Overlay& state, const LiveClaim& live);
// One that its claim says was drawn.
[[nodiscard]] Expected<types::VerifierReport> load_report(const state::Overlay& state, const types::Claim& claim,
                                                          std::size_t place);
// All of them, by place.
[[nodiscard]] Expected<std::vector<types::VerifierReport>> load_reports(const state::Overlay& state,
                                                                        const types::Claim& claim);
void store_report(state::Overlay& state, const types::VerifierReport& report);
// Error dispute.unknown.
[[nodiscard]] Expected<types::Dispute> load_dispute(const state::Overlay& state, std::uint64_t id);
void store_dispute(state::Overlay& state, const types::Dispute& dispute);

// --- Randomness ------------------------------------------------------------------------------------------------------
// The beacon of a height, or what stands for it when it is gone (market::beacon_height). Error beacon.not_known while
// `height` is not reached.
[[nodiscard]] Expected<Hash32> beacon_at(const Context& context, std::uint64_t height);

// --- Money -----------------------------------------------------------------------------------------------------------
// That the sender has what its transaction takes: error account.insufficient_balance with both amounts.
[[nodiscard]] Status check_balance(const Context& context, const Uint256& amount);
// Error account.insufficient_balance.
[[nodiscard]] Status take_from_account(Context& context, const types::Address& address, const Uint256& amount);
void pay_account(Context& context, const types::Address& address, const Uint256& amount);

// For the task `task`, as the events BondLocked and BondReleased tell. Error bond.insufficient when the free part is
// smaller.
[[nodiscard]] Status lock_bond(Context& context, std::uint64_t task, types::Role role, const types::Address& address,
                               const Uint256& amount);
// Of one that was drawn: what is leaving answers, too. Error bond.insufficient.
[[nodiscard]] Status lock_whole_bond(Context& context, std::uint64_t task, types::Role role,
                                     const types::Address& address, const Uint256& amount);
[[nodiscard]] Status unlock_bond(Context& context, std::uint64_t task, types::Role role, const types::Address& address,
                                 const Uint256& amount);
// Takes `amount` out of the locked part, of what is leaving last; the caller distributes it.
[[nodiscard]] Status seize_bond(Context& context, types::Role role, const types::Address& address,
                                const Uint256& amount);

template <types::Record Event>
void emit(Context& context, types::KindGroup group, const Event& event) {
    context.state.add_log(types::abi::event_log(types::group_address(group), event));
}

}  // namespace quern::chain::exec::handlers
