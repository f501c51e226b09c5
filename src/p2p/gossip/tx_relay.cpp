#include "p2p/gossip/tx_relay.h"

#include <algorithm>

namespace quern::p2p::gossip {
namespace {

std::vector<TxRelay::Ask> as_asks(std::map<TxRelay::Peer, std::vector<ShortId>>&& asks) {
    std::vector<TxRelay::Ask> out;
    for (auto& [peer, ids] : asks) out.push_back({peer, std::move(ids)});
    return out;
}

}  // namespace

void TxRelay::add_peer(const Peer& peer) {
    PeerState& state = peers_[peer];
    // It hears of what is freshest here.
    const std::size_t skip = recent_order_.size() - std::min(recent_order_.size(), kMaxQueuedPerPeer);
    state.to_announce.assign(recent_order_.begin() + static_cast<std::ptrdiff_t>(skip), recent_order_.end());
}

void TxRelay::remove_peer(const Peer& peer) {
    peers_.erase(peer);
    for (auto& [id, flight] : in_flight_)
        if (flight.peer == peer) flight.deadline_ms = 0;  // expired() moves it on
}

void TxRelay::have(const Hash32& hash, const Bytes& encoded) {
    const ShortId id = messages::short_id(hash);
    land(id);
    if (!recent_.emplace(id, encoded).second) return;
    recent_order_.push_back(id);
    recent_bytes_ += encoded.size();
    while (recent_order_.size() > kMaxRecent || recent_bytes_ > kMaxRecentBytes) {
        const auto oldest = recent_.find(recent_order_.front());
        recent_bytes_ -= oldest->second.size();
        recent_.erase(oldest);
        recent_order_.pop_front();
    }
    for (auto& [peer, state] : peers_)
        if (!state.known.contains(id) && state.to_announce.size() < kMaxQueuedPerPeer) state.to_announce.push_back(id);
}

std::vector<ShortId> TxRelay::take_announcements(const Peer& peer) {
    std::vector<ShortId> ids;
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return ids;
    auto& queue = at->second.to_announce;
    while (!queue.empty() && ids.size() < messages::kMaxShortIds) {
        if (at->second.known.insert(queue.front())) ids.push_back(queue.front());
        queue.pop_front();
    }
    return ids;
}

std::vector<ShortId> TxRelay::announced(const Peer& peer, const std::vector<ShortId>& ids,
                                        const std::function<bool(const ShortId&)>& wanted, std::uint64_t now_ms) {
    std::vector<ShortId> ask;
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return ask;
    for (const auto& id : ids) {
        at->second.known.insert(id);
        if (recent_.count(id) != 0) continue;
        if (const auto flying = in_flight_.find(id); flying != in_flight_.end()) {
            auto& others = flying->second.alternates;
            if (flying->second.peer != peer && others.size() < kMaxAlternates &&
                std::find(others.begin(), others.end(), peer) == others.end())
                others.push_back(peer);
            continue;
        }
        if (in_flight_.size() >= kMaxInFlight || at->second.in_flight >= kMaxInFlightPerPeer || !wanted(id)) continue;
        in_flight_[id] = Flight{peer, now_ms + kTxRequestMs, {}};
        ++at->second.in_flight;
        ask.push_back(id);
    }
    return ask;
}

void TxRelay::land(const ShortId& id) {
    const auto at = in_flight_.find(id);
    if (at == in_flight_.end()) return;
    if (const auto peer = peers_.find(at->second.peer); peer != peers_.end()) --peer->second.in_flight;
    in_flight_.erase(at);
}

Expected<std::vector<Bytes>> TxRelay::received(const Peer& peer, std::vector<Bytes> encoded) {
    for (const auto& each : encoded) {
        const ShortId id = messages::short_id(chain::types::transaction_hash(each));
        const auto at = in_flight_.find(id);
        // The request may have moved on to another peer meanwhile: late is no offence.
        if (at == in_flight_.end() && recent_.count(id) == 0 &&
            (peers_.count(peer) == 0 || !peers_.at(peer).known.contains(id)))
            return fail("tx_relay.unsolicited");
        land(id);
    }
    return encoded;
}

void TxRelay::ask_next(const ShortId& id, Flight& flight, std::uint64_t now_ms,
                       std::map<Peer, std::vector<ShortId>>& asks) {
    if (const auto old = peers_.find(flight.peer); old != peers_.end()) --old->second.in_flight;
    while (!flight.alternates.empty()) {
        const auto next = peers_.find(flight.alternates.front());
        flight.alternates.pop_front();
        if (next == peers_.end() || next->second.in_flight >= kMaxInFlightPerPeer) continue;
        flight.peer = next->first;
        flight.deadline_ms = now_ms + kTxRequestMs;
        ++next->second.in_flight;
        asks[next->first].push_back(id);
        return;
    }
    in_flight_.erase(id);
}

std::vector<TxRelay::Ask> TxRelay::not_delivered(const Peer& peer, const std::vector<ShortId>& asked,
                                                 std::uint64_t now_ms) {
    std::map<Peer, std::vector<ShortId>> asks;
    for (const auto& id : asked) {
        const auto at = in_flight_.find(id);
        if (at != in_flight_.end() && at->second.peer == peer) ask_next(id, at->second, now_ms, asks);
    }
    return as_asks(std::move(asks));
}

std::vector<TxRelay::Ask> TxRelay::expired(std::uint64_t now_ms, std::vector<Peer>& late) {
    std::map<Peer, std::vector<ShortId>> asks;
    std::vector<ShortId> over;
    for (const auto& [id, flight] : in_flight_)
        if (flight.deadline_ms <= now_ms) over.push_back(id);
    for (const auto& id : over) {
        Flight& flight = in_flight_.at(id);
        if (peers_.count(flight.peer) != 0 && std::find(late.begin(), late.end(), flight.peer) == late.end())
            late.push_back(flight.peer);
        ask_next(id, flight, now_ms, asks);
    }
    return as_asks(std::move(asks));
}

const Bytes* TxRelay::find(const ShortId& id) const {
    const auto at = recent_.find(id);
    return at == recent_.end() ? nullptr : &at->second;
}

}  // namespace quern::p2p::gossip
