// Strangers that cost memory or work, over real sockets from several loopback addresses, which count as hosts of their
// own where the network is not local.
#include <gtest/gtest.h>

#include <atomic>

#include "p2p/answer_account.h"
#include "p2p/handshake_limiter.h"
#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p {
namespace {

using namespace testing;
const Hash32 kGenesis{{1, 2, 3}};

void is_public(NetworkOptions& options) { options.local_network = false; }

TEST(Flood, slow_readers_of_answers_hold_a_bounded_part_of_memory_and_honest_ones_are_served) {
    TestNode node(1);
    node.handler.chain_length = 4;
    node.handler.certificate_bytes = 2U << 20;  // a range of 8 MiB
    std::vector<std::unique_ptr<RawPeer>> slow;
    for (std::uint64_t i = 0; i < 16; ++i) {
        const std::string from = "127.66.6." + std::to_string(10 + i);
        slow.push_back(std::make_unique<RawPeer>(node.network->port(), from.c_str()));
        ASSERT_TRUE(slow.back()->shake_hands(key_of(500 + i), 7878, kGenesis) && slow.back()->say_hello());
    }
    ASSERT_TRUE(eventually([&] { return node.has_peers(16); }));
    const auto queued = [&] {
        std::size_t bytes = 0;
        for (const auto& peer : node.network->status().peers) bytes += peer.queued_bytes;
        return bytes;
    };
    std::size_t most = 0;
    for (std::uint32_t round = 0; round < 4; ++round)
        for (const auto& each : slow)
            each->say(messages::Type::get_range, encode(messages::GetRange{1, 4, 9U << 20}), 100 + round);
    EXPECT_TRUE(eventually([&] { return queued() > 16U << 20; }));
    // The node tells of its queues four times a second.
    for (int i = 0; i < 50; ++i) {
        most = std::max(most, queued());
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    EXPECT_GT(most, 16U << 20);
    EXPECT_LE(most, kAnswerBytesOfStrangers + (1U << 20));
    TestNode honest(2, {node.as_peer()});
    ASSERT_TRUE(eventually([&] { return honest.has_peers(1); }));
    std::atomic<int> answered{0};
    for (int i = 0; i < 5; ++i) {
        std::atomic<bool> over{false};
        honest.network->request_range(node.me, {1, 4, 9U << 20}, 20'000, [&](Expected<messages::Range> range) {
            answered += range && range->blocks.size() == 4 ? 1 : 0;
            over = true;
        });
        ASSERT_TRUE(eventually([&] { return over.load(); }));
    }
    EXPECT_EQ(answered, 5);
    // Votes went their way meanwhile, too.
    honest.network->send_consensus_to(node.me, Bytes(100, 1));
    EXPECT_TRUE(eventually([&] { return node.handler.envelope_count() == 1; }));
}

TEST(Flood, what_is_sent_to_one_peer_keeps_its_place_while_it_is_not_read) {
    TestNode node(1);
    auto slow = std::make_unique<RawPeer>(node.network->port());
    ASSERT_TRUE(slow->shake_hands(key_of(500), 7878, kGenesis) && slow->say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    auto place = std::make_shared<int>();
    const std::weak_ptr<int> waits = place;
    for (int i = 0; i < 3; ++i) node.network->send_consensus_to(address_of(500), Bytes(8U << 20), place);
    place.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(waits.expired());
    slow.reset();
    EXPECT_TRUE(eventually([&] { return waits.expired(); }));
    // Nobody is there to whom it could leave.
    auto another = std::make_shared<int>();
    const std::weak_ptr<int> unsent = another;
    node.network->send_consensus_to(address_of(501), Bytes(10), std::move(another));
    EXPECT_TRUE(eventually([&] { return unsent.expired(); }));
}

TEST(Flood, one_host_gets_its_share_of_handshakes_and_another_is_not_kept_out) {
    TestNode node(1, {}, is_public);
    OsRng rng;
    const Bytes hello = RawPeer::handshake_record(1, transport::KeyPair::generate(rng).public_key());
    std::size_t answered = 0;
    for (int i = 0; i < 120; ++i) {
        RawPeer raw(node.network->port(), "127.66.6.6");
        if (!raw.send(hello)) continue;
        const auto header = raw.receive(3);
        answered += header && (*header)[0] == 2 ? 1 : 0;
    }
    EXPECT_GE(answered, 10U);
    EXPECT_LE(answered, kHandshakesPerHostBurst + 15);  // the test may take a few seconds
    RawPeer honest(node.network->port(), "127.5.5.5");
    EXPECT_TRUE(honest.shake_hands(key_of(7), 7878, kGenesis) && honest.say_hello());
    EXPECT_TRUE(eventually([&] { return node.has_peers(1); }));
}

TEST(Flood, keys_are_free_so_a_host_that_goes_on_with_new_ones_is_refused) {
    TestNode node(1, {}, is_public);
    int banned_keys = 0;
    for (std::uint64_t seed = 600; seed < 610; ++seed) {
        RawPeer raw(node.network->port(), "127.66.6.6");
        if (!raw.shake_hands(key_of(seed), 7878, kGenesis) || !raw.say_hello()) continue;
        raw.send(raw.record(0x66, Bytes(10)));
        EXPECT_TRUE(raw.closed_by_peer());
        ++banned_keys;
    }
    EXPECT_LE(banned_keys, 4);
    RawPeer neighbour(node.network->port(), "127.66.6.7");
    EXPECT_TRUE(neighbour.shake_hands(key_of(700), 7878, kGenesis) && neighbour.say_hello());
    EXPECT_TRUE(eventually([&] { return node.has_peers(1); }));
}

TEST(Flood, bytes_forged_on_the_way_do_not_ban_the_key_that_they_pretend_to_be_from) {
    TestNode node(1, {}, is_public);
    for (int i = 0; i < 3; ++i) {
        RawPeer raw(node.network->port(), "127.66.6.6");
        ASSERT_TRUE(raw.shake_hands(key_of(800), 7878, kGenesis) && raw.say_hello());
        ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
        Bytes record = raw.record(0x10, Bytes(100));
        record.back() ^= 1;  // what somebody on the line can do
        raw.send(record);
        EXPECT_TRUE(raw.closed_by_peer());
        ASSERT_TRUE(eventually([&] { return node.has_peers(0); }));
    }
    RawPeer again(node.network->port(), "127.5.5.5");
    ASSERT_TRUE(again.shake_hands(key_of(800), 7878, kGenesis) && again.say_hello());
    EXPECT_TRUE(eventually([&] { return node.has_peers(1); }));
}

TEST(Flood, whole_blocks_do_not_pile_up_before_the_thread_that_reckons_their_roots) {
    TestNode node(1);
    node.handler.hold_bodies = true;
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(60), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    constexpr std::size_t kBlocks = 38;  // no more than the rate of their kind allows
    constexpr std::size_t kAtOnce = 16;
    for (std::uint64_t number = 1; number <= kBlocks; ++number) {
        messages::CompactBlock compact;
        compact.header.number = number;
        compact.prefilled.push_back({0, Bytes(1'000, 1)});
        raw.say(messages::Type::compact_block, encode(compact), static_cast<std::uint32_t>(number));
    }
    EXPECT_TRUE(eventually([&] {
        const auto status = node.network->status();
        return status.peers.size() == 1 && status.peers[0].messages_in > kBlocks;
    }));
    node.handler.hold_bodies = false;
    EXPECT_TRUE(eventually([&] { return node.handler.bodies == kAtOnce; })) << node.handler.bodies;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(node.handler.bodies, kAtOnce);
    // And goes on.
    messages::CompactBlock next;
    next.header.number = kBlocks + 1;
    raw.say(messages::Type::compact_block, encode(next), kBlocks + 1);
    EXPECT_TRUE(eventually([&] { return node.handler.bodies == kAtOnce + 1; }));
}

}  // namespace
}  // namespace quern::p2p
