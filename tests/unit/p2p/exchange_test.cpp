// Transactions and blocks between peers: how much is given, and what is given wrongly.
#include <gtest/gtest.h>

#include "guest.h"
#include "p2p/gossip/compact_block.h"

namespace quern::p2p {
namespace {

using namespace testing;

TEST(Exchange, transactions_are_given_as_many_as_an_answer_holds) {
    TestNode node(1);
    std::vector<messages::ShortId> small;
    std::vector<messages::ShortId> large;
    for (std::uint8_t i = 0; i < 6; ++i) {
        const Bytes transaction(i < 3 ? 100 : 400'000, i);
        const Hash32 hash = chain::types::transaction_hash(transaction);
        (i < 3 ? small : large).push_back(messages::short_id(hash));
        if (i % 2 == 0) {
            node.network->announce_transaction(hash, transaction);
        } else {
            const std::lock_guard lock(node.handler.mutex);
            node.handler.pool[messages::short_id(hash)] = transaction;
        }
    }
    Guest guest(node, 60);
    ASSERT_TRUE(guest.joined);
    const auto given = [&](std::vector<messages::ShortId> ids, std::uint32_t stream) {
        guest.raw.say(Type::get_transactions, encode(messages::ShortIds{std::move(ids)}), stream);
        Bytes body;
        while (const auto record = guest.raw.next_message(Type::transactions)) {
            append(body, record->payload);
            if (!record->more) break;
        }
        const auto answer = messages::decode_transactions(body);
        return answer ? answer->encoded.size() : 99;
    };
    // What is not here is passed over.
    small.insert(small.begin(), messages::ShortId{{9, 9}});
    // The relay hears of what was announced with the network's next tick.
    std::uint32_t stream = 5;
    EXPECT_TRUE(eventually([&] { return given(small, stream++) == 3; }));
    EXPECT_EQ(given(large, stream), 1U);
}

TEST(Exchange, what_is_given_for_an_announcement_is_judged) {
    TestNode node(1);
    const Bytes transaction(100, 7);
    const messages::ShortId id = messages::short_id(chain::types::transaction_hash(transaction));
    const auto answers = [&](Guest& guest, const Bytes& body) {
        guest.raw.say(Type::tx_announce, encode(messages::ShortIds{{id}}));
        const auto asked = guest.raw.next_message(Type::get_transactions);
        ASSERT_TRUE(asked);
        guest.raw.say(Type::transactions, body, asked->stream);
    };
    Guest empty(node, 60);
    Guest broken(node, 61);
    Guest other(node, 62);
    ASSERT_TRUE(empty.joined && broken.joined && other.joined);
    answers(empty, encode(messages::Transactions{}));
    EXPECT_TRUE(empty.costs(Offence::useless));
    answers(broken, Bytes{0xc2, 0x05});
    EXPECT_TRUE(broken.costs(Offence::malformed));
    answers(other, encode(messages::Transactions{{Bytes(100, 8)}}));
    EXPECT_TRUE(other.was_banned());
    EXPECT_EQ(node.handler.pool_size(), 0U);
}

TEST(Exchange, transactions_of_a_block_are_its_own_or_the_block_is_asked_for_whole) {
    TestNode node(1);
    std::vector<Bytes> transactions;
    for (std::uint8_t i = 0; i < 4; ++i) transactions.emplace_back(100, i);
    const auto known = [&](const Hash32&) { return true; };
    for (std::uint8_t i = 0; i < 2; ++i)
        node.network->announce_transaction(chain::types::transaction_hash(transactions[i]), transactions[i]);
    const auto asked = [&](Guest& guest, std::uint64_t number) {
        guest.raw.say(Type::compact_block,
                      encode(gossip::make_compact(block_of(number, transactions), Bytes(10, 3), 77, known)));
        return guest.raw.next_message(Type::get_block_transactions);
    };
    const auto hash_of = [](std::uint64_t number) { return chain::types::hash_of(block_of(number).header); };
    Guest right(node, 60);
    Guest other(node, 61);
    Guest wrong(node, 62);
    Guest without(node, 63);
    ASSERT_TRUE(right.joined && other.joined && wrong.joined && without.joined);
    // Half of it is here.
    const auto question = asked(right, 1);
    ASSERT_TRUE(question);
    EXPECT_EQ(messages::decode_get_block_transactions(question->payload)->indexes, (std::vector<std::uint64_t>{2, 3}));
    right.raw.say(Type::block_transactions,
                  encode(messages::BlockTransactions{hash_of(1), {transactions[2], transactions[3]}}),
                  question->stream);
    EXPECT_TRUE(eventually([&] {
        const std::lock_guard lock(node.handler.mutex);
        return node.handler.blocks.size() == 1;
    }));
    const auto about_another = asked(other, 2);
    ASSERT_TRUE(about_another);
    other.raw.say(Type::block_transactions,
                  encode(messages::BlockTransactions{hash_of(7), {transactions[2], transactions[3]}}),
                  about_another->stream);
    EXPECT_TRUE(other.costs(Offence::malformed));
    const auto not_its_own = asked(wrong, 3);
    ASSERT_TRUE(not_its_own);
    wrong.raw.say(Type::block_transactions,
                  encode(messages::BlockTransactions{hash_of(3), {transactions[3], transactions[2]}}),
                  not_its_own->stream);
    const auto whole = wrong.raw.next_message(Type::get_block);
    ASSERT_TRUE(whole);
    EXPECT_EQ(messages::decode_get_block(whole->payload)->hash, hash_of(3));
    wrong.raw.say(Type::block, Bytes{0xc1, 0x05}, whole->stream);
    EXPECT_TRUE(wrong.costs(Offence::malformed));
    const auto refused = asked(without, 4);
    ASSERT_TRUE(refused);
    without.raw.say(Type::refusal, encode(messages::Refusal{RefusalCode::not_found, {}}), refused->stream);
    EXPECT_TRUE(without.costs(Offence::useless));
}

}  // namespace
}  // namespace quern::p2p
