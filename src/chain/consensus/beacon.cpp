#include "chain/consensus/beacon.h"

#include "crypto/hash.h"

namespace quern::chain::consensus {

Hash32 next_beacon(const Hash32& previous_beacon, const Hash32& vrf_output) {
    return crypto::sha256({previous_beacon.view(), vrf_output.view()});
}

}  // namespace quern::chain::consensus
