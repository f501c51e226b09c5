#include "p2p/sync/range_planner.h"

#include <gtest/gtest.h>

namespace quern::p2p::sync {
namespace {

using Failure = RangePlanner::Failure;

Bytes20 peer(std::uint8_t number) {
    Bytes20 address;
    address.data[0] = number;
    return address;
}

std::vector<messages::BlockAnswer> answers(std::uint64_t first, std::uint64_t count, std::size_t bytes = 10) {
    std::vector<messages::BlockAnswer> out;
    for (std::uint64_t i = 0; i < count; ++i) out.push_back({Bytes(bytes, static_cast<std::uint8_t>(first + i)), {}});
    return out;
}

// Answers all that is asked, at once.
std::uint64_t fill(RangePlanner& planner, std::uint64_t now = 0) {
    std::uint64_t highest = 0;
    for (auto asks = planner.next_asks(now); !asks.empty(); asks = planner.next_asks(now))
        for (const auto& ask : asks) {
            EXPECT_TRUE(
                planner.received(ask.peer, ask.request.first, answers(ask.request.first, ask.request.count), now));
            highest = std::max(highest, ask.request.first + ask.request.count - 1);
        }
    return highest;
}

TEST(RangePlanner, spreads_slices_over_peers_and_keeps_their_order) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 200, false, 5});
    planner.set_peer(peer(2), {1, 200, false, 6});
    auto asks = planner.next_asks(0);
    ASSERT_EQ(asks.size(), 2U) << "of one that delivered nothing yet, one slice";
    EXPECT_NE(asks[0].peer, asks[1].peer);
    EXPECT_EQ(asks[1].request.first, kMaxSliceBlocks + 1);
    EXPECT_EQ(asks[0].timeout_ms, kSliceMs);
    for (const std::size_t i : {1U, 0U})
        ASSERT_TRUE(planner.received(asks[i].peer, asks[i].request.first,
                                     answers(asks[i].request.first, asks[i].request.count), 0));
    EXPECT_EQ(planner.run(1, 1000).size(), 2 * kMaxSliceBlocks);
    EXPECT_EQ(planner.run(1, 1000)[kMaxSliceBlocks].answer->block[0], kMaxSliceBlocks + 1);
    planner.verified(peer(1));
    planner.verified(peer(2));
    asks = planner.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    EXPECT_EQ(asks.back().request.first + asks.back().request.count - 1, 200U) << "not beyond what they have";
    EXPECT_EQ(fill(planner), 0U);
}

TEST(RangePlanner, what_is_late_goes_to_another_and_the_late_one_waits_ever_longer) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 40, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    planner.set_peer(peer(2), {1, 40, false, 1});
    planner.failed(peer(1), 1, Failure::late, kSliceMs);
    auto asks = planner.next_asks(kSliceMs);
    ASSERT_FALSE(asks.empty());
    EXPECT_EQ(asks[0].peer, peer(2));
    EXPECT_EQ(asks[0].timeout_ms, 2 * kSliceMs) << "the block may be large: it gets more time";
    EXPECT_EQ(planner.received(peer(1), 1, answers(1, 32), kSliceMs).error().name, "range.unasked");
    planner.remove_peer(peer(2));
    std::uint64_t now = kSliceMs;
    for (std::uint64_t pause = kDemotedMs; pause < 64'000; pause *= 2) {
        EXPECT_TRUE(planner.next_asks(now + pause - 1).empty());
        asks = planner.next_asks(now += pause);
        ASSERT_EQ(asks.size(), 1U) << pause;
        planner.failed(peer(1), 1, Failure::late, now);
    }
    // Coming back does not wash it clean.
    planner.remove_peer(peer(1));
    planner.set_peer(peer(1), {1, 40, false, 0});
    EXPECT_TRUE(planner.next_asks(now + 1000).empty());
}

