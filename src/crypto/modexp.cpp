#include "crypto/modexp.h"

#include <gmp.h>

#include <algorithm>

#include "base/ensure.h"

namespace quern::crypto {
namespace {

// GMP's integers free themselves through this alone.
class Integer {
public:
    Integer() { mpz_init(value_); }
    explicit Integer(BytesView big_endian) : Integer() {
        mpz_import(value_, big_endian.size(), 1, 1, 1, 0, big_endian.data());
    }
    explicit Integer(const ZeroEnded& number) : Integer(number.given) {
        mpz_mul_2exp(value_, value_, static_cast<mp_bitcnt_t>(number.zeros) * 8);
    }
    ~Integer() { mpz_clear(value_); }
    Integer(const Integer&) = delete;
    Integer& operator=(const Integer&) = delete;
    operator mpz_ptr() { return value_; }  // NOLINT: what GMP's functions take

private:
    mpz_t value_;
};

}  // namespace

void modexp(const ZeroEnded& base, const ZeroEnded& exponent, const ZeroEnded& modulus,
            std::span<std::uint8_t> result) {
    std::fill(result.begin(), result.end(), std::uint8_t{0});
    Integer m(modulus);
    if (mpz_sgn(static_cast<mpz_ptr>(m)) == 0) return;
    Integer power(base);
    Integer given(exponent.given);
    mpz_powm(power, power, given, m);
    // x^(e 2^k) = (x^e)^(2^k). In pieces, so that an exponent of which most is not there takes no memory. An exponent 0
    // has given 1 mod m already, and so it stays.
    constexpr std::uint64_t kZerosAtOnce = 4096;
    for (std::uint64_t left = exponent.zeros; left != 0 && mpz_cmp_ui(static_cast<mpz_ptr>(power), 1) > 0;) {
        const std::uint64_t zeros = std::min(left, kZerosAtOnce);
        Integer shift;
        mpz_setbit(shift, static_cast<mp_bitcnt_t>(zeros) * 8);
        mpz_powm(power, power, shift, m);
        left -= zeros;
    }
    const std::size_t bytes = (mpz_sizeinbase(power, 2) + 7) / 8;
    if (mpz_sgn(static_cast<mpz_ptr>(power)) == 0) return;
    ensure(bytes <= result.size(), "a power is below its modulus, for which there is room");
    mpz_export(result.data() + (result.size() - bytes), nullptr, 1, 1, 1, 0, power);
}

}  // namespace quern::crypto
