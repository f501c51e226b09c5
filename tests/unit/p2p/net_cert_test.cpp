#include "p2p/transport/net_cert.h"

#include <gtest/gtest.h>

namespace quern::p2p::transport {
namespace {

constexpr std::uint64_t kNow = 1'700'000'000;

crypto::PrivateKey chain_key(std::uint64_t seed) {
    SeededRng rng(seed);
    return crypto::PrivateKey::generate(rng);
}

NetCert sample() {
    NetCert cert{7878, Hash32{{1, 2, 3}}, kRoleValidator | kRoleFullNode, kNow + 60, {}};
    sign(cert, chain_key(1));
    return cert;
}

TEST(NetCert, round_trip_keeps_every_field) {
    const NetCert cert = sample();
    const Bytes encoded = encode(cert);
    EXPECT_EQ(encoded.size(), kNetCertBytes);
    const auto decoded = decode_net_cert(encoded);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, cert);
}

TEST(NetCert, names_its_signer) { EXPECT_EQ(*signer_of(sample()), crypto::address20(chain_key(1))); }

TEST(NetCert, a_changed_field_names_somebody_else) {
    const Bytes encoded = encode(sample());
    for (const std::size_t at : {std::size_t{8}, std::size_t{20}, std::size_t{44}, std::size_t{52}, std::size_t{60}}) {
        Bytes changed = encoded;
        changed[at] ^= 1;
        const auto cert = decode_net_cert(changed);
        ASSERT_TRUE(cert);
        const auto signer = signer_of(*cert);
        if (signer) {
            EXPECT_NE(*signer, crypto::address20(chain_key(1))) << at;
        }
    }
}

TEST(NetCert, refuses_malformed_encodings) {
    Bytes encoded = encode(sample());
    EXPECT_EQ(decode_net_cert(BytesView(encoded).first(117)).error().name, "net_cert.wrong_length");
    Bytes longer = encoded;
    longer.push_back(0);
    EXPECT_EQ(decode_net_cert(longer).error().name, "net_cert.wrong_length");
    Bytes version = encoded;
    version[0] = 2;
    EXPECT_EQ(decode_net_cert(version).error().name, "net_cert.bad_version");
    encoded[117] = 2;
    EXPECT_EQ(decode_net_cert(encoded).error().name, "net_cert.bad_parity");
}

TEST(NetCert, refuses_high_s_and_impossible_signatures) {
    NetCert cert = sample();
    cert.signature.s = (crypto::kCurveOrder - Uint256::from_be(cert.signature.s)).to_be32();
    EXPECT_EQ(signer_of(cert).error().name, "net_cert.high_s");
    cert = sample();
    cert.signature.r = Hash32{};
    EXPECT_EQ(signer_of(cert).error().name, "net_cert.bad_signature");
}

TEST(NetCertCache, checks_chain_key_and_expiry_each_time) {
    NetCertCache cache;
    const NetCert cert = sample();
    const Bytes encoded = encode(cert);
    const auto peer = cache.verify(encoded, 7878, cert.static_key, kNow);
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer->address, crypto::address20(chain_key(1)));
    EXPECT_EQ(peer->roles, kRoleValidator | kRoleFullNode);
    EXPECT_TRUE(cache.verify(encoded, 7878, cert.static_key, kNow));
    EXPECT_EQ(cache.hits(), 1U);
    EXPECT_EQ(cache.verify(encoded, 7877, cert.static_key, kNow).error().name, "net_cert.wrong_chain");
    EXPECT_EQ(cache.verify(encoded, 7878, Hash32{}, kNow).error().name, "net_cert.wrong_static_key");
    EXPECT_EQ(cache.verify(encoded, 7878, cert.static_key, kNow + 60).error().name, "net_cert.expired");
}

TEST(NetCertCache, keeps_at_most_its_capacity) {
    NetCertCache cache(2);
    for (std::uint64_t i = 0; i < 5; ++i) {
        NetCert cert = sample();
        cert.expiry += i;
        sign(cert, chain_key(1));
        ASSERT_TRUE(cache.verify(encode(cert), 7878, cert.static_key, kNow));
        EXPECT_LE(cache.size(), 2U);
    }
}

}  // namespace
}  // namespace quern::p2p::transport
