// The chain itself: the committed state and the one writer of it. Builds, validates and commits blocks for consensus on
// the chain thread, and publishes a snapshot after each. A block's state, receipts, indexes, finalization and the new
// head are one synced batch: after a crash the block is wholly there or not there. Everything but board() and
// leaf_timer()'s reading belongs to the chain thread.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "chain/consensus/driver.h"
#include "chain/exec/block_executor.h"
#include "chain/mempool/block_builder.h"
#include "chain/state/state_tries.h"
#include "node/chain_database.h"
#include "node/leaf_timer.h"
#include "node/snapshot.h"

namespace quern::node {

class Chain final : public chain::consensus::BlockProducer {
public:
    struct Parts {  // all outlive the chain
        chain::store::Store& store;
        const ChainSetup& setup;
        chain::mempool::Pool& pool;
        ThreadPool& threads;
        const Clock& clock;
        chain::types::Address beneficiary;  // of the blocks built here
    };
    // Loads the head. Errors: node.no_head, store.*, committee.*.
    [[nodiscard]] static Expected<std::unique_ptr<Chain>> open(const Parts& parts);

    [[nodiscard]] const chain::consensus::Tip& tip() const { return tip_; }
    [[nodiscard]] const chain::consensus::Committee& committee() const { return committee_; }
    [[nodiscard]] const SnapshotBoard& board() const { return board_; }
    [[nodiscard]] const LeafTimer& leaf_timer() const { return leaf_timer_; }

    // Errors: exec.invariant_broken, trie.*, store.*.
    [[nodiscard]] Expected<chain::consensus::BuiltBlock> build_block(
        const chain::consensus::BuildRequest& request) override;
    // Errors: header.*, rlp.*, block.* (block.wrong_root, block.wrong_gas, block.bad_transaction, ...), and
    // build_block's.
    [[nodiscard]] Status validate_block(BytesView bytes) override;
    // Errors: store.*, block.not_prepared.
    [[nodiscard]] Expected<chain::consensus::Tip> commit(BytesView bytes, const Hash32& hash,
                                                         const chain::consensus::Certificate& certificate) override;

private:
    // A block that was executed on the tip and can be committed.
    struct Prepared {
        Hash32 hash;
        chain::types::Block block;
        std::vector<chain::types::RecoveredTransaction> transactions;
        std::vector<chain::types::Receipt> receipts;
        chain::state::StateChange change;
        std::uint64_t began_ms = 0;  // monotonic
    };

    explicit Chain(const Parts& parts) : parts_(parts) {}
    [[nodiscard]] Status load();
    [[nodiscard]] chain::exec::BlockContext context_for(const chain::types::BlockHeader& header) const;
    // The header's execution results from a finished execution. Error: the state's or the store's.
    [[nodiscard]] Status seal(Prepared& prepared, const chain::exec::BlockExecution& execution,
                              const chain::state::Overlay& overlay);
    void set_head(std::shared_ptr<const chain::api::BlockView> head);
    [[nodiscard]] const chain::params::ChainParams& params() const { return parts_.setup.genesis.params; }

    Parts parts_;
    chain::consensus::Committee committee_;
    chain::consensus::Tip tip_;
    chain::state::Roots roots_;
    std::unique_ptr<chain::state::StateTries> tries_;
    std::optional<Prepared> prepared_;
    LeafTimer leaf_timer_;
    SnapshotBoard board_;
    SnapshotPtr latest_;
};

}  // namespace quern::node
