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

struct Manager {
    SeededRng rng{5};
    AddressBook book{7878, rng};
    PeerManager manager{address(99), {4, 2}, book, rng};
};

TEST(PeerManager, dials_static_peers_with_growing_pauses) {
    Manager m;
    m.manager.add_static(address(1), {"1.1.1.1", 1});
    m.manager.add_static(address(99), {"1.1.1.1", 2});  // itself
    ASSERT_EQ(m.manager.due_dials(0, 1), (std::vector<DialTarget>{{address(1), {"1.1.1.1", 1}}}));
    EXPECT_TRUE(m.manager.due_dials(0, 1).empty());  // one at a time
    std::uint64_t now = 0;
    std::vector<std::uint64_t> pauses;
    for (int i = 0; i < 10; ++i) {
        m.manager.dial_failed(address(1), now, 1);
        const std::uint64_t failed = now;
        while (m.manager.due_dials(now, 1).empty()) now += 10;
        pauses.push_back(now - failed);
    }
    EXPECT_LE(pauses[0], kFirstBackoffMs * 3 / 2);
    EXPECT_GT(pauses[3], pauses[0]);
    EXPECT_LE(pauses.back(), kMaxBackoffMs * 5 / 4 + 10);
}

TEST(PeerManager, dials_only_so_many_at_a_time) {
    Manager m;
    for (std::uint8_t i = 1; i <= kMaxDialing + 4; ++i) m.manager.add_static(address(i), {"1.1.1.1", i});
    EXPECT_EQ(m.manager.due_dials(0, 1).size(), kMaxDialing);
    EXPECT_TRUE(m.manager.due_dials(0, 1).empty());
    m.manager.dial_failed(address(1), 0, 1);
    EXPECT_EQ(m.manager.due_dials(0, 1).size(), 1U);
}

TEST(PeerManager, fills_outbound_slots_from_different_groups) {
    Manager m;
    for (std::uint64_t i = 1; i <= 6; ++i)
        m.book.add(record_of(i, "5.5.1." + std::to_string(i)), std::to_string(i) + ".9.9.9", 1);
    EXPECT_EQ(m.manager.due_dials(0, 1).size(), 1U);  // all in one group
    m.book.add(record_of(20, "6.6.1.1"), "20.9.9.9", 1);
    std::size_t dialled = 0;
    for (std::uint64_t now = 0; now < 10 && dialled == 0; ++now) dialled = m.manager.due_dials(now, 1).size();
    EXPECT_GE(dialled, 1U);
}

TEST(PeerManager, dials_under_way_count_for_their_group) {
    SeededRng rng(8);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 8}, book, rng);
    for (std::uint64_t i = 1; i <= 6; ++i)
        book.add(record_of(i, "5.5.1." + std::to_string(i)), std::to_string(i) + ".9.9.9", 1);
    // Not one of them answers before the next look.
    std::size_t dialled = 0;
    for (std::uint64_t now = 0; now < 1'000; now += 50) dialled += manager.due_dials(now, 1).size();
    EXPECT_EQ(dialled, 1U);
}

TEST(PeerManager, outbound_slots_count_dials_under_way) {
    SeededRng rng(9);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 3}, book, rng);
    for (std::uint64_t i = 1; i <= 20; ++i)
        book.add(record_of(i, std::to_string(10 + i) + ".5.1.1"), std::to_string(10 + i) + ".9.9.9", 1);
    std::size_t dialled = 0;
    for (std::uint64_t now = 0; now < 1'000; now += 50) dialled += manager.due_dials(now, 1).size();
    EXPECT_EQ(dialled, 3U);
}

TEST(PeerManager, anchors_of_the_last_run_are_dialled_first) {
    SeededRng rng(10);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 2}, book, rng);
    for (std::uint64_t i = 1; i <= 40; ++i)
        book.add(record_of(i, "66." + std::to_string(i) + ".1.1"), std::to_string(10 + i) + ".9.9.9", 1);
    manager.add_anchor({address(1), {"7.7.7.7", 7}});
    manager.add_anchor({address(2), {"8.8.8.8", 8}});
    const auto due = manager.due_dials(0, 1);
    ASSERT_EQ(due.size(), 2U);
    EXPECT_EQ(due[0], (DialTarget{address(1), {"7.7.7.7", 7}}));
    manager.connected(address(1), "7.7.7.7", true, 100, 1);
    manager.connected(address(2), "8.8.8.8", true, 50, 1);
    manager.connected(address(3), "9.9.9.9", false, 10, 1);
    // For the next run: outbound ones, the oldest first.
    const auto anchors = manager.anchors();
    ASSERT_EQ(anchors.size(), 2U);
    EXPECT_EQ(anchors[0], (AddressBook::Candidate{address(2), {"8.8.8.8", 8}}));
    EXPECT_EQ(anchors[1].endpoint, (messages::Endpoint{"7.7.7.7", 7}));
}

