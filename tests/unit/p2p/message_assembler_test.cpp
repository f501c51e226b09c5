#include "p2p/transport/message_assembler.h"

#include <gtest/gtest.h>

#include <memory>

namespace quern::p2p::transport {
namespace {

Frame part(std::uint32_t stream, BytesView payload, bool more) { return {5, more, stream, payload}; }
MessageAssembler::Admit up_to(std::size_t max_body) {
    return [max_body](std::uint8_t, std::uint32_t) { return Admission{max_body, false}; };
}

TEST(MessageAssembler, joins_interleaved_messages) {
    MemoryLedger ledger({1000, 0, 1000, 1000});
    MessageAssembler assembler(ledger, 100);
    EXPECT_FALSE(*assembler.add(part(1, as_bytes("ab"), true), up_to(100), 0));
    EXPECT_FALSE(*assembler.add(part(2, as_bytes("xy"), true), up_to(100), 0));
    EXPECT_EQ(ledger.used(), 4U);
    const auto first = *assembler.add(part(1, as_bytes("cd"), false), up_to(100), 0);
    ASSERT_TRUE(first);
    EXPECT_EQ(as_text(first->body), "abcd");
    EXPECT_EQ(as_text((*assembler.add(part(2, {}, false), up_to(100), 0))->body), "xy");
    EXPECT_EQ(ledger.used(), 0U);
}

TEST(MessageAssembler, bounds_size_number_and_memory) {
    MemoryLedger ledger({100, 0, 40, 60});
    {
        MessageAssembler assembler(ledger, 100);
        EXPECT_EQ(assembler.add(part(1, Bytes(11), false), up_to(10), 0).error().name, "frame.message_too_long");
        ASSERT_TRUE(assembler.add(part(1, Bytes(8), true), up_to(10), 0));
        EXPECT_EQ(assembler.add(part(1, Bytes(3), true), up_to(10), 0).error().name, "frame.message_too_long");
        EXPECT_EQ(assembler.add(part(9, {}, true), up_to(10), 0).error().name, "frame.empty_part");
        for (std::uint32_t i = 2; i <= kMaxPartialMessages; ++i)
            ASSERT_TRUE(assembler.add(part(i, Bytes(1), true), up_to(100), 0));
        EXPECT_EQ(assembler.add(part(99, Bytes(1), true), up_to(10), 0).error().name, "frame.too_many_partial");
        const auto share = assembler.add(part(2, Bytes(30), true), up_to(100), 0);
        EXPECT_EQ(share.error().name, "memory.share_full");
        EXPECT_TRUE(share.error().is_busy());
    }
    EXPECT_EQ(ledger.used(), 0U);
}

TEST(MessageAssembler, skipped_messages_take_no_memory_and_never_come_whole) {
    MemoryLedger ledger({1000, 0, 1000, 1000});
    MessageAssembler assembler(ledger, 100);
    int asked = 0;
    const MessageAssembler::Admit skip = [&](std::uint8_t, std::uint32_t) {
        ++asked;
        return Admission{50, true};
    };
    EXPECT_FALSE(*assembler.add(part(1, Bytes(20), true), skip, 0));
    EXPECT_FALSE(*assembler.add(part(1, Bytes(20), true), skip, 0));
    EXPECT_EQ(ledger.used(), 0U);
    EXPECT_FALSE(*assembler.add(part(1, Bytes(10), false), skip, 0));
    EXPECT_FALSE(*assembler.add(part(2, Bytes(10), false), skip, 0));
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(assembler.partial_messages(), 0U);
    ASSERT_TRUE(assembler.add(part(3, Bytes(20), true), skip, 0));
    EXPECT_EQ(assembler.add(part(3, Bytes(31), true), skip, 0).error().name, "frame.message_too_long");
    EXPECT_EQ(assembler
                  .add(
                      part(4, Bytes(1), true), [](std::uint8_t, std::uint32_t) { return fail("test.no"); }, 0)
                  .error()
                  .name,
              "test.no");
}

TEST(MessageAssembler, a_message_must_end_in_time) {
    MemoryLedger ledger({1000, 0, 1000, 1000});
    MessageAssembler assembler(ledger, 100);
    ASSERT_TRUE(assembler.add(part(1, Bytes(1), true), up_to(10), 1'000));
    // Going on does not lengthen it.
    ASSERT_TRUE(assembler.add(part(1, Bytes(1), true), up_to(10), 1'099));
    EXPECT_TRUE(assembler.check_time(1'099));
    EXPECT_EQ(assembler.check_time(1'100).error().name, "frame.unfinished");
    ASSERT_TRUE(assembler.add(part(1, {}, false), up_to(10), 1'100));
    EXPECT_TRUE(assembler.check_time(9'999));
}

TEST(MessageAssembler, who_holds_most_for_longest_makes_room_for_others) {
    MemoryLedger ledger({100, 40, 50, 100});
    int crowded_out = 0;
    MessageAssembler hog(ledger, 10'000, [&] { ++crowded_out; });
    MessageAssembler small(ledger, 10'000);
    MessageAssembler honest(ledger, 10'000);
    ASSERT_TRUE(hog.add(part(1, Bytes(40), true), up_to(1000), 0));
    ASSERT_TRUE(small.add(part(1, Bytes(10), true), up_to(1000), 0));
    EXPECT_EQ(ledger.used_by_strangers(), 50U);
    ASSERT_TRUE(honest.add(part(1, Bytes(30), true), up_to(1000), 2'000));
    EXPECT_EQ(crowded_out, 1);
    EXPECT_EQ(ledger.used(), 40U);
    EXPECT_EQ(hog.add(part(1, Bytes(1), true), up_to(1000), 2'000).error().name, "frame.crowded_out");
    // Whoever is the heaviest itself gets nothing.
    ASSERT_TRUE(honest.add(part(1, Bytes(10), true), up_to(1000), 2'000));
    EXPECT_EQ(honest.add(part(2, Bytes(11), true), up_to(1000), 9'000).error().name, "memory.share_full");
    EXPECT_EQ(ledger.evictions(), 1U);
    EXPECT_EQ(small.held_bytes(), 10U);
}

TEST(MessageAssembler, many_of_one_network_count_together_and_old_acquaintances_stay) {
    MemoryLedger ledger({100, 0, 50, 100});
    const auto holder = [&](const char* network, std::uint64_t since_ms) {
        auto made = std::make_unique<MessageAssembler>(ledger, 10'000'000);
        made->set_origin(network, since_ms);
        return made;
    };
    constexpr std::uint64_t kNow = 10'000'000;
    const auto honest = holder("a", kNow);
    ASSERT_TRUE(honest->add(part(1, Bytes(40), true), up_to(40), kNow));
    std::vector<std::unique_ptr<MessageAssembler>> sybils;
    for (int i = 0; i < 10; ++i) {
        sybils.push_back(holder("b", kNow));
        ASSERT_TRUE(sybils.back()->add(part(1, Bytes(10), true), up_to(10), kNow) || i >= 6);
    }
    EXPECT_EQ(honest->held_bytes(), 40U);
    // One that has been here for an hour against one that has just come, of another network each.
    MemoryLedger small({100, 0, 100, 100});
    MessageAssembler old(small, 10'000'000);
    old.set_origin("a", kNow - 3'600'000);
    MessageAssembler fresh(small, 10'000'000);
    fresh.set_origin("b", kNow);
    ASSERT_TRUE(old.add(part(1, Bytes(80), true), up_to(80), kNow));
    EXPECT_EQ(fresh.add(part(1, Bytes(30), true), up_to(30), kNow).error().name, "memory.full");
    EXPECT_EQ(old.held_bytes(), 80U);
}

TEST(MessageAssembler, strangers_cannot_take_what_is_kept_for_fixed_peers) {
    MemoryLedger ledger({100, 40, 60, 100});
    MessageAssembler stranger(ledger, 10'000);
    MessageAssembler member(ledger, 10'000);
    member.set_fixed(true);
    ASSERT_TRUE(stranger.add(part(1, Bytes(60), true), up_to(1000), 0));
    ASSERT_TRUE(member.add(part(1, Bytes(40), true), up_to(1000), 0));
    EXPECT_EQ(ledger.evictions(), 0U);
    // It may have more: strangers go first.
    ASSERT_TRUE(member.add(part(2, Bytes(30), true), up_to(1000), 0));
    EXPECT_EQ(stranger.held_bytes(), 0U);
    EXPECT_EQ(ledger.used(), 70U);
    // A stranger never makes a member give up.
    MessageAssembler other(ledger, 10'000);
    EXPECT_EQ(other.add(part(1, Bytes(31), true), up_to(1000), 9'000).error().name, "memory.full");
    EXPECT_EQ(member.held_bytes(), 70U);
    member.set_fixed(false);
    EXPECT_EQ(ledger.used_by_strangers(), 70U);
}

}  // namespace
}  // namespace quern::p2p::transport
