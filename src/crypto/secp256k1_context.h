// The one context of libsecp256k1, blinded with random bytes at first use. Used by signature.cpp and vrf.cpp.
// Thread-safe.
#pragma once

#include <secp256k1.h>

namespace quern::crypto {

// Aborts when the library refuses the random bytes, which it does not.
[[nodiscard]] const secp256k1_context* secp256k1_shared_context();

}  // namespace quern::crypto
