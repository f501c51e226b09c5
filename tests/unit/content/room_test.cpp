// What the store counts is what lies on the disk or was promised to somebody, whatever happens.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "unit/content/made_content.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;

class RoomTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-room-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        open();
    }
    void TearDown() override {
        uploads_.clear();
        parts_.clear();
        store_.reset();
        stdfs::remove_all(root_);
    }
    void open() {
        store_.reset();
        store_ = std::move(*Store::open({root_, kQuota}));
    }

    struct OpenUpload {
        const Content* content;
        std::size_t sent = 0;
        std::uint64_t promised = 0;
        std::unique_ptr<Store::Upload> upload;
    };
    struct OpenPart {
        const Content* content;
        std::unique_ptr<Store::Part> part;
    };

    void check(int step) {
        std::uint64_t stored = 0;
        for (const auto& entry : stdfs::recursive_directory_iterator(root_)) {
            const std::string folder = entry.path().parent_path().filename();
            if (entry.is_regular_file() && folder.size() == 2) stored += disk_bytes(entry.file_size());
        }
        std::uint64_t reserved = 0;
        std::uint64_t unwritten = 0;
        for (const auto& one : uploads_) {
            const std::uint64_t on_disk = one.sent == 0 ? 0 : disk_bytes(one.sent);
            reserved += std::max(one.promised, on_disk);
            unwritten += std::max(one.promised, on_disk) - on_disk;
        }
        for (const auto& content : contents_) {
            const std::string path = root_ + "/parts/" + to_hex(content.id);
            if (!stdfs::exists(path)) {
                written_.erase(content.id);
                continue;
            }
            reserved += stored_bytes(content.bytes.size());
            auto& leaves = written_[content.id];
            for (std::uint64_t leaf = 0; leaf < content.manifest->leaves.size(); ++leaf)
                if (!leaves.contains(leaf)) unwritten += disk_bytes(content.leaves(leaf, 1).size());
        }
        const StoreUsage usage = store_->usage();
        ASSERT_EQ(usage.bytes, stored) << "step " << step;
        ASSERT_EQ(usage.reserved, reserved) << "step " << step;
        ASSERT_EQ(usage.unwritten, unwritten) << "step " << step;
        ASSERT_LE(stored + reserved, kQuota) << "step " << step;
    }

    static constexpr std::uint64_t kQuota = 1'200'000;
    std::string root_;
    std::unique_ptr<Store> store_;
    std::vector<Content> contents_;
    std::vector<OpenUpload> uploads_;
    std::vector<OpenPart> parts_;
    std::map<Hash32, std::set<std::uint64_t>> written_;
    Expected<std::set<Hash32>> duties_ = std::set<Hash32>{};
    std::size_t asked_ = 0;
};

template <class One>
void give_up(std::vector<One>& all, std::size_t at) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
}

