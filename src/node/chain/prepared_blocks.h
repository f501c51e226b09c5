// Blocks that were executed and are not committed, with the state after each as a layer over its parent's. The chain
// builds and validates on any of them. Belongs to the executor thread.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "chain/consensus/sdbft/core.h"
#include "chain/mempool/pool.h"
#include "chain/state/state_tries.h"
#include "chain/store/layered_reader.h"
#include "chain/types/receipt.h"
#include "node/chain/leaf_timer.h"

namespace quern::node {

// The core keeps at most twice kMaxBlocksKept blocks that are not final and asks for no others. While views pass and
// nothing becomes final, as on a slow network, they are many: the oldest without a child goes and is executed again if
// it should still matter.
inline constexpr std::size_t kMaxPreparedBlocks = 2 * chain::consensus::sdbft::kMaxBlocksKept;
inline constexpr std::size_t kMaxPreparedBytes = std::size_t{512} << 20;  // of memory, an estimate

struct PreparedBlock {
    Hash32 hash;
    Bytes encoded;
    chain::types::Block block;
    std::vector<Hash32> hashes;  // of the transactions
    std::vector<chain::types::Receipt> receipts;
    std::vector<chain::mempool::AccountAfter> senders;  // of the transactions, after the block
    chain::state::StateChange change;
    LeafTimes leaf_times;
    std::uint64_t began_ms = 0;  // to execute it, by the monotonic clock
    std::uint64_t spent_ms = 0;  // on execution
};

class PreparedBlocks {
public:
    // `committed`: the store of the chain's newest committed block; outlives this.
    explicit PreparedBlocks(const chain::store::Reader& committed) : committed_(committed) {}

    // Null when it is not prepared. The pointer lives until committed() drops the block.
    [[nodiscard]] const PreparedBlock* find(const Hash32& hash) const;
    // The state after a prepared block, or the committed one for any other hash. The layer is made when it is first
    // asked for: a block that is committed before it gets a child never pays for one.
    [[nodiscard]] const chain::store::Reader& state_after(const Hash32& hash);
    // The accounts that this block and its prepared ancestors changed, newest first; none for any other hash.
    [[nodiscard]] std::vector<const chain::state::AccountTable*> changed_accounts(const Hash32& hash) const;
    // Its parent is prepared, or the newest committed block. Those that went for it are in `gone`. Busy block.too_many
    // when only ancestors are left.
    [[nodiscard]] Status add(PreparedBlock block, std::vector<Hash32>& gone);
    // A prepared block, for its commit: what commits it may append to its batch and take its parts, then call
    // committed().
    [[nodiscard]] PreparedBlock& to_commit(const Hash32& hash) { return entries_.at(hash)->block; }
    // The store holds this block now: what descends from it rests on the store, everything else is dropped.
    void committed(const Hash32& hash);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    struct Entry {
        PreparedBlock block;
        std::optional<chain::store::LayeredReader> layer;
        std::size_t bytes = 0;
    };
    using Entries = std::map<Hash32, std::unique_ptr<Entry>>;

    // The one of the earliest view that no other rests on, `parent` excepted.
    [[nodiscard]] Entries::iterator oldest_leaf(const Hash32& parent);

    const chain::store::Reader& committed_;
    Entries entries_;
    std::size_t bytes_ = 0;
};

}  // namespace quern::node
