#include "node/net/peer_table.h"

#include <algorithm>

namespace quern::node {

PeerTable::PeerId PeerTable::add(const Bytes20& address, const p2p::messages::Status& status, bool fixed) {
    const std::lock_guard lock(mutex_);
    Entry& entry = peers_[address];
    by_id_.erase(entry.id);
    entry = {next_id_++, status, fixed};
    by_id_[entry.id] = address;
    return entry.id;
}

std::optional<PeerTable::PeerId> PeerTable::remove(const Bytes20& address) {
    const std::lock_guard lock(mutex_);
    const auto known = peers_.find(address);
    if (known == peers_.end()) return std::nullopt;
    const PeerId id = known->second.id;
    by_id_.erase(id);
    peers_.erase(known);
    return id;
}

void PeerTable::set_status(const Bytes20& address, const p2p::messages::Status& status) {
    const std::lock_guard lock(mutex_);
    if (const auto known = peers_.find(address); known != peers_.end()) known->second.status = status;
}

void PeerTable::set_committee(std::vector<Bytes20> members) {
    std::sort(members.begin(), members.end());
    const std::lock_guard lock(mutex_);
    committee_ = std::move(members);
}

std::optional<PeerTable::PeerId> PeerTable::id_of(const Bytes20& address) const {
    const std::lock_guard lock(mutex_);
    const auto known = peers_.find(address);
    return known == peers_.end() ? std::nullopt : std::optional(known->second.id);
}

std::optional<Bytes20> PeerTable::address_of(PeerId peer) const {
    const std::lock_guard lock(mutex_);
    const auto known = by_id_.find(peer);
    return known == by_id_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<Bytes20> PeerTable::pick(std::uint64_t height) {
    const std::lock_guard lock(mutex_);
    std::vector<Bytes20> members;
    std::vector<Bytes20> others;
    for (const auto& [address, entry] : peers_) {
        if (entry.status.finalized_number < height) continue;
        const bool member = std::binary_search(committee_.begin(), committee_.end(), address);
        (member ? members : others).push_back(address);
    }
    const auto& candidates = members.empty() ? others : members;
    if (candidates.empty()) return std::nullopt;
    return candidates[rng_.below(candidates.size())];
}

std::uint64_t PeerTable::finalized() const {
    const std::lock_guard lock(mutex_);
    std::optional<std::uint64_t> trusted;
    std::uint64_t any = 0;
    for (const auto& [address, entry] : peers_) {
        any = std::max(any, entry.status.finalized_number);
        if (entry.fixed || std::binary_search(committee_.begin(), committee_.end(), address))
            trusted = std::max(trusted.value_or(0), entry.status.finalized_number);
    }
    return trusted.value_or(any);
}

std::uint64_t PeerTable::finalized_of(const Bytes20& address) const {
    const std::lock_guard lock(mutex_);
    const auto known = peers_.find(address);
    return known == peers_.end() ? 0 : known->second.status.finalized_number;
}

std::size_t PeerTable::size() const {
    const std::lock_guard lock(mutex_);
    return peers_.size();
}

}  // namespace quern::node
