// SDBFT with a committee of one: this validator proposes each block, its FINALIZE vote is the quorum, and the block is
// final at once. A block is proposed when transactions wait and min_block_ms have passed since the last one, or after
// max_idle_ms. Views, digests, certificates, write-before-send and recovery are those of the full protocol. Pure;
// belongs to the chain thread.
#pragma once

#include "chain/consensus/beacon.h"
#include "chain/consensus/engine.h"

namespace quern::chain::consensus {

struct SingleValidatorSetup {
    params::ChainParams params;
    ChainIdentity chain;
    Committee committee;
    Tip tip;  // newest committed block
    // The safety journal's record. Without one the engine signs only if the chain is at its genesis block or
    // `accept_missing_journal` is set (the operator says that no other copy of this key signs or has signed more).
    std::optional<SignedProposal> last_signed;
    bool accept_missing_journal = false;
};

class SingleValidator final : public Engine {
public:
    // Errors: consensus.not_a_validator (the key is not in the committee), consensus.no_quorum_alone (its weight is no
    // quorum).
    [[nodiscard]] static Expected<SingleValidator> make(SingleValidatorSetup setup, crypto::PrivateKey key);

    // Halts with consensus.no_safety_journal, consensus.journal_behind (the chain has blocks of this key that the
    // journal does not know), consensus.journal_ahead (a block was signed whose parent is not here).
    [[nodiscard]] std::vector<Action> step(const Event& event, const Time& now) override;

private:
    SingleValidator(SingleValidatorSetup setup, crypto::PrivateKey key);
    [[nodiscard]] std::vector<Action> start(const Time& now);
    [[nodiscard]] std::vector<Action> propose_or_wait(const Time& now);
    [[nodiscard]] std::vector<Action> store(const BuiltBlock& built);
    [[nodiscard]] std::vector<Action> finalize();

    SingleValidatorSetup setup_;
    crypto::PrivateKey key_;
    BeaconSecret beacon_;
    std::size_t index_ = 0;  // in the committee
    enum class Phase : std::uint8_t {
        stopped,
        idle,
        building,
        storing,
        validating,
        committing
    } phase_ = Phase::stopped;
    bool transactions_wait_ = false;
    std::uint64_t last_block_at_ = 0;  // monotonic
    std::optional<BuildRequest> request_;
    std::optional<SignedProposal> proposal_;
};

}  // namespace quern::chain::consensus
