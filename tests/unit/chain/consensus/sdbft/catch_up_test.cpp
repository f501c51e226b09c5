// What the core asks for, of whom, and how often.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness.h"

namespace quern::chain::consensus::sdbft {
namespace {

using enum VoteType;

std::size_t asked_of(const Harness& h, PeerId peer) {
    std::size_t count = 0;
    for (const auto& question : h.asked_ranges) count += question.peer == peer ? 1U : 0U;
    for (const auto& question : h.asked_blocks) count += question.peer == peer ? 1U : 0U;
    return count;
}

TEST(SdbftAsking, what_nobody_verified_is_a_reason_to_ask_but_does_not_say_whom) {
    Harness h;
    const std::size_t stranger = 77;
    h.pass(h.delta_ms);
    h.forget();  // what a start asks
    auto vote = h.vote(h.others()[0], nullify, 1);
    vote.vote.epoch = 1;
    h.receive(stranger, vote);
    h.receive(stranger, CertificateMessage{[&] {
                  auto certificate = h.certificate(nullify, 1);
                  certificate.epoch = 9;
                  return certificate;
              }()});
    ASSERT_EQ(h.asked_ranges.size(), 1U);
    EXPECT_EQ(h.asked_ranges[0].first_height, 1U);
    EXPECT_EQ(asked_of(h, stranger), 0U);
}

TEST(SdbftAsking, a_flood_of_later_epochs_asks_once_in_a_delta) {
    Harness h;
    h.pass(h.delta_ms);
    h.forget();
    auto vote = h.vote(h.others()[0], nullify, 1);
    for (std::uint64_t epoch = 1; epoch <= 50; ++epoch) {
        vote.vote.epoch = epoch;
        h.receive(70 + epoch, vote);
    }
    EXPECT_EQ(h.asked_ranges.size(), 1U);
    h.pass(h.delta_ms);
    h.receive(70, vote);
    EXPECT_EQ(h.asked_ranges.size(), 2U);
}

TEST(SdbftAsking, a_range_earns_its_giver_one_more_question_whatever_it_claims_to_have) {
    Harness h;
    const std::size_t boaster = 77;
    const auto first = h.first();
    h.receive(boaster, RangeAnswer{~std::uint64_t{0}, {first.bytes}, h.certificate(finalize, 1, first.tip.hash)});
    ASSERT_EQ(h.chain->height(), 1U);
    EXPECT_EQ(asked_of(h, boaster), 1U);
    h.forget();
    h.pass(h.delta_ms);
    const auto second = h.block(2, first.tip, encode(h.certificate(finalize, 1, first.tip.hash)));
    h.finalize(2, second);
    ASSERT_EQ(h.chain->height(), 2U);
    EXPECT_EQ(asked_of(h, boaster), 0U);
}

TEST(SdbftAsking, a_range_is_committed_although_the_newest_final_block_is_far_away) {
    Harness h;
    const auto first = h.first();
    const auto second = h.block(2, first.tip, encode(h.certificate(finalize, 1, first.tip.hash)));
    const auto third = h.block(9, second.tip, encode(h.certificate(finalize, 2, second.tip.hash)));
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 9, third.tip.hash)});
    const auto closing = h.certificate(finalize, 2, second.tip.hash);
    h.receive(77, RangeAnswer{2, {first.bytes, second.bytes}, closing});
    ASSERT_EQ(h.chain->height(), 2U);
    EXPECT_EQ(std::count(h.kept.begin(), h.kept.end(), closing), 1) << "others will ask for it";
    h.receive(77, BlockAnswer{third.bytes});
    EXPECT_EQ(h.chain->height(), 3U);
}

TEST(SdbftAsking, who_gave_a_block_is_asked_for_its_parent_first) {
    Harness h;
    const auto first = h.first();
    const auto second = h.block(2, first.tip, encode(h.certificate(notarize, 1, first.tip.hash)));
    const std::size_t giver = 77;
    h.receive(h.others()[0], CertificateMessage{h.certificate(finalize, 2, second.tip.hash)});
    h.forget();
    h.receive(giver, BlockAnswer{second.bytes});
    ASSERT_EQ(h.asked_blocks.size(), 1U);
    EXPECT_EQ(h.asked_blocks[0].hash, first.tip.hash);
    EXPECT_EQ(h.asked_blocks[0].peer, giver);
    h.pass(h.delta_ms);  // it does not answer
    ASSERT_EQ(h.asked_blocks.size(), 2U);
    EXPECT_EQ(h.asked_blocks[1].peer, std::nullopt);
}

TEST(SdbftHelping, each_peer_is_helped_once_in_a_delta_however_many_there_are) {
    Harness h;
    h.limits.peers_helped = 3;
    h.restart();
    h.start();
    for (std::uint64_t view = 1; view <= 5; ++view)
        h.receive(h.others()[0], CertificateMessage{h.certificate(nullify, view)});
    h.forget();
    const auto old = h.vote(h.others()[0], nullify, 1);
    for (int round = 0; round < 4; ++round)
        for (std::size_t peer = 70; peer < 80; ++peer) h.receive(peer, old);
    EXPECT_EQ(h.sent<CertificateMessage>().size(), 3U);
    h.pass(h.delta_ms);
    h.forget();
    h.receive(79, old);
    EXPECT_EQ(h.sent<CertificateMessage>().size(), 1U);
}

TEST(SdbftCatchUp, what_the_driver_has_judged_is_checked_all_the_same) {
    Harness h;
    const auto genesis = *h.chain;
    while (h.chain->height() < 2) {
        const Tip parent = h.chain->tip();
        h.finalize(parent.number + 1, h.block(parent.number + 1, parent, h.chain->tip_certificate()));
    }
    const auto newer = std::move(h.chain);
    h.chain = std::make_unique<sim::LightChain>(genesis);
    h.journal.clear();
    h.restart();
    h.start();
    auto range = *newer->range(1);
    auto forged = range;
    forged.certificate.signatures[0].data[0] ^= 1;
    h.step(event::Ranged{h.others()[1], forged});
    EXPECT_EQ(h.chain->height(), 0U);
    EXPECT_EQ(h.misbehaved, std::vector<std::string_view>{"certificate.bad_signature"});
    h.step(event::Ranged{h.others()[1], range});
    EXPECT_EQ(h.chain->height(), range.blocks.size());
}

}  // namespace
}  // namespace quern::chain::consensus::sdbft
