#include "sim/keys.h"

#include "crypto/hash.h"

namespace quern::sim {
namespace {
Hash32 keyed(char tag, const crypto::PublicKey& key, const Hash32& message) {
    const std::array<std::uint8_t, 1> front = {static_cast<std::uint8_t>(tag)};
    return crypto::sha256({BytesView(front), key.bytes.view(), message.view()});
}
}  // namespace

sdbft::Signature HashSigner::sign(const Hash32& digest) const {
    const Hash32 hash = keyed('s', key_, digest);
    sdbft::Signature signature;
    std::memcpy(signature.data.data(), hash.data.data(), 32);
    std::memcpy(signature.data.data() + 32, key_.bytes.data.data(), 32);
    return signature;
}

sdbft::Signer::Vrf HashSigner::vrf_prove(const Hash32& message) const {
    const Hash32 output = keyed('v', key_, message);
    return {to_bytes(output), output};
}

bool HashScheme::verify(const Hash32& digest, const sdbft::Signature& signature, const crypto::PublicKey& key) const {
    return HashSigner(key).sign(digest) == signature;
}

Expected<Hash32> HashScheme::vrf_verify(const crypto::PublicKey& key, const Hash32& message, BytesView proof) const {
    const Hash32 output = keyed('v', key, message);
    if (!equal(proof, output)) return fail("vrf.wrong_proof");
    return output;
}

KeyRing make_keys(std::size_t count, bool real, bool on_curve, std::uint64_t seed) {
    KeyRing ring;
    SeededRng rng(seed);
    if (real)
        ring.scheme = std::make_unique<sdbft::EcdsaScheme>();
    else
        ring.scheme = std::make_unique<HashScheme>();
    for (std::size_t i = 0; i < count; ++i) {
        crypto::PublicKey key;
        if (real || on_curve) {
            ring.private_keys.push_back(crypto::PrivateKey::generate(rng));
            key = crypto::derive_public(ring.private_keys.back());
        } else {
            rng.fill(key.bytes.data);
        }
        if (real)
            ring.signers.push_back(std::make_unique<sdbft::KeySigner>(
                *crypto::PrivateKey::from_bytes(ring.private_keys.back().secret_bytes())));
        else
            ring.signers.push_back(std::make_unique<HashSigner>(key));
    }
    return ring;
}

}  // namespace quern::sim
