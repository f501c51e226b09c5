#include "p2p/gossip/tx_relay.h"

#include <gtest/gtest.h>

namespace quern::p2p::gossip {
namespace {

Bytes20 peer(std::uint8_t last) {
    Bytes20 out;
    out.data[19] = last;
    return out;
}
Bytes transaction(std::uint32_t n) {
    return Bytes{1, 2, static_cast<std::uint8_t>(n), static_cast<std::uint8_t>(n >> 8),
                 static_cast<std::uint8_t>(n >> 16)};
}
std::shared_ptr<const Bytes> shared(std::uint32_t n) { return std::make_shared<const Bytes>(transaction(n)); }
Hash32 hash_of(const Bytes& encoded) { return chain::types::transaction_hash(encoded); }
ShortId id_of(std::uint32_t n) { return messages::short_id(hash_of(transaction(n))); }
const auto kAll = [](const ShortId&) { return true; };

struct Relay {
    SeededRng rng{7};
    TxRelay relay{rng};
};

TEST(TxRelay, asks_one_peer_and_another_when_it_fails) {
    Relay r;
    for (std::uint8_t i = 1; i <= 3; ++i) r.relay.add_peer(peer(i));
    EXPECT_EQ(r.relay.announced(peer(1), {id_of(7)}, kAll, 0).size(), 1U);
    EXPECT_TRUE(r.relay.announced(peer(2), {id_of(7)}, kAll, 0).empty());
    EXPECT_TRUE(r.relay.expired(kTxRequestMs - 1).empty());
    const auto asks = r.relay.expired(kTxRequestMs);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(2));
    ASSERT_TRUE(r.relay.received(peer(2), asks[0].ids, {transaction(7)}));
    EXPECT_EQ(r.relay.wanted(), 0U);
    EXPECT_EQ(r.relay.in_flight(peer(2)), 0U);
    r.relay.have(hash_of(transaction(7)), shared(7), 0);
    // To the one that never spoke of it, once.
    EXPECT_TRUE(r.relay.take_announcements(peer(1)).empty());
    EXPECT_EQ(r.relay.take_announcements(peer(3)), std::vector<ShortId>{id_of(7)});
    EXPECT_TRUE(r.relay.take_announcements(peer(3)).empty());
    EXPECT_EQ(*r.relay.find(id_of(7)), transaction(7));
}

TEST(TxRelay, who_is_chosen_when_another_announces_hears_of_it) {
    Relay r;
    r.relay.add_peer(peer(1));
    r.relay.add_peer(peer(2), true);
    r.relay.add_peer(peer(3));
    ASSERT_EQ(r.relay.announced(peer(1), {id_of(7), id_of(8)}, kAll, 0).size(), 2U);
    ASSERT_TRUE(r.relay.announced(peer(2), {id_of(7)}, kAll, 0).empty());
    // The first one turns out to be unreliable, so that a second is asked when the third announces: the preferred one,
    // which must be told, or would be blamed for a silence.
    EXPECT_TRUE(r.relay.not_delivered(peer(1), {id_of(8)}, 1).empty());
    EXPECT_TRUE(r.relay.announced(peer(3), {id_of(7)}, kAll, 1).empty());
    const auto asks = r.relay.expired(2);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(2));
    EXPECT_EQ(asks[0].ids, std::vector<ShortId>{id_of(7)});
    EXPECT_TRUE(r.relay.expired(3).empty());
}

