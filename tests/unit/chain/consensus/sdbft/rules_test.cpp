#include <gtest/gtest.h>

#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

// Rule 1.
TEST(SdbftPropose, the_master_proposes_once_and_votes_for_its_block) {
    Harness h(true);
    h.pass(h.max_idle_ms);
    const auto proposals = h.sent<ProposeMessage>();
    ASSERT_EQ(proposals.size(), 1U);
    EXPECT_EQ(proposals[0].view, 1U);
    EXPECT_EQ(h.voted(notarize, 1), read_block(proposals[0].block)->hash);
    h.step(event::TransactionsWait{true});
    EXPECT_EQ(h.sent<ProposeMessage>().size(), 1U);
}

TEST(SdbftPropose, waits_less_when_transactions_do) {
    Harness h(true);
    h.pass(10);
    EXPECT_TRUE(h.sent<ProposeMessage>().empty());
    h.step(event::TransactionsWait{true});
    EXPECT_EQ(h.sent<ProposeMessage>().size(), 1U);
}

TEST(SdbftPropose, who_is_not_the_master_stays_silent) {
    Harness h;
    h.pass(h.max_idle_ms);
    EXPECT_TRUE(h.sent<ProposeMessage>().empty());
}

TEST(SdbftPropose, serves_the_nullifications_between_parent_and_block) {
    Harness h(true);
    std::uint64_t view = 2;
    while (h.master(view) != h.me) ++view;
    for (std::uint64_t v = 1; v < view; ++v) h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, v)});
    h.forget();
    h.pass(h.max_idle_ms);
    const auto proposals = h.sent<ProposeMessage>();
    ASSERT_EQ(proposals.size(), 1U);
    EXPECT_EQ(proposals[0].nullifications.size(), view - 1);
}

TEST(SdbftPropose, asks_for_the_certificates_it_lacks) {
    Harness h(true);
    std::uint64_t view = 3;
    while (h.master(view) != h.me) ++view;
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view - 1)});
    h.pass(h.max_idle_ms);
    EXPECT_TRUE(h.sent<ProposeMessage>().empty());
    ASSERT_FALSE(h.sent<CertificateQuery>().empty());
    EXPECT_EQ(h.sent<CertificateQuery>()[0].last_view, view - 2);
}

// Rule 2.
TEST(SdbftNotarize, votes_once_for_the_first_valid_proposal) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.voted(notarize, 1), made.tip.hash);
    h.receive(h.master(1), h.proposal(1, h.first(1, 10)));
    EXPECT_EQ(h.sent_votes(notarize, 1), 1U);
}

TEST(SdbftNotarize, never_after_its_own_nullify) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms);
    ASSERT_EQ(h.sent_votes(nullify, 1), 1U);
    h.receive(h.master(1), h.proposal(1, h.first()));
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
}

TEST(SdbftNotarize, refuses_what_another_member_proposes) {
    Harness h;
    auto message = h.proposal(1, h.first());
    const std::size_t other = (h.master(1) + 1) % 4;
    message.signature = h.signature(other, {propose, 0, 1, read_block(message.block)->hash});
    h.receive(other, message);
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.bad_signature"});
}

TEST(SdbftNotarize, refuses_what_the_executor_refuses) {
    Harness h;
    h.valid = false;
    h.receive(h.master(1), h.proposal(1, h.first()));
    EXPECT_EQ(h.validated.size(), 1U);
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"proposal.invalid_block"});
}

TEST(SdbftNotarize, waits_for_the_nullifications_between) {
    Harness h;
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 2)});
    ASSERT_EQ(h.core->status().view, 3U);
    const auto made = h.first(3);
    h.receive(h.master(3), h.proposal(3, made, {h.certificate(nullify, 2)}));
    EXPECT_EQ(h.sent_votes(notarize, 3), 0U);
    EXPECT_FALSE(h.sent<CertificateQuery>().empty());
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    EXPECT_EQ(h.voted(notarize, 3), made.tip.hash);
}

TEST(SdbftNotarize, refuses_a_body_that_is_not_the_headers) {
    Harness h;
    auto made = h.first();
    auto block = *types::decode_block(made.bytes);
    block.transactions.push_back(Bytes(11));
    made.bytes = types::encode(block);
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.bad_block"});
}

