#include "chain/consensus/certificate.h"

#include <gtest/gtest.h>

#include "chain/consensus/beacon.h"
#include "crypto/hash.h"

namespace quern::chain::consensus {
namespace {

crypto::PrivateKey key(std::uint8_t seed) {
    Hash32 secret;
    secret.data[31] = seed;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}

Committee committee_of(const std::vector<std::pair<std::uint8_t, std::uint64_t>>& seeds_and_weights) {
    std::vector<CommitteeMember> members;
    for (const auto& [seed, weight] : seeds_and_weights) members.push_back({crypto::derive_public(key(seed)), weight});
    return *Committee::make(members);
}

const ChainIdentity kChain{Hash32{{1, 2, 3}}, 7878};
const Vote kVote{VoteType::finalize, 3, 14, Hash32{{9}}};

Certificate signed_by(const Committee& committee, const std::vector<std::uint8_t>& seeds) {
    std::map<std::size_t, FixedBytes<64>> signatures;
    for (const auto seed : seeds)
        signatures[committee.index_of(crypto::derive_public(key(seed)))] = sign_vote(kChain, kVote, key(seed));
    return make_certificate(kVote, committee, {signatures.begin(), signatures.end()});
}

TEST(Vote, digest_binds_every_field) {
    const Hash32 digest = vote_digest(kChain, kVote);
    for (const Vote& other : {Vote{VoteType::notarize, 3, 14, kVote.hash}, Vote{VoteType::finalize, 4, 14, kVote.hash},
                              Vote{VoteType::finalize, 3, 15, kVote.hash}, Vote{VoteType::finalize, 3, 14, Hash32{}}})
        EXPECT_NE(vote_digest(kChain, other), digest);
    EXPECT_NE(vote_digest({kChain.genesis_hash, 7877}, kVote), digest);
    EXPECT_NE(vote_digest({Hash32{}, 7878}, kVote), digest);
}

TEST(Vote, same_vote_has_the_same_bytes) {
    EXPECT_EQ(sign_vote(kChain, kVote, key(1)), sign_vote(kChain, kVote, key(1)));
}

TEST(Committee, order_and_hash_do_not_depend_on_the_input_order) {
    const auto a = committee_of({{1, 10}, {2, 20}, {3, 30}});
    const auto b = committee_of({{3, 30}, {1, 10}, {2, 20}});
    EXPECT_EQ(a.hash(), b.hash());
    EXPECT_EQ(a.members(), b.members());
    EXPECT_NE(a.hash(), committee_of({{1, 11}, {2, 20}, {3, 30}}).hash());
}

TEST(Committee, refuses_bad_members) {
    const auto public_key = crypto::derive_public(key(1));
    EXPECT_EQ(Committee::make({}).error().name, "committee.empty");
    EXPECT_EQ(Committee::make({{public_key, 0}}).error().name, "committee.zero_weight");
    EXPECT_EQ(Committee::make({{public_key, 1}, {public_key, 1}}).error().name, "committee.duplicate_key");
    EXPECT_EQ(Committee::make({{public_key, ~Uint256(0)}}).error().name, "committee.weight_overflow");
    types::ValidatorObject bad;
    bad.stake = 1;
    bad.public_key = Bytes(63);
    EXPECT_EQ(Committee::from_validators({bad}).error().name, "committee.bad_key");
}

TEST(Committee, quorum_is_more_than_two_thirds) {
    const auto committee = committee_of({{1, 1}, {2, 1}, {3, 1}});
    EXPECT_FALSE(committee.is_quorum(2));
    EXPECT_TRUE(committee.is_quorum(3));
    EXPECT_FALSE(committee.is_quorum(~Uint256(0)));
}

TEST(Certificate, round_trips_and_verifies) {
    const auto committee = committee_of({{1, 1}, {2, 1}, {3, 1}, {4, 1}});
    const auto certificate = signed_by(committee, {4, 1, 2});
    EXPECT_TRUE(verify_certificate(certificate, committee, kChain));
    const auto decoded = decode_certificate(encode(certificate));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, certificate);
    EXPECT_TRUE(verify_certificate(*decoded, committee, kChain));
}

TEST(Certificate, refuses_too_little_weight) {
    const auto committee = committee_of({{1, 2}, {2, 2}, {3, 5}});
    EXPECT_EQ(verify_certificate(signed_by(committee, {1, 2}), committee, kChain).error().name,
              "certificate.no_quorum");
    EXPECT_EQ(verify_certificate(signed_by(committee, {3}), committee, kChain).error().name, "certificate.no_quorum");
    EXPECT_TRUE(verify_certificate(signed_by(committee, {3, 1}), committee, kChain));
}

TEST(Certificate, refuses_forged_signatures_and_bitmaps) {
    const auto committee = committee_of({{1, 1}, {2, 1}, {3, 1}});
    const auto good = signed_by(committee, {1, 2, 3});
    auto swapped = good;
    std::swap(swapped.signatures[0], swapped.signatures[1]);
    EXPECT_EQ(verify_certificate(swapped, committee, kChain).error().name, "certificate.bad_signature");
    auto other_view = good;
    ++other_view.view;
    EXPECT_EQ(verify_certificate(other_view, committee, kChain).error().name, "certificate.bad_signature");
    auto past_end = good;
    past_end.bitmap[0] |= 8;
    EXPECT_EQ(verify_certificate(past_end, committee, kChain).error().name, "certificate.bad_bitmap");
    auto longer = good;
    longer.bitmap.push_back(0);
    EXPECT_EQ(verify_certificate(longer, committee, kChain).error().name, "certificate.bad_bitmap");
    auto fewer = good;
    fewer.signatures.pop_back();
    EXPECT_EQ(verify_certificate(fewer, committee, kChain).error().name, "certificate.bad_bitmap");
    EXPECT_EQ(verify_certificate(good, committee, {Hash32{}, 7878}).error().name, "certificate.bad_signature");
}

TEST(Certificate, decoding_is_strict) {
    const auto committee = committee_of({{1, 1}});
    Bytes bytes = encode(signed_by(committee, {1}));
    EXPECT_FALSE(decode_certificate(BytesView(bytes).first(bytes.size() - 1)));
    Bytes longer = bytes;
    longer.push_back(0);
    EXPECT_FALSE(decode_certificate(longer));
    EXPECT_FALSE(decode_certificate({}));
    Certificate wrong = signed_by(committee, {1});
    wrong.type = static_cast<VoteType>(9);
    EXPECT_EQ(decode_certificate(encode(wrong)).error().name, "certificate.unknown_type");
    Certificate many = signed_by(committee, {1});
    many.signatures.assign(kMaxCommittee + 1, many.signatures[0]);
    EXPECT_EQ(decode_certificate(encode(many)).error().name, "certificate.too_large");
}

TEST(Beacon, depends_on_the_output_and_the_previous_beacon) {
    const Hash32 previous{{5}};
    const Hash32 output{{6}};
    EXPECT_EQ(next_beacon(previous, output), crypto::sha256({previous.view(), output.view()}));
    EXPECT_NE(next_beacon(previous, output), next_beacon(Hash32{}, output));
    EXPECT_NE(next_beacon(previous, output), next_beacon(previous, previous));
}

}  // namespace
}  // namespace quern::chain::consensus
