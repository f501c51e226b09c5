// Contents that come in chunks, and what of them outlives a run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "content/store.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;
constexpr std::uint64_t kLeaf = crypto::kContentLeafBytes;

struct Content {
    Bytes bytes;
    std::shared_ptr<const Manifest> manifest;
    Hash32 id;
    explicit Content(std::size_t size, std::uint64_t seed = 1) : bytes(size) {
        SeededRng(seed).fill(bytes);
        crypto::ContentHasher hasher;
        hasher.update(bytes);
        id = hasher.finish();
        manifest = std::make_shared<const Manifest>(Manifest{size, hasher.leaves()});
    }
    [[nodiscard]] BytesView leaves(std::uint64_t first, std::uint64_t count) const {
        const std::uint64_t from = first * kLeaf;
        return BytesView(bytes).subspan(from, std::min<std::uint64_t>(count * kLeaf, bytes.size() - from));
    }
};

class PartTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-parts-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        open();
    }
    void TearDown() override {
        store_.reset();
        stdfs::remove_all(root_);
    }
    void open(std::uint64_t quota = kDefaultQuotaBytes, std::uint64_t max_item = kDefaultMaxItemBytes) {
        store_.reset();
        store_ = std::move(*Store::open({root_, quota, max_item}));
    }
    [[nodiscard]] std::unique_ptr<Store::Part> begin(const Content& content) {
        auto part = store_->begin_part(content.id, content.manifest);
        EXPECT_TRUE(part) << part.error().to_string();
        return std::move(*part);
    }
    // Kept, with its first leaf.
    void keep(const Content& content) { ASSERT_TRUE(begin(content)->write(0, content.leaves(0, 1))); }
    [[nodiscard]] bool is_kept(const Content& content) { return store_->open_part(content.id).has_value(); }
    [[nodiscard]] std::string path_of(const Content& content) const { return root_ + "/parts/" + to_hex(content.id); }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(stdfs::directory_iterator(root_ + "/parts"), {}));
    }
    std::string root_;
    std::unique_ptr<Store> store_;
};

