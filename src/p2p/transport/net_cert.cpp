#include "p2p/transport/net_cert.h"

#include "base/big_endian.h"
#include "crypto/hash.h"

namespace quern::p2p::transport {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::string_view kDomain = "QUERN-NETCERT-V1";

void put_fields(Bytes& out, const NetCert& cert) {
    append(out, be64(cert.chain_id));
    append(out, cert.static_key);
    append_big_endian(out, cert.roles, sizeof cert.roles);
    append(out, be64(cert.expiry));
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
    cert.chain_id = from_big_endian(bytes.subspan(1, 8));
    cert.static_key = Hash32::copy_of(bytes.subspan(9, 32));
    cert.roles = static_cast<std::uint32_t>(from_big_endian(bytes.subspan(41, 4)));
    cert.expiry = from_big_endian(bytes.subspan(45, 8));
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
