#include "p2p/sync/range_planner.h"

#include <algorithm>
#include <tuple>

#include "base/ensure.h"

namespace quern::p2p::sync {
namespace {

std::size_t bytes_of(const messages::BlockAnswer& answer) { return answer.block.size() + answer.certificate.size(); }

}  // namespace

void RangePlanner::set_peer(const Peer& peer, const Source& source) {
    peers_[peer].source = source;
    standings_.try_emplace(peer);
}

void RangePlanner::remove_peer(const Peer& peer) {
    for (std::size_t i = 0; i < flights_.size();) {
        if (flights_[i].peer == peer)
            (void)land(peer, flights_[i].first);
        else
            ++i;
    }
    peers_.erase(peer);
    const auto standing = standings_.find(peer);
    if (standing == standings_.end()) return;
    // One that failed must not come back clean.
    if (standing->second.strikes == 0 && !standing->second.wrong) {
        standings_.erase(standing);
        return;
    }
    if (standings_.size() - peers_.size() <= kMaxRemembered) return;
    auto soonest = standings_.end();
    for (auto at = standings_.begin(); at != standings_.end(); ++at)
        if (!peers_.contains(at->first) &&
            (soonest == standings_.end() || at->second.not_before_ms < soonest->second.not_before_ms))
            soonest = at;
    if (soonest != standings_.end()) standings_.erase(soonest);
}

void RangePlanner::advance(std::uint64_t next) {
    while (next_ < next) {
        if (window_.empty()) {
            next_ = next;
            return;
        }
        if (window_.front().block) deduct(waiting_bytes_, bytes_of(*window_.front().block->answer));
        window_.pop_front();
        ++next_;
    }
}

RangePlanner::Slot* RangePlanner::slot(std::uint64_t number) {
    if (number < next_ || number - next_ >= kMaxAheadBlocks) return nullptr;
    if (number - next_ >= window_.size()) window_.resize(number - next_ + 1);
    return &window_[number - next_];
}

const RangePlanner::Block* RangePlanner::find(std::uint64_t number) const {
    if (number < next_ || number - next_ >= window_.size()) return nullptr;
    const auto& block = window_[number - next_].block;
    return block ? &*block : nullptr;
}

std::vector<RangePlanner::Block> RangePlanner::run(std::uint64_t first, std::size_t most) const {
    std::vector<Block> blocks;
    for (const Block* at = find(first); at != nullptr && blocks.size() < most; at = find(first + blocks.size()))
        blocks.push_back(*at);
    return blocks;
}

bool RangePlanner::in_good_standing(const Peer& peer, std::uint64_t now_ms) const {
    const auto standing = standings_.find(peer);
    return standing != standings_.end() && !standing->second.wrong && now_ms >= standing->second.not_before_ms;
}

std::uint64_t RangePlanner::best_claim(std::uint64_t now_ms) const {
    std::uint64_t best = 0;
    for (const auto& [peer, state] : peers_)
        if (in_good_standing(peer, now_ms)) best = std::max(best, state.source.head);
    return best;
}

std::uint64_t RangePlanner::proven_claim(std::uint64_t now_ms) const {
    std::vector<std::uint64_t> claims;
    for (const auto& [peer, state] : peers_)
        if (in_good_standing(peer, now_ms) && standings_.at(peer).proven) claims.push_back(state.source.head);
    if (claims.empty()) return 0;
    const auto middle = claims.begin() + static_cast<std::ptrdiff_t>((claims.size() - 1) / 2);
    std::nth_element(claims.begin(), middle, claims.end());
    return *middle;
}

const RangePlanner::PeerState* RangePlanner::choose(std::uint64_t first, const Peer* but, std::uint64_t now_ms,
                                                    const Peer** chosen) const {
    const PeerState* best = nullptr;
    std::tuple<int, std::size_t, std::uint64_t> best_rank;
    for (const auto& [peer, state] : peers_) {
        if (!in_good_standing(peer, now_ms) || (but != nullptr && peer == *but)) continue;
        const Standing& standing = standings_.at(peer);
        if (state.in_flight >= (standing.proven ? kMaxSlicesPerPeer : 1) || first < state.source.earliest ||
            first > state.source.head)
            continue;
        const int rank = (standing.proven ? 0 : 2) + (state.source.fixed ? 0 : 1);
        const std::tuple all{rank, state.in_flight, state.source.lot};
        if (best != nullptr && best_rank <= all) continue;
        best = &state;
        best_rank = all;
        *chosen = &peer;
    }
    return best;
}

std::optional<RangePlanner::Ask> RangePlanner::ask(std::uint64_t first, const Peer* but, std::uint64_t now_ms) {
    const Peer* peer = nullptr;
    const PeerState* state = choose(first, but, now_ms, &peer);
    if (state == nullptr) return std::nullopt;
    std::uint64_t count = 0;
    while (count < slice_blocks_ && count <= state->source.head - first) {
        Slot* const at = slot(first + count);
        // A second question covers what the first one does, but for what is here.
        if (at == nullptr || at->block || (at->asked != 0 && but == nullptr)) break;
        ++at->asked;
        ++count;
    }
    if (count == 0) return std::nullopt;
    const int doublings = std::min<int>(slot(first)->late, kMaxLateDoublings);
    flights_.push_back({*peer, first, count, now_ms});
    ++peers_.at(*peer).in_flight;
    return Ask{*peer, {first, count, count * kSliceBytesPerBlock}, kSliceMs << doublings};
}

void RangePlanner::hedge(std::vector<Ask>& asks, std::uint64_t now_ms) {
    std::uint64_t first = next_;
    while (find(first) != nullptr) ++first;
    Slot* const missing = slot(first);
    if (missing == nullptr || missing->asked != 1) return;
    for (const Flight& flight : flights_) {
        if (first < flight.first || first - flight.first >= flight.count) continue;
        if (now_ms < flight.asked_ms + kHedgeMs) return;
        const Peer slow = flight.peer;
        if (auto second = ask(first, &slow, now_ms)) asks.push_back(std::move(*second));
        return;
    }
}

std::vector<RangePlanner::Ask> RangePlanner::next_asks(std::uint64_t now_ms) {
    std::vector<Ask> asks;
    const std::uint64_t best = best_claim(now_ms);
    if (best < next_) return asks;
    hedge(asks, now_ms);
    bool is_first = true;  // the very next block may always be asked for: it is what drains the rest
    for (std::uint64_t at = next_; at <= best && at - next_ < kMaxAheadBlocks && flights_.size() < slices_; ++at) {
        const Slot* const here = slot(at);
        if (here->block || here->asked != 0) {
            if (here->asked != 0) is_first = false;
            continue;
        }
        const std::size_t expected = flights_.size() * kMaxSliceBlocks * kSliceBytesPerBlock;
        if (!is_first && waiting_bytes_ + expected >= kMaxAheadBytes) break;
        is_first = false;
        auto asked = ask(at, nullptr, now_ms);
        if (!asked) break;
        at += asked->request.count - 1;
        asks.push_back(std::move(*asked));
    }
    return asks;
}

std::optional<RangePlanner::Flight> RangePlanner::land(const Peer& peer, std::uint64_t first) {
    const auto found = std::find_if(flights_.begin(), flights_.end(),
                                    [&](const Flight& flight) { return flight.peer == peer && flight.first == first; });
    if (found == flights_.end()) return std::nullopt;
    const Flight flight = *found;
    flights_.erase(found);
    for (std::uint64_t i = 0; i < flight.count; ++i)
        if (flight.first + i >= next_) --slot(flight.first + i)->asked;
    if (const auto known = peers_.find(peer); known != peers_.end()) --known->second.in_flight;
    return flight;
}

quern::Status RangePlanner::received(const Peer& peer, std::uint64_t first, std::vector<messages::BlockAnswer> blocks,
                                     std::uint64_t now_ms) {
    const auto flight = land(peer, first);
    if (!flight) return fail("range.unasked");
    std::size_t bytes = 0;
    for (const auto& block : blocks) bytes += bytes_of(block);
    if (blocks.empty()) {
        demote(peer, Failure::refused, now_ms);
        return fail("range.empty");
    }
    if (blocks.size() > flight->count || (blocks.size() > 1 && bytes > flight->count * kSliceBytesPerBlock)) {
        demote(peer, Failure::refused, now_ms);
        return fail("range.too_many");
    }
    slice_blocks_ = std::min(kMaxSliceBlocks, slice_blocks_ + 4);
    slices_ = std::min(kMaxSlices, slices_ + 1);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        Slot* const at = first + i < next_ ? nullptr : slot(first + i);
        if (at == nullptr || at->block) continue;
        waiting_bytes_ += bytes_of(blocks[i]);
        at->block = Block{std::make_shared<const messages::BlockAnswer>(std::move(blocks[i])), peer};
    }
    return {};
}

