// A key without records signs nothing before a quorum of the members has said what it heard of it, however late its
// votes came to them and however late the connection to them does.
#include <gtest/gtest.h>

#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

// A key whose journal holds no vote, among members that do not answer by themselves.
struct Blank : Harness {
    explicit Blank(bool accepts = false) {
        listen_ms = 50;
        members_answer = false;
        accept_missing_journal = accepts;
        restart(!accepts);
        forget();
        start();
    }
    [[nodiscard]] crypto::PublicKey key() const { return epoch.committee.members()[me].key; }
    void answer(std::size_t member, const std::optional<VoteMessage>& newest = std::nullopt) {
        VoteAnswer said{chain->epoch_setup().epoch, key(), std::nullopt};
        if (newest) said.newest = VoteAnswer::Signed{newest->vote, newest->signature};
        receive(member, said);
    }
};

TEST(SdbftListening, ends_with_a_quorums_answers_and_not_before_the_connection_is_there) {
    Blank h;
    h.receive(h.others()[0], h.proposal(1, h.first()));
    for (int i = 0; i < 3; ++i)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, static_cast<std::uint64_t>(i + 1))});
    h.pass(60'000);
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
    // It asks again and again: who connects late hears it.
    EXPECT_GE(h.sent<VoteQuery>().size(), 60'000 / h.delta_ms / 2);
    EXPECT_LE(h.sent<VoteQuery>().size(), 60'000 / h.delta_ms + 2);
    h.answer(h.others()[0]);
    h.pass(1'000);
    EXPECT_FALSE(h.core->status().signs);  // two of four
    h.answer(h.others()[0]);
    h.pass(1'000);
    EXPECT_FALSE(h.core->status().signs);  // the same once more
    h.answer(h.others()[1]);
    h.pass(49);
    EXPECT_FALSE(h.core->status().signs);
    h.pass(1);
    EXPECT_TRUE(h.core->status().signs);
    const auto asked = h.sent<VoteQuery>().size();
    h.pass(10'000);
    EXPECT_EQ(h.sent<VoteQuery>().size(), asked);
}

TEST(SdbftListening, a_key_that_is_a_quorum_by_itself_asks_nobody) {
    Blank h;
    h.genesis.stake[h.signer_of_member[h.me]] = 1000;
    h.genesis.ceiling = h.genesis.floor = h.genesis.stake;
    h.chain = std::make_unique<sim::LightChain>(h.genesis);
    h.restart();
    h.forget();
    h.start();
    EXPECT_FALSE(h.core->status().signs);
    h.pass(50);
    EXPECT_TRUE(h.core->status().signs);
    EXPECT_TRUE(h.sent<VoteQuery>().empty());
}

TEST(SdbftListening, a_vote_of_its_key_in_an_answer_silences_it_for_good) {
    Blank h;
    const auto past = h.vote(h.me, notarize, 1, Hash32{{7}});
    h.answer(h.others()[0], past);
    EXPECT_EQ(h.core->status().refuses_because, "sdbft.no_journal");
    for (const auto member : h.others()) h.answer(member);
    h.pass(60'000);
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
}

TEST(SdbftListening, nobody_can_make_up_the_answer_that_silences_a_new_key_nor_give_it_for_others) {
    Blank h;
    auto forged = h.vote(h.me, notarize, 1, Hash32{{7}});
    forged.signature.data[5] ^= 1;
    h.answer(h.others()[0], forged);
    EXPECT_EQ(h.core->status().refuses_because, "");
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.bad_signature"});
    // Such an answer does not count, nor do one about another key and those of strangers or of its own key.
    h.answer(h.others()[1]);
    h.receive(h.others()[2], VoteAnswer{0, h.epoch.committee.members()[h.others()[1]].key, std::nullopt});
    h.step(event::Received{77, encode(VoteAnswer{0, h.key(), std::nullopt})});
    h.answer(h.me);
    h.pass(1'000);
    EXPECT_FALSE(h.core->status().signs);
    h.answer(h.others()[2]);
    h.pass(50);
    EXPECT_TRUE(h.core->status().signs);
}

TEST(SdbftListening, an_accepted_missing_journal_takes_over_what_it_is_told) {
    Blank h(true);
    const auto past = h.vote(h.me, nullify, 1);
    h.answer(h.others()[0], past);
    h.answer(h.others()[1]);
    h.pass(50);
    EXPECT_TRUE(h.core->status().signs);
    EXPECT_EQ(h.core->status().refuses_because, "");
    const auto made = h.first();
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, made.tip.hash)});
    EXPECT_EQ(h.sent_votes(finalize, 1), 0U);
    EXPECT_FALSE(h.halt);
}

TEST(SdbftListening, members_in_an_earlier_epoch_cannot_speak_of_this_one) {
    Blank h;
    while (h.chain->epoch_setup().epoch == 0) {
        const Tip parent = h.chain->tip();
        h.finalize(parent.number + 1, h.block(parent.number + 1, parent, h.chain->tip_certificate()));
    }
    for (const auto member : h.others()) h.receive(member, VoteAnswer{0, h.key(), std::nullopt});
    h.pass(10'000);
    EXPECT_FALSE(h.core->status().signs);
    for (const auto member : h.others()) h.receive(member, VoteAnswer{1, h.key(), std::nullopt});
    h.pass(10'000);
    EXPECT_TRUE(h.core->status().signs);
}

// A new disk that loads the chain from its first block is a member of old epochs again. What its key signed there
// nobody remembers but those who mean it harm.
TEST(SdbftListening, members_who_are_two_epochs_further_cannot_speak_of_this_one_any_more) {
    Blank h;
    const auto say = [&](std::uint64_t epoch) {
        for (const auto member : h.others()) h.receive(member, VoteAnswer{epoch, h.key(), std::nullopt});
        h.pass(60'000);
    };
    say(1'000);
    say(2);
    EXPECT_FALSE(h.core->status().signs);
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
    // Others may say what they will, it is the newest that each has said.
    h.restart();
    h.forget();
    h.start();
    say(1);
    EXPECT_TRUE(h.core->status().signs);
}

// A whole disk that was put back: journal and database agree with each other, and others know better.
struct Copied : Harness {
    explicit Copied(bool old) {
        receive(master(1), proposal(1, first()));
        const auto before = journal;
        receive(others()[0], CertificateMessage{certificate(notarize, 1, first().tip.hash)});
        newest = vote(me, VoteType::finalize, 1, first().tip.hash);
        if (old) journal = before;
        listen_ms = 50;
        members_answer = false;
        restart();
        forget();
        start();
    }
    void answer(std::size_t member, bool knows) {
        VoteAnswer said{0, epoch.committee.members()[me].key, std::nullopt};
        if (knows) said.newest = VoteAnswer::Signed{newest.vote, newest.signature};
        receive(member, said);
    }
    VoteMessage newest;
};

TEST(SdbftListening, a_key_with_records_signs_when_a_quorum_knows_of_none_that_is_newer) {
    Copied h(false);
    h.pass(10'000);
    EXPECT_EQ(h.sent_votes(nullify, 2), 0U);
    EXPECT_FALSE(h.core->status().signs);
    h.answer(h.others()[0], true);
    EXPECT_FALSE(h.core->status().signs);
    // Its own votes are not under way: it waits no longer than for the answers.
    h.answer(h.others()[1], false);
    EXPECT_TRUE(h.core->status().signs);
    EXPECT_EQ(h.core->status().refuses_because, "");
    h.pass(10'000);
    EXPECT_GE(h.sent_votes(nullify, 2), 1U);
}

TEST(SdbftListening, a_key_whose_records_are_older_than_what_others_heard_signs_nothing) {
    Copied h(true);
    h.pass(10'000);
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U) << "it has signed FINALIZE there";
    h.answer(h.others()[0], false);
    h.answer(h.others()[1], true);
    h.answer(h.others()[2], false);
    h.pass(60'000);
    EXPECT_EQ(h.core->status().refuses_because, "sdbft.other_signer");
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U);
    EXPECT_TRUE(h.journal.size() > 0);
}

TEST(SdbftListening, asks_anew_in_each_epoch_in_which_it_has_not_signed) {
    Blank h;
    for (const auto member : h.others()) h.answer(member);
    while (h.chain->epoch_setup().epoch == 0) {
        const Tip parent = h.chain->tip();
        h.finalize(parent.number + 1, h.block(parent.number + 1, parent, h.chain->tip_certificate()));
    }
    ASSERT_TRUE(h.sent<VoteMessage>().empty());
    h.pass(10'000);
    EXPECT_FALSE(h.core->status().signs);
    for (const auto member : h.others()) h.answer(member);
    h.pass(10'000);
    EXPECT_TRUE(h.core->status().signs);
}

// What a member answers about another's key.
std::optional<Vote> told(Harness& h, std::size_t about) {
    h.forget();
    h.receive(h.others()[0], VoteQuery{h.epoch.committee.members()[about].key});
    const auto answers = h.sent<VoteAnswer>();
    if (answers.size() != 1 || !answers[0].newest) return std::nullopt;
    EXPECT_EQ(h.answers.back().first, h.others()[0]);
    EXPECT_EQ(answers[0].key, h.epoch.committee.members()[about].key);
    EXPECT_EQ(answers[0].epoch, h.epoch.epoch);
    const auto& [vote, signature] = *answers[0].newest;
    EXPECT_TRUE(h.keys.scheme->verify(vote_digest(h.identity, vote), signature, answers[0].key));
    return vote;
}

TEST(SdbftListening, a_member_tells_the_newest_vote_that_it_has_heard) {
    Harness h;
    const auto about = h.others()[1];
    EXPECT_FALSE(told(h, about));
    const auto first = h.vote(about, nullify, 2);
    h.receive(about, first);
    EXPECT_EQ(told(h, about), first.vote);
    h.receive(about, h.vote(about, notarize, 2, Hash32{{1}}));
    EXPECT_EQ(told(h, about), first.vote);  // that one is older
    const auto later = h.certificate(nullify, 5);
    h.receive(h.others()[0], CertificateMessage{later});
    EXPECT_EQ(told(h, about), later.vote());
    auto forged = h.vote(about, nullify, 9);
    forged.signature.data[1] ^= 1;
    h.receive(h.others()[0], forged);
    EXPECT_EQ(told(h, about), later.vote());
    // A proposal is one too.
    const auto master = h.master(6);
    if (master != h.me) {
        const auto made = h.block(6, h.genesis.tip(), {});
        h.receive(master, h.proposal(6, made));
        EXPECT_EQ(told(h, master), (Vote{propose, 0, 6, made.tip.hash}));
    }
}

TEST(SdbftListening, a_vote_that_comes_when_its_view_is_long_over_is_told_too) {
    Harness h;
    h.limits.kept_vote_views = 4;
    h.restart();
    h.start();
    const auto about = h.others()[2];
    for (std::uint64_t view = 1; view <= 12; ++view) {
        const Vote vote{nullify, 0, view, {}};
        std::vector<std::pair<std::size_t, Signature>> without;
        for (std::size_t member = 0; member < 4; ++member)
            if (member != about) without.emplace_back(member, h.signature(member, vote));
        h.receive(h.others()[0], CertificateMessage{make_certificate(vote, h.epoch.committee, without)});
    }
    EXPECT_FALSE(told(h, about));
    const auto late = h.vote(about, nullify, 3);
    auto forged = h.vote(about, nullify, 4);
    forged.signature.data[1] ^= 1;
    h.receive(h.others()[0], forged);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.bad_signature"});
    EXPECT_FALSE(told(h, about));
    h.receive(h.others()[0], late);
    EXPECT_EQ(told(h, about), late.vote);
}

TEST(SdbftListening, votes_of_the_epoch_before_are_told_too_even_those_that_come_now) {
    Harness h;
    const auto about = h.others()[1];
    const auto silent = [&](VoteType type, std::uint64_t view, const Hash32& hash) {
        const Vote vote{type, 0, view, hash};
        std::vector<std::pair<std::size_t, Signature>> signatures;
        for (std::size_t member = 0; member < 4; ++member)
            if (member != about) signatures.emplace_back(member, h.signature(member, vote));
        return make_certificate(vote, h.epoch.committee, signatures);
    };
    h.restart();  // its own votes count as another's here
    h.start();
    const auto late = h.vote(about, nullify, 2);
    std::uint64_t view = 1;
    while (h.chain->epoch_setup().epoch == 0) {
        if (h.master(view) == about) {
            h.receive(h.others()[0], CertificateMessage{silent(nullify, view, {})});
            ++view;
            continue;
        }
        const auto made = h.block(view, h.chain->tip(), h.chain->tip_certificate());
        h.receive(h.others()[0], CertificateMessage{silent(finalize, view, made.tip.hash)});
        h.receive(h.others()[0], BlockAnswer{made.bytes});
        (void)h.world->commit(made.tip.hash, made.bytes, silent(finalize, view, made.tip.hash));
        ++view;
    }
    h.epoch = h.chain->epoch_setup();
    EXPECT_FALSE(told(h, about));
    h.receive(h.others()[0], late);
    EXPECT_EQ(told(h, about), late.vote);
    const auto now = h.vote(about, nullify, 1);
    ASSERT_EQ(now.vote.epoch, 1U);
    h.receive(about, now);
    EXPECT_EQ(told(h, about), now.vote);
}

TEST(SdbftListening, what_ended_the_epoch_before_is_told_after_a_restart) {
    Harness h;
    const auto about = h.others()[0];
    std::uint64_t view = 1;
    for (; h.chain->epoch_setup().epoch == 0; ++view)
        h.finalize(view, h.block(view, h.chain->tip(), h.chain->tip_certificate()));
    const Hash32 last = h.chain->tip().hash;
    h.restart();
    h.start();
    h.epoch = h.chain->epoch_setup();
    EXPECT_EQ(told(h, about), (Vote{finalize, 0, view - 1, last}));
}

TEST(SdbftListening, what_certificates_of_the_journal_hold_is_told_after_a_restart) {
    Harness h;
    const auto about = h.others()[0];
    h.receive(about, CertificateMessage{h.certificate(nullify, 1)});
    h.restart();
    h.start();
    EXPECT_EQ(told(h, about), (Vote{nullify, 0, 1, {}}));
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
