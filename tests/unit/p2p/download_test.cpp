#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
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
        holder_ = *content::Store::open({root_ + "/holder", 1ULL << 30, 1ULL << 30});
        SeededRng rng(3);
        rng.fill(data_);
        id_ = *holder_->put(data_);
    }
    void TearDown() override {
        b_.reset();
        a_.reset();
        stdfs::remove_all(root_);
    }
    // A holder that sends at most so much, and a node whose store takes `quota`.
    void start(std::uint64_t bytes_per_second, std::uint64_t quota, std::uint64_t max_item = 1ULL << 30,
               std::size_t check_memory = 96U << 20) {
        store_.reset();
        store_ = *content::Store::open({root_ + "/store", quota, max_item});
        start_holder(bytes_per_second);
        b_ = std::make_unique<TestNode>(2, std::vector{a_->as_peer()}, [&](NetworkOptions& options) {
            options.contents = store_.get();
            options.check_memory = check_memory;
        });
        ASSERT_TRUE(eventually([&] { return a_->has_peers(1) && b_->has_peers(1); }));
    }
    void start_holder(std::uint64_t bytes_per_second) {
        a_.reset();
        a_ = std::make_unique<TestNode>(1, std::vector<StaticPeer>{}, [&](NetworkOptions& options) {
            options.contents = holder_.get();
            options.bulk_bytes_per_second = bytes_per_second;
        });
    }
    void fetch() {
        done_ = false;
        b_->network->fetch_content(id_, [this](const Status& status) {
            result_ = status ? "ok" : std::string(status.error().name);
            done_ = true;
        });
    }
    [[nodiscard]] std::size_t parts() const {
        return static_cast<std::size_t>(std::distance(stdfs::directory_iterator(root_ + "/store/parts"), {}));
    }
    [[nodiscard]] std::string part_path() const { return root_ + "/store/parts/" + to_hex(id_); }
    [[nodiscard]] bool has_chunk(std::size_t chunk) const {
        Bytes bytes(messages::kChunkBytes);
        std::ifstream file(part_path(), std::ios::binary);
        file.seekg(static_cast<std::streamoff>(chunk * messages::kChunkBytes));
        file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return file && equal(bytes, BytesView(data_).subspan(chunk * messages::kChunkBytes, messages::kChunkBytes));
    }
    // Chunks that are in the file.
    [[nodiscard]] std::size_t written() const {
        std::size_t count = 0;
        for (std::size_t chunk = 0; chunk < 12; ++chunk) count += has_chunk(chunk) ? 1 : 0;
        return count;
    }
    // By this holder.
    [[nodiscard]] std::uint64_t sent() const {
        std::this_thread::sleep_for(std::chrono::milliseconds(600));  // its status is as new as that
        const auto status = a_->network->status();
        return status.peers.empty() ? 0 : status.peers[0].bytes_out;
    }

    Bytes data_ = Bytes(12U << 20);
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

// Whatever ended it, and in a new process.
TEST_F(Download, goes_on_after_a_restart_with_the_chunks_that_are_here_and_good) {
    start(4U << 20, 1ULL << 30);
    fetch();
    ASSERT_TRUE(eventually([&] { return written() >= 6; }));
    b_.reset();
    ASSERT_TRUE(done_);
    EXPECT_EQ(result_, "network.stopped");
    const std::size_t left = written();
    ASSERT_LT(left, 12U);
    // A crash may leave a chunk that was only half written.
    std::size_t damaged = 0;
    while (!has_chunk(damaged)) ++damaged;
    std::fstream(part_path(), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(damaged * messages::kChunkBytes + 77))
        .put('!');
    start(0, 1ULL << 30);
    EXPECT_GE(store_->usage().reserved, 12U << 20);
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
    EXPECT_TRUE(eventually([&] { return parts() == 0 && store_->usage().reserved == 0; }));
    // The rest came, and not much else: no chunk twice, and no leaf hashes, which were kept.
    EXPECT_LT(sent(), (12 - left + 1 + 1) << 20);
    EXPECT_GT(sent(), (12 - left) << 20);
}

TEST_F(Download, goes_on_when_nobody_had_it_for_a_while) {
    start(4U << 20, 1ULL << 30);
    fetch();
    ASSERT_TRUE(eventually([&] { return written() >= 4; }));
    a_.reset();
    ASSERT_TRUE(eventually([&] { return b_->has_peers(0); }));
    EXPECT_FALSE(done_);
    b_->network->cancel_fetch(id_);
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    const std::size_t left = written();
    start_holder(0);
    b_->network->add_static_peer(a_->as_peer());
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_LT(sent(), (12 - left + 1) << 20);
}

