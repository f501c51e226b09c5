#include "crypto/kzg.h"

#include <blst.h>

#include "base/ensure.h"

namespace quern::crypto {
namespace {

// [tau]_2, compressed: the second of the 65 powers in G2 that the ceremony gave.
constexpr std::uint8_t kTau[96] = {0xb5, 0xbf, 0xd7, 0xdd, 0x8c, 0xde, 0xb1, 0x28, 0x84, 0x3b, 0xc2, 0x87, 0x23, 0x0a,
                                   0xf3, 0x89, 0x26, 0x18, 0x70, 0x75, 0xcb, 0xfb, 0xef, 0xa8, 0x10, 0x09, 0xa2, 0xce,
                                   0x61, 0x5a, 0xc5, 0x3d, 0x29, 0x14, 0xe5, 0x87, 0x0c, 0xb4, 0x52, 0xd2, 0xaf, 0xaa,
                                   0xab, 0x24, 0xf3, 0x49, 0x9f, 0x72, 0x18, 0x5c, 0xbf, 0xee, 0x53, 0x49, 0x27, 0x14,
                                   0x73, 0x44, 0x29, 0xb7, 0xb3, 0x86, 0x08, 0xe2, 0x39, 0x26, 0xc9, 0x11, 0xcc, 0xec,
                                   0xea, 0xc9, 0xa3, 0x68, 0x51, 0x47, 0x7b, 0xa4, 0xc6, 0x0b, 0x08, 0x70, 0x41, 0xde,
                                   0x62, 0x10, 0x00, 0xed, 0xc9, 0x8e, 0xda, 0xda, 0x20, 0xc1, 0xde, 0xf2};

// What the loop takes from its point of G2, worked out once for the two points that it ever gets.
struct Lines {
    blst_fp6 of_generator[68];
    blst_fp6 of_tau[68];
};

const Lines& lines() {
    static const Lines made = [] {
        Lines worked_out;
        blst_p2_affine tau;
        ensure(blst_p2_uncompress(&tau, kTau) == BLST_SUCCESS && blst_p2_affine_in_g2(&tau), "tau is a point of G2");
        blst_precompute_lines(worked_out.of_generator, blst_p2_affine_generator());
        blst_precompute_lines(worked_out.of_tau, &tau);
        return worked_out;
    }();
    return made;
}

Expected<blst_p1_affine> decode_point(const KzgPoint& bytes) {
    blst_p1_affine point;
    if (blst_p1_uncompress(&point, bytes.data.data()) != BLST_SUCCESS) return fail("kzg.bad_point");
    if (!blst_p1_affine_is_inf(&point) && !blst_p1_affine_in_g1(&point)) return fail("kzg.bad_point");
    return point;
}

Expected<blst_scalar> decode_number(const Hash32& bytes) {
    blst_scalar number;
    blst_scalar_from_bendian(&number, bytes.data.data());
    if (!blst_scalar_fr_check(&number)) return fail("kzg.not_reduced");
    return number;
}

// One when the point is infinity.
blst_fp12 miller_loop(const blst_fp6* lines_of_q, const blst_p1_affine& p) {
    blst_fp12 f = *blst_fp12_one();
    if (!blst_p1_affine_is_inf(&p)) blst_miller_loop_lines(&f, lines_of_q, &p);
    return f;
}

}  // namespace

Status verify_kzg_proof(const KzgPoint& commitment, const Hash32& z, const Hash32& y, const KzgPoint& proof) {
    QUERN_TRY(const blst_p1_affine c, decode_point(commitment));
    QUERN_TRY(const blst_scalar at, decode_number(z));
    QUERN_TRY(const blst_scalar value, decode_number(y));
    QUERN_TRY(const blst_p1_affine quotient, decode_point(proof));
    constexpr std::size_t kScalarBits = 255;
    // e(C - [y]_1, [1]_2) = e(Q, [tau - z]_2), with z on the side where points are small: e(C - [y]_1 + z Q, [1]_2) =
    // e(Q, [tau]_2).
    blst_p1 left;
    blst_p1 term;
    blst_p1_mult(&left, blst_p1_generator(), value.b, kScalarBits);
    blst_p1_cneg(&left, true);
    blst_p1_from_affine(&term, &quotient);
    blst_p1_mult(&term, &term, at.b, kScalarBits);
    blst_p1_add_or_double(&left, &left, &term);
    blst_p1_add_or_double_affine(&left, &left, &c);
    blst_p1_affine sum;
    blst_p1_to_affine(&sum, &left);
    const blst_fp12 f = miller_loop(lines().of_generator, sum);
    const blst_fp12 g = miller_loop(lines().of_tau, quotient);
    if (!blst_fp12_finalverify(&f, &g)) return fail("kzg.wrong_proof");
    return {};
}

}  // namespace quern::crypto