TEST(RangePlanner, a_claim_is_believed_until_it_is_put_to_the_test) {
    RangePlanner planner(11);
    planner.set_peer(peer(1), {1, std::uint64_t{1} << 63, false, 0});
    planner.set_peer(peer(2), {1, 10, false, 1});
    EXPECT_EQ(planner.best_claim(0), std::uint64_t{1} << 63);
    EXPECT_EQ(planner.proven_claim(0), 0U);
    const auto asks = planner.next_asks(0);
    ASSERT_EQ(asks.size(), 1U) << "only who claims it is asked";
    EXPECT_EQ(planner.received(peer(1), 11, {}, 0).error().name, "range.empty");
    EXPECT_EQ(planner.best_claim(0), 10U);
    EXPECT_TRUE(planner.next_asks(kDemotedMs - 1).empty());
}

TEST(RangePlanner, the_middle_claim_of_those_who_delivered_counts) {
    RangePlanner planner(1);
    for (std::uint8_t i = 1; i <= 3; ++i) planner.set_peer(peer(i), {1, i == 2 ? ~0ULL : 100ULL + i, false, i});
    EXPECT_EQ(planner.proven_claim(0), 0U);
    for (std::uint8_t i = 1; i <= 3; ++i) planner.verified(peer(i));
    EXPECT_EQ(planner.proven_claim(0), 103U);
}

TEST(RangePlanner, asks_a_second_peer_when_everything_waits_for_one) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 64, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    planner.set_peer(peer(2), {1, 64, false, 1});
    EXPECT_TRUE(planner.next_asks(kHedgeMs - 1).empty());
    const auto second = planner.next_asks(kHedgeMs);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].peer, peer(2));
    EXPECT_EQ(second[0].request.first, 1U);
    EXPECT_EQ(second[0].request.count, 64U);
    planner.set_peer(peer(3), {1, 64, false, 2});
    EXPECT_TRUE(planner.next_asks(2 * kHedgeMs).empty()) << "two are enough";
    ASSERT_TRUE(planner.received(peer(2), 1, answers(1, 64), 0));
    EXPECT_EQ(planner.run(1, 100).size(), 64U);
    ASSERT_TRUE(planner.received(peer(1), 1, answers(1, 64), 0));
    EXPECT_EQ(planner.waiting_bytes(), 640U) << "each block once";
    EXPECT_EQ(planner.find(1)->from, peer(2));
}

TEST(RangePlanner, prefers_who_delivered_before_who_did_not_and_equals_by_lot) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 10, false, 9});
    planner.set_peer(peer(2), {1, 10, false, 2});
    planner.set_peer(peer(3), {1, 10, true, 8});
    planner.set_peer(peer(4), {1, 10, false, 5});
    std::vector<Bytes20> order;
    planner.verified(peer(1));
    for (int i = 0; i < 4; ++i) {
        const auto asks = planner.next_asks(0);
        ASSERT_EQ(asks.size(), 1U);
        order.push_back(asks[0].peer);
        planner.failed(asks[0].peer, 1, Failure::late, 0);
    }
    EXPECT_EQ(order, (std::vector{peer(1), peer(3), peer(2), peer(4)}));
}

TEST(RangePlanner, a_busy_peer_is_asked_again_soon) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 10, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    planner.failed(peer(1), 1, Failure::busy, 0);
    EXPECT_TRUE(planner.next_asks(kBusyPauseMs - 1).empty());
    EXPECT_EQ(planner.next_asks(kBusyPauseMs).size(), 1U);
}

