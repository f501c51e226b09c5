// The chain itself: the committed state and the one writer of it. Builds and validates blocks on the newest committed
// block or on any block that was built or validated before, keeps the state after each as a layer until its height is
// committed, and commits them in order. A block's state, receipts, indexes, finalization and the new head are one
// synced batch: after a crash the block is wholly there or not there; what was not committed is gone, and consensus
// asks for it again. A snapshot is published after each commit. Everything belongs to the executor thread but board()
// and leaf_timer()'s reading.
//
// What consensus checks of a header (sdbft::check_proposed: epoch, view, committees, beacon, parent's certificate) is
// not looked at again here.
#pragma once

#include <functional>
#include <set>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "chain/consensus/sdbft/actions.h"
#include "chain/exec/block_executor.h"
#include "chain/mempool/block_builder.h"
#include "chain/store/live_ranges.h"
#include "node/chain/activity_index.h"
#include "node/chain/chain_database.h"
#include "node/chain/checkpoint.h"
#include "node/chain/large_blocks.h"
#include "node/chain/leaf_timer.h"
#include "node/chain/prepared_blocks.h"
#include "node/chain/snapshot.h"
#include "node/chain/state_flusher.h"

namespace quern::node {

// Transactions that break an invariant of the state are found and left out, this many per block; then the block stays
// empty.
inline constexpr std::size_t kMaxBuildRepairs = 4;
inline constexpr std::size_t kMaxBreakersRemembered = 1024;
// Of Δ, by which the views' timers go: how long a large block may take to become final.
inline constexpr std::uint64_t kFinalityTargetPercent = 66;

class Chain {
public:
    struct Parts {  // all outlive the chain
        chain::store::Store& store;
        const ChainSetup& setup;
        chain::mempool::Pool& pool;
        ThreadPool& threads;
        const Clock& clock;
        chain::types::Address beneficiary;                     // of the blocks built here
        std::optional<Checkpoint> checkpoint = std::nullopt;   // another history is refused
        std::size_t max_unflushed_bytes = kMaxUnflushedBytes;  // of the tries; 0: written by who commits
    };
    // Loads the head. Errors: node.other_history (the checkpoint's block is another here), node.no_head, store.*,
    // epoch.unknown, committee.*.
    [[nodiscard]] static Expected<std::unique_ptr<Chain>> open(const Parts& parts);

    [[nodiscard]] const chain::consensus::Tip& tip() const { return tip_; }  // newest committed block
    // The finalization stored with it: empty for the genesis block, and for one that became final as an ancestor.
    [[nodiscard]] Bytes tip_certificate() const { return latest_->head->finalization; }
    // Of the height after the tip. Errors: epoch.unknown, committee.*, state.corrupt_object, store.*.
    [[nodiscard]] Expected<chain::consensus::sdbft::EpochSetup> epoch_setup() const;
    // Of the epoch before that one, if any.
    [[nodiscard]] std::optional<chain::consensus::Committee> previous_committee() const { return previous_committee_; }
    [[nodiscard]] const SnapshotBoard& board() const { return board_; }
    [[nodiscard]] const std::optional<Checkpoint>& checkpoint() const { return parts_.checkpoint; }
    [[nodiscard]] const LeafTimer& leaf_timer() const { return leaf_timer_; }

    // A valid block on request.parent with as many transactions as fit. Errors: block.unknown_parent, block.too_many,
    // exec.invariant_broken (by an empty block), trie.*, store.*.
    [[nodiscard]] Expected<chain::consensus::BuiltBlock> build_block(
        const chain::consensus::sdbft::BlockRequest& request);
    // Executes the block on its parent, which is the tip or was built or validated here. Errors: block.* (wrong_hash,
    // unknown_parent, wrong_root, wrong_gas, bad_transaction, ...), header.* (wrong_number, wrong_timestamp,
    // wrong_beacon, wrong_gas_limit, wrong_constant), rlp.*, exec.invariant_broken. Of these only errors of the kind
    // `input` say that the block is bad; the others (store.*, trie.*, block.too_many, unknown_parent, ...) say nothing
    // about it, and the busy ones that it may be asked again. `given_up` is asked before each signature and each
    // transaction, from several threads, and stays true once it was: then the work ends with block.given_up (busy).
    using GivenUp = std::function<bool()>;
    [[nodiscard]] Status validate_block(const Hash32& hash, BytesView bytes, const GivenUp& given_up = {});
    // Makes the block at tip + 1 the chain's newest, durably, executing it first when it was not prepared, and drops
    // its siblings with all that descends from them. next_epoch is set for an epoch's last block. Errors: as
    // validate_block, node.other_history, block.wrong_parent, block.other_bytes, store.*; after one the chain must not
    // be used any more. `published` is called as soon as others see the new state; the mempool hears of it after that.
    using Published = std::function<void(const SnapshotPtr&)>;
    [[nodiscard]] Expected<chain::consensus::sdbft::event::Committed> commit(
        const Hash32& hash, BytesView bytes, const std::optional<chain::consensus::Certificate>& certificate,
        const Published& published = {});

