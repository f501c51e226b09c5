// BLS12-381: sums, multiples, pairings and maps (EIP-2537), and the evaluation of a blob's polynomial (EIP-4844).
#include "crypto/bls12_381.h"
#include "crypto/hash.h"
#include "crypto/kzg.h"
#include "vm/evm/precompile_functions.h"

namespace quern::vm::evm {
namespace {

namespace bls = crypto::bls12_381;

constexpr std::size_t kPointEvaluationInput = 192;  // versioned hash, z, y, commitment 48, proof 48
constexpr std::uint8_t kVersionOfKzg = 0x01;
constexpr std::uint64_t kFieldElementsPerBlob = 4096;
// BLS_MODULUS, the group's order.
constexpr Uint256 kModulus{0x73eda753299d7d48, 0x3339d80809a1d805, 0x53bda402fffe5bfe, 0xffffffff00000001};

// Of k terms a sum costs k * price * discount[k - 1] / 1000; behind the tables' end the last.
constexpr std::uint16_t kDiscountsG1[128] = {
    1000, 949, 848, 797, 764, 750, 738, 728, 719, 712, 705, 698, 692, 687, 682, 677, 673, 669, 665, 661, 658, 654,
    651,  648, 645, 642, 640, 637, 635, 632, 630, 627, 625, 623, 621, 619, 617, 615, 613, 611, 609, 608, 606, 604,
    603,  601, 599, 598, 596, 595, 593, 592, 591, 589, 588, 586, 585, 584, 582, 581, 580, 579, 577, 576, 575, 574,
    573,  572, 570, 569, 568, 567, 566, 565, 564, 563, 562, 561, 560, 559, 558, 557, 556, 555, 554, 553, 552, 551,
    550,  549, 548, 547, 547, 546, 545, 544, 543, 542, 541, 540, 540, 539, 538, 537, 536, 536, 535, 534, 533, 532,
    532,  531, 530, 529, 528, 528, 527, 526, 525, 525, 524, 523, 522, 522, 521, 520, 520, 519};
constexpr std::uint16_t kDiscountsG2[128] = {
    1000, 1000, 923, 884, 855, 832, 812, 796, 782, 770, 759, 749, 740, 732, 724, 717, 711, 704, 699, 693, 688, 683,
    679,  674,  670, 666, 663, 659, 655, 652, 649, 646, 643, 640, 637, 634, 632, 629, 627, 624, 622, 620, 618, 615,
    613,  611,  609, 607, 606, 604, 602, 600, 598, 597, 595, 593, 592, 590, 589, 587, 586, 584, 583, 582, 580, 579,
    578,  576,  575, 574, 573, 571, 570, 569, 568, 567, 566, 565, 563, 562, 561, 560, 559, 558, 557, 556, 555, 554,
    553,  552,  552, 551, 550, 549, 548, 547, 546, 545, 545, 544, 543, 542, 541, 541, 540, 539, 538, 537, 537, 536,
    535,  535,  534, 533, 532, 532, 531, 530, 530, 529, 528, 528, 527, 526, 526, 525, 524, 524};

std::uint64_t gas_of_terms(std::uint64_t terms, std::uint64_t price, std::span<const std::uint16_t, 128> discounts) {
    if (terms == 0) return 0;
    return terms * price * discounts[std::min<std::uint64_t>(terms, discounts.size()) - 1] / 1000;
}

template <class Result>
bool give(const Expected<Result>& result, Bytes& output) {
    if (!result) return false;
    output = to_bytes(*result);
    return true;
}

}  // namespace

std::uint64_t gas_point_evaluation(BytesView, Revision) { return 50'000; }

bool run_point_evaluation(BytesView input, Revision, Bytes& output) {
    if (input.size() != kPointEvaluationInput) return false;
    const auto commitment = padded<48>(input, 96);
    Hash32 versioned = crypto::sha256(commitment);
    versioned.data[0] = kVersionOfKzg;
    if (versioned != padded(input, 0)) return false;
    if (!crypto::verify_kzg_proof(commitment, padded(input, 32), padded(input, 64), padded<48>(input, 144)))
        return false;
    output = to_bytes(Uint256(kFieldElementsPerBlob).to_be32());
    append(output, kModulus.to_be32());
    return true;
}

std::uint64_t gas_bls12_g1add(BytesView, Revision) { return 375; }
bool run_bls12_g1add(BytesView input, Revision, Bytes& output) { return give(bls::add_g1(input), output); }

// Of inputs that are refused for their length the price is of the whole terms; they fail whatever it is.
std::uint64_t gas_bls12_g1msm(BytesView input, Revision) {
    return gas_of_terms(input.size() / (bls::kG1Bytes + bls::kScalarBytes), 12'000, kDiscountsG1);
}
bool run_bls12_g1msm(BytesView input, Revision, Bytes& output) { return give(bls::multiply_and_add_g1(input), output); }

std::uint64_t gas_bls12_g2add(BytesView, Revision) { return 600; }
bool run_bls12_g2add(BytesView input, Revision, Bytes& output) { return give(bls::add_g2(input), output); }

std::uint64_t gas_bls12_g2msm(BytesView input, Revision) {
    return gas_of_terms(input.size() / (bls::kG2Bytes + bls::kScalarBytes), 22'500, kDiscountsG2);
}
bool run_bls12_g2msm(BytesView input, Revision, Bytes& output) { return give(bls::multiply_and_add_g2(input), output); }

std::uint64_t gas_bls12_pairing(BytesView input, Revision) {
    return 37'700 + 32'600 * (input.size() / (bls::kG1Bytes + bls::kG2Bytes));
}
bool run_bls12_pairing(BytesView input, Revision, Bytes& output) {
    const auto is_one = bls::is_pairing_product_one(input);
    if (!is_one) return false;
    output.assign(32, 0);
    output.back() = *is_one ? 1 : 0;
    return true;
}

std::uint64_t gas_bls12_map_fp_to_g1(BytesView, Revision) { return 5500; }
bool run_bls12_map_fp_to_g1(BytesView input, Revision, Bytes& output) { return give(bls::map_to_g1(input), output); }

std::uint64_t gas_bls12_map_fp2_to_g2(BytesView, Revision) { return 23'800; }
bool run_bls12_map_fp2_to_g2(BytesView input, Revision, Bytes& output) { return give(bls::map_to_g2(input), output); }

}  // namespace quern::vm::evm
