// Cookies for handshakes under load: a stranger must repeat 16 bytes that only its own address was sent before any
// public-key work is done for it, and the node keeps nothing about it meanwhile. Used by network.cpp; one thread.
//
//   cookie = HMAC-SHA-256(secret, address text || 0 || first handshake message)[0 .. 16)
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/rng.h"

namespace quern::p2p::transport {

inline constexpr std::uint64_t kCookieLifeMs = 120'000;

class CookieJar {
public:
    explicit CookieJar(Rng& rng) : rng_(rng) {}
    [[nodiscard]] FixedBytes<16> make(std::string_view address, BytesView message, std::uint64_t now_ms);
    // Also a cookie of the secret before the present one.
    [[nodiscard]] bool check(std::string_view address, BytesView message, BytesView cookie, std::uint64_t now_ms);

private:
    void rotate(std::uint64_t now_ms);
    Rng& rng_;
    Hash32 secret_;
    Hash32 previous_;
    std::uint64_t made_ms_ = 0;
    bool has_secret_ = false;
};

}  // namespace quern::p2p::transport
