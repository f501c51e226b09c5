#include "p2p/transport/noise.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <memory>

#include "crypto/aead.h"
#include "crypto/hash.h"
#include "p2p/transport/cipher.h"

namespace quern::p2p::transport {
namespace {

struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeKeyContext {
    void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeKeyContext>;

// OpenSSL fails at these only when memory has run out.
void require(bool ok) {
    if (!ok) std::abort();
}

void cleanse(Hash32& secret) { OPENSSL_cleanse(secret.data.data(), secret.data.size()); }

struct TwoKeys {
    Hash32 first;
    Hash32 second;
    TwoKeys() = default;
    TwoKeys(const TwoKeys&) = default;
    TwoKeys& operator=(const TwoKeys&) = default;
    ~TwoKeys() {
        cleanse(first);
        cleanse(second);
    }
};

// Noise's HKDF with two outputs (section 4.3).
TwoKeys hkdf2(const Hash32& chaining_key, BytesView input) {
    Hash32 temporary = crypto::hmac_sha256(chaining_key, input);
    const std::uint8_t one = 1;
    TwoKeys keys;
    keys.first = crypto::hmac_sha256(temporary, BytesView(&one, 1));
    Bytes second = to_bytes(keys.first);
    second.push_back(2);
    keys.second = crypto::hmac_sha256(temporary, second);
    cleanse(temporary);
    OPENSSL_cleanse(second.data(), second.size());
    return keys;
}

}  // namespace

KeyPair KeyPair::from_secret(const Hash32& secret) {
    KeyPair pair;
    pair.secret_ = secret;
    pair.key_.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data.data(), secret.data.size()),
                    EVP_PKEY_free);
    require(pair.key_ != nullptr);
    std::size_t size = pair.public_.data.size();
    require(EVP_PKEY_get_raw_public_key(pair.key_.get(), pair.public_.data.data(), &size) == 1 && size == 32);
    return pair;
}

KeyPair KeyPair::generate(Rng& rng) {
    Hash32 secret;
    rng.fill(secret.data);
    KeyPair pair = from_secret(secret);
    cleanse(secret);
    return pair;
}

KeyPair::~KeyPair() { cleanse(secret_); }

Expected<Hash32> x25519(const Hash32& secret, const Hash32& peer_public) {
    return KeyPair::from_secret(secret).agree(peer_public);
}

Expected<Hash32> KeyPair::agree(const Hash32& peer_public) const {
    const Key theirs(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, peer_public.data.data(), peer_public.data.size()));
    require(theirs != nullptr);
    const KeyContext context(EVP_PKEY_CTX_new(key_.get(), nullptr));
    require(context != nullptr && EVP_PKEY_derive_init(context.get()) == 1);
    Hash32 shared;
    std::size_t size = shared.data.size();
    // OpenSSL refuses an all-zero result itself; the check below does not rely on it.
    if (EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
        EVP_PKEY_derive(context.get(), shared.data.data(), &size) != 1 || size != 32 || shared.is_zero())
        return fail("noise.weak_key", "the peer's key has small order");
    return shared;
}

Handshake::Handshake(Role role, BytesView prologue, const KeyPair& static_key, const KeyPair& ephemeral_key)
    : role_(role), static_(static_key), ephemeral_(ephemeral_key) {
    static_assert(kNoiseSuite.size() == 32);
    hash_ = Hash32::copy_of(as_bytes(kNoiseSuite));
    chaining_key_ = hash_;
    mix_hash(prologue);
}

Handshake::~Handshake() { wipe(); }

void Handshake::wipe() {
    cleanse(key_);
    cleanse(chaining_key_);
}

void Handshake::mix_hash(BytesView data) { hash_ = crypto::sha256({hash_.view(), data}); }

void Handshake::mix_key(BytesView input) {
    const TwoKeys keys = hkdf2(chaining_key_, input);
    chaining_key_ = keys.first;
    key_ = keys.second;
    nonce_ = 0;
    has_key_ = true;
}

