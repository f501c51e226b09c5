// Contents that come in chunks, and what of them outlives a run.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "unit/content/made_content.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;
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
    void open_leaving(std::uint64_t min_free) {
        store_.reset();
        store_ = std::move(*Store::open({root_, std::uint64_t{1} << 62, std::uint64_t{1} << 60, 1'000, min_free}));
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
    ASSERT_TRUE(one->write(0, first.leaves(0, 1)) && two->write(0, second.leaves(0, 1)));
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

// No hash has to be good to see how room is granted.
std::shared_ptr<const Manifest> any_manifest(std::uint64_t size) {
    return std::make_shared<const Manifest>(
        Manifest{size, std::vector<Hash32>(static_cast<std::size_t>(crypto::content_leaf_count(size)))});
}

TEST_F(PartTest, leaves_the_disk_what_others_need_of_it) {
    struct statvfs disk {};
    ASSERT_EQ(::statvfs(root_.c_str(), &disk), 0);
    const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    const std::uint64_t slack = std::min<std::uint64_t>(free / 2, std::uint64_t{8} << 30);
    open_leaving(free - slack);
    auto first = store_->begin_part(Hash32{{1}}, any_manifest(slack * 5 / 8));
    ASSERT_TRUE(first) << first.error().to_string();
    // What is promised is no longer free, though not written.
    const auto second = store_->begin_part(Hash32{{2}}, any_manifest(slack * 5 / 8));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().name, "content.disk_full");
    EXPECT_TRUE(second.error().is_local_fault());
    EXPECT_EQ(store_->begin_upload(Hash32{{2}}, slack * 5 / 8).error().name, "content.disk_full");
    EXPECT_EQ(files(), 2U) << "nothing was written of it";
    first->reset();
    EXPECT_EQ(files(), 0U) << "kept without a byte";
    EXPECT_EQ(store_->usage().unwritten, 0U);
    EXPECT_TRUE(store_->begin_part(Hash32{{2}}, any_manifest(slack * 5 / 8)));
}

TEST_F(PartTest, stops_and_what_is_kept_goes_when_others_have_filled_the_disk) {
    const Content content(8 * kLeaf, 1);
    const Content other(8 * kLeaf, 2);
    keep(other);
    auto part = begin(content);
    ASSERT_TRUE(part->write(0, content.leaves(0, 1)));
    part.reset();
    // As if the disk had become so full.
    open_leaving(std::uint64_t{1} << 62);
    EXPECT_EQ(files(), 4U);
    part = *store_->open_part(content.id);
    EXPECT_EQ(part->write(kLeaf, content.leaves(1, 1)).error().name, "content.disk_full");
    EXPECT_FALSE(is_kept(other)) << "it holds what others want";
    part.reset();
    EXPECT_TRUE(is_kept(content)) << "for when there is room again";
    EXPECT_EQ(store_->put(other.bytes).error().name, "content.disk_full");
}

TEST_F(PartTest, that_the_disk_refuses_goes_with_its_room_and_harms_no_other) {
    const Content content(8 * kLeaf, 1);
    const auto whole = store_->put(Content(5 * kLeaf, 2).bytes);
    ASSERT_TRUE(whole);
    keep(content);
    // A file that takes no bytes at an offset.
    stdfs::remove(path_of(content));
    ASSERT_EQ(::mkfifo(path_of(content).c_str(), 0600), 0);
    auto part = store_->open_part(content.id);
    ASSERT_TRUE(part) << part.error().to_string();
    const auto written = (*part)->write(kLeaf, content.leaves(1, 1));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().name, "content.write_failed");
    part->reset();
    EXPECT_EQ(files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_EQ(store_->usage().unwritten, 0U);
    EXPECT_TRUE(store_->verify(*whole));
    EXPECT_TRUE(begin(content)->write(0, content.leaves(0, 8)));
}

TEST_F(PartTest, without_a_good_leaf_is_not_kept) {
    const Content content(64 * kLeaf);
    begin(content).reset();
    EXPECT_EQ(files(), 0U);
    // A process that was killed leaves both files.
    {
        const auto part = begin(content);
        stdfs::create_directory(root_ + "/saved");
        stdfs::copy(path_of(content) + ".manifest", root_ + "/saved/" + to_hex(content.id) + ".manifest");
    }
    stdfs::copy(root_ + "/saved", root_ + "/parts");
    stdfs::remove_all(root_ + "/saved");
    std::ofstream(path_of(content)).close();
    stdfs::resize_file(path_of(content), content.bytes.size());
    ASSERT_EQ(files(), 2U);
    open();
    EXPECT_EQ(files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
    // What has bytes is kept until they are known to be bad, all of them.
    keep(content);
    std::fstream(path_of(content), std::ios::in | std::ios::out | std::ios::binary).seekp(5).put('!');
    store_->open_part(content.id)->reset();
    EXPECT_EQ(files(), 2U);
    auto part = *store_->open_part(content.id);
    EXPECT_EQ(part->check(0, 4 * kLeaf).error().name, "content.bad_leaf");
    EXPECT_EQ(store_->usage().unwritten, disk_bytes(content.bytes.size()));
    part.reset();
    EXPECT_EQ(files(), 0U);
}

TEST_F(PartTest, with_a_leaf_that_went_bad_since_becomes_no_content) {
    const Content content(8 * kLeaf);
    const auto part = begin(content);
    ASSERT_TRUE(part->write(0, content.leaves(0, 8)));
    std::fstream(path_of(content), std::ios::in | std::ios::out | std::ios::binary).seekp(2 * kLeaf + 5).put('!');
    EXPECT_TRUE(part->read(3 * kLeaf, kLeaf));
    EXPECT_EQ(part->read(0, 8 * kLeaf).error().name, "content.bad_leaf");
    const auto published = part->publish();
    ASSERT_FALSE(published);
    EXPECT_EQ(published.error().name, "content.incomplete");
    EXPECT_EQ(published.error().detail, "1 leaves are not there");
    ASSERT_TRUE(part->write(2 * kLeaf, content.leaves(2, 1)));
    EXPECT_TRUE(part->publish());
    EXPECT_TRUE(store_->verify(content.id));
    EXPECT_EQ(store_->usage().unwritten, 0U);
}

TEST_F(PartTest, replaces_a_content_that_was_found_damaged) {
    const Content content(8 * kLeaf);
    ASSERT_TRUE(store_->put(content.bytes));
    const std::string path = root_ + "/" + to_hex(content.id).substr(0, 2) + "/" + to_hex(content.id);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(2 * kLeaf + 5).put('!');
    EXPECT_TRUE(store_->size(content.id));
    EXPECT_FALSE(store_->verify(content.id));
    EXPECT_EQ(store_->size(content.id).error().name, "content.corrupt");
    const auto part = begin(content);
    ASSERT_TRUE(part->write(0, content.leaves(0, 8)));
    ASSERT_TRUE(part->publish());
    EXPECT_EQ(*store_->size(content.id), content.bytes.size());
    EXPECT_TRUE(store_->verify(content.id));
    EXPECT_EQ(store_->usage().bytes, stored_bytes(content.bytes.size()));
    EXPECT_EQ(store_->usage().items, 1U);
}

TEST_F(PartTest, goes_on_after_a_crash_between_the_two_renames_that_publish_it) {
    const Content content(8 * kLeaf);
    keep(content);
    store_.reset();
    const std::string folder = root_ + "/" + to_hex(content.id).substr(0, 2);
    stdfs::create_directories(folder);
    stdfs::rename(path_of(content) + ".manifest", folder + "/" + to_hex(content.id) + ".manifest");
    open();
    EXPECT_EQ(store_->usage().items, 0U);
    EXPECT_EQ(store_->usage().bytes, 0U);
    EXPECT_TRUE((*store_->open_part(content.id))->check(0, kLeaf));
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
