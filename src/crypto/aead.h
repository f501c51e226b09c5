// Authenticated encryption: ChaCha20-Poly1305 (RFC 8439) through OpenSSL. For secrets at rest and private transport.
// A (key, nonce) pair must never seal two messages. Thread-safe.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::crypto {

using AeadNonce = FixedBytes<12>;
inline constexpr std::size_t kAeadTagSize = 16;

// Ciphertext followed by the 16-byte tag. `associated` is authenticated and not stored.
[[nodiscard]] Bytes aead_seal(const Hash32& key, const AeadNonce& nonce, BytesView associated, BytesView plain);
// Errors: aead.too_short, aead.forged (any change to ciphertext, tag, key, nonce or associated data).
[[nodiscard]] Expected<Bytes> aead_open(const Hash32& key, const AeadNonce& nonce, BytesView associated,
                                        BytesView sealed);

}  // namespace quern::crypto
