#include "p2p/peer_session.h"

namespace quern::p2p {

using messages::Rule;
using messages::Type;

transport::TokenBucket& PeerSession::rate_of(const Rule& rule) {
    const bool strangers = stranger_ && rule.type == Type::consensus;
    return rates_
        .try_emplace(rule.type, strangers ? messages::kStrangersConsensusPerSecond : rule.per_second,
                     strangers ? messages::kStrangersConsensusBurst : rule.burst)
        .first->second;
}

void PeerSession::set_stranger(bool stranger) {
    if (std::exchange(stranger_, stranger) == stranger) return;
    // A newcomer to the committee gets a member's rate; who leaves it starts with a stranger's.
    rates_.erase(Type::consensus);
}

PeerSession::Judgement PeerSession::judge_answer(const Rule& rule, std::uint32_t stream) {
    const transport::Admission skip{rule.max_bytes, true};
    const auto at = requests_.find(stream);
    if (at == requests_.end()) {
        if (late_.erase(stream) != 0) return {skip, std::nullopt, {}};
        return {skip, Offence::useless, "an answer that nobody asked for"};
    }
    if (rule.type != Type::refusal && rule.type != messages::rule_of(at->second.type).answer)
        return {skip, Offence::protocol, "the wrong kind of answer"};
    return {{rule.max_bytes, false}, std::nullopt, {}};
}

PeerSession::Judgement PeerSession::judge(const Rule& rule, std::uint32_t stream, transport::ConnectionKind kind,
                                          std::uint64_t now_us) {
    const transport::Admission skip{rule.max_bytes, true};
    // Bulk carries answers alone, and only once the control connection has said hello.
    if (kind == transport::ConnectionKind::bulk && !rule.on_bulk) return {skip, Offence::protocol, "not for bulk"};
    if (!has_hello_ && rule.type != Type::hello) {
        if (kind == transport::ConnectionKind::bulk) return {skip, std::nullopt, {}};
        return {skip, Offence::protocol, "no hello"};
    }
    // Answers are bounded by the requests that they answer.
    if (messages::is_answer(rule)) return judge_answer(rule, stream);
    // Little: who has just left the committee may not know it yet.
    if (rule.members_only && !member_) return {skip, Offence::useless, rule.name};
    if (!rate_of(rule).try_take(1, now_us)) return {skip, Offence::too_fast, rule.name, messages::is_request(rule)};
    return {{rule.max_bytes, false}, std::nullopt, {}};
}

Expected<std::uint32_t> PeerSession::begin_request() {
    if (requests_.size() >= kMaxRequestsPerPeer) return busy("network.too_many_requests");
    return next_stream_++;
}

void PeerSession::asked(std::uint32_t stream, Type request, std::uint64_t deadline_ms, Done done) {
    requests_[stream] = {request, deadline_ms, std::move(done)};
}

PeerSession::Done PeerSession::take(std::uint32_t stream) {
    const auto at = requests_.find(stream);
    if (at == requests_.end()) {
        late_.erase(stream);
        return nullptr;
    }
    Done done = std::move(at->second.done);
    requests_.erase(at);
    return done;
}

std::vector<PeerSession::Done> PeerSession::expire(std::uint64_t now_ms) {
    std::vector<Done> over;
    for (auto at = requests_.begin(); at != requests_.end();) {
        if (at->second.deadline_ms > now_ms) {
            ++at;
            continue;
        }
        over.push_back(std::move(at->second.done));
        if (late_.size() >= kMaxLateStreams) late_.erase(late_.begin());
        late_.insert(at->first);
        at = requests_.erase(at);
    }
    return over;
}

std::vector<PeerSession::Done> PeerSession::take_all() {
    std::vector<Done> all;
    for (auto& [stream, request] : requests_) all.push_back(std::move(request.done));
    requests_.clear();
    return all;
}

}  // namespace quern::p2p
