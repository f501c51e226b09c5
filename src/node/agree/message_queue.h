// Consensus messages of peers that wait for the consensus thread: a lane for each peer with a limit of its own, taken
// in turn, so that one that floods delays and drops only itself; votes and certificates are small and pass blocks.
// Those who are not in the committee are many and cost nothing to be: their messages have a part of the room and of the
// thread, and the members' come first. Used by consensus_thread.h under its mutex. Pure.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "chain/consensus/sdbft/actions.h"

namespace quern::node {

inline constexpr std::size_t kSmallMessageBytes = 16U << 10;  // votes and certificates are below
inline constexpr std::size_t kMaxPeerQueueBytes = 24U << 20;  // of one peer; holds two of the largest blocks
inline constexpr std::size_t kMaxPeerQueueMessages = 4096;
inline constexpr std::size_t kMaxQueueBytes = 256U << 20;          // of all
inline constexpr std::size_t kMaxStrangersQueueBytes = 96U << 20;  // of those who are not in the committee
inline constexpr std::uint64_t kSmallPerLarge = 8;       // so many small ones before a large one gets its turn
inline constexpr std::uint64_t kMembersPerStranger = 4;  // and of members before one of a stranger

class MessageQueue {
public:
    using PeerId = chain::consensus::sdbft::PeerId;
    // False: the peer's limit or that of all like it is reached; the message is dropped.
    [[nodiscard]] bool push(PeerId peer, Bytes message, bool stranger = false);
    [[nodiscard]] std::optional<chain::consensus::sdbft::event::Received> pop();
    // The peer has left: what it sent is forgotten.
    void forget(PeerId peer);
    [[nodiscard]] bool empty() const { return members_.empty() && strangers_.empty(); }
    [[nodiscard]] std::size_t bytes() const { return members_.bytes() + strangers_.bytes(); }

private:
    class Lanes {
    public:
        [[nodiscard]] bool fits(PeerId peer, std::size_t size) const;
        void push(PeerId peer, Bytes message);
        [[nodiscard]] std::optional<chain::consensus::sdbft::event::Received> pop();
        void forget(PeerId peer);
        [[nodiscard]] bool empty() const { return lanes_.empty(); }
        [[nodiscard]] std::size_t bytes() const { return bytes_; }

    private:
        struct Lane {
            std::deque<Bytes> small;
            std::deque<Bytes> large;
            std::size_t bytes = 0;
        };
        [[nodiscard]] std::optional<chain::consensus::sdbft::event::Received> take(bool large);

        std::map<PeerId, Lane> lanes_;  // none is empty
        PeerId last_small_ = 0;
        PeerId last_large_ = 0;
        std::uint64_t small_in_a_row_ = 0;
        std::size_t bytes_ = 0;
    };

    Lanes members_;
    Lanes strangers_;
    std::uint64_t members_in_a_row_ = 0;
};

}  // namespace quern::node
