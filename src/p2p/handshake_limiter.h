// How much work strangers' sockets and handshakes may cause: a rate for each host (/32, IPv6 /64), for each network
// (/24, /48) and for the node, asked in this order, so that what one network asks too much takes nothing from the
// others; and the hosts that are refused for a while because of what came from them. Keys are free, so bans by key
// alone stop nobody. The buckets are arrays that a secret hash points into: no table grows, and nobody can aim at
// another's place. Pure: time is an argument. Used by network_peers.cpp; one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"
#include "p2p/transport/token_bucket.h"

namespace quern::p2p {

inline constexpr std::size_t kMaxPendingPerGroup = 32;  // unfinished handshakes of one network group
inline constexpr std::uint64_t kSocketsPerSecond = 5'000;
inline constexpr std::uint64_t kSocketsPerSubnet = 50;
inline constexpr std::uint64_t kSocketsPerSubnetBurst = 200;
inline constexpr std::uint64_t kSocketsPerHost = 10;
inline constexpr std::uint64_t kSocketsPerHostBurst = 50;
// Handshakes cost some 200 microseconds of the thread that carries votes: both together a fifth of it at most.
inline constexpr std::uint64_t kHandshakesPerSecond = 500;        // above: cookies
inline constexpr std::uint64_t kCookieHandshakesPerSecond = 500;  // of those that showed a cookie
inline constexpr std::uint64_t kHandshakesPerSubnet = 20;
inline constexpr std::uint64_t kHandshakesPerSubnetBurst = 100;
inline constexpr std::uint64_t kHandshakesPerHost = 4;
inline constexpr std::uint64_t kHandshakesPerHostBurst = 24;
inline constexpr std::size_t kHostBuckets = 4'096;
inline constexpr std::size_t kSubnetBuckets = 2'048;
inline constexpr std::size_t kMaxScoredHosts = 4'096;  // the one heard of longest ago is forgotten

class HandshakeLimiter {
public:
    // local_network: loopback is no stranger there.
    HandshakeLimiter(Rng& rng, bool local_network);

    // Hosts of fixed peers: neither their network's nor the node's allowance is asked for them, and they are not
    // banned.
    void set_known(std::set<std::string> host_keys) { known_ = std::move(host_keys); }
    // A socket was accepted, while so many of its network group are in handshake.
    [[nodiscard]] bool allow_socket(const std::string& host, std::size_t pending_in_group, std::uint64_t now_us);
    // Public-key work is about to be done for it.
    enum class Verdict : std::uint8_t { allow, ask_cookie, refuse };
    [[nodiscard]] Verdict allow_handshake(const std::string& host, bool has_cookie, std::uint64_t now_us);

    // Something bad came from there; points as of a peer.
    void penalize(const std::string& host, int points, std::uint64_t now_ms);
    [[nodiscard]] bool is_banned(const std::string& host, std::uint64_t now_ms) const;
    [[nodiscard]] std::size_t scored() const { return scores_.size(); }

private:
    struct Score {
        double points = 0;
        std::uint64_t at_ms = 0;
        std::uint64_t banned_until_ms = 0;
    };
    [[nodiscard]] bool is_exempt(const std::string& host) const;
    [[nodiscard]] std::size_t place(std::string_view key, std::size_t places) const;

    Hash32 secret_;
    bool local_network_;
    std::set<std::string> known_;
    transport::TokenBucket sockets_{kSocketsPerSecond, kSocketsPerSecond};
    transport::TokenBucket handshakes_{kHandshakesPerSecond, kHandshakesPerSecond};
    transport::TokenBucket cookie_handshakes_{kCookieHandshakesPerSecond, kCookieHandshakesPerSecond};
    std::vector<transport::TokenBucket> host_sockets_;
    std::vector<transport::TokenBucket> subnet_sockets_;
    std::vector<transport::TokenBucket> host_handshakes_;
    std::vector<transport::TokenBucket> subnet_handshakes_;
    std::map<std::string, Score> scores_;
};

}  // namespace quern::p2p
