#include "vm/evm/word.h"

namespace quern::vm::evm::word {
namespace {

// Two limbs by one: the quotient; `high` < `divisor`.
inline std::uint64_t divide_two(std::uint64_t high, std::uint64_t low, std::uint64_t divisor, std::uint64_t& rest) {
#if defined(__x86_64__)
    std::uint64_t quotient;
    __asm__("divq %4" : "=a"(quotient), "=d"(rest) : "0"(low), "1"(high), "rm"(divisor) : "cc");
    return quotient;
#else
    const unsigned __int128 all = static_cast<unsigned __int128>(high) << 64 | low;
    rest = static_cast<std::uint64_t>(all % divisor);
    return static_cast<std::uint64_t>(all / divisor);
#endif
}

inline unsigned significant(const std::uint64_t* limbs, unsigned count) {
    while (count > 0 && limbs[count - 1] == 0) --count;
    return count;
}

// Subtracts guess * v[0..n) from u[0..n]; true when the guess was one too large and u has wrapped.
inline bool subtract_multiple(std::uint64_t* u, const std::uint64_t* v, unsigned n, std::uint64_t guess) {
    std::uint64_t carry = 0;
    unsigned char borrow = 0;
    for (unsigned i = 0; i < n; ++i) {
        const unsigned __int128 product = static_cast<unsigned __int128>(guess) * v[i] + carry;
        carry = static_cast<std::uint64_t>(product >> 64);
        u[i] = sub_with_borrow(u[i], static_cast<std::uint64_t>(product), borrow);
    }
    u[n] = sub_with_borrow(u[n], carry, borrow);
    return borrow != 0;
}

inline void add_back(std::uint64_t* u, const std::uint64_t* v, unsigned n) {
    unsigned char carry = 0;
    for (unsigned i = 0; i < n; ++i) u[i] = add_with_carry(u[i], v[i], carry);
    u[n] += carry;
}

// Knuth, The Art of Computer Programming 2, algorithm D, base 2^64. Divides `count` limbs by the divisor, which is not
// zero; the quotient's `count` limbs take the dividend's place.
template <unsigned kLimbs>
Uint256 divide(std::uint64_t* dividend, const Uint256& divisor) {
    const unsigned n = significant(divisor.limb.data(), 4);
    const unsigned m = significant(dividend, kLimbs);
    Uint256 rest;
    if (m < n) {
        for (unsigned i = 0; i < m; ++i) rest.limb[i] = dividend[i], dividend[i] = 0;
        return rest;
    }
    if (n == 1) {
        std::uint64_t carried = 0;
        for (unsigned i = m; i-- > 0;) dividend[i] = divide_two(carried, dividend[i], divisor.limb[0], carried);
        return carried;
    }
    const auto shift = static_cast<unsigned>(__builtin_clzll(divisor.limb[n - 1]));
    const auto shifted_in = [shift](std::uint64_t below) { return shift == 0 ? 0 : below >> (64 - shift); };
    std::uint64_t v[4];
    std::uint64_t u[kLimbs + 1];
    for (unsigned i = n; i-- > 0;) v[i] = divisor.limb[i] << shift | (i > 0 ? shifted_in(divisor.limb[i - 1]) : 0);
    u[m] = shifted_in(dividend[m - 1]);
    for (unsigned i = m; i-- > 0;) u[i] = dividend[i] << shift | (i > 0 ? shifted_in(dividend[i - 1]) : 0);
    for (unsigned i = m - n + 1; i < m; ++i) dividend[i] = 0;

    for (unsigned j = m - n + 1; j-- > 0;) {
        std::uint64_t guess = ~std::uint64_t{0};
        if (u[j + n] < v[n - 1]) {
            std::uint64_t left = 0;
            guess = divide_two(u[j + n], u[j + n - 1], v[n - 1], left);
            unsigned __int128 low = static_cast<unsigned __int128>(guess) * v[n - 2];
            while (low > (static_cast<unsigned __int128>(left) << 64 | u[j + n - 2])) {
                --guess;
                low -= v[n - 2];
                left += v[n - 1];
                if (left < v[n - 1]) break;
            }
        }
        if (subtract_multiple(u + j, v, n, guess)) {
            // Of the guess of all ones, which nothing corrected, once or twice; else at most once.
            do {
                --guess;
                add_back(u + j, v, n);
            } while (u[j + n] != 0);
        }
        dividend[j] = guess;
    }
    for (unsigned i = 0; i < n; ++i) rest.limb[i] = u[i] >> shift | (shift == 0 ? 0 : u[i + 1] << (64 - shift));
    return rest;
}

Uint256 absolute(const Uint256& a) { return is_negative(a) ? negate(a) : a; }

}  // namespace

Uint256 div(const Uint256& a, const Uint256& b) {
    if (b.is_zero()) return {};
    if (a.fits_u64() && b.fits_u64()) return a.limb[0] / b.limb[0];
    Uint256 quotient = a;
    (void)divide<4>(quotient.limb.data(), b);
    return quotient;
}

Uint256 mod(const Uint256& a, const Uint256& b) {
    if (b.is_zero()) return {};
    if (a.fits_u64() && b.fits_u64()) return a.limb[0] % b.limb[0];
    Uint256 quotient = a;
    return divide<4>(quotient.limb.data(), b);
}

Uint256 signed_div(const Uint256& a, const Uint256& b) {
    const Uint256 quotient = div(absolute(a), absolute(b));
    return is_negative(a) != is_negative(b) ? negate(quotient) : quotient;
}

Uint256 signed_mod(const Uint256& a, const Uint256& b) {
    const Uint256 rest = mod(absolute(a), absolute(b));
    return is_negative(a) ? negate(rest) : rest;
}

Uint256 add_mod(const Uint256& a, const Uint256& b, const Uint256& modulus) {
    if (modulus.is_zero()) return {};
    std::uint64_t sum[5];
    unsigned char carry = 0;
    for (std::size_t i = 0; i < 4; ++i) sum[i] = add_with_carry(a.limb[i], b.limb[i], carry);
    sum[4] = carry;
    return divide<5>(sum, modulus);
}

Uint256 mul_mod(const Uint256& a, const Uint256& b, const Uint256& modulus) {
    if (modulus.is_zero()) return {};
    std::uint64_t product[8] = {};
    for (std::size_t i = 0; i < 4; ++i) {
        std::uint64_t carry = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const unsigned __int128 term =
                static_cast<unsigned __int128>(a.limb[i]) * b.limb[j] + product[i + j] + carry;
            product[i + j] = static_cast<std::uint64_t>(term);
            carry = static_cast<std::uint64_t>(term >> 64);
        }
        product[i + 4] = carry;
    }
    return divide<8>(product, modulus);
}

Uint256 power(Uint256 base, const Uint256& exponent) {
    const unsigned bits = exponent.bit_length();
    if (base == Uint256(2))
        return exponent.fits_u64() && exponent.limb[0] < 256 ? shift_left(1, static_cast<unsigned>(exponent.limb[0]))
                                                             : Uint256();
    Uint256 result(1);
    for (unsigned i = 0; i < bits; ++i) {
        if (exponent.bit(i)) result = mul(result, base);
        base = mul(base, base);
    }
    return result;
}

}  // namespace quern::vm::evm::word
