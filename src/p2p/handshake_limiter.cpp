#include "p2p/handshake_limiter.h"

#include <algorithm>

#include "base/big_endian.h"
#include "crypto/hash.h"
#include "p2p/offence.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {

using transport::host_key;
using transport::subnet_key;
using transport::TokenBucket;

HandshakeLimiter::HandshakeLimiter(Rng& rng, bool local_network)
    : local_network_(local_network),
      host_sockets_(kHostBuckets, TokenBucket(kSocketsPerHost, kSocketsPerHostBurst)),
      subnet_sockets_(kSubnetBuckets, TokenBucket(kSocketsPerSubnet, kSocketsPerSubnetBurst)),
      host_handshakes_(kHostBuckets, TokenBucket(kHandshakesPerHost, kHandshakesPerHostBurst)),
      subnet_handshakes_(kSubnetBuckets, TokenBucket(kHandshakesPerSubnet, kHandshakesPerSubnetBurst)) {
    rng.fill(secret_.data);
}

std::size_t HandshakeLimiter::place(std::string_view key, std::size_t places) const {
    const Hash32 digest = crypto::sha256({secret_.view(), as_bytes(key)});
    return from_big_endian(digest.view().first(8)) % places;
}

bool HandshakeLimiter::is_exempt(const std::string& host) const {
    return local_network_ && transport::is_loopback(host);
}

bool HandshakeLimiter::allow_socket(const std::string& host, std::size_t pending_in_group, std::uint64_t now_us) {
    if (!is_exempt(host)) {
        if (is_banned(host, now_us / 1000)) return false;
        if (!host_sockets_[place(host_key(host), kHostBuckets)].try_take(1, now_us)) return false;
        if (known_.contains(host_key(host))) return true;
        if (pending_in_group >= kMaxPendingPerGroup) return false;
        if (!subnet_sockets_[place(subnet_key(host), kSubnetBuckets)].try_take(1, now_us)) return false;
    }
    return sockets_.try_take(1, now_us);
}

HandshakeLimiter::Verdict HandshakeLimiter::allow_handshake(const std::string& host, bool has_cookie,
                                                            std::uint64_t now_us) {
    if (!is_exempt(host)) {
        // A cookie shows that the address is its own; it does not make the work any cheaper.
        if (!host_handshakes_[place(host_key(host), kHostBuckets)].try_take(1, now_us)) return Verdict::refuse;
        if (known_.contains(host_key(host))) return Verdict::allow;
        if (!subnet_handshakes_[place(subnet_key(host), kSubnetBuckets)].try_take(1, now_us)) return Verdict::refuse;
    }
    if (has_cookie) return cookie_handshakes_.try_take(1, now_us) ? Verdict::allow : Verdict::refuse;
    return handshakes_.try_take(1, now_us) ? Verdict::allow : Verdict::ask_cookie;
}

void HandshakeLimiter::penalize(const std::string& host, int points, std::uint64_t now_ms) {
    if (is_exempt(host)) return;
    const std::string key = host_key(host);
    if (known_.contains(key)) return;
    if (scores_.size() >= kMaxScoredHosts && !scores_.contains(key))
        scores_.erase(std::min_element(scores_.begin(), scores_.end(), [](const auto& a, const auto& b) {
            return std::max(a.second.at_ms, a.second.banned_until_ms) <
                   std::max(b.second.at_ms, b.second.banned_until_ms);
        }));
    Score& score = scores_[key];
    const double decayed = score.points - kDecayPerSecond * static_cast<double>(now_ms - score.at_ms) / 1000.0;
    score.points = std::max(decayed, 0.0) + points;
    score.at_ms = now_ms;
    if (score.points < kBanPoints) return;
    score.points = 0;
    score.banned_until_ms = now_ms + kBanMs;
}

bool HandshakeLimiter::is_banned(const std::string& host, std::uint64_t now_ms) const {
    const std::string key = host_key(host);
    const auto at = scores_.find(key);
    return at != scores_.end() && at->second.banned_until_ms > now_ms && !known_.contains(key);
}

}  // namespace quern::p2p
