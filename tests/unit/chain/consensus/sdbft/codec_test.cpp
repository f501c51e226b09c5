#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fs.h"
#include "base/rlp.h"
#include "crypto/hash.h"
#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

// One of each kind.
std::vector<Message> sample_messages() {
    Harness h;
    const auto made = h.first();
    return {h.proposal(3, made, {h.certificate(nullify, 2), h.certificate(nullify, 1)}),
            h.proposal(3, made, {}, h.certificate(notarize, 2, made.tip.hash)),
            h.vote(0, notarize, 7, made.tip.hash),
            h.vote(1, nullify, 7),
            CertificateMessage{h.certificate(finalize, 9, made.tip.hash)},
            CertificateQuery{1, 2, 3},
            BlockQuery{made.tip.hash},
            BlockAnswer{made.bytes},
            RangeQuery{12},
            RangeAnswer{20, {made.bytes, made.bytes}, h.certificate(finalize, 9, made.tip.hash)},
            VoteQuery{h.genesis.keys[1]},
            VoteAnswer{3, h.genesis.keys[1], VoteAnswer::Signed{{propose, 3, 8, made.tip.hash}, {}}},
            VoteAnswer{3, h.genesis.keys[1], std::nullopt}};
}

// What a node of another build must understand.
TEST(SdbftMessages, the_same_messages_have_the_same_bytes) {
    Bytes all;
    for (const auto& message : sample_messages()) {
        const auto* answer = std::get_if<VoteAnswer>(&message);
        if (answer == nullptr && !std::holds_alternative<VoteQuery>(message)) {
            append(all, encode(message));
            continue;
        }
        // These two came later, by the grammar in messages.h.
        rlp::Writer body;
        body.begin_list();
        if (answer == nullptr) {
            body.fixed(std::get<VoteQuery>(message).key.bytes);
        } else {
            body.integer(answer->epoch).fixed(answer->key.bytes).begin_list();
            if (answer->newest) {
                const Vote& vote = answer->newest->vote;
                body.integer(static_cast<std::uint64_t>(vote.type)).integer(vote.epoch).integer(vote.view);
                body.fixed(vote.hash).fixed(answer->newest->signature);
            }
            body.end_list();
        }
        body.end_list();
        Bytes expected = {static_cast<std::uint8_t>(answer == nullptr ? 9 : 10)};
        append(expected, std::move(body).finish());
        EXPECT_EQ(encode(message), expected);
    }
    EXPECT_EQ(to_hex(crypto::sha256(all)), "8b44ae7199ff764d4fce357928cfb2a72ca3668dee83715064b2ba48b3822127");
}

TEST(SdbftMessages, tell_where_a_proposal_has_its_transactions) {
    Harness h;
    types::Block block;
    block.transactions = {Bytes{2, 7, 8}, Bytes{0xc2, 1, 2}, Bytes(100, 2)};
    block.parent_certificate = Bytes(50, 3);
    auto proposal = h.proposal(3, h.first(), {h.certificate(nullify, 2)}, h.certificate(notarize, 2, Hash32{{1}}));
    proposal.block = types::encode(block);
    const Bytes bytes = encode(Message(proposal));
    const auto at = transactions_in(bytes);
    ASSERT_TRUE(at);
    rlp::Writer items;
    items.bytes(block.transactions[0]).raw(block.transactions[1]).bytes(block.transactions[2]);
    EXPECT_TRUE(equal(BytesView(bytes).subspan(at->begin, at->end - at->begin), std::move(items).finish()));
    for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(transactions_in(BytesView(bytes).first(size)));
    const auto messages = sample_messages();
    for (std::size_t i = 2; i < messages.size(); ++i) EXPECT_FALSE(transactions_in(encode(messages[i]))) << i;
}

TEST(SdbftMessages, round_trip_and_refuse_each_truncation) {
    const std::vector<Message> messages = sample_messages();
    for (const auto& message : messages) {
        const Bytes bytes = encode(message);
        const auto decoded = decode_message(bytes);
        ASSERT_TRUE(decoded) << decoded.error().to_string();
        EXPECT_EQ(*decoded, message);
        EXPECT_FALSE(describe(message).empty());
        for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 200)
            EXPECT_FALSE(decode_message(BytesView(bytes).first(size)));
        Bytes longer = bytes;
        longer.push_back(0);
        EXPECT_FALSE(decode_message(longer));
    }
}

