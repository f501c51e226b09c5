// The Noise handshake of Quern's transport: pattern XX with X25519, ChaCha20-Poly1305 and SHA-256 (Noise Protocol
// Framework, revision 34). A pure state machine without sockets or clocks; connection.h drives it, tests and fuzzers
// too. An object belongs to one thread at a time.
//
//   -> e
//   <- e, ee, s, es        payload: the responder's NetCert
//   -> s, se               payload: the initiator's NetCert and what the connection is for
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/expected.h"
#include "base/rng.h"

struct evp_pkey_st;

namespace quern::p2p::transport {

inline constexpr std::string_view kNoiseSuite = "Noise_XX_25519_ChaChaPoly_SHA256";  // 32 bytes: it is h as it stands
inline constexpr std::size_t kMaxNoiseMessage = 65'535;

// An X25519 key pair; the secret is wiped on destruction.
class KeyPair {
public:
    [[nodiscard]] static KeyPair from_secret(const Hash32& secret);
    [[nodiscard]] static KeyPair generate(Rng& rng);
    KeyPair(const KeyPair&) = default;
    KeyPair& operator=(const KeyPair&) = default;
    ~KeyPair();

    [[nodiscard]] const Hash32& secret() const { return secret_; }
    [[nodiscard]] const Hash32& public_key() const { return public_; }
    // As x25519 below, without computing the public key once more.
    [[nodiscard]] Expected<Hash32> agree(const Hash32& peer_public) const;

private:
    KeyPair() = default;
    Hash32 secret_;
    Hash32 public_;
    std::shared_ptr<evp_pkey_st> key_;  // OpenSSL's form, which is dear to make; it wipes itself, too
};

// The shared secret of RFC 7748. Error noise.weak_key: the result is all zeros (a point of small order), from which
// everybody could derive the keys.
[[nodiscard]] Expected<Hash32> x25519(const Hash32& secret, const Hash32& peer_public);

// Wiped on destruction.
struct SessionKeys {
    Hash32 send;
    Hash32 receive;
    SessionKeys(const Hash32& sending, const Hash32& receiving) : send(sending), receive(receiving) {}
    SessionKeys(const SessionKeys&) = default;
    SessionKeys& operator=(const SessionKeys&) = default;
    ~SessionKeys();
};

class Handshake {
public:
    enum class Role : std::uint8_t { initiator, responder };

    Handshake(Role role, BytesView prologue, const KeyPair& static_key, const KeyPair& ephemeral_key);
    ~Handshake();

    // The next message with this payload. Errors: noise.out_of_turn, noise.oversized, noise.weak_key.
    [[nodiscard]] Expected<Bytes> write(BytesView payload);
    // The payload of the peer's message. Errors: noise.out_of_turn, noise.oversized, noise.truncated, noise.weak_key,
    // noise.forged. After any error the object accepts nothing more.
    [[nodiscard]] Expected<Bytes> read(BytesView message);

    [[nodiscard]] bool is_finished() const { return step_ == 3 && !failed_; }
    // Valid once the peer's static key has arrived: after the second message for the initiator, the third for the
    // responder.
    [[nodiscard]] const Hash32& remote_static() const { return remote_static_; }
    [[nodiscard]] const Hash32& handshake_hash() const { return hash_; }
    // Keys of both directions, once: what they come from is wiped. Error noise.unfinished, also the second time.
    [[nodiscard]] Expected<SessionKeys> split();

private:
    [[nodiscard]] bool is_my_turn() const { return (step_ % 2 == 0) == (role_ == Role::initiator); }
    [[nodiscard]] Expected<Bytes> write_message(BytesView payload);
    [[nodiscard]] Expected<Bytes> read_message(BytesView message);
    [[nodiscard]] Status mix_dh(const KeyPair& key, const Hash32& peer_public);
    void wipe();
    void mix_hash(BytesView data);
    void mix_key(BytesView input);
    void seal_and_hash(BytesView plain, Bytes& out);
    [[nodiscard]] Expected<Bytes> open_and_hash(BytesView sealed);

    Role role_;
    KeyPair static_;
    KeyPair ephemeral_;
    Hash32 remote_static_;
    Hash32 remote_ephemeral_;
    Hash32 chaining_key_;
    Hash32 hash_;
    Hash32 key_;
    std::uint64_t nonce_ = 0;
    bool has_key_ = false;
    bool failed_ = false;
    bool split_ = false;
    int step_ = 0;  // messages written or read so far
};

}  // namespace quern::p2p::transport
