#include "crypto/bn254.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "crypto/bn254_pairing.h"

namespace quern::crypto::bn254 {
namespace {

Uint256 random_number(SeededRng& rng) {
    Hash32 bytes;
    rng.fill(bytes.data);
    return Uint256::from_be(bytes);
}
Fp random_fp(SeededRng& rng) { return Fp::of(random_number(rng) % kPrime); }
Fp2 random_fp2(SeededRng& rng) { return {random_fp(rng), random_fp(rng)}; }

// Numbers at which carries and borrows turn over, and random ones.
std::vector<Fp> sample_fp() {
    SeededRng rng(254);
    std::vector<Fp> sample;
    for (const Uint256& number : {Uint256(), Uint256(1), Uint256(2), kPrime - 1, kPrime - 2, kPrime >> 1,
                                  (kPrime >> 1) + 1, Uint256(~std::uint64_t{0}), Uint256(1) << 64, Uint256(1) << 253})
        sample.push_back({number});
    while (sample.size() < 60) sample.push_back(random_fp(rng));
    return sample;
}

const G1 kG1{Fp::of(1), Fp::of(2)};
// The generator of EIP-197.
G2 generator_g2() {
    return *decode_g2(
        *from_hex("198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2"
                  "1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6ed"
                  "090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b"
                  "12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daa"));
}
template <class Field>
Affine<Field> times(const Affine<Field>& point, const Uint256& scalar) {
    Jacobian<Field> sum;
    for (unsigned bit = 256; bit-- > 0;) {
        sum = sum.doubled();
        if (scalar.bit(bit)) sum = sum + point;
    }
    return sum.affine();
}

TEST(Bn254Field, assembler_and_portable_forms_are_one_arithmetic) {
    const auto sample = sample_fp();
    for (const Fp& a : sample)
        for (const Fp& b : sample) {
            ASSERT_EQ(a + b, Fp::sum(a, b));
            ASSERT_EQ(a - b, Fp::difference(a, b));
            ASSERT_EQ(a * b, Fp::product(a, b));
            const Fp2 x{a, b};
            const Fp2 y{b, a + Fp::one()};
            ASSERT_EQ(x * y, (Fp2{Fp::difference(Fp::product(x.a, y.a), Fp::product(x.b, y.b)),
                                  Fp::sum(Fp::product(x.a, y.b), Fp::product(x.b, y.a))}));
            ASSERT_EQ(x.squared(), x * x);
        }
}

TEST(Bn254Field, is_a_field) {
    const auto sample = sample_fp();
    for (const Fp& a : sample) {
        EXPECT_EQ(Fp::of(a.number()), a);
        EXPECT_LT(a.number(), kPrime);
        EXPECT_EQ(a.halved().doubled(), a);
        EXPECT_EQ(a + -a, Fp());
        EXPECT_EQ(a * a.inverted(), a.is_zero() ? Fp() : Fp::one());
        EXPECT_EQ(a * (a + Fp::one()), a.squared() + a);
    }
    EXPECT_EQ((Fp::of(7) * Fp::of(6)).number(), Uint256(42));
    EXPECT_EQ((Fp::of(3) - Fp::of(5)).number(), kPrime - 2);
    SeededRng rng(255);
    for (int i = 0; i < 2000; ++i) {
        const Fp a = random_fp(rng);
        ASSERT_EQ(a * a.inverted(), Fp::one());
    }
    const Fp2 x = random_fp2(rng);
    EXPECT_EQ(x.times_xi(), x * Fp2::of(9, 1));
    EXPECT_EQ(x * x.inverted(), Fp2::one());
}

TEST(Bn254Tower, powers_and_inverses) {
    SeededRng rng(12);
    Fp12 f;
    for (auto& six : f.c)
        for (auto& two : six.c) two = random_fp2(rng);
    EXPECT_EQ(f * f.inverted(), Fp12::one());
    EXPECT_EQ(f.squared(), f * f);
    const Line line{random_fp2(rng), random_fp2(rng), random_fp2(rng)};
    Fp12 dense;
    dense.c[0].c[0] = line.y0;
    dense.c[1].c[0] = line.y1;
    dense.c[1].c[1] = line.y3;
    EXPECT_EQ(f.times(line), f * dense);
    // Frobenius' map is raising to p.
    Fp12 power = Fp12::one();
    for (unsigned bit = 254; bit-- > 0;) {
        power = power.squared();
        if (kPrime.bit(bit)) power = power * f;
    }
    EXPECT_EQ(f.frobenius(1), power);
    EXPECT_EQ(f.frobenius(2), power.frobenius(1));
    EXPECT_EQ(f.frobenius(3), power.frobenius(2));
    EXPECT_EQ(f.frobenius(3).frobenius(3), f.conjugate());
    // In the cyclotomic subgroup.
    Fp12 unit = f.conjugate() * f.inverted();
    unit = unit.frobenius(2) * unit;
    EXPECT_EQ(unit.cyclotomic_squared(), unit * unit);
    EXPECT_EQ(unit * unit.conjugate(), Fp12::one());
    Fp12 wanted = Fp12::one();
    for (unsigned bit = 63; bit-- > 0;) {
        wanted = wanted.squared();
        if ((kParameter >> bit & 1) != 0) wanted = wanted * unit;
    }
    EXPECT_EQ(unit.cyclotomic_power_of_parameter(), wanted);
}

TEST(Bn254, multiples_are_repeated_sums) {
    G1 sum{};
    for (std::uint64_t k = 0; k < 100; ++k) {
        EXPECT_EQ(multiply(kG1, Uint256(k)), sum) << k;
        sum = add(sum, kG1);
    }
    EXPECT_EQ(multiply(kG1, kOrder), G1{});
    EXPECT_EQ(multiply(kG1, kOrder - 1), -kG1);
    EXPECT_EQ(multiply(kG1, kOrder + 5), multiply(kG1, 5));
    EXPECT_EQ(multiply(G1{}, 5), G1{});
    EXPECT_EQ(add(kG1, -kG1), G1{});
    EXPECT_EQ(add(kG1, kG1), multiply(kG1, 2));
    EXPECT_EQ(add(G1{}, kG1), kG1);
    EXPECT_EQ(add(kG1, G1{}), kG1);
    SeededRng rng(196);
    for (int i = 0; i < 50; ++i) {
        const Uint256 scalar = i == 0 ? ~Uint256() : random_number(rng) >> static_cast<unsigned>(5 * i);
        const G1 point = times(kG1, random_number(rng));
        EXPECT_EQ(multiply(point, scalar), times(point, scalar % kOrder)) << scalar.to_decimal();
    }
    // Halves of the decomposition: lambda, and what is near its multiples.
    const Uint256 lambda{0, 0xb3c4d79d41a91758, 0x5bfc41088d8daaa7, 0x8b17ea66b99c90dd};
    for (const Uint256& scalar : {lambda, lambda - 1, lambda + 1, kOrder - lambda, lambda << 1})
        EXPECT_EQ(multiply(kG1, scalar), times(kG1, scalar)) << scalar.to_decimal();
}

TEST(Bn254, refuses_what_is_no_point) {
    EXPECT_EQ(*decode_g1(Bytes(64)), G1{});
    EXPECT_EQ(*decode_g1(encode(kG1)), kG1);
    EXPECT_EQ(decode_g1(Bytes(63)).error().name, "bn254.wrong_length");
    EXPECT_EQ(decode_g2(Bytes(127)).error().name, "bn254.wrong_length");
    const auto word = [](const Uint256& number) { return to_bytes(number.to_be32()); };
    const auto joined = [](std::initializer_list<Bytes> parts) {
        Bytes all;
        for (const Bytes& part : parts) append(all, part);
        return all;
    };
    EXPECT_EQ(decode_g1(joined({word(1), word(3)})).error().name, "bn254.not_on_curve");
    EXPECT_EQ(decode_g1(joined({word(0), word(1)})).error().name, "bn254.not_on_curve");
    EXPECT_EQ(decode_g1(joined({word(kPrime), word(0)})).error().name, "bn254.not_reduced");
    EXPECT_EQ(decode_g1(joined({word(1), word(kPrime + 2)})).error().name, "bn254.not_reduced");
    for (std::size_t at = 0; at < 4; ++at) {
        Bytes zeros(128);
        const Bytes prime = word(kPrime);
        std::copy(prime.begin(), prime.end(), zeros.begin() + static_cast<std::ptrdiff_t>(32 * at));
        EXPECT_EQ(decode_g2(zeros).error().name, "bn254.not_reduced") << at;
    }
    EXPECT_EQ(*decode_g2(Bytes(128)), G2{});
    EXPECT_EQ(decode_g2(joined({word(1), word(2), word(3), word(4)})).error().name, "bn254.not_on_curve");
}

// Points of the twisted curve: one of full order, and one whose order is the cofactor's factor 10069.
constexpr std::string_view kFullOrder =
    "0000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000001"
    "0d1271953ed9ea0836846e70a1934187998c7f790cb4d7511b7f8da82de048a4"
    "2869111d5381f072f8e2728fdb825a51aadd70e52c9830e9ab4b871c0531f1bb";
constexpr std::string_view kSmallOrder =
    "0f0a87c117963381ad55ab9b17e3c4f9533ef81d16b752be905d1a444b982519"
    "25d0b2ba5c369c1dbbfed41ccb191fe4df508cf88faf370494b4867a332815ec"
    "01961c59a0d89a4d27fe2b87137614a142c3ad7ada8b3fb5580462e2a5a99847"
    "2e4585f85183195d71c90a2d1d38655cb0ff30b352fdf58d6a36d8fbb3ee84a1";

G2 unchecked_g2(std::string_view hex) {
    const Bytes bytes = *from_hex(hex);
    const auto number = [&](std::size_t at) { return Fp::of(Uint256::from_be(BytesView(bytes).subspan(32 * at, 32))); };
    return {{number(1), number(0)}, {number(3), number(2)}};
}

TEST(Bn254, membership_is_having_the_groups_order) {
    const G2 q = generator_g2();
    const G2 full = unchecked_g2(kFullOrder);
    const G2 small = unchecked_g2(kSmallOrder);
    EXPECT_EQ(decode_g2(*from_hex(kFullOrder)).error().name, "bn254.not_in_group");
    EXPECT_EQ(decode_g2(*from_hex(kSmallOrder)).error().name, "bn254.not_in_group");
    EXPECT_EQ(times(small, 10069), G2{});
    EXPECT_NE(small, G2{});
    SeededRng rng(197);
    const auto sum = [](const G2& a, const G2& b) { return (Jacobian<Fp2>::of(a) + b).affine(); };
    for (int i = 0; i < 30; ++i) {
        const G2 member = times(q, random_number(rng));
        EXPECT_TRUE(is_in_group(member));
        EXPECT_EQ(times(member, kOrder), G2{});
        for (const G2& other : {times(full, random_number(rng)), times(small, 1 + rng.below(10068))}) {
            EXPECT_FALSE(is_in_group(other));
            EXPECT_FALSE(is_in_group(sum(member, other)));
            EXPECT_NE(times(sum(member, other), kOrder), G2{});
        }
    }
    // What the pairing's loop ends with: the map is multiplication by p.
    EXPECT_EQ(frobenius(q, 1), times(q, kPrime));
    EXPECT_EQ(frobenius(q, 2), times(frobenius(q, 1), kPrime));
    EXPECT_EQ(frobenius(q, 3), times(frobenius(q, 2), kPrime));
}

TEST(Bn254, pairing_is_bilinear_and_not_degenerate) {
    const G2 q = generator_g2();
    const Fp12 e = pairing(kG1, q);
    EXPECT_NE(e, Fp12::one());
    Fp12 order = Fp12::one();
    for (unsigned bit = 254; bit-- > 0;) {
        order = order.squared();
        if (kOrder.bit(bit)) order = order * e;
    }
    EXPECT_EQ(order, Fp12::one());
    SeededRng rng(1108);
    for (int i = 0; i < 5; ++i) {
        const Uint256 a(rng.below(1'000'000) + 1);
        const Uint256 b(rng.below(1'000'000) + 1);
        Fp12 power = Fp12::one();
        for (unsigned bit = 64; bit-- > 0;) {
            power = power.squared();
            if ((a * b).bit(bit)) power = power * e;
        }
        EXPECT_EQ(pairing(multiply(kG1, a), times(q, b)), power);
    }
    EXPECT_EQ(pairing(-kG1, q), e.conjugate());
    EXPECT_EQ(pairing(kG1, -q), e.conjugate());
    EXPECT_EQ(pairing(G1{}, q), Fp12::one());
    EXPECT_EQ(pairing(kG1, G2{}), Fp12::one());
}

// Pairs are worked on eight at a time: each number around that, with infinity between them.
TEST(Bn254, products_of_pairs_are_sums_of_exponents) {
    const G2 q = generator_g2();
    EXPECT_TRUE(PairingProduct().is_one());
    SeededRng rng(8);
    for (const int pairs : {1, 2, 7, 8, 9, 17}) {
        PairingProduct product;
        Uint256 sum;
        for (int i = 0; i < pairs; ++i) {
            const Uint256 a(rng.below(1000) + 1);
            const Uint256 b(rng.below(1000) + 1);
            sum += a * b;
            product.multiply(multiply(kG1, a), times(q, b));
            if (i % 3 == 0) product.multiply(G1{}, q);
            if (i % 3 == 1) product.multiply(kG1, G2{});
        }
        PairingProduct other = product;
        product.multiply(-multiply(kG1, sum), q);
        EXPECT_TRUE(product.is_one()) << pairs;
        other.multiply(-multiply(kG1, sum + 1), q);
        EXPECT_FALSE(other.is_one()) << pairs;
    }
}

}  // namespace
}  // namespace quern::crypto::bn254
