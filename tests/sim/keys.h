// Keys of a simulation: keyed hashes for speed, or the real ECDSA and ECVRF. Deterministic in the seed.
#pragma once

#include <memory>
#include <vector>

#include "chain/consensus/sdbft/keys.h"

namespace quern::sim {

namespace sdbft = chain::consensus::sdbft;

// SHA-256(tag, public key, message): anybody could forge it, but only Byzantine code of this simulator would.
class HashScheme final : public sdbft::Scheme {
public:
    [[nodiscard]] bool verify(const Hash32& digest, const sdbft::Signature& signature,
                              const crypto::PublicKey& key) const override;
    [[nodiscard]] Expected<Hash32> vrf_verify(const crypto::PublicKey& key, const Hash32& message,
                                              BytesView proof) const override;
};

class HashSigner final : public sdbft::Signer {
public:
    explicit HashSigner(const crypto::PublicKey& key) : key_(key) {}
    [[nodiscard]] crypto::PublicKey public_key() const override { return key_; }
    [[nodiscard]] sdbft::Signature sign(const Hash32& digest) const override;
    [[nodiscard]] Vrf vrf_prove(const Hash32& message) const override;

private:
    crypto::PublicKey key_;
};

struct KeyRing {
    std::unique_ptr<sdbft::Scheme> scheme;
    std::vector<std::unique_ptr<sdbft::Signer>> signers;
    std::vector<crypto::PrivateKey> private_keys;  // of the signers, where they have some
};
// `on_curve`: public keys that somebody could have, under either scheme.
[[nodiscard]] KeyRing make_keys(std::size_t count, bool real, bool on_curve, std::uint64_t seed);

}  // namespace quern::sim
