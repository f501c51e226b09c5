// Catching up: asks peers for ranges of final blocks and hands them to consensus, which verifies them. Consensus says
// when it wants a range; besides, a peer that is far ahead starts one. One request at a time. Thread-safe.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "chain/consensus/sdbft/core.h"
#include "node/net/block_server.h"
#include "node/net/consensus_inbox.h"
#include "node/net/peer_table.h"
#include "node/net/work_queue.h"
#include "p2p/network.h"

namespace quern::node {

inline constexpr std::uint64_t kRangeTimeoutMs = 10'000;
inline constexpr std::uint64_t kSyncStalledMs = 1'000;  // no progress for so long: ask again
inline constexpr std::uint64_t kSyncReportMs = 5'000;   // a line in the log while catching up
inline constexpr std::uint64_t kSyncDistance = chain::consensus::sdbft::kRangeDistance;

class RangeSync {
public:
    struct Parts {  // all outlive it
        ConsensusInbox& consensus;
        PeerTable& peers;
        WorkQueue& work;
        const Clock& clock;
        std::uint64_t epoch_length;
        std::uint64_t tip;
    };
    explicit RangeSync(const Parts& parts)
        : parts_(parts), heights_(parts.epoch_length), tip_(parts.tip), first_(parts.tip) {}

    // Before anything is asked; outlives the calls.
    void set_network(p2p::Network* network) { network_ = network; }
    // Consensus wants blocks from `first` on, of this peer or of anybody.
    void ask(std::uint64_t first, const std::optional<Bytes20>& peer);
    // A peer told how far it is, or time passed: ask when that is far ahead and nothing moves.
    void consider();
    void committed(std::uint64_t number);

    struct Progress {
        bool syncing = false;
        std::uint64_t first = 0;  // where catching up began
        std::uint64_t number = 0;
        std::uint64_t target = 0;
    };
    [[nodiscard]] Progress progress() const;

private:
    void answered(std::uint64_t first, const Bytes20& peer, Expected<p2p::messages::Range> range);
    void deliver(std::uint64_t first, const Bytes20& peer, p2p::messages::Range range);
    [[nodiscard]] bool is_syncing(std::uint64_t target) const { return target > tip_ + kSyncDistance; }

    const Parts parts_;
    const chain::consensus::sdbft::EpochHeights heights_;
    std::atomic<p2p::Network*> network_{nullptr};
    mutable std::mutex mutex_;  // guards all below
    bool in_flight_ = false;
    std::uint64_t tip_ = 0;
    std::uint64_t moved_ms_ = 0;
    bool was_syncing_ = false;
    std::uint64_t first_ = 0;
    std::uint64_t began_ms_ = 0;
    std::uint64_t reported_ms_ = 0;
    std::uint64_t reported_number_ = 0;
};

}  // namespace quern::node
