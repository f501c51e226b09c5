// Whom to dial, whom to accept, whom to leave: static peers with backoff, outbound slots by network group, anchors of
// the last run first, short connections that test addresses, seeds when nothing else is known, inbound limits, scores
// and bans, eviction. Pure: no sockets; time is an argument: `now_ms` of a clock that does not go back, `unix_seconds`
// for the address book. Used by network.cpp; one thread.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "p2p/address_book.h"
#include "p2p/offence.h"

namespace quern::p2p {

inline constexpr std::uint64_t kFirstBackoffMs = 200;
inline constexpr std::uint64_t kMaxBackoffMs = 30'000;
inline constexpr std::size_t kMaxRememberedScores = 4096;
inline constexpr std::size_t kMaxPerGroup = 8;  // inbound peers of one network group, "local" excepted
inline constexpr std::size_t kMaxDialing = 16;
inline constexpr std::uint64_t kFeelerMs = 120'000;      // between tests of addresses by short connections
inline constexpr std::uint64_t kSeedPatienceMs = 5'000;  // without anybody else to dial for so long, seeds are asked
inline constexpr std::size_t kProtectedByPing = 4;       // that many of the quickest are never evicted
inline constexpr std::size_t kProtectedByDelivery = 4;   // and of those that delivered most

struct PeerLimits {
    std::size_t max_inbound = 64;
    std::size_t max_outbound = 8;  // beside static and committee peers
};

struct DialTarget {
    Bytes20 address;
    messages::Endpoint endpoint;
    bool operator==(const DialTarget&) const = default;
};
// Why a peer is dialled or was.
enum class DialReason : std::uint8_t { fixed, outbound, seed, feeler };

struct ConnectedPeer {
    std::string host;
    bool outbound = false;
    bool fixed = false;          // static or of the committee
    bool seed = false;           // asked for addresses, then left
    messages::Endpoint dialled;  // when outbound
    std::uint64_t since_ms = 0;
    std::uint64_t least_rtt_us = 0;
    std::uint64_t deliveries = 0;
};

class PeerManager {
public:
    PeerManager(const Bytes20& self, PeerLimits limits, AddressBook& book, Rng& rng);

    void add_static(const Bytes20& address, const messages::Endpoint& endpoint);
    // Dialled when nobody else is left to dial, to hear of others.
    void add_seed(const Bytes20& address, const messages::Endpoint& endpoint);
    // Peers of the last run, to dial first: an attacker who fills the address book does not choose them.
    void add_anchor(const AddressBook::Candidate& anchor) { anchors_.push_back(anchor); }
    // The outbound peers that have stayed longest, for the next run.
    [[nodiscard]] std::vector<AddressBook::Candidate> anchors() const;
    // Dialled whenever an endpoint is known, never evicted. Replaces the earlier set.
    void set_committee(const std::set<Bytes20>& members);
    [[nodiscard]] bool is_fixed(const Bytes20& address) const {
        return static_.count(address) != 0 || committee_.count(address) != 0;
    }

    // Where fixed peers are dialled.
    [[nodiscard]] std::vector<std::string> fixed_hosts() const;

    // What should be dialled now. The caller says how each went.
    [[nodiscard]] std::vector<DialTarget> due_dials(std::uint64_t now_ms, std::uint64_t unix_seconds);
    void dial_failed(const Bytes20& address, std::uint64_t now_ms, std::uint64_t unix_seconds);
    // Whether the dial under way only tests the address; then it has passed, and the connection is to be closed.
    [[nodiscard]] bool feeler_arrived(const Bytes20& address, std::uint64_t unix_seconds);

    // An authenticated peer wants in. Errors: peer.banned, peer.group_full, peer.slots_full (then evict() may help).
    [[nodiscard]] Status admit(const Bytes20& address, const std::string& host, bool outbound, std::uint64_t now_ms);
    // The inbound peer that would be missed least; nullopt when all are protected.
    [[nodiscard]] std::optional<Bytes20> evict() const;
    void connected(const Bytes20& address, const std::string& host, bool outbound, std::uint64_t now_ms,
                   std::uint64_t unix_seconds, const messages::Endpoint& remote = {});
    // A seed that has told what it knows can go.
    [[nodiscard]] bool is_seed(const Bytes20& address) const;
    void disconnected(const Bytes20& address, std::uint64_t now_ms);
    void measured(const Bytes20& address, std::uint64_t least_rtt_us);
    void delivered(const Bytes20& address);

    // True when the peer must be left now.
    [[nodiscard]] bool penalize(const Bytes20& address, Offence offence, std::uint64_t now_ms);
    [[nodiscard]] int score(const Bytes20& address, std::uint64_t now_ms) const;
    [[nodiscard]] bool is_banned(const Bytes20& address, std::uint64_t now_ms) const;
    [[nodiscard]] const std::map<Bytes20, ConnectedPeer>& peers() const { return peers_; }

private:
    struct Static {
        messages::Endpoint endpoint;
    };
    struct Backoff {
        std::uint64_t next_ms = 0;
        std::uint64_t delay_ms = kFirstBackoffMs;
    };
    struct Score {
        double points = 0;
        std::uint64_t at_ms = 0;
        std::uint64_t banned_until_ms = 0;
    };
    struct Dialing {
        DialReason reason = DialReason::fixed;
        messages::Endpoint endpoint;
    };
    void dial_outbound(std::vector<DialTarget>& due, std::uint64_t now_ms);
    void dial_feeler(std::vector<DialTarget>& due, std::uint64_t now_ms, std::uint64_t unix_seconds);
    bool take(std::vector<DialTarget>& due, const AddressBook::Candidate& target, DialReason reason);
    [[nodiscard]] bool may_dial(const Bytes20& address, std::uint64_t now_ms) const;
    void back_off(const Bytes20& address, std::uint64_t now_ms);

    Bytes20 self_;
    PeerLimits limits_;
    AddressBook& book_;
    Rng& rng_;
    std::map<Bytes20, Static> static_;
    std::set<Bytes20> committee_;
    std::map<Bytes20, Backoff> backoff_;
    std::map<Bytes20, Dialing> dialing_;
    std::map<Bytes20, messages::Endpoint> seeds_;
    std::deque<AddressBook::Candidate> anchors_;
    std::uint64_t next_feeler_ms_ = 0;
    std::optional<std::uint64_t> lonely_since_ms_;  // nobody could be dialled for a free slot
    std::map<Bytes20, ConnectedPeer> peers_;
    std::map<Bytes20, Score> scores_;
};

}  // namespace quern::p2p
