// A key never contradicts what it has signed, whatever was put back: an old database under a newer journal, an old
// journal under a newer database, no journal at all.
#include <gtest/gtest.h>

#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

// What this core's key sent, over all its lives.
std::vector<Vote> votes_of(const Harness& h) {
    std::vector<Vote> votes;
    for (const auto& message : h.sent<VoteMessage>())
        if (message.member == h.me) votes.push_back(message.vote);
    for (const auto& message : h.sent<ProposeMessage>())
        votes.push_back({propose, message.epoch, message.view, read_block(message.block)->hash});
    return votes;
}

void expect_no_contradiction(const std::vector<Vote>& before, const std::vector<Vote>& after) {
    for (const auto& a : before)
        for (const auto& b : after)
            EXPECT_FALSE(is_slashable_pair(a, b)) << name_of(a.type) << " " << a.epoch << "." << a.view << " and "
                                                  << name_of(b.type) << " " << b.epoch << "." << b.view;
}

// Heights 1 to `count`, one a view, across epochs.
void finalize_heights(Harness& h, std::uint64_t count) {
    while (h.chain->height() < count) {
        const Tip parent = h.chain->tip();
        const std::uint64_t view = parent.number == 0 || parent.epoch != h.epoch.epoch ? 1 : parent.view + 1;
        h.finalize(view, h.block(view, parent, h.chain->tip_certificate()));
    }
}

TEST(SdbftSigningFloor, an_old_database_under_a_newer_journal_signs_nothing_again) {
    for (const auto& [old_height, newer_height] :
         {std::pair(0U, 4U), {1U, 4U}, {2U, 4U}, {3U, 4U}, {0U, 3U}, {1U, 3U}}) {
        Harness h;
        h.rewrite_bytes = 1;
        h.restart();
        h.start();
        finalize_heights(h, old_height);
        const auto old = *h.chain;
        finalize_heights(h, newer_height);
        ASSERT_EQ(h.epoch.epoch, 1U);
        ASSERT_EQ(h.sent_votes(finalize, 2), 1U);  // FINALIZE 0.2, and the journal was rewritten since
        ASSERT_GE(h.rewrites, newer_height);
        const auto before = votes_of(h);

        h.chain = std::make_unique<sim::LightChain>(old);
        h.restart();
        h.forget();
        h.start();
        h.epoch = h.chain->epoch_setup();
        h.pass(60'000);
        for (std::uint64_t view = 1; view <= 3 && h.epoch.epoch == 0; ++view)
            for (const auto member : {h.others()[0], h.others()[1]}) h.receive(member, h.vote(member, nullify, view));
        h.pass(60'000);
        expect_no_contradiction(before, votes_of(h));
        for (const auto& vote : votes_of(h))
            EXPECT_TRUE(vote.epoch >= 1 || std::count(before.begin(), before.end(), vote) == 1)
                << old_height << ": " << name_of(vote.type) << " " << vote.epoch << "." << vote.view;
        EXPECT_EQ(h.core->status().refuses_because, "");
        EXPECT_FALSE(h.halt);
    }
}

// The journal was rewritten since and has forgotten those votes. They are nobody else's for that.
TEST(SdbftSigningFloor, an_old_database_meets_its_own_old_votes_again_and_goes_on) {
    Harness h;
    h.rewrite_bytes = 1;
    h.restart();
    h.start();
    const auto old = *h.chain;
    finalize_heights(h, 4);
    ASSERT_EQ(h.epoch.epoch, 1U);
    const auto before = votes_of(h);

    h.chain = std::make_unique<sim::LightChain>(old);
    h.restart();
    h.forget();
    h.start();
    h.epoch = h.chain->epoch_setup();
    std::size_t met = 0;
    for (const auto& vote : before) {
        if (vote.epoch != 0 || vote.type != finalize || vote.view != 2) continue;
        h.receive(h.others()[0], CertificateMessage{h.certificate_with_me(finalize, vote.view, vote.hash)});
        ++met;
    }
    EXPECT_EQ(met, 1U);
    EXPECT_EQ(h.core->status().refuses_because, "");
    EXPECT_FALSE(h.halt);
}

TEST(SdbftSigningFloor, an_old_database_catches_up_and_signs_again_above_the_newest_vote) {
    Harness h;
    h.rewrite_bytes = 1;
    h.restart();
    h.start();
    const auto old = *h.chain;
    finalize_heights(h, 3);
    ASSERT_EQ(h.epoch.epoch, 1U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.pass(h.max_idle_ms + 3 * h.delta_ms);
    ASSERT_GE(h.sent_votes(nullify, 2), 1U);  // NULLIFY 1.2

    auto newer = std::move(h.chain);
    h.chain = std::make_unique<sim::LightChain>(old);
    h.restart();
    h.forget();
    h.start();
    h.receive(h.others()[0], *newer->range(1));
    ASSERT_EQ(h.chain->height(), 3U);
    EXPECT_EQ(h.core->status().epoch, 1U);
    EXPECT_EQ(h.core->status().view, 2U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 2)});
    h.pass(h.max_idle_ms + 3 * h.delta_ms);
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U);
    EXPECT_GE(h.sent_votes(nullify, 3), 1U);
    EXPECT_FALSE(h.halt);
}

