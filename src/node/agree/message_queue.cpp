#include "node/agree/message_queue.h"

#include "base/ensure.h"

namespace quern::node {

using chain::consensus::sdbft::event::Received;

bool MessageQueue::push(PeerId peer, Bytes message, bool stranger) {
    Lanes& lanes = stranger ? strangers_ : members_;
    if (!lanes.fits(peer, message.size()) || bytes() + message.size() > kMaxQueueBytes ||
        (stranger && strangers_.bytes() + message.size() > kMaxStrangersQueueBytes))
        return false;
    lanes.push(peer, std::move(message));
    return true;
}

std::optional<Received> MessageQueue::pop() {
    const bool strangers_first = members_in_a_row_ >= kMembersPerStranger;
    auto taken = strangers_first ? strangers_.pop() : members_.pop();
    const bool is_strangers = taken ? strangers_first : !strangers_first;
    if (!taken) taken = strangers_first ? members_.pop() : strangers_.pop();
    if (taken) members_in_a_row_ = is_strangers ? 0 : members_in_a_row_ + 1;
    return taken;
}

void MessageQueue::forget(PeerId peer) {
    members_.forget(peer);
    strangers_.forget(peer);
}

bool MessageQueue::Lanes::fits(PeerId peer, std::size_t size) const {
    if (size > kMaxPeerQueueBytes) return false;
    const auto known = lanes_.find(peer);
    return known == lanes_.end() || (known->second.bytes + size <= kMaxPeerQueueBytes &&
                                     known->second.small.size() + known->second.large.size() < kMaxPeerQueueMessages);
}

void MessageQueue::Lanes::push(PeerId peer, Bytes message) {
    Lane& lane = lanes_[peer];
    lane.bytes += message.size();
    bytes_ += message.size();
    (message.size() <= kSmallMessageBytes ? lane.small : lane.large).push_back(std::move(message));
}

std::optional<Received> MessageQueue::Lanes::pop() {
    const bool large_first = small_in_a_row_ >= kSmallPerLarge;
    auto taken = take(large_first);
    const bool is_large = taken ? large_first : !large_first;
    if (!taken) taken = take(!large_first);
    if (taken) small_in_a_row_ = is_large ? 0 : small_in_a_row_ + 1;
    return taken;
}

std::optional<Received> MessageQueue::Lanes::take(bool large) {
    PeerId& last = large ? last_large_ : last_small_;
    const auto queue_of = [large](Lane& lane) -> std::deque<Bytes>& { return large ? lane.large : lane.small; };
    auto at = lanes_.upper_bound(last);
    for (std::size_t tried = 0; tried < lanes_.size(); ++tried, ++at) {
        if (at == lanes_.end()) at = lanes_.begin();
        auto& queue = queue_of(at->second);
        if (queue.empty()) continue;
        Received received{at->first, std::move(queue.front())};
        queue.pop_front();
        last = at->first;
        deduct(at->second.bytes, received.message.size());
        deduct(bytes_, received.message.size());
        if (at->second.small.empty() && at->second.large.empty()) lanes_.erase(at);
        return received;
    }
    return std::nullopt;
}

void MessageQueue::Lanes::forget(PeerId peer) {
    const auto known = lanes_.find(peer);
    if (known == lanes_.end()) return;
    deduct(bytes_, known->second.bytes);
    lanes_.erase(known);
}

}  // namespace quern::node
