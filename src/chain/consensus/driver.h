// Runs an Engine: carries out its actions through the node's BlockProducer and the safety journal, in order, and feeds
// the answers back until the engine waits. Belongs to the chain thread.
#pragma once

#include "base/clock.h"
#include "chain/consensus/engine.h"

namespace quern::chain::consensus {

// What the node does for consensus.
class BlockProducer {
public:
    virtual ~BlockProducer() = default;
    // A valid block on request.parent, which is the newest committed block, with as many transactions as fit.
    [[nodiscard]] virtual Expected<BuiltBlock> build_block(const BuildRequest& request) = 0;
    // Header rules and execution on the newest committed block.
    [[nodiscard]] virtual Status validate_block(BytesView block) = 0;
    // Makes the block the chain's newest, durably. The block was built or validated just before.
    [[nodiscard]] virtual Expected<Tip> commit(BytesView block, const Hash32& hash, const Certificate& certificate) = 0;
};

class Driver {
public:
    // All outlive the driver.
    Driver(Engine& engine, BlockProducer& producer, SafetyJournal& journal, const Clock& clock)
        : engine_(engine), producer_(producer), journal_(journal), clock_(clock) {}

    // Feeds one event. An error means that this validator must stop: the engine's, the producer's or the journal's.
    [[nodiscard]] Status handle(Event event);
    // Monotonic time at which to send TimePassed.
    [[nodiscard]] std::optional<std::uint64_t> wake_at() const { return wake_at_; }

private:
    [[nodiscard]] Expected<std::optional<Event>> perform(Action& action);
    [[nodiscard]] Time now() const { return {clock_.now_ms(), clock_.monotonic_ms()}; }

    Engine& engine_;
    BlockProducer& producer_;
    SafetyJournal& journal_;
    const Clock& clock_;
    std::optional<std::uint64_t> wake_at_;
};

}  // namespace quern::chain::consensus
