// Which blocks to ask of whom when many are missing: consecutive slices go to several peers in parallel, answers wait
// until all before them are there, a slice that fails goes to another peer. Pure: time is an argument in milliseconds;
// network.cpp sends what the calls return. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "p2p/messages/messages.h"

namespace quern::p2p::sync {

inline constexpr std::uint64_t kSliceBlocks = 32;
inline constexpr std::size_t kMaxSlicesPerPeer = 2;
inline constexpr std::uint64_t kMaxAheadBlocks = 1024;  // beyond the first missing block: bounds what waits in memory
inline constexpr std::size_t kMaxAheadBytes = 64U << 20;
inline constexpr std::uint64_t kSliceMs = 10'000;
inline constexpr std::uint64_t kBusyPauseMs = 1'000;
inline constexpr int kMaxSliceFailures = 8;  // then the sync ends with an error

class RangePlanner {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        messages::GetRange request;
        bool operator==(const Ask&) const = default;
    };
    struct Delivered {
        std::uint64_t number = 0;
        messages::BlockAnswer answer;
        Peer from;
    };

    // Blocks first .. last.
    RangePlanner(std::uint64_t first, std::uint64_t last) : next_(first), last_(last), unassigned_{{first, last}} {}

    // The peer serves blocks earliest .. head. Called again when that changes.
    void add_peer(const Peer& peer, std::uint64_t earliest, std::uint64_t head);
    // Its slices go to others.
    void remove_peer(const Peer& peer);

    // What to ask now; each counts as asked.
    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms);
    // An answer to a slice asked of this peer. It may stop early. Errors: range.unasked, range.too_many, range.empty
    // (the slice goes to another peer; the peer gets no more of this range).
    [[nodiscard]] quern::Status received(const Peer& peer, std::uint64_t first,
                                         std::vector<messages::BlockAnswer> blocks);
    // It refused, failed or the time was over.
    void failed(const Peer& peer, std::uint64_t first);
    // It is busy: the slice goes back, and the peer is asked again after kBusyPauseMs.
    void busy(const Peer& peer, std::uint64_t first, std::uint64_t now_ms);
    // Peers whose slices are late; the slices go to others.
    [[nodiscard]] std::vector<Peer> expired(std::uint64_t now_ms);

    // The next blocks in order, as many as are there.
    [[nodiscard]] std::vector<Delivered> take_ready();
    [[nodiscard]] bool is_done() const { return next_ > last_; }
    // A slice failed too often, or no peer is left that could serve it.
    [[nodiscard]] bool is_stuck() const;
    [[nodiscard]] std::uint64_t next() const { return next_; }

private:
    struct PeerState {
        std::uint64_t earliest = 0;
        std::uint64_t head = 0;
        std::size_t in_flight = 0;
        bool excluded = false;
        std::uint64_t not_before_ms = 0;
    };
    struct Flight {
        Peer peer;
        std::uint64_t last = 0;
        std::uint64_t deadline_ms = 0;
    };
    void give_back(std::uint64_t first, std::uint64_t last);
    void land(std::map<std::uint64_t, Flight>::iterator flight);

    std::uint64_t next_;
    std::uint64_t last_;
    std::map<Peer, PeerState> peers_;
    std::map<std::uint64_t, std::uint64_t> unassigned_;  // first -> last
    std::map<std::uint64_t, Flight> flights_;            // by first
    std::map<std::uint64_t, Delivered> waiting_;
    std::size_t waiting_bytes_ = 0;
    int failures_ = 0;
};

}  // namespace quern::p2p::sync
