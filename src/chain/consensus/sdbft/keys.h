// How the core signs and checks: interfaces, so that a node uses ECDSA and ECVRF on secp256k1, a remote signer can hold
// the key, and the simulator can use keyed hashes. Schemes are stateless; implementations here are thread-safe.
#pragma once

#include "chain/consensus/certificate.h"

namespace quern::chain::consensus::sdbft {

using Signature = FixedBytes<64>;

// Checking: what everybody can do.
class Scheme {
public:
    virtual ~Scheme() = default;
    [[nodiscard]] virtual bool verify(const Hash32& digest, const Signature& signature,
                                      const crypto::PublicKey& key) const = 0;
    // The output of the proof over `message`. Errors: vrf.*.
    [[nodiscard]] virtual Expected<Hash32> vrf_verify(const crypto::PublicKey& key, const Hash32& message,
                                                      BytesView proof) const = 0;
};

// Signing: what only the key's owner can do. Deterministic: the same digest gives the same bytes.
class Signer {
public:
    virtual ~Signer() = default;
    [[nodiscard]] virtual crypto::PublicKey public_key() const = 0;
    [[nodiscard]] virtual Signature sign(const Hash32& digest) const = 0;
    struct Vrf {
        Bytes proof;
        Hash32 output;
    };
    [[nodiscard]] virtual Vrf vrf_prove(const Hash32& message) const = 0;
};

class EcdsaScheme final : public Scheme {
public:
    [[nodiscard]] bool verify(const Hash32& digest, const Signature& signature,
                              const crypto::PublicKey& key) const override;
    [[nodiscard]] Expected<Hash32> vrf_verify(const crypto::PublicKey& key, const Hash32& message,
                                              BytesView proof) const override;
};

class KeySigner final : public Signer {
public:
    explicit KeySigner(crypto::PrivateKey key);
    [[nodiscard]] crypto::PublicKey public_key() const override { return public_key_; }
    [[nodiscard]] Signature sign(const Hash32& digest) const override;
    [[nodiscard]] Vrf vrf_prove(const Hash32& message) const override;

private:
    crypto::PrivateKey key_;
    crypto::PublicKey public_key_;
};

// The members that a well-formed certificate's bitmap names, with their signatures. Errors: certificate.bad_bitmap.
[[nodiscard]] Expected<std::vector<std::pair<std::size_t, Signature>>> signers_of(const Certificate& certificate,
                                                                                  const Committee& committee);
// As verify_certificate (chain/consensus/certificate.h) under any scheme; a nullification's hash must be zero.
// Errors: certificate.bad_bitmap, certificate.no_quorum, certificate.bad_signature, certificate.bad_type.
[[nodiscard]] Status check_certificate(const Certificate& certificate, const Committee& committee,
                                       const ChainIdentity& chain, const Scheme& scheme);

}  // namespace quern::chain::consensus::sdbft
