#include "crypto/p256.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>

#include <memory>

#include "base/ensure.h"

namespace quern::crypto {
namespace {

struct Freeing {
    void operator()(EC_POINT* point) const { EC_POINT_free(point); }
    void operator()(BN_CTX* context) const {
        BN_CTX_end(context);
        BN_CTX_free(context);
    }
};

const EC_GROUP* group() {
    static const EC_GROUP* const curve = [] {
        const EC_GROUP* made = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
        ensure(made != nullptr, "OpenSSL has P-256");
        return made;
    }();
    return curve;
}

}  // namespace

// By points and not by EVP_PKEY_verify, which makes a key object and reads DER first and takes 1.4 times as long.
bool p256_verify(const Hash32& digest, const P256Signature& signature, const P256Key& key) {
    const EC_GROUP* curve = group();
    const BIGNUM* order = EC_GROUP_get0_order(curve);
    const std::unique_ptr<BN_CTX, Freeing> context(BN_CTX_new());
    const std::unique_ptr<EC_POINT, Freeing> point(EC_POINT_new(curve));
    ensure(context != nullptr && point != nullptr, "memory for a point");
    BN_CTX_start(context.get());
    const auto number = [&](const Hash32& bytes) {
        BIGNUM* made = BN_CTX_get(context.get());
        ensure(made != nullptr && BN_bin2bn(bytes.data.data(), Hash32::kSize, made) != nullptr, "memory for a number");
        return made;
    };
    const BIGNUM* z = number(digest);
    const BIGNUM* r = number(signature.r);
    BIGNUM* s = number(signature.s);
    BIGNUM* x = number(key.x);
    const BIGNUM* y = number(key.y);
    BIGNUM* u1 = number({});
    BIGNUM* u2 = number({});
    if (BN_is_zero(r) || BN_is_zero(s) || BN_cmp(r, order) >= 0 || BN_cmp(s, order) >= 0) return false;
    // Coordinates are taken modulo p, so that their range is for the caller to see to; whether the point lies on the
    // curve OpenSSL does check. (0, 0) does not.
    static const BIGNUM* const prime = [&] {
        BIGNUM* p = BN_new();
        ensure(p != nullptr && EC_GROUP_get_curve(curve, p, nullptr, nullptr, nullptr) == 1, "P-256 has a prime");
        return p;
    }();
    if (BN_cmp(x, prime) >= 0 || BN_cmp(y, prime) >= 0) return false;
    if (EC_POINT_set_affine_coordinates(curve, point.get(), x, y, context.get()) != 1) {
        ERR_clear_error();
        return false;
    }
    // u1 = z / s, u2 = r / s; r must be the x of u1 G + u2 Q, modulo the order.
    const bool computed = BN_mod_inverse(s, s, order, context.get()) != nullptr &&
                          BN_mod_mul(u1, z, s, order, context.get()) == 1 &&
                          BN_mod_mul(u2, r, s, order, context.get()) == 1 &&
                          EC_POINT_mul(curve, point.get(), u1, point.get(), u2, context.get()) == 1;
    ensure(computed, "arithmetic with numbers that were checked");
    if (EC_POINT_is_at_infinity(curve, point.get()) == 1) return false;
    ensure(EC_POINT_get_affine_coordinates(curve, point.get(), x, nullptr, context.get()) == 1 &&
               BN_nnmod(x, x, order, context.get()) == 1,
           "a finite point has coordinates");
    return BN_cmp(x, r) == 0;
}

}  // namespace quern::crypto
