#include "crypto/vrf.h"

#include <openssl/crypto.h>
#include <secp256k1_ecdh.h>

#include <cstdlib>
#include <optional>

#include "crypto/hash.h"
#include "crypto/secp256k1_context.h"

namespace quern::crypto {
namespace {

constexpr std::size_t kPointBytes = 33;
constexpr std::size_t kChallengeBytes = 16;
using PointBytes = FixedBytes<kPointBytes>;
using Challenge = FixedBytes<kChallengeBytes>;

const secp256k1_context* context() { return secp256k1_shared_context(); }

PointBytes compress(const secp256k1_pubkey& point) {
    PointBytes out;
    std::size_t size = kPointBytes;
    secp256k1_ec_pubkey_serialize(context(), out.data.data(), &size, &point, SECP256K1_EC_COMPRESSED);
    return out;
}

std::optional<secp256k1_pubkey> parse_point(BytesView bytes) {
    secp256k1_pubkey point;
    if (secp256k1_ec_pubkey_parse(context(), &point, bytes.data(), bytes.size()) != 1) return std::nullopt;
    return point;
}

secp256k1_pubkey point_of(const PrivateKey& key) {
    secp256k1_pubkey point;
    // Only a moved-from key can fail; using one is a programming error.
    if (secp256k1_ec_pubkey_create(context(), &point, key.secret_bytes().data()) != 1) std::abort();
    return point;
}

std::optional<secp256k1_pubkey> point_of(const PublicKey& key) {
    FixedBytes<65> encoded;
    encoded.data[0] = 0x04;
    std::memcpy(encoded.data.data() + 1, key.bytes.data.data(), 64);
    return parse_point(encoded);
}

// ECVRF_encode_to_curve_try_and_increment (RFC 9381, 5.4.1.1); the salt is the compressed public key.
std::optional<secp256k1_pubkey> encode_to_curve(const PointBytes& salt, BytesView message) {
    const std::array<std::uint8_t, 2> front = {kVrfSuite, 0x01};
    for (unsigned counter = 0; counter < 256; ++counter) {
        const std::array<std::uint8_t, 2> back = {static_cast<std::uint8_t>(counter), 0x00};
        const Hash32 x = sha256({BytesView(front), salt.view(), message, BytesView(back)});
        PointBytes candidate;
        candidate.data[0] = 0x02;
        std::memcpy(candidate.data.data() + 1, x.data.data(), 32);
        if (auto point = parse_point(candidate)) return point;
    }
    return std::nullopt;  // probability 2^-256
}

// Keeps the whole point, compressed, as secp256k1_ecdh's "hash".
int keep_point(unsigned char* output, const unsigned char* x32, const unsigned char* y32, void*) {
    output[0] = static_cast<unsigned char>(0x02 | (y32[31] & 1));
    std::memcpy(output + 1, x32, 32);
    return 1;
}

// scalar * point in constant time.
PointBytes secret_multiply(const secp256k1_pubkey& point, BytesView scalar) {
    PointBytes out;
    if (secp256k1_ecdh(context(), out.data.data(), &point, scalar.data(), keep_point, nullptr) != 1) std::abort();
    return out;
}

// ECVRF_challenge_generation (5.4.3) over five points.
Challenge challenge(const PointBytes& key, const PointBytes& h, const PointBytes& gamma, const PointBytes& u,
                    const PointBytes& v) {
    const std::array<std::uint8_t, 2> front = {kVrfSuite, 0x02};
    const std::array<std::uint8_t, 1> back = {0x00};
    const Hash32 hash =
        sha256({BytesView(front), key.view(), h.view(), gamma.view(), u.view(), v.view(), BytesView(back)});
    return Challenge::copy_of(hash.view().first(kChallengeBytes));
}

Hash32 output_of(BytesView gamma) {
    const std::array<std::uint8_t, 2> front = {kVrfSuite, 0x03};
    const std::array<std::uint8_t, 1> back = {0x00};
    return sha256({BytesView(front), gamma, BytesView(back)});
}

// a*P - c*Q for public values; nullopt when it is the point at infinity or `a` is out of range.
std::optional<PointBytes> combine(std::optional<secp256k1_pubkey> a_p, const secp256k1_pubkey& q, const Hash32& c) {
    if (!a_p) return std::nullopt;
    if (c.is_zero()) return compress(*a_p);
    secp256k1_pubkey c_q = q;
    if (secp256k1_ec_pubkey_tweak_mul(context(), &c_q, c.data.data()) != 1) return std::nullopt;
    if (secp256k1_ec_pubkey_negate(context(), &c_q) != 1) return std::nullopt;
    const secp256k1_pubkey* parts[] = {&*a_p, &c_q};
    secp256k1_pubkey sum;
    if (secp256k1_ec_pubkey_combine(context(), &sum, parts, 2) != 1) return std::nullopt;
    return compress(sum);
}

Hash32 widen(BytesView c) {
    Hash32 wide;
    std::memcpy(wide.data.data() + (Hash32::kSize - kChallengeBytes), c.data(), kChallengeBytes);
    return wide;
}

}  // namespace

VrfResult vrf_prove(const PrivateKey& key, BytesView message) {
    const PointBytes y = compress(point_of(key));
    const auto h = encode_to_curve(y, message);
    if (!h) std::abort();
    const PointBytes h_bytes = compress(*h);
    const PointBytes gamma = secret_multiply(*h, key.secret_bytes());

    Hash32 nonce;
    const Hash32 digest = sha256(h_bytes);
    for (unsigned attempt = 0;; ++attempt) {
        if (secp256k1_nonce_function_rfc6979(nonce.data.data(), digest.data.data(), key.secret_bytes().data(), nullptr,
                                             nullptr, attempt) == 1 &&
            secp256k1_ec_seckey_verify(context(), nonce.data.data()) == 1)
            break;
    }
    secp256k1_pubkey u;
    if (secp256k1_ec_pubkey_create(context(), &u, nonce.data.data()) != 1) std::abort();
    const PointBytes v = secret_multiply(*h, nonce);
    const Challenge c = challenge(y, h_bytes, gamma, compress(u), v);

    // s = nonce + c * key mod order.
    Hash32 s = nonce;
    if (!c.is_zero()) {
        s = Hash32::copy_of(key.secret_bytes());
        const Hash32 wide = widen(c);
        if (secp256k1_ec_seckey_tweak_mul(context(), s.data.data(), wide.data.data()) != 1) std::abort();
        // The sum is 0 with probability 2^-256.
        if (secp256k1_ec_seckey_tweak_add(context(), s.data.data(), nonce.data.data()) != 1) std::abort();
    }
    OPENSSL_cleanse(nonce.data.data(), Hash32::kSize);

    VrfResult result;
    std::uint8_t* out = result.proof.data.data();
    std::memcpy(out, gamma.data.data(), kPointBytes);
    std::memcpy(out + kPointBytes, c.data.data(), kChallengeBytes);
    std::memcpy(out + kPointBytes + kChallengeBytes, s.data.data(), Hash32::kSize);
    result.output = output_of(gamma);
    return result;
}

Expected<Hash32> vrf_verify(const PublicKey& key, BytesView message, BytesView proof) {
    if (proof.size() != VrfProof::kSize) return fail("vrf.wrong_length", std::to_string(proof.size()));
    const auto y = point_of(key);
    if (!y) return fail("vrf.bad_key");
    const BytesView gamma_bytes = proof.first(kPointBytes);
    const BytesView c_bytes = proof.subspan(kPointBytes, kChallengeBytes);
    const auto gamma = parse_point(gamma_bytes);
    if (!gamma) return fail("vrf.bad_point");
    const Hash32 s = Hash32::copy_of(proof.subspan(kPointBytes + kChallengeBytes));
    // In 1..order-1: any larger number would be a second proof of the same output.
    if (secp256k1_ec_seckey_verify(context(), s.data.data()) != 1) return fail("vrf.out_of_range");

    const PointBytes y_bytes = compress(*y);
    const auto h = encode_to_curve(y_bytes, message);
    if (!h) return fail("vrf.wrong_proof");
    secp256k1_pubkey s_b;
    if (secp256k1_ec_pubkey_create(context(), &s_b, s.data.data()) != 1) return fail("vrf.out_of_range");
    secp256k1_pubkey s_h = *h;
    if (secp256k1_ec_pubkey_tweak_mul(context(), &s_h, s.data.data()) != 1) return fail("vrf.out_of_range");
    const Hash32 c = widen(c_bytes);
    const auto u = combine(s_b, *y, c);
    const auto v = combine(s_h, *gamma, c);
    if (!u || !v) return fail("vrf.wrong_proof");
    const Challenge expected = challenge(y_bytes, compress(*h), PointBytes::copy_of(gamma_bytes), *u, *v);
    if (!equal(expected, c_bytes)) return fail("vrf.wrong_proof");
    return output_of(gamma_bytes);
}

Expected<Hash32> vrf_output(BytesView proof) {
    if (proof.size() != VrfProof::kSize) return fail("vrf.wrong_length", std::to_string(proof.size()));
    if (!parse_point(proof.first(kPointBytes))) return fail("vrf.bad_point");
    return output_of(proof.first(kPointBytes));
}

}  // namespace quern::crypto
