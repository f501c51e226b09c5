#include "p2p/gossip/tx_relay.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_set>

#include "base/ensure.h"

namespace quern::p2p::gossip {
namespace {

std::vector<TxRelay::Ask> as_asks(std::map<TxRelay::Peer, std::vector<ShortId>>&& asks) {
    std::vector<TxRelay::Ask> out;
    for (auto& [peer, ids] : asks)
        for (std::size_t at = 0; at < ids.size(); at += messages::kMaxShortIds) {
            const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(at);
            const auto count = std::min(messages::kMaxShortIds, ids.size() - at);
            out.push_back({peer, {begin, begin + static_cast<std::ptrdiff_t>(count)}});
        }
    return out;
}

}  // namespace

// --- What is here ----------------------------------------------------------------------------------------------------

void TxRelay::add_peer(const Peer& peer, bool trusted) {
    const auto [at, is_new] = peers_.try_emplace(peer);
    PeerState& state = at->second;
    if (!is_new && state.is_stranger()) --strangers_;
    state.trusted = trusted;
    if (state.is_stranger()) ++strangers_;
    // It hears of what is freshest here.
    const std::size_t skip = recent_order_.size() - std::min(recent_order_.size(), kMaxQueuedPerPeer);
    state.to_announce.assign(recent_order_.begin() + static_cast<std::ptrdiff_t>(skip), recent_order_.end());
}

void TxRelay::set_round_trip(const Peer& peer, std::uint64_t round_trip_ms) {
    if (const auto at = peers_.find(peer); at != peers_.end())
        at->second.patience_ms = std::clamp(4 * round_trip_ms, kLeastTxRequestMs, kTxRequestMs);
}

void TxRelay::set_member(const Peer& peer, bool is_member) {
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return;
    if (at->second.is_stranger()) --strangers_;
    at->second.member = is_member;
    if (at->second.is_stranger()) ++strangers_;
}

void TxRelay::have(const Hash32& hash, std::shared_ptr<const Bytes> encoded, std::uint64_t now_ms) {
    const ShortId id = messages::short_id(hash);
    forget(id);
    const std::size_t size = encoded->size();
    if (!recent_.emplace(id, Recent{hash, std::move(encoded), now_ms, false}).second) return;
    recent_order_.push_back(id);
    recent_bytes_ += size;
    while (recent_order_.size() > kMaxRecent || recent_bytes_ > kMaxRecentBytes) {
        const auto oldest = recent_.find(recent_order_.front());
        deduct(recent_bytes_, oldest->second.encoded->size());
        recent_.erase(oldest);
        recent_order_.pop_front();
    }
    bool told_by_member = false;
    bool lacked_by_member = false;
    for (const auto& [peer, state] : peers_)
        if (state.member) (state.known.contains(id) ? told_by_member : lacked_by_member) = true;
    if (const auto at = recent_.find(id); at != recent_.end()) at->second.told_by_member = told_by_member;
    for (auto& [peer, state] : peers_)
        if (!(told_by_member && state.member)) queue_for(state, id);
    if (!told_by_member || !lacked_by_member) return;
    later_.push_back({now_ms + kTellMembersMs, id});
    if (later_.size() > kMaxRecent) later_.pop_front();
}

void TxRelay::queue_for(PeerState& peer, const ShortId& id) {
    if (!peer.known.contains(id) && peer.to_announce.size() < kMaxQueuedPerPeer) peer.to_announce.push_back(id);
}

void TxRelay::tell_members(const std::function<bool(const ShortId&)>& still_waits, std::uint64_t now_ms) {
    for (; !later_.empty() && later_.front().when_ms <= now_ms; later_.pop_front()) {
        const ShortId id = later_.front().id;
        if (!recent_.contains(id) || !still_waits(id)) continue;
        for (auto& [peer, state] : peers_)
            if (state.member) queue_for(state, id);
    }
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

const Bytes* TxRelay::find(const ShortId& id) const {
    const auto at = recent_.find(id);
    return at == recent_.end() ? nullptr : at->second.encoded.get();
}

const TxRelay::Recent* TxRelay::find_recent(const ShortId& id) const {
    const auto at = recent_.find(id);
    return at == recent_.end() ? nullptr : &at->second;
}

const TxRelay::Recent* TxRelay::find_here(const ShortId& id) const {
    if (const Recent* recent = find_recent(id)) return recent;
    const auto at = delivered_.find(id);
    return at == delivered_.end() ? nullptr : &at->second;
}

void TxRelay::keep_delivered(const ShortId& id, const Hash32& hash, const Bytes& encoded) {
    if (!delivered_.emplace(id, Recent{hash, std::make_shared<const Bytes>(encoded), 0, false}).second) return;
    delivered_order_.push_back(id);
    delivered_bytes_ += encoded.size();
    while (delivered_order_.size() > kMaxDelivered || delivered_bytes_ > kMaxDeliveredBytes) {
        const auto oldest = delivered_.find(delivered_order_.front());
        deduct(delivered_bytes_, oldest->second.encoded->size());
        delivered_.erase(oldest);
        delivered_order_.pop_front();
    }
}

bool TxRelay::has(const Hash32& hash) const {
    const Recent* recent = find_recent(messages::short_id(hash));
    return recent != nullptr && recent->hash == hash;
}

bool TxRelay::is_spread(const Hash32& hash, std::uint64_t spread_ms, std::uint64_t now_ms) const {
    const Recent* recent = find_recent(messages::short_id(hash));
    return recent != nullptr && recent->hash == hash &&
           (recent->told_by_member || recent->since_ms + spread_ms <= now_ms);
}

std::size_t TxRelay::announced_by(const Peer& peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? 0 : at->second.announced.size();
}

std::size_t TxRelay::in_flight(const Peer& peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? 0 : at->second.in_flight;
}

// --- What is wanted --------------------------------------------------------------------------------------------------

void TxRelay::look_at(const ShortId& id, Wanted& wanted, std::uint64_t when_ms) {
    if (wanted.look_ms == when_ms) return;
    wanted.look_ms = when_ms;
    looks_.push({when_ms, id});
    if (looks_.size() <= kMaxVoidLooks + 2 * wanted_.size()) return;
    std::vector<Look> valid;
    valid.reserve(wanted_.size());
    for (const auto& [each, state] : wanted_) valid.push_back({state.look_ms, each});
    looks_ = decltype(looks_)(std::greater<>(), std::move(valid));
}

void TxRelay::give_up(const ShortId& id, Announcer& announcer) {
    const auto peer = peers_.find(announcer.peer);
    if (peer != peers_.end()) {
        if (announcer.state == Announcer::State::asked) --peer->second.in_flight;
        peer->second.announced.erase(id);
    }
    announcer.state = Announcer::State::over;
}

void TxRelay::forget(const ShortId& id) {
    const auto at = wanted_.find(id);
    if (at == wanted_.end()) return;
    for (auto& announcer : at->second.announcers)
        if (announcer.state != Announcer::State::over) give_up(id, announcer);
    wanted_.erase(at);
}

void TxRelay::remove_peer(const Peer& peer) {
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return;
    const std::vector<ShortId> announced = at->second.announced.all();
    if (at->second.is_stranger()) --strangers_;
    peers_.erase(at);
    owed_.erase(peer);
    for (const auto& id : announced) {
        const auto found = wanted_.find(id);
        if (found == wanted_.end()) continue;
        std::erase_if(found->second.announcers, [&](const Announcer& each) { return each.peer == peer; });
        look_at(id, found->second, 0);  // expired() moves it on
    }
}

// Asks the best of those that wait; forgets the id when nobody is left.
void TxRelay::ask_some(const ShortId& id, Wanted& wanted, std::uint64_t now_ms, Asks& asks) {
    std::size_t in_flight = 0;
    std::uint64_t first_deadline = 0;
    bool any_waits = false;
    for (const auto& announcer : wanted.announcers) {
        any_waits = any_waits || announcer.state == Announcer::State::waits;
        if (announcer.state != Announcer::State::asked) continue;
        ++in_flight;
        // One that is known for being late is not waited for.
        wanted.was_late = wanted.was_late || peers_.at(announcer.peer).late != 0;
        if (first_deadline == 0 || announcer.deadline_ms < first_deadline) first_deadline = announcer.deadline_ms;
    }
    if (in_flight == 0 && !any_waits) return forget(id);
    const std::size_t at_once = wanted.was_late ? kAskedAtOnce : 1;
    while (any_waits && in_flight < at_once) {
        Announcer* best = nullptr;
        PeerState* best_peer = nullptr;
        std::size_t equals = 0;
        for (auto& announcer : wanted.announcers) {
            if (announcer.state != Announcer::State::waits) continue;
            PeerState& peer = peers_.at(announcer.peer);
            const auto order = [](const PeerState& each) { return std::pair(each.late, !each.trusted); };
            const bool better = best == nullptr || order(peer) < order(*best_peer);
            equals = better ? 1 : equals + (order(peer) == order(*best_peer) ? 1 : 0);
            // Among equals by lot, each with the same chance.
            if (better || (order(peer) == order(*best_peer) && rng_.below(equals) == 0)) {
                best = &announcer;
                best_peer = &peer;
            }
        }
        if (best == nullptr) break;
        best->state = Announcer::State::asked;
        best->deadline_ms = now_ms + best_peer->patience_ms;
        ++best_peer->in_flight;
        ++in_flight;
        asks[best->peer].push_back(id);
        if (first_deadline == 0 || best->deadline_ms < first_deadline) first_deadline = best->deadline_ms;
    }
    ensure(in_flight != 0, "a wanted transaction is asked of somebody");
    look_at(id, wanted, first_deadline);
}

std::size_t TxRelay::take_share(PeerState& peer, std::size_t count, std::uint64_t now_ms) {
    if (!peer.is_stranger()) return count;
    const std::uint64_t now_us = now_ms * 1000;
    const std::uint64_t rate = kStrangersIdsPerSecond / strangers_;
    if (peer.ids.rate() != rate) peer.ids.set_rate(rate, kStrangersIdsBurst, now_us);
    const std::uint64_t own = std::min<std::uint64_t>(count, peer.ids.available(now_us));
    const std::uint64_t beyond = std::min(count - own, beyond_shares_.available(now_us));
    peer.ids.spend(own);
    beyond_shares_.spend(beyond);
    return own + beyond;
}

std::vector<ShortId> TxRelay::announced(const Peer& peer, const std::vector<ShortId>& ids,
                                        const std::function<bool(const ShortId&)>& wanted, std::uint64_t now_ms) {
    std::vector<ShortId> ask;
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return ask;
    PeerState& state = at->second;
    const std::size_t share = state.trusted ? kMaxAnnouncedTrusted : kMaxAnnouncedPerPeer;
    for (const auto& id : std::span(ids).first(take_share(state, ids.size(), now_ms))) {
        state.known.insert(id);
        if (recent_.count(id) != 0 || state.announced.size() >= share || state.announced.contains(id)) continue;
        auto found = wanted_.find(id);
        if (found == wanted_.end()) {
            if (!wanted(id)) continue;
            found = wanted_.emplace(id, Wanted{}).first;
        }
        state.announced.insert(id);
        auto& announcers = found->second.announcers;
        // One that was asked in vain and announces again is asked again, after the others.
        std::erase_if(announcers, [&](const Announcer& each) { return each.peer == peer; });
        announcers.push_back({peer, Announcer::State::waits, 0});
        ask_some(id, found->second, now_ms, owed_);
    }
    if (auto now = owed_.extract(peer); !now.empty()) ask = std::move(now.mapped());
    return ask;
}

Expected<std::vector<Bytes>> TxRelay::received(const Peer& peer, const std::vector<ShortId>& asked,
                                               std::vector<Bytes> encoded) {
    const std::unordered_set<ShortId, ShortIdHasher> expected(asked.begin(), asked.end());
    for (const auto& each : encoded) {
        const Hash32 hash = chain::types::transaction_hash(each);
        const ShortId id = messages::short_id(hash);
        if (!expected.contains(id)) return fail("tx_relay.unsolicited");
        forget(id);
        keep_delivered(id, hash, each);
    }
    if (const auto at = peers_.find(peer); at != peers_.end() && !encoded.empty()) at->second.late /= 2;
    return encoded;
}

std::vector<TxRelay::Ask> TxRelay::not_delivered(const Peer& peer, const std::vector<ShortId>& asked,
                                                 std::uint64_t now_ms) {
    Asks asks;
    bool any = false;
    for (const auto& id : asked) {
        const auto at = wanted_.find(id);
        if (at == wanted_.end()) continue;
        bool changed = false;
        for (auto& announcer : at->second.announcers)
            if (announcer.peer == peer && announcer.state == Announcer::State::asked) {
                give_up(id, announcer);
                changed = true;
            }
        if (!changed) continue;
        any = true;
        at->second.was_late = true;
        ask_some(id, at->second, now_ms, asks);
    }
    if (const auto state = peers_.find(peer); any && state != peers_.end())
        state->second.late = std::min(state->second.late + 1, 1'000U);
    return as_asks(std::move(asks));
}

std::vector<TxRelay::Ask> TxRelay::expired(std::uint64_t now_ms) {
    Asks asks = std::exchange(owed_, {});
    std::set<Peer> late;
    while (!looks_.empty() && looks_.top().when_ms <= now_ms) {
        const Look look = looks_.top();
        looks_.pop();
        const ShortId& id = look.id;
        const auto at = wanted_.find(id);
        if (at == wanted_.end() || at->second.look_ms != look.when_ms) continue;
        Wanted& wanted = at->second;
        for (auto& announcer : wanted.announcers)
            if (announcer.state == Announcer::State::asked && announcer.deadline_ms <= now_ms) {
                // Once for each peer and call: a thousand ids in one request are one failure.
                if (late.insert(announcer.peer).second) {
                    auto& count = peers_.at(announcer.peer).late;
                    count = std::min(count + 1, 1'000U);
                }
                give_up(id, announcer);
                wanted.was_late = true;
            }
        ask_some(id, wanted, now_ms, asks);
    }
    return as_asks(std::move(asks));
}

}  // namespace quern::p2p::gossip
