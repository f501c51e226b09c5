// Committed blocks and certificates as other nodes ask for them, read from a snapshot. Thread-safe; reads the disk, so
// it runs on the serving thread and not on the network's.
#pragma once

#include "chain/consensus/sdbft/epoch.h"
#include "node/chain/snapshot.h"
#include "p2p/messages/messages.h"

namespace quern::node {

inline constexpr std::uint64_t kMaxServedRangeBytes = 1U << 20;  // a first block that is larger is sent alone

class BlockServer {
public:
    BlockServer(const SnapshotBoard& board, std::uint64_t epoch_length)  // the board outlives the server
        : board_(board), heights_(epoch_length) {}

    // Not there: nullopt.
    [[nodiscard]] std::optional<p2p::messages::BlockAnswer> block(const Hash32& hash) const;
    [[nodiscard]] std::optional<p2p::messages::BlockTransactions> transactions(
        const p2p::messages::GetBlockTransactions& asked) const;
    // All of this kind about the view, at most kMaxCertificatesInAnswer: more than one shows an attack.
    [[nodiscard]] std::vector<Bytes> certificates(const p2p::messages::GetCertificate& asked) const;
    // Consecutive final blocks from `first` on; empty when there are none.
    [[nodiscard]] p2p::messages::Range range(const p2p::messages::GetRange& asked) const;

private:
    const SnapshotBoard& board_;
    const chain::consensus::sdbft::EpochHeights heights_;
};

}  // namespace quern::node
