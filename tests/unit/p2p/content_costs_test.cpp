// What questions about contents may cost who answers them, and how a node that asks keeps to that.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "guest.h"
#include "p2p/content_exchange/fetch_plan.h"
#include "p2p/host_budget.h"

namespace quern::p2p {
namespace {

using namespace testing;
using content_exchange::kChunksAskedOfPeer;
static_assert(kMaxFetches % kChunksAskedOfPeer == 0);
using namespace std::chrono_literals;

constexpr std::uint64_t kSecond = 1'000'000;

TEST(HostBudget, lets_a_host_come_into_debt_and_wait_until_that_is_paid) {
    HostBudget budget(100, 400);
    EXPECT_TRUE(budget.may_spend("a", 0));
    budget.spend("a", 399, 0);
    EXPECT_TRUE(budget.may_spend("a", 0));
    budget.spend("a", 301, 0);
    EXPECT_FALSE(budget.may_spend("a", 2 * kSecond));
    EXPECT_TRUE(budget.may_spend("b", 2 * kSecond)) << "another host";
    EXPECT_FALSE(budget.may_spend("a", 3 * kSecond));
    EXPECT_TRUE(budget.may_spend("a", 3 * kSecond + kSecond / 50));
    budget.spend("b", 0, 0);
    EXPECT_EQ(budget.hosts(), 1U) << "what costs nothing is not remembered";
}

TEST(HostBudget, forgets_who_owes_nothing_and_then_who_owes_least) {
    HostBudget budget(1, 1'000);
    for (std::size_t i = 0; i < HostBudget::kMaxHosts; ++i)
        budget.spend(std::to_string(i), i == 7 ? 1'000 : i == 9 ? 200 : 300, 0);
    EXPECT_EQ(budget.hosts(), HostBudget::kMaxHosts);
    budget.spend("new", 1'000, 0);
    EXPECT_EQ(budget.hosts(), HostBudget::kMaxHosts);
    EXPECT_FALSE(budget.may_spend("new", 0));
    EXPECT_FALSE(budget.may_spend("7", 0)) << "who owes most is remembered";
    budget.spend("9", 1'000, 0);
    EXPECT_TRUE(budget.may_spend("8", 0));
    EXPECT_FALSE(budget.may_spend("9", 0));
    budget.spend("newer", 1'000, 400 * kSecond);
    EXPECT_EQ(budget.hosts(), 4U) << "7, 9, new and newer still owe something";
}

class ContentCosts : public ::testing::Test {
protected:
    ~ContentCosts() override {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    Hash32 put(std::size_t size, std::uint64_t seed) {
        Bytes data(size);
        SeededRng rng(seed);
        rng.fill(data);
        return *store_->put(data);
    }
    static std::string empty_folder() {
        static int number = 0;
        return ::testing::TempDir() + "quern_p2p_costs_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
    }
    const std::string root_ = empty_folder();
    const std::unique_ptr<content::Store> store_ =
        std::move(*content::Store::open({root_ + "/holder", 1ULL << 30, 1ULL << 28}));
};

TEST_F(ContentCosts, who_has_many_hashes_read_is_answered_later_and_others_at_once) {
    const Hash32 first = put(4U << 20, 1);  // 8,192 bytes of hashes
    const Hash32 second = put(4U << 20, 2);
    TestNode node(1, {}, [&](NetworkOptions& options) {
        options.contents = store_.get();
        options.hash_read_rate = 1'024;
    });
    Guest guest(node, 60);
    Guest other(node, 61, "127.5.6.7");
    ASSERT_TRUE(guest.joined && other.joined);
    const auto ask = [](Guest& who, const Hash32& id, std::uint32_t stream) {
        who.raw.say(Type::get_leaf_hashes, encode(messages::GetLeaves{id, 0, 4}), stream);
        const auto answer = who.raw.next_record();
        return answer ? static_cast<Type>(answer->type) : Type::hello;
    };
    (void)guest.told();
    (void)other.told();
    EXPECT_EQ(ask(guest, first, 1), Type::leaf_hashes);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(guest.refused(Type::get_leaf_hashes, encode(messages::GetLeaves{second, 0, 4}), 2), RefusalCode::busy);
    // A chunk's question would have them read as well.
    EXPECT_EQ(guest.refused(Type::get_leaves, encode(messages::GetLeaves{second, 0, 4}), 3), RefusalCode::busy);
    EXPECT_EQ(ask(other, first, 1), Type::leaf_hashes) << "another host, and they are in memory";
    EXPECT_EQ(ask(other, first, 2), Type::leaf_hashes) << "which costs nothing";
    EXPECT_TRUE(eventually([&] {
        std::this_thread::sleep_for(100ms);
        return ask(guest, second, 4) == Type::leaf_hashes;
    }));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 3s);
    EXPECT_EQ(shown(node, guest.me)->score, 0) << "no offence";
}

TEST_F(ContentCosts, who_asks_faster_than_it_may_is_told_so_and_at_last_left) {
    const Hash32 id = put(10'000, 1);
    TestNode node(1, {}, [&](NetworkOptions& options) { options.contents = store_.get(); });
    for (const auto& [type, body] : {std::pair{Type::find_content, encode(messages::FindContent{{id}})},
                                     std::pair{Type::get_leaf_hashes, encode(messages::GetLeaves{id, 0, 1})}}) {
        Guest hasty(node, 60 + static_cast<std::uint64_t>(type));
        ASSERT_TRUE(hasty.joined);
        const std::uint32_t burst = messages::rule_of(type).burst;
        std::thread asking([&] {
            for (std::uint32_t i = 0; i < 2 * burst; ++i) hasty.raw.say(type, body, i + 1);
        });
        // Answers come besides, some of them after that: they wait for the disk.
        std::size_t too_fast = 0;
        while (const auto record = too_fast < 10 ? hasty.raw.next_message(Type::refusal) : std::nullopt) {
            const auto refusal = messages::decode_refusal(record->payload);
            too_fast += refusal && refusal->code == RefusalCode::too_fast ? 1 : 0;
        }
        asking.join();
        EXPECT_EQ(too_fast, 10U);
        // At 100 points it is left.
        EXPECT_TRUE(hasty.raw.closed_by_peer());
    }
}

// Many small contents of one holder.
TEST_F(ContentCosts, a_node_that_fetches_many_contents_never_asks_too_fast) {
    const auto own = std::move(*content::Store::open({root_ + "/own", 1ULL << 30, 1ULL << 28}));
    std::vector<Hash32> ids;
    for (std::uint64_t i = 0; i < 100; ++i) ids.push_back(put(20'000, i));
    std::atomic<std::size_t> begun{0};
    std::atomic<std::size_t> good{0};
    std::function<void()> next;
    TestNode holder(1, {}, [&](NetworkOptions& options) { options.contents = store_.get(); });
    TestNode node(2, {holder.as_peer()}, [&](NetworkOptions& options) { options.contents = own.get(); });
    ASSERT_TRUE(eventually([&] { return node.has_peers(1); }));
    next = [&] {
        const std::size_t i = begun++;
        if (i >= ids.size()) return;
        node.network->fetch_content(ids[i], [&](const Status& status) {
            good += status ? 1 : 0;
            next();
        });
    };
    for (std::size_t i = 0; i < kMaxFetches; ++i) next();
    EXPECT_TRUE(eventually([&] { return good == ids.size(); }, 60s));
    EXPECT_EQ(shown(holder, address_of(2))->score, 0);
}

// A holder that speaks by hand.
TEST_F(ContentCosts, many_contents_are_asked_for_in_one_question_and_a_few_chunks_at_once) {
    const auto own = std::move(*content::Store::open({root_ + "/own", 1ULL << 30, 1ULL << 28}));
    std::atomic<std::size_t> good{0};
    TestNode node(1, {}, [&](NetworkOptions& options) { options.contents = own.get(); });
    Guest holder(node, 60);
    ASSERT_TRUE(holder.joined);
    std::map<Hash32, Bytes> contents;
    for (std::size_t i = 0; i < kMaxFetches; ++i) {
        const Bytes content(1'000 + i, 7);
        contents[crypto::content_id_of(content)] = content;
    }
    // Of what is there already the network's thread tells at once: it waits until all others are asked of it, however
    // busy the machine is.
    std::promise<void> all_asked;
    const auto here = own->put(Bytes(1, 1));
    ASSERT_TRUE(here);
    node.network->fetch_content(*here, [&](const Status&) { all_asked.get_future().wait(); });
    for (const auto& [id, content] : contents)
        node.network->fetch_content(id, [&](const Status& status) { good += status ? 1 : 0; });
    all_asked.set_value();
    std::size_t questions = 0;
    std::deque<std::pair<std::uint32_t, Hash32>> open;
    std::size_t rounds = 0;
    while (rounds < kMaxFetches / kChunksAskedOfPeer) {
        const auto record = holder.raw.next_record();
        ASSERT_TRUE(record);
        const auto type = static_cast<Type>(record->type);
        if (type == Type::find_content) {
            ++questions;
            messages::ContentInfo info;
            const auto asked = messages::decode_find_content(record->payload);
            ASSERT_TRUE(asked);
            for (const Hash32& id : asked->ids) info.holdings.push_back({id, contents.at(id).size(), {}});
            holder.raw.say(Type::content_info, encode(info), record->stream);
        } else if (type == Type::get_leaf_hashes) {
            const Hash32 id = messages::decode_get_leaves(record->payload, messages::kMaxLeafHashes)->id;
            const Bytes leaf = to_bytes(crypto::content_leaf(contents.at(id)));
            holder.raw.say(Type::leaf_hashes, encode(messages::Leaves{id, 0, leaf}), record->stream);
        } else if (type == Type::get_leaves) {
            open.emplace_back(record->stream, messages::decode_get_leaves(record->payload, 64)->id);
            if (open.size() != kChunksAskedOfPeer) continue;
            // All that it is going to ask before it has an answer is before its own answer.
            std::this_thread::sleep_for(100ms);
            EXPECT_EQ(holder.count_told(Type::get_leaves, Type::get_peers), 0U);
            for (const auto& [stream, id] : open)
                holder.raw.say(Type::leaves, encode(messages::Leaves{id, 0, contents.at(id)}), stream);
            open.clear();
            ++rounds;
        }
    }
    EXPECT_TRUE(eventually([&] { return good == contents.size(); }));
    EXPECT_LE(questions, 4U);
}

}  // namespace
}  // namespace quern::p2p
