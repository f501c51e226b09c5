#include "p2p/messages/messages.h"

#include <gtest/gtest.h>

#include "base/rlp.h"
#include "crypto/hash.h"
#include "p2p/messages/peer_record.h"

namespace quern::p2p::messages {
namespace {

const Hash32 kId{{4, 5, 6}};

crypto::PrivateKey key_of(std::uint64_t seed) {
    SeededRng rng(seed);
    return crypto::PrivateKey::generate(rng);
}

CompactBlock sample_compact() {
    CompactBlock compact;
    compact.header.number = 9;
    compact.salt = 0xfedc;
    compact.ids = {ShortId{{1}}, ShortId{{2}}};
    compact.prefilled = {{0, Bytes{7, 7}}, {3, Bytes{8}}};
    compact.withdrawals = {{1, 2, Bytes20{{3}}, 4}};
    compact.parent_certificate = Bytes(50, 1);
    compact.certificate = Bytes(60, 2);
    return compact;
}

// Round trip; and no shortened form decodes.
template <class T, class Decode>
void check(const T& value, Decode decode) {
    const Bytes encoded = encode(value);
    const auto decoded = decode(encoded);
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, value);
    for (std::size_t size = 0; size < encoded.size(); ++size)
        EXPECT_FALSE(decode(BytesView(encoded).first(size))) << size;
    Bytes longer = encoded;
    longer.push_back(0);
    EXPECT_FALSE(decode(longer));
}

TEST(Messages, refuses_a_prefilled_transaction_that_would_become_several) {
    CompactBlock compact = sample_compact();
    compact.prefilled[0].encoded = Bytes{0xc1, 0x05};
    EXPECT_TRUE(decode_compact_block(encode(compact)));
    for (const Bytes& bad : {Bytes{0xc0, 0xc0}, Bytes{0xc1, 0x05, 0x06}, Bytes{0xc2, 0x05}}) {
        compact.prefilled[0].encoded = bad;
        const auto refused = decode_compact_block(encode(compact));
        ASSERT_FALSE(refused) << to_hex(bad);
        EXPECT_EQ(refused.error().name, "message.bad_envelope");
    }
}

TEST(Messages, round_trips) {
    const Status status{10, kId, 2, 33, 1};
    check(status, decode_status);
    check(Hello{1, "quern/0.2", 7900, status}, decode_hello);
    check(GetPeers{64}, decode_get_peers);
    check(Peers{{Bytes{1}, Bytes{2, 3}}}, decode_peers);
    check(ShortIds{{ShortId{{1}}, ShortId{{2}}}}, decode_short_ids);
    check(Transactions{{Bytes(100, 1), Bytes{}}}, decode_transactions);
    check(sample_compact(), decode_compact_block);
    check(GetBlockTransactions{kId, {0, 5, 9}}, decode_get_block_transactions);
    check(BlockTransactions{kId, {Bytes{1}, Bytes{2}}}, decode_block_transactions);
    check(CompactProposal{kId, Bytes(9, 1), Bytes{}, Bytes(2 * kProposalIdBytes, 3), {{1, Bytes{7, 7}}}},
          decode_compact_proposal);
    check(GetProposalTransactions{kId, {0, 5, 9}}, decode_get_proposal_transactions);
    check(ProposalTransactions{kId, {Bytes{1}, Bytes{2}}}, decode_proposal_transactions);
    check(GetProposal{kId}, decode_get_proposal);
    check(GetBlock{kId}, decode_get_block);
    check(BlockAnswer{Bytes{1, 2}, {}}, decode_block_answer);
    check(GetCertificate{3, 1, 2}, decode_get_certificate);
    check(CertificateAnswer{{Bytes{5}, Bytes{6, 7}}}, decode_certificate_answer);
    EXPECT_EQ(decode_certificate_answer(encode(CertificateAnswer{})).error().name, "message.empty");
    EXPECT_EQ(decode_certificate_answer(encode(CertificateAnswer{{Bytes{}}})).error().name, "message.empty");
    EXPECT_EQ(decode_certificate_answer(encode(CertificateAnswer{std::vector(kMaxCertificatesInAnswer + 1, Bytes{5})}))
                  .error()
                  .name,
              "message.too_many");
    check(GetRange{1, 128, 1'000'000}, decode_get_range);
    check(Range{{{Bytes{1}, Bytes{2}}, {Bytes{3}, {}}}}, decode_range);
    check(FindContent{{kId}}, decode_find_content);
    check(ContentInfo{{{kId, 3 * kChunkBytes, Bytes{0x05}}, {Hash32{}, 0, {}}}}, decode_content_info);
    check(GetLeaves{kId, 64, 64}, [](BytesView body) { return decode_get_leaves(body, kLeavesPerChunk); });
    check(Leaves{kId, 64, Bytes(100, 3)}, decode_leaves);
    check(GetShards{kId}, decode_get_shards);
    check(Shards{Bytes(72, 4)}, decode_shards);
    EXPECT_EQ(decode_shards(encode(Shards{Bytes(crypto::kMaxShardListBytes + 1)})).error().name, "message.too_many");
    EXPECT_LE(encode(Shards{Bytes(crypto::kMaxShardListBytes)}).size(), rule_of(Type::shards).max_bytes);
    check(Refusal{RefusalCode::busy, "later"}, decode_refusal);
}

// What a node of another build must understand: one of each kind, with values that no default hides.
TEST(Messages, the_same_messages_have_the_same_bytes) {
    const Status status{10, kId, 2, 33, 1};
    Bytes all;
    const auto add = [&](const auto&... values) { (append(all, encode(values)), ...); };
    add(status, Hello{300, "quern/0.2", 7900, status}, GetPeers{64}, Peers{{Bytes{1}, Bytes{2, 3}}}, Peers{});
    add(ShortIds{{ShortId{{1}}, ShortId{{2}}}}, Transactions{{Bytes(100, 1), Bytes{}}}, sample_compact());
    add(GetBlockTransactions{kId, {0, 5, 900}}, BlockTransactions{kId, {Bytes{1}, Bytes{2}}}, GetBlock{kId});
    add(BlockAnswer{Bytes{1, 2}, {}}, GetCertificate{3, 1, 2}, CertificateAnswer{{Bytes{5}, Bytes{6, 7}}});
    add(GetRange{1, 128, 1'000'000}, Range{{{Bytes{1}, Bytes{2}}, {Bytes{3}, {}}}}, FindContent{{kId}});
    add(ContentInfo{{{kId, 3 * kChunkBytes, Bytes{0x05}}, {Hash32{}, 0, {}}}}, GetLeaves{kId, 64, 64});
    add(Leaves{kId, 64, Bytes(100, 3)}, Refusal{RefusalCode::busy, "later"});
    EXPECT_EQ(to_hex(crypto::sha256(all)), "ae150213f32bb681cddc75882f0a5e15b8070861497635729cd5fdfad1db9f70");
    PeerRecord record{7878, crypto::address20(key_of(1)),           5, 2'000'000'000,
                      3,    {{"10.1.2.3", 7900}, {"a.example", 1}}, {}};
    sign(record, key_of(1));
    EXPECT_EQ(to_hex(crypto::sha256(encode(record))),
              "ddf84a0cc297ca310ffb1710e158356d31805f6b9ef465d72c8179b2cd84f3fc");
}

TEST(Messages, refuse_proposals_whose_places_are_none) {
    const auto name_of = [](const CompactProposal& proposal) {
        const auto decoded = decode_compact_proposal(encode(proposal));
        return decoded ? std::string("taken") : std::string(decoded.error().name);
    };
    CompactProposal proposal{kId, {}, {}, Bytes(2 * kProposalIdBytes, 3), {{1, Bytes{7}}, {2, Bytes{8}}}};
    EXPECT_EQ(name_of(proposal), "taken");
    proposal.prefilled[1].index = 4;
    EXPECT_EQ(name_of(proposal), "message.bad_index");
    proposal.prefilled[1].index = 1;
    EXPECT_EQ(name_of(proposal), "message.bad_index");
    proposal.prefilled = {{0, Bytes{0xc1, 0x05, 0x06}}};
    EXPECT_EQ(name_of(proposal), "message.bad_envelope");
    proposal.prefilled.clear();
    proposal.ids.pop_back();
    EXPECT_EQ(name_of(proposal), "message.out_of_range");
    proposal.ids.clear();
    EXPECT_EQ(name_of(proposal), "message.empty");
    proposal.ids.resize((kMaxBlockTransactions + 1) * kProposalIdBytes);
    EXPECT_EQ(name_of(proposal), "message.too_many");
    proposal.ids.resize(kMaxBlockTransactions * kProposalIdBytes);
    EXPECT_EQ(name_of(proposal), "taken");
    proposal.prefilled = {{0, Bytes{7}}};
    EXPECT_EQ(name_of(proposal), "message.too_many");
    EXPECT_EQ(decode_get_proposal_transactions(encode(GetProposalTransactions{kId, {}})).error().name, "message.empty");
    EXPECT_EQ(decode_get_proposal_transactions(encode(GetProposalTransactions{kId, {5, 5}})).error().name,
              "message.bad_index");
}

TEST(Messages, refuse_what_breaks_their_limits) {
    ShortIds ids;
    ids.ids.resize(kMaxShortIds + 1);
    EXPECT_EQ(decode_short_ids(encode(ids)).error().name, "message.too_many");
    EXPECT_EQ(decode_short_ids(encode(ShortIds{})).error().name, "message.empty");
    EXPECT_EQ(decode_get_range(encode(GetRange{1, 0, 1})).error().name, "message.out_of_range");
    EXPECT_EQ(decode_get_range(encode(GetRange{1, kMaxRangeBlocks + 1, 1})).error().name, "message.out_of_range");
    EXPECT_EQ(decode_get_range(encode(GetRange{~std::uint64_t{0}, 2, 1})).error().name, "message.out_of_range");
    EXPECT_EQ(decode_hello(encode(Hello{1, std::string(65, 'a'), 1, {}})).error().name, "message.bad_text");
    EXPECT_EQ(decode_hello(encode(Hello{1, "a\nb", 1, {}})).error().name, "message.bad_text");
    EXPECT_EQ(decode_block_answer(encode(BlockAnswer{})).error().name, "message.empty");
    EXPECT_EQ(decode_get_block_transactions(encode(GetBlockTransactions{kId, {5, 5}})).error().name,
              "message.bad_index");
    EXPECT_EQ(decode_get_leaves(encode(GetLeaves{kId, 0, 65}), 64).error().name, "message.out_of_range");
    EXPECT_EQ(decode_get_leaves(encode(GetLeaves{kId, 0, 0}), 64).error().name, "message.out_of_range");
    constexpr std::uint64_t kLastLeaf = kMaxContentBytes / (16U << 10);
    EXPECT_TRUE(decode_get_leaves(encode(GetLeaves{kId, kLastLeaf, 1}), 64));
    EXPECT_EQ(decode_get_leaves(encode(GetLeaves{kId, kLastLeaf + 1, 1}), 64).error().name, "message.out_of_range");
    EXPECT_EQ(decode_content_info(encode(ContentInfo{{{kId, 3 * kChunkBytes, Bytes{0x08}}}})).error().name,
              "message.bad_bitmap");
    EXPECT_EQ(decode_content_info(encode(ContentInfo{{{kId, kMaxContentBytes + 1, {}}}})).error().name,
              "message.out_of_range");
    CompactBlock compact = sample_compact();
    compact.prefilled[1].index = 4;
    EXPECT_EQ(decode_compact_block(encode(compact)).error().name, "message.bad_index");
    compact.prefilled[1].index = 0;
    EXPECT_EQ(decode_compact_block(encode(compact)).error().name, "message.bad_index");
    rlp::Writer writer;
    writer.begin_list().integer(std::uint64_t{9}).bytes({}).end_list();
    EXPECT_EQ(decode_refusal(std::move(writer).finish()).error().name, "message.out_of_range");
}

TEST(Messages, registry_is_consistent) {
    for (const auto& rule : kRules) {
        EXPECT_EQ(rule_of(static_cast<std::uint8_t>(rule.type)), &rule) << rule.name;
        EXPECT_GE(static_cast<std::uint8_t>(rule.type), 8);
        EXPECT_LT(static_cast<std::uint8_t>(rule.type), 0x80);
        EXPECT_GT(rule.max_bytes, 0U);
        EXPECT_GE(rule.burst, rule.per_second);
        EXPECT_FALSE(is_request(rule) && is_request(rule_of(rule.answer))) << rule.name;
    }
    EXPECT_EQ(rule_of(std::uint8_t{0x7e}), nullptr);
}

PeerRecord sample_record() {
    PeerRecord record{7878, crypto::address20(key_of(1)),           5, 2'000'000'000,
                      3,    {{"10.1.2.3", 7900}, {"a.example", 1}}, {}};
    sign(record, key_of(1));
    return record;
}

TEST(PeerRecord, round_trip_checks_the_signature) {
    const PeerRecord record = sample_record();
    const auto decoded = decode_peer_record(encode(record));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, record);
    PeerRecord other = record;
    other.sequence = 6;
    const auto forged = decode_peer_record(encode(other));
    ASSERT_FALSE(forged);
    EXPECT_TRUE(forged.error().name == "peer_record.wrong_signer" ||
                forged.error().name == "peer_record.bad_signature");
}

TEST(PeerRecord, refuses_bad_endpoints) {
    PeerRecord record = sample_record();
    record.endpoints[0].host = "bad host";
    EXPECT_EQ(decode_peer_record(encode(record)).error().name, "peer_record.bad_host");
    record.endpoints[0] = {"host", 0};
    EXPECT_EQ(decode_peer_record(encode(record)).error().name, "peer_record.bad_port");
    record.endpoints.assign(kMaxEndpoints + 1, {"host", 1});
    EXPECT_EQ(decode_peer_record(encode(record)).error().name, "peer_record.too_many_endpoints");
    EXPECT_EQ(decode_peer_record(Bytes(kMaxPeerRecordBytes + 1)).error().name, "peer_record.too_large");
}

}  // namespace
}  // namespace quern::p2p::messages
