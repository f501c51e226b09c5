#include "base/hash_seed.h"

#include "base/rng.h"

namespace quern {
inline namespace base {

std::uint64_t hash_seed() {
    static const std::uint64_t seed = OsRng().u64();
    return seed;
}

}  // namespace base
}  // namespace quern
