#include "p2p/address_book.h"

#include <gtest/gtest.h>

#include "support/rlp_edit.h"

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
        book.succeeded(record_of(i, "").address, {std::to_string(i) + ".1.1.1", 7900}, 100);
    }
    EXPECT_EQ(book.tried(), 5U);
    for (std::uint64_t i = 100; i < 200; ++i) book.add(record_of(i, "66.6.1.1"), "66.6.1.1", 100);
    EXPECT_EQ(book.tried(), 5U);
    SeededRng other(4);
    AddressBook again(7878, other);
    again.load(book.save({}), 100);
    EXPECT_EQ(again.tried(), 5U);
    again.load(Bytes{1, 2, 3}, 100);
    EXPECT_EQ(again.sample(3, 100).size(), 3U);
}

const messages::Endpoint kHome{"1.1.1.1", 7900};

TEST(AddressBook, strangers_cannot_send_a_node_to_loopback_private_networks_or_names) {
    SeededRng rng(5);
    AddressBook book(7878, rng);
    std::uint64_t seed = 1;
    for (const std::string host : {"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.1.1", "::1", "fe80::1", "0.0.0.0",
                                   "224.0.0.1", "node.example", "localhost", "::ffff:127.0.0.1"})
        EXPECT_FALSE(book.add(record_of(seed++, host), "9.9.9.9", 100)) << host;
    EXPECT_EQ(book.size(), 0U);
    // Of several endpoints those that may be dialled are.
    messages::PeerRecord mixed = record_of(50, "1.1.1.1");
    mixed.endpoints.insert(mixed.endpoints.begin(), {"127.0.0.1", 8545});
    messages::sign(mixed, key_of(50));
    ASSERT_TRUE(book.add(mixed, "9.9.9.9", 100));
    EXPECT_EQ(book.endpoints(mixed.address), std::vector<messages::Endpoint>{kHome});
    for (int i = 0; i < 50; ++i) EXPECT_EQ(book.select()->endpoint, kHome);
    SeededRng other(6);
    AddressBook local(7878, other, true);
    EXPECT_TRUE(local.add(record_of(1, "127.0.0.1"), "127.0.0.1", 100));
    EXPECT_TRUE(local.add(record_of(2, "node.example"), "127.0.0.1", 100));
}

TEST(AddressBook, a_tried_one_keeps_its_endpoint_until_the_new_one_was_reached) {
    SeededRng rng(7);
    AddressBook book(7878, rng);
    const Bytes20 address = record_of(1, "").address;
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1", 1), "9.9.9.9", 100));
    book.succeeded(address, kHome, 100);
    // Its key was stolen, or it moves: nobody can tell before the new place was tried.
    ASSERT_TRUE(book.add(record_of(1, "6.6.6.6", 2), "9.9.9.9", 100));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(book.select()->endpoint, kHome);
    EXPECT_EQ(book.find(address)->sequence, 1U);
    EXPECT_EQ(book.endpoints(address).size(), 2U);
    bool tested = false;
    for (int i = 0; i < 200 && !tested; ++i) {
        const auto feeler = book.feeler(100);
        tested = feeler && feeler->endpoint.host == "6.6.6.6";
    }
    EXPECT_TRUE(tested);
    book.succeeded(address, kHome, 200);
    EXPECT_EQ(book.find(address)->sequence, 1U);
    book.succeeded(address, {"6.6.6.6", 7900}, 300);
    EXPECT_EQ(book.find(address)->sequence, 2U);
    EXPECT_EQ(book.select()->endpoint.host, "6.6.6.6");
}

// Records of one network until two of them want one place among the tried.
struct Collision {
    SeededRng rng{8};
    AddressBook book{7878, rng};
    std::vector<Bytes20> tried;
    Bytes20 newcomer;
    explicit Collision(std::uint64_t now) {
        messages::PeerRecord record = record_of(1, "5.5.1.1");
        record.expiry = 10'000'000;
        for (std::uint32_t i = 0; book.collisions() == 0 && i < 5'000; ++i) {
            record.address.data[0] = static_cast<std::uint8_t>(i);
            record.address.data[1] = static_cast<std::uint8_t>(i >> 8);
            record.endpoints[0].host = "5.5." + std::to_string(i >> 8) + "." + std::to_string(i & 255);
            if (!book.add(record, std::to_string(11 + i % 200) + "." + std::to_string(i % 250) + ".1.1", now)) continue;
            book.succeeded(record.address, record.endpoints[0], now);
            if (book.collisions() != 0)
                newcomer = record.address;
            else
                tried.push_back(record.address);
        }
    }
};

