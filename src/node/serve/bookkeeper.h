// What one block moved of an account's money, transaction by transaction. For an object of one block; not thread-safe.
#pragma once

#include <map>

#include "chain/api/ledger.h"
#include "chain/api/market_guide.h"
#include "chain/params/params.h"
#include "node/chain/market_events.h"

namespace quern::node {

class Bookkeeper {
public:
    struct Rules {  // outlive it
        const chain::params::ChainParams& params;
        const chain::api::MarketGuide& market;
    };
    // `before`, `after`: what the account held before and after the block.
    Bookkeeper(const Rules& rules, const chain::types::Address& account, const chain::api::Holdings& before,
               const chain::api::Holdings& after);
    // The block's next transaction of those that concern the account. Errors: those of a submission's estimate, which a
    // block holds none of.
    [[nodiscard]] Status add(const chain::types::RecoveredTransaction& transaction,
                             const chain::types::Receipt& receipt, const chain::api::Place& place);
    // All movements, in order.
    [[nodiscard]] std::vector<chain::api::Movement> finish();

private:
    using Movement = chain::api::Movement;
    Movement& move(std::string_view category, std::string reason, const Uint256& amount, Movement::Sign balance,
                   Movement::Sign bond = Movement::Sign::none);
    void paid(const events::Paid& event, bool of_submitter);
    void bond_changed(const events::BondChanged& event, const chain::types::abi::NativeCall* call);
    [[nodiscard]] Status submitted(const events::TaskSubmitted& event, const chain::types::abi::NativeCall* call);
    [[nodiscard]] Status event(const MarketEvent& event, const MarketEvent* next,
                               const chain::types::abi::NativeCall* call);
    void settle_evidence_deposit();

    const Rules rules_;
    const chain::types::Address account_;
    const Uint256 before_;
    const Uint256 after_;
    std::map<chain::types::Role, Uint256> bonds_;  // with what is unbonding, as of the last event
    chain::api::Place place_;
    std::optional<std::uint64_t> task_;  // of the present transaction
    std::vector<Movement> movements_;
    std::size_t deposits_without_event_ = 0;  // transactions that may have moved an evidence commitment's
    std::size_t deposit_at_ = 0;              // where its movement goes
    chain::api::Place deposit_place_;
};

}  // namespace quern::node
