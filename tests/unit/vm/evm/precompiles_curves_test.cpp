// The contracts of BN254 and BLS12-381: what they take and what it costs; the arithmetic has its own tests in
// unit/crypto.
#include <gtest/gtest.h>

#include "unit/vm/evm/precompile_calls.h"

namespace quern::vm::evm {
namespace {

const std::string kZero(64, '0');
const std::string kOne = std::string(63, '0') + "1";
const std::string kTwo = std::string(63, '0') + "2";
const std::string kBn254Prime = "30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47";
// 2 (1, 2).
const std::string kTwice =
    "030644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd3"
    "15ed738c0e0a7c92e7845f96b2ae9c0a68a6a449e3538fc7ff3ebf7a5a18a2c4";
const std::string kBn254G2 =
    "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2"
    "1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6ed"
    "090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b"
    "12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daa";
// (1, p - 2).
const std::string kMinusOne = kOne + "30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd45";

TEST(CurvePrecompiles, bn254_add_reads_zeros_behind_its_input) {
    EXPECT_EQ(call(6, kOne + kTwo + kOne + kTwo), kTwice);
    EXPECT_EQ(call(6, kOne + kTwo + kOne + kTwo + "ff"), kTwice);
    EXPECT_EQ(call(6, ""), kZero + kZero);
    EXPECT_EQ(call(6, kOne + kTwo), kOne + kTwo);
    EXPECT_EQ(call(6, kOne + kTwo + kMinusOne), kZero + kZero);
    EXPECT_EQ(call(6, kOne + kOne), "fails");
    EXPECT_EQ(call(6, kOne + kTwo + kOne), "fails");
    EXPECT_EQ(call(6, kBn254Prime + kZero), "fails");
    EXPECT_EQ(gas(6, "", Revision::byzantium), 500);
    EXPECT_EQ(gas(6, "", Revision::petersburg), 500);
    EXPECT_EQ(gas(6, "", Revision::istanbul), 150);
}

TEST(CurvePrecompiles, bn254_mul_takes_any_scalar) {
    EXPECT_EQ(call(7, kOne + kTwo + kTwo), kTwice);
    EXPECT_EQ(call(7, kOne + kTwo + kTwo + "ff"), kTwice);
    EXPECT_EQ(call(7, ""), kZero + kZero);
    EXPECT_EQ(call(7, kOne + kTwo), kZero + kZero);
    EXPECT_EQ(call(7, kOne + kTwo + "02"), call(7, kOne + kTwo + "02" + std::string(62, '0')));
    // EIP-196's suite: 2^256 - 1.
    EXPECT_EQ(call(7, kOne + kTwo + std::string(64, 'f')),
              "2f588cffe99db877a4434b598ab28f81e0522910ea52b45f0adaa772b2d5d352"
              "12f42fa8fd34fb1b33d8c6a718b6590198389b26fc9d8808d971f8b009777a97");
    EXPECT_EQ(call(7, kOne + kOne + kOne), "fails");
    EXPECT_EQ(gas(7, "", Revision::constantinople), 40'000);
    EXPECT_EQ(gas(7, "", Revision::istanbul), 6000);
}

TEST(CurvePrecompiles, bn254_pairing_takes_whole_pairs) {
    EXPECT_EQ(call(8, ""), kOne);
    EXPECT_EQ(call(8, kOne + kTwo + kBn254G2), kZero);
    EXPECT_EQ(call(8, kOne + kTwo + kBn254G2 + kMinusOne + kBn254G2), kOne);
    EXPECT_EQ(call(8, kOne + kTwo + std::string(256, '0')), kOne);
    EXPECT_EQ(call(8, kZero + kZero + kBn254G2), kOne);
    EXPECT_EQ(call(8, kOne + kTwo + kBn254G2 + "00"), "fails");
    EXPECT_EQ(call(8, kOne + kTwo), "fails");
    EXPECT_EQ(call(8, kOne + kOne + kBn254G2), "fails");
    EXPECT_EQ(call(8, kZero + kZero + kOne + kTwo + kOne + kTwo), "fails");
    EXPECT_EQ(gas(8, "", Revision::byzantium), 100'000);
    EXPECT_EQ(gas(8, std::string(768, '0'), Revision::byzantium), 260'000);
    EXPECT_EQ(gas(8, "", Revision::istanbul), 45'000);
    EXPECT_EQ(gas(8, std::string(768, '0'), Revision::istanbul), 113'000);
}

// geth's vector "pointEvaluation1".
TEST(CurvePrecompiles, point_evaluation_wants_the_hash_of_the_commitment) {
    const std::string hash = "01e798154708fe7789429634053cbf9f99b619f9f084048927333fce637f549b";
    const std::string rest =
        "564c0a11a0f704f4fc3e8acfe0f8245f0ad1347b378fbf96e206da11a5d3630624d25032e67a7e6a4910df5834b8fe70e6bcfeeac03524"
        "3419"
        "6bdf4b2485d5a18f59a8d2a1a625a17f3fea0fe5eb8c896db3764f3185481bc22f91b4aaffcca25f26936857bc3a7c2539ea8ec3a952b7"
        "8730"
        "33e038326e87ed3e1276fd140253fa08e9fc25fb2d9a98527fc22a2c9612fbeafdad446cbc7bcdbdcd780af2c16a";
    EXPECT_EQ(call(0x0a, hash + rest),
              "0000000000000000000000000000000000000000000000000000000000001000"
              "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001");
    EXPECT_EQ(call(0x0a, "02" + hash.substr(2) + rest), "fails");
    EXPECT_EQ(call(0x0a, hash.substr(0, 62) + "9c" + rest), "fails");
    EXPECT_EQ(call(0x0a, hash + "56" + rest.substr(2, 10) + "ff" + rest.substr(14)), "fails");
    EXPECT_EQ(call(0x0a, hash + rest + "00"), "fails");
    EXPECT_EQ(call(0x0a, ""), "fails");
    EXPECT_EQ(gas(0x0a, ""), 50'000);
}

TEST(CurvePrecompiles, bls12_381_costs_what_eip_2537_says) {
    const auto of_bytes = [](std::uint64_t number, std::size_t bytes) {
        return gas(number, std::string(2 * bytes, '0'));
    };
    EXPECT_EQ(of_bytes(0x0b, 256), 375);
    EXPECT_EQ(of_bytes(0x0c, 0), 0);
    EXPECT_EQ(of_bytes(0x0c, 160), 12'000);
    EXPECT_EQ(of_bytes(0x0c, 320), 2 * 12'000 * 949 / 1000);
    EXPECT_EQ(of_bytes(0x0c, 128 * 160), 128 * 12'000 * 519 / 1000);
    EXPECT_EQ(of_bytes(0x0c, 200 * 160), 200 * 12'000 * 519 / 1000);
    EXPECT_EQ(of_bytes(0x0d, 512), 600);
    EXPECT_EQ(of_bytes(0x0e, 288), 22'500);
    EXPECT_EQ(of_bytes(0x0e, 3 * 288), 3 * 22'500 * 923 / 1000);
    EXPECT_EQ(of_bytes(0x0e, 129 * 288), 129 * 22'500 * 524 / 1000);
    EXPECT_EQ(of_bytes(0x0f, 384), 70'300);
    EXPECT_EQ(of_bytes(0x0f, 768), 102'900);
    EXPECT_EQ(of_bytes(0x10, 64), 5500);
    EXPECT_EQ(of_bytes(0x11, 128), 23'800);
}

TEST(CurvePrecompiles, bls12_381_gives_points_and_fails_on_wrong_lengths) {
    const std::string infinity1(256, '0');
    const std::string infinity2(512, '0');
    EXPECT_EQ(call(0x0b, infinity1 + infinity1), infinity1);
    EXPECT_EQ(call(0x0c, infinity1 + kTwo), infinity1);
    EXPECT_EQ(call(0x0d, infinity2 + infinity2), infinity2);
    EXPECT_EQ(call(0x0e, infinity2 + kTwo), infinity2);
    EXPECT_EQ(call(0x0f, infinity1 + infinity2), kOne);
    // The generator of G1, which pairs with no other point of this product.
    const std::string g1 =
        "0000000000000000000000000000000017f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1a"
        "effb"
        "3af00adb22c6bb0000000000000000000000000000000008b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3ed"
        "d03c"
        "c744a2888ae40caa232946c5e7e1";
    EXPECT_EQ(call(0x0b, g1 + infinity1), g1);
    EXPECT_EQ(call(0x0c, g1 + kOne + infinity1 + kTwo), g1);
    const std::string mapped = call(0x11, std::string(256, '0'));
    EXPECT_EQ(mapped.size(), 512);
    EXPECT_EQ(call(0x0e, mapped + kOne), mapped);  // a point of the group
    EXPECT_EQ(call(0x0f, g1 + mapped), kZero);
    EXPECT_EQ(call(0x10, std::string(128, '0')).size(), 256);
    for (std::uint64_t number = 0x0b; number <= 0x11; ++number) {
        EXPECT_EQ(call(number, ""), "fails") << number;
        EXPECT_EQ(call(number, std::string(10 * 512 * 288 + 2, '0')), "fails") << number;
    }
}

}  // namespace
}  // namespace quern::vm::evm