void RangePlanner::failed(const Peer& peer, std::uint64_t first, Failure failure, std::uint64_t now_ms) {
    if (!land(peer, first)) return;
    if (failure == Failure::late) {
        if (Slot* const at = first < next_ ? nullptr : slot(first); at != nullptr && at->late < 0xff) ++at->late;
        // One that never delivered says nothing about the line.
        const bool is_proven = standings_.contains(peer) && standings_.at(peer).proven;
        const bool any_proven = std::any_of(standings_.begin(), standings_.end(),
                                            [](const auto& standing) { return standing.second.proven; });
        if (is_proven || !any_proven) slower();
    }
    demote(peer, failure, now_ms);
}

void RangePlanner::slower() {
    slice_blocks_ = std::max<std::uint64_t>(1, slice_blocks_ / 2);
    slices_ = std::max<std::size_t>(1, slices_ / 2);
}

void RangePlanner::demote(const Peer& peer, Failure failure, std::uint64_t now_ms) {
    const auto known = standings_.find(peer);
    if (known == standings_.end()) return;
    Standing& standing = known->second;
    if (failure == Failure::busy) {
        standing.not_before_ms = std::max(standing.not_before_ms, now_ms + kBusyPauseMs);
        return;
    }
    standing.proven = false;
    standing.wrong = standing.wrong || failure == Failure::wrong;
    const auto state = peers_.find(peer);
    const bool fixed = state != peers_.end() && state->second.source.fixed;
    const std::uint64_t longest = fixed ? kMaxFixedDemotedMs : kMaxDemotedMs;
    const std::uint64_t pause = standing.strikes >= 16 ? longest : std::min(longest, kDemotedMs << standing.strikes);
    standing.not_before_ms = now_ms + pause;
    ++standing.strikes;
}

void RangePlanner::verified(const Peer& peer) {
    const auto standing = standings_.find(peer);
    if (standing == standings_.end()) return;
    standing->second.strikes = 0;
    standing->second.proven = true;
}

void RangePlanner::discard(const Peer& peer, std::uint64_t number, Failure failure, std::uint64_t now_ms) {
    for (std::uint64_t at = std::max(number, next_); at - next_ < window_.size(); ++at) {
        Slot& here = window_[at - next_];
        if (!here.block || here.block->from != peer) continue;
        deduct(waiting_bytes_, bytes_of(*here.block->answer));
        here.block.reset();
    }
    demote(peer, failure, now_ms);
}

}  // namespace quern::p2p::sync
