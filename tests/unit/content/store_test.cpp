#include "content/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "content/manifest.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;

Bytes random_bytes(std::size_t size, std::uint64_t seed = 1) {
    Bytes bytes(size);
    SeededRng(seed).fill(bytes);
    return bytes;
}

class StoreTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "quern-content-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        open();
    }
    void TearDown() override {
        store_.reset();
        stdfs::remove_all(root_);
    }
    void open(std::uint64_t quota = kDefaultQuotaBytes, std::uint64_t max_item = kDefaultMaxItemBytes,
              std::size_t max_items = kDefaultMaxItems) {
        store_.reset();
        auto opened = Store::open({root_, quota, max_item, max_items});
        ASSERT_TRUE(opened) << opened.error().to_string();
        store_ = std::move(*opened);
    }
    [[nodiscard]] std::string path_of(const Hash32& id) const {
        return root_ + "/" + to_hex(id).substr(0, 2) + "/" + to_hex(id);
    }
    [[nodiscard]] std::size_t temporary_files() const {
        return static_cast<std::size_t>(std::distance(stdfs::directory_iterator(root_ + "/tmp"), {}));
    }
    std::string root_;
    std::unique_ptr<Store> store_;
};

void flip_byte(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
}

TEST(ContentId, depends_on_size_and_every_byte_but_not_on_pieces) {
    const Bytes bytes = random_bytes(3 * crypto::kContentLeafBytes + 17);
    const Hash32 id = crypto::content_id_of(bytes);
    for (const std::size_t piece : {std::size_t{1000}, crypto::kContentLeafBytes, crypto::kContentLeafBytes + 1}) {
        crypto::ContentHasher hasher;
        for (std::size_t at = 0; at < bytes.size(); at += piece)
            hasher.update(BytesView(bytes).subspan(at, std::min(piece, bytes.size() - at)));
        EXPECT_EQ(hasher.finish(), id);
        EXPECT_EQ(hasher.leaves().size(), 4U);
    }
    Bytes other = bytes;
    other.back() ^= 1;
    EXPECT_NE(crypto::content_id_of(other), id);
    // One leaf: the definition spelled out.
    const Bytes abc{'a', 'b', 'c'};
    const Bytes size{0, 0, 0, 0, 0, 0, 0, 3};
    EXPECT_EQ(crypto::content_id_of(abc),
              crypto::merkle_seal(crypto::MerkleTag::content, 1, size, crypto::merkle_leaf(abc)));
}

TEST_F(StoreTest, returns_what_was_put_by_ranges) {
    const Bytes bytes = random_bytes(2 * crypto::kContentLeafBytes + 5);
    const auto id = store_->put(bytes);
    ASSERT_TRUE(id);
    EXPECT_EQ(*store_->size(*id), bytes.size());
    EXPECT_EQ(*store_->read(*id, 0, bytes.size() + 100), bytes);
    const auto middle = store_->read(*id, crypto::kContentLeafBytes - 1, 3);
    ASSERT_TRUE(middle);
    EXPECT_TRUE(equal(*middle, BytesView(bytes).subspan(crypto::kContentLeafBytes - 1, 3)));
    EXPECT_TRUE(store_->read(*id, bytes.size(), 1)->empty());
    EXPECT_TRUE(store_->read(*id, ~std::uint64_t{0}, ~std::uint64_t{0})->empty());
    EXPECT_EQ(store_->read(*id, 1, ~std::uint64_t{0})->size(), bytes.size() - 1);
}

TEST_F(StoreTest, holds_an_empty_content) {
    const auto id = store_->put({});
    ASSERT_TRUE(id);
    EXPECT_EQ(*store_->size(*id), 0U);
    EXPECT_TRUE(store_->read(*id, 0, 1)->empty());
    open();
    EXPECT_EQ(*store_->size(*id), 0U);
}

