#include "p2p/peer_manager.h"

#include <algorithm>

namespace quern::p2p {

PeerManager::PeerManager(const Bytes20& self, PeerLimits limits, AddressBook& book, Rng& rng)
    : self_(self), limits_(limits), book_(book), rng_(rng) {}

void PeerManager::add_static(const Bytes20& address, const messages::Endpoint& endpoint) {
    if (address != self_) static_[address] = {endpoint};
}

void PeerManager::set_committee(const std::set<Bytes20>& members) {
    committee_ = members;
    committee_.erase(self_);
    for (auto& [address, peer] : peers_) peer.fixed = is_fixed(address);
}

bool PeerManager::may_dial(const Bytes20& address, std::uint64_t now_ms) const {
    if (address == self_ || peers_.count(address) != 0 || dialing_.count(address) != 0 || is_banned(address, now_ms))
        return false;
    const auto at = backoff_.find(address);
    return at == backoff_.end() || at->second.next_ms <= now_ms;
}

std::vector<std::string> PeerManager::fixed_hosts() const {
    std::vector<std::string> hosts;
    for (const auto& [address, known] : static_) hosts.push_back(known.endpoint.host);
    for (const auto& address : committee_)
        for (const auto& endpoint : book_.endpoints(address)) hosts.push_back(endpoint.host);
    return hosts;
}

bool PeerManager::take(std::vector<DialTarget>& due, const AddressBook::Candidate& target, DialReason reason) {
    if (dialing_.size() >= kMaxDialing) return false;
    dialing_[target.address] = {reason, target.endpoint};
    due.push_back({target.address, target.endpoint});
    return true;
}

std::vector<DialTarget> PeerManager::due_dials(std::uint64_t now_ms, std::uint64_t unix_seconds) {
    std::vector<DialTarget> due;
    for (const auto& [address, known] : static_)
        if (may_dial(address, now_ms)) (void)take(due, {address, known.endpoint}, DialReason::fixed);
    for (const auto& address : committee_) {
        if (!may_dial(address, now_ms)) continue;
        const auto endpoints = book_.endpoints(address);
        if (!endpoints.empty()) (void)take(due, {address, endpoints[rng_.below(endpoints.size())]}, DialReason::fixed);
    }
    dial_outbound(due, now_ms);
    dial_feeler(due, now_ms, unix_seconds);
    return due;
}

// Free outbound slots: one peer a network group, "local" excepted, dials under way included.
void PeerManager::dial_outbound(std::vector<DialTarget>& due, std::uint64_t now_ms) {
    std::set<std::string> groups;
    std::size_t outbound = 0;
    const auto count = [&](const std::string& host) {
        ++outbound;
        groups.insert(network_group(host));
    };
    for (const auto& [address, peer] : peers_)
        if (peer.outbound && !peer.fixed) count(peer.host);
    for (const auto& [address, dialing] : dialing_)
        if (dialing.reason == DialReason::outbound || dialing.reason == DialReason::seed) count(dialing.endpoint.host);
    if (outbound >= limits_.max_outbound) return lonely_since_ms_.reset();
    const auto dial = [&](const AddressBook::Candidate& target) {
        const std::string group = network_group(target.endpoint.host);
        if (!may_dial(target.address, now_ms) || (group != "local" && groups.contains(group)) ||
            !take(due, target, DialReason::outbound))
            return false;
        count(target.endpoint.host);
        return true;
    };
    bool any = outbound != 0;
    while (!anchors_.empty() && outbound < limits_.max_outbound) {
        any = dial(anchors_.front()) || any;
        anchors_.pop_front();
    }
    for (std::size_t tries = 0; outbound < limits_.max_outbound && tries < 2 * limits_.max_outbound; ++tries) {
        const auto target = book_.select();
        if (!target) break;
        any = dial(*target) || any;
    }
    if (any) return lonely_since_ms_.reset();
    if (!lonely_since_ms_) lonely_since_ms_ = now_ms;
    if (now_ms - *lonely_since_ms_ < kSeedPatienceMs) return;
    for (const auto& [address, endpoint] : seeds_) {
        if (outbound >= limits_.max_outbound) break;
        if (may_dial(address, now_ms) && take(due, {address, endpoint}, DialReason::seed)) count(endpoint.host);
    }
}

void PeerManager::dial_feeler(std::vector<DialTarget>& due, std::uint64_t now_ms, std::uint64_t unix_seconds) {
    if (limits_.max_outbound == 0) return;
    if (next_feeler_ms_ == 0) next_feeler_ms_ = now_ms + rng_.below(kFeelerMs) + 1;
    if (now_ms < next_feeler_ms_) return;
    next_feeler_ms_ = now_ms + kFeelerMs / 2 + rng_.below(kFeelerMs);
    book_.resolve_collisions(unix_seconds);
    const auto target = book_.feeler(unix_seconds);
    if (!target) return;
    // Who is connected at that very moment has passed.
    if (const auto at = peers_.find(target->address); at != peers_.end() && at->second.outbound)
        return book_.succeeded(target->address, at->second.dialled, unix_seconds);
    if (may_dial(target->address, now_ms)) (void)take(due, *target, DialReason::feeler);
}

bool PeerManager::feeler_arrived(const Bytes20& address, std::uint64_t unix_seconds) {
    const auto at = dialing_.find(address);
    if (at == dialing_.end() || at->second.reason != DialReason::feeler || is_fixed(address)) return false;
    book_.succeeded(address, at->second.endpoint, unix_seconds);
    dialing_.erase(at);
    return true;
}

void PeerManager::add_seed(const Bytes20& address, const messages::Endpoint& endpoint) {
    if (address != self_) seeds_[address] = endpoint;
}

bool PeerManager::is_seed(const Bytes20& address) const {
    const auto at = peers_.find(address);
    return at != peers_.end() && at->second.seed && !at->second.fixed;
}

std::vector<AddressBook::Candidate> PeerManager::anchors() const {
    std::vector<std::pair<std::uint64_t, AddressBook::Candidate>> outbound;
    for (const auto& [address, peer] : peers_)
        if (peer.outbound && !peer.fixed && !peer.seed) outbound.push_back({peer.since_ms, {address, peer.dialled}});
    std::stable_sort(outbound.begin(), outbound.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<AddressBook::Candidate> oldest;
    for (const auto& [since, candidate] : outbound)
        if (oldest.size() < kMaxAnchors) oldest.push_back(candidate);
    return oldest;
}

void PeerManager::back_off(const Bytes20& address, std::uint64_t now_ms) {
    Backoff& backoff = backoff_[address];
    // Up to a quarter more, so that nodes started together do not stay in step.
    backoff.next_ms = now_ms + backoff.delay_ms + rng_.below(backoff.delay_ms / 4 + 1);
    backoff.delay_ms = std::min(backoff.delay_ms * 2, kMaxBackoffMs);
    while (backoff_.size() > kMaxRememberedScores) backoff_.erase(backoff_.begin());
}

void PeerManager::dial_failed(const Bytes20& address, std::uint64_t now_ms, std::uint64_t unix_seconds) {
    if (dialing_.erase(address) == 0) return;
    book_.failed(address, unix_seconds);
    back_off(address, now_ms);
}

Status PeerManager::admit(const Bytes20& address, const std::string& host, bool outbound, std::uint64_t now_ms) {
    if (is_banned(address, now_ms)) return fail("peer.banned");
    if (outbound || is_fixed(address)) return {};
    const std::string group = network_group(host);
    std::size_t inbound = 0;
    std::size_t in_group = 0;
    for (const auto& [other, peer] : peers_) {
        if (peer.outbound || peer.fixed) continue;
        ++inbound;
        if (network_group(peer.host) == group) ++in_group;
    }
    if (group != "local" && in_group >= kMaxPerGroup) return fail("peer.group_full", group);
    if (inbound >= limits_.max_inbound) return fail("peer.slots_full");
    return {};
}

std::optional<Bytes20> PeerManager::evict() const {
    struct Candidate {
        Bytes20 address;
        const ConnectedPeer* peer;
    };
    std::vector<Candidate> rest;
    for (const auto& [address, peer] : peers_)
        if (!peer.outbound && !peer.fixed) rest.push_back({address, &peer});
    const auto protect = [&rest](std::size_t count, auto better) {
        std::stable_sort(rest.begin(), rest.end(),
                         [&](const Candidate& a, const Candidate& b) { return better(*a.peer, *b.peer); });
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(std::min(count, rest.size())));
    };
    protect(kProtectedByPing, [](const ConnectedPeer& a, const ConnectedPeer& b) {
        return a.least_rtt_us != 0 && (b.least_rtt_us == 0 || a.least_rtt_us < b.least_rtt_us);
    });
    protect(kProtectedByDelivery,
            [](const ConnectedPeer& a, const ConnectedPeer& b) { return a.deliveries > b.deliveries; });
    // Half of what is left stays for having stayed: an attacker must keep connections up to push honest ones out.
    protect(rest.size() / 2, [](const ConnectedPeer& a, const ConnectedPeer& b) { return a.since_ms < b.since_ms; });
    if (rest.empty()) return std::nullopt;
    std::map<std::string, std::size_t> groups;
    for (const auto& each : rest) ++groups[network_group(each.peer->host)];
    return std::max_element(rest.begin(), rest.end(),
                            [&](const Candidate& a, const Candidate& b) {
                                const std::size_t in_a = groups[network_group(a.peer->host)];
                                const std::size_t in_b = groups[network_group(b.peer->host)];
                                return in_a != in_b ? in_a < in_b : a.peer->since_ms < b.peer->since_ms;
                            })
        ->address;
}

void PeerManager::connected(const Bytes20& address, const std::string& host, bool outbound, std::uint64_t now_ms,
                            std::uint64_t unix_seconds, const messages::Endpoint& remote) {
    ConnectedPeer& peer = peers_[address];
    peer = {host, outbound, is_fixed(address), false, {}, now_ms, 0, 0};
    const auto at = dialing_.find(address);
    if (outbound) {
        // A host name stays one: it is what was dialled.
        peer.dialled = at != dialing_.end() ? at->second.endpoint : remote;
        peer.seed = at != dialing_.end() && at->second.reason == DialReason::seed;
        book_.succeeded(address, peer.dialled, unix_seconds);
    }
    if (at != dialing_.end()) dialing_.erase(at);
}

void PeerManager::disconnected(const Bytes20& address, std::uint64_t now_ms) {
    dialing_.erase(address);
    const auto at = peers_.find(address);
    if (at == peers_.end()) return;
    // One that stayed for a while is dialled again soon.
    if (now_ms - at->second.since_ms > kMaxBackoffMs) backoff_.erase(address);
    back_off(address, now_ms);
    peers_.erase(at);
}

void PeerManager::measured(const Bytes20& address, std::uint64_t least_rtt_us) {
    if (const auto at = peers_.find(address); at != peers_.end()) at->second.least_rtt_us = least_rtt_us;
}

void PeerManager::delivered(const Bytes20& address) {
    if (const auto at = peers_.find(address); at != peers_.end()) ++at->second.deliveries;
}

int PeerManager::score(const Bytes20& address, std::uint64_t now_ms) const {
    const auto at = scores_.find(address);
    if (at == scores_.end()) return 0;
    const double decayed =
        at->second.points - kDecayPerSecond * static_cast<double>(now_ms - at->second.at_ms) / 1000.0;
    return decayed <= 0 ? 0 : static_cast<int>(decayed + 0.5);
}

bool PeerManager::penalize(const Bytes20& address, Offence offence, std::uint64_t now_ms) {
    if (scores_.size() >= kMaxRememberedScores && scores_.count(address) == 0) {
        const auto oldest = std::min_element(scores_.begin(), scores_.end(), [](const auto& a, const auto& b) {
            return a.second.at_ms + a.second.banned_until_ms < b.second.at_ms + b.second.banned_until_ms;
        });
        scores_.erase(oldest);
    }
    const int before = score(address, now_ms);
    Score& score = scores_[address];
    score.points = before + rule_of(offence).points;
    score.at_ms = now_ms;
    if (score.points < kBanPoints) return false;
    score.points = 0;
    score.banned_until_ms = now_ms + (is_fixed(address) ? kProtectedBanMs : kBanMs);
    return true;
}

bool PeerManager::is_banned(const Bytes20& address, std::uint64_t now_ms) const {
    const auto at = scores_.find(address);
    return at != scores_.end() && at->second.banned_until_ms > now_ms;
}

}  // namespace quern::p2p
