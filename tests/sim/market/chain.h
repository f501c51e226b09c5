// The chain of a market simulation: blocks through the node's execution with its invariants (tests/support/market),
// with the parameters and fees of a real network and with beacons that follow from a seed.
#pragma once

#include "market_world.h"
#include "sim/market/settings.h"

namespace quern::sim::market {

namespace core = compute::core;
namespace types = chain::types;
namespace params = chain::params;
namespace exec = chain::exec;
using exec::test::History;
using exec::test::ReportData;
using types::ClaimState;
using types::NativeKind;
using types::Role;
using types::TaskClaim;
using types::TaskState;

class MarketChain : private exec::test::World {
public:
    explicit MarketChain(const Settings& settings);

    void begin();
    exec::Result send(const types::Address& from, NativeKind kind, const Bytes& payload);
    using World::finish;
    // For the genesis: before the first block.
    void give(const types::Address& to, const Uint256& amount);

    using World::bond;
    using World::check_from_genesis;
    using World::deadline;
    using World::exists;
    using World::globals;
    using World::height;
    using World::last_receipt;
    using World::market_ms;
    using World::params;
    using World::shared_dispute;
    using World::shared_live;
    using World::shared_task;
    using World::stored_claim;
    [[nodiscard]] Uint256 balance(const types::Address& of) const;
    // The hashes of the tiles that a report shows, as the log of its reveal has them.
    [[nodiscard]] const std::vector<Hash32>& shown(const Hash32& result_root) const;
    // Whether a tick of the task would move it on in the block that has begun.
    [[nodiscard]] bool is_due(std::uint64_t task) const;

private:
    std::uint64_t seed_;
};

}  // namespace quern::sim::market