TEST(PeerManager, feelers_test_addresses_and_take_no_slot) {
    SeededRng rng(11);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 1}, book, rng);
    for (std::uint64_t i = 1; i <= 6; ++i)
        book.add(record_of(i, std::to_string(10 + i) + ".5.1.1"), std::to_string(10 + i) + ".9.9.9", 1);
    const auto first = manager.due_dials(0, 1);
    ASSERT_EQ(first.size(), 1U);
    EXPECT_FALSE(manager.feeler_arrived(first[0].address, 1));
    manager.connected(first[0].address, first[0].endpoint.host, true, 0, 1);
    EXPECT_EQ(book.tried(), 1U);
    std::size_t feelers = 0;
    for (std::uint64_t now = 0; now < 20 * kFeelerMs; now += 1'000)
        for (const auto& target : manager.due_dials(now, 1)) {
            ++feelers;
            EXPECT_TRUE(manager.feeler_arrived(target.address, 1));
            EXPECT_FALSE(manager.feeler_arrived(target.address, 1));
        }
    EXPECT_GE(feelers, 5U);
    EXPECT_EQ(book.tried(), 6U);
    EXPECT_EQ(manager.peers().size(), 1U);
}

TEST(PeerManager, seeds_are_asked_only_when_nobody_else_can_be) {
    SeededRng rng(12);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 2}, book, rng);
    manager.add_seed(address(5), {"seed.example", 5});
    EXPECT_TRUE(manager.due_dials(0, 1).empty());
    EXPECT_TRUE(manager.due_dials(kSeedPatienceMs - 1, 1).empty());
    const auto due = manager.due_dials(kSeedPatienceMs, 1);
    ASSERT_EQ(due, (std::vector<DialTarget>{{address(5), {"seed.example", 5}}}));
    manager.connected(address(5), "9.9.9.9", true, kSeedPatienceMs, 1);
    EXPECT_TRUE(manager.is_seed(address(5)));
    EXPECT_TRUE(manager.anchors().empty());
    manager.disconnected(address(5), kSeedPatienceMs);
    book.add(record_of(1, "11.5.1.1"), "9.9.9.9", 1);
    std::size_t others = 0;
    for (std::uint64_t now = kSeedPatienceMs; now < 60'000; now += 1'000)
        for (const auto& target : manager.due_dials(now, 1)) {
            EXPECT_NE(target.address, address(5));
            ++others;
        }
    EXPECT_GE(others, 1U);
}

TEST(PeerManager, limits_inbound_by_slots_and_group) {
    Manager m;
    for (std::uint8_t i = 1; i <= 4; ++i) {
        ASSERT_TRUE(m.manager.admit(address(i), std::to_string(i) + ".1.1.1", false, 0));
        m.manager.connected(address(i), std::to_string(i) + ".1.1.1", false, 0, 1);
    }
    EXPECT_EQ(m.manager.admit(address(9), "9.1.1.1", false, 0).error().name, "peer.slots_full");
    EXPECT_TRUE(m.manager.admit(address(9), "9.1.1.1", true, 0));
    m.manager.set_committee({address(10)});
    EXPECT_TRUE(m.manager.admit(address(10), "10.1.1.1", false, 0));
    // Neither members nor those dialled take a stranger's place.
    Manager other;
    other.manager.set_committee({address(10)});
    other.manager.connected(address(10), "10.1.1.1", false, 0, 1);
    other.manager.connected(address(11), "11.1.1.1", true, 0, 1);
    for (std::uint8_t i = 1; i <= 4; ++i) {
        EXPECT_TRUE(other.manager.admit(address(i), std::to_string(i) + ".1.1.1", false, 0));
        other.manager.connected(address(i), std::to_string(i) + ".1.1.1", false, 0, 1);
    }
    EXPECT_EQ(other.manager.admit(address(9), "9.1.1.1", false, 0).error().name, "peer.slots_full");
    SeededRng rng(6);
    AddressBook book(7878, rng);
    PeerManager wide(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < kMaxPerGroup; ++i)
        wide.connected(address(i), "7.7.1." + std::to_string(i), false, 0, 1);
    EXPECT_EQ(wide.admit(address(50), "7.7.9.9", false, 0).error().name, "peer.group_full");
    EXPECT_TRUE(wide.admit(address(50), "7.8.9.9", false, 0));
}