// Rule 10.
TEST(SdbftNotarize, waits_for_a_block_from_the_near_future_and_refuses_one_from_the_past) {
    Harness h;
    const auto made = h.block(1, h.genesis.tip(), {}, 9, h.now.wall_ms + params::kMaxFutureMs + 50);
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    h.pass(50);
    EXPECT_EQ(h.voted(notarize, 1), made.tip.hash);

    Harness past;
    past.receive(past.master(1),
                 past.proposal(1, past.block(1, past.genesis.tip(), {}, 9, past.genesis.tip().timestamp_ms)));
    EXPECT_EQ(past.misbehaved, std::vector<std::string_view>{"header.wrong_timestamp"});
}

// Rule 3.
TEST(SdbftFinalize, a_notarization_is_relayed_finalized_and_opens_the_next_view) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    std::size_t votes = 0;
    for (const auto member : h.others()) {
        if (votes++ < 2) h.receive(member, h.vote(member, notarize, 1, made.tip.hash));
    }
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.voted(finalize, 1), made.tip.hash);
    ASSERT_FALSE(h.sent<CertificateMessage>().empty());
    EXPECT_EQ(h.sent<CertificateMessage>().back().certificate.type, notarize);
}

TEST(SdbftFinalize, not_after_nullify) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms);
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, h.first().tip.hash)});
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.sent_votes(finalize, 1), 0U);
}

TEST(SdbftFinalize, not_after_notarizing_a_sibling) {
    Harness h;
    h.receive(h.master(1), h.proposal(1, h.first()));
    h.receive(h.others()[0], CertificateMessage{h.certificate(notarize, 1, h.first(1, 10).tip.hash)});
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.sent_votes(finalize, 1), 0U);
}

// Rule 4.
TEST(SdbftNullify, when_no_proposal_comes_and_later_when_no_certificate_does) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms - 1);
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U);
    h.pass(1);
    EXPECT_EQ(h.sent_votes(nullify, 1), 1U);

    Harness with_proposal;
    with_proposal.receive(with_proposal.master(1), with_proposal.proposal(1, with_proposal.first()));
    with_proposal.pass(with_proposal.max_idle_ms + 3 * with_proposal.delta_ms - 1);
    EXPECT_EQ(with_proposal.sent_votes(nullify, 1), 0U);
    with_proposal.pass(1);
    EXPECT_EQ(with_proposal.sent_votes(nullify, 1), 1U);
}

TEST(SdbftNullify, wants_to_be_woken_again_when_the_timer_came_early) {
    Harness h;
    const auto wake = h.wake;
    ASSERT_TRUE(wake);
    ASSERT_GT(*wake, h.now.monotonic_ms);
    h.wake.reset();
    h.step(event::TimePassed{});
    EXPECT_EQ(h.wake, wake);
}

TEST(SdbftNullify, joins_a_weak_quorum) {
    Harness h;
    h.receive(h.others()[0], h.vote(h.others()[0], nullify, 1));
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U);  // a quarter of the weight
    h.receive(h.others()[1], h.vote(h.others()[1], nullify, 1));
    EXPECT_EQ(h.sent_votes(nullify, 1), 1U);
    EXPECT_EQ(h.core->status().view, 2U);  // with its own vote it is a quorum (rule 5)
    EXPECT_EQ(h.sent<CertificateMessage>().back().certificate.type, nullify);
}

TEST(SdbftNullify, timers_grow_while_nothing_is_final_and_shrink_again) {
    EXPECT_EQ(backed_off(200, 0), 200U);
    EXPECT_EQ(backed_off(200, 2), 450U);
    EXPECT_EQ(backed_off(200, 1000), kMaxTimerMs);
    Pacemaker pacemaker(100, 0);
    pacemaker.enter(1, 0, 0);
    pacemaker.enter(2, 0, 0);
    EXPECT_EQ(pacemaker.proposal_at(), 200U);
    pacemaker.enter(3, 0, 0);
    pacemaker.enter(4, 0, 0);
    EXPECT_EQ(pacemaker.proposal_at(), 450U);
    pacemaker.finalized_view(4);
    pacemaker.enter(5, 4, 0);
    EXPECT_EQ(pacemaker.proposal_at(), 300U);
}

