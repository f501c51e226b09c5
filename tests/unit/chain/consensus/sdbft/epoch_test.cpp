// The passage from epoch to epoch: what comes early, what comes late, and what the driver may not get wrong.
#include <gtest/gtest.h>

#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;
using Names = std::vector<std::string_view>;

void finalize_heights(Harness& h, std::uint64_t count) {
    while (h.chain->height() < count) {
        const Tip parent = h.chain->tip();
        const std::uint64_t view = parent.number == 0 || parent.epoch != h.epoch.epoch ? 1 : parent.view + 1;
        h.finalize(view, h.block(view, parent, h.chain->tip_certificate()));
    }
}

VoteMessage early_vote(const Harness& h, std::size_t member, VoteType type, std::uint64_t view,
                       std::uint64_t epoch = 1) {
    auto message = h.vote(member, type, view, type == nullify ? Hash32{} : Hash32{{5}});
    message.vote.epoch = epoch;
    message.signature = h.signature(member, message.vote);
    return message;
}

// The last block of epoch 0 is notarized but not final here; elsewhere epoch 1 has begun.
struct Behind : Harness {
    Behind() {
        finalize_heights(*this, 2);
        last = block(3, chain->tip(), chain->tip_certificate());
        receive(others()[0], proposal(3, last));
        closing = certificate(VoteType::finalize, 3, last.tip.hash);
        ahead = std::make_unique<sim::LightChain>(*chain);
        (void)ahead->commit(last.tip.hash, last.bytes, closing);
        first_setup = ahead->epoch_setup();
        misbehaved.clear();
        forget();
    }
    // A proposal of epoch 1, signed by `member`.
    ProposeMessage early_proposal(std::size_t member, std::uint8_t mark = 9) {
        const auto kept = epoch;
        epoch = first_setup;
        const auto vrf = keys.signers[signer_of_member[master(1)]]->vrf_prove(last.tip.beacon);
        first_made.bytes = *ahead->build(
            {last.tip, 1, 1, std::max(now.wall_ms, last.tip.timestamp_ms + 1), next_beacon(last.tip.beacon, vrf.output),
             vrf.proof, encode(closing), epoch.committee.hash(), epoch.next_committee_hash},
            {}, mark);
        first_made.tip = tip_of(*read_block(first_made.bytes));
        ProposeMessage message{1, 1, first_made.bytes, {}, {}, {}};
        message.signature = signature(member, {propose, 1, 1, first_made.tip.hash});
        epoch = kept;
        return message;
    }
    void close() { receive(others()[0], CertificateMessage{closing}); }

    Made last;
    Certificate closing;
    std::unique_ptr<sim::LightChain> ahead;
    EpochSetup first_setup;
    Made first_made;
};

TEST(SdbftEarly, votes_of_the_next_epoch_count_when_it_begins) {
    Behind h;
    for (const auto member : h.others()) h.receive(member, early_vote(h, member, nullify, 1));
    EXPECT_EQ(h.core->status().pending_messages, 3U);
    h.close();
    EXPECT_EQ(h.core->status().epoch, 1U);
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.core->status().pending_messages, 0U);
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftEarly, the_masters_proposal_waits_and_is_voted_for) {
    Behind h;
    const std::size_t master = master_of(h.first_setup, 1);
    const auto message = h.early_proposal(master);
    h.receive(h.others()[0], message);
    EXPECT_EQ(h.core->status().pending_messages, 1U);
    h.close();
    if (master != h.me) {
        EXPECT_EQ(h.voted(notarize, 1), h.first_made.tip.hash);
    }
    EXPECT_EQ(h.misbehaved, Names{});
}

TEST(SdbftEarly, the_newest_certificate_of_the_next_epoch_waits) {
    Behind h;
    const auto early = [&](std::uint64_t view) {
        const Vote vote{nullify, 1, view, {}};
        std::vector<std::pair<std::size_t, Signature>> signatures;
        for (const auto member : h.others()) signatures.emplace_back(member, h.signature(member, vote));
        return make_certificate(vote, h.epoch.committee, signatures);
    };
    h.receive(h.others()[0], CertificateMessage{early(7)});
    h.receive(h.others()[0], CertificateMessage{early(4)});
    auto forged = early(9);
    forged.signatures[0].data[0] ^= 1;
    h.receive(77, CertificateMessage{forged});
    EXPECT_EQ(h.misbehaved, Names{"certificate.bad_signature"});
    h.close();
    EXPECT_EQ(h.core->status().view, 8U);
}

