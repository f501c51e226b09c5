#include "p2p/transport/send_queue.h"

#include <algorithm>

#include "base/ensure.h"

namespace quern::p2p::transport {
namespace {

constexpr std::size_t kFirstShared = static_cast<std::size_t>(TrafficClass::transactions);
constexpr std::size_t kBulk = static_cast<std::size_t>(TrafficClass::bulk);

}  // namespace

Status SendQueue::push(OutMessage message, std::uint64_t now_ms) {
    const auto index = static_cast<std::size_t>(message.traffic);
    Lane& lane = lanes_[index];
    const std::size_t size = message.body->size();
    const auto is_full = [&] {
        return lane.messages.size() >= kMaxQueuedMessages[index] || lane.bytes + size > kMaxQueuedBytes[index];
    };
    if (index < kFirstShared)
        // A message of which some records are out stays: its end must follow.
        while (is_full() && !lane.messages.empty()) {
            const auto victim = lane.messages.begin() + (lane.messages.front().sent != 0 ? 1 : 0);
            if (victim == lane.messages.end()) break;
            deduct(lane.bytes, victim->message.body->size());
            lane.messages.erase(victim);
            ++dropped_;
        }
    if (is_full()) return busy("send_queue.full", "class " + std::to_string(index));
    lane.bytes += size;
    lane.messages.push_back({std::move(message), 0, now_ms});
    return {};
}

Status SendQueue::expire(std::uint64_t now_ms) {
    for (std::size_t index = kFirstShared; index < kTrafficClasses; ++index) {
        Lane& lane = lanes_[index];
        while (!lane.messages.empty()) {
            const bool begun = lane.messages.front().sent != 0;
            const std::uint64_t waited = now_ms - std::min(lane.messages.front().since_ms, now_ms);
            if (begun && waited >= 2 * kQueueLifeMs) return busy("send_queue.too_slow");
            // The end of one that is begun must follow; those behind it are judged alone.
            const auto victim = lane.messages.begin() + (begun ? 1 : 0);
            if (victim == lane.messages.end() || now_ms - std::min(victim->since_ms, now_ms) < kQueueLifeMs) break;
            deduct(lane.bytes, victim->message.body->size());
            lane.messages.erase(victim);
            ++dropped_;
        }
    }
    return {};
}

void SendQueue::clear_shared() {
    for (std::size_t index = kFirstShared; index < kTrafficClasses; ++index) lanes_[index] = {};
    lanes_[static_cast<std::size_t>(TrafficClass::consensus)] = {};
}

OutRecord SendQueue::cut(std::size_t index, std::size_t max_payload) {
    Lane& lane = lanes_[index];
    Waiting& front = lane.messages.front();
    const BytesView rest = BytesView(*front.message.body).subspan(front.sent);
    const std::size_t size = std::min(rest.size(), max_payload);
    OutRecord record{front.message.traffic, front.message.type, front.message.stream,
                     size != rest.size(),   rest.first(size),   front.message.body};
    front.sent += size;
    if (!record.more) {
        deduct(lane.bytes, front.message.body->size());
        lane.messages.pop_front();
    }
    return record;
}

std::optional<OutRecord> SendQueue::next(std::size_t max_payload, bool bulk_allowed) {
    for (std::size_t index = 0; index < kFirstShared; ++index)
        if (!lanes_[index].messages.empty()) return cut(index, max_payload);
    bool any = false;
    for (std::size_t index = kFirstShared; index < kTrafficClasses; ++index) {
        if (lanes_[index].messages.empty()) lanes_[index].deficit = 0;
        any = any || (!lanes_[index].messages.empty() && (index != kBulk || bulk_allowed));
    }
    if (!any) return std::nullopt;
    while (true) {
        Lane& lane = lanes_[turn_];
        if (!lane.messages.empty() && (turn_ != kBulk || bulk_allowed)) {
            if (!turn_started_) lane.deficit += kQuantum[turn_];
            turn_started_ = true;
            if (lane.deficit > 0) {
                OutRecord record = cut(turn_, max_payload);
                // A record counts at least one byte, so that empty messages do not hold the turn for ever.
                lane.deficit -= static_cast<std::int64_t>(std::max<std::size_t>(record.payload.size(), 1));
                return record;
            }
        }
        turn_started_ = false;
        turn_ = turn_ + 1 == kTrafficClasses ? kFirstShared : turn_ + 1;
    }
}

bool SendQueue::has_only_bulk() const {
    for (std::size_t index = 0; index < kBulk; ++index)
        if (!lanes_[index].messages.empty()) return false;
    return !lanes_[kBulk].messages.empty();
}

std::size_t SendQueue::queued_bytes() const {
    std::size_t total = 0;
    for (const auto& lane : lanes_) total += lane.bytes;
    return total;
}

}  // namespace quern::p2p::transport
