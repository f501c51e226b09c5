// What consensus and the content store keep and exchange.
#include "chain/consensus/certificate.h"
#include "content/manifest.h"
#include "fuzz/core_target.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"

namespace quern::fuzz {
namespace {

using namespace chain::consensus;

constexpr std::uint8_t kMembers = 4;

const Committee& sample_committee() {
    static const Committee committee = [] {
        std::vector<CommitteeMember> members;
        for (std::uint8_t i = 1; i <= kMembers; ++i)
            members.push_back({crypto::derive_public(sample_key(i)), Uint256(1)});
        auto made = Committee::make(std::move(members));
        QUERN_ACCEPTED(made);
        return std::move(*made);
    }();
    return committee;
}

const ChainIdentity kChain{Hash32{{1, 2, 3}}, 7878};

Certificate signed_by(VoteType type, std::uint8_t count) {
    const Vote vote{type, 2, 9, type == VoteType::nullify ? Hash32{} : Hash32{{8}}};
    std::vector<std::pair<std::size_t, FixedBytes<64>>> signatures;
    for (std::size_t index = 0; index < count; ++index)
        for (std::uint8_t i = 1; i <= kMembers; ++i)
            if (sample_committee().index_of(crypto::derive_public(sample_key(i))) == index)
                signatures.emplace_back(index, sign_vote(kChain, vote, sample_key(i)));
    return make_certificate(vote, sample_committee(), signatures);
}

bool run_certificate(BytesView input) {
    const auto certificate = decode_certificate(input);
    if (!certificate) return false;
    QUERN_PROPERTY(equal(encode(*certificate), input));
    if (verify_certificate(*certificate, sample_committee(), kChain)) {
        // Nobody can sign for the members here: what is verified speaks of what they signed.
        const Vote vote = certificate->vote();
        const bool known =
            vote == signed_by(VoteType::finalize, 3).vote() || vote == signed_by(VoteType::nullify, 3).vote();
        QUERN_PROPERTY(known && certificate->signatures.size() >= 3);
    }
    return true;
}
std::vector<Seed> seeds_certificate() {
    return {{"finalize", encode(signed_by(VoteType::finalize, 3))},
            {"finalize_all", encode(signed_by(VoteType::finalize, 4))},
            {"nullify", encode(signed_by(VoteType::nullify, 3))},
            {"no_quorum", encode(signed_by(VoteType::finalize, 1))}};
}

// Input: a manifest; its id is what its own leaves and size give, else nothing would ever be taken.
bool run_content_manifest(BytesView input) {
    QUERN_PROPERTY(!content::decode_manifest(input, Hash32{{1}}));
    if (input.size() < 16) return false;
    content::Manifest manifest;
    for (std::size_t i = 8; i < 16; ++i) manifest.size = manifest.size << 8 | input[i];
    for (std::size_t at = 16; at + 32 <= input.size(); at += 32)
        manifest.leaves.push_back(Hash32::copy_of(input.subspan(at, 32)));
    const auto decoded = content::decode_manifest(input, crypto::content_id_of_leaves(manifest.leaves, manifest.size));
    if (!decoded) return false;
    QUERN_PROPERTY(*decoded == manifest && equal(content::encode(*decoded), input));
    QUERN_PROPERTY(content::manifest_bytes(decoded->size) == input.size());
    return true;
}
std::vector<Seed> seeds_content_manifest() {
    return {{"two_leaves", content::encode({crypto::kContentLeafBytes + 1, {Hash32{{1}}, Hash32{{2}}}})},
            {"empty", content::encode({0, {}})}};
}

}  // namespace

std::span<const Target> consensus_targets() {
    static constexpr Target kTargets[] = {
        {"certificate", run_certificate, seeds_certificate, 2'000},
        {"sdbft_core", run_sdbft_core, seeds_sdbft_core, 120, 10},
        {"content_manifest", run_content_manifest, seeds_content_manifest, 2'000},
    };
    return kTargets;
}

}  // namespace quern::fuzz
