#include "crypto/bls12_381.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/uint256.h"
#include "crypto/kzg.h"

namespace quern::crypto::bls12_381 {
namespace {

// A number in 64 bytes, of its 96 digits.
std::string fp(std::string_view digits) { return std::string(32, '0') + std::string(digits); }

const std::string kPrime =
    "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";
const Uint256 kOrder{0x73eda753299d7d48, 0x3339d80809a1d805, 0x53bda402fffe5bfe, 0xffffffff00000001};
const std::string kG1 =
    fp("17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb") +
    fp("08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1");
const std::string kG2 =
    fp("024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8") +
    fp("13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e") +
    fp("0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801") +
    fp("0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be");
const std::string kInfinity1(256, '0');
const std::string kInfinity2(512, '0');
// Points of the curves that are not the groups'.
const std::string kOutside1 =
    fp(std::string(95, '0') + "4") +
    fp("0a989badd40d6212b33cffc3f3763e9bc760f988c9926b26da9dd85e928483446346b8ed00e1de5d5ea93e354abe706c");
const std::string kOutside2 =
    fp(std::string(95, '0') + "2") + fp(std::string(96, '0')) +
    fp("18c6b864ae17dc9da64203ffefb966306425a7bc6aeb7c75247438372716284a4173830420cd476ba1a365b95bfcec38") +
    fp("172e93db764a8400a7d5071b6b6f5de0da2f0f4a063119abca014006b7c40a2cfe291a1924e65db0d6d0fcfbf3bf3d5c");

template <class Result>
std::string shown(const Expected<Result>& result) {
    return result ? to_hex(*result) : std::string(result.error().name);
}
std::string sum1(const std::string& terms) { return shown(add_g1(*from_hex(terms))); }
std::string sum2(const std::string& terms) { return shown(add_g2(*from_hex(terms))); }
std::string msm1(const std::string& terms) { return shown(multiply_and_add_g1(*from_hex(terms))); }
std::string msm2(const std::string& terms) { return shown(multiply_and_add_g2(*from_hex(terms))); }
std::string scalar(const Uint256& number) { return to_hex(number.to_be32()); }
std::string is_one(const std::string& pairs) {
    const auto result = is_pairing_product_one(*from_hex(pairs));
    return result ? (*result ? "one" : "another") : std::string(result.error().name);
}

TEST(Bls12381, sums_and_multiples) {
    const std::string twice =
        fp("0572cbea904d67468808c8eb50a9450c9721db309128012543902d0ac358a62ae28f75bb8f1c7c42c39a8c5529bf0f4e") +
        fp("166a9d8cabc673a322fda673779d8e3822ba3ecb8670e461f73bb9021d5fd76a4c56d9d4cd16bd1bba86881979749d28");
    EXPECT_EQ(sum1(kG1 + kG1), twice);
    EXPECT_EQ(msm1(kG1 + scalar(2)), twice);
    EXPECT_EQ(sum1(kG1 + kInfinity1), kG1);
    EXPECT_EQ(sum1(kInfinity1 + kG1), kG1);
    EXPECT_EQ(sum1(kInfinity1 + kInfinity1), kInfinity1);
    EXPECT_EQ(sum1(kG1 + msm1(kG1 + scalar(kOrder - 1))), kInfinity1);
    EXPECT_EQ(sum2(kG2 + kG2), msm2(kG2 + scalar(2)));
    EXPECT_EQ(sum2(kG2 + kInfinity2), kG2);
    EXPECT_EQ(sum2(kInfinity2 + kInfinity2), kInfinity2);
    EXPECT_EQ(sum2(kG2 + msm2(kG2 + scalar(kOrder - 1))), kInfinity2);
    EXPECT_EQ(msm1(kG1 + scalar(0)), kInfinity1);
    EXPECT_EQ(msm1(kG1 + scalar(kOrder)), kInfinity1);
    EXPECT_EQ(msm1(kInfinity1 + scalar(5)), kInfinity1);
    EXPECT_EQ(msm2(kG2 + scalar(0)), kInfinity2);
    EXPECT_EQ(msm2(kG2 + scalar(kOrder)), kInfinity2);
    EXPECT_EQ(msm2(kInfinity2 + scalar(5)), kInfinity2);
    // Sums need no point of the group.
    EXPECT_EQ(sum1(kOutside1 + kInfinity1), kOutside1);
    EXPECT_EQ(sum2(kOutside2 + kInfinity2), kOutside2);
}

// Terms of one point are a multiple of it; with infinity, zeros, equal and opposite points and scalars above the order
// among them, and with more of them than the tables of a small sum.
TEST(Bls12381, sums_of_many_terms) {
    SeededRng rng(2537);
    for (const int terms : {1, 2, 3, 5, 16, 40}) {
        std::string all1;
        std::string all2;
        Uint256 sum;
        for (int i = 0; i < terms; ++i) {
            const Uint256 a(rng.below(5) + 1);
            const Uint256 b = i % 7 == 6 ? Uint256() : i % 5 == 4 ? kOrder + 3 : Uint256(rng.below(~std::uint64_t{0}));
            sum += a * (b % kOrder);
            all1 += msm1(kG1 + scalar(a)) + scalar(b);
            all2 += msm2(kG2 + scalar(a)) + scalar(b);
            if (i % 4 == 3) all1 += kInfinity1 + scalar(b);
            if (i % 4 == 3) all2 += kInfinity2 + scalar(b);
        }
        EXPECT_EQ(msm1(all1), msm1(kG1 + scalar(sum % kOrder))) << terms;
        EXPECT_EQ(msm2(all2), msm2(kG2 + scalar(sum % kOrder))) << terms;
    }
}

TEST(Bls12381, pairing_is_bilinear) {
    EXPECT_EQ(is_one(kG1 + kG2), "another");
    EXPECT_EQ(is_one(kInfinity1 + kG2), "one");
    EXPECT_EQ(is_one(kG1 + kInfinity2), "one");
    const std::string minus = msm1(kG1 + scalar(kOrder - 1));
    EXPECT_EQ(is_one(kG1 + kG2 + minus + kG2), "one");
    // Pairs are worked on eight at a time.
    for (const int pairs : {2, 7, 8, 9, 17}) {
        std::string all;
        Uint256 sum;
        for (int i = 1; i < pairs; ++i) {
            const Uint256 a(static_cast<std::uint64_t>(i));
            all += msm1(kG1 + scalar(a)) + msm2(kG2 + scalar(a + 3));
            if (i % 3 == 0) all += kInfinity1 + kG2;
            sum += a * (a + 3);
        }
        EXPECT_EQ(is_one(all + msm1(kG1 + scalar(kOrder - sum)) + kG2), "one") << pairs;
        EXPECT_EQ(is_one(all + msm1(kG1 + scalar(kOrder - sum - 1)) + kG2), "another") << pairs;
    }
}

// RFC 9380, J.9.2 and J.10.2: encodings of one element of the field.
TEST(Bls12381, maps_give_what_rfc_9380_says) {
    EXPECT_EQ(
        shown(map_to_g1(*from_hex(
            fp("156c8a6a2c184569d69a76be144b5cdc5141d2d2ca4fe341f011e25e3969c55ad9e9b9ce2eb833c81a908e5fa4ac5f03")))),
        fp("184bb665c37ff561a89ec2122dd343f20e0f4cbcaec84e3c3052ea81d1834e192c426074b02ed3dca4e7676ce4ce48ba") +
            fp("04407b8d35af4dacc809927071fc0405218f1401a6d15af775810e4e460064bcc9468beeba82fdc751be70476c888bf3"));
    EXPECT_EQ(
        shown(map_to_g2(*from_hex(
            fp("07355d25caf6e7f2f0cb2812ca0e513bd026ed09dda65b177500fa31714e09ea0ded3a078b526bed3307f804d4b93b04") +
            fp("02829ce3c021339ccb5caf3e187f6370e1e2a311dec9b75363117063ab2015603ff52c3d3b98f19c2f65575e99e8b78c")))),
        fp("00e7f4568a82b4b7dc1f14c6aaa055edf51502319c723c4dc2688c7fe5944c213f510328082396515734b6612c4e7bb7") +
            fp("126b855e9e69b1f691f816e48ac6977664d24d99f8724868a184186469ddfd4617367e94527d4b74fc86413483afb35b") +
            fp("0caead0fd7b6176c01436833c79d305c78be307da5f6af6c133c47311def6ff1e0babf57a0fb5539fce7ee12407b0a42") +
            fp("1498aadcf7ae2b345243e281ae076df6de84455d766ab6fcdaad71fab60abb2e8b980a440043cd305db09d283c895e3d"));
}

TEST(Bls12381, refuses_what_is_no_input) {
    const std::string length = "bls12_381.wrong_length";
    const std::string reduced = "bls12_381.not_reduced";
    const std::string curve = "bls12_381.not_on_curve";
    const std::string group = "bls12_381.not_in_group";
    EXPECT_EQ(sum1(kG1), length);
    EXPECT_EQ(sum1(kG1 + kG1 + "00"), length);
    EXPECT_EQ(sum2(kG2 + kG2.substr(2)), length);
    EXPECT_EQ(msm1(""), length);
    EXPECT_EQ(msm2(""), length);
    EXPECT_EQ(msm1(kG1), length);
    EXPECT_EQ(msm2(kG2 + scalar(1) + "00"), length);
    EXPECT_EQ(is_one(""), length);
    EXPECT_EQ(is_one(kG1 + kG2 + "00"), length);
    EXPECT_EQ(shown(map_to_g1(Bytes(63))), length);
    EXPECT_EQ(shown(map_to_g2(Bytes(64))), length);

    const std::string zero = fp(std::string(96, '0'));
    EXPECT_EQ(sum1(fp(kPrime) + zero + kG1), reduced);
    EXPECT_EQ(sum1(kG1 + zero + fp(kPrime)), reduced);
    EXPECT_EQ(shown(map_to_g1(*from_hex(fp(kPrime)))), reduced);
    EXPECT_EQ(shown(map_to_g2(*from_hex(zero + fp(kPrime)))), reduced);
    EXPECT_NE(shown(map_to_g1(*from_hex(fp(kPrime.substr(0, 95) + "a")))), reduced);  // p - 1
    for (std::size_t at = 0; at < 16; ++at) {
        Bytes padded = *from_hex(kG1 + kG1);
        padded[at] = 1;
        EXPECT_EQ(shown(add_g1(padded)), reduced) << at;
    }
    EXPECT_EQ(sum2(kG2.substr(0, 384) + fp(kPrime) + kG2), reduced);

    std::string off1 = kG1;
    off1.back() = '2';
    std::string off2 = kG2;
    off2.back() = 'f';
    EXPECT_EQ(sum1(kG1 + off1), curve);
    EXPECT_EQ(msm1(off1 + scalar(1)), curve);
    EXPECT_EQ(sum2(off2 + kG2), curve);
    EXPECT_EQ(msm2(off2 + scalar(0)), curve);
    EXPECT_EQ(is_one(off1 + kG2), curve);
    EXPECT_EQ(is_one(kInfinity1 + off2), curve);

    EXPECT_EQ(msm1(kOutside1 + scalar(1)), group);
    EXPECT_EQ(msm1(kG1 + scalar(1) + kOutside1 + scalar(0)), group);
    EXPECT_EQ(msm2(kOutside2 + scalar(kOrder)), group);
    EXPECT_EQ(is_one(kOutside1 + kInfinity2), group);
    EXPECT_EQ(is_one(kInfinity1 + kOutside2), group);
}

// A blob's proof from Ethereum's tests of point evaluation: it is right for the ceremony's tau alone.
struct Opening {
    KzgPoint commitment = *fixed_from_hex<48>(
        "8f59a8d2a1a625a17f3fea0fe5eb8c896db3764f3185481bc22f91b4aaffcca25f26936857bc3a7c2539ea8ec3a952b7");
    Hash32 z = *fixed_from_hex<32>("564c0a11a0f704f4fc3e8acfe0f8245f0ad1347b378fbf96e206da11a5d36306");
    Hash32 y = *fixed_from_hex<32>("24d25032e67a7e6a4910df5834b8fe70e6bcfeeac0352434196bdf4b2485d5a1");
    KzgPoint proof = *fixed_from_hex<48>(
        "873033e038326e87ed3e1276fd140253fa08e9fc25fb2d9a98527fc22a2c9612fbeafdad446cbc7bcdbdcd780af2c16a");

