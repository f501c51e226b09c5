#include "node/serve/content_gateway.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <limits>

#include "unit/p2p/test_node.h"

namespace quern::node {
namespace {

using p2p::testing::eventually;
using p2p::testing::TestNode;

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

class ContentGatewayTest : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = ::testing::TempDir() + "quern_gateway_" + std::to_string(::getpid());
        std::filesystem::remove_all(root_);
        holder_ = *content::Store::open({root_ + "/holder", 1ULL << 30, 1ULL << 30});
        store_ = *content::Store::open({root_ + "/store", 1ULL << 30, 1ULL << 30});
        Bytes data(6U << 20);
        SeededRng rng(3);
        rng.fill(data);
        id_ = *holder_->put(data);
        a_ = std::make_unique<TestNode>(1, std::vector<p2p::StaticPeer>{}, [&](p2p::NetworkOptions& options) {
            options.contents = holder_.get();
            options.bulk_bytes_per_second = 2U << 20;
        });
        b_ = std::make_unique<TestNode>(2, std::vector{a_->as_peer()},
                                        [&](p2p::NetworkOptions& options) { options.contents = store_.get(); });
        gateway_ = std::make_unique<StoreGateway>(*store_);
        gateway_->fetch_from(*b_->network, clock_, 1);
        ASSERT_TRUE(eventually([&] { return b_->has_peers(1); }));
    }
    void TearDown() override {
        b_.reset();
        a_.reset();
        gateway_.reset();
        std::filesystem::remove_all(root_);
    }

    std::string root_;
    std::unique_ptr<content::Store> holder_;
    std::unique_ptr<content::Store> store_;
    std::unique_ptr<TestNode> a_;
    std::unique_ptr<TestNode> b_;
    ManualClock clock_;
    std::unique_ptr<StoreGateway> gateway_;
    Hash32 id_;
};