TEST_F(StoreTest, names_what_is_unknown) {
    EXPECT_EQ(store_->size(Hash32{}).error().name, "content.not_found");
    EXPECT_EQ(store_->read(Hash32{}, 0, 1).error().name, "content.not_found");
    EXPECT_EQ(store_->remove(Hash32{}).error().name, "content.not_found");
}

TEST_F(StoreTest, keeps_contents_and_usage_across_restarts) {
    const Bytes bytes = random_bytes(100'000);
    const auto id = store_->put(bytes);
    ASSERT_TRUE(id);
    const auto before = store_->usage();
    open();
    EXPECT_EQ(store_->usage().bytes, before.bytes);
    EXPECT_EQ(store_->usage().items, 1U);
    EXPECT_EQ(*store_->read(*id, 0, bytes.size()), bytes);
}

TEST_F(StoreTest, refuses_bytes_of_another_id) {
    const Bytes bytes = random_bytes(1000);
    const auto upload = store_->begin_upload(Hash32{}, bytes.size());
    ASSERT_TRUE(upload);
    ASSERT_TRUE((*upload)->append(bytes));
    EXPECT_EQ((*upload)->finish().error().name, "content.id_mismatch");
    EXPECT_EQ(store_->size(Hash32{}).error().name, "content.not_found");
}

TEST_F(StoreTest, refuses_more_or_fewer_bytes_than_announced) {
    const Bytes bytes = random_bytes(1000);
    const Hash32 id = crypto::content_id_of(bytes);
    {
        const auto upload = store_->begin_upload(id, 999);
        ASSERT_TRUE(upload);
        EXPECT_EQ((*upload)->append(bytes).error().name, "content.too_large");
        EXPECT_FALSE((*upload)->finish());
    }
    {
        const auto upload = store_->begin_upload(id, 1001);
        ASSERT_TRUE(upload);
        ASSERT_TRUE((*upload)->append(bytes));
        EXPECT_EQ((*upload)->finish().error().name, "content.incomplete");
    }
    EXPECT_EQ(temporary_files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(StoreTest, dropped_upload_leaves_nothing) {
    {
        const auto upload = store_->begin_upload(Hash32{}, 1000);
        ASSERT_TRUE(upload);
        ASSERT_TRUE((*upload)->append(random_bytes(500)));
        EXPECT_EQ(temporary_files(), 1U);
        EXPECT_EQ(store_->usage().reserved, 500U);
    }
    EXPECT_EQ(temporary_files(), 0U);
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(StoreTest, start_removes_aborted_uploads_and_half_publications) {
    const auto id = store_->put(random_bytes(10));
    ASSERT_TRUE(id);
    store_.reset();
    std::ofstream(root_ + "/tmp/left.0") << "x";
    stdfs::remove(path_of(*id));  // the manifest alone, as after a crash between the two renames
    open();
    EXPECT_EQ(temporary_files(), 0U);
    EXPECT_FALSE(stdfs::exists(path_of(*id) + ".manifest"));
    EXPECT_EQ(store_->usage().items, 0U);
    EXPECT_EQ(store_->usage().bytes, 0U);
}

TEST_F(StoreTest, detects_damage_in_the_leaf_that_is_read_and_heals_by_a_new_put) {
    const Bytes bytes = random_bytes(3 * crypto::kContentLeafBytes);
    const auto id = store_->put(bytes);
    ASSERT_TRUE(id);
    flip_byte(path_of(*id), crypto::kContentLeafBytes + 7);
    EXPECT_TRUE(store_->read(*id, 0, 10));
    EXPECT_EQ(store_->read(*id, crypto::kContentLeafBytes, 1).error().name, "content.corrupt");
    EXPECT_EQ(store_->verify(*id).error().name, "content.corrupt");
    ASSERT_TRUE(store_->put(bytes));
    EXPECT_TRUE(store_->verify(*id));
    EXPECT_EQ(store_->usage().items, 1U);
}

TEST_F(StoreTest, detects_a_damaged_manifest_and_a_truncated_file) {
    const auto id = store_->put(random_bytes(40'000));
    const auto other = store_->put(random_bytes(40'000, 2));
    ASSERT_TRUE(id && other);
    flip_byte(path_of(*id) + ".manifest", 20);
    stdfs::resize_file(path_of(*other), 20'000);
    open();
    EXPECT_EQ(store_->read(*id, 0, 1).error().name, "content.corrupt");
    EXPECT_EQ(store_->read(*other, 30'000, 1).error().name, "content.corrupt");
    EXPECT_EQ(store_->verify(*other).error().name, "content.corrupt");
}

TEST_F(StoreTest, quota_counts_what_has_arrived_and_is_given_back) {
    open(110'000);
    const Bytes bytes = random_bytes(60'000);
    const auto id = store_->put(bytes);
    ASSERT_TRUE(id);
    EXPECT_EQ(store_->begin_upload(Hash32{}, 60'000).error().name, "content.quota_exceeded");
    {
        const auto upload = store_->begin_upload(Hash32{}, 30'000);
        ASSERT_TRUE(upload);
        ASSERT_TRUE((*upload)->append(random_bytes(30'000)));
        EXPECT_EQ(store_->begin_upload(Hash32{}, 30'000).error().name, "content.quota_exceeded");
    }
    ASSERT_TRUE(store_->remove(*id));
    EXPECT_EQ(store_->usage().bytes, 0U);
    EXPECT_TRUE(store_->begin_upload(Hash32{}, 60'000));
    EXPECT_EQ(store_->begin_upload(Hash32{}, ~std::uint64_t{0}).error().name, "content.too_large");
}

TEST_F(StoreTest, many_small_contents_cost_the_quota_what_they_cost_the_disk) {
    constexpr std::uint64_t kQuota = 100'000;
    open(kQuota);
    std::uint64_t taken = 0;
    Expected<Hash32> last = Hash32{};
    for (std::uint64_t i = 0; i < 100 && last; ++i) {
        last = store_->put(random_bytes(9, 1000 + i));
        taken += last ? 1 : 0;
    }
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().name, "content.quota_exceeded");
    EXPECT_EQ(taken, 12U);  // two files of a block each
    const auto blocks_of = [](const stdfs::path& path) {
        struct stat status {};
        return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
    };
    std::uint64_t on_disk = 0;
    for (const auto& entry : stdfs::recursive_directory_iterator(root_))
        if (entry.is_regular_file()) on_disk += blocks_of(entry.path());
    EXPECT_LE(on_disk, kQuota);
    EXPECT_EQ(store_->usage().bytes, taken * stored_bytes(9));
    open(kQuota);
    EXPECT_EQ(store_->usage().bytes, taken * stored_bytes(9));
    EXPECT_EQ(store_->reserve(9).error().name, "content.quota_exceeded");
    ASSERT_TRUE(store_->remove(store_->list().front()));
    EXPECT_TRUE(store_->put(random_bytes(9)));
}

TEST_F(StoreTest, holds_no_more_contents_than_it_may_however_small) {
    open(kDefaultQuotaBytes, kDefaultMaxItemBytes, 3);
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(store_->put(random_bytes(9, i)));
    EXPECT_EQ(store_->put(random_bytes(9, 7)).error().name, "content.quota_exceeded");
    EXPECT_EQ(store_->reserve(9).error().name, "content.quota_exceeded");
    ASSERT_TRUE(store_->remove(store_->list().front()));
    EXPECT_TRUE(store_->put(random_bytes(9, 7)));
}

TEST_F(StoreTest, announcements_hold_no_room) {
    open(100'000);
    std::vector<std::unique_ptr<Store::Upload>> idle;
    for (int i = 0; i < 4; ++i) {
        auto upload = store_->begin_upload(Hash32{}, 90'000);
        ASSERT_TRUE(upload);
        idle.push_back(std::move(*upload));
    }
    EXPECT_EQ(store_->usage().reserved, 0U);
    ASSERT_TRUE(store_->put(random_bytes(60'000)));
    // Now there is no room for what they announced: the first bytes beyond it are refused.
    ASSERT_TRUE(idle[0]->append(random_bytes(30'000)));
    EXPECT_EQ(idle[0]->append(random_bytes(30'000)).error().name, "content.quota_exceeded");
    idle.clear();
    EXPECT_EQ(store_->usage().reserved, 0U);
}

TEST_F(StoreTest, a_download_has_its_room_before_it_begins_and_is_taken_over_when_it_is_whole) {
    open(100'000);
    const Bytes bytes = random_bytes(60'000);
    const Hash32 id = crypto::content_id_of(bytes);
    const std::string part = root_ + "/download.part";
    {
        const auto reserved = store_->reserve(60'000);
        ASSERT_TRUE(reserved);
        EXPECT_EQ(store_->reserve(60'000).error().name, "content.quota_exceeded");
        EXPECT_EQ(store_->put(random_bytes(60'000, 2)).error().name, "content.quota_exceeded");
    }
    EXPECT_EQ(store_->reserve(200'000).error().name, "content.quota_exceeded");
    const auto adopt = [&](const Bytes& written) {
        std::ofstream(part, std::ios::binary)
            .write(reinterpret_cast<const char*>(written.data()), static_cast<std::streamsize>(written.size()));
        auto room = store_->reserve(60'000);
        EXPECT_TRUE(room);
        return store_->adopt(id, 60'000, part, std::move(*room));
    };
    EXPECT_EQ(adopt(random_bytes(60'000, 3)).error().name, "content.id_mismatch");
    EXPECT_EQ(adopt(random_bytes(50'000)).error().name, "content.incomplete");
    EXPECT_EQ(store_->usage().reserved, 0U);
    ASSERT_TRUE(adopt(bytes));
    EXPECT_FALSE(stdfs::exists(part));
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_TRUE(store_->verify(id));
    open(100'000);
    EXPECT_EQ(*store_->size(id), 60'000U);
}

TEST_F(StoreTest, limits_the_number_of_open_uploads_and_the_item_size) {
    open(kDefaultQuotaBytes, 1000);
    EXPECT_EQ(store_->begin_upload(Hash32{}, 1001).error().name, "content.too_large");
    std::vector<std::unique_ptr<Store::Upload>> open_uploads;
    for (std::size_t i = 0; i < kMaxUploads; ++i) open_uploads.push_back(*store_->begin_upload(Hash32{}, 1));
    EXPECT_EQ(store_->begin_upload(Hash32{}, 1).error().name, "content.too_many_uploads");
    open_uploads.pop_back();
    EXPECT_TRUE(store_->begin_upload(Hash32{}, 1));
}

// However uploads end (published, refused, dropped at any point), the quota knows exactly what is there.
TEST_F(StoreTest, uploads_that_end_anyhow_leave_the_quota_exact) {
    constexpr std::uint64_t kQuota = 400'000;
    constexpr std::uint64_t kSeed = 20;
    SCOPED_TRACE(kSeed);
    open(kQuota);
    SeededRng rng(kSeed);
    struct One {
        Bytes content;
        std::size_t sent = 0;
        std::unique_ptr<Store::Upload> upload;
    };
    std::vector<One> uploads;
    const auto give_up = [&](std::size_t at) { uploads.erase(uploads.begin() + static_cast<std::ptrdiff_t>(at)); };
    std::size_t dropped = 0;
    std::size_t finished = 0;
    for (int step = 0; step < 500; ++step) {
        const std::size_t at = uploads.empty() ? 0 : rng.below(uploads.size());
        switch (rng.below(8)) {
            case 0:
            case 1: {
                const Bytes content = random_bytes(rng.below(60'000), rng.below(9));
                if (auto upload = store_->begin_upload(crypto::content_id_of(content), content.size()))
                    uploads.push_back({content, 0, std::move(*upload)});
                break;
            }
            case 2:
                if (uploads.empty()) break;
                give_up(at);
                ++dropped;
                break;
            case 3:
                for (const Hash32& id : store_->list()) {
                    EXPECT_TRUE(store_->remove(id));
                    break;
                }
                break;
            default: {
                if (uploads.empty()) break;
                One& one = uploads[at];
                const std::size_t piece = std::min<std::uint64_t>(rng.below(40'000), one.content.size() - one.sent);
                if (!one.upload->append(BytesView(one.content).subspan(one.sent, piece))) {
                    give_up(at);
                } else if ((one.sent += piece) == one.content.size()) {
                    finished += one.upload->finish() ? 1 : 0;
                    give_up(at);
                }
            }
        }
        std::uint64_t sent = 0;
        for (const One& one : uploads) sent += one.sent;
        std::uint64_t stored = 0;
        for (const Hash32& id : store_->list()) stored += stored_bytes(*store_->size(id));
        ASSERT_EQ(store_->usage().reserved, sent) << "step " << step;
        ASSERT_EQ(store_->usage().bytes, stored) << "step " << step;
        ASSERT_LE(sent + stored, kQuota) << "step " << step;
        ASSERT_EQ(temporary_files(), uploads.size()) << "step " << step;
    }
    EXPECT_GT(dropped, 30U);
    EXPECT_GT(finished, 30U);
    uploads.clear();
    EXPECT_EQ(store_->usage().reserved, 0U);
    std::vector<std::unique_ptr<Store::Upload>> all;
    for (std::size_t i = 0; i < kMaxUploads; ++i) {
        auto upload = store_->begin_upload(Hash32{}, 1);
        ASSERT_TRUE(upload) << "a place was lost: " << i;
        all.push_back(std::move(*upload));
    }
}

TEST_F(StoreTest, full_disk_is_a_named_error_and_harms_nothing) {
    const auto kept = store_->put(random_bytes(1000));
    ASSERT_TRUE(kept);
    // A file size limit stands for a full disk: writes fail half way.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 50'000;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Bytes bytes = random_bytes(100'000, 3);
    const auto result = store_->put(bytes);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().name, "content.disk_full");
    EXPECT_EQ(temporary_files(), 0U);
    EXPECT_TRUE(store_->verify(*kept));
    EXPECT_TRUE(store_->put(bytes));
}

TEST_F(StoreTest, takes_the_same_content_from_several_threads) {
    const Bytes bytes = random_bytes(200'000);
    std::vector<std::thread> threads;
    std::atomic<int> good = 0;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            if (store_->put(bytes) && store_->read(crypto::content_id_of(bytes), 0, 10)) ++good;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(good, 4);
    EXPECT_EQ(store_->usage().items, 1U);
    EXPECT_EQ(store_->usage().bytes, stored_bytes(bytes.size()));
    EXPECT_EQ(temporary_files(), 0U);
}

TEST(Manifest, decoding_refuses_other_lengths_and_ids) {
    const Bytes content = random_bytes(20'000);
    crypto::ContentHasher hasher;
    hasher.update(content);
    const Hash32 id = hasher.finish();
    const Manifest manifest{content.size(), hasher.leaves()};
    Bytes bytes = encode(manifest);
    EXPECT_EQ(bytes.size(), manifest_bytes(content.size()));
    EXPECT_EQ(*decode_manifest(bytes, id), manifest);
    EXPECT_FALSE(decode_manifest(bytes, Hash32{}));
    EXPECT_FALSE(decode_manifest(BytesView(bytes).first(15), id));
    EXPECT_FALSE(decode_manifest(BytesView(bytes).first(bytes.size() - 32), id));
    bytes[8] = 0xff;  // claims an enormous size
    EXPECT_FALSE(decode_manifest(bytes, id));
}

}  // namespace
}  // namespace quern::content
