// One direction of an encrypted session: Noise's CipherState over a kept OpenSSL context, so that a record costs no
// allocation. Used by frames.h. An object belongs to one thread at a time.
#pragma once

#include <memory>
#include <span>

#include "crypto/aead.h"

struct evp_cipher_ctx_st;

namespace quern::p2p::transport {

// Four zero bytes, then the counter in little endian (Noise, section 12.3).
[[nodiscard]] crypto::AeadNonce noise_nonce(std::uint64_t counter);

class CipherState {
public:
    enum class Direction : std::uint8_t { seal, open };

    CipherState(Direction direction, const Hash32& key);
    ~CipherState();
    CipherState(CipherState&&) noexcept;
    CipherState& operator=(CipherState&&) noexcept;

    // Records so far.
    [[nodiscard]] std::uint64_t counter() const { return counter_; }
    // Appends ciphertext and tag to `out`. `plain` must not lie in `out`.
    void seal(BytesView associated, BytesView plain, Bytes& out);
    // Decrypts in place; the plain bytes lie at the start of `sealed`. Errors: cipher.too_short, cipher.forged.
    [[nodiscard]] Expected<std::span<std::uint8_t>> open(BytesView associated, std::span<std::uint8_t> sealed);
    // Noise's REKEY: the old key cannot be found from the new one.
    void rekey();

private:
    void start_record(BytesView associated);
    void load_key();

    struct FreeContext {
        void operator()(evp_cipher_ctx_st* context) const;
    };
    std::unique_ptr<evp_cipher_ctx_st, FreeContext> context_;
    Direction direction_;
    Hash32 key_;
    std::uint64_t counter_ = 0;
};

}  // namespace quern::p2p::transport