TEST(PeerManager, evicts_the_newest_of_the_fullest_group_and_protects_the_useful) {
    SeededRng rng(7);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < 20; ++i) manager.connected(address(i), std::to_string(i + 1) + ".1.1.1", false, i, 1);
    for (std::uint8_t i = 40; i < 46; ++i) manager.connected(address(i), "66.6.1.1", false, 1000U + i, 1);
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

TEST(PeerManager, neither_a_banned_one_nor_a_connected_one_is_dialled) {
    Manager m;
    m.manager.add_static(address(1), {"1.1.1.1", 1});
    ASSERT_TRUE(m.manager.penalize(address(1), Offence::protocol, 0));
    EXPECT_TRUE(m.manager.due_dials(kProtectedBanMs - 1, 1).empty());
    EXPECT_EQ(m.manager.due_dials(kProtectedBanMs, 1).size(), 1U);
    m.manager.connected(address(1), "1.1.1.1", true, kProtectedBanMs, 1);
    EXPECT_TRUE(m.manager.due_dials(kProtectedBanMs + 1, 1).empty());
}

TEST(PeerManager, members_are_dialled_where_the_book_knows_them_and_take_no_slot) {
    Manager m;
    const Bytes20 member = record_of(1, "").address;
    ASSERT_TRUE(m.book.add(record_of(1, "5.5.1.1"), "9.9.9.9", 1));
    m.book.failed(member, 1);
    m.manager.set_committee({member, address(7), address(99)});  // one that nobody knows, and itself
    EXPECT_EQ(m.manager.fixed_hosts(), std::vector<std::string>{"5.5.1.1"});
    m.manager.add_static(address(8), {"8.8.8.8", 8});
    EXPECT_EQ(m.manager.fixed_hosts(), (std::vector<std::string>{"8.8.8.8", "5.5.1.1"}));
    const auto due = m.manager.due_dials(0, 1);
    EXPECT_EQ(due, (std::vector<DialTarget>{{address(8), {"8.8.8.8", 8}}, {member, {"5.5.1.1", 7900}}}));
    // Two others, as if nobody were there: dials of fixed ones are under way, one has come about, strangers came in.
    m.manager.connected(member, "5.5.1.1", true, 0, 1);
    for (std::uint8_t i = 20; i < 24; ++i) m.manager.connected(address(i), std::to_string(i) + ".1.1.1", false, 0, 1);
    for (std::uint64_t i = 2; i <= 6; ++i)
        m.book.add(record_of(i, std::to_string(20 + i) + ".1.1.1"), std::to_string(i) + ".9.9.9", 1);
    std::size_t dialled = 0;
    for (std::uint64_t now = 1; now < 10; ++now) dialled += m.manager.due_dials(now, 1).size();
    EXPECT_EQ(dialled, 2U);
}

TEST(PeerManager, on_a_local_network_all_are_of_one_group_and_are_dialled) {
    SeededRng rng(13);
    AddressBook book(7878, rng, true);
    PeerManager manager(address(99), {4, 3}, book, rng);
    for (std::uint64_t i = 1; i <= 12; ++i)
        book.add(record_of(i, "127.0.0." + std::to_string(i)), std::to_string(10 + i) + ".9.9.9", 1);
    std::size_t dialled = 0;
    for (std::uint64_t now = 0; now < 10; ++now) dialled += manager.due_dials(now, 1).size();
    EXPECT_EQ(dialled, 3U);
}

TEST(PeerManager, more_anchors_than_slots_take_the_slots) {
    Manager m;
    for (std::uint8_t i = 1; i <= 3; ++i) m.manager.add_anchor({address(i), {std::to_string(i) + ".7.7.7", 7}});
    EXPECT_EQ(m.manager.due_dials(0, 1).size(), 2U);
    for (std::uint8_t i = 1; i <= kMaxAnchors + 2; ++i)
        m.manager.connected(address(i), std::to_string(i) + ".7.7.7", true, i, 1);
    EXPECT_EQ(m.manager.anchors().size(), kMaxAnchors) << "and so many are kept for the next run";
}

