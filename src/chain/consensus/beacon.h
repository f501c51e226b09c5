// The randomness chain: beacon(h) = SHA-256(beacon(h-1) || VRF output). With one validator the output is an HMAC under
// a secret derived from the validator's key, and the proof in the header is empty: nobody else can predict the output,
// but nobody can check it either. The ECVRF proof that makes it checkable comes together with several validators. Pure;
// a BeaconSecret is as secret as the key.
#pragma once

#include "crypto/signature.h"

namespace quern::chain::consensus {

class BeaconSecret {
public:
    explicit BeaconSecret(const crypto::PrivateKey& key);
    // HMAC-SHA256(secret, previous beacon).
    [[nodiscard]] Hash32 output(const Hash32& previous_beacon) const;

private:
    Hash32 secret_;  // HMAC-SHA256(private key, "quern beacon secret")
};

[[nodiscard]] Hash32 next_beacon(const Hash32& previous_beacon, const Hash32& vrf_output);

}  // namespace quern::chain::consensus
