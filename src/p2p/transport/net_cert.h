// NetCert: the chain key's statement "this X25519 key speaks for me", so that the chain key itself never does key
// exchange and can stay in a remote signer. Sent inside the handshake, kept in peer records. Values and pure functions
// are thread-safe; a NetCertCache belongs to one thread.
//
//   cert   = version = 1 (1) || chain_id (8) || static_key (32) || roles (4) || expiry (8) || r (32) || s (32)
//            || y_parity (1)                                     118 bytes, numbers big endian, low s
//   digest = SHA-256("QUERN-NETCERT-V1" (16) || chain_id (8) || static_key (32) || roles (4) || expiry (8))
#pragma once

#include <deque>
#include <map>

#include "base/bytes.h"
#include "base/expected.h"
#include "crypto/signature.h"

namespace quern::p2p::transport {

inline constexpr std::size_t kNetCertBytes = 118;
inline constexpr std::size_t kMaxCachedNetCerts = 1024;

// Bits of NetCert::roles: what the key's owner offers. Only a hint: stake is looked up on the chain.
// 4 is for relays.
inline constexpr std::uint32_t kRoleValidator = 1;
inline constexpr std::uint32_t kRoleFullNode = 2;

struct NetCert {
    std::uint64_t chain_id = 0;
    Hash32 static_key;
    std::uint32_t roles = 0;
    std::uint64_t expiry = 0;  // seconds since 1970
    crypto::RecoverableSignature signature;
    bool operator==(const NetCert&) const = default;
};

[[nodiscard]] Hash32 digest_of(const NetCert& cert);
void sign(NetCert& cert, const crypto::PrivateKey& chain_key);
[[nodiscard]] Bytes encode(const NetCert& cert);
// Errors: net_cert.wrong_length, net_cert.bad_version, net_cert.bad_parity.
[[nodiscard]] Expected<NetCert> decode_net_cert(BytesView bytes);
// Who signed it. Errors: net_cert.high_s, net_cert.bad_signature.
[[nodiscard]] Expected<Bytes20> signer_of(const NetCert& cert);

struct VerifiedPeer {
    Bytes20 address;
    std::uint32_t roles = 0;
    std::uint64_t expiry = 0;
};

// Remembers whose signature a certificate carries: recovery costs more than the rest of a handshake.
class NetCertCache {
public:
    explicit NetCertCache(std::size_t capacity = kMaxCachedNetCerts) : capacity_(capacity) {}

    // What the peer sent in the handshake, checked against the static key that the handshake proved. Errors:
    // decode_net_cert's and signer_of's, net_cert.wrong_chain, net_cert.wrong_static_key, net_cert.expired.
    [[nodiscard]] Expected<VerifiedPeer> verify(BytesView encoded, std::uint64_t chain_id, const Hash32& static_key,
                                                std::uint64_t now_seconds);
    [[nodiscard]] std::size_t size() const { return signers_.size(); }
    [[nodiscard]] std::uint64_t hits() const { return hits_; }

private:
    std::size_t capacity_;
    std::uint64_t hits_ = 0;
    std::map<Hash32, Bytes20> signers_;  // by SHA-256 of the encoding
    std::deque<Hash32> order_;           // oldest first
};

}  // namespace quern::p2p::transport
