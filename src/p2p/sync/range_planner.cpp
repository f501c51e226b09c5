#include "p2p/sync/range_planner.h"

#include <algorithm>

namespace quern::p2p::sync {

void RangePlanner::add_peer(const Peer& peer, std::uint64_t earliest, std::uint64_t head) {
    PeerState& state = peers_[peer];
    state.earliest = earliest;
    state.head = head;
}

void RangePlanner::give_back(std::uint64_t first, std::uint64_t last) {
    if (first > last) return;
    // Joined with what follows directly, so that slices do not crumble.
    const auto after = unassigned_.find(last + 1);
    if (after != unassigned_.end()) {
        last = after->second;
        unassigned_.erase(after);
    }
    unassigned_[first] = last;
}

void RangePlanner::land(std::map<std::uint64_t, Flight>::iterator flight) {
    if (const auto peer = peers_.find(flight->second.peer); peer != peers_.end()) --peer->second.in_flight;
    flights_.erase(flight);
}

void RangePlanner::remove_peer(const Peer& peer) {
    peers_.erase(peer);
    for (auto at = flights_.begin(); at != flights_.end();) {
        const auto flight = at++;
        if (flight->second.peer != peer) continue;
        give_back(flight->first, flight->second.last);
        flights_.erase(flight);
    }
}

std::vector<RangePlanner::Ask> RangePlanner::next_asks(std::uint64_t now_ms) {
    std::vector<Ask> asks;
    while (!unassigned_.empty()) {
        const std::uint64_t first = unassigned_.begin()->first;
        const std::uint64_t end = unassigned_.begin()->second;
        // The very next block may always be asked for; it is what drains the rest.
        if (first != next_ && (first >= next_ + kMaxAheadBlocks || waiting_bytes_ >= kMaxAheadBytes)) break;
        // The least busy peer that has the block; ties by address, so a replay asks the same.
        auto best = peers_.end();
        for (auto at = peers_.begin(); at != peers_.end(); ++at) {
            const PeerState& state = at->second;
            if (state.excluded || now_ms < state.not_before_ms || state.in_flight >= kMaxSlicesPerPeer ||
                first < state.earliest || first > state.head)
                continue;
            if (best == peers_.end() || state.in_flight < best->second.in_flight) best = at;
        }
        if (best == peers_.end()) break;
        const std::uint64_t last = std::min({end, first + kSliceBlocks - 1, best->second.head});
        unassigned_.erase(unassigned_.begin());
        if (last < end) unassigned_[last + 1] = end;
        flights_[first] = Flight{best->first, last, now_ms + kSliceMs};
        ++best->second.in_flight;
        asks.push_back({best->first, {first, last - first + 1, messages::kMaxRangeMessage - (1U << 20)}});
    }
    return asks;
}

quern::Status RangePlanner::received(const Peer& peer, std::uint64_t first, std::vector<messages::BlockAnswer> blocks) {
    const auto flight = flights_.find(first);
    if (flight == flights_.end() || flight->second.peer != peer) return fail("range.unasked");
    const std::uint64_t last = flight->second.last;
    if (blocks.empty() || blocks.size() > last - first + 1) {
        const bool is_empty = blocks.empty();
        failed(peer, first);
        return is_empty ? fail("range.empty") : fail("range.too_many");
    }
    land(flight);
    failures_ = 0;
    std::uint64_t number = first;
    for (auto& block : blocks) {
        waiting_bytes_ += block.block.size() + block.certificate.size();
        waiting_[number] = Delivered{number, std::move(block), peer};
        ++number;
    }
    give_back(number, last);
    return {};
}

void RangePlanner::failed(const Peer& peer, std::uint64_t first) {
    const auto flight = flights_.find(first);
    if (flight == flights_.end() || flight->second.peer != peer) return;
    const std::uint64_t last = flight->second.last;
    land(flight);
    give_back(first, last);
    ++failures_;
    if (const auto at = peers_.find(peer); at != peers_.end()) at->second.excluded = true;
}

void RangePlanner::busy(const Peer& peer, std::uint64_t first, std::uint64_t now_ms) {
    const auto flight = flights_.find(first);
    if (flight == flights_.end() || flight->second.peer != peer) return;
    const std::uint64_t last = flight->second.last;
    land(flight);
    give_back(first, last);
    if (const auto at = peers_.find(peer); at != peers_.end()) at->second.not_before_ms = now_ms + kBusyPauseMs;
}

std::vector<RangePlanner::Peer> RangePlanner::expired(std::uint64_t now_ms) {
    std::vector<std::pair<Peer, std::uint64_t>> late;
    for (const auto& [first, flight] : flights_)
        if (flight.deadline_ms <= now_ms) late.emplace_back(flight.peer, first);
    std::vector<Peer> peers;
    for (const auto& [peer, first] : late) {
        failed(peer, first);
        if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
    }
    return peers;
}

std::vector<RangePlanner::Delivered> RangePlanner::take_ready() {
    std::vector<Delivered> ready;
    for (auto at = waiting_.find(next_); at != waiting_.end(); at = waiting_.find(next_)) {
        waiting_bytes_ -= at->second.answer.block.size() + at->second.answer.certificate.size();
        ready.push_back(std::move(at->second));
        waiting_.erase(at);
        ++next_;
    }
    return ready;
}

bool RangePlanner::is_stuck() const {
    if (is_done()) return false;
    if (failures_ >= kMaxSliceFailures) return true;
    return flights_.empty() && std::none_of(peers_.begin(), peers_.end(), [this](const auto& peer) {
               return !peer.second.excluded && next_ >= peer.second.earliest && next_ <= peer.second.head;
           });
}

}  // namespace quern::p2p::sync