TEST(RangePlanner, an_answer_may_stop_early_and_may_not_be_larger_than_asked) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 100, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    ASSERT_TRUE(planner.received(peer(1), 1, answers(1, 5), 0));
    auto asks = planner.next_asks(0);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].request.first, 6U);
    EXPECT_EQ(planner.received(peer(1), 6, answers(6, kMaxSliceBlocks + 1), 0).error().name, "range.too_many");
    planner.set_peer(peer(2), {1, 100, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    EXPECT_EQ(planner.received(peer(2), 6, answers(6, 2, kMaxSliceBlocks * kSliceBytesPerBlock), 0).error().name,
              "range.too_many");
    // One block may be as large as a block may be.
    planner.set_peer(peer(3), {1, 100, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    EXPECT_TRUE(planner.received(peer(3), 6, answers(6, 1, 8U << 20), 0));
}

TEST(RangePlanner, does_not_run_far_ahead_of_a_hole) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 1'000'000, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);
    planner.set_peer(peer(2), {1, 1'000'000, false, 1});
    planner.verified(peer(2));
    EXPECT_EQ(fill(planner), kMaxAheadBlocks);
    EXPECT_TRUE(planner.run(1, 10).empty());
    planner.advance(200);
    EXPECT_EQ(fill(planner), kMaxAheadBlocks + 199);
}

TEST(RangePlanner, holds_no_more_bytes_than_its_limit) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 1'000'000, false, 0});
    ASSERT_EQ(planner.next_asks(0).size(), 1U);  // never answered
    planner.set_peer(peer(2), {1, 1'000'000, false, 1});
    planner.verified(peer(2));
    for (int round = 0; round < 2000; ++round)
        for (const auto& ask : planner.next_asks(0))
            ASSERT_TRUE(planner.received(ask.peer, ask.request.first, answers(ask.request.first, 1, 1U << 20), 0));
    EXPECT_LE(planner.waiting_bytes(), kMaxAheadBytes);
    EXPECT_GE(planner.waiting_bytes(), kMaxAheadBytes / 2);
}

TEST(RangePlanner, wrong_blocks_go_and_their_sender_is_not_asked_again) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 200, false, 0});
    planner.set_peer(peer(2), {1, 200, false, 1});
    auto asks = planner.next_asks(0);
    ASSERT_EQ(asks.size(), 2U);
    for (const auto& ask : asks)
        ASSERT_TRUE(planner.received(ask.peer, ask.request.first, answers(ask.request.first, ask.request.count), 0));
    planner.discard(asks[0].peer, 10, Failure::wrong, 0);
    EXPECT_EQ(planner.run(1, 1000).size(), 9U);
    EXPECT_NE(planner.find(kMaxSliceBlocks + 1), nullptr) << "the other's stay";
    for (const auto& again : planner.next_asks(kMaxDemotedMs + 1)) EXPECT_EQ(again.peer, asks[1].peer);
}

TEST(RangePlanner, asks_less_at_once_when_those_who_delivered_become_late) {
    RangePlanner planner(1);
    planner.set_peer(peer(1), {1, 100'000, true, 0});
    std::uint64_t now = 0;
    std::uint64_t smallest = kMaxSliceBlocks;
    for (int i = 0; i < 8; ++i) {
        planner.verified(peer(1));
        const auto asks = planner.next_asks(now += kMaxDemotedMs);
        ASSERT_FALSE(asks.empty());
        smallest = asks[0].request.count;
        for (const auto& ask : asks) planner.failed(ask.peer, ask.request.first, Failure::late, now);
    }
    EXPECT_EQ(smallest, 1U);
    // One that never delivered says nothing about the line.
    RangePlanner other(1);
    other.set_peer(peer(1), {1, 100'000, false, 0});
    other.verified(peer(1));
    for (std::uint8_t i = 2; i < 20; ++i) {
        other.set_peer(peer(i), {1, 100'000, true, i});
        for (const auto& ask : other.next_asks(0))
            if (ask.peer != peer(1)) other.failed(ask.peer, ask.request.first, Failure::late, 0);
    }
    other.remove_peer(peer(1));
    other.set_peer(peer(30), {1, 100'000, false, 0});
    EXPECT_EQ(other.next_asks(0).at(0).request.count, kMaxSliceBlocks);
}

TEST(RangePlanner, remembers_a_bounded_number_of_those_who_left) {
    RangePlanner planner(1);
    for (std::uint64_t i = 0; i < 2 * kMaxRemembered; ++i) {
        Bytes20 address;
        address.data[0] = static_cast<std::uint8_t>(i);
        address.data[1] = static_cast<std::uint8_t>(i >> 8);
        planner.set_peer(address, {1, 100, false, 0});
        const auto asks = planner.next_asks(0);
        ASSERT_EQ(asks.size(), 1U);
        planner.failed(address, 1, Failure::late, 0);
        planner.remove_peer(address);
    }
    EXPECT_LE(planner.remembered(), kMaxRemembered);
}

}  // namespace
}  // namespace quern::p2p::sync
