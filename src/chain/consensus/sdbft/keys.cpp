#include "chain/consensus/sdbft/keys.h"

#include "crypto/vrf.h"

namespace quern::chain::consensus::sdbft {

bool EcdsaScheme::verify(const Hash32& digest, const Signature& signature, const crypto::PublicKey& key) const {
    return crypto::verify(digest, signature, key);
}

Expected<Hash32> EcdsaScheme::vrf_verify(const crypto::PublicKey& key, const Hash32& message, BytesView proof) const {
    return crypto::vrf_verify(key, message, proof);
}

KeySigner::KeySigner(crypto::PrivateKey key) : key_(std::move(key)), public_key_(crypto::derive_public(key_)) {}

Signature KeySigner::sign(const Hash32& digest) const { return crypto::sign(digest, key_).compact(); }

Signer::Vrf KeySigner::vrf_prove(const Hash32& message) const {
    const auto result = crypto::vrf_prove(key_, message);
    return {to_bytes(result.proof), result.output};
}

Expected<std::vector<std::pair<std::size_t, Signature>>> signers_of(const Certificate& certificate,
                                                                    const Committee& committee) {
    const std::size_t members = committee.members().size();
    if (certificate.bitmap.size() != (members + 7) / 8) return fail("certificate.bad_bitmap", "length");
    std::vector<std::pair<std::size_t, Signature>> signers;
    for (std::size_t i = 0; i < 8 * certificate.bitmap.size(); ++i) {
        if ((certificate.bitmap[i / 8] >> (i % 8) & 1) == 0) continue;
        if (i >= members) return fail("certificate.bad_bitmap", "bit past the last member");
        if (signers.size() == certificate.signatures.size()) return fail("certificate.bad_bitmap", "signature count");
        signers.emplace_back(i, certificate.signatures[signers.size()]);
    }
    if (signers.size() != certificate.signatures.size()) return fail("certificate.bad_bitmap", "signature count");
    return signers;
}

Status check_certificate(const Certificate& certificate, const Committee& committee, const ChainIdentity& chain,
                         const Scheme& scheme) {
    if (certificate.type == VoteType::propose) return fail("certificate.bad_type", "propose");
    if (certificate.type == VoteType::nullify && !certificate.hash.is_zero())
        return fail("certificate.bad_type", "nullification of a block");
    QUERN_TRY(const auto signers, signers_of(certificate, committee));
    Uint256 weight;
    for (const auto& signer : signers) weight += committee.members()[signer.first].weight;
    if (!committee.is_quorum(weight)) return fail("certificate.no_quorum");
    const Hash32 digest = vote_digest(chain, certificate.vote());
    for (const auto& [member, signature] : signers)
        if (!scheme.verify(digest, signature, committee.members()[member].key))
            return fail("certificate.bad_signature", "member " + std::to_string(member));
    return {};
}

}  // namespace quern::chain::consensus::sdbft
