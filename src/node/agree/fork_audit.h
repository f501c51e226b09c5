// What to do when a peer's final chain is not ours: either it lies, or more than a third of the weight signed two
// histories. It is asked for the final block at a height where they differ; a valid finalization of it proves the fork,
// and the certificates about the lower of the two finalized views, ours and the peer's, convict who signed both
// (doc/consensus.md, Evidence). Histories that parted in an earlier epoch have committees of their own since: what does
// not hold under ours is looked at in the first epoch in which they differ, found by halving. At most kMaxAudits begin
// at once, each peer once in a while. Thread-safe.
#pragma once

#include "base/clock.h"
#include "node/agree/certificate_keeper.h"
#include "node/net/range_judge.h"
#include "p2p/network.h"

namespace quern::node {

inline constexpr std::size_t kMaxAudits = 4;
inline constexpr std::uint64_t kAuditAgainMs = 600'000;     // the same peer
inline constexpr std::size_t kMaxAuditsRemembered = 1'024;  // the oldest are forgotten first
inline constexpr std::uint64_t kCompareMs = 1'000;          // a peer's word is compared at most so often
inline constexpr std::uint64_t kAuditRequestMs = 5'000;

class ForkAudit {
public:
    struct Parts {  // what it refers to outlives it
        const Clock& clock;
        const SnapshotBoard& board;
        DutyQueue& duties;
        CertificateKeeper& certificates;
        RangeRules rules;
        std::function<std::optional<chain::consensus::Committee>(std::uint64_t epoch)> committee;
        std::function<void(const Bytes20& peer, const p2p::messages::GetRange& asked, std::uint64_t timeout_ms,
                           p2p::Answer<p2p::messages::Range> answer)>
            request_range;
        std::function<void(const Bytes20& peer, const p2p::messages::GetCertificate& asked, std::uint64_t timeout_ms,
                           p2p::Answer<p2p::messages::CertificateAnswer> answer)>
            request_certificate;
        std::function<void(const Bytes20& peer, p2p::Offence offence)> report;
    };
    explicit ForkAudit(Parts parts) : parts_(std::move(parts)) {}

    // A peer says that this is its newest final block.
    void said(const Bytes20& peer, const p2p::messages::Status& status);
    // A peer's final block at this height is not ours, or what it has above does not follow ours.
    void suspect(const Bytes20& peer, std::uint64_t number);

private:
    using Committee = chain::consensus::Committee;
    // Asks for one block and those after it of its epoch, as far as `blocks`; `then` runs as a duty, with one at least.
    void ask(const Bytes20& peer, std::uint64_t number, std::uint64_t blocks,
             std::function<void(const p2p::messages::Range& range)> then);
    // The first epoch in which the peer's history is another is one of [first, last]; it differs at `number`, of the
    // last. What it has shown at `shown` does not hold under our committee: an offence, if that is of the first one.
    struct Parted {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        std::uint64_t number = 0;
        std::uint64_t shown = 0;
        p2p::Offence offence = p2p::Offence::invalid_consensus;
    };
    void find_parting(const Bytes20& peer, const Parted& parted);
    // `first`: nothing was looked at before.
    void audit(const Bytes20& peer, std::uint64_t number, const p2p::messages::Range& range, bool first);
    void convict(const Bytes20& peer, std::uint64_t number, const chain::consensus::Certificate& theirs);
    void take(const Bytes20& peer, std::uint64_t epoch, std::uint64_t view,
              const p2p::messages::CertificateAnswer& answer);
    [[nodiscard]] std::optional<Hash32> own_hash(std::uint64_t number) const;
    void over();

    const Parts parts_;
    mutable Mutex mutex_;
    std::size_t running_ QUERN_GUARDED_BY(mutex_) = 0;
    std::map<Bytes20, std::uint64_t> audited_ms_ QUERN_GUARDED_BY(mutex_);
    std::map<Bytes20, std::uint64_t> compared_ms_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
