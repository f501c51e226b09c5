#include <gtest/gtest.h>

#include "p2p/peer_manager.h"

namespace quern::p2p {
namespace {

crypto::PrivateKey key_of(std::uint64_t seed) {
    SeededRng rng(seed);
    return crypto::PrivateKey::generate(rng);
}

messages::PeerRecord record_of(std::uint64_t seed, std::string host, std::uint64_t sequence = 1) {
    messages::PeerRecord record{7878, crypto::address20(key_of(seed)), sequence, 10'000,
                                2,    {{std::move(host), 7900}},       {}};
    messages::sign(record, key_of(seed));
    return record;
}

Bytes20 address(std::uint8_t last) {
    Bytes20 out;
    out.data[19] = last;
    return out;
}

TEST(AddressBook, groups_networks) {
    EXPECT_EQ(network_group("1.2.3.4"), network_group("1.2.200.4"));
    EXPECT_NE(network_group("1.2.3.4"), network_group("1.3.3.4"));
    EXPECT_EQ(network_group("::ffff:1.2.3.4"), network_group("1.2.3.4"));
    for (const std::string_view local : {"127.0.0.1", "10.1.1.1", "192.168.7.7", "172.20.0.1", "::1", "fe80::1"})
        EXPECT_EQ(network_group(local), "local");
    EXPECT_EQ(network_group("2001:db8::1"), network_group("2001:db8:1::1"));
    EXPECT_EQ(network_group("node.example"), "name");
}

TEST(AddressBook, newer_records_replace_older_ones) {
    SeededRng rng(1);
    AddressBook book(7878, rng);
    EXPECT_TRUE(book.add(record_of(1, "1.1.1.1", 2), "9.9.9.9", 100));
    EXPECT_FALSE(book.add(record_of(1, "2.2.2.2", 1), "9.9.9.9", 100));
    EXPECT_TRUE(book.add(record_of(1, "3.3.3.3", 3), "9.9.9.9", 100));
    EXPECT_EQ(book.find(record_of(1, "").address)->endpoints[0].host, "3.3.3.3");
    EXPECT_FALSE(book.add(record_of(2, "1.1.1.1"), "9.9.9.9", 10'000));  // expired
    messages::PeerRecord foreign = record_of(3, "1.1.1.1");
    foreign.chain_id = 1;
    EXPECT_FALSE(book.add(foreign, "9.9.9.9", 100));
    EXPECT_EQ(book.size(), 1U);
}

TEST(AddressBook, one_source_cannot_fill_it) {
    SeededRng rng(2);
    AddressBook book(7878, rng);
    messages::PeerRecord record = record_of(1, "1.1.1.1");
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        record.address.data[0] = static_cast<std::uint8_t>(i);
        record.address.data[1] = static_cast<std::uint8_t>(i >> 8);
        record.endpoints[0].host = std::to_string(1 + i % 200) + "." + std::to_string(i / 200 % 250) + ".1.1";
        book.add(record, "9.9.1.1", 100);
    }
    EXPECT_LE(book.size(), kBucketsPerSource * kBucketSlots);
    EXPECT_GT(book.size(), 100U);
}

TEST(AddressBook, tried_ones_survive_a_flood_and_a_restart) {
    SeededRng rng(3);
    AddressBook book(7878, rng);
    for (std::uint64_t i = 1; i <= 5; ++i) {
        ASSERT_TRUE(book.add(record_of(i, std::to_string(i) + ".1.1.1"), std::to_string(i) + ".1.1.1", 100));
        book.succeeded(record_of(i, "").address, 100);
    }
    EXPECT_EQ(book.tried(), 5U);
    for (std::uint64_t i = 100; i < 200; ++i) book.add(record_of(i, "66.6.1.1"), "66.6.1.1", 100);
    EXPECT_EQ(book.tried(), 5U);
    SeededRng other(4);
    AddressBook again(7878, other);
    again.load(book.save(), 100);
    EXPECT_EQ(again.tried(), 5U);
    again.load(Bytes{1, 2, 3}, 100);
    EXPECT_EQ(again.sample(3, 100).size(), 3U);
}

struct Manager {
    SeededRng rng{5};
    AddressBook book{7878, rng};
    PeerManager manager{address(99), {4, 2}, book, rng};
};

TEST(PeerManager, dials_static_peers_with_growing_pauses) {
    Manager m;
    m.manager.add_static(address(1), {"1.1.1.1", 1});
    m.manager.add_static(address(99), {"1.1.1.1", 2});  // itself
    ASSERT_EQ(m.manager.due_dials(0), (std::vector<DialTarget>{{address(1), {"1.1.1.1", 1}}}));
    EXPECT_TRUE(m.manager.due_dials(0).empty());  // one at a time
    std::uint64_t now = 0;
    std::vector<std::uint64_t> pauses;
    for (int i = 0; i < 10; ++i) {
        m.manager.dial_failed(address(1), now);
        const std::uint64_t failed = now;
        while (m.manager.due_dials(now).empty()) now += 10;
        pauses.push_back(now - failed);
    }
    EXPECT_LE(pauses[0], kFirstBackoffMs * 3 / 2);
    EXPECT_GT(pauses[3], pauses[0]);
    EXPECT_LE(pauses.back(), kMaxBackoffMs * 5 / 4 + 10);
}

TEST(PeerManager, fills_outbound_slots_from_different_groups) {
    Manager m;
    for (std::uint64_t i = 1; i <= 6; ++i)
        m.book.add(record_of(i, "5.5.1." + std::to_string(i)), std::to_string(i) + ".9.9.9", 1);
    EXPECT_EQ(m.manager.due_dials(0).size(), 1U);  // all in one group
    m.book.add(record_of(20, "6.6.1.1"), "20.9.9.9", 1);
    std::size_t dialled = 0;
    for (std::uint64_t now = 0; now < 10 && dialled == 0; ++now) dialled = m.manager.due_dials(now).size();
    EXPECT_GE(dialled, 1U);
}

TEST(PeerManager, limits_inbound_by_slots_and_group) {
    Manager m;
    for (std::uint8_t i = 1; i <= 4; ++i) {
        ASSERT_TRUE(m.manager.admit(address(i), std::to_string(i) + ".1.1.1", false, 0));
        m.manager.connected(address(i), std::to_string(i) + ".1.1.1", false, 0);
    }
    EXPECT_EQ(m.manager.admit(address(9), "9.1.1.1", false, 0).error().name, "peer.slots_full");
    EXPECT_TRUE(m.manager.admit(address(9), "9.1.1.1", true, 0));
    m.manager.set_committee({address(10)});
    EXPECT_TRUE(m.manager.admit(address(10), "10.1.1.1", false, 0));
    SeededRng rng(6);
    AddressBook book(7878, rng);
    PeerManager wide(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < kMaxPerGroup; ++i) wide.connected(address(i), "7.7.1." + std::to_string(i), false, 0);
    EXPECT_EQ(wide.admit(address(50), "7.7.9.9", false, 0).error().name, "peer.group_full");
    EXPECT_TRUE(wide.admit(address(50), "7.8.9.9", false, 0));
}

TEST(PeerManager, evicts_the_newest_of_the_fullest_group_and_protects_the_useful) {
    SeededRng rng(7);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < 20; ++i) manager.connected(address(i), std::to_string(i + 1) + ".1.1.1", false, i);
    for (std::uint8_t i = 40; i < 46; ++i) manager.connected(address(i), "66.6.1.1", false, 1000U + i);
    EXPECT_EQ(*manager.evict(), address(45));
    manager.measured(address(45), 5);  // the quickest
    manager.delivered(address(44));    // delivers
    EXPECT_EQ(*manager.evict(), address(43));
}

TEST(PeerManager, scores_decay_and_bans_end) {
    Manager m;
    EXPECT_FALSE(m.manager.penalize(address(1), Offence::malformed, 0));
    EXPECT_EQ(m.manager.score(address(1), 0), 50);
    EXPECT_EQ(m.manager.score(address(1), 100'000), 30);
    EXPECT_FALSE(m.manager.penalize(address(1), Offence::malformed, 250'000));
    EXPECT_TRUE(m.manager.penalize(address(1), Offence::malformed, 250'000));
    EXPECT_TRUE(m.manager.is_banned(address(1), 250'001));
    EXPECT_EQ(m.manager.admit(address(1), "1.1.1.1", false, 250'001).error().name, "peer.banned");
    EXPECT_FALSE(m.manager.is_banned(address(1), 250'000 + kBanMs));
    // Those whom consensus needs are heard again soon.
    m.manager.set_committee({address(2)});
    EXPECT_TRUE(m.manager.penalize(address(2), Offence::protocol, 0));
    EXPECT_TRUE(m.manager.is_banned(address(2), 1));
    EXPECT_FALSE(m.manager.is_banned(address(2), kProtectedBanMs));
}

}  // namespace
}  // namespace quern::p2p
