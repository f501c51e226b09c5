// Connections: which of them stay, which end and why, over real sockets.
#include <gtest/gtest.h>

#include <algorithm>

#include "p2p/peer_manager.h"
#include "p2p/transport/connection.h"
#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p {
namespace {

using namespace testing;
using messages::Type;
const Hash32 kGenesis{{1, 2, 3}};
constexpr std::uint8_t kBulk = 2;

std::vector<std::string> left(const TestNode& node) {
    const std::lock_guard lock(node.handler.mutex);
    return node.handler.left;
}
bool has_bulk(const TestNode& node) {
    const auto peers = node.network->status().peers;
    return peers.size() == 1 && peers[0].has_bulk;
}
bool joins(const TestNode& node, RawPeer& raw, std::uint64_t seed) {
    return raw.shake_hands(key_of(seed), 7878, kGenesis) && raw.say_hello() && eventually([&] {
               for (const auto& peer : node.network->status().peers)
                   if (peer.address == address_of(seed)) return true;
               return false;
           });
}

TEST(Connections, bulk_belongs_to_a_peer_and_the_newer_one_stays) {
    TestNode node(1);
    node.handler.chain_length = 1;
    RawPeer alone(node.network->port());
    ASSERT_TRUE(alone.shake_hands(key_of(60), 7878, kGenesis, kBulk));
    EXPECT_TRUE(alone.closed_by_peer()) << "nobody speaks for it";
    RawPeer control(node.network->port());
    ASSERT_TRUE(joins(node, control, 60));
    EXPECT_FALSE(has_bulk(node));
    auto first = std::make_unique<RawPeer>(node.network->port());
    ASSERT_TRUE(first->shake_hands(key_of(60), 7878, kGenesis, kBulk));
    ASSERT_TRUE(eventually([&] { return has_bulk(node); }));
    auto second = std::make_unique<RawPeer>(node.network->port());
    ASSERT_TRUE(second->shake_hands(key_of(60), 7878, kGenesis, kBulk));
    EXPECT_TRUE(first->closed_by_peer());
    control.say(Type::get_range, encode(messages::GetRange{1, 1, 1'000}), 5);
    EXPECT_TRUE(second->next_message(Type::range));
    // Without it answers go where everything goes.
    second->shut_down();
    ASSERT_TRUE(eventually([&] { return !has_bulk(node) && node.has_peers(1); }));
    control.say(Type::get_range, encode(messages::GetRange{1, 1, 1'000}), 6);
    EXPECT_TRUE(control.next_message(Type::range));
    EXPECT_TRUE(left(node).empty());
    // And it goes with the peer.
    RawPeer third(node.network->port());
    ASSERT_TRUE(third.shake_hands(key_of(60), 7878, kGenesis, kBulk));
    ASSERT_TRUE(eventually([&] { return has_bulk(node); }));
    control.shut_down();
    EXPECT_TRUE(third.closed_by_peer());
}

TEST(Connections, of_one_key_that_dials_twice_the_newer_one_stays) {
    TestNode node(1);
    RawPeer before(node.network->port());
    ASSERT_TRUE(joins(node, before, 60));
    RawPeer after(node.network->port());
    ASSERT_TRUE(after.shake_hands(key_of(60), 7878, kGenesis) && after.say_hello());
    EXPECT_TRUE(before.closed_by_peer());
    EXPECT_TRUE(eventually([&] { return node.has_peers(1); }));
    after.say(Type::get_certificate, encode(messages::GetCertificate{0, 0, 7}), 6);
    EXPECT_TRUE(after.next_message(Type::certificate));
    EXPECT_EQ(left(node), std::vector<std::string>{"peer.duplicate"});
}

TEST(Connections, who_comes_when_all_places_are_taken_takes_that_of_one_nobody_would_miss) {
    constexpr std::size_t kPlaces = kProtectedByPing + kProtectedByDelivery + 2;
    TestNode node(1, {}, [](NetworkOptions& options) { options.max_inbound = kPlaces; });
    std::vector<std::unique_ptr<RawPeer>> guests;
    for (std::uint64_t i = 0; i < kPlaces + 1; ++i) {
        guests.push_back(std::make_unique<RawPeer>(node.network->port()));
        ASSERT_TRUE(joins(node, *guests.back(), 60 + i));
    }
    EXPECT_TRUE(eventually([&] { return left(node) == std::vector<std::string>{"peer.evicted"}; }));
    EXPECT_TRUE(node.has_peers(kPlaces));
    const auto peers = node.network->status().peers;
    for (std::uint64_t i = 0; i < kPlaces + 1; ++i)
        if (std::none_of(peers.begin(), peers.end(),
                         [&](const auto& each) { return each.address == address_of(60 + i); })) {
            EXPECT_TRUE(guests[i]->closed_by_peer());
            EXPECT_LT(i, kPlaces) << "the newcomer stays";
        }
}

TEST(Connections, who_has_left_takes_no_place_and_without_one_nobody_comes) {
    TestNode node(1, {}, [](NetworkOptions& options) { options.max_inbound = 2; });
    for (std::uint64_t i = 0; i < 4; ++i) {
        RawPeer guest(node.network->port());
        ASSERT_TRUE(joins(node, guest, 60 + i));
        guest.shut_down();
        ASSERT_TRUE(eventually([&] { return node.has_peers(0); }));
    }
    RawPeer one(node.network->port());
    RawPeer two(node.network->port());
    ASSERT_TRUE(joins(node, one, 70) && joins(node, two, 71));
    RawPeer three(node.network->port());
    ASSERT_TRUE(three.shake_hands(key_of(72), 7878, kGenesis));
    EXPECT_TRUE(three.closed_by_peer()) << "the few that are there are protected";
    EXPECT_TRUE(node.has_peers(2));
    // A member has a place beside them.
    node.network->set_committee({address_of(73)});
    RawPeer member(node.network->port());
    EXPECT_TRUE(joins(node, member, 73));
}

TEST(Connections, a_host_that_breaks_handshakes_is_refused_for_a_while) {
    TestNode node(1, {}, [](NetworkOptions& options) { options.local_network = false; });
    // One more, since points decay.
    for (std::uint64_t i = 0; i < kBanPoints / kBrokenBytesPoints + 1; ++i) {
        EXPECT_EQ(node.network->status().sockets_refused, 0U);
        RawPeer raw(node.network->port(), "127.66.6.6");
        raw.send(Bytes{9, 0, 1});
        EXPECT_TRUE(raw.closed_by_peer());
        EXPECT_TRUE(eventually([&] { return node.network->status().handshakes_failed == i + 1; }));
    }
    RawPeer again(node.network->port(), "127.66.6.6");
    EXPECT_FALSE(again.shake_hands(key_of(60), 7878, kGenesis));
    EXPECT_TRUE(eventually([&] { return node.network->status().sockets_refused == 1; }));
    // One whose peers come and go breaks nothing.
    for (int i = 0; i < kBanPoints / kBrokenBytesPoints + 2; ++i) {
        RawPeer neighbour(node.network->port(), "127.66.6.7");
        ASSERT_TRUE(joins(node, neighbour, 61));
        neighbour.shut_down();
        ASSERT_TRUE(eventually([&] { return node.has_peers(0); }));
    }
}

TEST(Connections, control_records_have_one_form) {
    const auto reason = [](const std::function<void(RawPeer&)>& says) {
        TestNode node(1);
        RawPeer raw(node.network->port());
        EXPECT_TRUE(joins(node, raw, 60));
        says(raw);
        EXPECT_TRUE(raw.closed_by_peer());
        EXPECT_TRUE(eventually([&] { return !left(node).empty(); }));
        return left(node).empty() ? "" : left(node)[0];
    };
    EXPECT_EQ(reason([](RawPeer& raw) { raw.send_record(transport::kPingType, Bytes(7)); }), "connection.bad_control");
    EXPECT_EQ(reason([](RawPeer& raw) { raw.send_record(transport::kPingType, Bytes(8), true); }),
              "connection.bad_control");
    EXPECT_EQ(reason([](RawPeer& raw) { raw.send_record(transport::kFirstMessageType - 1, Bytes(8)); }),
              "connection.unknown_type");
    // A ping comes back as it was.
    TestNode node(1);
    RawPeer raw(node.network->port());
    ASSERT_TRUE(joins(node, raw, 60));
    const Bytes stamp{1, 2, 3, 4, 5, 6, 7, 8};
    raw.send_record(transport::kPingType, stamp);
    while (const auto record = raw.next_record())
        if (record->type == transport::kPongType) {
            EXPECT_EQ(record->payload, stamp);
            break;
        }
    // Who is left is told so.
    node.network->report(address_of(60), Offence::invalid_block);
    bool told = false;
    while (const auto record = raw.next_record()) told = told || record->type == transport::kGoodbyeType;
    EXPECT_TRUE(told);
}

// One after the other it would take three times as long.
TEST(Connections, who_does_not_go_on_is_left_and_who_does_not_answer_pings_gets_few) {
    TestNode node(1);
    RawPeer silent(node.network->port());
    RawPeer wordless(node.network->port());
    ASSERT_TRUE(wordless.shake_hands(key_of(60), 7878, kGenesis));
    RawPeer deaf(node.network->port());
    ASSERT_TRUE(joins(node, deaf, 61));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(node.has_peers(1)) << "without hello nobody is a peer";
    EXPECT_TRUE(silent.closed_by_peer());
    EXPECT_TRUE(wordless.closed_by_peer());
    EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(transport::kHandshakeLimitMs - 500));
    EXPECT_TRUE(eventually([&] { return node.network->status().pending_handshakes == 0; }));
    EXPECT_TRUE(node.has_peers(1));
    // By now ten would have been due.
    deaf.say(Type::get_certificate, encode(messages::GetCertificate{0, 0, 7}), 6);
    std::size_t pings = 0;
    while (const auto record = deaf.next_record()) {
        pings += record->type == transport::kPingType ? 1 : 0;
        if (record->type == static_cast<std::uint8_t>(Type::certificate)) break;
    }
    EXPECT_EQ(pings, transport::kMaxOpenPings);
}

}  // namespace
}  // namespace quern::p2p