TEST(SdbftEarly, strangers_fill_nothing_however_often_they_come) {
    Behind h;
    auto forged = early_vote(h, h.others()[0], nullify, 1);
    forged.signature.data[0] ^= 1;
    auto unsigned_proposal =
        h.early_proposal(h.others()[0] == master_of(h.first_setup, 1) ? h.others()[1] : h.others()[0]);
    for (std::size_t peer = 100; peer < 400; ++peer) {
        h.receive(peer, forged);
        h.receive(peer, unsigned_proposal);
        h.receive(peer, CertificateQuery{1, 1, 2});
    }
    EXPECT_EQ(h.core->status().pending_messages, 0U);
    EXPECT_EQ(h.core->status().pending_bytes, 0U);
    EXPECT_EQ(h.misbehaved.size(), 600U);
    auto stranger = early_vote(h, h.others()[0], nullify, 1);
    stranger.member = 4;
    h.misbehaved.clear();
    h.receive(100, stranger);
    EXPECT_EQ(h.misbehaved, Names{"sdbft.unknown_member"});
}

TEST(SdbftEarly, each_member_has_a_share_and_its_earliest_views_stay) {
    Behind h;
    const std::size_t liar = h.others()[0];
    for (std::uint64_t view = kMaxFutureViews + 1; view >= 1; --view)
        for (const auto type : {notarize, nullify, finalize}) h.receive(liar, early_vote(h, liar, type, view));
    for (int again = 0; again < 3; ++again) h.receive(liar, early_vote(h, liar, nullify, 1));
    h.receive(liar, early_vote(h, liar, nullify, kMaxFutureViews + 2));  // too far
    h.receive(liar, early_vote(h, liar, nullify, 1, 2));                 // too late an epoch
    EXPECT_EQ(h.core->status().pending_messages, kMaxPendingMessages);
    EXPECT_EQ(h.core->status().pending_peers, 1U);
    // Another's votes find room, and the liar's first view is among what was kept: with both, this node joins.
    h.receive(h.others()[1], early_vote(h, h.others()[1], nullify, 1));
    h.receive(h.others()[1], early_vote(h, h.others()[1], nullify, kMaxFutureViews + 2));
    EXPECT_EQ(h.core->status().pending_messages, kMaxPendingMessages + 1);
    h.close();
    EXPECT_EQ(h.core->status().view, 2U);
}

TEST(SdbftEarly, nothing_of_an_epoch_whose_members_are_unknown_is_kept) {
    Harness h;
    h.receive(h.others()[0], early_vote(h, h.others()[0], nullify, 1, 2));
    // The master of the next epoch is not known before its seed is final.
    h.receive(h.others()[0], [&] {
        ProposeMessage message{1, 1, h.first().bytes, {}, {}, {}};
        message.signature = h.signature(h.others()[0], {propose, 1, 1, h.first().tip.hash});
        return message;
    }());
    EXPECT_EQ(h.core->status().pending_messages, 0U);
    EXPECT_EQ(h.misbehaved, Names{});
    h.receive(h.others()[0], early_vote(h, h.others()[0], nullify, 1));
    EXPECT_EQ(h.core->status().pending_messages, 1U);
}

TEST(SdbftEpochEnd, a_query_of_an_old_epoch_gets_what_closed_it) {
    Harness h;
    finalize_heights(h, 3);
    ASSERT_EQ(h.core->status().epoch, 1U);
    const auto closing = h.chain->tip_certificate();
    for (std::uint64_t view = 1; view <= 3; ++view)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    h.forget();
    h.receive(77, CertificateQuery{0, 1, 3});
    const auto answers = h.sent<CertificateMessage>();
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(encode(answers[0].certificate), closing);
    for (const auto& answer : answers) EXPECT_TRUE(answer.certificate.view == 3 || answer.certificate.epoch == 0);
    h.forget();
    h.receive(78, CertificateQuery{2, 1, 3});
    EXPECT_TRUE(h.sent<CertificateMessage>().empty());
}