// Who was away comes into the view of the others before it knows what is final; they may need its vote to leave it.
TEST(SdbftNullify, timers_of_who_was_away_are_those_of_the_others_once_it_knows_what_is_final) {
    Pacemaker pacemaker(100, 0);
    pacemaker.enter(1, 0, 0);
    pacemaker.enter(14, 1, 50);
    pacemaker.enter(15, 1, 60);
    EXPECT_EQ(pacemaker.steps(), 12U);
    EXPECT_EQ(pacemaker.advance_at(), 60U + backed_off(300, 12));
    pacemaker.finalized_view(13);
    EXPECT_EQ(pacemaker.advance_at(), 360U);
    EXPECT_EQ(pacemaker.proposal_at(), 260U);
    EXPECT_LE(pacemaker.repeat_at(), 360U);
    // What is really far from the last finalized view stays far, and what was learnt before is not forgotten.
    pacemaker.enter(30, 13, 1'000);
    EXPECT_EQ(pacemaker.steps(), 15U);
    pacemaker.finalized_view(22);
    EXPECT_EQ(pacemaker.advance_at(), 1'000U + backed_off(300, 6));
    pacemaker.enter(32, 22, 2'000);
    pacemaker.finalized_view(31);
    EXPECT_EQ(pacemaker.advance_at(), 2'000U + backed_off(300, 5));
}

TEST(SdbftNullify, repeats_its_votes_and_what_opened_the_view_while_stuck) {
    Harness h;
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 1)});
    h.pass(h.max_idle_ms + 3 * h.delta_ms);
    h.forget();
    h.pass(3 * h.delta_ms + 1);
    EXPECT_EQ(h.sent_votes(nullify, 2), 1U);
    ASSERT_FALSE(h.sent<CertificateMessage>().empty());
    EXPECT_EQ(h.sent<CertificateMessage>()[0].certificate, h.certificate(nullify, 1));
}

// Rule 6.
TEST(SdbftCommit, a_finalization_commits_the_block_and_its_ancestors) {
    Harness h;
    const auto first = h.first();
    h.receive(h.master(1), h.proposal(1, first));
    const auto notarization = h.certificate(notarize, 1, first.tip.hash);
    h.receive(h.others()[0], CertificateMessage{notarization});
    const auto second = h.block(2, first.tip, encode(notarization));
    h.receive(h.master(2), h.proposal(2, second));
    EXPECT_EQ(h.voted(notarize, 2), second.tip.hash);
    EXPECT_EQ(h.chain->height(), 0U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 2, second.tip.hash)});
    EXPECT_EQ(h.chain->height(), 2U);
    EXPECT_EQ(h.core->status().last_finalized_view, 2U);
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

// Rule 7.
TEST(SdbftJournal, nothing_leaves_before_it_is_durable) {
    Harness h;
    h.auto_sync = false;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    h.pass(h.max_idle_ms + 10 * h.delta_ms);  // nor by a repetition
    EXPECT_EQ(h.sent_votes(notarize, 1), 0U);
    h.sync();
    EXPECT_EQ(h.sent_votes(notarize, 1), 1U);
    bool has_body = false;
    for (const auto& record : h.journal) has_body = has_body || record.payload == made.bytes;
    EXPECT_TRUE(has_body);
}

TEST(SdbftJournal, the_same_votes_go_out_after_a_restart_and_no_others) {
    Harness h;
    const auto made = h.first();
    h.receive(h.master(1), h.proposal(1, made));
    const auto before = h.sent<VoteMessage>().back();
    h.restart();
    h.forget();
    h.start();
    ASSERT_EQ(h.sent<VoteMessage>().size(), 1U);
    EXPECT_EQ(h.sent<VoteMessage>()[0], before);
    h.receive(h.master(1), h.proposal(1, h.first(1, 10)));
    EXPECT_EQ(h.voted(notarize, 1), made.tip.hash);
}

TEST(SdbftJournal, votes_from_before_a_restart_still_count) {
    Harness h;
    h.pass(h.max_idle_ms + 2 * h.delta_ms);
    ASSERT_EQ(h.sent_votes(nullify, 1), 1U);
    h.restart();
    h.start();
    h.receive(h.others()[0], h.vote(h.others()[0], nullify, 1));
    EXPECT_EQ(h.core->status().view, 1U);
    h.receive(h.others()[1], h.vote(h.others()[1], nullify, 1));
    EXPECT_EQ(h.core->status().view, 2U);
}