// What waited for a peer to have time was looked at ten times a second: 64 peers with 2,048 such ids each took more
// than a processor without another message.
TEST(TxRelay, nothing_waits_for_a_peer_that_has_too_much_to_answer) {
    Relay r;
    r.relay.add_peer(peer(1));
    r.relay.add_peer(peer(2), true);
    for (std::uint32_t i = 0; i < 3 * kMaxAnnouncedTrusted; i += 1024)
        for (std::uint8_t who = 1; who <= 2; ++who) {
            std::vector<ShortId> ids(1024);
            std::uint32_t number = who * 1'000'000 + i;
            for (auto& id : ids) {
                ++number;
                std::memcpy(id.data.data(), &number, 4);
            }
            (void)r.relay.announced(peer(who), ids, kAll, 0);
        }
    EXPECT_EQ(r.relay.announced_by(peer(1)), kMaxAnnouncedPerPeer);
    EXPECT_EQ(r.relay.in_flight(peer(1)), kMaxAnnouncedPerPeer);
    EXPECT_EQ(r.relay.announced_by(peer(2)), kMaxAnnouncedTrusted);
    EXPECT_EQ(r.relay.in_flight(peer(2)), kMaxAnnouncedTrusted);
}

TEST(TxRelay, unsolicited_transactions_are_an_error) {
    Relay r;
    r.relay.add_peer(peer(1));
    EXPECT_EQ(r.relay.received(peer(1), {id_of(2)}, {transaction(1)}).error().name, "tx_relay.unsolicited");
    EXPECT_TRUE(r.relay.received(peer(1), {id_of(1)}, {transaction(1)}));
}

TEST(TxRelay, a_peer_that_leaves_frees_its_requests) {
    Relay r;
    r.relay.add_peer(peer(1));
    r.relay.add_peer(peer(2));
    ASSERT_EQ(r.relay.announced(peer(1), {id_of(1)}, kAll, 0).size(), 1U);
    (void)r.relay.announced(peer(2), {id_of(1)}, kAll, 0);
    r.relay.remove_peer(peer(1));
    const auto asks = r.relay.expired(1);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(2));
    r.relay.remove_peer(peer(2));
    EXPECT_TRUE(r.relay.expired(2).empty());
    EXPECT_EQ(r.relay.wanted(), 0U);
}

