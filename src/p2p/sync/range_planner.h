// Which blocks to ask of whom when many are missing: consecutive slices go to several peers in parallel, answers wait
// until the blocks before them are committed, a slice that fails goes to another peer. What a peer says of how far it
// is chooses nothing but what it is asked itself: one that does not deliver is passed over for a time that doubles, one
// that does gets more and is preferred. Pure: time is an argument in milliseconds; node/net/range_sync sends what the
// calls return and judges the blocks. One thread.
//
// The window is the blocks from next() on. A block in it is missing, asked for (of one peer, or of two when the first
// is slow and everything waits for it), or here.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "p2p/messages/messages.h"

namespace quern::p2p::sync {

inline constexpr std::uint64_t kSliceMs = 2'000;      // an answer's time; doubles for a block that was late before
inline constexpr int kMaxLateDoublings = 4;           // so 32 s at most: a large block over a slow line
inline constexpr std::uint64_t kHedgeMs = 500;        // the first missing block is asked of a second peer then
inline constexpr std::uint64_t kMaxSliceBlocks = 64;  // halved when peers that did deliver become late
inline constexpr std::uint64_t kSliceBytesPerBlock = 16U << 10;  // asked for; a first block may be larger
inline constexpr std::size_t kMaxSlicesPerPeer = 2;              // of one that delivered; others get one
inline constexpr std::size_t kMaxSlices = 16;                    // in flight
inline constexpr std::uint64_t kMaxAheadBlocks = 1024;  // beyond the first missing one: bounds what waits in memory
inline constexpr std::size_t kMaxAheadBytes = 64U << 20;
inline constexpr std::uint64_t kBusyPauseMs = 1'000;
inline constexpr std::uint64_t kDemotedMs = 4'000;  // doubles with each failure in a row
inline constexpr std::uint64_t kMaxDemotedMs = 600'000;
inline constexpr std::uint64_t kMaxFixedDemotedMs = 16'000;  // static and committee peers: often all there are
inline constexpr std::size_t kMaxRemembered = 1'024;         // demoted peers that left: they may come back

class RangePlanner {
public:
    using Peer = Bytes20;
    struct Ask {
        Peer peer;
        messages::GetRange request;
        std::uint64_t timeout_ms = 0;
    };
    struct Block {
        std::shared_ptr<const messages::BlockAnswer> answer;
        Peer from;
    };
    // What a peer says, and what the node knows of it.
    struct Source {
        std::uint64_t earliest = 0;
        std::uint64_t head = 0;  // claimed
        bool fixed = false;      // static or of the committee: preferred
        std::uint64_t lot = 0;   // drawn; decides between equals, so that nobody can choose to be first
    };
    enum class Failure : std::uint8_t {
        late,     // no answer in time, or the connection ended
        refused,  // it has not what it said, or sent nothing of use
        wrong,    // its blocks are not the chain's: it is not asked again
        busy,     // it says so: asked again after kBusyPauseMs
    };

    explicit RangePlanner(std::uint64_t first) : next_(first) {}

    void set_peer(const Peer& peer, const Source& source);
    // What was asked of it goes to others; what it sent stays.
    void remove_peer(const Peer& peer);

    // All blocks below are committed.
    void advance(std::uint64_t next);
    [[nodiscard]] std::uint64_t next() const { return next_; }
    // The highest block that a peer in good standing claims; 0 without one.
    [[nodiscard]] std::uint64_t best_claim(std::uint64_t now_ms) const;
    // The middle one (the lower of two) of what those claim that delivered verified blocks; 0 without one.
    [[nodiscard]] std::uint64_t proven_claim(std::uint64_t now_ms) const;

    // What to ask now; each counts as asked.
    [[nodiscard]] std::vector<Ask> next_asks(std::uint64_t now_ms);
    [[nodiscard]] bool is_idle() const { return flights_.empty(); }

    // An answer to a slice asked of this peer. It may stop early. Errors: range.unasked; range.empty, range.too_many
    // (the peer is demoted).
    [[nodiscard]] quern::Status received(const Peer& peer, std::uint64_t first,
                                         std::vector<messages::BlockAnswer> blocks, std::uint64_t now_ms);
    void failed(const Peer& peer, std::uint64_t first, Failure failure, std::uint64_t now_ms);

    // The block, if it is here.
    [[nodiscard]] const Block* find(std::uint64_t number) const;
    // Blocks that are here one after the other from `first` on, at most `most`.
    [[nodiscard]] std::vector<Block> run(std::uint64_t first, std::size_t most) const;
    // The node found the blocks of this peer right: it is in good standing and gets more.
    void verified(const Peer& peer);
    // The node found a block of this peer wrong, or useless: what it sent from `number` on is asked of others.
    void discard(const Peer& peer, std::uint64_t number, Failure failure, std::uint64_t now_ms);

    [[nodiscard]] std::size_t waiting_bytes() const { return waiting_bytes_; }
    [[nodiscard]] std::size_t remembered() const { return standings_.size(); }

private:
    struct Slot {
        std::optional<Block> block;
        std::uint8_t asked = 0;  // flights that cover it
        std::uint8_t late = 0;   // flights that began with it and were late
    };
    struct Standing {
        std::uint64_t strikes = 0;
        std::uint64_t not_before_ms = 0;
        bool proven = false;
        bool wrong = false;
    };
    struct PeerState {
        Source source;
        std::size_t in_flight = 0;
    };
    struct Flight {
        Peer peer;
        std::uint64_t first = 0;
        std::uint64_t count = 0;
        std::uint64_t asked_ms = 0;
    };
    [[nodiscard]] Slot* slot(std::uint64_t number);
    [[nodiscard]] bool in_good_standing(const Peer& peer, std::uint64_t now_ms) const;
    [[nodiscard]] const PeerState* choose(std::uint64_t first, const Peer* but, std::uint64_t now_ms,
                                          const Peer** chosen) const;
    [[nodiscard]] std::optional<Ask> ask(std::uint64_t first, const Peer* but, std::uint64_t now_ms);
    void hedge(std::vector<Ask>& asks, std::uint64_t now_ms);
    [[nodiscard]] std::optional<Flight> land(const Peer& peer, std::uint64_t first);
    void demote(const Peer& peer, Failure failure, std::uint64_t now_ms);
    void slower();

    std::uint64_t next_;
    std::deque<Slot> window_;  // from next_ on
    std::map<Peer, PeerState> peers_;
    std::map<Peer, Standing> standings_;  // of peers_, and of those who left demoted
    std::vector<Flight> flights_;
    std::uint64_t slice_blocks_ = kMaxSliceBlocks;
    std::size_t slices_ = kMaxSlices;
    std::size_t waiting_bytes_ = 0;
};

}  // namespace quern::p2p::sync
