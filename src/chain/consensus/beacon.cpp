#include "chain/consensus/beacon.h"

#include "crypto/hash.h"

namespace quern::chain::consensus {

BeaconSecret::BeaconSecret(const crypto::PrivateKey& key)
    : secret_(crypto::hmac_sha256(key.secret_bytes(), as_bytes("quern beacon secret"))) {}

Hash32 BeaconSecret::output(const Hash32& previous_beacon) const {
    return crypto::hmac_sha256(secret_, previous_beacon);
}

Hash32 next_beacon(const Hash32& previous_beacon, const Hash32& vrf_output) {
    return crypto::sha256({previous_beacon.view(), vrf_output.view()});
}

}  // namespace quern::chain::consensus