TEST(SdbftEpochEnd, halts_when_the_driver_names_another_committee_than_the_headers_did) {
    for (const bool missing : {false, true}) {
        Harness h;
        h.alter_committed = [missing](event::Committed& committed) {
            if (!committed.next_epoch) return;
            if (missing) return committed.next_epoch.reset();
            auto members = committed.next_epoch->committee.members();
            members.pop_back();
            committed.next_epoch->committee = *Committee::make(members);
        };
        Tip parent = h.genesis.tip();
        Bytes certificate;
        for (std::uint64_t view = 1; view <= 3 && !h.halt; ++view) {
            const auto made = h.block(view, parent, certificate);
            h.receive(h.others()[0], h.proposal(view, made));
            h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, view, made.tip.hash)});
            (void)h.world->commit(made.tip.hash, made.bytes, h.certificate(finalize, view, made.tip.hash));
            parent = made.tip;
            certificate = encode(h.certificate(finalize, view, made.tip.hash));
        }
        ASSERT_TRUE(h.halt);
        EXPECT_EQ(h.halt->name, missing ? "sdbft.no_next_epoch" : "sdbft.wrong_committee");
    }
}

TEST(SdbftEpochEnd, halts_when_a_height_is_left_out) {
    Harness h;
    h.alter_committed = [](event::Committed& committed) { committed.tip.number += 1; };
    const auto made = h.first();
    h.receive(h.others()[0], h.proposal(1, made));
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    ASSERT_TRUE(h.halt);
    EXPECT_EQ(h.halt->name, "sdbft.invariant");
    EXPECT_TRUE(h.halt->is_local_fault());
}

TEST(SdbftEpochEnd, the_committee_of_the_epoch_before_closes_it_when_the_members_changed) {
    Harness h(false, true);
    // In epoch 0 member 3 leaves; committees are frozen two epochs ahead.
    std::size_t leaver = 0;
    while (h.genesis.keys[leaver] != h.epoch.committee.members()[h.others()[2]].key) ++leaver;
    Bytes leave(11);
    leave[0] = 2;
    leave[1] = static_cast<std::uint8_t>(leaver);
    leave[2] = 10;
    h.transactions = {leave};
    finalize_heights(h, 1);
    h.transactions.clear();
    finalize_heights(h, 6);
    ASSERT_EQ(h.epoch.epoch, 1U);
    const std::uint64_t view = h.chain->tip().view + 1;
    const auto last = h.block(view, h.chain->tip(), h.chain->tip_certificate());
    const auto other_closing = h.certificate(finalize, view + 1, last.tip.hash);  // by the members of epoch 1
    h.finalize(view, last);
    ASSERT_EQ(h.epoch.epoch, 2U);
    ASSERT_EQ(h.epoch.committee.members().size(), 3U);
    h.resolve_members();
    h.misbehaved.clear();
    h.forget();
    if (h.master(1) == h.me) GTEST_SKIP() << "this node is the master";
    const auto made = h.block(1, last.tip, encode(other_closing));
    h.receive(h.others()[0], h.proposal(1, made));
    EXPECT_EQ(h.misbehaved, Names{});
    EXPECT_EQ(h.voted(notarize, 1), made.tip.hash);
}

// --- Catching up across many views -----------------------------------------------------------------------------------

TEST(SdbftLag, a_proposal_shows_at_most_64_nullifications) {
    Harness h(true);
    std::uint64_t view = kMaxNullificationsPerProposal + 10;
    while (h.master(view) != h.me) ++view;
    for (std::uint64_t v = 1; v < view; ++v) h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, v)});
    h.forget();
    h.pass(h.max_idle_ms);
    const auto proposals = h.sent<ProposeMessage>();
    ASSERT_EQ(proposals.size(), 1U);
    EXPECT_EQ(proposals[0].nullifications.size(), kMaxNullificationsPerProposal);
    EXPECT_EQ(proposals[0].nullifications.front().view, view - 1);
}