TEST_F(Download, goes_on_after_the_disk_was_full) {
    start(4U << 20, 1ULL << 30);
    fetch();
    ASSERT_TRUE(eventually([&] { return written() >= 6; }));
    {
        // As good as a full disk: no file may be written beyond this.
        struct rlimit limit {};
        ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
        const auto before = std::exchange(limit.rlim_cur, 100);
        const auto handler = ::signal(SIGXFSZ, SIG_IGN);
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
        EXPECT_TRUE(eventually([&] { return done_.load(); }));
        limit.rlim_cur = before;
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
        ::signal(SIGXFSZ, handler);
    }
    EXPECT_EQ(result_, "content.disk_full");
    const std::size_t left = written();
    const std::uint64_t before = sent();
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
    EXPECT_LT(sent() - before, (12 - left + 4) << 20);   // with what was under way
    EXPECT_EQ(b_->network->status().peers[0].score, 0);  // it is nobody's fault but this node's
}

TEST_F(Download, what_came_another_way_meanwhile_is_not_downloaded_to_its_end) {
    start(1U << 20, 1ULL << 30);  // twelve seconds of sending
    fetch();
    ASSERT_TRUE(eventually([&] { return parts() != 0; }));
    ASSERT_TRUE(store_->put(data_));  // as a worker does with what it has itself
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_LT(sent(), 8U << 20);
    EXPECT_TRUE(eventually([&] { return parts() == 0 && store_->usage().reserved == 0; }));
    const std::uint64_t before = sent();
    fetch();  // and what is here is not fetched at all
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_LT(sent(), before + (2U << 20));
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
        if (!third.say(messages::Type::find_content, encode(messages::FindContent{{id_, id_}}), ++stream)) return {};
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
    // (Of a content named twice it speaks once: the bitmap may be long.) So are its leaf hashes.
    ASSERT_TRUE(third.say(messages::Type::get_leaf_hashes, encode(messages::GetLeaves{id_, 3, 2}), ++stream));
    const auto hashes = third.next_message(messages::Type::leaf_hashes);
    ASSERT_TRUE(hashes);
    EXPECT_EQ(messages::decode_leaves(hashes->payload)->bytes.size(), 64U);
    b_->network->cancel_fetch(id_);
    EXPECT_TRUE(eventually([&] { return done_.load(); }));
}

TEST_F(Download, a_chunk_that_went_bad_on_the_disk_meanwhile_comes_again) {
    start(3U << 20, 1ULL << 30);  // four seconds of sending
    fetch();
    testing::RawPeer third(b_->network->port());
    ASSERT_TRUE(third.shake_hands(testing::key_of(60), 7878, Hash32{{1, 2, 3}}) && third.say_hello());
    ASSERT_TRUE(eventually([&] { return written() >= 2; }));
    std::uint64_t damaged = 0;
    while (!has_chunk(damaged)) ++damaged;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it counts as here
    std::fstream(part_path(), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(damaged * messages::kChunkBytes + 77))
        .put('!');
    ASSERT_TRUE(third.say(messages::Type::get_leaves, encode(messages::GetLeaves{id_, 64 * damaged, 64}), 1));
    EXPECT_TRUE(third.next_message(messages::Type::refusal)) << "what is bad is passed on to nobody";
    EXPECT_FALSE(done_);
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
}

TEST_F(Download, what_is_damaged_here_is_fetched_again) {
    start(0, 1ULL << 30);
    ASSERT_TRUE(store_->put(data_));
    std::fstream(root_ + "/store/" + to_hex(id_).substr(0, 2) + "/" + to_hex(id_),
                 std::ios::in | std::ios::out | std::ios::binary)
        .seekp(77)
        .put('!');
    EXPECT_EQ(store_->read(id_, 0, 100).error().name, "content.corrupt");
    fetch();
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
    EXPECT_EQ(store_->usage().bytes, content::stored_bytes(data_.size()));
}

