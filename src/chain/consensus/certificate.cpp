#include "chain/consensus/certificate.h"

#include "crypto/hash.h"

namespace quern::chain::consensus {
namespace {
[[nodiscard]] std::size_t bitmap_bytes(std::size_t members) { return (members + 7) / 8; }
[[nodiscard]] bool bit(const Bytes& bitmap, std::size_t index) { return (bitmap[index / 8] >> (index % 8) & 1) != 0; }
}  // namespace

Certificate make_certificate(const Vote& vote, const Committee& committee,
                             const std::vector<std::pair<std::size_t, FixedBytes<64>>>& signatures) {
    Certificate certificate{
        vote.type, vote.epoch, vote.view, vote.hash, Bytes(bitmap_bytes(committee.members().size())), {}};
    for (const auto& [index, signature] : signatures) {
        certificate.bitmap[index / 8] = static_cast<std::uint8_t>(certificate.bitmap[index / 8] | 1U << (index % 8));
        certificate.signatures.push_back(signature);
    }
    return certificate;
}

Bytes encode(const Certificate& certificate) { return record::encode_record(certificate); }

Expected<Certificate> decode_certificate(BytesView bytes) { return record::decode_record<Certificate>(bytes); }

Status Certificate::check() const {
    return is_vote_type(type) ? Status() : fail("certificate.unknown_type", std::to_string(static_cast<int>(type)));
}

Status verify_certificate(const Certificate& certificate, const Committee& committee, const ChainIdentity& chain) {
    const auto& members = committee.members();
    if (certificate.bitmap.size() != bitmap_bytes(members.size())) return fail("certificate.bad_bitmap", "length");
    for (std::size_t i = members.size(); i < 8 * certificate.bitmap.size(); ++i)
        if (bit(certificate.bitmap, i)) return fail("certificate.bad_bitmap", "bit past the last member");
    Uint256 weight;
    std::size_t signers = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (!bit(certificate.bitmap, i)) continue;
        weight += members[i].weight;  // at most the committee's total, which does not overflow
        ++signers;
    }
    if (signers != certificate.signatures.size()) return fail("certificate.bad_bitmap", "signature count");
    if (!committee.is_quorum(weight)) return fail("certificate.no_quorum");
    const Hash32 digest = vote_digest(chain, certificate.vote());
    auto signature = certificate.signatures.begin();
    for (std::size_t i = 0; i < members.size(); ++i)
        if (bit(certificate.bitmap, i) && !crypto::verify(digest, *signature++, members[i].key))
            return fail("certificate.bad_signature", "member " + std::to_string(i));
    return {};
}

Hash32 certificate_hash(BytesView encoded) { return encoded.empty() ? Hash32{} : crypto::sha256(encoded); }

}  // namespace quern::chain::consensus
