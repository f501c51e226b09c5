#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "content/store.h"
#include "p2p/answer_account.h"
#include "unit/p2p/raw_peer.h"
#include "unit/p2p/test_node.h"

namespace quern::p2p {
namespace {

using testing::eventually;
using testing::TestNode;
namespace stdfs = std::filesystem;

class Download : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = ::testing::TempDir() + "quern_download_" + std::to_string(::getpid());
        stdfs::remove_all(root_);
        stdfs::create_directories(root_ + "/parts");
        holder_ = *content::Store::open({root_ + "/holder", 1ULL << 30, 1ULL << 30});
        Bytes data(12U << 20);
        SeededRng rng(3);
        rng.fill(data);
        id_ = *holder_->put(data);
    }
    void TearDown() override {
        b_.reset();
        a_.reset();
        stdfs::remove_all(root_);
    }
    // A holder that sends at most so much, and a node whose store takes `quota`.
    void start(std::uint64_t bytes_per_second, std::uint64_t quota) {
        store_ = *content::Store::open({root_ + "/store", quota, 1ULL << 30});
        a_ = std::make_unique<TestNode>(1, std::vector<StaticPeer>{}, [&](NetworkOptions& options) {
            options.contents = holder_.get();
            options.downloads = root_ + "/none";
            options.bulk_bytes_per_second = bytes_per_second;
        });
        b_ = std::make_unique<TestNode>(2, std::vector{a_->as_peer()}, [&](NetworkOptions& options) {
            options.contents = store_.get();
            options.downloads = root_ + "/parts";
        });
        ASSERT_TRUE(eventually([&] { return a_->has_peers(1) && b_->has_peers(1); }));
    }
    void fetch() {
        b_->network->fetch_content(id_, [this](const Status& status) {
            result_ = status ? "ok" : std::string(status.error().name);
            done_ = true;
        });
    }
    [[nodiscard]] std::size_t parts() const {
        return static_cast<std::size_t>(std::distance(stdfs::directory_iterator(root_ + "/parts"), {}));
    }

    std::string root_;
    std::unique_ptr<content::Store> holder_;
    std::unique_ptr<content::Store> store_;
    std::unique_ptr<TestNode> a_;
    std::unique_ptr<TestNode> b_;
    Hash32 id_;
    std::string result_;
    std::atomic<bool> done_{false};
};

TEST_F(Download, nothing_is_read_from_disk_for_who_does_not_read_what_it_was_given) {
    start(64U << 10, 1ULL << 30);
    testing::RawPeer slow(a_->network->port());
    ASSERT_TRUE(slow.shake_hands(testing::key_of(60), 7878, Hash32{{1, 2, 3}}) && slow.say_hello());
    ASSERT_TRUE(eventually([&] { return a_->has_peers(2); }));
    const auto ask = [&](std::uint32_t stream) {
        return slow.say(messages::Type::get_leaves, encode(messages::GetLeaves{id_, 64 * (stream % 12), 64}), stream);
    };
    constexpr std::uint32_t kFills = kAnswerMemory.per_holder >> 20;  // answers of 1 MiB and a little
    for (std::uint32_t stream = 1; stream <= kFills; ++stream) ASSERT_TRUE(ask(stream));
    ASSERT_TRUE(eventually([&] { return a_->network->status().answer_bytes > (kFills - 2) << 20; }));
    // What is looked for on disk from here on is not found there.
    ASSERT_TRUE(holder_->remove(id_));
    ASSERT_TRUE(ask(1'000) && ask(1'001));
    for (std::optional<testing::RawPeer::Record> record; (record = slow.next_message(messages::Type::refusal));) {
        if (record->stream < 1'000) continue;
        const auto refusal = messages::decode_refusal(record->payload);
        ASSERT_TRUE(refusal);
        EXPECT_EQ(refusal->code, messages::RefusalCode::busy);
        if (record->stream == 1'001) return;
    }
    ADD_FAILURE() << "no refusal";
}

TEST_F(Download, what_an_earlier_run_left_is_deleted_at_start) {
    std::ofstream(root_ + "/parts/" + to_hex(Hash32{}) + ".part") << "left";
    std::ofstream(root_ + "/parts/" + to_hex(Hash32{}) + ".part.manifest") << "left";
    start(0, 1ULL << 30);
    EXPECT_EQ(parts(), 0U);
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
    EXPECT_TRUE(eventually([&] { return parts() == 0; }));
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(Download, without_room_nothing_is_downloaded) {
    start(0, 10U << 20);
    const std::uint64_t before = a_->network->status().peers[0].bytes_out;
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "content.quota_exceeded");
    EXPECT_TRUE(eventually([&] { return parts() == 0; }));
    EXPECT_LT(a_->network->status().peers[0].bytes_out, before + (1U << 20));
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(Download, what_is_on_its_way_is_passed_on_already) {
    start(2U << 20, 1ULL << 30);  // six seconds of sending
    fetch();
    testing::RawPeer third(b_->network->port());
    ASSERT_TRUE(third.shake_hands(testing::key_of(60), 7878, Hash32{{1, 2, 3}}) && third.say_hello());
    ASSERT_TRUE(eventually([&] { return b_->has_peers(2); }));
    std::uint32_t stream = 0;
    const auto chunks = [&]() -> Bytes {
        if (!third.say(messages::Type::find_content, encode(messages::FindContent{{id_}}), ++stream)) return {};
        const auto record = third.next_message(messages::Type::content_info);
        const auto info = record ? messages::decode_content_info(record->payload) : fail("none");
        return info && info->holdings.size() == 1 ? info->holdings[0].chunks : Bytes{};
    };
    EXPECT_TRUE(eventually([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const Bytes present = chunks();
        return std::any_of(present.begin(), present.end(), [](std::uint8_t byte) { return byte != 0; });
    }));
    EXPECT_FALSE(done_);
    b_->network->cancel_fetch(id_);
    EXPECT_TRUE(eventually([&] { return done_.load(); }));
}

TEST_F(Download, a_cancelled_one_gives_its_room_and_its_disk_back) {
    start(2U << 20, 20U << 20);
    fetch();
    ASSERT_TRUE(eventually([&] { return parts() != 0; }));
    EXPECT_GE(store_->usage().reserved, 12U << 20);
    const auto progress = b_->network->status().fetches;
    EXPECT_TRUE(progress.empty() || progress.at(id_).sources == 1U);
    EXPECT_EQ(store_->begin_upload(Hash32{}, 10U << 20).error().name, "content.quota_exceeded");
    b_->network->cancel_fetch(id_);
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "network.cancelled");
    EXPECT_TRUE(eventually([&] { return parts() == 0 && store_->usage().reserved == 0; }));
}

}  // namespace
}  // namespace quern::p2p
