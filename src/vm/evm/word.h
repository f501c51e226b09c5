// Arithmetic of the machine's 256-bit words, modulo 2^256 (Yellow Paper, 9.4 and appendix H; EIP-145, EIP-7939), with
// carries in flags where the processor has them: the machine's inner loops. The general form is base/uint256.h's. Pure;
// thread-safe; no branch leads to undefined behaviour for any operands.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/uint256.h"

namespace quern::vm::evm::word {

// Adds or subtracts limb by limb; `carry` is 0 or 1.
inline std::uint64_t add_with_carry(std::uint64_t a, std::uint64_t b, unsigned char& carry) {
#if defined(__x86_64__)
    unsigned long long sum;
    carry = _addcarry_u64(carry, a, b, &sum);
    return sum;
#else
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + carry;
    carry = static_cast<unsigned char>(sum >> 64);
    return static_cast<std::uint64_t>(sum);
#endif
}
inline std::uint64_t sub_with_borrow(std::uint64_t a, std::uint64_t b, unsigned char& borrow) {
#if defined(__x86_64__)
    unsigned long long rest;
    borrow = _subborrow_u64(borrow, a, b, &rest);
    return rest;
#else
    const unsigned __int128 rest = static_cast<unsigned __int128>(a) - b - borrow;
    borrow = static_cast<unsigned char>(rest >> 64) & 1;
    return static_cast<std::uint64_t>(rest);
#endif
}

[[nodiscard]] inline Uint256 add(const Uint256& a, const Uint256& b) {
    unsigned char carry = 0;
    const std::uint64_t l0 = add_with_carry(a.limb[0], b.limb[0], carry);
    const std::uint64_t l1 = add_with_carry(a.limb[1], b.limb[1], carry);
    const std::uint64_t l2 = add_with_carry(a.limb[2], b.limb[2], carry);
    const std::uint64_t l3 = add_with_carry(a.limb[3], b.limb[3], carry);
    return {l3, l2, l1, l0};
}
[[nodiscard]] inline Uint256 sub(const Uint256& a, const Uint256& b) {
    unsigned char borrow = 0;
    const std::uint64_t l0 = sub_with_borrow(a.limb[0], b.limb[0], borrow);
    const std::uint64_t l1 = sub_with_borrow(a.limb[1], b.limb[1], borrow);
    const std::uint64_t l2 = sub_with_borrow(a.limb[2], b.limb[2], borrow);
    const std::uint64_t l3 = sub_with_borrow(a.limb[3], b.limb[3], borrow);
    return {l3, l2, l1, l0};
}
[[nodiscard]] inline bool less(const Uint256& a, const Uint256& b) {
    unsigned char borrow = 0;
    (void)sub_with_borrow(a.limb[0], b.limb[0], borrow);
    (void)sub_with_borrow(a.limb[1], b.limb[1], borrow);
    (void)sub_with_borrow(a.limb[2], b.limb[2], borrow);
    (void)sub_with_borrow(a.limb[3], b.limb[3], borrow);
    return borrow != 0;
}
[[nodiscard]] inline bool is_negative(const Uint256& a) { return (a.limb[3] >> 63) != 0; }
[[nodiscard]] inline bool signed_less(const Uint256& a, const Uint256& b) {
    return is_negative(a) != is_negative(b) ? is_negative(a) : less(a, b);
}
[[nodiscard]] inline bool same(const Uint256& a, const Uint256& b) {
    return ((a.limb[0] ^ b.limb[0]) | (a.limb[1] ^ b.limb[1]) | (a.limb[2] ^ b.limb[2]) | (a.limb[3] ^ b.limb[3])) == 0;
}

// The low half of the product.
[[nodiscard]] inline Uint256 mul(const Uint256& a, const Uint256& b) {
    using Wide = unsigned __int128;
    const Wide p00 = static_cast<Wide>(a.limb[0]) * b.limb[0];
    const Wide p01 = static_cast<Wide>(a.limb[0]) * b.limb[1];
    const Wide p10 = static_cast<Wide>(a.limb[1]) * b.limb[0];
    const Wide p02 = static_cast<Wide>(a.limb[0]) * b.limb[2];
    const Wide p11 = static_cast<Wide>(a.limb[1]) * b.limb[1];
    const Wide p20 = static_cast<Wide>(a.limb[2]) * b.limb[0];
    const std::uint64_t top =
        a.limb[0] * b.limb[3] + a.limb[1] * b.limb[2] + a.limb[2] * b.limb[1] + a.limb[3] * b.limb[0];
    const Wide c1 = (p00 >> 64) + static_cast<std::uint64_t>(p01) + static_cast<std::uint64_t>(p10);
    const Wide c2 = (c1 >> 64) + (p01 >> 64) + (p10 >> 64) + static_cast<std::uint64_t>(p02) +
                    static_cast<std::uint64_t>(p11) + static_cast<std::uint64_t>(p20);
    const std::uint64_t l3 = top + static_cast<std::uint64_t>(c2 >> 64) + static_cast<std::uint64_t>(p02 >> 64) +
                             static_cast<std::uint64_t>(p11 >> 64) + static_cast<std::uint64_t>(p20 >> 64);
    return {l3, static_cast<std::uint64_t>(c2), static_cast<std::uint64_t>(c1), static_cast<std::uint64_t>(p00)};
}

[[nodiscard]] inline Uint256 negate(const Uint256& a) { return sub({}, a); }

// By n below 256.
[[nodiscard]] inline Uint256 shift_left(const Uint256& a, unsigned n) {
    const unsigned bits = n % 64;
    Uint256 r = a;
    if (bits != 0) {
        r.limb[3] = a.limb[3] << bits | a.limb[2] >> (64 - bits);
        r.limb[2] = a.limb[2] << bits | a.limb[1] >> (64 - bits);
        r.limb[1] = a.limb[1] << bits | a.limb[0] >> (64 - bits);
        r.limb[0] = a.limb[0] << bits;
    }
    switch (n / 64) {
        case 0:
            return r;
        case 1:
            return {r.limb[2], r.limb[1], r.limb[0], 0};
        case 2:
            return {r.limb[1], r.limb[0], 0, 0};
        default:
            return {r.limb[0], 0, 0, 0};
    }
}
// By n below 256; `fill` (0 or all ones) comes in from above.
[[nodiscard]] inline Uint256 shift_right(const Uint256& a, unsigned n, std::uint64_t fill = 0) {
    const unsigned bits = n % 64;
    Uint256 r = a;
    if (bits != 0) {
        r.limb[0] = a.limb[0] >> bits | a.limb[1] << (64 - bits);
        r.limb[1] = a.limb[1] >> bits | a.limb[2] << (64 - bits);
        r.limb[2] = a.limb[2] >> bits | a.limb[3] << (64 - bits);
        r.limb[3] = a.limb[3] >> bits | fill << (64 - bits);
    }
    switch (n / 64) {
        case 0:
            return r;
        case 1:
            return {fill, r.limb[3], r.limb[2], r.limb[1]};
        case 2:
            return {fill, fill, r.limb[3], r.limb[2]};
        default:
            return {fill, fill, fill, r.limb[3]};
    }
}

// The EVM's rules: a division by zero gives 0; -2^255 / -1 is -2^255; the remainder has the dividend's sign.
[[nodiscard]] Uint256 div(const Uint256& a, const Uint256& b);
[[nodiscard]] Uint256 mod(const Uint256& a, const Uint256& b);
[[nodiscard]] Uint256 signed_div(const Uint256& a, const Uint256& b);
[[nodiscard]] Uint256 signed_mod(const Uint256& a, const Uint256& b);
// Of the whole sum or product; 0 modulo 0.
[[nodiscard]] Uint256 add_mod(const Uint256& a, const Uint256& b, const Uint256& modulus);
[[nodiscard]] Uint256 mul_mod(const Uint256& a, const Uint256& b, const Uint256& modulus);
[[nodiscard]] Uint256 power(Uint256 base, const Uint256& exponent);
// Extends the sign of the byte with this number (0 is the lowest); unchanged from 31 on.
[[nodiscard]] inline Uint256 sign_extend(const Uint256& byte, const Uint256& a) {
    if (!byte.fits_u64() || byte.limb[0] >= 31) return a;
    const unsigned above = 256 - 8 * (static_cast<unsigned>(byte.limb[0]) + 1);
    const Uint256 high = shift_left(a, above);
    return shift_right(high, above, is_negative(high) ? ~std::uint64_t{0} : 0);
}

[[nodiscard]] inline std::uint64_t swap_bytes(std::uint64_t value) { return __builtin_bswap64(value); }
// 32 big-endian bytes.
[[nodiscard]] inline Uint256 load(const std::uint8_t* bytes) {
    std::uint64_t limbs[4];
    std::memcpy(limbs, bytes, 32);
    return {swap_bytes(limbs[0]), swap_bytes(limbs[1]), swap_bytes(limbs[2]), swap_bytes(limbs[3])};
}
inline void store(std::uint8_t* bytes, const Uint256& a) {
    const std::uint64_t limbs[4] = {swap_bytes(a.limb[3]), swap_bytes(a.limb[2]), swap_bytes(a.limb[1]),
                                    swap_bytes(a.limb[0])};
    std::memcpy(bytes, limbs, 32);
}
[[nodiscard]] inline Hash32 to_hash(const Uint256& a) {
    Hash32 hash;
    store(hash.data.data(), a);
    return hash;
}
[[nodiscard]] inline Uint256 from_hash(const Hash32& hash) { return load(hash.data.data()); }
// The low 20 bytes.
[[nodiscard]] inline Bytes20 to_address(const Uint256& a) {
    Bytes20 address;
    std::uint8_t bytes[32];
    store(bytes, a);
    std::memcpy(address.data.data(), bytes + 12, 20);
    return address;
}
[[nodiscard]] inline Uint256 from_address(const Bytes20& address) {
    std::uint8_t bytes[32] = {};
    std::memcpy(bytes + 12, address.data.data(), 20);
    return load(bytes);
}

}  // namespace quern::vm::evm::word
