// Committed blocks and certificates as other nodes ask for them, read from a snapshot. Thread-safe; reads the disk, so
// it runs on the serving thread and not on the network's.
#pragma once

#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/messages.h"
#include "node/chain/snapshot.h"
#include "p2p/messages/messages.h"

namespace quern::node {

inline constexpr std::uint64_t kMaxServedRangeBytes = 8U << 20;  // a first block that is larger is sent alone

class BlockServer {
public:
    explicit BlockServer(const SnapshotBoard& board) : board_(board) {}  // outlives the server

    // Not there: nullopt.
    [[nodiscard]] std::optional<p2p::messages::BlockAnswer> block(const Hash32& hash) const;
    [[nodiscard]] std::optional<p2p::messages::BlockTransactions> transactions(
        const p2p::messages::GetBlockTransactions& asked) const;
    [[nodiscard]] std::optional<Bytes> certificate(const p2p::messages::GetCertificate& asked) const;
    // Consecutive final blocks from `first` on; empty when there are none.
    [[nodiscard]] p2p::messages::Range range(const p2p::messages::GetRange& asked) const;

private:
    const SnapshotBoard& board_;
};

// What consensus wants of a range: the blocks of the first one's epoch up to the last that has a finalization of its
// own. `count` says how many those are; 0 when none has.
struct EpochRange {
    chain::consensus::sdbft::RangeAnswer answer;
    std::size_t count = 0;
};
// Errors: certificate.*, rlp.*.
[[nodiscard]] Expected<EpochRange> epoch_range(p2p::messages::Range range, std::uint64_t first,
                                               std::uint64_t tip_height,
                                               const chain::consensus::sdbft::EpochHeights& heights);

}  // namespace quern::node