    [[nodiscard]] std::string_view verdict() const {
        const Status status = verify_kzg_proof(commitment, z, y, proof);
        return status ? "right" : status.error().name;
    }
};

TEST(Kzg, takes_right_proofs_and_no_others) {
    EXPECT_EQ(Opening().verdict(), "right");
    Opening other;
    other.z.data[31] ^= 1;
    EXPECT_EQ(other.verdict(), "kzg.wrong_proof");
    other = {};
    other.y.data[31] ^= 1;
    EXPECT_EQ(other.verdict(), "kzg.wrong_proof");
    other = {};
    std::swap(other.commitment, other.proof);
    EXPECT_EQ(other.verdict(), "kzg.wrong_proof");
}

TEST(Kzg, constants_have_a_proof_of_infinity) {
    KzgPoint infinity;
    infinity.data[0] = 0xc0;
    Opening zero{infinity, Hash32{}, Hash32{}, infinity};
    EXPECT_EQ(zero.verdict(), "right");
    zero.z = Opening().z;
    EXPECT_EQ(zero.verdict(), "right");
    zero.y.data[31] = 1;
    EXPECT_EQ(zero.verdict(), "kzg.wrong_proof");
    // The commitment of the constant 1 is the generator.
    zero.commitment = *fixed_from_hex<48>(
        "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb");
    EXPECT_EQ(zero.verdict(), "right");
    zero.y.data[31] = 2;
    EXPECT_EQ(zero.verdict(), "kzg.wrong_proof");
}

TEST(Kzg, refuses_numbers_and_points_that_are_none) {
    const Hash32 order = kOrder.to_be32();
    Opening bad;
    bad.z = order;
    EXPECT_EQ(bad.verdict(), "kzg.not_reduced");
    bad = {};
    bad.y = order;
    EXPECT_EQ(bad.verdict(), "kzg.not_reduced");
    bad = {};
    bad.commitment.data[0] &= 0x7f;  // not compressed
    EXPECT_EQ(bad.verdict(), "kzg.bad_point");
    bad = {};
    bad.proof = {};
    EXPECT_EQ(bad.verdict(), "kzg.bad_point");
    bad = {};
    bad.proof.data[0] = 0xc0;  // infinity with a coordinate
    EXPECT_EQ(bad.verdict(), "kzg.bad_point");
    // x = 4: on the curve, not in the group.
    bad = {};
    bad.commitment = {};
    bad.commitment.data[0] = 0x80;
    bad.commitment.data[47] = 4;
    EXPECT_EQ(bad.verdict(), "kzg.bad_point");
}

}  // namespace
}  // namespace quern::crypto::bls12_381