TEST(TxRelay, eight_sybils_cannot_suppress_a_transaction) {
    Relay r;
    for (std::uint8_t i = 1; i <= 9; ++i) {
        r.relay.add_peer(peer(i));
        r.relay.set_round_trip(peer(i), 50);
    }
    const auto delivered_after = [&](std::uint32_t n, std::uint64_t start) {
        for (std::uint8_t sybil = 1; sybil <= 8; ++sybil) (void)r.relay.announced(peer(sybil), {id_of(n)}, kAll, start);
        if (!r.relay.announced(peer(9), {id_of(n)}, kAll, start).empty()) return start;
        for (std::uint64_t now = start; now < start + 60'000; now += 50)
            for (const auto& ask : r.relay.expired(now))
                if (ask.peer == peer(9)) {
                    EXPECT_TRUE(r.relay.received(peer(9), ask.ids, {transaction(n)}));
                    return now - start;
                }
        return std::uint64_t{60'000};
    };
    EXPECT_LE(delivered_after(1, 0), 5 * kLeastTxRequestMs);
    // Who was late is asked last, so that the next ones do not wait again.
    for (std::uint32_t n = 2; n < 12; ++n) (void)delivered_after(n, n * 10'000);
    EXPECT_LE(delivered_after(50, 900'000), 2 * kLeastTxRequestMs);
}

TEST(TxRelay, announcements_of_sybils_take_no_room_of_others) {
    Relay r;
    for (std::uint8_t i = 1; i <= 9; ++i) r.relay.add_peer(peer(i));
    std::uint32_t n = 0;
    for (std::uint8_t sybil = 1; sybil <= 8; ++sybil)
        for (std::uint32_t i = 0; i < 2 * kMaxAnnouncedPerPeer; ++i) {
            ShortId id;
            ++n;
            std::memcpy(id.data.data(), &n, 4);
            (void)r.relay.announced(peer(sybil), {id}, kAll, 0);
        }
    EXPECT_EQ(r.relay.announced_by(peer(1)), kMaxAnnouncedPerPeer);
    EXPECT_EQ(r.relay.in_flight(peer(1)), kMaxAnnouncedPerPeer);
    EXPECT_EQ(r.relay.wanted(), 8 * kMaxAnnouncedPerPeer);
    // The ninth is asked at once for what it has.
    EXPECT_EQ(r.relay.announced(peer(9), {id_of(1)}, kAll, 0).size(), 1U);
    // In the end nothing of them is left.
    for (std::uint64_t now = 0; now < 60'000; now += 50) (void)r.relay.expired(now);
    EXPECT_EQ(r.relay.wanted(), 0U);
    EXPECT_EQ(r.relay.announced_by(peer(1)), 0U);
}

TEST(TxRelay, of_strangers_only_so_many_announced_ids_are_looked_at_and_each_has_a_share) {
    Relay r;
    constexpr std::uint8_t kStrangers = 50;
    for (std::uint8_t i = 1; i <= kStrangers; ++i) r.relay.add_peer(peer(i));
    r.relay.add_peer(peer(100), true);
    r.relay.add_peer(peer(101));
    r.relay.set_member(peer(101), true);
    std::uint64_t looked = 0;
    const auto none = [&](const ShortId&) {
        ++looked;
        return false;
    };
    std::uint64_t number = 0;
    const auto fresh = [&](std::size_t count) {
        std::vector<ShortId> ids(count);
        for (auto& id : ids) {
            ++number;
            std::memcpy(id.data.data(), &number, 8);
        }
        return ids;
    };
    const auto looked_of = [&](std::uint8_t who, std::size_t count, std::uint64_t now) {
        const std::uint64_t before = looked;
        (void)r.relay.announced(peer(who), fresh(count), none, now);
        return looked - before;
    };
    // A burst of one is taken whole while there is room.
    EXPECT_EQ(looked_of(1, 60'000, 0), 60'000U);
    // All but one announce without end, ten messages of 1,024 every 100 ms; the last one announces its share.
    for (std::uint64_t now = 0; now < 2'000; now += 100)
        for (std::uint8_t i = 1; i < kStrangers; ++i) (void)looked_of(i, 10'240, now);
    looked = 0;
    constexpr std::uint64_t kShare = kStrangersIdsPerSecond / kStrangers;
    for (std::uint64_t now = 2'000; now < 12'000; now += 100) {
        for (std::uint8_t i = 1; i < kStrangers; ++i) (void)looked_of(i, 10'240, now);
        EXPECT_EQ(looked_of(kStrangers, kShare / 10, now), kShare / 10);
    }
    EXPECT_LE(looked, 10 * 2 * kStrangersIdsPerSecond);
    EXPECT_GE(looked, 9 * 2 * kStrangersIdsPerSecond);
    // Who was chosen, or is of the committee, is looked at whole.
    EXPECT_EQ(looked_of(100, 300'000, 12'000), 300'000U);
    EXPECT_EQ(looked_of(101, 300'000, 12'000), 300'000U);
    // The shares of those who left are the others'.
    for (std::uint8_t i = 2; i <= kStrangers; ++i) r.relay.remove_peer(peer(i));
    (void)looked_of(1, 300'000, 12'000);
    EXPECT_GE(looked_of(1, 300'000, 13'000), kStrangersIdsPerSecond);
}

TEST(TxRelay, what_a_member_told_the_other_members_hear_later_and_only_if_it_still_waits) {
    Relay r;
    for (std::uint8_t i = 1; i <= 4; ++i) r.relay.add_peer(peer(i));
    for (std::uint8_t i = 1; i <= 3; ++i) r.relay.set_member(peer(i), true);
    for (const std::uint32_t n : {7U, 8U}) {
        ASSERT_EQ(r.relay.announced(peer(1), {id_of(n)}, kAll, 0).size(), 1U);
        ASSERT_TRUE(r.relay.received(peer(1), {id_of(n)}, {transaction(n)}));
        r.relay.have(hash_of(transaction(n)), shared(n), 100);
    }
    // Outsiders at once; members hear it from the one who told.
    EXPECT_EQ(r.relay.take_announcements(peer(4)), (std::vector<ShortId>{id_of(7), id_of(8)}));
    EXPECT_TRUE(r.relay.take_announcements(peer(2)).empty());
    (void)r.relay.announced(peer(3), {id_of(8)}, kAll, 200);
    const auto waits = [](const ShortId& id) { return id == id_of(8); };
    r.relay.tell_members(waits, 100 + kTellMembersMs - 1);
    EXPECT_TRUE(r.relay.take_announcements(peer(2)).empty());
    r.relay.tell_members(waits, 100 + kTellMembersMs);
    EXPECT_EQ(r.relay.take_announcements(peer(2)), std::vector<ShortId>{id_of(8)});
    EXPECT_TRUE(r.relay.take_announcements(peer(3)).empty()) << "it has said itself that it has it";
    EXPECT_TRUE(r.relay.take_announcements(peer(1)).empty());
    r.relay.tell_members(kAll, 100 + 2 * kTellMembersMs);
    EXPECT_TRUE(r.relay.take_announcements(peer(2)).empty()) << "once";
}

TEST(TxRelay, what_no_member_told_members_hear_at_once) {
    Relay r;
    for (std::uint8_t i = 1; i <= 3; ++i) r.relay.add_peer(peer(i));
    r.relay.set_member(peer(1), true);
    r.relay.set_member(peer(2), true);
    r.relay.have(hash_of(transaction(1)), shared(1), 0);  // submitted here
    ASSERT_EQ(r.relay.announced(peer(3), {id_of(2)}, kAll, 0).size(), 1U);
    ASSERT_TRUE(r.relay.received(peer(3), {id_of(2)}, {transaction(2)}));
    r.relay.have(hash_of(transaction(2)), shared(2), 0);
    for (std::uint8_t i = 1; i <= 2; ++i)
        EXPECT_EQ(r.relay.take_announcements(peer(i)), (std::vector<ShortId>{id_of(1), id_of(2)}));
    // One that is a member no more is told as outsiders are.
    r.relay.set_member(peer(2), false);
    ASSERT_EQ(r.relay.announced(peer(1), {id_of(3)}, kAll, 0).size(), 1U);
    ASSERT_TRUE(r.relay.received(peer(1), {id_of(3)}, {transaction(3)}));
    r.relay.have(hash_of(transaction(3)), shared(3), 0);
    EXPECT_EQ(r.relay.take_announcements(peer(2)), std::vector<ShortId>{id_of(3)});
}

TEST(TxRelay, says_what_members_probably_have) {
    Relay r;
    for (std::uint8_t i = 1; i <= 2; ++i) r.relay.add_peer(peer(i));
    r.relay.set_member(peer(1), true);
    r.relay.have(hash_of(transaction(1)), shared(1), 100);  // submitted here
    EXPECT_FALSE(r.relay.is_spread(hash_of(transaction(1)), 70, 169));
    EXPECT_TRUE(r.relay.is_spread(hash_of(transaction(1)), 70, 170));
    for (std::uint8_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(r.relay.announced(peer(i), {id_of(1U + i)}, kAll, 100).size(), 1U);
        ASSERT_TRUE(r.relay.received(peer(i), {id_of(1U + i)}, {transaction(1U + i)}));
        r.relay.have(hash_of(transaction(1U + i)), shared(1U + i), 100);
    }
    EXPECT_TRUE(r.relay.is_spread(hash_of(transaction(2)), 70, 100)) << "a member told of it";
    EXPECT_FALSE(r.relay.is_spread(hash_of(transaction(3)), 70, 100)) << "an outsider did";
    EXPECT_FALSE(r.relay.is_spread(hash_of(transaction(4)), 70, 10'000)) << "it is not here";
}

TEST(TxRelay, what_was_delivered_is_here_before_it_is_taken_in_and_some_of_it) {
    Relay r;
    r.relay.add_peer(peer(1), true);
    const auto deliver = [&](const Bytes& encoded) {
        const ShortId id = messages::short_id(hash_of(encoded));
        (void)r.relay.announced(peer(1), {id}, kAll, 0);
        ASSERT_TRUE(r.relay.received(peer(1), {id}, {encoded}));
    };
    EXPECT_EQ(r.relay.find_here(id_of(0)), nullptr);
    for (std::uint32_t n = 0; n <= kMaxDelivered; ++n) deliver(transaction(n));
    EXPECT_EQ(r.relay.delivered(), kMaxDelivered);
    EXPECT_EQ(r.relay.find_here(id_of(0)), nullptr);
    ASSERT_NE(r.relay.find_here(id_of(1)), nullptr);
    EXPECT_EQ(*r.relay.find_here(id_of(1))->encoded, transaction(1));
    EXPECT_EQ(r.relay.find_here(id_of(1))->hash, hash_of(transaction(1)));
    EXPECT_EQ(r.relay.find(id_of(1)), nullptr) << "nobody is given it";
    constexpr std::size_t kLarge = 512U << 10;
    for (std::uint8_t i = 0; i < 40; ++i) deliver(Bytes(kLarge, i));
    EXPECT_EQ(r.relay.delivered(), kMaxDeliveredBytes / kLarge);
    // What is refused stays unknown.
    EXPECT_FALSE(r.relay.received(peer(1), {id_of(1'000'000)}, {transaction(1'000'001)}));
    EXPECT_EQ(r.relay.find_here(id_of(1'000'001)), nullptr);
}

TEST(TxRelay, a_newcomer_hears_of_the_freshest_and_no_more_than_its_queue_holds) {
    Relay r;
    for (std::uint32_t n = 0; n < kMaxQueuedPerPeer + 10; ++n) r.relay.have(hash_of(transaction(n)), shared(n), 0);
    r.relay.add_peer(peer(1));
    std::vector<ShortId> told;
    for (auto ids = r.relay.take_announcements(peer(1)); !ids.empty(); ids = r.relay.take_announcements(peer(1)))
        told.insert(told.end(), ids.begin(), ids.end());
    ASSERT_EQ(told.size(), kMaxQueuedPerPeer);
    EXPECT_EQ(told.front(), id_of(10));
    EXPECT_EQ(told.back(), id_of(kMaxQueuedPerPeer + 9));
    // A peer that does not take what is told it holds one queue, not more.
    r.relay.add_peer(peer(2));
    for (std::uint32_t n = 0; n < 100; ++n) r.relay.have(hash_of(transaction(100'000 + n)), shared(100'000 + n), 0);
    std::size_t count = 0;
    for (auto ids = r.relay.take_announcements(peer(2)); !ids.empty(); ids = r.relay.take_announcements(peer(2)))
        count += ids.size();
    EXPECT_EQ(count, kMaxQueuedPerPeer);
}

TEST(TxRelay, what_comes_another_way_is_wanted_of_nobody) {
    Relay r;
    r.relay.add_peer(peer(1));
    ASSERT_EQ(r.relay.announced(peer(1), {id_of(1)}, kAll, 0).size(), 1U);
    r.relay.have(hash_of(transaction(1)), shared(1), 0);
    EXPECT_EQ(r.relay.wanted(), 0U);
    EXPECT_EQ(r.relay.in_flight(peer(1)), 0U);
    EXPECT_EQ(r.relay.announced_by(peer(1)), 0U);
    EXPECT_TRUE(r.relay.announced(peer(1), {id_of(1)}, kAll, 1).empty()) << "it is here";
    EXPECT_TRUE(r.relay.announced(peer(9), {id_of(2)}, kAll, 1).empty()) << "of one that is no peer";
    EXPECT_EQ(r.relay.wanted(), 0U);
}

TEST(TxRelay, no_message_holds_more_ids_than_a_receiver_takes) {
    Relay r;
    r.relay.add_peer(peer(1));
    for (std::uint32_t n = 0; n < 2 * messages::kMaxShortIds + 1; ++n)
        r.relay.have(hash_of(transaction(n)), shared(n), 0);
    EXPECT_EQ(r.relay.take_announcements(peer(1)).size(), messages::kMaxShortIds);
    EXPECT_EQ(r.relay.take_announcements(peer(1)).size(), messages::kMaxShortIds);
    EXPECT_EQ(r.relay.take_announcements(peer(1)).size(), 1U);
    EXPECT_TRUE(r.relay.take_announcements(peer(9)).empty());
    // What one who leaves was asked for goes to another in as many messages as it takes, none of them empty.
    for (std::uint8_t i = 2; i <= 3; ++i) {
        r.relay.add_peer(peer(i), true);
        std::vector<ShortId> ids;
        for (std::uint32_t n = 0; n < 2 * messages::kMaxShortIds; ++n) ids.push_back(id_of(100'000 + n));
        EXPECT_EQ(r.relay.announced(peer(i), ids, kAll, 0).size(), i == 2 ? ids.size() : 0);
    }
    r.relay.remove_peer(peer(2));
    std::vector<std::size_t> sizes;
    for (const auto& ask : r.relay.expired(1)) {
        EXPECT_EQ(ask.peer, peer(3));
        sizes.push_back(ask.ids.size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{messages::kMaxShortIds, messages::kMaxShortIds}));
}

TEST(TxRelay, who_left_is_not_asked_for_what_it_was_chosen_for) {
    Relay r;
    r.relay.add_peer(peer(1));
    r.relay.add_peer(peer(2), true);
    r.relay.add_peer(peer(3));
    ASSERT_EQ(r.relay.announced(peer(1), {id_of(7), id_of(8)}, kAll, 0).size(), 2U);
    ASSERT_TRUE(r.relay.announced(peer(2), {id_of(7)}, kAll, 0).empty());
    (void)r.relay.not_delivered(peer(1), {id_of(8)}, 1);
    EXPECT_TRUE(r.relay.announced(peer(3), {id_of(7)}, kAll, 1).empty());
    r.relay.remove_peer(peer(2));  // chosen by then, and not told yet
    const auto asks = r.relay.expired(2);
    ASSERT_EQ(asks.size(), 1U);
    EXPECT_EQ(asks[0].peer, peer(3));
}

TEST(TxRelay, keeps_so_many_bytes_and_takes_no_other_for_what_it_has) {
    Relay r;
    constexpr std::size_t kLarge = 1U << 20;
    std::vector<Hash32> hashes;
    for (std::uint8_t i = 0; i <= kMaxRecentBytes / kLarge; ++i) {
        const auto encoded = std::make_shared<const Bytes>(kLarge, i);
        hashes.push_back(hash_of(*encoded));
        r.relay.have(hashes.back(), encoded, 0);
        r.relay.have(hashes.back(), encoded, 0);
    }
    EXPECT_EQ(r.relay.recent().size(), kMaxRecentBytes / kLarge);
    EXPECT_EQ(r.relay.find(messages::short_id(hashes.front())), nullptr);
    EXPECT_FALSE(r.relay.has(hashes.front()));
    EXPECT_TRUE(r.relay.has(hashes.back()));
    Hash32 other = hashes.back();
    other.data[31] ^= 1;  // of the same short id
    EXPECT_FALSE(r.relay.has(other));
    EXPECT_TRUE(r.relay.is_spread(hashes.back(), 70, 1'000));
    EXPECT_FALSE(r.relay.is_spread(other, 70, 1'000));
}

}  // namespace
}  // namespace quern::p2p::gossip
