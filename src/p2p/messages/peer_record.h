// A node's signed statement of where it can be reached, passed on by peer exchange. Newer sequence numbers replace
// older ones. Plain values; thread-safe.
//
//   record = rlp([1, chain_id, address, sequence, expiry, roles, [[host, port]...], y_parity, r, s])
//   digest = SHA-256("QUERN-PEERRECORD" (16) || rlp([chain_id, address, sequence, expiry, roles, [[host, port]...]]))
//   host   = a numeric IPv4 or IPv6 address, or a DNS name; printable ASCII
#pragma once

#include <string>
#include <vector>

#include "base/record.h"
#include "crypto/signature.h"

namespace quern::p2p::messages {

inline constexpr std::size_t kMaxEndpoints = 4;
inline constexpr std::size_t kMaxHostBytes = 253;
inline constexpr std::size_t kMaxPeerRecordBytes = 1400;

struct Endpoint {
    std::string host;
    std::uint16_t port = 0;
    QUERN_FIELDS(v("host", host), v("port", port))
    [[nodiscard]] quern::Status check() const;
    auto operator<=>(const Endpoint&) const = default;
};

struct PeerRecord {
    std::uint64_t chain_id = 0;
    Bytes20 address;
    std::uint64_t sequence = 0;
    std::uint64_t expiry = 0;  // seconds since 1970
    std::uint32_t roles = 0;
    std::vector<Endpoint> endpoints;
    crypto::RecoverableSignature signature;
    // What is signed: the signature itself is not among them.
    QUERN_FIELDS(v("chainId", chain_id), v("address", address), v("sequence", sequence), v("expiry", expiry),
                 v("roles", roles),
                 v("endpoints", endpoints, record::AtMost{kMaxEndpoints, "peer_record.too_many_endpoints"}))
    bool operator==(const PeerRecord&) const = default;
};

void sign(PeerRecord& record, const crypto::PrivateKey& chain_key);
[[nodiscard]] Bytes encode(const PeerRecord& record);
// Also checks the signature. Errors: peer_record.too_large, peer_record.bad_version, peer_record.bad_host,
// peer_record.bad_port, peer_record.too_many_endpoints, peer_record.bad_parity, peer_record.bad_signature,
// peer_record.wrong_signer, rlp.*.
[[nodiscard]] Expected<PeerRecord> decode_peer_record(BytesView bytes);
// Letters, digits, '.', '-', ':' only.
[[nodiscard]] bool is_host(std::string_view text);

}  // namespace quern::p2p::messages