TEST_F(ContentGatewayTest, what_is_on_its_way_is_missing_for_nobody_who_asks) {
    std::atomic<int> missing{0};
    std::atomic<int> coming{0};
    std::vector<std::thread> askers;
    for (int i = 0; i < 4; ++i)
        askers.emplace_back([&] {
            for (int tries = 0; tries < 2'000; ++tries) {
                const auto size = gateway_->obtain(id_, kAny);
                if (size) return;
                ++(size.error().is_busy() ? coming : missing);
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
        });
    for (auto& asker : askers) asker.join();
    EXPECT_EQ(missing, 0);
    EXPECT_GT(coming, 0);
    EXPECT_EQ(*gateway_->obtain(id_, kAny), 6U << 20);
}

TEST_F(ContentGatewayTest, what_will_be_wanted_comes_before_it_is_asked_for) {
    std::vector<Hash32> ids;
    for (std::uint64_t i = 0; i < 3 * kWantedAtOnce; ++i) {
        Bytes data(40'000);
        SeededRng rng(100 + i);
        rng.fill(data);
        ids.push_back(*holder_->put(data));
    }
    EXPECT_TRUE(gateway_->want(ids, kAny).empty());
    EXPECT_TRUE(eventually([&] { return gateway_->want(ids, kAny) == ids; }, std::chrono::seconds(20)));
}

TEST_F(ContentGatewayTest, leaves_room_for_who_waits_and_forgets_what_nobody_has) {
    std::vector<Hash32> nothing;
    for (std::uint8_t i = 0; i < 2 * kWantedAtOnce; ++i) nothing.push_back({{9, i}});
    EXPECT_TRUE(gateway_->want(nothing, kAny).empty());
    const auto under_way = [&] { return b_->network->status().fetches; };
    ASSERT_TRUE(eventually([&] { return under_way().size() == kWantedAtOnce; }));
    EXPECT_FALSE(under_way().contains(nothing.back()));
    // Who asks for one has it beside them.
    ASSERT_TRUE(eventually([&] { return gateway_->obtain(id_, kAny).has_value(); }, std::chrono::seconds(20)));
    EXPECT_TRUE(eventually([&] { return under_way().size() == kWantedAtOnce; }));
    // Their places go to what is wanted now.
    clock_.advance(kContentTurnMs);
    EXPECT_TRUE(gateway_->want(std::span(nothing).last(1), kAny).empty());
    EXPECT_TRUE(eventually([&] { return under_way().contains(nothing.back()); }));
}

TEST_F(ContentGatewayTest, what_is_wanted_has_its_time_and_makes_way_however_often_it_is_asked_for) {
    std::vector<Hash32> nothing;
    for (std::uint8_t i = 0; i <= kWantedAtOnce; ++i) nothing.push_back({{9, i}});
    const auto under_way = [&] { return b_->network->status().fetches; };
    for (std::uint64_t waited = 0; waited <= kContentTurnMs; waited += kContentTurnMs / 12) {
        EXPECT_TRUE(gateway_->want(nothing, kAny).empty());
        ASSERT_TRUE(eventually([&] { return under_way().size() == kWantedAtOnce; }));
        if (waited < kContentTurnMs) {
            EXPECT_FALSE(under_way().contains(nothing.back()));
        }
        clock_.advance(kContentTurnMs / 12);
    }
    EXPECT_TRUE(eventually([&] { return under_way().contains(nothing.back()); }));
}

// Each place is taken by something that nobody has, and asked for as often as a worker would.
TEST_F(ContentGatewayTest, what_nobody_has_gives_its_place_to_the_next_who_asks) {
    std::vector<Hash32> nothing;
    for (std::uint8_t i = 0; i < p2p::kMaxFetches; ++i) nothing.push_back({{9, i}});
    std::vector<std::thread> askers;  // one waits, the others find no room to
    for (const Hash32& id : nothing)
        askers.emplace_back(
            [&, id] { EXPECT_EQ(gateway_->obtain(id, kAny).error().name, chain::api::kContentOnItsWay); });
    for (auto& asker : askers) asker.join();
    EXPECT_EQ(gateway_->obtain(id_, kAny).error().name, "content.too_many_fetches") << "somebody may have them yet";
    clock_.advance(kContentSearchMs);
    EXPECT_EQ(gateway_->obtain(nothing[5], kAny).error().name, "content.not_found");
    EXPECT_TRUE(eventually([&] { return gateway_->obtain(id_, kAny).has_value(); }, std::chrono::seconds(20)));
}

TEST_F(ContentGatewayTest, fetches_nothing_larger_than_who_asks_takes) {
    EXPECT_TRUE(gateway_->obtain(id_, 1U << 20).error().is_busy());
    clock_.advance(kContentSearchMs);
    EXPECT_EQ(gateway_->obtain(id_, (6U << 20) - 1).error().name, chain::api::kContentOnItsWay) << "looked for anew";
    clock_.advance(kContentSearchMs);
    EXPECT_EQ(gateway_->obtain(id_, (6U << 20) - 1).error().name, "content.not_found");
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_TRUE(eventually([&] { return gateway_->obtain(id_, 6U << 20).has_value(); }, std::chrono::seconds(30)));
}

TEST_F(ContentGatewayTest, gives_out_leaves_with_the_size_before_them) {
    const Bytes content(100'000, 7);
    const Hash32 id = *store_->put(content);
    crypto::ContentHasher hasher;
    hasher.update(content);
    ASSERT_EQ(hasher.finish(), id);
    Bytes all{0, 0, 0, 0, 0, 1, 0x86, 0xa0};
    for (const Hash32& leaf : hasher.leaves()) append(all, leaf);
    ASSERT_EQ(all.size(), 8U + 7 * 32);
    EXPECT_EQ(*gateway_->read_leaves(id, 0, ~std::uint64_t{0}), all);
    for (const std::uint64_t offset : {0U, 3U, 8U, 9U, 40U, 41U, 231U, 232U})
        for (const std::uint64_t length : {0U, 1U, 5U, 6U, 64U, 400U}) {
            const BytesView rest = BytesView(all).subspan(offset);
            EXPECT_EQ(*gateway_->read_leaves(id, offset, length),
                      to_bytes(rest.first(std::min<std::size_t>(length, rest.size()))))
                << offset << " " << length;
        }
    EXPECT_TRUE(gateway_->read_leaves(id, 233, 1)->empty());
    EXPECT_EQ(gateway_->read_leaves(Hash32{{1}}, 0, 1).error().name, "content.not_found");
}

// Two shards of the network's size, of which nobody need have the bytes.
crypto::ContentShards some_list() { return {crypto::kContentShardBytes + 5, {Hash32{{1}}, Hash32{{2}}}}; }

TEST_F(ContentGatewayTest, lists_of_shards_come_from_other_nodes) {
    const crypto::ContentShards list = some_list();
    const Bytes bytes = encode(list);
    EXPECT_EQ(gateway_->shards(list.id()).error().name, "content.not_found");
    // Those that no connected node has are looked for as long as a content.
    EXPECT_EQ(gateway_->obtain_shards(list.id()).error().name, chain::api::kContentOnItsWay);
    ASSERT_TRUE(holder_->put_shards(list));
    EXPECT_EQ(gateway_->obtain_shards(list.id()).error().name, chain::api::kContentOnItsWay) << "not asked again yet";
    clock_.advance(kShardsAgainMs);
    const auto got = gateway_->obtain_shards(list.id());
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(*got, bytes);
    EXPECT_EQ(*gateway_->shards(list.id()), bytes);
    const Hash32 nothing{{7}};
    EXPECT_TRUE(gateway_->obtain_shards(nothing).error().is_busy());
    clock_.advance(kContentSearchMs);
    EXPECT_EQ(gateway_->obtain_shards(nothing).error().name, "content.not_found");
}

TEST_F(ContentGatewayTest, lists_that_nobody_has_take_no_place_from_one_that_somebody_has) {
    ASSERT_TRUE(holder_->put_shards(some_list()));
    for (std::uint8_t i = 0; i < 2 * p2p::kMaxShardSearches; ++i)
        EXPECT_EQ(gateway_->obtain_shards(Hash32{{8, i}}).error().name, chain::api::kContentOnItsWay);
    // Soon: the one peer is asked for a few lists a second.
    EXPECT_TRUE(eventually([&] {
        clock_.advance(kShardsAgainMs);
        return gateway_->obtain_shards(some_list().id()).has_value();
    }));
}

TEST_F(ContentGatewayTest, takes_lists_that_make_their_id) {
    const crypto::ContentShards list = some_list();
    const Bytes bytes = encode(list);
    const auto put = [&](const Hash32& id, BytesView sent) -> Status {
        QUERN_TRY(const auto upload, gateway_->begin_shards(id, bytes.size()));
        QUERN_CHECK(upload->append(sent.first(sent.size() / 2)));
        QUERN_CHECK(upload->append(sent.subspan(sent.size() / 2)));
        return upload->finish();
    };
    EXPECT_EQ(put(Hash32{{1}}, bytes).error().name, "content.id_mismatch");
    EXPECT_EQ(put(list.id(), BytesView(bytes).first(40)).error().name, "content.incomplete");
    Bytes more = bytes;
    more.push_back(1);
    EXPECT_EQ(put(list.id(), more).error().name, "content.too_large");
    EXPECT_EQ(gateway_->begin_shards(list.id(), crypto::kMaxShardListBytes + 1).error().name, "content.too_large");
    EXPECT_TRUE(store_->list().empty());
    ASSERT_TRUE(put(list.id(), bytes));
    EXPECT_EQ(**store_->shards(list.id()), list);
}

TEST_F(ContentGatewayTest, what_nobody_has_is_missing_after_a_while) {
    const Hash32 nothing{{7}};
    EXPECT_TRUE(gateway_->obtain(nothing, kAny).error().is_busy());
    clock_.advance(kContentSearchMs);
    EXPECT_EQ(gateway_->obtain(nothing, kAny).error().name, "content.not_found");
}

}  // namespace
}  // namespace quern::node
