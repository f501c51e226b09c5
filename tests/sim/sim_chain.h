// The chain behind a simulated node: LightChain, whose state is a counter and a table of stakes, or RealChain, the
// node's executor over its database. One per simulated node; single-threaded.
#pragma once

#include <memory>
#include <optional>

#include "base/rng.h"
#include "chain/consensus/sdbft/actions.h"

namespace quern::sim {

namespace sdbft = chain::consensus::sdbft;
namespace types = chain::types;
using chain::consensus::Certificate;
using chain::consensus::Committee;
using chain::consensus::Tip;

class SimChain {
public:
    virtual ~SimChain() = default;

    // A block on request.parent. The light chain puts `transactions` and `mark` into it, the real one what its pool
    // has.
    [[nodiscard]] virtual Expected<Bytes> build(const sdbft::BlockRequest& request, std::vector<Bytes> transactions,
                                                std::uint8_t mark) = 0;
    [[nodiscard]] virtual bool validate(const Hash32& hash, BytesView block) = 0;
    // Executes when it has to. Gives the next epoch's setup at an epoch's end.
    [[nodiscard]] virtual Expected<std::optional<sdbft::EpochSetup>> commit(
        const Hash32& hash, BytesView block, const std::optional<Certificate>& certificate) = 0;
    // The next commit() fails (store.io), before or amid its writes.
    virtual void fail_next_commit(Rng& rng) = 0;
    // The process dies, and its disk forgets some or all of what was not synced; then it starts again. Error: what the
    // start says.
    [[nodiscard]] virtual Status crash(Rng& rng) = 0;
    // Another one over a copy of what the disk holds.
    [[nodiscard]] virtual std::unique_ptr<SimChain> copy_of_disk() const = 0;

    // Something was sent to this node's pool. Real chain only.
    virtual void submit(const types::RecoveredTransaction& /*transaction*/) {}
    // Whether the pool has something; nullopt where there is no pool.
    [[nodiscard]] virtual std::optional<bool> has_transactions() const { return std::nullopt; }

    [[nodiscard]] virtual const Tip& tip() const = 0;
    [[nodiscard]] std::uint64_t height() const { return tip().number; }
    [[nodiscard]] virtual Hash32 hash_at(std::uint64_t height) const = 0;  // height is at most the tip's
    [[nodiscard]] virtual Bytes tip_certificate() const = 0;
    // Of the height after the tip.
    [[nodiscard]] virtual sdbft::EpochSetup epoch_setup() const = 0;
    [[nodiscard]] virtual std::optional<Committee> committee_of(std::uint64_t epoch) const = 0;
    [[nodiscard]] virtual std::optional<sdbft::BlockAnswer> block(const Hash32& hash) const = 0;
    [[nodiscard]] virtual std::optional<sdbft::RangeAnswer> range(std::uint64_t first) const = 0;
    [[nodiscard]] virtual bool body_matches(BytesView block) const = 0;
    // Whether the state adds up: money, and roots that follow from the tables.
    [[nodiscard]] virtual Status audit() const = 0;
};

}  // namespace quern::sim