Status Handshake::mix_dh(const KeyPair& key, const Hash32& peer_public) {
    QUERN_TRY(Hash32 shared, key.agree(peer_public));
    mix_key(shared);
    cleanse(shared);
    return {};
}

void Handshake::seal_and_hash(BytesView plain, Bytes& out) {
    const Bytes sealed =
        has_key_ ? crypto::aead_seal(key_, noise_nonce(nonce_++), hash_.view(), plain) : to_bytes(plain);
    mix_hash(sealed);
    append(out, sealed);
}

Expected<Bytes> Handshake::open_and_hash(BytesView sealed) {
    Bytes plain;
    if (has_key_) {
        auto opened = crypto::aead_open(key_, noise_nonce(nonce_++), hash_.view(), sealed);
        if (!opened) return fail("noise.forged", "a handshake message does not authenticate");
        plain = std::move(*opened);
    } else {
        plain = to_bytes(sealed);
    }
    mix_hash(sealed);
    return plain;
}

Expected<Bytes> Handshake::write(BytesView payload) {
    if (failed_ || step_ >= 3 || !is_my_turn()) return fail("noise.out_of_turn");
    auto message = write_message(payload);
    if (message)
        ++step_;
    else
        failed_ = true;
    return message;
}

Expected<Bytes> Handshake::write_message(BytesView payload) {
    if (payload.size() > kMaxNoiseMessage - 2 * 32 - 2 * crypto::kAeadTagSize) return fail("noise.oversized");
    Bytes out;
    if (step_ != 2) {
        append(out, ephemeral_.public_key());
        mix_hash(ephemeral_.public_key());
    }
    if (step_ == 1) {
        QUERN_CHECK(mix_dh(ephemeral_, remote_ephemeral_));  // ee
        seal_and_hash(static_.public_key(), out);            // s
        QUERN_CHECK(mix_dh(static_, remote_ephemeral_));     // es
    } else if (step_ == 2) {
        seal_and_hash(static_.public_key(), out);         // s
        QUERN_CHECK(mix_dh(static_, remote_ephemeral_));  // se
    }
    seal_and_hash(payload, out);
    return out;
}

Expected<Bytes> Handshake::read(BytesView message) {
    if (failed_ || step_ >= 3 || is_my_turn()) return fail("noise.out_of_turn");
    auto payload = read_message(message);
    if (payload)
        ++step_;
    else
        failed_ = true;
    return payload;
}

Expected<Bytes> Handshake::read_message(BytesView message) {
    constexpr std::size_t kSealedKey = 32 + crypto::kAeadTagSize;
    if (message.size() > kMaxNoiseMessage) return fail("noise.oversized");
    const std::size_t least = step_ == 0   ? 32
                              : step_ == 1 ? 32 + kSealedKey + crypto::kAeadTagSize
                                           : kSealedKey + crypto::kAeadTagSize;
    if (message.size() < least) return fail("noise.truncated");
    if (step_ != 2) {
        remote_ephemeral_ = Hash32::copy_of(message.first(32));
        mix_hash(remote_ephemeral_);
        message = message.subspan(32);
    }
    if (step_ != 0) {
        if (step_ == 1) QUERN_CHECK(mix_dh(ephemeral_, remote_ephemeral_));    // ee
        QUERN_TRY(const Bytes key, open_and_hash(message.first(kSealedKey)));  // s
        remote_static_ = Hash32::copy_of(key);
        message = message.subspan(kSealedKey);
        QUERN_CHECK(mix_dh(ephemeral_, remote_static_));  // es or se
    }
    return open_and_hash(message);
}

SessionKeys::~SessionKeys() {
    cleanse(send);
    cleanse(receive);
}

Expected<SessionKeys> Handshake::split() {
    if (!is_finished() || split_) return fail("noise.unfinished");
    const TwoKeys keys = hkdf2(chaining_key_, {});
    wipe();
    split_ = true;
    if (role_ == Role::initiator) return SessionKeys{keys.first, keys.second};
    return SessionKeys{keys.second, keys.first};
}

}  // namespace quern::p2p::transport
