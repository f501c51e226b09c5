#include "p2p/gossip/tx_relay.h"

#include <algorithm>
#include <limits>
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
    PeerState& state = peers_[peer];
    state.trusted = trusted;
    count_strangers();
    // It hears of what is freshest here.
    const auto& order = recent_.order();
    const std::size_t skip = order.size() - std::min(order.size(), kMaxQueuedPerPeer);
    state.to_announce.assign(order.begin() + static_cast<std::ptrdiff_t>(skip), order.end());
}

void TxRelay::set_round_trip(const Peer& peer, std::uint64_t round_trip_ms) {
    if (const auto at = peers_.find(peer); at != peers_.end())
        at->second.patience_ms = std::clamp(4 * round_trip_ms, kLeastTxRequestMs, kTxRequestMs);
}

void TxRelay::set_member(const Peer& peer, bool is_member) {
    if (const auto at = peers_.find(peer); at != peers_.end()) at->second.member = is_member;
    count_strangers();
}

void TxRelay::count_strangers() {
    strangers_ = static_cast<std::size_t>(
        std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) { return peer.second.is_stranger(); }));
}

void TxRelay::have(const Hash32& hash, std::shared_ptr<const Bytes> encoded, std::uint64_t now_ms) {
    const ShortId id = messages::short_id(hash);
    forget(id);
    if (recent_.find(id) != nullptr) return;
    bool told_by_member = false;
    bool lacked_by_member = false;
    for (const auto& [peer, state] : peers_)
        if (state.member) (state.known.contains(id) ? told_by_member : lacked_by_member) = true;
    recent_.add(id, {hash, std::move(encoded), now_ms, told_by_member});
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
        if (recent_.find(id) == nullptr || !still_waits(id)) continue;
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

void TxRelay::Newest::add(const ShortId& id, Recent transaction) {
    const auto [at, is_new] = by_id_.emplace(id, std::move(transaction));
    if (!is_new) return;
    order_.push_back(id);
    bytes_ += at->second.encoded->size();
    while (order_.size() > max_count_ || bytes_ > max_bytes_) {
        const auto oldest = by_id_.find(order_.front());
        deduct(bytes_, oldest->second.encoded->size());
        by_id_.erase(oldest);
        order_.pop_front();
    }
}

const TxRelay::Recent* TxRelay::Newest::find(const ShortId& id) const {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &at->second;
}

const Bytes* TxRelay::find(const ShortId& id) const {
    const Recent* recent = recent_.find(id);
    return recent == nullptr ? nullptr : recent->encoded.get();
}

const TxRelay::Recent* TxRelay::find_here(const ShortId& id) const {
    const Recent* recent = recent_.find(id);
    return recent != nullptr ? recent : delivered_.find(id);
}

bool TxRelay::has(const Hash32& hash) const {
    const Recent* recent = recent_.find(messages::short_id(hash));
    return recent != nullptr && recent->hash == hash;
}

bool TxRelay::is_spread(const Hash32& hash, std::uint64_t spread_ms, std::uint64_t now_ms) const {
    const Recent* recent = recent_.find(messages::short_id(hash));
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
    peers_.erase(at);
    count_strangers();
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
    std::uint64_t first_deadline = std::numeric_limits<std::uint64_t>::max();
    bool any_waits = false;
    for (const auto& announcer : wanted.announcers) {
        any_waits = any_waits || announcer.state == Announcer::State::waits;
        if (announcer.state != Announcer::State::asked) continue;
        ++in_flight;
        // One that is known for being late is not waited for.
        wanted.was_late = wanted.was_late || peers_.at(announcer.peer).late != 0;
        first_deadline = std::min(first_deadline, announcer.deadline_ms);
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
        first_deadline = std::min(first_deadline, best->deadline_ms);
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
        if (recent_.find(id) != nullptr || state.announced.size() >= share || state.announced.contains(id)) continue;
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
        if (delivered_.find(id) == nullptr) delivered_.add(id, {hash, std::make_shared<const Bytes>(each), 0, false});
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