TEST(SdbftLag, at_most_32_views_are_asked_for_and_served_at_once) {
    Harness h;
    std::uint64_t view = 40;
    while (h.master(view) == h.me) ++view;
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view - 1)});
    h.receive(h.master(view), h.proposal(view, h.first(view)));
    auto queries = h.sent<CertificateQuery>();
    ASSERT_FALSE(queries.empty());
    EXPECT_EQ(queries[0].last_view, view - 2);
    EXPECT_EQ(queries[0].last_view - queries[0].first_view + 1, kMaxCertificatesPerQuery);
    // Served that way, it votes at last.
    for (std::uint64_t v = view - 2; v >= 1; --v)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, v)});
    EXPECT_EQ(h.sent_votes(notarize, view), 1U);

    h.forget();
    h.misbehaved.clear();
    h.receive(77, CertificateQuery{0, 2, 1 + kMaxCertificatesPerQuery});
    EXPECT_GE(h.sent<CertificateMessage>().size(), kMaxCertificatesPerQuery);
    EXPECT_EQ(h.misbehaved, Names{});
    h.forget();
    h.receive(77, CertificateQuery{0, 1, 1 + kMaxCertificatesPerQuery});
    h.receive(77, CertificateQuery{0, 2, 1});
    EXPECT_TRUE(h.sent<CertificateMessage>().empty());
    EXPECT_EQ(h.misbehaved, (Names{"message.too_many", "message.too_many"}));
}

TEST(SdbftLag, blocks_that_are_final_are_served_by_the_driver) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    h.receive(77, BlockQuery{made.tip.hash});
    EXPECT_EQ(h.sent<BlockAnswer>().size(), 1U);
    EXPECT_TRUE(h.served_blocks.empty());
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    h.receive(77, BlockQuery{made.tip.hash});
    EXPECT_EQ(h.served_blocks, std::vector<Hash32>{made.tip.hash});
    h.receive(77, RangeQuery{1});
    EXPECT_EQ(h.served_ranges, std::vector<std::uint64_t>{1});
    h.receive(77, RangeQuery{2});
    EXPECT_EQ(h.served_ranges.size(), 1U);
}

// --- Journal ---------------------------------------------------------------------------------------------------------

TEST(SdbftJournal, blocks_voted_for_are_there_after_a_restart) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    h.restart();
    h.forget();
    h.start();
    EXPECT_EQ(h.core->status().blocks_kept, 1U);
    h.receive(77, BlockQuery{made.tip.hash});
    EXPECT_EQ(h.sent<BlockAnswer>().size(), 1U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    EXPECT_EQ(h.chain->height(), 1U);
    EXPECT_TRUE(h.asked_blocks.empty());
}

TEST(SdbftJournal, does_not_grow_while_nothing_is_final) {
    Harness h;
    h.rewrite_bytes = 4'000;
    h.restart();
    h.start();
    std::size_t most = 0;
    for (std::uint64_t view = 1; view <= 300; ++view) {
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
        std::size_t bytes = 0;
        for (const auto& record : h.journal) bytes += record.payload.size() + kJournalFrameBytes;
        most = std::max(most, bytes);
    }
    EXPECT_GE(h.rewrites, 3U);
    // Nullifications since the last final view are needed: what is written stays within twice that.
    std::size_t needed = 0;
    for (std::uint64_t view = 1; view <= 300; ++view)
        needed += encode(h.certificate(nullify, view)).size() + kJournalFrameBytes;
    EXPECT_LE(most, 2 * needed + 8'000);
    EXPECT_LE(h.rewrites, 12U);
}

TEST(SdbftJournal, what_was_written_before_a_restart_counts_towards_rewriting_it) {
    Harness h;
    h.rewrite_bytes = 6'000;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= 60; ++view) {
        if (view % 3 == 0) {  // no life writes enough by itself
            h.restart();
            h.start();
        }
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    }
    EXPECT_GE(h.rewrites, 1U);
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
