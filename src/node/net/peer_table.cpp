#include "node/net/peer_table.h"

#include <algorithm>

namespace quern::node {

PeerTable::PeerId PeerTable::add(const Bytes20& address) {
    const MutexLock lock(mutex_);
    PeerId& id = peers_[address];
    by_id_.erase(id);
    id = next_id_++;
    by_id_[id] = address;
    return id;
}

std::optional<PeerTable::PeerId> PeerTable::remove(const Bytes20& address) {
    const MutexLock lock(mutex_);
    const auto known = peers_.find(address);
    if (known == peers_.end()) return std::nullopt;
    const PeerId id = known->second;
    by_id_.erase(id);
    peers_.erase(known);
    return id;
}

void PeerTable::set_committee(std::vector<Bytes20> members) {
    std::sort(members.begin(), members.end());
    const MutexLock lock(mutex_);
    committee_ = std::move(members);
}

std::optional<PeerTable::PeerId> PeerTable::id_of(const Bytes20& address) const {
    const MutexLock lock(mutex_);
    const auto known = peers_.find(address);
    return known == peers_.end() ? std::nullopt : std::optional(known->second);
}

bool PeerTable::is_member(const Bytes20& address) const {
    const MutexLock lock(mutex_);
    return std::binary_search(committee_.begin(), committee_.end(), address);
}

std::optional<Bytes20> PeerTable::address_of(PeerId peer) const {
    const MutexLock lock(mutex_);
    const auto known = by_id_.find(peer);
    return known == by_id_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<Bytes20> PeerTable::pick() {
    const MutexLock lock(mutex_);
    std::vector<Bytes20> members;
    std::vector<Bytes20> others;
    for (const auto& [address, id] : peers_)
        (std::binary_search(committee_.begin(), committee_.end(), address) ? members : others).push_back(address);
    const auto& candidates = members.empty() ? others : members;
    if (candidates.empty()) return std::nullopt;
    return candidates[rng_.below(candidates.size())];
}

std::size_t PeerTable::size() const {
    const MutexLock lock(mutex_);
    return peers_.size();
}

}  // namespace quern::node
