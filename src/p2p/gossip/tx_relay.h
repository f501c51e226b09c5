// Transactions by announcement: peers tell short ids of what they have, the node asks one of them for what it lacks and
// another one when that fails. Pure: time is an argument in milliseconds; network.cpp sends what the calls return. One
// thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>

#include "p2p/messages/messages.h"

namespace quern::p2p::gossip {

using messages::ShortId;

inline constexpr std::size_t kMaxRecent = 32'768;  // transactions kept to answer requests
inline constexpr std::size_t kMaxRecentBytes = 32U << 20;
inline constexpr std::size_t kMaxKnownPerPeer = 32'768;  // ids that a peer is known to have
inline constexpr std::size_t kMaxQueuedPerPeer = 8192;   // ids waiting to be announced to it
inline constexpr std::size_t kMaxInFlight = 16'384;
inline constexpr std::size_t kMaxInFlightPerPeer = 2048;
inline constexpr std::size_t kMaxAlternates = 3;
inline constexpr std::uint64_t kTxRequestMs = 2'000;
inline constexpr std::size_t kMaxTransactionsBytes = 768U << 10;  // of one answer

// Oldest out first.
class BoundedIds {
public:
    explicit BoundedIds(std::size_t capacity) : capacity_(capacity) {}
    bool insert(const ShortId& id) {
        if (!ids_.insert(id).second) return false;
        order_.push_back(id);
        if (order_.size() > capacity_) {
            ids_.erase(order_.front());
            order_.pop_front();
        }
        return true;
    }
    [[nodiscard]] bool contains(const ShortId& id) const { return ids_.count(id) != 0; }

private:
    std::size_t capacity_;
    std::set<ShortId> ids_;
    std::deque<ShortId> order_;
};

class TxRelay {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        std::vector<ShortId> ids;
    };

    void add_peer(const Peer& peer);
    void remove_peer(const Peer& peer);

    // The node has this transaction now (from RPC or from a peer): keep it and announce it to who lacks it.
    void have(const Hash32& hash, const Bytes& encoded);
    // Ids to announce to the peer now, at most messages::kMaxShortIds; they count as told.
    [[nodiscard]] std::vector<ShortId> take_announcements(const Peer& peer);

    // A peer announced; `wanted` says whether the node lacks it. The ids to ask this peer for.
    [[nodiscard]] std::vector<ShortId> announced(const Peer& peer, const std::vector<ShortId>& ids,
                                                 const std::function<bool(const ShortId&)>& wanted,
                                                 std::uint64_t now_ms);
    // A peer's answer to get_transactions. Those that were asked of it, by hash. Error tx_relay.unsolicited.
    [[nodiscard]] Expected<std::vector<Bytes>> received(const Peer& peer, std::vector<Bytes> encoded);
    // It answered without some of what was asked: `asked` that are still missing go to others.
    [[nodiscard]] std::vector<Ask> not_delivered(const Peer& peer, const std::vector<ShortId>& asked,
                                                 std::uint64_t now_ms);
    // Requests whose time is over: whom to ask next. `late` gets the peers that failed.
    [[nodiscard]] std::vector<Ask> expired(std::uint64_t now_ms, std::vector<Peer>& late);

    // What is kept; null when it is not.
    [[nodiscard]] const Bytes* find(const ShortId& id) const;
    [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }
    [[nodiscard]] std::size_t recent() const { return recent_.size(); }

private:
    struct PeerState {
        BoundedIds known{kMaxKnownPerPeer};
        std::deque<ShortId> to_announce;
        std::size_t in_flight = 0;
    };
    struct Flight {
        Peer peer;
        std::uint64_t deadline_ms = 0;
        std::deque<Peer> alternates;
    };
    void land(const ShortId& id);
    void ask_next(const ShortId& id, Flight& flight, std::uint64_t now_ms, std::map<Peer, std::vector<ShortId>>& asks);

    std::map<Peer, PeerState> peers_;
    std::map<ShortId, Bytes> recent_;
    std::deque<ShortId> recent_order_;
    std::size_t recent_bytes_ = 0;
    std::map<ShortId, Flight> in_flight_;
};

}  // namespace quern::p2p::gossip
