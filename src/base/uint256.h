// 256-bit unsigned integer, four 64-bit limbs, little endian. Arithmetic wraps modulo 2^256 as the EVM's does; the
// checked_* forms are for money. Plain value; thread-safe; no allocation.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace quern {
inline namespace base {

struct Uint256 {
    std::array<std::uint64_t, 4> limb{};  // limb[0] is the least significant

    constexpr Uint256() = default;
    constexpr Uint256(std::uint64_t value) : limb{value, 0, 0, 0} {}  // NOLINT: numbers convert
    constexpr Uint256(std::uint64_t l3, std::uint64_t l2, std::uint64_t l1, std::uint64_t l0) : limb{l0, l1, l2, l3} {}

    [[nodiscard]] constexpr bool is_zero() const { return (limb[0] | limb[1] | limb[2] | limb[3]) == 0; }
    [[nodiscard]] constexpr bool fits_u64() const { return (limb[1] | limb[2] | limb[3]) == 0; }
    [[nodiscard]] constexpr std::uint64_t low_u64() const { return limb[0]; }
    [[nodiscard]] constexpr bool bit(unsigned index) const { return (limb[index / 64] >> (index % 64) & 1) != 0; }
    // Number of significant bits; 0 for zero.
    [[nodiscard]] constexpr unsigned bit_length() const {
        for (int i = 3; i >= 0; --i)
            if (limb[static_cast<std::size_t>(i)] != 0)
                return static_cast<unsigned>(64 * i + 64 - __builtin_clzll(limb[static_cast<std::size_t>(i)]));
        return 0;
    }

    constexpr bool operator==(const Uint256&) const = default;
    constexpr std::strong_ordering operator<=>(const Uint256& other) const {
        for (int i = 3; i >= 0; --i) {
            const auto index = static_cast<std::size_t>(i);
            if (limb[index] != other.limb[index]) return limb[index] <=> other.limb[index];
        }
        return std::strong_ordering::equal;
    }

    friend constexpr Uint256 operator+(const Uint256& a, const Uint256& b) {
        Uint256 r;
        unsigned __int128 carry = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            carry += static_cast<unsigned __int128>(a.limb[i]) + b.limb[i];
            r.limb[i] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
        return r;
    }
    friend constexpr Uint256 operator-(const Uint256& a, const Uint256& b) {
        Uint256 r;
        std::uint64_t borrow = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const unsigned __int128 d = static_cast<unsigned __int128>(a.limb[i]) - b.limb[i] - borrow;
            r.limb[i] = static_cast<std::uint64_t>(d);
            borrow = static_cast<std::uint64_t>(d >> 64) & 1;
        }
        return r;
    }
    friend constexpr Uint256 operator*(const Uint256& a, const Uint256& b) {
        Uint256 r;
        for (std::size_t i = 0; i < 4; ++i) {
            unsigned __int128 carry = 0;
            for (std::size_t j = 0; i + j < 4; ++j) {
                carry += static_cast<unsigned __int128>(a.limb[i]) * b.limb[j] + r.limb[i + j];
                r.limb[i + j] = static_cast<std::uint64_t>(carry);
                carry >>= 64;
            }
        }
        return r;
    }
    friend constexpr Uint256 operator<<(const Uint256& a, unsigned n) {
        Uint256 r;
        if (n >= 256) return r;
        const unsigned words = n / 64;
        const unsigned bits = n % 64;
        for (unsigned i = 4; i-- > words;) {
            r.limb[i] = a.limb[i - words] << bits;
            if (bits != 0 && i > words) r.limb[i] |= a.limb[i - words - 1] >> (64 - bits);
        }
        return r;
    }
    friend constexpr Uint256 operator>>(const Uint256& a, unsigned n) {
        Uint256 r;
        if (n >= 256) return r;
        const unsigned words = n / 64;
        const unsigned bits = n % 64;
        for (unsigned i = 0; i + words < 4; ++i) {
            r.limb[i] = a.limb[i + words] >> bits;
            if (bits != 0 && i + words + 1 < 4) r.limb[i] |= a.limb[i + words + 1] << (64 - bits);
        }
        return r;
    }
    friend constexpr Uint256 operator&(const Uint256& a, const Uint256& b) {
        return {a.limb[3] & b.limb[3], a.limb[2] & b.limb[2], a.limb[1] & b.limb[1], a.limb[0] & b.limb[0]};
    }
    friend constexpr Uint256 operator|(const Uint256& a, const Uint256& b) {
        return {a.limb[3] | b.limb[3], a.limb[2] | b.limb[2], a.limb[1] | b.limb[1], a.limb[0] | b.limb[0]};
    }
    friend constexpr Uint256 operator^(const Uint256& a, const Uint256& b) {
        return {a.limb[3] ^ b.limb[3], a.limb[2] ^ b.limb[2], a.limb[1] ^ b.limb[1], a.limb[0] ^ b.limb[0]};
    }
    friend constexpr Uint256 operator~(const Uint256& a) { return {~a.limb[3], ~a.limb[2], ~a.limb[1], ~a.limb[0]}; }
    constexpr Uint256& operator+=(const Uint256& b) { return *this = *this + b; }
    constexpr Uint256& operator-=(const Uint256& b) { return *this = *this - b; }
    constexpr Uint256& operator*=(const Uint256& b) { return *this = *this * b; }

    // Quotient and remainder; division by zero gives zero for both (the EVM's rule).
    struct QuotientRemainder;
    [[nodiscard]] static QuotientRemainder divmod(const Uint256& a, const Uint256& b);
    friend Uint256 operator/(const Uint256& a, const Uint256& b);
    friend Uint256 operator%(const Uint256& a, const Uint256& b);

    // Big-endian bytes.
    [[nodiscard]] Hash32 to_be32() const;
    [[nodiscard]] Bytes to_be_minimal() const;              // no leading zeros; empty for 0 (RLP's integer form)
    [[nodiscard]] static Uint256 from_be(BytesView bytes);  // at most 32 bytes; the caller has checked the length

    [[nodiscard]] std::string to_decimal() const;
    [[nodiscard]] std::string to_hex_quantity() const;  // "0x0", "0x1f": no leading zeros
    // Decimal digits only. Errors: uint256.bad_digit, uint256.overflow, uint256.empty.
    [[nodiscard]] static Expected<Uint256> from_decimal(std::string_view text);
    // "0x" and 1 to 64 digits; leading zeros are accepted. Errors as from_decimal.
    [[nodiscard]] static Expected<Uint256> from_hex_quantity(std::string_view text);
};

struct Uint256::QuotientRemainder {
    Uint256 quotient;
    Uint256 remainder;
};

// nullopt when the true result does not fit.
[[nodiscard]] std::optional<Uint256> checked_add(const Uint256& a, const Uint256& b);
[[nodiscard]] std::optional<Uint256> checked_sub(const Uint256& a, const Uint256& b);
[[nodiscard]] std::optional<Uint256> checked_mul(const Uint256& a, const Uint256& b);
// floor(a * b / c) with a 512-bit product; nullopt when c is zero or the result does not fit.
[[nodiscard]] std::optional<Uint256> mul_div(const Uint256& a, const Uint256& b, const Uint256& c);

}  // namespace base
}  // namespace quern
