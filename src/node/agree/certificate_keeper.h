// Keeps certificates for the evidence window and looks for those that contradict each other: if the chain ever forks,
// at least a third of the weight is convicted by what stands here. keep() and entered() come from the consensus thread
// and only take note; the disk is the serving thread's. Thread-safe.
//
// What is kept for how long: all of the newest epochs; of older ones within the window the nullifications, and whatever
// is about an epoch's last block or a block off the chain. The notarizations and finalizations of the other blocks are
// in the chain itself (certificate_lookup.h). doc/consensus.md, Evidence, says why that suffices.
#pragma once

#include "base/mutex.h"
#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/evidence.h"
#include "node/chain/snapshot.h"
#include "node/net/duty_queue.h"

namespace quern::node {

// Not yet on the disk; from then on the thread that brings one more waits for the disk.
inline constexpr std::size_t kMaxUnwrittenCertificates = 1024;

class CertificateKeeper {
public:
    struct Parts {  // what it refers to outlives it
        chain::store::Store& store;
        const SnapshotBoard& board;
        DutyQueue& work;
        std::uint64_t epoch_length = 1;
        std::uint64_t window_blocks = 0;  // params.staking.unbonding_blocks
        // Of an epoch; nullopt when the state does not know it.
        std::function<std::optional<chain::consensus::Committee>(std::uint64_t epoch)> committee;
        std::function<void(chain::consensus::sdbft::Evidence evidence)> convict;
    };
    explicit CertificateKeeper(Parts parts) : parts_(std::move(parts)), heights_(parts_.epoch_length) {}

    // A verified certificate. Never lost to a full queue.
    void keep(chain::consensus::Certificate certificate);
    // The chain is in this epoch: what is not needed any more goes.
    void entered(std::uint64_t epoch);
    // Writes what waits, now; on the serving thread, or at a stop.
    void flush();

private:
    // Older than what is on its way to the chain: then the chain may hold what contradicts it.
    [[nodiscard]] bool is_settled(const chain::consensus::Certificate& certificate) const;
    void look_for_conflicts(const chain::consensus::Certificate& certificate,
                            const std::vector<chain::consensus::Certificate>& newer);
    [[nodiscard]] Status prune(std::uint64_t epoch);
    [[nodiscard]] Status thin(std::uint64_t epoch);

    const Parts parts_;
    const chain::consensus::sdbft::EpochHeights heights_;
    Mutex disk_;  // one flush at a time; taken before mutex_
    mutable Mutex mutex_;
    std::vector<chain::consensus::Certificate> waiting_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
