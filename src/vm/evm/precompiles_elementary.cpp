// The contracts whose rules are a few lines: signatures, hashes, and the copy (Yellow Paper, appendix E; EIP-152;
// EIP-7951).
#include "base/big_endian.h"
#include "crypto/blake2b.h"
#include "crypto/hash.h"
#include "crypto/p256.h"
#include "crypto/signature.h"
#include "vm/evm/precompile_functions.h"

namespace quern::vm::evm {
namespace {

constexpr std::size_t kBlake2fInput = 213;     // rounds 4, h 64, m 128, t 16, f 1
constexpr std::size_t kP256VerifyInput = 160;  // digest, r, s, x, y

// Of `count` words of eight bytes, the least significant byte first.
template <std::size_t N>
std::array<std::uint64_t, N> little_endian_words(BytesView bytes) {
    std::array<std::uint64_t, N> words{};
    for (std::size_t i = 0; i < N; ++i)
        for (std::size_t j = 8; j-- > 0;) words[i] = words[i] << 8 | bytes[8 * i + j];
    return words;
}

}  // namespace

std::uint64_t gas_ecrecover(BytesView, Revision) { return 3000; }

bool run_ecrecover(BytesView input, Revision, Bytes& output) {
    output.clear();
    const Uint256 v = Uint256::from_be(padded(input, 32));
    if (v != 27 && v != 28) return true;
    const crypto::RecoverableSignature signature{padded(input, 64), padded(input, 96),
                                                 static_cast<std::uint8_t>(v.low_u64() - 27)};
    const auto key = crypto::recover(padded(input, 0), signature);
    if (!key) return true;
    output.assign(12, 0);
    append(output, crypto::address20(*key));
    return true;
}

std::uint64_t gas_sha256(BytesView input, Revision) { return 60 + 12 * words_of(input.size()); }

bool run_sha256(BytesView input, Revision, Bytes& output) {
    output = to_bytes(crypto::sha256(input));
    return true;
}

std::uint64_t gas_ripemd160(BytesView input, Revision) { return 600 + 120 * words_of(input.size()); }

bool run_ripemd160(BytesView input, Revision, Bytes& output) {
    output.assign(12, 0);
    append(output, crypto::ripemd160(input));
    return true;
}

std::uint64_t gas_identity(BytesView input, Revision) { return 15 + 3 * words_of(input.size()); }

bool run_identity(BytesView input, Revision, Bytes& output) {
    output = to_bytes(input);
    return true;
}

// A round costs 1. Of an input that is refused nothing is known; its call fails whatever it costs.
std::uint64_t gas_blake2f(BytesView input, Revision) {
    return input.size() == kBlake2fInput ? from_big_endian(input.first(4)) : 0;
}

bool run_blake2f(BytesView input, Revision, Bytes& output) {
    if (input.size() != kBlake2fInput || input[212] > 1) return false;
    auto h = little_endian_words<8>(input.subspan(4));
    crypto::blake2b_compress(static_cast<std::uint32_t>(from_big_endian(input.first(4))), h,
                             little_endian_words<16>(input.subspan(68)), little_endian_words<2>(input.subspan(196)),
                             input[212] == 1);
    output.clear();
    for (const std::uint64_t word : h)
        for (unsigned shift = 0; shift < 64; shift += 8) output.push_back(static_cast<std::uint8_t>(word >> shift));
    return true;
}

std::uint64_t gas_p256verify(BytesView, Revision) { return 6900; }

bool run_p256verify(BytesView input, Revision, Bytes& output) {
    output.clear();
    if (input.size() != kP256VerifyInput) return true;
    if (!crypto::p256_verify(padded(input, 0), {padded(input, 32), padded(input, 64)},
                             {padded(input, 96), padded(input, 128)}))
        return true;
    output.assign(32, 0);
    output.back() = 1;
    return true;
}

}  // namespace quern::vm::evm