TEST(AddressBook, who_is_tried_leaves_only_after_a_test_that_failed) {
    constexpr std::uint64_t kNow = 1'000'000;
    {
        Collision c(kNow);
        const std::size_t before = c.book.tried();
        // Heard from a moment ago: no test is needed, the newcomer waits for another occasion.
        c.book.resolve_collisions(kNow);
        EXPECT_EQ(c.book.collisions(), 0U);
        EXPECT_EQ(c.book.tried(), before);
    }
    Collision c(kNow);
    const std::uint64_t later = kNow + kFreshSeconds + 1;
    c.book.succeeded(c.newcomer, {}, later);
    const auto feeler = c.book.feeler(later);
    ASSERT_TRUE(feeler);
    const Bytes20 holder = feeler->address;
    EXPECT_NE(std::find(c.tried.begin(), c.tried.end(), holder), c.tried.end());
    c.book.failed(holder, later);
    c.book.resolve_collisions(later);
    EXPECT_EQ(c.book.collisions(), 0U);
    EXPECT_EQ(c.book.find(holder), nullptr);
    EXPECT_EQ(c.book.tried(), c.tried.size());
    // One that answers the test stays.
    Collision d(kNow);
    const auto test = d.book.feeler(later);
    ASSERT_TRUE(test);
    d.book.succeeded(test->address, test->endpoint, later);
    d.book.resolve_collisions(later);
    EXPECT_NE(d.book.find(test->address), nullptr);
    EXPECT_EQ(d.book.tried(), d.tried.size());
    EXPECT_EQ(d.book.collisions(), 0U);
}