    // Blocks that are executed and not committed.
    [[nodiscard]] std::size_t prepared_blocks() const { return prepared_.size(); }
    // Those that went for others since the last call: the core must hear of it.
    [[nodiscard]] std::vector<Hash32> take_forgotten() { return std::exchange(forgotten_, {}); }

private:
    // What a block rests on.
    struct Base {
        const chain::types::BlockHeader* header;
        const chain::store::Reader* state;  // flat tables
        const chain::state::StateVersion* tries;
        std::vector<const chain::state::AccountTable*> changed;  // accounts, by blocks that are not committed
        bool committed;
    };

    explicit Chain(const Parts& parts)
        : parts_(parts),
          live_ranges_(walked_objects()),
          live_(parts.store, live_ranges_),
          prepared_(live_),
          flusher_(parts.store, parts.max_unflushed_bytes),
          large_(parts.setup.genesis.params.delta_ms * kFinalityTargetPercent / 100) {}
    [[nodiscard]] static std::shared_ptr<chain::store::LiveRanges> walked_objects();
    [[nodiscard]] Status load();
    // Whether the block is the checkpoint's, if it is at its height.
    [[nodiscard]] Status check_history(std::uint64_t number, const Hash32& hash) const;
    // Of the epoch before that of the height after `number`.
    [[nodiscard]] Expected<std::optional<chain::consensus::Committee>> committee_before(std::uint64_t number) const;
    void set_head(std::shared_ptr<const chain::api::BlockView> head);
    [[nodiscard]] const chain::params::ChainParams& params() const { return parts_.setup.genesis.params; }

    // chain_blocks.cpp
    [[nodiscard]] Expected<Base> base_for(const Hash32& parent);
    [[nodiscard]] chain::state::CachedState state_of(const Base& base) const {
        return {*latest_->reader, *base.state, base.changed, *accounts_, latest_->number()};
    }
    // The pool's transactions as they can come after `base`.
    [[nodiscard]] chain::mempool::Selection transactions_for(const Base& base, const Hash32& parent,
                                                             const Uint256& base_fee) const;
    void drop_refused(const chain::mempool::FilledBlock& filled);
    // The number of the transaction after which an invariant does not hold any more.
    [[nodiscard]] Expected<std::size_t> find_breaker(const Base& base, const chain::types::BlockHeader& header,
                                                     const std::vector<chain::mempool::PooledPtr>& transactions) const;
    void reject_breaker(const chain::types::RecoveredTransaction& transaction, const Error& error);
    // Executes a block that came from elsewhere, and keeps it.
    [[nodiscard]] Status prepare(const Hash32& hash, BytesView bytes, const GivenUp& given_up);
    // Those of the pool are not copied.
    using RecoveredPtr = std::shared_ptr<const chain::types::RecoveredTransaction>;
    [[nodiscard]] Expected<std::vector<RecoveredPtr>> recover_all(const std::vector<Bytes>& encoded,
                                                                  const GivenUp& given_up) const;
    // The results of a finished execution into block and change. Errors: the state's or the store's.
    [[nodiscard]] Status seal(PreparedBlock& prepared, const Base& base, chain::exec::BlockExecution& execution,
                              const chain::state::Overlay& overlay, const chain::state::CachedState& state,
                              const std::vector<IndexedSender>& senders);

    Parts parts_;
    const std::shared_ptr<chain::store::LiveRanges> live_ranges_;
    const chain::store::LiveRangesReader live_;  // the newest state
    bool is_indexed_ = false;                    // activity_index.h
    chain::consensus::Tip tip_;
    PreparedBlocks prepared_;
    std::vector<Hash32> forgotten_;
    std::unique_ptr<chain::state::StateTries> tries_;
    StateFlusher flusher_;
    // Of the committed state; reading through it changes no answer.
    std::shared_ptr<chain::state::AccountCache> accounts_ = std::make_shared<chain::state::AccountCache>();
    LeafTimer leaf_timer_;
    SnapshotBoard board_;
    SnapshotPtr latest_;
    std::optional<chain::consensus::Committee> previous_committee_;
    std::set<Hash32> breakers_;  // transactions that broke an invariant
    LargeBlocks large_;
};

}  // namespace quern::node
