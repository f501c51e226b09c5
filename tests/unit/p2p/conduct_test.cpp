// What one peer meets at a node, word for word: what it is told, what its words cost, and whom else they reach.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>

#include "guest.h"
#include "p2p/address_book.h"
#include "p2p/gossip/tx_relay.h"
#include "p2p/peer_session.h"

namespace quern::p2p {
namespace {

using namespace testing;
const Hash32 kGenesis{{1, 2, 3}};

TEST(Conduct, what_cannot_be_answered_is_refused_with_its_reason) {
    TestNode node(1);
    node.handler.chain_length = 4;
    node.handler.certificate_bytes = 3U << 20;
    Guest guest(node, 60);
    ASSERT_TRUE(guest.joined);
    EXPECT_EQ(guest.refused(Type::get_block, encode(messages::GetBlock{Hash32{}}), 5), RefusalCode::not_found);
    EXPECT_EQ(guest.refused(Type::get_range, encode(messages::GetRange{1, 4, 20U << 20}), 6), RefusalCode::unsupported)
        << "larger than the largest message";
    node.handler.keeps_questions = true;
    guest.raw.say(Type::get_block, encode(messages::GetBlock{Hash32{}}), 7);
    const auto kept = [&] {
        const std::lock_guard lock(node.handler.mutex);
        return node.handler.questions.size();
    };
    ASSERT_TRUE(eventually([&] { return kept() == 1; }));
    node.handler.questions[0].answer(messages::CertificateAnswer{{Bytes(9)}});
    EXPECT_EQ(guest.refusal_of(7), RefusalCode::unsupported) << "the answer to another question";
    EXPECT_EQ(shown(node, guest.me)->score, 0);
    EXPECT_EQ(guest.refused(Type::get_block, Bytes{0xc1, 0x05}, 8), RefusalCode::malformed);
    EXPECT_TRUE(guest.costs(Offence::malformed));
}

TEST(Conduct, above_its_rate_and_above_its_share_of_questions_it_is_told_so) {
    TestNode node(1);
    Guest hasty(node, 60);
    ASSERT_TRUE(hasty.joined);
    const auto burst = messages::rule_of(Type::get_peers).burst;
    for (std::uint32_t i = 0; i < burst + 2; ++i) hasty.raw.say(Type::get_peers, encode(messages::GetPeers{1}), i);
    EXPECT_EQ(hasty.refusal_of(burst + 1), RefusalCode::too_fast);
    node.handler.keeps_questions = true;
    Guest curious(node, 61);
    ASSERT_TRUE(curious.joined);
    const Bytes question = encode(messages::GetBlock{Hash32{}});
    for (std::uint32_t i = 0; i < kMaxServedPerPeer; ++i) curious.raw.say(Type::get_block, question, i);
    EXPECT_EQ(curious.refused(Type::get_block, question, 500), RefusalCode::busy);
    EXPECT_EQ(shown(node, curious.me)->score, 0);
    // Each answer gives its place back.
    {
        const std::lock_guard lock(node.handler.mutex);
        EXPECT_EQ(node.handler.questions.size(), kMaxServedPerPeer);
        node.handler.questions.clear();
    }
    for (std::uint32_t i = 0; i < kMaxServedPerPeer; ++i) ASSERT_TRUE(curious.raw.next_message(Type::refusal));
    EXPECT_TRUE(curious.told().empty());
}

TEST(Conduct, one_hello_of_this_version_and_no_other) {
    TestNode node(1);
    Guest twice(node, 60);
    ASSERT_TRUE(twice.joined);
    twice.raw.say_hello();
    EXPECT_TRUE(twice.was_banned());
    for (const auto& [seed, body] : std::vector<std::pair<std::uint64_t, Bytes>>{
             {61, encode(messages::Hello{messages::kProtocolVersion + 1, "x", 1, {}})}, {62, Bytes{0xc1, 0x05}}}) {
        RawPeer raw(node.network->port());
        ASSERT_TRUE(raw.shake_hands(key_of(seed), 7878, kGenesis));
        raw.say(Type::hello, body);
        raw.say(Type::hello, body, 2);
        EXPECT_TRUE(raw.closed_by_peer());
        EXPECT_TRUE(node.has_peers(0));
    }
}

TEST(Conduct, consensus_goes_to_members_where_there_are_any_and_never_too_large) {
    TestNode node(1);
    Guest member(node, 60);
    Guest stranger(node, 61);
    ASSERT_TRUE(member.joined && stranger.joined);
    const Bytes too_large(messages::kMaxConsensusMessage + 1);
    node.network->send_consensus(too_large);
    node.network->send_consensus_to(member.me, too_large);
    node.network->send_consensus(Bytes(100, 1));
    EXPECT_EQ(member.count_told(Type::consensus), 1U);
    EXPECT_EQ(stranger.count_told(Type::consensus), 1U);
    node.network->set_committee({member.me});
    node.network->send_consensus_to(member.me, too_large);
    node.network->send_consensus(Bytes(100, 1));
    EXPECT_EQ(member.count_told(Type::consensus), 1U);
    EXPECT_EQ(stranger.count_told(Type::consensus), 0U);
    node.network->send_consensus_to(stranger.me, Bytes(100, 1));
    EXPECT_EQ(stranger.count_told(Type::consensus), 1U) << "it has asked";
    // Behind one of several records no larger one had to wait.
    node.network->send_consensus(Bytes(20'000, 2));
    std::size_t bytes = 0;
    while (const auto record = member.raw.next_record()) {
        if (record->type != static_cast<std::uint8_t>(Type::consensus)) continue;
        bytes += record->payload.size();
        if (!record->more) break;
    }
    EXPECT_EQ(bytes, 20'000U);
}

TEST(Conduct, before_hello_nothing_but_hello_is_said) {
    TestNode node(1);
    RawPeer raw(node.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(60), 7878, kGenesis));
    ASSERT_TRUE(eventually([&] { return node.network->status().handshakes_done == 1; }));
    node.network->send_consensus(Bytes(100, 1));
    node.network->send_consensus_to(address_of(60), Bytes(100, 1));
    node.network->announce_block(std::make_shared<const chain::types::Block>(block_of(5)), Bytes(10, 3));
    node.network->set_status({5, Hash32{{1}}, 0, 0, 0});
    std::atomic<bool> over{false};
    node.network->request_block(address_of(60), {Hash32{}}, 5'000, [&](Expected<messages::BlockAnswer> answer) {
        EXPECT_EQ(answer.error().name, "network.not_connected");
        over = true;
    });
    ASSERT_TRUE(eventually([&] { return over.load(); }));
    raw.say_hello();
    raw.say(Type::get_range, encode(messages::GetRange{1, 1, 1'000}), kFence);
    std::set<Type> types;
    while (const auto record = raw.next_record()) {
        if (record->stream == kFence && record->type == static_cast<std::uint8_t>(Type::range)) break;
        if (messages::rule_of(record->type) != nullptr) types.insert(static_cast<Type>(record->type));
    }
    EXPECT_EQ(types.count(Type::hello), 1U);
    for (const Type type : {Type::consensus, Type::compact_block, Type::get_block}) EXPECT_FALSE(types.contains(type));
}

TEST(Conduct, who_is_a_member_no_more_has_a_strangers_rate_at_once) {
    TestNode node(1);
    Guest guest(node, 60);
    ASSERT_TRUE(guest.joined);
    node.network->set_committee({address_of(77)});
    // After a round trip the committee has changed.
    (void)guest.told();
    for (std::uint32_t i = 0; i < messages::kStrangersConsensusBurst + 20; ++i)
        guest.raw.say(Type::consensus, Bytes(100, 1), i);
    EXPECT_TRUE(eventually([&] {
        const auto info = shown(node, guest.me);
        return info && info->score > 0;
    }));
}

TEST(Conduct, what_a_member_told_goes_to_outsiders_at_once_and_not_to_members) {
    TestNode node(1);
    Guest teller(node, 60);
    node.network->set_committee({address_of(60), address_of(61)});
    Guest member(node, 61);  // one that was there before, one that comes after
    Guest outsider(node, 62);
    ASSERT_TRUE(teller.joined && member.joined && outsider.joined);
    const Bytes transaction(100, 7);
    teller.raw.say(Type::tx_announce,
                   encode(messages::ShortIds{{messages::short_id(chain::types::transaction_hash(transaction))}}));
    const auto asked = teller.raw.next_message(Type::get_transactions);
    ASSERT_TRUE(asked);
    teller.raw.say(Type::transactions, encode(messages::Transactions{{transaction}}), asked->stream);
    // All are told in one turn.
    EXPECT_TRUE(outsider.raw.next_message(Type::tx_announce));
    EXPECT_EQ(member.count_told(Type::tx_announce, Type::get_peers), 0U);
    EXPECT_EQ(teller.count_told(Type::tx_announce, Type::get_peers), 0U);
}

TEST(Conduct, of_a_member_more_announcements_are_open_than_of_a_stranger) {
    TestNode node(1);
    node.network->set_committee({address_of(60)});
    std::uint32_t number = 0;
    const auto asked = [&](std::uint64_t seed) {
        Guest guest(node, seed);
        EXPECT_TRUE(guest.joined);
        for (std::size_t begun = 0; begun <= gossip::kMaxAnnouncedPerPeer; begun += messages::kMaxShortIds) {
            messages::ShortIds ids;
            ids.ids.resize(messages::kMaxShortIds);
            for (auto& id : ids.ids) {
                ++number;
                std::memcpy(id.data.data(), &number, 4);
            }
            guest.raw.say(Type::tx_announce, encode(ids));
        }
        return guest.count_told(Type::get_transactions, Type::get_peers);
    };
    EXPECT_EQ(asked(60), asked(61) + 1);
}

TEST(Conduct, who_comes_again_is_told_again) {
    TestNode node(1);
    const Bytes transaction(100, 7);
    node.network->announce_transaction(chain::types::transaction_hash(transaction), transaction);
    for (int i = 0; i < 2; ++i) {
        Guest guest(node, 60);
        ASSERT_TRUE(guest.joined);
        EXPECT_TRUE(guest.raw.next_message(Type::tx_announce));
        guest.raw.shut_down();
        ASSERT_TRUE(eventually([&] { return node.has_peers(0); }));
    }
}

TEST(Conduct, a_block_goes_to_those_whom_it_is_meant_for) {
    TestNode node(1);
    Guest member(node, 60);
    Guest giver(node, 61);
    Guest outsider(node, 62);
    ASSERT_TRUE(member.joined && giver.joined && outsider.joined);
    node.network->set_committee({member.me});
    const auto block = std::make_shared<const chain::types::Block>(block_of(5));
    const auto told = [&](bool outsiders_only) {
        node.network->announce_block(block, Bytes(10, 3), outsiders_only, giver.me);
        std::string who;
        for (Guest* each : {&member, &giver, &outsider})
            who += each->count_told(Type::compact_block, Type::get_range) == 1 ? 'x' : '-';
        return who;
    };
    EXPECT_EQ(told(true), "--x");
    EXPECT_EQ(told(false), "x-x");
}

TEST(Conduct, a_status_is_told_when_it_changed_and_shown) {
    TestNode node(1);
    Guest guest(node, 60);
    ASSERT_TRUE(guest.joined);
    const messages::Status first{5, Hash32{{1}}, 0, 0, 0};
    const messages::Status second{6, Hash32{{2}}, 0, 0, 0};
    node.network->set_status(first);
    const auto heard = guest.raw.next_message(Type::status);
    ASSERT_TRUE(heard);
    EXPECT_EQ(*messages::decode_status(heard->payload), first);
    node.network->set_status(first);
    node.network->set_status(second);
    const auto next = guest.raw.next_message(Type::status);
    ASSERT_TRUE(next);
    EXPECT_EQ(*messages::decode_status(next->payload), second);
    guest.raw.say(Type::status, encode(first));
    EXPECT_TRUE(eventually([&] { return shown(node, guest.me)->status == first; }));
    guest.raw.say(Type::status, Bytes{0xc1, 0x05});
    EXPECT_TRUE(guest.costs(Offence::malformed));
}

TEST(Conduct, silence_costs_strangers_a_little_and_fixed_peers_nothing) {
    TestNode node(1);
    Guest member(node, 60);
    Guest stranger(node, 61);
    ASSERT_TRUE(member.joined && stranger.joined);
    node.network->set_committee({member.me});
    std::mutex mutex;
    std::vector<std::string> names;
    for (const Guest* each : {&member, &stranger})
        node.network->request_block(each->me, {Hash32{}}, 100, [&](Expected<messages::BlockAnswer> answer) {
            const std::lock_guard lock(mutex);
            names.push_back(answer ? "answer" : std::string(answer.error().name));
        });
    const auto count = [&] {
        const std::lock_guard lock(mutex);
        return names.size();
    };
    ASSERT_TRUE(eventually([&] { return count() == 2; }));
    EXPECT_EQ(names, (std::vector<std::string>{"network.timeout", "network.timeout"}));
    EXPECT_TRUE(stranger.costs(Offence::timeout));
    EXPECT_EQ(shown(node, member.me)->score, 0);
    // And what waits when it goes is over at once.
    node.network->request_block(stranger.me, {Hash32{}}, 600'000, [&](Expected<messages::BlockAnswer> answer) {
        const std::lock_guard lock(mutex);
        names.push_back(answer ? "answer" : std::string(answer.error().name));
    });
    ASSERT_TRUE(stranger.raw.next_message(Type::get_block));
    stranger.raw.shut_down();
    ASSERT_TRUE(eventually([&] { return count() == 3; }));
    EXPECT_EQ(names[2], "network.disconnected");
}

TEST(Conduct, addresses_are_given_up_to_what_was_asked_and_taken_when_they_are_whole) {
    const auto record_of = [](std::uint64_t seed, const char* host) {
        messages::PeerRecord record{7878, address_of(seed), 1, 4'000'000'000, 2, {{host, 7900}}, {}};
        messages::sign(record, key_of(seed));
        return messages::encode(record);
    };
    TestNode node(1, {}, [](NetworkOptions& options) {
        options.max_outbound = 0;
        // One more than a record holds.
        for (std::uint16_t i = 0; i <= messages::kMaxEndpoints; ++i)
            options.advertised.push_back({"127.0.0.1", static_cast<std::uint16_t>(7900 + i)});
    });
    Guest giver(node, 60);
    ASSERT_TRUE(giver.joined);
    const auto asked = giver.raw.next_message(Type::get_peers);
    ASSERT_TRUE(asked);
    // All are of one group and told by one: they share a bucket, and the book's secret says which of them share a slot.
    messages::Peers told{{record_of(1, "127.0.0.1")}};
    for (std::uint64_t seed = 70; seed < 90; ++seed) told.records.push_back(record_of(seed, "127.1.1.1"));
    giver.raw.say(Type::peers, encode(told), asked->stream);
    const auto known = [&] { return node.network->status().known_addresses; };
    ASSERT_TRUE(eventually([&] { return known() >= 2; }));
    Guest taker(node, 61);
    ASSERT_TRUE(taker.joined);
    const auto given = [&](std::uint64_t limit) {
        taker.raw.say(Type::get_peers, encode(messages::GetPeers{limit}), static_cast<std::uint32_t>(100 + limit));
        const auto answer = taker.raw.next_message(Type::peers);
        const auto peers = answer ? messages::decode_peers(answer->payload) : messages::decode_peers({});
        return peers ? peers->records : std::vector<Bytes>{};
    };
    EXPECT_EQ(given(1).size(), 1U);
    EXPECT_EQ(given(2).size(), 2U);
    const auto all = given(64);
    const std::size_t kept = known();
    EXPECT_LE(kept, kBucketSlots);
    ASSERT_EQ(all.size(), 1 + kept) << "its own is given, and not news to it";
    const auto own = messages::decode_peer_record(all[0]);
    ASSERT_TRUE(own) << own.error().to_string();
    EXPECT_EQ(own->address, node.me);
    EXPECT_EQ(own->endpoints.size(), messages::kMaxEndpoints);
    Guest liar(node, 62);
    ASSERT_TRUE(liar.joined);
    const auto question = liar.raw.next_message(Type::get_peers);
    ASSERT_TRUE(question);
    Bytes forged = record_of(72, "127.3.1.1");
    forged.back() ^= 1;
    liar.raw.say(Type::peers, encode(messages::Peers{{forged}}), question->stream);
    EXPECT_TRUE(liar.costs(Offence::malformed));
    EXPECT_EQ(known(), kept);
}

}  // namespace
}  // namespace quern::p2p
