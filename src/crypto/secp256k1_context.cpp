#include "crypto/secp256k1_context.h"

#include <openssl/crypto.h>

#include <cstdlib>

#include "base/bytes.h"
#include "base/rng.h"

namespace quern::crypto {

const secp256k1_context* secp256k1_shared_context() {
    static const secp256k1_context* const shared = [] {
        secp256k1_context* made = secp256k1_context_create(SECP256K1_CONTEXT_NONE);
        Hash32 seed;
        OsRng().fill(seed.data);
        if (secp256k1_context_randomize(made, seed.data.data()) != 1) std::abort();
        OPENSSL_cleanse(seed.data.data(), Hash32::kSize);
        return made;
    }();
    return shared;
}

}  // namespace quern::crypto
