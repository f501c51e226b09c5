#include "chain/consensus/sdbft/evidence.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::consensus::sdbft {
namespace {

void write_vote(rlp::Writer& writer, const Vote& vote, const Signature& signature) {
    writer.begin_list().integer(static_cast<std::uint64_t>(vote.type)).fixed(vote.hash).fixed(signature).end_list();
}

Expected<std::pair<Vote, Signature>> read_vote(rlp::Reader& reader, std::uint64_t epoch, std::uint64_t view) {
    QUERN_TRY(auto fields, reader.list());
    QUERN_TRY(const auto type, fields.u64());
    if (type < static_cast<std::uint64_t>(VoteType::propose) || type > static_cast<std::uint64_t>(VoteType::finalize))
        return fail("evidence.unknown_type", std::to_string(type));
    QUERN_TRY(const auto hash, fields.fixed<32>());
    QUERN_TRY(const auto signature, fields.fixed<64>());
    QUERN_CHECK(fields.expect_end());
    return std::pair(Vote{static_cast<VoteType>(type), epoch, view, hash}, signature);
}

}  // namespace

bool is_slashable_pair(const Vote& a, const Vote& b) {
    if (a.epoch != b.epoch || a.view != b.view) return false;
    if (a.type == b.type) return a.type != VoteType::nullify && a.hash != b.hash;
    if (a.type != VoteType::finalize && b.type != VoteType::finalize) return false;
    const Vote& other = a.type == VoteType::finalize ? b : a;
    if (other.type == VoteType::nullify) return true;
    return other.type == VoteType::notarize && a.hash != b.hash;
}

Bytes encode(const Evidence& evidence) {
    rlp::Writer writer;
    writer.begin_list().integer(evidence.first.epoch).integer(evidence.first.view).fixed(evidence.signer.bytes);
    write_vote(writer, evidence.first, evidence.first_signature);
    write_vote(writer, evidence.second, evidence.second_signature);
    writer.end_list();
    return std::move(writer).finish();
}

Expected<Evidence> decode_evidence(BytesView bytes) {
    QUERN_TRY(auto reader, rlp::decode_list(bytes));
    QUERN_TRY(const auto epoch, reader.u64());
    QUERN_TRY(const auto view, reader.u64());
    Evidence evidence;
    QUERN_TRY(evidence.signer.bytes, reader.fixed<64>());
    QUERN_TRY(const auto first, read_vote(reader, epoch, view));
    QUERN_TRY(const auto second, read_vote(reader, epoch, view));
    QUERN_CHECK(reader.expect_end());
    std::tie(evidence.first, evidence.first_signature) = first;
    std::tie(evidence.second, evidence.second_signature) = second;
    return evidence;
}

Status check_evidence(const Evidence& evidence, const ChainIdentity& chain, const Scheme& scheme) {
    if (!is_slashable_pair(evidence.first, evidence.second)) return fail("evidence.not_slashable");
    if (!scheme.verify(vote_digest(chain, evidence.first), evidence.first_signature, evidence.signer) ||
        !scheme.verify(vote_digest(chain, evidence.second), evidence.second_signature, evidence.signer))
        return fail("evidence.bad_signature");
    return {};
}

Hash32 evidence_commitment(const types::Address& sender, BytesView evidence) {
    return crypto::Sha256().update(as_bytes("evidence")).update(sender).update(evidence).finish();
}

std::vector<Evidence> conflicts_between(const Certificate& a, const Certificate& b, const Committee& committee) {
    std::vector<Evidence> found;
    if (!is_slashable_pair(a.vote(), b.vote())) return found;
    const auto signers_a = signers_of(a, committee);
    const auto signers_b = signers_of(b, committee);
    if (!signers_a || !signers_b) return found;
    for (const auto& [member, signature] : *signers_a)
        for (const auto& [other, other_signature] : *signers_b)
            if (member == other)
                found.push_back({committee.members()[member].key, a.vote(), signature, b.vote(), other_signature});
    return found;
}

}  // namespace quern::chain::consensus::sdbft
