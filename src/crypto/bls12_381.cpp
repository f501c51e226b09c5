#include "crypto/bls12_381.h"

#include <blst.h>

#include <algorithm>
#include <vector>

namespace quern::crypto::bls12_381 {
namespace {

constexpr std::size_t kNumberBytes = 48;
constexpr std::size_t kZeros = kFpBytes - kNumberBytes;
constexpr std::array<std::uint8_t, kNumberBytes> kPrime = {
    0x1a, 0x01, 0x11, 0xea, 0x39, 0x7f, 0xe6, 0x9a, 0x4b, 0x1b, 0xa7, 0xb6, 0x43, 0x4b, 0xac, 0xd7,
    0x64, 0x77, 0x4b, 0x84, 0xf3, 0x85, 0x12, 0xbf, 0x67, 0x30, 0xd2, 0xa0, 0xf6, 0xb0, 0xf6, 0x24,
    0x1e, 0xab, 0xff, 0xfe, 0xb1, 0x53, 0xff, 0xff, 0xb9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xaa, 0xab};
constexpr std::size_t kScalarBits = 255;  // of the group's order, below which scalars are brought

Expected<blst_fp> decode_fp(BytesView bytes) {
    if (bytes.size() != kFpBytes) return fail("bls12_381.wrong_length");
    const BytesView number = bytes.subspan(kZeros);
    if (std::ranges::any_of(bytes.first(kZeros), [](std::uint8_t byte) { return byte != 0; }) ||
        !std::ranges::lexicographical_compare(number, kPrime))
        return fail("bls12_381.not_reduced");
    blst_fp element;
    blst_fp_from_bendian(&element, number.data());
    return element;
}

Expected<blst_fp2> decode_fp2(BytesView bytes) {
    if (bytes.size() != kFp2Bytes) return fail("bls12_381.wrong_length");
    QUERN_TRY(const blst_fp real, decode_fp(bytes.first(kFpBytes)));
    QUERN_TRY(const blst_fp imaginary, decode_fp(bytes.subspan(kFpBytes)));
    return blst_fp2{{real, imaginary}};
}

void encode_fp(const blst_fp& element, std::uint8_t* to) { blst_bendian_from_fp(to + kZeros, &element); }

// What blst calls the same by two names.
struct OnG1 {
    using Point = blst_p1;
    using Affine = blst_p1_affine;
    using Encoded = G1;
    static constexpr auto kDecodeCoordinate = decode_fp;
    static constexpr auto kIsInfinity = blst_p1_affine_is_inf;
    static constexpr auto kIsOnCurve = blst_p1_affine_on_curve;
    static constexpr auto kIsInGroup = blst_p1_affine_in_g1;
    static constexpr auto kFromAffine = blst_p1_from_affine;
    static constexpr auto kToAffine = blst_p1_to_affine;
    static constexpr auto kAdd = blst_p1_add_or_double_affine;
    static constexpr auto kScratchSize = blst_p1s_mult_pippenger_scratch_sizeof;
    static constexpr auto kMultiplyAndAdd = blst_p1s_mult_pippenger;
    static void encode_coordinate(const blst_fp& element, std::uint8_t* to) { encode_fp(element, to); }
};
struct OnG2 {
    using Point = blst_p2;
    using Affine = blst_p2_affine;
    using Encoded = G2;
    static constexpr auto kDecodeCoordinate = decode_fp2;
    static constexpr auto kIsInfinity = blst_p2_affine_is_inf;
    static constexpr auto kIsOnCurve = blst_p2_affine_on_curve;
    static constexpr auto kIsInGroup = blst_p2_affine_in_g2;
    static constexpr auto kFromAffine = blst_p2_from_affine;
    static constexpr auto kToAffine = blst_p2_to_affine;
    static constexpr auto kAdd = blst_p2_add_or_double_affine;
    static constexpr auto kScratchSize = blst_p2s_mult_pippenger_scratch_sizeof;
    static constexpr auto kMultiplyAndAdd = blst_p2s_mult_pippenger;
    static void encode_coordinate(const blst_fp2& element, std::uint8_t* to) {
        encode_fp(element.fp[0], to);
        encode_fp(element.fp[1], to + kFpBytes);
    }
};

template <class Curve>
Expected<typename Curve::Affine> decode_point(BytesView bytes) {
    QUERN_TRY(const auto x, Curve::kDecodeCoordinate(bytes.first(bytes.size() / 2)));
    QUERN_TRY(const auto y, Curve::kDecodeCoordinate(bytes.subspan(bytes.size() / 2)));
    const typename Curve::Affine point{x, y};
    if (!Curve::kIsInfinity(&point) && !Curve::kIsOnCurve(&point)) return fail("bls12_381.not_on_curve");
    return point;
}

template <class Curve>
Expected<typename Curve::Affine> decode_in_group(BytesView bytes) {
    QUERN_TRY(const auto point, decode_point<Curve>(bytes));
    if (!Curve::kIsInfinity(&point) && !Curve::kIsInGroup(&point)) return fail("bls12_381.not_in_group");
    return point;
}

template <class Curve>
typename Curve::Encoded encode_point(const typename Curve::Point& point) {
    typename Curve::Affine affine;
    Curve::kToAffine(&affine, &point);
    typename Curve::Encoded bytes;
    if (Curve::kIsInfinity(&affine)) return bytes;
    Curve::encode_coordinate(affine.x, bytes.data.data());
    Curve::encode_coordinate(affine.y, bytes.data.data() + bytes.data.size() / 2);
    return bytes;
}

template <class Curve>
Expected<typename Curve::Encoded> add(BytesView both) {
    constexpr std::size_t kSize = Curve::Encoded::kSize;
    if (both.size() != 2 * kSize) return fail("bls12_381.wrong_length");
    QUERN_TRY(const auto p, decode_point<Curve>(both.first(kSize)));
    QUERN_TRY(const auto q, decode_point<Curve>(both.subspan(kSize)));
    typename Curve::Point sum;
    Curve::kFromAffine(&sum, &p);
    Curve::kAdd(&sum, &sum, &q);
    return encode_point<Curve>(sum);
}

template <class Curve>
Expected<typename Curve::Encoded> multiply_and_add(BytesView terms) {
    constexpr std::size_t kSize = Curve::Encoded::kSize + kScalarBytes;
    if (terms.empty() || terms.size() % kSize != 0) return fail("bls12_381.wrong_length");
    std::vector<typename Curve::Affine> points;
    std::vector<blst_scalar> scalars;
    points.reserve(terms.size() / kSize);
    scalars.reserve(terms.size() / kSize);
    for (; !terms.empty(); terms = terms.subspan(kSize)) {
        QUERN_TRY(const auto point, decode_in_group<Curve>(terms.first(Curve::Encoded::kSize)));
        blst_scalar scalar;
        const bool is_zero = !blst_scalar_from_be_bytes(&scalar, terms.data() + Curve::Encoded::kSize, kScalarBytes);
        // Terms that are nothing; blst's sum takes no infinity.
        if (is_zero || Curve::kIsInfinity(&point)) continue;
        points.push_back(point);
        scalars.push_back(scalar);
    }
    if (points.empty()) return typename Curve::Encoded{};
    std::vector<limb_t> scratch(Curve::kScratchSize(points.size()) / sizeof(limb_t) + 1);
    // A null behind the first pointer: the others follow it in memory.
    const typename Curve::Affine* const all_points[] = {points.data(), nullptr};
    const byte* const all_scalars[] = {scalars.data()->b, nullptr};
    typename Curve::Point sum;
    Curve::kMultiplyAndAdd(&sum, all_points, points.size(), all_scalars, kScalarBits, scratch.data());
    return encode_point<Curve>(sum);
}

}  // namespace

Expected<G1> add_g1(BytesView both) { return add<OnG1>(both); }
Expected<G2> add_g2(BytesView both) { return add<OnG2>(both); }
Expected<G1> multiply_and_add_g1(BytesView terms) { return multiply_and_add<OnG1>(terms); }
Expected<G2> multiply_and_add_g2(BytesView terms) { return multiply_and_add<OnG2>(terms); }

Expected<bool> is_pairing_product_one(BytesView pairs) {
    constexpr std::size_t kPairBytes = kG1Bytes + kG2Bytes;
    if (pairs.empty() || pairs.size() % kPairBytes != 0) return fail("bls12_381.wrong_length");
    // Pairs that go through a loop at once share its squarings.
    constexpr std::size_t kAtOnce = 8;
    std::array<blst_p1_affine, kAtOnce> ps;
    std::array<blst_p2_affine, kAtOnce> qs;
    std::size_t pending = 0;
    blst_fp12 product = *blst_fp12_one();
    const auto flush = [&] {
        if (pending == 0) return;
        const blst_p1_affine* const all_ps[] = {ps.data(), nullptr};
        const blst_p2_affine* const all_qs[] = {qs.data(), nullptr};
        blst_fp12 f;
        blst_miller_loop_n(&f, all_qs, all_ps, pending);
        blst_fp12_mul(&product, &product, &f);
        pending = 0;
    };
    for (; !pairs.empty(); pairs = pairs.subspan(kPairBytes)) {
        QUERN_TRY(const blst_p1_affine p, decode_in_group<OnG1>(pairs.first(kG1Bytes)));
        QUERN_TRY(const blst_p2_affine q, decode_in_group<OnG2>(pairs.subspan(kG1Bytes, kG2Bytes)));
        if (OnG1::kIsInfinity(&p) || OnG2::kIsInfinity(&q)) continue;
        ps[pending] = p;
        qs[pending] = q;
        if (++pending == kAtOnce) flush();
    }
    flush();
    blst_final_exp(&product, &product);
    return blst_fp12_is_one(&product);
}

Expected<G1> map_to_g1(BytesView fp) {
    QUERN_TRY(const blst_fp element, decode_fp(fp));
    blst_p1 point;
    blst_map_to_g1(&point, &element, nullptr);
    return encode_point<OnG1>(point);
}

Expected<G2> map_to_g2(BytesView fp2) {
    QUERN_TRY(const blst_fp2 element, decode_fp2(fp2));
    blst_p2 point;
    blst_map_to_g2(&point, &element, nullptr);
    return encode_point<OnG2>(point);
}

}  // namespace quern::crypto::bls12_381
