// What happened to a task and what moved an account's money, as RPC tells it: read from blocks that an index names, so
// that a call costs by what it tells and not by the length of the chain. Implemented by the node; every method may be
// called from any thread and answers from committed blocks.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chain/types/native_objects.h"

namespace quern::chain::api {

// An event of the market or of staking. `name` is the one of its signature ("BidPlaced"); states, roles, choices,
// winners and phases among its fields are names, long lists are told by their length; task and dispute are not among
// them.
struct ToldEvent {
    std::string_view name;
    std::optional<std::uint64_t> task;
    std::optional<std::uint64_t> dispute;
    json::Value fields;
};

// Where something happened.
struct Place {
    std::uint64_t block = 0;
    std::uint64_t timestamp = 0;  // of the block, in seconds
    Hash32 transaction;
    types::Address sender;
    std::string_view kind;  // of the native transaction or call, "task_bid"; empty: it is no known one
};
struct Happening {
    Place place;
    ToldEvent event;
};

// What a role's bond holds: what left it and waits (`unbonding`) answers for open work as the rest does.
struct BondHoldings {
    types::Role role = types::Role::solver;
    Uint256 bonded;  // free and locked together
    Uint256 locked;
    Uint256 unbonding;
    QUERN_FIELDS(v("role", role), v("bonded", bonded), v("locked", locked), v("unbonding", unbonding))
};
struct Holdings {
    Uint256 balance;
    std::vector<BondHoldings> bonds;  // by role; of those that hold something
    QUERN_FIELDS(v("balance", balance), v("bonds", bonds))
};

// One amount that came, went or changed its place.
struct Movement {
    enum class Sign : std::int8_t { minus = -1, none = 0, plus = 1 };
    Place place;
    std::string_view category;  // "reward"; what totals are made of
    std::string reason;         // the event's, "solver_reward", or the transaction's kind
    std::optional<std::uint64_t> task;
    std::optional<types::Role> role;  // of the bond, or in which it was earned; absent where the chain does not say
    bool submitter = false;           // earned or paid as the submitter of the task
    Uint256 amount;
    Sign balance = Sign::none;  // how the account's balance changed by the amount ...
    Sign bond = Sign::none;     // ... and the role's bond, what is unbonding included
};
// A block that moved the account's money by the market, with what the account held before and after it.
struct StatementBlock {
    std::uint64_t number = 0;
    Holdings before;
    Holdings after;
    std::vector<Movement> movements;  // in order
};

template <class Item>
struct LedgerPage {
    std::vector<Item> items;
    std::optional<std::uint64_t> next;  // the block with which the next page begins; absent at the end
};

inline constexpr std::string_view kLedgerCancelled = "ledger.cancelled";

class Ledger {
public:
    using Cancelled = std::function<bool()>;  // asked between two blocks

    virtual ~Ledger() = default;
    // The first block that the index knows, later than 1 where the chain was there before the index was.
    [[nodiscard]] virtual Expected<std::uint64_t> since() const = 0;
    // The events of a task from block `from` on, in order; the page ends with the block in which it has `limit` of
    // them, or before. Errors: ledger.cancelled (busy), store.*.
    [[nodiscard]] virtual Expected<LedgerPage<Happening>> task_history(std::uint64_t task, std::uint64_t from,
                                                                       std::size_t limit,
                                                                       const Cancelled& cancelled) const = 0;
    // What moved the account's money in blocks `from` to `to`, as far as market and staking did it, with the gas of
    // what it sent for that; the page ends with the block in which it has `limit` movements, or before. Errors: as
    // above.
    [[nodiscard]] virtual Expected<LedgerPage<StatementBlock>> statement(const types::Address& account,
                                                                         std::uint64_t from, std::uint64_t to,
                                                                         std::size_t limit,
                                                                         const Cancelled& cancelled) const = 0;
};

}  // namespace quern::chain::api