TEST(SdbftJournal, a_master_proposes_the_same_block_after_a_restart) {
    Harness h(true);
    h.pass(h.max_idle_ms);
    const auto before = h.sent<ProposeMessage>().at(0);
    h.restart();
    h.forget();
    h.start();
    h.pass(h.max_idle_ms);
    for (const auto& message : h.sent<ProposeMessage>()) EXPECT_EQ(message, before);
    EXPECT_FALSE(h.sent<ProposeMessage>().empty());
}

TEST(SdbftJournal, without_it_a_validator_of_a_chain_that_is_not_fresh_signs_nothing) {
    Harness h;
    h.finalize(1, h.first());
    ASSERT_EQ(h.chain->height(), 1U);
    h.restart(false);
    h.forget();
    h.start();
    EXPECT_EQ(h.core->status().refuses_because, "sdbft.no_journal");
    h.pass(60'000);
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
}

TEST(SdbftJournal, is_rewritten_with_what_is_still_needed) {
    Harness h;
    h.rewrite_bytes = 100;
    h.restart();
    h.start();
    h.finalize(1, h.first());
    EXPECT_GE(h.rewrites, 1U);
    h.restart();
    EXPECT_EQ(h.core->status().view, 2U);
    EXPECT_EQ(h.core->status().last_finalized_view, 1U);
}

TEST(SdbftPeers, each_wrong_has_a_kind) {
    using action::Wrong;
    Harness h;
    h.step(event::Received{h.others()[0], Bytes{1, 2, 3}});
    h.receive(h.others()[0], CertificateQuery{0, 1, 1000});
    auto forged = h.vote(h.others()[0], nullify, 1);
    forged.signature.data[0] ^= 1;
    h.receive(h.others()[0], forged);
    auto certificate = h.certificate(nullify, 1);
    certificate.signatures[0].data[0] ^= 1;
    h.receive(h.others()[0], CertificateMessage{certificate});
    h.valid = false;
    h.receive(h.master(1), h.proposal(1, h.first()));
    EXPECT_EQ(h.wrongs,
              (std::vector<Wrong>{Wrong::form, Wrong::form, Wrong::consensus, Wrong::consensus, Wrong::block}));
}

TEST(SdbftJournal, stops_signing_when_somebody_else_uses_the_key) {
    Harness h;
    h.receive(h.others()[0], h.proposal(1, h.first()));
    ASSERT_EQ(h.sent_votes(notarize, 1), 1U);
    h.receive(h.others()[0], h.vote(h.me, nullify, 1));
    EXPECT_EQ(h.core->status().refuses_because, "sdbft.other_signer");
    h.forget();
    h.pass(60'000);
    EXPECT_EQ(h.sent_votes(nullify, 1), 0U);
}

TEST(SdbftJournal, a_key_without_history_listens_before_it_signs) {
    Harness h;
    h.listen_ms = 50;
    h.restart();
    h.start();
    h.receive(h.others()[0], h.proposal(1, h.first()));
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
    EXPECT_FALSE(h.core->status().signs);
    h.pass(49);
    EXPECT_TRUE(h.sent<VoteMessage>().empty());
    h.pass(1);
    EXPECT_EQ(h.sent_votes(notarize, 1), 1U);
    EXPECT_TRUE(h.core->status().signs);
}

TEST(SdbftJournal, a_key_without_history_listens_longer_where_the_chain_moves_but_not_forever) {
    Harness h;
    h.listen_ms = 50;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= kBlankStartCertificates; ++view) {
        h.pass(49);
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    }
    h.pass(49);
    EXPECT_FALSE(h.core->status().signs);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, kBlankStartCertificates + 1)});
    h.pass(1);
    EXPECT_TRUE(h.core->status().signs);
}

