// What one peer may say at this moment, and what this node has asked of it: hello first, answers only to open requests,
// a rate for each type of message, strangers' consensus messages at a lower one. A message is judged at its first
// record, before memory is spent on it. Pure: time is an argument. Used by network*.cpp; one thread.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "p2p/messages/registry.h"
#include "p2p/offence.h"
#include "p2p/transport/handshake_flow.h"
#include "p2p/transport/message_assembler.h"
#include "p2p/transport/token_bucket.h"

namespace quern::p2p {

inline constexpr std::size_t kMaxRequestsPerPeer = 256;  // open at once, asked by this node
inline constexpr std::size_t kMaxServedPerPeer = 64;     // open at once, asked by the peer
inline constexpr std::size_t kMaxLateStreams = 256;      // answers that may still come after their time

class PeerSession {
public:
    // An answer's body; errors as of Answer in network.h.
    using Done = std::function<void(Expected<Bytes>)>;

    // --- What the peer says
    struct Judgement {
        transport::Admission admission;
        std::optional<Offence> offence;
        std::string_view why;          // for the log
        bool refuse_too_fast = false;  // it is a request: tell the peer
    };
    // At a message's first record.
    [[nodiscard]] Judgement judge(const messages::Rule& rule, std::uint32_t stream, transport::ConnectionKind kind,
                                  std::uint64_t now_us);
    void said_hello() { has_hello_ = true; }
    [[nodiscard]] bool has_hello() const { return has_hello_; }
    // Whether its consensus messages are a stranger's: there is a committee and it is no member. What it has used of
    // its rate stays used.
    void set_stranger(bool stranger);
    // Whether it is in the committee: some messages are taken from members alone.
    void set_member(bool member) { member_ = member; }

    // --- What it is asked
    // The stream number for a request that is sent next. Error network.too_many_requests (busy).
    [[nodiscard]] Expected<std::uint32_t> begin_request();
    void asked(std::uint32_t stream, messages::Type request, std::uint64_t deadline_ms, Done done);
    [[nodiscard]] std::uint32_t next_stream() { return next_stream_++; }
    // Takes out the request that a whole answer belongs to; null when its time is over.
    [[nodiscard]] Done take(std::uint32_t stream);
    // Requests that ran out of time; their answers may still come and are forgotten then.
    [[nodiscard]] std::vector<Done> expire(std::uint64_t now_ms);
    // When the peer is gone.
    [[nodiscard]] std::vector<Done> take_all();
    [[nodiscard]] std::size_t open_requests() const { return requests_.size(); }

    // --- What it asked
    [[nodiscard]] bool may_be_served() const { return serving_ < kMaxServedPerPeer; }
    void begin_serving() { ++serving_; }
    void end_serving() { --serving_; }

private:
    struct Request {
        messages::Type type;
        std::uint64_t deadline_ms = 0;
        Done done;
    };
    [[nodiscard]] Judgement judge_answer(const messages::Rule& rule, std::uint32_t stream);
    [[nodiscard]] transport::TokenBucket& rate_of(const messages::Rule& rule);

    bool has_hello_ = false;
    bool stranger_ = false;
    bool member_ = false;
    std::map<messages::Type, transport::TokenBucket> rates_;
    std::map<std::uint32_t, Request> requests_;
    std::set<std::uint32_t> late_;
    std::uint32_t next_stream_ = 1;
    std::size_t serving_ = 0;
};

}  // namespace quern::p2p
