#include "p2p/transport/net_cert.h"

#include "crypto/hash.h"

namespace quern::p2p::transport {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::string_view kDomain = "QUERN-NETCERT-V1";

void put(Bytes& out, std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

std::uint64_t get(BytesView bytes) {
    std::uint64_t value = 0;
    for (const auto byte : bytes) value = value << 8 | byte;
    return value;
}

void put_fields(Bytes& out, const NetCert& cert) {
    put(out, cert.chain_id, 8);
    append(out, cert.static_key);
    put(out, cert.roles, 4);
    put(out, cert.expiry, 8);
}

}  // namespace

Hash32 digest_of(const NetCert& cert) {
    Bytes message = to_bytes(as_bytes(kDomain));
    put_fields(message, cert);
    return crypto::sha256(message);
}

void sign(NetCert& cert, const crypto::PrivateKey& chain_key) {
    cert.signature = crypto::sign(digest_of(cert), chain_key);
}

Bytes encode(const NetCert& cert) {
    Bytes out{kVersion};
    out.reserve(kNetCertBytes);
    put_fields(out, cert);
    append(out, cert.signature.r);
    append(out, cert.signature.s);
    out.push_back(cert.signature.y_parity);
    return out;
}

Expected<NetCert> decode_net_cert(BytesView bytes) {
    if (bytes.size() != kNetCertBytes) return fail("net_cert.wrong_length");
    if (bytes[0] != kVersion) return fail("net_cert.bad_version");
    if (bytes[117] > 1) return fail("net_cert.bad_parity");
    NetCert cert;
    cert.chain_id = get(bytes.subspan(1, 8));
    cert.static_key = Hash32::copy_of(bytes.subspan(9, 32));
    cert.roles = static_cast<std::uint32_t>(get(bytes.subspan(41, 4)));
    cert.expiry = get(bytes.subspan(45, 8));
    cert.signature.r = Hash32::copy_of(bytes.subspan(53, 32));
    cert.signature.s = Hash32::copy_of(bytes.subspan(85, 32));
    cert.signature.y_parity = bytes[117];
    return cert;
}

Expected<Bytes20> signer_of(const NetCert& cert) {
    if (!crypto::is_low_s(cert.signature.s)) return fail("net_cert.high_s");
    const auto key = crypto::recover(digest_of(cert), cert.signature);
    if (!key) return fail("net_cert.bad_signature", key.error().to_string());
    return crypto::address20(*key);
}

Expected<VerifiedPeer> NetCertCache::verify(BytesView encoded, std::uint64_t chain_id, const Hash32& static_key,
                                            std::uint64_t now_seconds) {
    QUERN_TRY(const NetCert cert, decode_net_cert(encoded));
    if (cert.chain_id != chain_id) return fail("net_cert.wrong_chain", std::to_string(cert.chain_id));
    if (cert.static_key != static_key) return fail("net_cert.wrong_static_key");
    if (cert.expiry <= now_seconds) return fail("net_cert.expired");
    const Hash32 id = crypto::sha256(encoded);
    if (const auto known = signers_.find(id); known != signers_.end()) {
        ++hits_;
        return VerifiedPeer{known->second, cert.roles, cert.expiry};
    }
    QUERN_TRY(const Bytes20 address, signer_of(cert));
    if (capacity_ != 0) {
        if (order_.size() >= capacity_) {
            signers_.erase(order_.front());
            order_.pop_front();
        }
        signers_.emplace(id, address);
        order_.push_back(id);
    }
    return VerifiedPeer{address, cert.roles, cert.expiry};
}

}  // namespace quern::p2p::transport