TEST(SdbftJournal, a_key_without_history_that_sees_its_own_signature_signs_nothing) {
    for (const bool in_block : {false, true}) {
        Harness h;
        h.listen_ms = 50;
        h.restart();
        h.start();
        const auto first = h.first();
        const auto proof = h.certificate_with_me(notarize, 1, first.tip.hash);
        if (in_block)
            h.receive(h.others()[0], h.proposal(2, h.block(2, first.tip, encode(proof))));
        else
            h.receive(h.others()[0], CertificateMessage{proof});
        EXPECT_EQ(h.core->status().refuses_because, "sdbft.no_journal") << in_block;
        h.pass(60'000);
        EXPECT_TRUE(h.sent<VoteMessage>().empty());
    }
}

TEST(SdbftJournal, nobody_can_make_up_the_signature_that_silences_a_new_key) {
    Harness h;
    h.listen_ms = 50;
    h.restart();
    h.start();
    const auto first = h.first();
    auto forged = h.certificate_with_me(notarize, 1, first.tip.hash);
    for (auto& signature : forged.signatures) signature.data[3] ^= 1;
    h.receive(h.others()[0], h.proposal(2, h.block(2, first.tip, encode(forged))));
    EXPECT_EQ(h.core->status().refuses_because, "");
    h.pass(50);
    EXPECT_TRUE(h.core->status().signs);
}

TEST(SdbftJournal, keeps_a_vote_when_it_is_rewritten_so_that_the_key_has_a_history) {
    Harness h;
    h.rewrite_bytes = 1;
    h.listen_ms = 50;
    h.restart();
    h.start();
    h.pass(50);
    for (std::uint64_t view = 1; view <= 2; ++view)
        h.finalize(view, view == 1 ? h.first() : h.block(view, h.chain->tip(), h.chain->tip_certificate()));
    ASSERT_GE(h.rewrites, 1U);
    h.restart();
    h.start();
    EXPECT_TRUE(h.core->status().signs);
}

// Rule 8.
TEST(SdbftCatchUp, a_certificate_of_a_later_view_moves_the_node_there) {
    Harness h;
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 40)});
    EXPECT_EQ(h.core->status().view, 41U);
    h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, 7)});
    EXPECT_EQ(h.core->status().view, 41U);
}

TEST(SdbftCatchUp, fetches_the_body_of_a_final_block) {
    Harness h;
    const auto made = h.first();
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 1, made.tip.hash)});
    h.pass(h.delta_ms);
    ASSERT_FALSE(h.asked_blocks.empty());
    EXPECT_EQ(h.asked_blocks[0].hash, made.tip.hash);
    h.receive(h.others()[1], BlockAnswer{made.bytes});
    EXPECT_EQ(h.chain->height(), 1U);
}

TEST(SdbftCatchUp, takes_ranges_under_a_finalization_and_refuses_others) {
    Harness h;
    const auto first = h.first();
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    RangeAnswer answer{2, {first.bytes, second.bytes}, h.certificate(notarize, 2, second.tip.hash)};
    h.receive(h.others()[0], answer);
    EXPECT_EQ(h.chain->height(), 0U);
    answer.certificate = h.certificate(finalize, 2, first.tip.hash);
    h.receive(h.others()[0], answer);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.bad_range"});
    answer.certificate = h.certificate(finalize, 2, second.tip.hash);
    h.receive(h.others()[0], answer);
    EXPECT_EQ(h.chain->height(), 2U);
    EXPECT_EQ(h.core->status().view, 3U);
}

TEST(SdbftCatchUp, refuses_forged_certificates) {
    Harness h;
    auto forged = h.certificate(nullify, 3);
    forged.signatures[0].data[0] = static_cast<std::uint8_t>(forged.signatures[0].data[0] ^ 1);
    h.receive(h.others()[0], CertificateMessage{forged});
    auto few = h.certificate(nullify, 3);
    few.bitmap[0] = static_cast<std::uint8_t>(few.bitmap[0] & (few.bitmap[0] - 1));
    few.signatures.erase(few.signatures.begin());
    h.receive(h.others()[0], CertificateMessage{few});
    EXPECT_EQ(h.core->status().view, 1U);
    EXPECT_EQ(h.misbehaved, (std::vector<std::string_view>{"certificate.bad_signature", "certificate.no_quorum"}));
}