TEST(PeerManager, seeds_take_free_slots_alone_and_wait_while_somebody_is_there) {
    Manager m;
    for (std::uint8_t i = 1; i <= 3; ++i) m.manager.add_seed(address(i), {"seed" + std::to_string(i), 5});
    m.manager.connected(address(9), "9.9.9.9", true, 0, 1);
    EXPECT_TRUE(m.manager.due_dials(0, 1).empty());
    EXPECT_TRUE(m.manager.due_dials(2 * kSeedPatienceMs, 1).empty());
    m.manager.disconnected(address(9), 2 * kSeedPatienceMs);
    EXPECT_TRUE(m.manager.due_dials(2 * kSeedPatienceMs, 1).empty());
    EXPECT_EQ(m.manager.due_dials(3 * kSeedPatienceMs, 1).size(), 2U);
    // Neither who was dialled for itself nor who is needed anyway is left when it has told what it knows.
    m.manager.connected(address(1), "1.1.1.1", true, 0, 1);
    EXPECT_TRUE(m.manager.is_seed(address(1)));
    m.manager.set_committee({address(1)});
    EXPECT_FALSE(m.manager.is_seed(address(1)));
    m.manager.connected(address(20), "2.1.1.1", true, 0, 1);
    EXPECT_FALSE(m.manager.is_seed(address(20)));
    EXPECT_FALSE(m.manager.is_seed(address(21)));
    // Somebody to dial who comes just before the patience ends.
    Manager other;
    other.manager.add_seed(address(1), {"seed", 5});
    EXPECT_TRUE(other.manager.due_dials(0, 1).empty());
    ASSERT_TRUE(other.book.add(record_of(1, "11.5.1.1"), "9.9.9.9", 1));
    EXPECT_EQ(other.manager.due_dials(kSeedPatienceMs, 1),
              (std::vector<DialTarget>{{record_of(1, "").address, {"11.5.1.1", 7900}}}));
    // Who is known and may not be dialled is nobody to dial.
    Manager banned;
    banned.manager.add_seed(address(1), {"seed", 5});
    ASSERT_TRUE(banned.book.add(record_of(1, "11.5.1.1"), "9.9.9.9", 1));
    ASSERT_TRUE(banned.manager.penalize(record_of(1, "").address, Offence::protocol, 0));
    EXPECT_TRUE(banned.manager.due_dials(0, 1).empty());
    EXPECT_EQ(banned.manager.due_dials(kSeedPatienceMs, 1), (std::vector<DialTarget>{{address(1), {"seed", 5}}}));
}

TEST(PeerManager, without_outbound_slots_nobody_is_tested_either) {
    SeededRng rng(14);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 0}, book, rng);
    ASSERT_TRUE(book.add(record_of(1, "11.5.1.1"), "9.9.9.9", 1));
    for (std::uint64_t now = 0; now < 5 * kFeelerMs; now += 1'000) EXPECT_TRUE(manager.due_dials(now, 1).empty());
}

TEST(PeerManager, a_test_of_one_that_is_needed_meanwhile_stays_a_connection) {
    SeededRng rng(15);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 1}, book, rng);
    manager.connected(address(1), "66.1.1.1", true, 0, 1);  // takes the slot
    ASSERT_TRUE(book.add(record_of(1, "11.5.1.1"), "9.9.9.9", 1));
    std::vector<DialTarget> due;
    for (std::uint64_t now = 0; now < 5 * kFeelerMs && due.empty(); now += 1'000) due = manager.due_dials(now, 1);
    ASSERT_EQ(due.size(), 1U);
    manager.set_committee({due[0].address});
    EXPECT_FALSE(manager.feeler_arrived(due[0].address, 1));
}

TEST(PeerManager, who_failed_a_test_gives_its_place_to_who_waits_for_it) {
    SeededRng rng(17);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {4, 1}, book, rng);
    manager.connected(address(1), "66.1.1.1", true, 0, 1);  // takes the slot
    messages::PeerRecord record = record_of(1, "5.5.1.1");
    record.expiry = 10'000'000;
    for (std::uint32_t i = 0; book.collisions() == 0 && i < 5'000; ++i) {
        record.address.data[0] = static_cast<std::uint8_t>(i);
        record.address.data[1] = static_cast<std::uint8_t>(i >> 8);
        record.endpoints[0].host = "5.5." + std::to_string(i >> 8) + "." + std::to_string(i & 255);
        if (book.add(record, std::to_string(11 + i % 200) + ".1.1.1", 1))
            book.succeeded(record.address, record.endpoints[0], 1);
    }
    ASSERT_EQ(book.collisions(), 1U);
    constexpr std::uint64_t kLater = 2 + kFreshSeconds;
    const auto holder = book.feeler(kLater);
    ASSERT_TRUE(holder);
    book.failed(holder->address, kLater);
    for (std::uint64_t now = 0; now < 2 * kFeelerMs; now += 1'000) (void)manager.due_dials(now, kLater);
    EXPECT_EQ(book.collisions(), 0U);
    EXPECT_EQ(book.find(holder->address), nullptr);
}

