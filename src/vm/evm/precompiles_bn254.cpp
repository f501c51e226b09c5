// Sums, multiples and pairings of BN254 (EIP-196, EIP-197; prices since Istanbul: EIP-1108).
#include "crypto/bn254_pairing.h"
#include "vm/evm/precompile_functions.h"

namespace quern::vm::evm {
namespace {

namespace bn254 = crypto::bn254;
constexpr std::size_t kPairBytes = bn254::kG1Bytes + bn254::kG2Bytes;

bool is_istanbul(Revision revision) { return revision >= Revision::istanbul; }

}  // namespace

std::uint64_t gas_bn254_add(BytesView, Revision revision) { return is_istanbul(revision) ? 150 : 500; }

bool run_bn254_add(BytesView input, Revision, Bytes& output) {
    const auto p = bn254::decode_g1(padded<bn254::kG1Bytes>(input, 0));
    const auto q = bn254::decode_g1(padded<bn254::kG1Bytes>(input, bn254::kG1Bytes));
    if (!p || !q) return false;
    output = to_bytes(bn254::encode(bn254::add(*p, *q)));
    return true;
}

std::uint64_t gas_bn254_mul(BytesView, Revision revision) { return is_istanbul(revision) ? 6000 : 40'000; }

bool run_bn254_mul(BytesView input, Revision, Bytes& output) {
    const auto p = bn254::decode_g1(padded<bn254::kG1Bytes>(input, 0));
    if (!p) return false;
    output = to_bytes(bn254::encode(bn254::multiply(*p, Uint256::from_be(padded(input, bn254::kG1Bytes)))));
    return true;
}

std::uint64_t gas_bn254_pairing(BytesView input, Revision revision) {
    const std::uint64_t pairs = input.size() / kPairBytes;
    return is_istanbul(revision) ? 45'000 + 34'000 * pairs : 100'000 + 80'000 * pairs;
}

bool run_bn254_pairing(BytesView input, Revision, Bytes& output) {
    if (input.size() % kPairBytes != 0) return false;
    bn254::PairingProduct product;
    for (; !input.empty(); input = input.subspan(kPairBytes)) {
        const auto p = bn254::decode_g1(input.first(bn254::kG1Bytes));
        if (!p) return false;
        const auto q = bn254::decode_g2(input.subspan(bn254::kG1Bytes, bn254::kG2Bytes));
        if (!q) return false;
        product.multiply(*p, *q);
    }
    output.assign(32, 0);
    output.back() = product.is_one() ? 1 : 0;
    return true;
}

}  // namespace quern::vm::evm
