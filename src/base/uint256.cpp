#include "base/uint256.h"

#include <algorithm>

namespace quern {
inline namespace base {
namespace {

using Limbs = std::array<std::uint64_t, 8>;

Limbs wide_product(const Uint256& a, const Uint256& b) {
    Limbs r{};
    for (std::size_t i = 0; i < 4; ++i) {
        unsigned __int128 carry = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            carry += static_cast<unsigned __int128>(a.limb[i]) * b.limb[j] + r[i + j];
            r[i + j] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
        r[i + 4] = static_cast<std::uint64_t>(carry);
    }
    return r;
}

// Division by a single limb: u / v, quotient in q, returns the remainder.
std::uint64_t divide_short(const Limbs& u, std::size_t n, std::uint64_t v, Limbs& q) {
    unsigned __int128 rem = 0;
    for (std::size_t i = n; i-- > 0;) {
        rem = rem << 64 | u[i];
        q[i] = static_cast<std::uint64_t>(rem / v);
        rem %= v;
    }
    return static_cast<std::uint64_t>(rem);
}

std::size_t significant(const std::uint64_t* limbs, std::size_t n) {
    while (n > 0 && limbs[n - 1] == 0) --n;
    return n;
}

// Knuth, The Art of Computer Programming 2, algorithm D, base 2^64. `divisor` is not zero.
void divide_long(const Limbs& dividend, const Uint256& divisor, Limbs& quotient, Uint256& remainder) {
    quotient = {};
    remainder = {};
    const std::size_t n = significant(divisor.limb.data(), 4);
    const std::size_t m = significant(dividend.data(), 8);
    if (m < n) {
        for (std::size_t i = 0; i < 4; ++i) remainder.limb[i] = dividend[i];
        return;
    }
    if (n == 1) {
        remainder.limb[0] = divide_short(dividend, m, divisor.limb[0], quotient);
        return;
    }
    const unsigned shift = static_cast<unsigned>(__builtin_clzll(divisor.limb[n - 1]));
    std::array<std::uint64_t, 4> v{};
    std::array<std::uint64_t, 9> u{};
    for (std::size_t i = n; i-- > 0;)
        v[i] = divisor.limb[i] << shift | (shift != 0 && i > 0 ? divisor.limb[i - 1] >> (64 - shift) : 0);
    u[m] = shift != 0 ? dividend[m - 1] >> (64 - shift) : 0;
    for (std::size_t i = m; i-- > 0;)
        u[i] = dividend[i] << shift | (shift != 0 && i > 0 ? dividend[i - 1] >> (64 - shift) : 0);

    for (std::size_t j = m - n + 1; j-- > 0;) {
        const unsigned __int128 top = static_cast<unsigned __int128>(u[j + n]) << 64 | u[j + n - 1];
        unsigned __int128 guess = top / v[n - 1];
        unsigned __int128 rest = top % v[n - 1];
        while ((guess >> 64) != 0 || guess * v[n - 2] > (rest << 64 | u[j + n - 2])) {
            --guess;
            rest += v[n - 1];
            if ((rest >> 64) != 0) break;
        }
        unsigned __int128 carry = 0;
        std::uint64_t borrow = 0;
        for (std::size_t i = 0; i < n; ++i) {
            carry += guess * v[i];
            const unsigned __int128 d =
                static_cast<unsigned __int128>(u[i + j]) - static_cast<std::uint64_t>(carry) - borrow;
            u[i + j] = static_cast<std::uint64_t>(d);
            borrow = static_cast<std::uint64_t>(d >> 64) & 1;
            carry >>= 64;
        }
        const unsigned __int128 d =
            static_cast<unsigned __int128>(u[j + n]) - static_cast<std::uint64_t>(carry) - borrow;
        u[j + n] = static_cast<std::uint64_t>(d);
        if ((static_cast<std::uint64_t>(d >> 64) & 1) != 0) {
            --guess;
            unsigned __int128 sum = 0;
            for (std::size_t i = 0; i < n; ++i) {
                sum += static_cast<unsigned __int128>(u[i + j]) + v[i];
                u[i + j] = static_cast<std::uint64_t>(sum);
                sum >>= 64;
            }
            u[j + n] += static_cast<std::uint64_t>(sum);
        }
        quotient[j] = static_cast<std::uint64_t>(guess);
    }
    for (std::size_t i = 0; i < n; ++i) remainder.limb[i] = u[i] >> shift | (shift != 0 ? u[i + 1] << (64 - shift) : 0);
}

}  // namespace

Uint256::QuotientRemainder Uint256::divmod(const Uint256& a, const Uint256& b) {
    if (b.is_zero()) return {};
    if (a.fits_u64() && b.fits_u64()) return {a.limb[0] / b.limb[0], a.limb[0] % b.limb[0]};
    Limbs dividend{};
    std::copy(a.limb.begin(), a.limb.end(), dividend.begin());
    Limbs quotient{};
    QuotientRemainder result;
    divide_long(dividend, b, quotient, result.remainder);
    std::copy_n(quotient.begin(), 4, result.quotient.limb.begin());
    return result;
}

Uint256 operator/(const Uint256& a, const Uint256& b) { return Uint256::divmod(a, b).quotient; }
Uint256 operator%(const Uint256& a, const Uint256& b) { return Uint256::divmod(a, b).remainder; }

Hash32 Uint256::to_be32() const {
    Hash32 out;
    for (std::size_t i = 0; i < 32; ++i) out.data[31 - i] = static_cast<std::uint8_t>(limb[i / 8] >> (8 * (i % 8)));
    return out;
}

Bytes Uint256::to_be_minimal() const {
    const Hash32 full = to_be32();
    const std::size_t length = (bit_length() + 7) / 8;
    return {full.data.end() - static_cast<std::ptrdiff_t>(length), full.data.end()};
}

Uint256 Uint256::from_be(BytesView bytes) {
    Uint256 value;
    const std::size_t n = std::min<std::size_t>(bytes.size(), 32);
    for (std::size_t i = 0; i < n; ++i)
        value.limb[i / 8] |= static_cast<std::uint64_t>(bytes[bytes.size() - 1 - i]) << (8 * (i % 8));
    return value;
}

std::string Uint256::to_decimal() const {
    if (is_zero()) return "0";
    constexpr std::uint64_t kChunk = 10'000'000'000'000'000'000ULL;  // 10^19
    std::string text;
    Limbs value{};
    std::copy(limb.begin(), limb.end(), value.begin());
    std::size_t n = significant(value.data(), 4);
    while (n > 0) {
        Limbs quotient{};
        std::uint64_t rest = divide_short(value, n, kChunk, quotient);
        value = quotient;
        n = significant(value.data(), n);
        for (int digit = 0; digit < 19 && (n > 0 || rest != 0); ++digit, rest /= 10)
            text.push_back(static_cast<char>('0' + rest % 10));
    }
    std::reverse(text.begin(), text.end());
    return text;
}

std::string Uint256::to_hex_quantity() const {
    if (is_zero()) return "0x0";
    std::string text = to_hex(to_be_minimal());
    if (text[0] == '0') text.erase(0, 1);
    return "0x" + text;
}

Expected<Uint256> Uint256::from_decimal(std::string_view text) {
    if (text.empty()) return fail("uint256.empty");
    if (text.size() > 78) return fail("uint256.overflow");
    Uint256 value;
    for (const char c : text) {
        if (c < '0' || c > '9') return fail("uint256.bad_digit");
        const auto scaled = checked_mul(value, 10);
        const auto next = scaled ? checked_add(*scaled, static_cast<std::uint64_t>(c - '0')) : std::nullopt;
        if (!next) return fail("uint256.overflow");
        value = *next;
    }
    return value;
}

Expected<Uint256> Uint256::from_hex_quantity(std::string_view text) {
    if (!text.starts_with("0x") && !text.starts_with("0X")) return fail("uint256.bad_digit", "missing 0x prefix");
    text.remove_prefix(2);
    if (text.empty()) return fail("uint256.empty");
    if (text.size() > 64) return fail("uint256.overflow");
    std::string padded(text.size() % 2, '0');
    padded += text;
    auto bytes = from_hex(padded);
    if (!bytes) return fail("uint256.bad_digit");
    return from_be(*bytes);
}

std::optional<Uint256> checked_add(const Uint256& a, const Uint256& b) {
    const Uint256 r = a + b;
    if (r < a) return std::nullopt;
    return r;
}

std::optional<Uint256> checked_sub(const Uint256& a, const Uint256& b) {
    if (a < b) return std::nullopt;
    return a - b;
}

std::optional<Uint256> checked_mul(const Uint256& a, const Uint256& b) {
    const Limbs wide = wide_product(a, b);
    if ((wide[4] | wide[5] | wide[6] | wide[7]) != 0) return std::nullopt;
    return Uint256{wide[3], wide[2], wide[1], wide[0]};
}

std::optional<Uint256> mul_div(const Uint256& a, const Uint256& b, const Uint256& c) {
    if (c.is_zero()) return std::nullopt;
    Limbs quotient{};
    Uint256 remainder;
    divide_long(wide_product(a, b), c, quotient, remainder);
    if ((quotient[4] | quotient[5] | quotient[6] | quotient[7]) != 0) return std::nullopt;
    return Uint256{quotient[3], quotient[2], quotient[1], quotient[0]};
}

}  // namespace base
}  // namespace quern