TEST(PeerManager, only_dials_that_failed_count_against_an_address) {
    Manager m;
    ASSERT_TRUE(m.book.add(record_of(1, "5.5.1.1"), "9.9.9.9", 1));
    const Bytes20 known = record_of(1, "").address;
    for (int i = 0; i < 10; ++i) m.manager.dial_failed(known, 0, 1);  // nobody dials it
    EXPECT_EQ(m.book.sample(9, 1).size(), 1U);
    std::uint64_t now = 0;
    for (int i = 0; i < 8; ++i) {
        m.manager.set_committee({known});
        while (m.manager.due_dials(now, 1).empty()) now += 1'000;
        m.manager.dial_failed(known, now, 1);
    }
    EXPECT_TRUE(m.book.sample(9, 1).empty());
}

TEST(PeerManager, one_that_stayed_for_a_while_is_dialled_again_soon) {
    Manager m;
    m.manager.add_static(address(1), {"1.1.1.1", 1});
    std::uint64_t now = 0;
    const auto wait_for_dial = [&] {
        const std::uint64_t begun = now;
        while (m.manager.due_dials(now, 1).empty()) now += 50;
        return now - begun;
    };
    for (int i = 0; i < 12; ++i) {
        (void)wait_for_dial();
        m.manager.dial_failed(address(1), now, 1);
    }
    (void)wait_for_dial();
    m.manager.connected(address(1), "1.1.1.1", true, now, 1);
    m.manager.disconnected(address(1), now);
    EXPECT_GE(wait_for_dial(), kMaxBackoffMs);  // it went at once: it is no better than before
    m.manager.connected(address(1), "1.1.1.1", true, now, 1);
    now += kMaxBackoffMs + 1;
    m.manager.disconnected(address(1), now);
    const std::uint64_t waited = wait_for_dial();
    EXPECT_GE(waited, kFirstBackoffMs);
    EXPECT_LE(waited, 2 * kFirstBackoffMs);
}

TEST(PeerManager, who_becomes_a_member_is_not_evicted) {
    SeededRng rng(16);
    AddressBook book(7878, rng);
    PeerManager manager(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < 20; ++i) manager.connected(address(i), std::to_string(i + 1) + ".1.1.1", false, i, 1);
    const auto victim = manager.evict();
    ASSERT_TRUE(victim);
    manager.set_committee({*victim});
    EXPECT_NE(manager.evict(), victim);
    // Among few all are protected.
    PeerManager small(address(99), {100, 2}, book, rng);
    for (std::uint8_t i = 0; i < kProtectedByPing + kProtectedByDelivery; ++i)
        small.connected(address(i), "66.6.1.1", false, i, 1);
    EXPECT_FALSE(small.evict());
}

TEST(PeerManager, a_flood_of_new_keys_makes_no_ban_forgotten) {
    Manager m;
    const auto key = [](std::uint32_t n) {
        Bytes20 out;
        out.data[0] = 1;
        out.data[18] = static_cast<std::uint8_t>(n >> 8);
        out.data[19] = static_cast<std::uint8_t>(n);
        return out;
    };
    ASSERT_TRUE(m.manager.penalize(address(1), Offence::protocol, 0));
    ASSERT_FALSE(m.manager.penalize(address(2), Offence::malformed, 1));
    for (std::uint32_t i = 0; i + 2 < kMaxRememberedScores; ++i)
        (void)m.manager.penalize(key(i), Offence::useless, 1'000);
    // It is full; one that is known takes no new place.
    ASSERT_FALSE(m.manager.penalize(key(0), Offence::useless, 1'000));
    EXPECT_EQ(m.manager.score(address(2), 1'000), 50);
    for (std::uint32_t i = 0; i < kMaxRememberedScores; ++i)
        (void)m.manager.penalize(key(10'000 + i), Offence::useless, 2'000);
    EXPECT_TRUE(m.manager.is_banned(address(1), 2'000));
    EXPECT_EQ(m.manager.score(address(2), 2'000), 0) << "the oldest is forgotten";
}

}  // namespace
}  // namespace quern::p2p
