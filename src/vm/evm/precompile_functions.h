// The functions of the table in precompiles.cpp: what each contract costs and gives; and how they read their input.
// Internal to vm/evm. Pure; thread-safe.
#pragma once

#include <algorithm>

#include "base/bytes.h"
#include "base/uint256.h"
#include "vm/evm/revision.h"

namespace quern::vm::evm {

[[nodiscard]] constexpr std::uint64_t words_of(std::uint64_t bytes) { return bytes / 32 + (bytes % 32 != 0 ? 1 : 0); }

// `size` bytes of the input from `offset`, as far as they are there: behind its end an input reads as zeros.
[[nodiscard]] inline BytesView part_of(BytesView input, std::uint64_t offset, std::uint64_t size) {
    if (offset >= input.size()) return {};
    return input.subspan(offset, std::min<std::uint64_t>(size, input.size() - offset));
}
// N bytes from `offset`, with those zeros.
template <std::size_t N = 32>
[[nodiscard]] FixedBytes<N> padded(BytesView input, std::uint64_t offset) {
    FixedBytes<N> bytes;
    const BytesView part = part_of(input, offset, N);
    std::copy(part.begin(), part.end(), bytes.data.begin());
    return bytes;
}

// precompiles_elementary.cpp
[[nodiscard]] std::uint64_t gas_ecrecover(BytesView input, Revision revision);
[[nodiscard]] bool run_ecrecover(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_sha256(BytesView input, Revision revision);
[[nodiscard]] bool run_sha256(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_ripemd160(BytesView input, Revision revision);
[[nodiscard]] bool run_ripemd160(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_identity(BytesView input, Revision revision);
[[nodiscard]] bool run_identity(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_blake2f(BytesView input, Revision revision);
[[nodiscard]] bool run_blake2f(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_p256verify(BytesView input, Revision revision);
[[nodiscard]] bool run_p256verify(BytesView input, Revision revision, Bytes& output);

// precompiles_modexp.cpp
[[nodiscard]] std::uint64_t gas_modexp(BytesView input, Revision revision);
[[nodiscard]] bool run_modexp(BytesView input, Revision revision, Bytes& output);

// precompiles_bn254.cpp
[[nodiscard]] std::uint64_t gas_bn254_add(BytesView input, Revision revision);
[[nodiscard]] bool run_bn254_add(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bn254_mul(BytesView input, Revision revision);
[[nodiscard]] bool run_bn254_mul(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bn254_pairing(BytesView input, Revision revision);
[[nodiscard]] bool run_bn254_pairing(BytesView input, Revision revision, Bytes& output);

// precompiles_bls12_381.cpp
[[nodiscard]] std::uint64_t gas_point_evaluation(BytesView input, Revision revision);
[[nodiscard]] bool run_point_evaluation(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_g1add(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_g1add(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_g1msm(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_g1msm(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_g2add(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_g2add(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_g2msm(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_g2msm(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_pairing(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_pairing(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_map_fp_to_g1(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_map_fp_to_g1(BytesView input, Revision revision, Bytes& output);
[[nodiscard]] std::uint64_t gas_bls12_map_fp2_to_g2(BytesView input, Revision revision);
[[nodiscard]] bool run_bls12_map_fp2_to_g2(BytesView input, Revision revision, Bytes& output);

}  // namespace quern::vm::evm
