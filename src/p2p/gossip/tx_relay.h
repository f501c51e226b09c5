// Transactions by announcement: peers tell short ids of what they have, the node asks one of them for what it lacks,
// and two others at once when that one is late. Every announcer is remembered, within a share of its own, so that
// nobody can suppress a transaction by announcing it first and saying no more, and nobody's announcements take
// another's room. Of strangers' announcements only so many ids a second are looked at, equal shares and as many again
// for who comes first: those of 64 at the full rate of their messages would leave this thread no time for votes. Fixed
// and outbound peers are asked before others, and whoever was late last. Members of the committee are connected with
// each other and tell each other what they have: what one of them told this node, the others hear from it, and from
// this node only later, if it still waits then. Pure: time is an argument in milliseconds; network.cpp sends what the
// calls return. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <unordered_map>

#include "base/rng.h"
#include "p2p/gossip/id_set.h"
#include "p2p/transport/token_bucket.h"

namespace quern::p2p::gossip {

inline constexpr std::size_t kMaxRecent = 32'768;  // transactions kept to answer requests
inline constexpr std::size_t kMaxRecentBytes = 32U << 20;
// Delivered and not taken in yet, for proposals that hold them already; the oldest goes.
inline constexpr std::size_t kMaxDelivered = 8'192;
inline constexpr std::size_t kMaxDeliveredBytes = 8U << 20;
inline constexpr std::size_t kMaxKnownPerPeer = 16'384;  // ids that a peer is known to have; the oldest is forgotten
inline constexpr std::size_t kMaxQueuedPerPeer = 8192;   // ids waiting to be announced to it
// Ids that it announced and nobody has delivered. A peer may be asked for all of them at once: more than it may be
// asked for would have to be looked at again and again until it may, which strangers could make many of.
inline constexpr std::size_t kMaxAnnouncedPerPeer = 2048;
inline constexpr std::size_t kMaxAnnouncedTrusted = 8192;
// Announced ids that are looked at, of all who are not trusted: so many in equal shares, and so many beyond.
inline constexpr std::uint64_t kStrangersIdsPerSecond = 100'000;
inline constexpr std::uint64_t kStrangersIdsBurst = 4 * messages::kMaxShortIds;  // of each
inline constexpr std::size_t kAskedAtOnce = 2;        // peers for one transaction, after the first was late
inline constexpr std::uint64_t kTxRequestMs = 2'000;  // the longest wait for an answer before others are asked
inline constexpr std::uint64_t kLeastTxRequestMs = 300;
inline constexpr std::uint64_t kTellMembersMs = 2'000;  // what a member told is told to the others after so long
inline constexpr std::size_t kMaxTransactionsBytes = 768U << 10;  // of one answer
inline constexpr std::size_t kMaxVoidLooks = 4096;                // in looks_, beside as many as are wanted

class TxRelay {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        std::vector<ShortId> ids;
    };

    // `rng` outlives the relay.
    explicit TxRelay(Rng& rng) : rng_(rng) {}

    // `trusted`: fixed, or chosen by this node.
    void add_peer(const Peer& peer, bool trusted = false);
    void remove_peer(const Peer& peer);
    void set_round_trip(const Peer& peer, std::uint64_t round_trip_ms);
    // Of the committee: whether the peer hears from the others what they have.
    void set_member(const Peer& peer, bool is_member);

    // The node has this transaction now (from RPC or from a peer): keep it and announce it to who lacks it.
    void have(const Hash32& hash, std::shared_ptr<const Bytes> encoded, std::uint64_t now_ms);
    // What members are still to be told, because it has not come into a block for so long.
    void tell_members(const std::function<bool(const ShortId&)>& still_waits, std::uint64_t now_ms);
    // Ids to announce to the peer now, at most messages::kMaxShortIds; they count as told.
    [[nodiscard]] std::vector<ShortId> take_announcements(const Peer& peer);

    // A peer announced; `wanted` says whether the node lacks it. The ids to ask this peer for now; what others are to
    // be asked for meanwhile, expired() says. Ids beyond a stranger's share are passed over.
    [[nodiscard]] std::vector<ShortId> announced(const Peer& peer, const std::vector<ShortId>& ids,
                                                 const std::function<bool(const ShortId&)>& wanted,
                                                 std::uint64_t now_ms);
    // A peer's answer to get_transactions for `asked`. Error tx_relay.unsolicited: something else is among it.
    [[nodiscard]] Expected<std::vector<Bytes>> received(const Peer& peer, const std::vector<ShortId>& asked,
                                                        std::vector<Bytes> encoded);
    // It answered without some of what was asked: `asked` that are still missing go to others.
    [[nodiscard]] std::vector<Ask> not_delivered(const Peer& peer, const std::vector<ShortId>& asked,
                                                 std::uint64_t now_ms);
    // Whom to ask next for what is late, or could not be asked for before.
    [[nodiscard]] std::vector<Ask> expired(std::uint64_t now_ms);

