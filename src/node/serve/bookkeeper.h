// What one block moved of an account's money, transaction by transaction. For an object of one block; not thread-safe.
#pragma once

#include <map>

#include "chain/api/ledger.h"
#include "node/chain/market_events.h"

namespace quern::node {

class Bookkeeper {
public:
    // `before`: what the account held before the block.
    Bookkeeper(const chain::types::Address& account, const chain::api::Holdings& before);
    // The block's next transaction of those that concern the account.
    void add(const chain::types::RecoveredTransaction& transaction, const chain::types::Receipt& receipt,
             const chain::api::Place& place);
    // All movements, in order.
    [[nodiscard]] std::vector<chain::api::Movement> take() { return std::move(movements_); }

private:
    using Movement = chain::api::Movement;
    Movement& move(std::string_view category, std::string reason, const Uint256& amount, Movement::Sign balance,
                   Movement::Sign bond = Movement::Sign::none);
    void paid(const events::Paid& event, bool of_submitter);
    void bond_changed(const events::BondChanged& event, const chain::types::abi::NativeCall* call);
    void event(const MarketEvent& event, const MarketEvent* next, const chain::types::abi::NativeCall* call);

    const chain::types::Address account_;
    std::map<chain::types::Role, Uint256> bonds_;  // with what is unbonding, as of the last event
    chain::api::Place place_;
    std::optional<std::uint64_t> task_;  // of the present transaction
    std::vector<Movement> movements_;
};

}  // namespace quern::node