TEST_F(RoomTest, is_exact_whatever_happens_to_uploads_parts_and_contents) {
    constexpr std::uint64_t kSeed = 20;
    SCOPED_TRACE(kSeed);
    SeededRng rng(kSeed);
    for (std::uint64_t i = 0; i < 12; ++i) contents_.emplace_back(rng.below(12 * kLeaf), i);
    std::size_t finished = 0;
    std::size_t refused = 0;
    std::size_t published = 0;
    std::size_t removed = 0;
    std::size_t starts = 0;
    std::size_t went_on = 0;
    for (int step = 0; step < 3'000; ++step) {
        const Content& content = contents_[rng.below(contents_.size())];
        const std::size_t upload = uploads_.empty() ? 0 : rng.below(uploads_.size());
        const std::size_t part = parts_.empty() ? 0 : rng.below(parts_.size());
        switch (rng.below(12)) {
            case 0:
            case 1: {
                const std::uint64_t before = store_->usage().reserved;
                if (auto begun = store_->begin_upload(content.id, content.bytes.size()))
                    uploads_.push_back({&content, 0, store_->usage().reserved - before, std::move(*begun)});
                else
                    ++refused;
                break;
            }
            case 2:
                if (!uploads_.empty()) give_up(uploads_, upload);
                break;
            case 3:
                if (const auto list = store_->list(); !list.empty()) {
                    ASSERT_TRUE(store_->remove(list[rng.below(list.size())]));
                    ++removed;
                }
                break;
            case 4:
            case 5: {
                auto opened = store_->open_part(content.id);
                went_on += opened ? 1 : 0;
                if (!opened && !opened.error().is_busy()) opened = store_->begin_part(content.id, content.manifest);
                if (opened)
                    parts_.push_back({&content, std::move(*opened)});
                else
                    ++refused;
                break;
            }
            case 6:
                if (!parts_.empty()) give_up(parts_, part);
                break;
            case 7:
                if (rng.below(10) != 0) break;
                uploads_.clear();
                parts_.clear();
                open();
                ++starts;
                break;
            case 8:
            case 9: {
                if (parts_.empty()) break;
                auto& one = parts_[part];
                const std::uint64_t count = one.content->manifest->leaves.size();
                for (int i = 0; count != 0 && i < 5; ++i) {
                    const std::uint64_t leaf = rng.below(count);
                    ASSERT_TRUE(one.part->write(leaf * kLeaf, one.content->leaves(leaf, 1)));
                    written_[one.content->id].insert(leaf);
                }
                for (const std::uint64_t leaf : written_[one.content->id])
                    ASSERT_TRUE(one.part->check(leaf * kLeaf, kLeaf));
                if (!one.part->publish()) break;
                ++published;
                give_up(parts_, part);
                break;
            }
            default: {
                if (uploads_.empty()) break;
                OpenUpload& one = uploads_[upload];
                const std::size_t piece =
                    std::min<std::uint64_t>(rng.below(90'000), one.content->bytes.size() - one.sent);
                if (!one.upload->append(BytesView(one.content->bytes).subspan(one.sent, piece))) {
                    ++refused;
                    give_up(uploads_, upload);
                } else if ((one.sent += piece) == one.content->bytes.size()) {
                    finished += one.upload->finish() ? 1 : 0;
                    give_up(uploads_, upload);
                }
            }
        }
        check(step);
        if (HasFatalFailure()) return;
    }
    for (const std::size_t count : {finished, refused, published, removed, starts, went_on}) EXPECT_GT(count, 10U);
    uploads_.clear();
    std::vector<std::unique_ptr<Store::Upload>> all;
    for (std::size_t i = 0; i < kMaxUploads; ++i) {
        auto upload = store_->begin_upload(Hash32{}, 1);
        ASSERT_TRUE(upload) << "a place was lost: " << i;
        all.push_back(std::move(*upload));
    }
}

// What this node has a duty to serve stays, whoever wants the room.
TEST_F(RoomTest, is_made_of_idle_contents_that_no_duty_holds) {
    const auto open_again = [&](bool with_duties) {
        store_.reset();
        store_ = std::move(*Store::open({root_, 500'000}));
        if (with_duties)
            store_->set_duties([&](std::set<Hash32>& idle) -> Status {
                ++asked_;
                if (!duties_) return fail(duties_.error());
                for (const Hash32& id : *duties_) idle.erase(id);
                return {};
            });
    };
    const auto age = [&](const Hash32& id, int days) {
        const std::string path = root_ + "/" + to_hex(id).substr(0, 2) + "/" + to_hex(id);
        stdfs::last_write_time(path, stdfs::file_time_type::clock::now() - std::chrono::hours(24 * days));
    };
    std::vector<Hash32> ids;
    for (std::uint64_t i = 0; i < 4; ++i) ids.push_back(*store_->put(Content(100'000, i).bytes));
    age(ids[0], 40);
    age(ids[1], 30);
    age(ids[2], 20);
    open_again(false);
    const Content wanted(150'000, 9);
    EXPECT_EQ(store_->put(wanted.bytes).error().name, "content.quota_exceeded") << "nobody said what may go";
    open_again(true);
    duties_ = fail("store.io");
    EXPECT_EQ(store_->put(wanted.bytes).error().name, "content.quota_exceeded") << "nobody knows";
    duties_ = std::set<Hash32>{ids[0], ids[1], ids[2]};
    EXPECT_EQ(asked_, 1U);
    EXPECT_EQ(store_->put(wanted.bytes).error().name, "content.quota_exceeded");
    EXPECT_EQ(asked_, 1U) << "not for each who wants room";
    open_again(true);
    EXPECT_EQ(store_->put(wanted.bytes).error().name, "content.quota_exceeded");
    duties_ = std::set<Hash32>{ids[0]};
    open_again(true);
    EXPECT_EQ(store_->put(Content(400'000, 9).bytes).error().name, "content.quota_exceeded");
    EXPECT_EQ(store_->usage().items, 4U) << "nothing goes for what has no room even then";
    open_again(true);
    // The one that was used longest ago goes, and no more than is wanted.
    ASSERT_TRUE(store_->put(wanted.bytes));
    EXPECT_TRUE(store_->size(ids[0]));
    EXPECT_FALSE(store_->size(ids[1]));
    EXPECT_TRUE(store_->size(ids[2]));
    EXPECT_TRUE(store_->size(ids[3]));
    // For a download too; what was read lately is in use, also after a restart.
    age(ids[0], 40);
    open_again(true);
    duties_ = std::set<Hash32>{};
    ASSERT_TRUE(store_->read(ids[0], 0, 1));
    open_again(true);
    const Content fetched(120'000, 10);
    ASSERT_TRUE(store_->begin_part(fetched.id, fetched.manifest));
    EXPECT_TRUE(store_->size(ids[0]));
    EXPECT_FALSE(store_->size(ids[2]));
    EXPECT_TRUE(store_->size(ids[3]));
    EXPECT_EQ(store_->put(Content(300'000, 11).bytes).error().name, "content.quota_exceeded") << "the rest is in use";
}

// Who put states there that nobody asks for any more takes them away; what somebody is bound to serve stays.
TEST_F(RoomTest, is_given_back_by_who_asks_for_it_but_for_duties) {
    std::vector<Hash32> ids;
    for (std::uint64_t i = 0; i < 3; ++i) ids.push_back(*store_->put(Content(100'000, i).bytes));
    EXPECT_EQ(store_->let_go({ids[0]}).error().name, "content.duties_unknown");
    Status known = fail("store.io");
    store_->set_duties([&](std::set<Hash32>& idle) -> Status {
        idle.erase(ids[1]);
        return known;
    });
    EXPECT_EQ(store_->let_go({ids[0]}).error().name, "store.io");
    EXPECT_TRUE(store_->size(ids[0]));
    known = {};
    EXPECT_EQ(store_->let_go({ids[0], ids[1], Hash32{{7}}}).value(), std::set{ids[1]});
    EXPECT_FALSE(store_->size(ids[0])) << "it was used a moment ago";
    EXPECT_TRUE(store_->size(ids[1]));
    EXPECT_TRUE(store_->size(ids[2]));
}

// What others have here goes for bytes that come, not for an announcement that costs nothing.
TEST_F(RoomTest, is_made_for_bytes_and_not_for_their_announcement) {
    store_.reset();
    store_ = std::move(*Store::open({root_, 500'000}));
    const Hash32 old = *store_->put(Content(400'000, 1).bytes);
    const std::string path = root_ + "/" + to_hex(old).substr(0, 2) + "/" + to_hex(old);
    stdfs::last_write_time(path, stdfs::file_time_type::clock::now() - std::chrono::hours(24 * 40));
    store_.reset();
    store_ = std::move(*Store::open({root_, 500'000}));
    int asked = 0;
    store_->set_duties([&](std::set<Hash32>&) -> Status {
        ++asked;
        return {};
    });
    const Content fresh(300'000, 2);
    {
        const auto announced = store_->begin_upload(fresh.id, fresh.bytes.size());
        ASSERT_TRUE(announced);
        EXPECT_TRUE(store_->size(old)) << "gone, and nothing came";
        EXPECT_EQ(asked, 0) << "a walk over the state for an announcement";
    }
    EXPECT_TRUE(store_->put(fresh.bytes));
    EXPECT_FALSE(store_->size(old));
}

// A large file takes its time to go, and what asks meanwhile waits for it instead of being refused.
TEST_F(RoomTest, that_is_being_given_back_is_waited_for) {
    for (std::uint64_t round = 0; round < 20; ++round) {
        for (std::uint64_t i = 0; i < 4; ++i) {
            const Content kept(270'000, 10 * round + i);
            const auto part = store_->begin_part(kept.id, kept.manifest);
            ASSERT_TRUE(part);
            ASSERT_TRUE((*part)->write(0, kept.leaves(0, 1)));
        }
        std::vector<std::thread> threads;
        std::atomic<int> good = 0;
        for (std::uint64_t i = 0; i < 4; ++i)
            threads.emplace_back([&, i] {
                const Content content(270'000, 1'000 + 10 * round + i);
                const auto stored = store_->put(content.bytes);
                good += stored ? 1 : 0;
            });
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(good, 4);
        for (const Hash32& id : store_->list()) ASSERT_TRUE(store_->remove(id));
    }
}

}  // namespace
}  // namespace quern::content