TEST(SdbftSigningFloor, starts_behind_the_tip_even_when_its_certificate_is_missing) {
    Harness h;
    const auto first = h.first();
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    (void)h.chain->commit(first.tip.hash, first.bytes, std::nullopt);
    (void)h.chain->commit(second.tip.hash, second.bytes, std::nullopt);
    h.accept_missing_journal = true;
    h.restart(false);
    h.forget();
    h.start();
    EXPECT_EQ(h.core->status().view, 3U);
    EXPECT_EQ(h.core->status().last_finalized_view, 2U);
    h.pass(60'000);
    for (const auto& vote : votes_of(h)) EXPECT_GE(vote.view, 3U);
}

// All that a later vote forbids, with nothing else on record.
TEST(SdbftSigningFloor, below_the_newest_vote_it_neither_proposes_nor_votes_whatever_it_receives) {
    for (const bool master : {false, true}) {
        Harness h(master);
        auto later = h.vote(h.me, nullify, 1);
        later.vote.epoch = 1;
        later.signature = h.signature(h.me, later.vote);
        h.journal = {record_of({later.vote, later.signature})};
        h.restart();
        h.forget();
        h.start();
        ASSERT_EQ(h.core->status().view, 1U);
        h.pass(10 * h.max_idle_ms);  // timers; a master's turn
        const auto made = h.first();
        if (!master) h.receive(h.master(1), h.proposal(1, made));
        for (const auto member : {h.others()[0], h.others()[1]}) h.receive(member, h.vote(member, nullify, 1));
        h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, made.tip.hash)});
        h.pass(10 * h.max_idle_ms);
        EXPECT_EQ(h.core->status().view, 2U);
        EXPECT_TRUE(votes_of(h).empty());
        EXPECT_EQ(h.core->status().refuses_because, "");
        EXPECT_FALSE(h.halt);
    }
}

TEST(SdbftSigningFloor, starts_in_the_view_of_its_newest_vote) {
    Harness h;
    const auto vote = h.vote(h.me, notarize, 6, Hash32{{1}});
    h.journal = {record_of({vote.vote, vote.signature})};
    h.restart();
    h.start();
    EXPECT_EQ(h.core->status().view, 6U);
}

TEST(SdbftSigningFloor, an_older_vote_heard_of_later_does_not_lower_it) {
    Harness h;
    h.listen_ms = 50;
    h.accept_missing_journal = true;
    h.restart(false);
    h.start();
    h.receive(h.others()[0], h.vote(h.me, finalize, 3, Hash32{{3}}));
    h.receive(h.others()[0], h.vote(h.me, nullify, 1));
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.forget();
    h.pass(60'000);
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.sent_votes(nullify, 2), 0U);
    EXPECT_FALSE(h.halt);
}