TEST(SdbftMessages, name_what_is_wrong) {
    Harness h;
    const auto name = [](const Bytes& bytes) { return decode_message(bytes).error().name; };
    EXPECT_EQ(name({}), "message.empty");
    EXPECT_EQ(name({0, 0xc0}), "message.unknown_kind");
    EXPECT_EQ(name({11, 0xc0}), "message.unknown_kind");
    EXPECT_EQ(name(Bytes(kMaxMessageBytes + 1)), "message.too_large");
    auto vote = h.vote(0, nullify, 1);
    vote.vote.hash = Hash32{{1}};
    EXPECT_EQ(name(encode(Message(vote))), "message.bad_vote");
    vote = h.vote(0, notarize, 1, Hash32{{1}});
    vote.member = kMaxCommittee;
    EXPECT_EQ(name(encode(Message(vote))), "message.bad_vote");
    vote.member = 0;
    vote.vote.type = propose;  // only inside a PROPOSE message
    EXPECT_EQ(name(encode(Message(vote))), "message.bad_vote");
    for (const auto type : {VoteType{0}, VoteType{5}})
        EXPECT_EQ(name(encode(Message(VoteAnswer{0, h.genesis.keys[0], VoteAnswer::Signed{{type, 0, 1, {}}, {}}}))),
                  "message.bad_vote");
    RangeAnswer range{1, {Bytes(types::kMaxBlockBytes)}, h.certificate(finalize, 1, Hash32{{1}})};
    EXPECT_TRUE(decode_message(encode(Message(range))));
    range.blocks[0].push_back(0);
    EXPECT_EQ(name(encode(Message(range))), "message.too_large");
    auto many = h.proposal(1, h.first());
    many.nullifications.assign(kMaxNullificationsPerProposal + 1, h.certificate(nullify, 1));
    EXPECT_EQ(name(encode(Message(many))), "message.too_many");
}

TEST(SdbftEvidence, which_pairs_are_slashable) {
    const Hash32 a{{1}};
    const Hash32 b{{2}};
    const auto vote = [](VoteType type, const Hash32& hash, std::uint64_t view = 5) {
        return Vote{type, 1, view, hash};
    };
    EXPECT_TRUE(is_slashable_pair(vote(propose, a), vote(propose, b)));
    EXPECT_TRUE(is_slashable_pair(vote(notarize, a), vote(notarize, b)));
    EXPECT_TRUE(is_slashable_pair(vote(finalize, a), vote(finalize, b)));
    EXPECT_TRUE(is_slashable_pair(vote(finalize, a), vote(notarize, b)));
    EXPECT_TRUE(is_slashable_pair(vote(nullify, {}), vote(finalize, a)));
    EXPECT_FALSE(is_slashable_pair(vote(notarize, a), vote(nullify, {})));
    EXPECT_FALSE(is_slashable_pair(vote(finalize, a), vote(notarize, a)));
    EXPECT_FALSE(is_slashable_pair(vote(propose, a), vote(notarize, b)));
    EXPECT_FALSE(is_slashable_pair(vote(nullify, {}), vote(nullify, {})));
    EXPECT_FALSE(is_slashable_pair(vote(notarize, a), vote(notarize, b, 6)));
}

TEST(SdbftEvidence, round_trips_and_is_checked) {
    Harness h;
    const auto a = h.vote(0, notarize, 1, Hash32{{1}});
    const auto b = h.vote(0, finalize, 1, Hash32{{2}});
    Evidence evidence{h.epoch.committee.members()[0].key, a.vote, a.signature, b.vote, b.signature};
    const auto decoded = decode_evidence(encode(evidence));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, evidence);
    EXPECT_TRUE(check_evidence(evidence, h.identity, *h.keys.scheme));
    EXPECT_FALSE(check_evidence(evidence, {Hash32{{9}}, 7878}, *h.keys.scheme));  // another chain's
    evidence.signer = h.epoch.committee.members()[1].key;
    EXPECT_EQ(check_evidence(evidence, h.identity, *h.keys.scheme).error().name, "evidence.bad_signature");
    evidence.second = evidence.first;
    EXPECT_EQ(check_evidence(evidence, h.identity, *h.keys.scheme).error().name, "evidence.not_slashable");
}

// By its words in doc/staking.md: others make it, too.
TEST(SdbftEvidence, a_commitment_is_the_hash_of_who_and_what) {
    types::Address sender;
    sender.data[19] = 7;
    Bytes message = to_bytes(as_bytes("evidence"));
    append(message, sender);
    append(message, Bytes{1, 2, 3});
    EXPECT_EQ(evidence_commitment(sender, Bytes{1, 2, 3}), crypto::sha256(message));
}

TEST(SdbftEvidence, conflicting_certificates_convict_those_who_signed_both) {
    Harness h;
    const auto found =
        conflicts_between(h.certificate(finalize, 3, Hash32{{1}}), h.certificate(nullify, 3), h.epoch.committee);
    EXPECT_EQ(found.size(), 3U);
    for (const auto& evidence : found) EXPECT_TRUE(check_evidence(evidence, h.identity, *h.keys.scheme));
    EXPECT_TRUE(conflicts_between(h.certificate(notarize, 3, Hash32{{1}}), h.certificate(nullify, 3), h.epoch.committee)
                    .empty());
}

TEST(SdbftEpochs, masters_follow_weight) {
    Harness h;
    std::vector<CommitteeMember> members;
    for (std::size_t i = 0; i < 4; ++i) members.push_back({h.genesis.keys[i], i == 0 ? 97U : 1U});
    const EpochSetup epoch{0, *Committee::make(members), {}, Hash32{{1}}};
    std::size_t heavy = 0;
    for (std::uint64_t view = 1; view <= 1000; ++view)
        heavy += epoch.committee.members()[master_of(epoch, view)].key == h.genesis.keys[0] ? 1U : 0U;
    EXPECT_GT(heavy, 930U);
    EXPECT_LT(heavy, 1000U);
}

