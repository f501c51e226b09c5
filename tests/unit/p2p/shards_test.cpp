// Lists of shards between nodes, and the shards themselves as contents of their own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "raw_peer.h"
#include "test_node.h"

namespace quern::p2p::testing {
namespace {

constexpr unsigned kLevel = 8;  // shards of 1 MiB
constexpr Hash32 kGenesis{{1, 2, 3}};

class Shards : public ::testing::Test {
protected:
    Shards() {
        std::filesystem::remove_all(root_);
        SeededRng rng(5);
        rng.fill(whole_);
        crypto::ShardHasher hasher(kLevel);
        hasher.update(whole_);
        list_ = hasher.finish();
        id_ = list_.id();
    }
    ~Shards() override {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    [[nodiscard]] std::unique_ptr<content::Store> store(const std::string& name) const {
        content::StoreOptions options{root_ + name, 1ULL << 30};
        options.shard_level = kLevel;
        return std::move(*content::Store::open(options));
    }
    [[nodiscard]] static TestNode node(std::uint64_t seed, content::Store& contents,
                                       std::vector<StaticPeer> peers = {}) {
        return TestNode(seed, std::move(peers), [&](NetworkOptions& options) { options.contents = &contents; });
    }
    [[nodiscard]] Status fetch(TestNode& from) const { return fetch(from, id_); }
    [[nodiscard]] static Status fetch(TestNode& from, const Hash32& id) {
        struct Ended {
            std::atomic<bool> done{false};
            Status status;
        };
        const auto ended = std::make_shared<Ended>();
        from.network->fetch_shards(id, [ended](Status status) {
            ended->status = std::move(status);
            ended->done = true;
        });
        if (!eventually([&] { return ended->done.load(); })) return fail("test.no_end");
        return ended->status;
    }

    const std::string root_ = ::testing::TempDir() + "quern_p2p_shards_" + std::to_string(::getpid()) + "/";
    Bytes whole_ = Bytes((3U << 20) + 70'000);
    crypto::ContentShards list_;
    Hash32 id_;
};

TEST_F(Shards, are_fetched_each_alone_once_their_list_is_here) {
    const auto theirs = store("a");
    const auto mine = store("b");
    ASSERT_TRUE(theirs->put_shards(list_));
    const BytesView last = BytesView(whole_).subspan(3U << 20);
    ASSERT_EQ(*theirs->put(last), list_.id_of(3));
    TestNode a = node(1, *theirs);
    TestNode b = node(2, *mine, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return b.has_peers(1); }));
    const Status fetched = fetch(b);
    ASSERT_TRUE(fetched) << fetched.error().to_string();
    EXPECT_EQ(**mine->shards(id_), list_);
    std::atomic<bool> done{false};
    b.network->fetch_content(list_.id_of(3), [&](const Status&) { done = true; });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
    EXPECT_EQ(*mine->read(list_.id_of(3), 69'000, 2'000), to_bytes(last.subspan(69'000)));
    EXPECT_FALSE(mine->size(list_.id_of(0)));
    EXPECT_TRUE(fetch(b)) << "also of what is here";
}

TEST_F(Shards, that_no_peer_has_are_missing) {
    const auto theirs = store("a");
    const auto mine = store("b");
    TestNode a = node(1, *theirs);
    TestNode b = node(2, *mine, {a.as_peer()});
    EXPECT_EQ(fetch(a).error().name, "content.not_found") << "without peers";
    ASSERT_TRUE(eventually([&] { return b.has_peers(1); }));
    EXPECT_EQ(fetch(b).error().name, "content.not_found");
}

TEST_F(Shards, of_a_liar_are_fetched_from_somebody_else) {
    const auto theirs = store("a");
    const auto mine = store("b");
    ASSERT_TRUE(theirs->put_shards(list_));
    TestNode a = node(1, *theirs);
    TestNode b = node(2, *mine);
    RawPeer liar(b.network->port());
    ASSERT_TRUE(liar.shake_hands(key_of(8), 7878, kGenesis) && liar.say_hello());
    ASSERT_TRUE(eventually([&] { return b.has_peers(1); }));
    std::thread lying([&] {
        const auto asked = liar.next_message(messages::Type::get_shards);
        if (!asked) return;
        crypto::ContentShards other = list_;
        other.tops[1] = Hash32{{9}};
        liar.say(messages::Type::shards, encode(messages::Shards{crypto::encode(other)}), asked->stream);
    });
    EXPECT_EQ(fetch(b).error().name, "content.not_found") << "a lie is no list";
    lying.join();
    EXPECT_FALSE(mine->shards(id_));
    EXPECT_EQ(mine->usage().items, 0U);
    TestNode c = node(3, *mine, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return c.has_peers(1); }));
    EXPECT_TRUE(fetch(c));
}

// A peer that is asked more often than its rule says would leave this node.
TEST_F(Shards, are_asked_for_no_more_often_than_peers_allow) {
    const auto theirs = store("a");
    const auto mine = store("b");
    TestNode a = node(1, *theirs);
    TestNode b = node(2, *mine, {a.as_peer()});
    ASSERT_TRUE(eventually([&] { return a.has_peers(1) && b.has_peers(1); }));
    int later = 0;
    for (std::uint8_t i = 0; i < 60; ++i) {
        const Status fetched = fetch(b, Hash32{{9, i}});
        ASSERT_FALSE(fetched);
        later += fetched.error().is_busy() ? 1 : 0;
    }
    EXPECT_GT(later, 0) << "peers are asked by a later search";
    EXPECT_EQ(a.network->status().peers.at(0).score, 0);
}

TEST_F(Shards, are_given_to_who_asks) {
    const auto theirs = store("a");
    ASSERT_TRUE(theirs->put_shards(list_));
    TestNode a = node(1, *theirs);
    RawPeer raw(a.network->port());
    ASSERT_TRUE(raw.shake_hands(key_of(8), 7878, kGenesis) && raw.say_hello());
    ASSERT_TRUE(eventually([&] { return a.has_peers(1); }));
    ASSERT_TRUE(raw.say(messages::Type::get_shards, encode(messages::GetShards{id_}), 1));
    const auto given = raw.next_message(messages::Type::shards);
    ASSERT_TRUE(given);
    EXPECT_EQ(messages::decode_shards(given->payload)->list, crypto::encode(list_));
    ASSERT_TRUE(raw.say(messages::Type::get_shards, encode(messages::GetShards{Hash32{{1}}}), 2));
    EXPECT_TRUE(raw.next_message(messages::Type::refusal));
}

}  // namespace
}  // namespace quern::p2p::testing
