// Catching up: fetches ranges of final blocks from several peers at once, judges them, and hands them to consensus one
// after the other. What peers say of their height starts questions, and nothing else: that this node is behind is
// believed when blocks arrive that a known committee finalized. A thread of its own judges (signatures, hashes) and
// asks; the other functions may be called from any.
#pragma once

#include <deque>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "chain/consensus/sdbft/core.h"
#include "node/net/range_judge.h"
#include "p2p/network.h"
#include "p2p/sync/range_planner.h"

namespace quern::node {

inline constexpr std::uint64_t kSyncDistance = chain::consensus::sdbft::kRangeDistance;  // behind by more: catching up
inline constexpr std::uint64_t kAskedMs = 5'000;       // so long consensus' wish for a range counts
inline constexpr std::uint64_t kSyncTickMs = 100;      // while something is open
inline constexpr std::uint64_t kHandAgainMs = 2'000;   // consensus took nothing of a range: it gets it again
inline constexpr std::uint64_t kSyncQuietMs = 10'000;  // nothing came for so long: not catching up any more
inline constexpr std::uint64_t kSyncReportMs = 5'000;  // a line in the log while catching up
inline constexpr std::size_t kMaxJudgedRanges = 2;     // judged and not yet committed
// The core finds room for all that may become final at once.
static_assert(p2p::sync::kMaxAheadBlocks <= 2 * chain::consensus::sdbft::kMaxBlocksKept);

class RangeSync {
public:
    struct Parts {
        const Clock& clock;  // outlives it
        RangeRules rules;
        std::uint64_t tip = 0;
        Hash32 tip_hash;
        // Called on the sync thread.
        std::function<void(const Bytes20& peer, const p2p::messages::GetRange& asked, std::uint64_t timeout_ms,
                           p2p::Answer<p2p::messages::Range> answer)>
            request;
        std::function<void(chain::consensus::sdbft::RangeAnswer range, const Bytes20& from)> deliver;
        std::function<void(const Bytes20& peer, p2p::Offence offence)> report;
        // Of an epoch; nullopt while the committed state does not know it.
        std::function<std::optional<chain::consensus::Committee>(std::uint64_t epoch)> committee;
        // This peer showed a final block at `number` that does not follow the chain's block before it.
        std::function<void(const Bytes20& peer, std::uint64_t number)> forked;
    };
    explicit RangeSync(Parts parts);
    ~RangeSync() { stop(); }
    RangeSync(const RangeSync&) = delete;
    RangeSync& operator=(const RangeSync&) = delete;

    void start();
    void stop();

    void peer_joined(const Bytes20& peer, const p2p::messages::Status& status, bool fixed);
    void peer_said(const Bytes20& peer, const p2p::messages::Status& status);
    void peer_left(const Bytes20& peer);
    // Consensus wants blocks from its tip on, of anybody.
    void ask();
    // Consensus took note of a committed block.
    void committed(std::uint64_t number, const Hash32& hash);

    struct Progress {
        bool syncing = false;
        std::uint64_t first = 0;  // where catching up began
        std::uint64_t number = 0;
        std::uint64_t target = 0;
    };
    [[nodiscard]] Progress progress() const;

private:
    struct Judged {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        Hash32 hash;
        Bytes20 from;  // of the last block, which came with the certificate
        chain::consensus::sdbft::RangeAnswer answer;
    };
    void run();
    // One round: what is here is judged, what may go to consensus goes, what is missing is asked for.
    void round() QUERN_REQUIRES(mutex_);
    void judge() QUERN_REQUIRES(mutex_);
    [[nodiscard]] bool waits_for_checkpoint(std::uint64_t until) const QUERN_REQUIRES(mutex_);
    [[nodiscard]] RangeVerdict judge_here(const std::vector<const p2p::messages::BlockAnswer*>& blocks,
                                          std::uint64_t first, const Hash32& parent,
                                          const chain::consensus::Committee& committee) const;
    void take(const RangeVerdict& verdict, std::uint64_t first,
              const std::vector<p2p::sync::RangePlanner::Block>& blocks) QUERN_REQUIRES(mutex_);
    void hand_over() QUERN_REQUIRES(mutex_);
    void ask_peers() QUERN_REQUIRES(mutex_);
    void answered(const Bytes20& peer, std::uint64_t first, Expected<p2p::messages::Range> range);
    void note_progress() QUERN_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t target() const QUERN_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t judged_until() const QUERN_REQUIRES(mutex_) {
        return judged_.empty() ? tip_ : judged_.back().last;
    }
    [[nodiscard]] bool is_active(std::uint64_t now_ms) const QUERN_REQUIRES(mutex_);

    const Parts parts_;
    OsRng rng_;
    std::thread thread_;
    mutable Mutex mutex_;
    CondVar changed_;
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    bool woken_ QUERN_GUARDED_BY(mutex_) = false;
    p2p::sync::RangePlanner planner_ QUERN_GUARDED_BY(mutex_);
    std::map<Bytes20, p2p::sync::RangePlanner::Source> sources_ QUERN_GUARDED_BY(mutex_);
    std::uint64_t tip_ QUERN_GUARDED_BY(mutex_);
    Hash32 tip_hash_ QUERN_GUARDED_BY(mutex_);
    std::deque<Judged> judged_ QUERN_GUARDED_BY(mutex_);
    bool unjudged_ QUERN_GUARDED_BY(mutex_) = false;                   // something came since the last look
    std::optional<std::uint64_t> handed_ms_ QUERN_GUARDED_BY(mutex_);  // the first judged range
    std::uint64_t asked_until_ms_ QUERN_GUARDED_BY(mutex_) = 0;
    bool catching_up_ QUERN_GUARDED_BY(mutex_) = false;
    std::uint64_t moved_ms_ QUERN_GUARDED_BY(mutex_) = 0;  // verified blocks came, or one was committed
    std::uint64_t first_ QUERN_GUARDED_BY(mutex_);
    std::uint64_t began_ms_ QUERN_GUARDED_BY(mutex_) = 0;
    std::uint64_t reported_ms_ QUERN_GUARDED_BY(mutex_) = 0;
    std::uint64_t reported_number_ QUERN_GUARDED_BY(mutex_) = 0;
};

}  // namespace quern::node