    // What is kept; null when it is not.
    [[nodiscard]] const Bytes* find(const ShortId& id) const;
    [[nodiscard]] bool has(const Hash32& hash) const;
    struct Recent {
        Hash32 hash;
        std::shared_ptr<const Bytes> encoded;
        std::uint64_t since_ms = 0;
        bool told_by_member = false;
    };
    // What is kept, or was delivered and waits to be taken in, whether it is any good or not; null when it is neither.
    [[nodiscard]] const Recent* find_here(const ShortId& id) const;
    [[nodiscard]] std::size_t delivered() const { return delivered_.by_id().size(); }
    // Whether members probably have it: one of them told this node, or this node has had it for `spread_ms`.
    [[nodiscard]] bool is_spread(const Hash32& hash, std::uint64_t spread_ms, std::uint64_t now_ms) const;
    [[nodiscard]] const std::unordered_map<ShortId, Recent, ShortIdHasher>& recent() const { return recent_.by_id(); }
    [[nodiscard]] std::size_t wanted() const { return wanted_.size(); }
    // Ids that this peer announced and nobody delivered, and those of them that it is asked for.
    [[nodiscard]] std::size_t announced_by(const Peer& peer) const;
    [[nodiscard]] std::size_t in_flight(const Peer& peer) const;

private:
    // The newest transactions, as many as there is room for.
    class Newest {
    public:
        Newest(std::size_t max_count, std::size_t max_bytes) : max_count_(max_count), max_bytes_(max_bytes) {}
        // No effect when it is there already.
        void add(const ShortId& id, Recent transaction);
        // Null when it is not there.
        [[nodiscard]] const Recent* find(const ShortId& id) const;
        [[nodiscard]] const std::unordered_map<ShortId, Recent, ShortIdHasher>& by_id() const { return by_id_; }
        [[nodiscard]] const std::deque<ShortId>& order() const { return order_; }  // oldest first

    private:
        std::size_t max_count_;
        std::size_t max_bytes_;
        std::unordered_map<ShortId, Recent, ShortIdHasher> by_id_;
        std::deque<ShortId> order_;
        std::size_t bytes_ = 0;
    };
    struct PeerState {
        BoundedIds known{kMaxKnownPerPeer};
        std::deque<ShortId> to_announce;
        IdSet announced;
        std::size_t in_flight = 0;
        std::uint32_t late = 0;  // halves with each delivery
        std::uint64_t patience_ms = kTxRequestMs;
        transport::TokenBucket ids{0, kStrangersIdsBurst};  // that are looked at, unless it is trusted
        bool trusted = false;
        bool member = false;
        [[nodiscard]] bool is_stranger() const { return !trusted && !member; }
    };
    struct Announcer {
        Peer peer;
        enum class State : std::uint8_t { waits, asked, over } state = State::waits;
        std::uint64_t deadline_ms = 0;
    };
    struct Wanted {
        std::vector<Announcer> announcers;
        std::uint64_t look_ms = 0;  // as in its valid entry of looks_
        bool was_late = false;
    };
    struct Look {
        std::uint64_t when_ms = 0;
        ShortId id;
        bool operator>(const Look& other) const { return std::pair(when_ms, id) > std::pair(other.when_ms, other.id); }
    };
    using Asks = std::map<Peer, std::vector<ShortId>>;

    static void queue_for(PeerState& peer, const ShortId& id);
    void count_strangers();
    // Of `count` ids that it announces, how many are looked at.
    std::size_t take_share(PeerState& peer, std::size_t count, std::uint64_t now_ms);
    void forget(const ShortId& id);
    void ask_some(const ShortId& id, Wanted& wanted, std::uint64_t now_ms, Asks& asks);
    void give_up(const ShortId& id, Announcer& announcer);
    void look_at(const ShortId& id, Wanted& wanted, std::uint64_t when_ms);

    Rng& rng_;
    std::map<Peer, PeerState> peers_;
    std::size_t strangers_ = 0;  // of peers_: neither trusted nor of the committee
    transport::TokenBucket beyond_shares_{kStrangersIdsPerSecond, kStrangersIdsPerSecond};
    Newest recent_{kMaxRecent, kMaxRecentBytes};
    Newest delivered_{kMaxDelivered, kMaxDeliveredBytes};
    struct Later {
        std::uint64_t when_ms = 0;
        ShortId id;
    };
    std::deque<Later> later_;  // members hear of it then; of as many as are recent
    std::unordered_map<ShortId, Wanted, ShortIdHasher> wanted_;
    // When to look at which wanted one again, soonest first. An entry whose time is not its id's look_ms is void.
    std::priority_queue<Look, std::vector<Look>, std::greater<>> looks_;
    Asks owed_;  // asked for in the relay's books, and not yet told to the caller
};

}  // namespace quern::p2p::gossip
