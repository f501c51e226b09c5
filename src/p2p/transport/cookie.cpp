#include "p2p/transport/cookie.h"

#include <openssl/crypto.h>

#include "crypto/hash.h"

namespace quern::p2p::transport {
namespace {

FixedBytes<16> cookie_of(const Hash32& secret, std::string_view address, BytesView message) {
    Bytes input = to_bytes(as_bytes(address));
    input.push_back(0);
    append(input, message);
    return FixedBytes<16>::copy_of(crypto::hmac_sha256(secret, input).view().first(16));
}

}  // namespace

void CookieJar::rotate(std::uint64_t now_ms) {
    if (has_secret_ && now_ms - made_ms_ < kCookieLifeMs) return;
    previous_ = secret_;
    if (!has_secret_) rng_.fill(previous_.data);
    rng_.fill(secret_.data);
    made_ms_ = now_ms;
    has_secret_ = true;
}

FixedBytes<16> CookieJar::make(std::string_view address, BytesView message, std::uint64_t now_ms) {
    rotate(now_ms);
    return cookie_of(secret_, address, message);
}

bool CookieJar::check(std::string_view address, BytesView message, BytesView cookie, std::uint64_t now_ms) {
    rotate(now_ms);
    if (cookie.size() != 16) return false;
    const auto fits = [&](const Hash32& secret) {
        return CRYPTO_memcmp(cookie_of(secret, address, message).data.data(), cookie.data(), 16) == 0;
    };
    return fits(secret_) || fits(previous_);
}

}  // namespace quern::p2p::transport