TEST_F(PartTest, becomes_a_content_by_a_rename_once_all_of_it_is_there) {
    const Content content(5 * kLeaf + 77);
    auto part = begin(content);
    ASSERT_TRUE(part->write(3 * kLeaf, content.leaves(3, 3)));
    EXPECT_EQ(part->publish().error().name, "content.incomplete");
    EXPECT_FALSE(store_->size(content.id));
    ASSERT_TRUE(part->write(0, content.leaves(0, 3)));
    struct stat before {};
    ASSERT_EQ(::stat(path_of(content).c_str(), &before), 0);
    ASSERT_TRUE(part->publish());
    part.reset();
    EXPECT_EQ(files(), 0U);
    struct stat after {};
    ASSERT_EQ(::stat((root_ + "/" + to_hex(content.id).substr(0, 2) + "/" + to_hex(content.id)).c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino) << "a copy";
    EXPECT_TRUE(store_->verify(content.id));
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_EQ(store_->usage().bytes, stored_bytes(content.bytes.size()));
    open();
    EXPECT_EQ(*store_->read(content.id, 0, kMaxReadBytes), content.bytes);
}

TEST_F(PartTest, takes_whole_leaves_of_its_content_alone) {
    const Content content(4 * kLeaf);
    auto part = begin(content);
    Bytes bad = to_bytes(content.leaves(1, 2));
    bad[kLeaf + 5] ^= 1;
    EXPECT_EQ(part->write(kLeaf, bad).error().name, "content.bad_leaf");
    EXPECT_FALSE(part->has_data(0, content.bytes.size()));
    EXPECT_EQ(part->write(kLeaf, content.leaves(2, 1)).error().name, "content.bad_leaf");
    EXPECT_EQ(part->write(kLeaf, content.leaves(1, 1).first(100)).error().name, "content.bad_leaf");
    EXPECT_EQ(part->write(100, content.leaves(0, 1)).error().name, "content.bad_leaf");
    EXPECT_EQ(part->write(4 * kLeaf, content.leaves(0, 1)).error().name, "content.bad_leaf");
    EXPECT_FALSE(part->write(kLeaf, bad).error().is_local_fault());
    EXPECT_EQ(part->read(0, kLeaf).error().name, "content.bad_leaf") << "a hole";
    ASSERT_TRUE(part->write(kLeaf, content.leaves(1, 1)));
    EXPECT_EQ(*part->read(kLeaf, kLeaf), to_bytes(content.leaves(1, 1)));
}

TEST_F(PartTest, is_kept_over_a_restart_with_its_room_and_goes_on_with_what_is_good) {
    const Content content(256 * kLeaf);
    {
        auto part = begin(content);
        ASSERT_TRUE(part->write(0, content.leaves(0, 64)));
        ASSERT_TRUE(part->write(128 * kLeaf, content.leaves(128, 64)));
    }
    // As after a crash: one of the chunks is not what was written.
    std::fstream(path_of(content), std::ios::in | std::ios::out | std::ios::binary).seekp(130 * kLeaf).put('!');
    std::ofstream(root_ + "/parts/" + to_hex(Hash32{{9}})) << "half of one";
    open();
    EXPECT_EQ(files(), 2U);
    EXPECT_EQ(store_->usage().reserved, stored_bytes(content.bytes.size()));
    auto part = *store_->open_part(content.id);
    EXPECT_EQ(*part->manifest(), *content.manifest);
    EXPECT_TRUE(part->has_data(0, 64 * kLeaf));
    EXPECT_FALSE(part->has_data(64 * kLeaf, 64 * kLeaf));
    EXPECT_TRUE(part->has_data(128 * kLeaf, 64 * kLeaf));
    EXPECT_FALSE(part->has_data(192 * kLeaf, 64 * kLeaf));
    EXPECT_TRUE(part->check(0, 64 * kLeaf));
    EXPECT_EQ(part->check(128 * kLeaf, 64 * kLeaf).error().name, "content.bad_leaf");
    EXPECT_EQ(part->publish().error().name, "content.incomplete");
    ASSERT_TRUE(part->write(64 * kLeaf, content.leaves(64, 192)));
    ASSERT_TRUE(part->publish());
    EXPECT_TRUE(store_->verify(content.id));
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(PartTest, has_its_room_before_it_begins_and_gives_it_to_others_only_when_nobody_has_it_open) {
    open(190'000);
    const Content first(60'000, 1);
    const Content second(60'000, 2);
    auto one = begin(first);
    auto two = begin(second);
    EXPECT_EQ(store_->begin_part({}, Content(60'000, 3).manifest).error().name, "content.quota_exceeded");
    EXPECT_EQ(store_->put(Content(70'000, 3).bytes).error().name, "content.quota_exceeded");
    EXPECT_EQ(store_->begin_part({}, Content(300'000).manifest).error().name, "content.quota_exceeded");
    EXPECT_TRUE(store_->open_part(first.id).error().is_busy());
    EXPECT_TRUE(store_->begin_part(first.id, first.manifest).error().is_busy());
    two.reset();
    one.reset();  // closed last
    EXPECT_EQ(files(), 4U);
    EXPECT_EQ(store_->begin_part({}, Content(300'000).manifest).error().name, "content.quota_exceeded");
    EXPECT_EQ(files(), 4U) << "nothing goes for what has no room even then";
    ASSERT_TRUE(store_->put(Content(70'000, 3).bytes));
    EXPECT_FALSE(is_kept(second));
    EXPECT_TRUE(is_kept(first));
    EXPECT_EQ(store_->usage().reserved, stored_bytes(60'000));
}

TEST_F(PartTest, of_too_many_the_one_closed_longest_ago_goes) {
    std::vector<Content> contents;
    for (std::uint64_t i = 0; i <= kMaxParts; ++i) contents.emplace_back(100, i);
    for (std::uint64_t i = 0; i < kMaxParts; ++i) keep(contents[i]);
    EXPECT_TRUE(is_kept(contents[0]));  // and closed again
    keep(contents[kMaxParts]);
    EXPECT_EQ(files(), 2 * kMaxParts);
    EXPECT_TRUE(is_kept(contents[0]));
    EXPECT_FALSE(is_kept(contents[1]));
    EXPECT_EQ(store_->usage().reserved, kMaxParts * stored_bytes(100));
}

TEST_F(PartTest, goes_at_start_when_there_is_no_room_for_it_any_more) {
    const Content older(60'000, 1);
    const Content newer(60'000, 2);
    keep(older);
    keep(newer);
    const auto now = stdfs::last_write_time(path_of(newer));
    stdfs::last_write_time(path_of(older), now - std::chrono::hours(1));
    open(100'000);
    EXPECT_TRUE(is_kept(newer));
    EXPECT_FALSE(is_kept(older));
    open(100'000, 1'000);
    EXPECT_EQ(files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(PartTest, goes_when_its_manifest_is_damaged_or_its_content_came_another_way) {
    const Content content(60'000);
    keep(content);
    std::fstream(path_of(content) + ".manifest", std::ios::in | std::ios::out | std::ios::binary).seekp(40).put('!');
    EXPECT_EQ(store_->open_part(content.id).error().name, "content.not_found");
    EXPECT_EQ(files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
    keep(content);
    {
        const auto part = *store_->open_part(content.id);
        ASSERT_TRUE(store_->put(content.bytes));
    }
    EXPECT_EQ(files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_TRUE(store_->verify(content.id));
}

TEST_F(PartTest, several_threads_write_one) {
    const Content content(64 * kLeaf);
    auto part = begin(content);
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            for (std::uint64_t leaf = i; leaf < 64; leaf += 4)
                EXPECT_TRUE(part->write(leaf * kLeaf, content.leaves(leaf, 1)));
        });
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(part->publish());
    EXPECT_TRUE(store_->verify(content.id));
}

}  // namespace
}  // namespace quern::content
