// Strangers that cost memory or work, over real sockets from several loopback addresses, which count as hosts of their
// own where the network is not local.
#include <gtest/gtest.h>

#include <atomic>

#include "base/rlp.h"
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

TEST(Flood, what_is_sent_to_a_member_keeps_its_place_while_it_is_not_read) {
    TestNode node(1);
    auto slow = std::make_unique<RawPeer>(node.network->port());
    ASSERT_TRUE(slow->shake_hands(key_of(500), 7878, kGenesis) && slow->say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    node.network->set_committee({address_of(500)});
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

TEST(Flood, what_consensus_answers_to_slow_strangers_holds_a_bounded_part_of_memory) {
    TestNode node(1);
    std::vector<std::unique_ptr<RawPeer>> slow;
    for (std::uint64_t i = 0; i < 12; ++i) {
        const std::string from = "127.66.6." + std::to_string(10 + i);
        slow.push_back(std::make_unique<RawPeer>(node.network->port(), from.c_str()));
        ASSERT_TRUE(slow.back()->shake_hands(key_of(500 + i), 7878, kGenesis) && slow.back()->say_hello());
    }
    TestNode member(2, {node.as_peer()});
    ASSERT_TRUE(eventually([&] { return node.has_peers(13) && member.has_peers(1); }));
    node.network->set_committee({member.me});
    const auto queued = [&] {
        std::size_t bytes = 0;
        for (const auto& peer : node.network->status().peers) bytes += peer.queued_bytes;
        return bytes;
    };
    // As when each has asked for four blocks.
    for (int round = 0; round < 4; ++round)
        for (std::uint64_t i = 0; i < slow.size(); ++i)
            node.network->send_consensus_to(address_of(500 + i), Bytes(8U << 20, 1));
    EXPECT_TRUE(eventually([&] { return queued() > 16U << 20; }));
    std::size_t most = 0;
    for (int i = 0; i < 30; ++i) {
        most = std::max(most, queued());
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    EXPECT_LE(most, kAnswerBytesOfStrangers + (1U << 20));
    // A member's proposals and votes go their way.
    node.network->send_consensus_to(member.me, Bytes(8U << 20, 2));
    node.network->send_consensus_to(member.me, Bytes(100, 3));
    EXPECT_TRUE(eventually([&] { return member.handler.envelope_count() == 2; }));
}

TEST(Flood, who_does_not_read_an_answer_holds_no_place_of_those_who_make_answers) {
    TestNode node(1);
    std::weak_ptr<const void> place;
    node.handler.chain_length = 4;
    node.handler.certificate_bytes = 2U << 20;
    node.handler.held = [&] {
        const auto made = std::make_shared<int>(1);
        place = made;
        return made;
    };
    RawPeer slow(node.network->port());
    ASSERT_TRUE(slow.shake_hands(key_of(60), 7878, kGenesis) && slow.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    slow.say(messages::Type::get_range, encode(messages::GetRange{1, 4, 9U << 20}), 7);
    ASSERT_TRUE(eventually([&] { return node.network->status().answer_bytes > 8U << 20; }));
    EXPECT_TRUE(eventually([&] { return place.expired(); }, std::chrono::seconds(2)));
    EXPECT_GT(node.network->status().answer_bytes, 8U << 20) << "it has not read meanwhile";
}

TEST(Flood, strangers_that_come_and_go_are_not_all_asked_for_addresses) {
    TestNode node(1, {{address_of(9), {"127.0.0.1", 1}}});  // nobody answers there: it dials in
    // Whether it asks a peer that joins for addresses.
    const auto is_asked = [&](std::uint64_t key) {
        RawPeer raw(node.network->port());
        EXPECT_TRUE(raw.shake_hands(key_of(key), 7878, kGenesis) && raw.say_hello());
        // A question of its own tells when all that hello causes has been said.
        raw.say(messages::Type::get_peers, encode(messages::GetPeers{1}), 9);
        bool asked = false;
        while (const auto record = raw.next_record()) {
            asked = asked || record->type == static_cast<std::uint8_t>(messages::Type::get_peers);
            if (record->type == static_cast<std::uint8_t>(messages::Type::peers)) break;
        }
        return asked;
    };
    std::size_t asked = 0;
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < 60; ++i) asked += is_asked(500 + i) ? 1 : 0;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun).count();
    EXPECT_GE(asked, 16U);
    EXPECT_LE(asked, 16U + static_cast<std::size_t>(seconds) + 2);
    // One that was named is always asked, whoever came before it.
    std::uint64_t next = 1000;
    while (is_asked(next)) ++next;
    EXPECT_TRUE(is_asked(9));
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
    constexpr std::size_t kAtOnce = 4;   // of one peer
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

TEST(Flood, strangers_blocks_leave_room_for_those_of_the_committee) {
    TestNode node(1);
    node.handler.hold_bodies = true;
    const auto block = [](std::uint64_t number) {
        messages::CompactBlock compact;
        compact.header.number = number;
        compact.prefilled.push_back({0, Bytes(1'000, 1)});
        return encode(compact);
    };
    constexpr std::uint32_t kEach = 4;
    std::vector<std::unique_ptr<RawPeer>> strangers;
    for (std::uint64_t i = 0; i < 6; ++i) {
        strangers.push_back(std::make_unique<RawPeer>(node.network->port()));
        auto& raw = *strangers.back();
        ASSERT_TRUE(raw.shake_hands(key_of(500 + i), 7878, kGenesis) && raw.say_hello());
    }
    RawPeer member(node.network->port());
    ASSERT_TRUE(member.shake_hands(key_of(60), 7878, kGenesis) && member.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(7); }));
    node.network->set_committee({address_of(60)});
    const auto heard = [&](const Bytes20& address) {
        for (const auto& peer : node.network->status().peers)
            if (peer.address == address) return peer.messages_in;
        return std::uint64_t{0};
    };
    for (std::uint32_t number = 1; number <= kEach; ++number)
        for (auto& raw : strangers) raw->say(messages::Type::compact_block, block(number), number);
    for (std::uint64_t i = 0; i < strangers.size(); ++i)
        ASSERT_TRUE(eventually([&] { return heard(address_of(500 + i)) > kEach; }));
    member.say(messages::Type::compact_block, block(100), 100);
    ASSERT_TRUE(eventually([&] { return heard(address_of(60)) > 1; }));
    node.handler.hold_bodies = false;
    ASSERT_TRUE(eventually([&] {
        const std::lock_guard lock(node.handler.mutex);
        return !node.handler.blocks.empty() &&
               chain::types::decode_block(node.handler.blocks.back().block)->header.number == 100;
    }));
    const std::lock_guard lock(node.handler.mutex);
    EXPECT_EQ(node.handler.blocks.size(), 9U) << "eight of strangers, and the member's";
}

TEST(Flood, who_sends_bodies_that_are_not_their_headers_again_and_again_is_left) {
    TestNode node(1);
    node.handler.body_fits = false;
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(60), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    std::uint32_t number = 0;
    // Honest relayers lose nothing over one: 2 points of 100.
    for (; number < 100 && node.network->peer_count() == 1; ++number) {
        messages::CompactBlock compact;
        compact.header.number = number;
        compact.prefilled.push_back({0, Bytes(1'000, 1)});
        if (!raw.say(messages::Type::compact_block, encode(compact), number)) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(110));
    }
    EXPECT_GT(number, 10U);
    EXPECT_LT(number, 100U);
    const std::lock_guard lock(node.handler.mutex);
    EXPECT_EQ(node.handler.left, std::vector<std::string>{"peer.banned"});
}

TEST(Flood, who_announces_blocks_and_refuses_them_is_left) {
    TestNode node(1);
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(60), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    std::thread refuses([&] {
        while (const auto record = raw.next_record())
            if (record->type == static_cast<std::uint8_t>(messages::Type::get_block))
                raw.say(messages::Type::refusal, encode(messages::Refusal{messages::RefusalCode::not_found, {}}),
                        record->stream);
    });
    std::uint32_t number = 0;
    for (; number < 100 && node.network->peer_count() == 1; ++number) {
        messages::CompactBlock compact;
        compact.header.number = number;
        compact.ids.push_back(messages::ShortId{{1}});
        if (!raw.say(messages::Type::compact_block, encode(compact), number)) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(110));
    }
    raw.shut_down();
    refuses.join();
    EXPECT_GT(number, 10U);
    EXPECT_LT(number, 100U);
    const std::lock_guard lock(node.handler.mutex);
    EXPECT_EQ(node.handler.left, std::vector<std::string>{"peer.banned"});
}

TEST(Flood, an_answer_that_comes_after_its_session_is_not_the_next_ones) {
    TestNode node(1);
    node.handler.keeps_questions = true;
    RawPeer before(node.network->port());
    ASSERT_TRUE(before.shake_hands(key_of(60), 7878, kGenesis) && before.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    before.say(messages::Type::get_block, encode(messages::GetBlock{Hash32{{1}}}), 5);
    const auto asked = [&] {
        const std::lock_guard lock(node.handler.mutex);
        return node.handler.questions.size() == 1;
    };
    ASSERT_TRUE(eventually(asked));
    before.shut_down();
    ASSERT_TRUE(eventually([&] { return node.has_peers(0); }));
    RawPeer after(node.network->port());
    ASSERT_TRUE(after.shake_hands(key_of(60), 7878, kGenesis) && after.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    {
        const std::lock_guard lock(node.handler.mutex);
        node.handler.questions[0].answer(messages::BlockAnswer{Bytes(100, 1), Bytes(8, 1)});
    }
    after.say(messages::Type::get_certificate, encode(messages::GetCertificate{0, 0, 7}), 6);
    std::optional<RawPeer::Record> record;
    do record = after.next_record();
    while (record && record->type != static_cast<std::uint8_t>(messages::Type::certificate) &&
           record->type != static_cast<std::uint8_t>(messages::Type::block));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->type, static_cast<std::uint8_t>(messages::Type::certificate));
    EXPECT_EQ(record->stream, 6U);
}

TEST(Flood, a_block_that_is_not_wanted_is_not_decoded_behind_its_header) {
    TestNode node(1);
    node.handler.wants_blocks = false;
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(60), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    rlp::Writer rest;
    rest.begin_list();
    rest.bytes(chain::types::encode(block_of(1).header));
    rest.bytes(Bytes(100, 1));  // no salt, and nothing behind it
    rest.end_list();
    const Bytes body = std::move(rest).finish();
    for (std::uint32_t i = 0; i < 3; ++i) raw.say(messages::Type::compact_block, body, i);
    ASSERT_TRUE(eventually([&] {
        const auto status = node.network->status();
        return status.peers.size() == 1 && status.peers[0].messages_in >= 4;
    }));
    EXPECT_EQ(node.network->status().peers[0].score, 0);
    node.handler.wants_blocks = true;
    for (std::uint32_t i = 10; i < 13; ++i) raw.say(messages::Type::compact_block, body, i);
    EXPECT_TRUE(raw.closed_by_peer());
}

}  // namespace
}  // namespace quern::p2p