TEST_F(Download, a_cancelled_one_gives_its_room_to_who_wants_it) {
    start(2U << 20, 20U << 20);
    fetch();
    ASSERT_TRUE(eventually([&] { return written() >= 1; }));
    EXPECT_GE(store_->usage().reserved, 12U << 20);
    const auto progress = b_->network->status().fetches;
    EXPECT_TRUE(progress.empty() || progress.at(id_).sources == 1U);
    EXPECT_EQ(store_->begin_upload(Hash32{}, 10U << 20).error().name, "content.quota_exceeded");
    b_->network->cancel_fetch(id_);
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "network.cancelled");
    EXPECT_EQ(parts(), 2U);
    EXPECT_TRUE(eventually([&] { return store_->begin_upload(Hash32{}, 10U << 20).has_value(); }));
    ASSERT_TRUE(store_->put(Bytes(10U << 20)));
    EXPECT_EQ(parts(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(Download, of_a_content_that_is_too_large_for_this_node_nothing_is_asked) {
    start(0, 1ULL << 30, 10U << 20);
    const std::uint64_t before = sent();
    fetch();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_FALSE(done_);
    EXPECT_EQ(b_->network->status().fetches.at(id_).sources, 0U);
    EXPECT_LT(sent(), before + (64U << 10));
}

// Keeps the content threads of a node busy until it is destroyed: they open two parts whose manifests are pipes.
class Blocked {
public:
    Blocked(content::Store& store, const std::string& parts, TestNode& node) {
        for (std::uint8_t i = 1; i <= 2; ++i) {
            const Bytes bytes(9, i);
            crypto::ContentHasher hasher;
            hasher.update(bytes);
            const Hash32 id = hasher.finish();
            const auto manifest = std::make_shared<content::Manifest>(content::Manifest{9, hasher.leaves()});
            EXPECT_TRUE((*store.begin_part(id, manifest))->write(0, bytes));
            paths_.push_back(parts + "/" + to_hex(id) + ".manifest");
            stdfs::remove(paths_.back());
            EXPECT_EQ(::mkfifo(paths_.back().c_str(), 0600), 0);
            node.network->fetch_content(id, [](const Status&) {});
        }
    }
    ~Blocked() {
        for (const auto& path : paths_) std::ofstream(path, std::ios::binary) << "not a manifest";
    }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

private:
    std::vector<std::string> paths_;
};

TEST_F(Download, no_more_is_asked_for_than_can_be_hashed_and_written) {
    start(4U << 20, 1ULL << 30, 1ULL << 30, 12U << 20);
    fetch();
    ASSERT_TRUE(eventually([&] { return written() >= 1; }));
    {
        const Blocked blocked(*store_, root_ + "/store/parts", *b_);
        std::this_thread::sleep_for(std::chrono::seconds(4));  // all of it could have come
        // A third of what may wait, and what one source had been asked for.
        EXPECT_LE(b_->network->status().waiting_chunks, 8U);
        EXPECT_FALSE(done_);
    }
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
}

TEST_F(Download, what_comes_beyond_what_may_wait_is_dropped_and_comes_again) {
    start(1U << 20, 1ULL << 30, 1ULL << 30, 3U << 20);
    std::vector<std::unique_ptr<TestNode>> holders;
    for (std::uint64_t i = 0; i < 3; ++i) {
        holders.push_back(std::make_unique<TestNode>(10 + i, std::vector<StaticPeer>{}, [&](NetworkOptions& options) {
            options.contents = holder_.get();
            options.bulk_bytes_per_second = 1U << 20;
        }));
        b_->network->add_static_peer(holders.back()->as_peer());
    }
    ASSERT_TRUE(eventually([&] { return b_->has_peers(4); }));
    fetch();
    ASSERT_TRUE(eventually([&] { return parts() == 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    {
        // Two chunks have been asked of each of four.
        const Blocked blocked(*store_, root_ + "/store/parts", *b_);
        std::this_thread::sleep_for(std::chrono::seconds(3));
        EXPECT_EQ(b_->network->status().waiting_chunks, 3U);
    }
    ASSERT_TRUE(eventually([&] { return done_.load(); }));
    EXPECT_EQ(result_, "ok");
    EXPECT_TRUE(store_->verify(id_));
}

// Hashing a chunk takes as long as all else that the network thread does with it; a vote does not wait for it.
TEST_F(Download, chunks_are_hashed_and_written_by_other_threads) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "a sanitizer makes all slower but the hash";
#endif
    start(0, 1ULL << 30);
    struct Cpu {
        clockid_t clock{};
        std::atomic<bool> known{false};
        void learn(TestNode& node) {
            node.handler.on_consensus = [this](const Bytes20&, const Bytes&) {
                EXPECT_EQ(::pthread_getcpuclockid(::pthread_self(), &clock), 0);
                known = true;
            };
        }
        [[nodiscard]] double ms() const {
            struct timespec time {};
            EXPECT_EQ(::clock_gettime(clock, &time), 0);
            return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
        }
    };
    Cpu sender;
    Cpu receiver;
    sender.learn(*a_);
    receiver.learn(*b_);
    a_->network->send_consensus_to(b_->me, Bytes{1});
    b_->network->send_consensus_to(a_->me, Bytes{1});
    ASSERT_TRUE(eventually([&] { return sender.known && receiver.known; }));
    double hashing = 1e9;
    double more = 1e9;  // that the receiver's thread has to do than the sender's, which never hashed
    for (int i = 0; i < 4; ++i) {
        const std::clock_t begun = std::clock();
        EXPECT_EQ(crypto::content_id_of(data_), id_);
        hashing = std::min(hashing, static_cast<double>(std::clock() - begun) * 1e3 / CLOCKS_PER_SEC);
        const double before = receiver.ms() - sender.ms();
        fetch();
        ASSERT_TRUE(eventually([&] { return done_.load(); }));
        EXPECT_EQ(result_, "ok");
        more = std::min(more, receiver.ms() - sender.ms() - before);
        ASSERT_TRUE(store_->remove(id_));
    }
    RecordProperty("more_to_hashing", std::to_string(more / hashing));
    EXPECT_LT(more, hashing / 4);
}

}  // namespace
}  // namespace quern::p2p
