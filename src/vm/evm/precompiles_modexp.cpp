// base^exponent mod modulus (EIP-198): prices by fork (EIP-198, EIP-2565, EIP-7883) and Osaka's bound of the lengths
// (EIP-7823).
//
//   length of base (32) || length of exponent (32) || length of modulus (32) || base || exponent || modulus
#include "crypto/modexp.h"
#include "vm/evm/precompile_functions.h"
#include "vm/evm/precompiles.h"

namespace quern::vm::evm {
namespace {

constexpr std::uint64_t kHead = 96;
constexpr std::uint64_t kMaxLength = 1024;  // EIP-7823
// Above what any gas limit pays for, and far below what would wrap the arithmetic with offsets.
constexpr std::uint64_t kMaxPaidLength = std::uint64_t{1} << 32;

struct Lengths {
    Uint256 base;
    Uint256 exponent;
    Uint256 modulus;
};

Lengths lengths_of(BytesView input) {
    return {Uint256::from_be(padded(input, 0)), Uint256::from_be(padded(input, 32)),
            Uint256::from_be(padded(input, 64))};
}

// EIP-198's of the greater length.
Uint256 complexity_of_byzantium(std::uint64_t length) {
    const Uint256 x(length);
    if (length <= 64) return x * x;
    if (length <= 1024) return (x * x >> 2) + x * 96 - 3072;
    return (x * x >> 4) + x * 480 - 199'680;
}

// EIP-2565's and EIP-7883's.
Uint256 complexity_by_words(std::uint64_t length, bool is_osaka) {
    const Uint256 words(length / 8 + (length % 8 != 0 ? 1 : 0));
    if (!is_osaka) return words * words;
    return length <= 32 ? Uint256(16) : words * words * 2;
}

// How many squarings the exponent asks for, about: bits of its first 32 bytes, and `per_byte` for each byte behind
// them. Nothing when it does not fit.
std::optional<Uint256> iterations_of(BytesView input, const Lengths& lengths, std::uint64_t per_byte) {
    const std::uint64_t head_bytes = lengths.exponent < 32 ? lengths.exponent.low_u64() : 32;
    Uint256 head;
    // The base fits 64 bits, and the input's size is far from that: beyond it all is zero.
    if (lengths.base <= input.size()) {
        head = Uint256::from_be(padded(input, kHead + lengths.base.low_u64()));
        head = head >> static_cast<unsigned>(8 * (32 - head_bytes));
    }
    const std::uint64_t bits = head.is_zero() ? 0 : head.bit_length() - 1;
    if (lengths.exponent <= 32) return Uint256(bits);
    const auto rest = checked_mul(lengths.exponent - 32, per_byte);
    return rest ? checked_add(*rest, bits) : std::nullopt;
}

}  // namespace

std::uint64_t gas_modexp(BytesView input, Revision revision) {
    const Lengths lengths = lengths_of(input);
    const Uint256& greater = std::max(lengths.base, lengths.modulus);
    // Its square is at least 2^120 gas.
    if (!greater.fits_u64()) return kUnaffordable;
    const bool is_osaka = revision >= Revision::osaka;
    const bool is_berlin = revision >= Revision::berlin;
    const std::uint64_t least = is_osaka ? 500 : is_berlin ? 200 : 0;
    const std::uint64_t divisor = is_osaka ? 1 : is_berlin ? 3 : 20;
    const Uint256 complexity =
        is_berlin ? complexity_by_words(greater.low_u64(), is_osaka) : complexity_of_byzantium(greater.low_u64());
    if (complexity.is_zero()) return least;
    auto iterations = iterations_of(input, lengths, is_osaka ? 16 : 8);
    if (!iterations) return kUnaffordable;
    const auto product = checked_mul(complexity, std::max(*iterations, Uint256(1)));
    if (!product) return kUnaffordable;
    const Uint256 gas = *product / Uint256(divisor);
    return gas.fits_u64() ? std::max(gas.low_u64(), least) : kUnaffordable;
}

bool run_modexp(BytesView input, Revision revision, Bytes& output) {
    const Lengths lengths = lengths_of(input);
    if (revision >= Revision::osaka &&
        (lengths.base > kMaxLength || lengths.exponent > kMaxLength || lengths.modulus > kMaxLength))
        return false;
    output.clear();
    // Free but for the least price, whatever the exponent's length says (before Osaka).
    if (lengths.base.is_zero() && lengths.modulus.is_zero()) return true;
    if (lengths.base > kMaxPaidLength || lengths.modulus > kMaxPaidLength || !lengths.exponent.fits_u64() ||
        lengths.exponent.low_u64() > ~std::uint64_t{0} - 2 * kMaxPaidLength)
        return false;
    if (lengths.modulus.is_zero()) return true;
    std::uint64_t at = kHead;
    const auto next = [&](std::uint64_t size) {
        const BytesView given = part_of(input, at, size);
        at += size;
        return crypto::ZeroEnded{given, size - given.size()};
    };
    const crypto::ZeroEnded base = next(lengths.base.low_u64());
    const crypto::ZeroEnded exponent = next(lengths.exponent.low_u64());
    const crypto::ZeroEnded modulus = next(lengths.modulus.low_u64());
    output.resize(lengths.modulus.low_u64());
    crypto::modexp(base, exponent, modulus, output);
    return true;
}

}  // namespace quern::vm::evm
