#include <gtest/gtest.h>

#include "p2p/transport/cookie.h"
#include "p2p/transport/send_queue.h"
#include "p2p/transport/token_bucket.h"
#include "p2p/transport/uplink.h"

namespace quern::p2p::transport {
namespace {

OutMessage message(TrafficClass traffic, std::size_t size, std::uint32_t stream = 1) {
    return {traffic, 9, stream, std::make_shared<Bytes>(size)};
}

TEST(SendQueue, consensus_goes_before_everything) {
    SendQueue queue;
    ASSERT_TRUE(queue.push(message(TrafficClass::bulk, 100'000, 1), 0));
    ASSERT_TRUE(queue.push(message(TrafficClass::transactions, 100, 2), 0));
    EXPECT_EQ(queue.next(1000, false)->stream, 2U);
    EXPECT_EQ(queue.next(1000, true)->stream, 1U);
    ASSERT_TRUE(queue.push(message(TrafficClass::consensus, 5000, 3), 0));
    EXPECT_EQ(queue.next(1000, true)->stream, 3U);
    // A vote passes between two records of a proposal.
    ASSERT_TRUE(queue.push(message(TrafficClass::urgent, 100, 4), 0));
    EXPECT_EQ(queue.next(1000, true)->stream, 4U);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.next(1000, true)->stream, 3U);
    EXPECT_EQ(queue.next(1000, true)->stream, 1U);
}

TEST(SendQueue, shares_the_rest_by_quanta) {
    SendQueue queue;
    for (const auto traffic : {TrafficClass::transactions, TrafficClass::blocks, TrafficClass::bulk})
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(queue.push(message(traffic, 500'000), 0));
    std::array<std::size_t, kTrafficClasses> bytes{};
    for (int i = 0; i < 2000; ++i) {
        const auto record = queue.next(1000, true);
        ASSERT_TRUE(record);
        bytes[static_cast<std::size_t>(record->traffic)] += record->payload.size();
    }
    const auto of = [&](TrafficClass traffic) { return static_cast<double>(bytes[static_cast<std::size_t>(traffic)]); };
    EXPECT_NEAR(of(TrafficClass::transactions) / of(TrafficClass::blocks), 2.0, 0.2);
    EXPECT_NEAR(of(TrafficClass::blocks) / of(TrafficClass::bulk), 2.0, 0.2);
}

TEST(SendQueue, bulk_waits_for_its_pace) {
    SendQueue queue;
    ASSERT_TRUE(queue.push(message(TrafficClass::bulk, 10), 0));
    EXPECT_TRUE(queue.has_only_bulk());
    EXPECT_FALSE(queue.next(1000, false));
    ASSERT_TRUE(queue.push(message(TrafficClass::urgent, 0), 0));
    EXPECT_FALSE(queue.has_only_bulk());
    const auto record = queue.next(1000, false);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->traffic, TrafficClass::urgent);
    EXPECT_FALSE(record->more);
    EXPECT_TRUE(queue.next(1000, true));
    EXPECT_FALSE(queue.next(1000, true));
}

TEST(SendQueue, full_queues_refuse_or_drop_the_oldest) {
    SendQueue queue;
    ASSERT_TRUE(queue.push(message(TrafficClass::bulk, 16U << 20), 0));
    EXPECT_EQ(queue.push(message(TrafficClass::bulk, 1), 0).error().name, "send_queue.full");
    for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(queue.push(message(TrafficClass::urgent, 300'000, i), 0));
    EXPECT_EQ(queue.dropped(), 2U);
    EXPECT_EQ(queue.next(1 << 20, true)->stream, 2U);
    // One that is half sent is not dropped: its end must follow.
    ASSERT_TRUE(queue.next(1000, true));
    for (std::uint32_t i = 10; i < 15; ++i) ASSERT_TRUE(queue.push(message(TrafficClass::urgent, 300'000, i), 0));
    EXPECT_EQ(queue.next(1 << 20, true)->stream, 3U);
    EXPECT_EQ(queue.push(message(TrafficClass::urgent, 2U << 20), 0).error().name, "send_queue.full");
}

TEST(SendQueue, what_nobody_reads_does_not_wait_for_ever) {
    SendQueue queue;
    ASSERT_TRUE(queue.push(message(TrafficClass::blocks, 5'000, 1), 0));
    ASSERT_TRUE(queue.push(message(TrafficClass::blocks, 5'000, 2), 0));
    ASSERT_TRUE(queue.push(message(TrafficClass::blocks, 5'000, 3), 1'000));
    ASSERT_TRUE(queue.push(message(TrafficClass::consensus, 5'000, 4), 0));
    ASSERT_TRUE(queue.next(1000, true));
    while (queue.queued_bytes(TrafficClass::consensus) != 0) ASSERT_TRUE(queue.next(1000, true));
    EXPECT_EQ(queue.next(1000, true)->stream, 1U);  // begun
    ASSERT_TRUE(queue.expire(kQueueLifeMs - 1));
    EXPECT_EQ(queue.queued_bytes(), 15'000U);
    ASSERT_TRUE(queue.expire(kQueueLifeMs));
    EXPECT_EQ(queue.queued_bytes(), 10'000U);  // 1 is begun, 3 is younger
    EXPECT_EQ(queue.expire(2 * kQueueLifeMs).error().name, "send_queue.too_slow");
    queue.clear_shared();
    EXPECT_EQ(queue.queued_bytes(), 0U);
}

TEST(TokenBucket, keeps_the_rate_and_the_burst) {
    TokenBucket bucket(1000, 10);
    std::uint64_t taken = 0;
    for (std::uint64_t now = 0; now <= 1'000'000; now += 100) taken += bucket.try_take(1, now) ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(taken), 1010, 2);
    bucket.spend(500);
    EXPECT_EQ(bucket.available(1'000'000), 0U);
    EXPECT_GT(bucket.wait_us(1, 1'000'000), 400'000U);
    EXPECT_EQ(bucket.available(10'000'000'000), 10U);
    EXPECT_EQ(TokenBucket(0, 3).wait_us(4, 5), ~std::uint64_t{0});
}

TEST(UplinkRate, grows_while_used_and_shrinks_when_round_trips_grow) {
    UplinkRate uplink;
    std::uint64_t now = 1;
    const std::uint64_t start = uplink.bytes_per_second();
    uplink.update(now, 1000, 0);
    for (int i = 0; i < 3; ++i) uplink.update(now += 500'000, 1000, uplink.bytes_per_second() / 2);
    EXPECT_GT(uplink.bytes_per_second(), 4 * start);
    const std::uint64_t high = uplink.bytes_per_second();
    for (int i = 0; i < 10; ++i) uplink.update(now += 500'000, 500'000, 6'000'000);
    EXPECT_LT(uplink.bytes_per_second(), high);
    EXPECT_GE(uplink.bytes_per_second(), 9'000'000U);  // it delivered 12 MB/s all the time
    const std::uint64_t low = uplink.bytes_per_second();
    for (int i = 0; i < 3; ++i) uplink.update(now += 500'000, 1000, 0);
    EXPECT_EQ(uplink.bytes_per_second(), low);  // unused: nothing was learnt
    EXPECT_EQ(UplinkRate(77).bytes_per_second(), 77U);
}

TEST(CookieJar, knows_its_own_cookies_for_a_while) {
    SeededRng rng(1);
    CookieJar jar(rng);
    const Bytes hello(32, 4);
    const auto cookie = jar.make("10.0.0.1", hello, 1000);
    EXPECT_TRUE(jar.check("10.0.0.1", hello, cookie, 1000));
    EXPECT_TRUE(jar.check("10.0.0.1", hello, cookie, 1000 + kCookieLifeMs));
    EXPECT_FALSE(jar.check("10.0.0.2", hello, cookie, 1000));
    EXPECT_FALSE(jar.check("10.0.0.1", Bytes(32, 5), cookie, 1000));
    EXPECT_FALSE(jar.check("10.0.0.1", hello, Bytes(15), 1000));
    EXPECT_FALSE(jar.check("10.0.0.1", hello, cookie, 1000 + 3 * kCookieLifeMs));
}

TEST(SendQueue, many_small_messages_are_bounded_by_their_number) {
    SendQueue queue;
    const auto ids = kMaxQueuedMessages[static_cast<std::size_t>(TrafficClass::transactions)];
    for (std::size_t i = 0; i < ids; ++i) ASSERT_TRUE(queue.push(message(TrafficClass::transactions, 0), 0));
    EXPECT_EQ(queue.push(message(TrafficClass::transactions, 0), 0).error().name, "send_queue.full");
    EXPECT_EQ(queue.dropped(), 0U);
    queue.clear_shared();
    const auto most = kMaxQueuedMessages[static_cast<std::size_t>(TrafficClass::blocks)];
    for (std::size_t i = 0; i < most; ++i) ASSERT_TRUE(queue.push(message(TrafficClass::blocks, 0), 0));
    EXPECT_EQ(queue.push(message(TrafficClass::blocks, 0), 0).error().name, "send_queue.full");
    const auto votes =
        static_cast<std::uint32_t>(kMaxQueuedMessages[static_cast<std::size_t>(TrafficClass::consensus)]);
    for (std::uint32_t i = 0; i <= votes; ++i) ASSERT_TRUE(queue.push(message(TrafficClass::consensus, 10, i), 0));
    EXPECT_EQ(queue.dropped(), 1U);
    EXPECT_EQ(queue.next(1000, true)->stream, 1U);
    // Of a peer that is being left, the goodbye goes.
    ASSERT_TRUE(queue.push(message(TrafficClass::urgent, 7), 0));
    queue.clear_shared();
    EXPECT_EQ(queue.queued_bytes(), 7U);
    EXPECT_EQ(queue.next(1000, true)->traffic, TrafficClass::urgent);
    EXPECT_FALSE(queue.next(1000, true));
}

}  // namespace
}  // namespace quern::p2p::transport