TEST(SdbftSigningFloor, an_accepted_missing_journal_takes_over_votes_of_the_epoch_before) {
    Harness h;
    finalize_heights(h, 2);
    const Tip parent = h.chain->tip();
    const auto last = h.block(3, parent, h.chain->tip_certificate());
    const auto proof = h.certificate_with_me(finalize, 4, last.tip.hash);
    h.finalize(3, last);
    ASSERT_EQ(h.epoch.epoch, 1U);
    h.accept_missing_journal = true;
    h.listen_ms = 50;
    h.restart(false);
    h.start();
    h.receive(h.master(1), h.proposal(1, h.block(1, h.chain->tip(), encode(proof))));
    bool recorded = false;
    for (const auto& record : h.journal)
        if (record.kind == RecordKind::own_vote)
            recorded = recorded || decode_own_vote(record.payload)->vote == proof.vote();
    EXPECT_TRUE(recorded);
}

TEST(SdbftSigningFloor, an_accepted_missing_journal_listens_and_takes_over_what_it_hears_of_itself) {
    Harness h;
    h.listen_ms = 50;
    h.accept_missing_journal = true;
    h.restart(false);
    h.start();
    const auto made = h.first();
    h.receive(h.others()[0], h.proposal(1, made));
    h.pass(49);
    EXPECT_FALSE(h.core->status().signs);
    EXPECT_TRUE(votes_of(h).empty());
    const auto past = h.vote(h.me, notarize, 1, Hash32{{7}});  // of the life before
    h.receive(h.others()[0], past);
    h.pass(1);
    EXPECT_TRUE(h.core->status().signs);
    EXPECT_EQ(h.core->status().refuses_because, "");
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, made.tip.hash)});
    EXPECT_EQ(h.sent_votes(finalize, 1), 0U);
    expect_no_contradiction({past.vote}, votes_of(h));
    // It is in the journal now: the next start knows it without the operator's word.
    h.accept_missing_journal = false;
    h.restart();
    h.start();
    EXPECT_TRUE(h.core->status().signs);
    EXPECT_EQ(h.core->status().refuses_because, "");
}

TEST(SdbftSigningFloor, an_accepted_missing_journal_takes_over_votes_from_certificates_and_blocks) {
    for (const bool in_block : {false, true}) {
        Harness h;
        h.listen_ms = 50;
        h.accept_missing_journal = true;
        h.restart(false);
        h.start();
        const auto first = h.first();
        const auto proof = h.certificate_with_me(notarize, 1, first.tip.hash);
        h.forget();
        if (in_block)
            h.receive(h.others()[0], h.proposal(2, h.block(2, first.tip, encode(proof))));
        else
            h.receive(h.others()[0], CertificateMessage{proof});
        EXPECT_EQ(h.core->status().refuses_because, "") << in_block;
        bool recorded = false;
        for (const auto& record : h.journal)
            if (record.kind == RecordKind::own_vote)
                recorded = recorded || decode_own_vote(record.payload)->vote == proof.vote();
        EXPECT_TRUE(recorded) << in_block;
    }
}

