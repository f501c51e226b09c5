#include "p2p/transport/message_assembler.h"

#include <algorithm>
#include <limits>

namespace quern::p2p::transport {

MemoryLedger::Limits unfinished_limits(std::size_t total) {
    return {total, total / 2, std::min(kUnfinishedBytes, total / 4), std::min(kUnfinishedFixedBytes, total)};
}

std::uint64_t MessageAssembler::oldest_ms() const {
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [key, partial] : partial_)
        if (!partial.admission.skip) oldest = std::min(oldest, partial.since_ms);
    return oldest;
}

void MessageAssembler::give_up() {
    partial_.clear();
    release(held_bytes());
    crowded_out_ = true;
    if (given_up_) given_up_();
}

Status MessageAssembler::check_time(std::uint64_t now_ms) const {
    for (const auto& [key, partial] : partial_)
        if (now_ms - partial.since_ms >= unfinished_ms_)
            return busy("frame.unfinished", "type " + std::to_string(key.first));
    return {};
}

// Capacity is what is accounted: it doubles, up to the largest body that was admitted.
Status MessageAssembler::grow(Partial& partial, std::size_t more, std::uint64_t now_ms) {
    const std::size_t needed = partial.body.size() + more;
    if (needed <= partial.charged) return {};
    const std::size_t wanted =
        std::max(needed, std::min({2 * partial.charged, partial.admission.max_body, partial.charged + room()}));
    QUERN_CHECK(reserve(wanted - partial.charged, now_ms));
    partial.charged = wanted;
    partial.body.reserve(wanted);
    return {};
}

Expected<std::optional<WholeMessage>> MessageAssembler::add(const Frame& frame, const Admit& admit,
                                                            std::uint64_t now_ms) {
    if (crowded_out_) return busy("frame.crowded_out", "others needed the room");
    if (frame.more && frame.payload.empty()) return fail("frame.empty_part");
    const std::pair key{frame.type, frame.stream};
    auto at = partial_.find(key);
    if (at == partial_.end()) {
        QUERN_TRY(const Admission admission, admit(frame.type, frame.stream));
        if (frame.payload.size() > admission.max_body)
            return fail("frame.message_too_long", "type " + std::to_string(frame.type));
        if (!frame.more) {
            if (admission.skip) return std::nullopt;
            return WholeMessage{frame.type, frame.stream, to_bytes(frame.payload)};
        }
        if (partial_.size() >= kMaxPartialMessages) return fail("frame.too_many_partial");
        at = partial_.emplace(key, Partial{{}, admission, 0, 0, now_ms}).first;
    }
    Partial& partial = at->second;
    if (frame.payload.size() > partial.admission.max_body - partial.seen)
        return fail("frame.message_too_long", "type " + std::to_string(frame.type));
    partial.seen += frame.payload.size();
    if (!partial.admission.skip) {
        QUERN_CHECK(grow(partial, frame.payload.size(), now_ms));
        append(partial.body, frame.payload);
    }
    if (frame.more) return std::nullopt;
    std::optional<WholeMessage> whole;
    if (!partial.admission.skip) {
        release(partial.charged);
        whole = WholeMessage{frame.type, frame.stream, std::move(partial.body)};
    }
    partial_.erase(at);
    return whole;
}

}  // namespace quern::p2p::transport