// Rule 9.
TEST(SdbftEpoch, the_last_block_is_proposed_again_until_it_is_final_and_then_opens_the_next_epoch) {
    Harness h;
    Tip parent = h.genesis.tip();
    Bytes certificate;
    std::uint64_t view = 1;
    for (; view < Harness::kEpochLength - 1; ++view) {  // heights 1, 2
        const auto made = h.block(view, parent, certificate);
        h.finalize(view, made);
        parent = made.tip;
        certificate = encode(h.certificate(finalize, view, made.tip.hash));
    }
    ASSERT_EQ(h.chain->height(), 2U);
    const auto last = h.block(view, parent, certificate);
    h.receive(h.others()[0], h.proposal(view, last));
    const auto notarization = h.certificate(notarize, view, last.tip.hash);
    h.receive(h.others()[0], CertificateMessage{notarization});
    ASSERT_EQ(h.core->status().view, view + 1);
    // A child in the same epoch is refused.
    const auto child = h.block(view + 1, last.tip, encode(notarization));
    if (h.master(view + 1) != h.me) {
        h.receive(h.others()[0], h.proposal(view + 1, child));
        EXPECT_EQ(h.sent_votes(notarize, view + 1), 0U);
        EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"header.wrong_epoch"});
        // So is another proposal of the view; the next master proposes the same block again.
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view + 1)});
    } else {
        h.pass(1);
        ASSERT_EQ(h.sent<ProposeMessage>().size(), 1U);
        EXPECT_EQ(h.sent<ProposeMessage>()[0].block, last.bytes);
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view + 1)});
    }
    if (h.master(view + 2) != h.me)
        h.receive(h.others()[0], h.proposal(view + 2, last, {h.certificate(nullify, view + 1)}, notarization));
    EXPECT_EQ(h.voted(notarize, view + 2), last.tip.hash);
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, view + 2, last.tip.hash)});
    EXPECT_EQ(h.chain->height(), 3U);
    EXPECT_EQ(h.core->status().epoch, 1U);
    EXPECT_EQ(h.core->status().view, 1U);
    EXPECT_FALSE(h.halt);
}

// Evidence and limits.
TEST(SdbftEvidence, each_slashable_pair_is_found_once) {
    Harness h;
    const std::size_t liar = h.others()[0];
    h.receive(liar, h.vote(liar, notarize, 1, Hash32{{1}}));
    h.receive(liar, h.vote(liar, nullify, 1));
    EXPECT_TRUE(h.evidence.empty());  // legal
    h.receive(liar, h.vote(liar, notarize, 1, Hash32{{2}}));
    ASSERT_EQ(h.evidence.size(), 1U);
    EXPECT_TRUE(check_evidence(h.evidence[0], h.identity, *h.keys.scheme));
    h.receive(liar, h.vote(liar, notarize, 1, Hash32{{3}}));
    EXPECT_EQ(h.evidence.size(), 1U);
    const std::size_t other = h.others()[1];
    h.receive(other, h.vote(other, finalize, 2, Hash32{{1}}));
    h.receive(other, h.vote(other, nullify, 2));
    EXPECT_EQ(h.evidence.size(), 2U);
}

TEST(SdbftEvidence, two_proposals_convict_the_master) {
    Harness h;
    h.receive(h.master(1), h.proposal(1, h.first(1, 9)));
    h.receive(h.master(1), h.proposal(1, h.first(1, 10)));
    ASSERT_EQ(h.evidence.size(), 1U);
    EXPECT_EQ(h.evidence[0].first.type, propose);
}

TEST(SdbftLimits, views_long_before_the_last_final_one_are_forgotten) {
    Harness h;
    h.limits.kept_final_views = 3;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= 20; ++view)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    ASSERT_GE(h.core->status().views_kept, 20U);
    h.finalize(21, h.first(21));
    ASSERT_EQ(h.core->status().last_finalized_view, 21U);
    EXPECT_EQ(h.core->status().views_kept, 3U + 1);
}

TEST(SdbftLimits, views_far_ahead_and_unknown_members_take_no_memory) {
    Harness h;
    const std::size_t views = h.core->status().views_kept;
    for (std::uint64_t view = kMaxFutureViews + 2; view < 1000; ++view)
        h.receive(h.others()[0], h.vote(h.others()[0], nullify, view));
    EXPECT_LE(h.core->status().views_kept, views);
    auto stranger = h.vote(h.others()[0], nullify, 1);
    stranger.member = 9;
    h.receive(h.others()[0], stranger);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"sdbft.unknown_member"});
    h.receive(h.others()[0], BlockAnswer{h.first().bytes});  // never asked for
    EXPECT_EQ(h.core->status().blocks_kept, 0U);
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