TEST(SdbftSigningFloor, a_journal_older_than_the_tips_own_signature_is_as_good_as_none) {
    Harness h;
    const auto first = h.first();
    h.receive(h.master(1), h.proposal(1, first));
    const auto old_journal = h.journal;
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    (void)h.chain->commit(first.tip.hash, first.bytes, std::nullopt);
    const auto proof = h.certificate_with_me(finalize, 2, second.tip.hash);
    (void)h.chain->commit(second.tip.hash, second.bytes, proof);
    h.journal = old_journal;
    for (const bool accepted : {false, true}) {
        h.accept_missing_journal = accepted;
        h.restart();
        h.forget();
        h.start();
        EXPECT_EQ(h.core->status().view, 3U);
        EXPECT_EQ(h.core->status().refuses_because, accepted ? "" : "sdbft.no_journal");
        h.pass(60'000);
        // Of the views before, only what is on record is repeated.
        for (const auto& vote : votes_of(h)) EXPECT_TRUE(vote.view >= 3 || vote == proof.vote());
        EXPECT_EQ(votes_of(h).empty(), !accepted);
    }
}

TEST(SdbftSigningFloor, an_old_journal_under_a_tip_without_its_signature_starts_behind_the_tip) {
    Harness h;
    const auto first = h.first();
    h.receive(h.master(1), h.proposal(1, first));
    ASSERT_EQ(h.sent_votes(notarize, 1), 1U);
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    (void)h.chain->commit(first.tip.hash, first.bytes, std::nullopt);
    (void)h.chain->commit(second.tip.hash, second.bytes, std::nullopt);
    h.restart();
    h.forget();
    h.start();
    EXPECT_EQ(h.core->status().refuses_because, "");
    EXPECT_EQ(h.core->status().view, 3U);
    h.pass(60'000);
    for (const auto& vote : votes_of(h)) EXPECT_GE(vote.view, 3U);
}

TEST(SdbftSigningFloor, finalizes_a_later_view_than_its_own_and_then_nothing_before_it) {
    Harness h;
    const auto made = h.first(7);
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 7, made.tip.hash)});
    EXPECT_EQ(h.voted(finalize, 7), made.tip.hash);
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 3, Hash32{{3}})});
    h.receive(h.others()[0], h.vote(h.others()[0], nullify, 4));
    h.receive(h.others()[1], h.vote(h.others()[1], nullify, 4));
    for (const auto& vote : votes_of(h)) EXPECT_EQ(vote.view, 7U);
    EXPECT_FALSE(h.halt);
}

// Who moves a key to a machine where another has signed has not moved what the key signed.
TEST(SdbftSigningFloor, a_journal_of_another_key_or_chain_is_not_taken_for_this_ones) {
    const auto make = [](const Harness& h, std::size_t member, std::vector<Record> records,
                         std::uint64_t another_chain = 0) -> std::string {
        CoreSetup setup;
        setup.config.chain = {h.identity.genesis_hash, h.identity.chain_id + another_chain};
        setup.config.epoch_length = Harness::kEpochLength;
        setup.epoch = h.chain->epoch_setup();
        setup.tip = h.chain->tip();
        setup.tip_certificate = h.chain->tip_certificate();
        setup.journal_found = true;
        setup.records = std::move(records);
        const auto made =
            Core::make(std::move(setup), h.keys.signers[h.signer_of_member[member]].get(), *h.keys.scheme);
        return made ? "ok" : std::string(made.error().name);
    };
    Harness h;
    const std::size_t other = h.others()[0];
    h.receive(h.master(1), h.proposal(1, h.first()));
    ASSERT_EQ(h.sent_votes(notarize, 1), 1U);
    EXPECT_EQ(make(h, h.me, h.journal), "ok");
    EXPECT_EQ(make(h, other, h.journal), "journal.other_key");
    EXPECT_EQ(make(h, h.me, h.journal, 1), "journal.other_key");
    EXPECT_EQ(make(h, other, {}), "ok");
    // A later vote of its own does not hide it.
    const Vote later{nullify, 0, 9, {}};
    auto mixed = h.journal;
    mixed.push_back(record_of({later, h.signature(other, later)}));
    EXPECT_EQ(make(h, other, mixed), "journal.other_key");
    // A vote of an epoch that is over is a floor all the same.
    const auto old = h.journal;
    finalize_heights(h, 4);
    ASSERT_EQ(h.chain->epoch_setup().epoch, 1U);
    EXPECT_EQ(make(h, h.me, old), "ok");
    EXPECT_EQ(make(h, other, old), "journal.other_key");
    // Proposals are votes, too.
    Harness master(true);
    std::vector<Record> proposals;
    for (const auto& record : master.journal)
        if (record.kind == RecordKind::own_proposal) proposals.push_back(record);
    if (proposals.empty()) {
        master.pass(master.max_idle_ms);
        for (const auto& record : master.journal)
            if (record.kind == RecordKind::own_proposal) proposals.push_back(record);
    }
    ASSERT_EQ(proposals.size(), 1U);
    EXPECT_EQ(make(master, master.me, proposals), "ok");
    EXPECT_EQ(make(master, master.others()[0], proposals), "journal.other_key");
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