std::vector<Record> sample_records(Harness& h) {
    const auto vote = h.vote(0, notarize, 1, Hash32{{1}});
    return {record_of({vote.vote, vote.signature}),
            {RecordKind::block, h.first().bytes},
            {RecordKind::certificate, encode(h.certificate(nullify, 1))}};
}

TEST(SdbftJournalCodec, an_unfinished_tail_is_cut_at_any_byte) {
    Harness h;
    const auto records = sample_records(h);
    Bytes log;
    std::vector<std::size_t> ends = {0};
    for (std::size_t i = 0; i < records.size(); ++i) {
        append(log, encode_frame(40 + i, records[i]));
        ends.push_back(log.size());
    }
    for (std::size_t size = 0; size <= log.size(); ++size) {
        const auto recovered = recover(BytesView(log).first(size));
        ASSERT_TRUE(recovered) << size;
        std::size_t whole = 0;
        while (whole + 1 < ends.size() && ends[whole + 1] <= size) ++whole;
        ASSERT_EQ(recovered->records.size(), whole) << size;
        EXPECT_EQ(recovered->valid_bytes, ends[whole]);
    }
    EXPECT_EQ(recover(log)->records, records);
    EXPECT_EQ(recover(log)->next_sequence, 43U);
}

TEST(SdbftJournalCodec, damage_before_whole_records_is_an_error) {
    Harness h;
    const auto records = sample_records(h);
    Bytes log;
    for (std::size_t i = 0; i < records.size(); ++i) append(log, encode_frame(i, records[i]));
    Bytes damaged = log;
    damaged[30] = static_cast<std::uint8_t>(damaged[30] ^ 1);
    EXPECT_EQ(recover(damaged).error().name, "journal.corrupt");
    Bytes gap = encode_frame(0, records[0]);
    append(gap, encode_frame(2, records[1]));  // a record is missing
    EXPECT_EQ(recover(gap).error().name, "journal.corrupt");
}

TEST(SdbftJournalCodec, a_log_is_read_through_a_window_whatever_its_size) {
    // Frames across the window's edges, and one that is larger than the window.
    std::vector<Record> records;
    Bytes log;
    for (std::size_t i = 0; i < 40; ++i) {
        records.push_back(
            {RecordKind::block, Bytes(i == 20 ? (3U << 20) + 1 : 100'003 + i, static_cast<std::uint8_t>(i))});
        append(log, encode_frame(7 + i, records.back()));
    }
    std::size_t largest = 0;
    std::size_t reads = 0;
    const auto read = [&](std::uint64_t offset, std::size_t count) -> Expected<Bytes> {
        EXPECT_LE(offset + count, log.size());
        largest = std::max(largest, count);
        ++reads;
        return to_bytes(BytesView(log).subspan(offset, count));
    };
    const auto recovered = recover(log.size(), read);
    ASSERT_TRUE(recovered);
    EXPECT_EQ(recovered->records, records);
    EXPECT_EQ(recovered->valid_bytes, log.size());
    EXPECT_EQ(recovered->next_sequence, 47U);
    EXPECT_LE(largest, (3U << 20) + 1 + kJournalFrameBytes);
    EXPECT_LE(reads, 20U);
    log[50] ^= 1;
    EXPECT_EQ(recover(log.size(), read).error().name, "journal.corrupt");
    const auto broken = [](std::uint64_t, std::size_t) -> Expected<Bytes> { return fault("journal.read_failed"); };
    EXPECT_EQ(recover(log.size(), broken).error().name, "journal.read_failed");
}

TEST(SdbftEpochs, masters_depend_on_the_seed) {
    Harness h;
    EpochSetup other = h.epoch;
    other.seed.data[31] ^= 1;
    std::size_t different = 0;
    for (std::uint64_t view = 1; view <= 200; ++view) different += master_of(h.epoch, view) != master_of(other, view);
    EXPECT_GT(different, 100U);
    EXPECT_LT(different, 190U);
}

TEST(SdbftViewVotes, keep_and_convict_each_member_to_the_last) {
    Harness h;
    for (std::size_t member = 0; member < 4; ++member) {
        ViewVotes votes(0, 5);
        const auto first = h.vote(member, notarize, 5, Hash32{{1}});
        const auto second = h.vote(member, notarize, 5, Hash32{{2}});
        EXPECT_EQ(votes.of(notarize, member), nullptr);
        EXPECT_FALSE(votes.add(h.epoch.committee, first.vote, member, first.signature));
        ASSERT_NE(votes.of(notarize, member), nullptr) << member;
        EXPECT_EQ(votes.of(notarize, member)->hash, Hash32{{1}});
        const auto evidence = votes.add(h.epoch.committee, second.vote, member, second.signature);
        ASSERT_TRUE(evidence) << member;
        EXPECT_EQ(evidence->signer, h.epoch.committee.members()[member].key);
        EXPECT_EQ(votes.tally(h.epoch.committee, notarize, Hash32{{1}}).members, 1U);
    }
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
