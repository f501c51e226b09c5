// Contents that are here by shard: a list, and each shard a content of its own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "unit/content/made_content.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;

constexpr unsigned kLevel = 3;
constexpr std::uint64_t kShard = crypto::content_shard_bytes(kLevel);
constexpr std::uint64_t kQuota = 60 * kDiskBlockBytes;

crypto::ContentShards list_of(BytesView content) {
    crypto::ShardHasher hasher(kLevel);
    hasher.update(content);
    return hasher.finish();
}

class ShardListsTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-shards-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        open();
    }
    void TearDown() override {
        store_.reset();
        stdfs::remove_all(root_);
    }
    void open() {
        store_.reset();
        StoreOptions options{root_, kQuota};
        options.min_free_bytes = 0;
        options.min_idle_seconds = 0;
        options.shard_level = kLevel;
        auto opened = Store::open(options);
        ASSERT_TRUE(opened) << opened.error().to_string();
        store_ = std::move(*opened);
        store_->set_duties([this](std::set<Hash32>& idle) -> Status {
            for (const Hash32& id : duties_) idle.erase(id);
            return {};
        });
    }
    [[nodiscard]] std::string path_of(const Hash32& id) const {
        return root_ + "/" + to_hex(id).substr(0, 2) + "/" + to_hex(id) + ".shards";
    }
    [[nodiscard]] std::uint64_t on_disk() const {
        std::uint64_t bytes = 0;
        for (const auto& entry : stdfs::recursive_directory_iterator(root_))
            if (entry.is_regular_file() && entry.path().filename() != "format") bytes += disk_bytes(entry.file_size());
        return bytes;
    }

    const Content whole_{2 * kShard + 5'000};
    const crypto::ContentShards list_ = list_of(whole_.bytes);
    std::set<Hash32> duties_;
    std::string root_;
    std::unique_ptr<Store> store_;
};

TEST_F(ShardListsTest, cost_what_is_read_of_them_until_they_are_kept_in_memory) {
    EXPECT_EQ(store_->unread_list_bytes(whole_.id), 0U) << "not here";
    ASSERT_TRUE(store_->put_shards(list_));
    open();
    EXPECT_GE(store_->unread_list_bytes(whole_.id), crypto::encode(list_).size());
    ASSERT_TRUE(store_->shards(whole_.id));
    EXPECT_EQ(store_->unread_list_bytes(whole_.id), 0U);
}

TEST_F(ShardListsTest, are_kept_and_counted_beside_their_shards) {
    ASSERT_EQ(list_.id(), whole_.id);
    EXPECT_EQ(store_->shards(whole_.id).error().name, "content.not_found");
    ASSERT_TRUE(store_->put_shards(list_));
    ASSERT_TRUE(store_->put_shards(list_));
    EXPECT_EQ(**store_->shards(whole_.id), list_);
    EXPECT_EQ(store_->size(whole_.id).error().name, "content.not_found") << "its bytes are not here";
    EXPECT_EQ(store_->read(whole_.id, 0, 1).error().name, "content.not_found");
    EXPECT_EQ(store_->usage().items, 1U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    EXPECT_EQ(store_->usage().reserved, 0U);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(*store_->put(BytesView(whole_.bytes).subspan(i * kShard, list_.bytes_of(i))), list_.id_of(i));
    EXPECT_EQ(store_->usage().items, 4U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    open();
    EXPECT_EQ(**store_->shards(whole_.id), list_);
    EXPECT_EQ(store_->usage().items, 4U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    EXPECT_EQ(store_->list().size(), 4U);
    ASSERT_TRUE(store_->remove(whole_.id));
    EXPECT_EQ(store_->shards(whole_.id).error().name, "content.not_found");
    EXPECT_EQ(store_->usage().items, 3U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    EXPECT_EQ(store_->remove(whole_.id).error().name, "content.not_found");
}

TEST_F(ShardListsTest, and_the_same_content_whole_are_two_things) {
    ASSERT_TRUE(store_->put_shards(list_));
    ASSERT_TRUE(store_->put(whole_.bytes));
    EXPECT_EQ(*store_->size(whole_.id), whole_.bytes.size());
    EXPECT_EQ(**store_->shards(whole_.id), list_);
    EXPECT_EQ(store_->list().size(), 1U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    ASSERT_TRUE(store_->remove(whole_.id));
    EXPECT_FALSE(store_->shards(whole_.id));
    EXPECT_FALSE(store_->size(whole_.id));
    EXPECT_EQ(store_->usage().bytes, 0U);
}

TEST_F(ShardListsTest, that_are_damaged_go_and_may_be_put_again) {
    ASSERT_TRUE(store_->put_shards(list_));
    open();
    {
        std::fstream file(path_of(whole_.id), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(30);
        file.put('x');
    }
    EXPECT_EQ(store_->shards(whole_.id).error().name, "content.not_found");
    EXPECT_FALSE(stdfs::exists(path_of(whole_.id)));
    EXPECT_EQ(store_->usage().bytes, 0U);
    ASSERT_TRUE(store_->put_shards(list_));
    EXPECT_EQ(**store_->shards(whole_.id), list_);
}

TEST_F(ShardListsTest, go_for_want_of_room_unless_a_duty_holds_them) {
    ASSERT_TRUE(store_->put_shards(list_));
    duties_ = {whole_.id};
    const Content large(kQuota - kDiskBlockBytes, 2);
    EXPECT_EQ(store_->put(large.bytes).error().name, "content.quota_exceeded");
    EXPECT_TRUE(store_->shards(whole_.id));
    duties_.clear();
    open();  // a store refuses for a while when it found nothing
    ASSERT_TRUE(store_->put(large.bytes));
    EXPECT_FALSE(store_->shards(whole_.id));
    const Content other(3 * kShard, 3);
    EXPECT_EQ(store_->usage().bytes, on_disk());
    EXPECT_TRUE(store_->let_go({large.id})->empty());
    ASSERT_TRUE(store_->put_shards(list_of(other.bytes)));
    duties_ = {other.id};
    EXPECT_EQ(*store_->let_go({other.id}), duties_);
    duties_.clear();
    EXPECT_TRUE(store_->let_go({other.id})->empty());
    EXPECT_EQ(store_->usage().items, 0U);
}

TEST_F(ShardListsTest, have_no_room_in_a_full_store) {
    const Content large(kQuota - kDiskBlockBytes, 2);
    ASSERT_TRUE(store_->put(large.bytes));
    duties_ = {large.id};
    EXPECT_EQ(store_->put_shards(list_).error().name, "content.quota_exceeded");
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_EQ(store_->usage().unwritten, 0U);
    EXPECT_EQ(store_->usage().bytes, on_disk());
}

}  // namespace
}  // namespace quern::content