TEST(AddressBook, anchors_places_and_dates_survive_a_restart) {
    SeededRng rng(9);
    AddressBook book(7878, rng);
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1"), "9.9.9.9", 100));
    book.succeeded(record_of(1, "").address, kHome, 100);
    ASSERT_TRUE(book.add(record_of(2, "2.1.1.1"), "9.9.9.9", 100));
    const std::vector<AddressBook::Candidate> anchors = {{record_of(1, "").address, kHome}};
    const Bytes file = book.save(anchors);
    SeededRng other(10);
    AddressBook again(7878, other);
    EXPECT_EQ(again.load(file, 100), anchors);
    EXPECT_EQ(again.tried(), 1U);
    EXPECT_EQ(again.save(anchors), file);
    // What has expired meanwhile is not taken up.
    AddressBook late(7878, other);
    (void)late.load(file, 20'000);
    EXPECT_EQ(late.size(), 0U);
}

TEST(AddressBook, of_a_tried_one_only_the_newest_word_waits) {
    SeededRng rng(11);
    AddressBook book(7878, rng);
    const Bytes20 address = record_of(1, "").address;
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1", 1), "9.9.9.9", 100));
    EXPECT_FALSE(book.add(record_of(1, "2.2.2.2", 1), "9.9.9.9", 100)) << "no newer than what is known";
    book.succeeded(address, kHome, 100);
    book.succeeded(address, kHome, 101);
    EXPECT_EQ(book.collisions(), 0U) << "it has its place";
    EXPECT_FALSE(book.feeler(100)) << "it was tested";
    ASSERT_TRUE(book.add(record_of(1, "6.6.6.6", 5), "9.9.9.9", 100));
    EXPECT_FALSE(book.add(record_of(1, "3.3.3.3", 3), "9.9.9.9", 100));
    EXPECT_FALSE(book.add(record_of(1, "3.3.3.3", 5), "9.9.9.9", 100));
    EXPECT_EQ(book.endpoints(address), (std::vector<messages::Endpoint>{kHome, {"6.6.6.6", 7900}}));
    // It says that it is where it was.
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1", 6), "9.9.9.9", 100));
    EXPECT_EQ(book.endpoints(address), std::vector<messages::Endpoint>{kHome});
    EXPECT_EQ(book.find(address)->sequence, 6U);
}

TEST(AddressBook, one_that_is_heard_of_anew_leaves_its_old_place) {
    SeededRng rng(12);
    AddressBook book(7878, rng);
    const Bytes20 address = record_of(1, "").address;
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1", 1), "9.9.9.9", 100));
    ASSERT_TRUE(book.add(record_of(1, "2.2.2.2", 2), "8.8.8.8", 100));
    ASSERT_TRUE(book.feeler(100));
    book.succeeded(address, {"2.2.2.2", 7900}, 100);
    EXPECT_EQ(book.tried(), 1U);
    EXPECT_FALSE(book.feeler(100)) << "nothing is left where it was heard of";
}

TEST(AddressBook, who_fails_again_and_again_or_has_expired_is_not_passed_on_nor_tested) {
    SeededRng rng(13);
    AddressBook book(7878, rng);
    const Bytes20 address = record_of(1, "").address;
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1"), "9.9.9.9", 100));
    for (int i = 0; i < 7; ++i) book.failed(address, 100);
    EXPECT_EQ(book.sample(9, 100).size(), 1U);
    EXPECT_TRUE(book.sample(0, 100).empty());
    EXPECT_TRUE(book.feeler(100));
    EXPECT_TRUE(book.sample(9, 10'000).empty());
    EXPECT_FALSE(book.feeler(10'000));
    book.failed(address, 100);
    EXPECT_TRUE(book.sample(9, 100).empty());
    EXPECT_FALSE(book.feeler(100));
    book.succeeded(address, kHome, 100);
    EXPECT_EQ(book.sample(9, 100).size(), 1U);
}

TEST(AddressBook, who_fails_is_chosen_less_often_and_not_never) {
    SeededRng rng(14);
    AddressBook book(7878, rng);
    const Bytes20 failing = record_of(1, "").address;
    ASSERT_TRUE(book.add(record_of(1, "1.1.1.1"), "9.9.9.9", 100));
    book.failed(failing, 100);
    bool chosen = false;
    for (int i = 0; i < 100; ++i) chosen = chosen || book.select();
    EXPECT_TRUE(chosen);
    ASSERT_TRUE(book.add(record_of(2, "2.1.1.1"), "8.8.8.8", 100));
    for (int i = 0; i < 6; ++i) book.failed(failing, 100);
    std::size_t times = 0;
    for (int i = 0; i < 400; ++i) {
        const auto each = book.select();
        times += each && each->address == failing ? 1 : 0;
    }
    EXPECT_LE(times, 20U);
}

TEST(AddressBook, places_of_what_expired_or_fails_are_taken_and_others_are_not) {
    SeededRng rng(15);
    AddressBook book(7878, rng);
    messages::PeerRecord record = record_of(1, "1.1.1.1");
    std::uint32_t next = 0;
    std::vector<Bytes20> taken;
    const auto flood = [&](std::uint64_t expiry, std::uint64_t now) {
        record.expiry = expiry;
        taken.clear();
        for (std::uint32_t i = 0; i < 4'000; ++i, ++next) {
            record.address.data[0] = static_cast<std::uint8_t>(next);
            record.address.data[1] = static_cast<std::uint8_t>(next >> 8);
            record.address.data[2] = static_cast<std::uint8_t>(next >> 16);
            record.endpoints[0].host = std::to_string(1 + i % 100) + "." + std::to_string(i / 100) + ".1.1";
            if (book.add(record, "9.9.1.1", now)) taken.push_back(record.address);
        }
        return taken.size();
    };
    const std::size_t places = flood(1'000, 100);
    EXPECT_GT(places, 100U);
    EXPECT_LE(flood(2'000, 100), places / 5) << "their places are held";
    const auto size = book.size();
    EXPECT_GT(flood(2'000, 1'000), places * 4 / 5) << "most have expired";
    EXPECT_LE(book.size(), size + size / 10);
    for (const auto& each : taken)
        for (int i = 0; i < 8; ++i) book.failed(each, 1'000);
    EXPECT_GT(flood(2'000, 1'000), places * 3 / 5) << "most fail";
    EXPECT_LE(book.size(), kBucketsPerSource * kBucketSlots);
}

TEST(AddressBook, so_many_wait_for_a_place_once_each_and_not_for_ever) {
    constexpr std::uint64_t kNow = 1'000'000;
    Collision c(kNow);
    ASSERT_EQ(c.book.collisions(), 1U);
    c.book.succeeded(c.newcomer, {}, kNow);
    EXPECT_EQ(c.book.collisions(), 1U);
    messages::PeerRecord record = record_of(1, "5.5.1.1");
    record.expiry = 10'000'000;
    for (std::uint32_t i = 0; i < 3'000; ++i) {
        record.address.data[2] = 0x77;
        record.address.data[0] = static_cast<std::uint8_t>(i);
        record.address.data[1] = static_cast<std::uint8_t>(i >> 8);
        record.endpoints[0].host = "5.5." + std::to_string(i >> 8) + "." + std::to_string(i & 255);
        if (c.book.add(record, std::to_string(11 + i % 200) + "." + std::to_string(i % 250) + ".1.1", kNow))
            c.book.succeeded(record.address, record.endpoints[0], kNow);
    }
    EXPECT_EQ(c.book.collisions(), kMaxCollisions);
    // Nobody has tested who is there, who was heard from long ago: then it stays.
    constexpr std::uint64_t kLater = kNow + kFreshSeconds + 1;
    c.book.resolve_collisions(kLater);
    ASSERT_EQ(c.book.collisions(), 0U);
    const std::size_t tried = c.book.tried();
    c.book.succeeded(c.newcomer, {}, kLater);
    ASSERT_EQ(c.book.collisions(), 1U);
    c.book.resolve_collisions(kLater + kCollisionSeconds - 1);
    EXPECT_EQ(c.book.collisions(), 1U);
    const auto holder = c.book.feeler(kLater);
    ASSERT_TRUE(holder);
    c.book.resolve_collisions(kLater + kCollisionSeconds);
    EXPECT_EQ(c.book.collisions(), 0U);
    EXPECT_NE(c.book.find(holder->address), nullptr);
    EXPECT_EQ(c.book.tried(), tried);
    // And one whose record has expired leaves without a test.
    c.book.succeeded(c.newcomer, {}, kLater);
    c.book.resolve_collisions(record.expiry);
    EXPECT_EQ(c.book.find(holder->address), nullptr);
    EXPECT_EQ(c.book.tried(), tried);
}

TEST(AddressBook, of_a_file_what_may_not_be_dialled_is_not_taken_up) {
    SeededRng rng(16);
    AddressBook book(7878, rng, true);
    ASSERT_TRUE(book.add(record_of(1, "127.0.0.1"), "127.0.0.1", 100));
    ASSERT_TRUE(book.add(record_of(2, "2.1.1.1"), "9.9.9.9", 100));
    const AddressBook::Candidate good{record_of(1, "").address, {"1.1.1.1", 65'535}};
    std::vector<AddressBook::Candidate> anchors = {{good.address, {"a host", 1}}, {good.address, {"1.1.1.1", 0}}};
    for (std::size_t i = 0; i < kMaxAnchors + 2; ++i) anchors.push_back(good);
    const Bytes file = book.save(anchors);
    SeededRng other(17);
    AddressBook again(7878, other);
    EXPECT_EQ(again.load(file, 100), std::vector(kMaxAnchors, good));
    EXPECT_EQ(again.size(), 1U) << "loopback, on a network that is not local";
    AddressBook late(7878, other, true);
    (void)late.load(file, 10'000);
    EXPECT_EQ(late.size(), 0U) << "they have just expired";
    AddressBook foreign(1, other, true);
    (void)foreign.load(file, 100);
    EXPECT_EQ(foreign.size(), 0U);
    AddressBook older(7878, other, true);
    EXPECT_TRUE(older.load(with_item(file, {0}, rlp_integer(Uint256(1))), 100).empty());
    EXPECT_EQ(older.size(), 0U);
}

}  // namespace
}  // namespace quern::p2p
