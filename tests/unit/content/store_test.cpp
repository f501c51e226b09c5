#include "content/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "content/manifest.h"
#include "vm/tensor/tensor.h"

namespace quern::content {
namespace {

namespace stdfs = std::filesystem;

Bytes random_bytes(std::size_t size, std::uint64_t seed = 1) {
    Bytes bytes(size);
    SeededRng(seed).fill(bytes);
    return bytes;
}

std::string begin_part_of_nine_bytes(Store& store) {
    const auto part = store.begin_part({}, std::make_shared<Manifest>(Manifest{9, {Hash32{}}}));
    return part ? "ok" : std::string(part.error().name);
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
    // The definition spelled out: nothing, one tile, and a last leaf of three.
    EXPECT_EQ(crypto::content_id_of({}), crypto::sha256({Bytes(8), Hash32{}, Bytes{2}}));
    EXPECT_EQ(crypto::content_id_of(Bytes{'a', 'b', 'c'}),
              crypto::sha256({Bytes{0, 0, 0, 0, 0, 0, 0, 3}, crypto::sha256(Bytes{'a', 'b', 'c', 0}), Bytes{2}}));
    const BytesView more = BytesView(bytes).first(6 * 4096 + 1);
    std::vector<Hash32> tiles;
    for (std::size_t at = 0; at < more.size(); at += 4096)
        tiles.push_back(crypto::merkle_leaf(more.subspan(at, std::min<std::size_t>(4096, more.size() - at))));
    ASSERT_EQ(tiles.size(), 7U);
    const auto inner = [](const Hash32& l, const Hash32& r) { return crypto::sha256({l, r, Bytes{1}}); };
    const Hash32 first = inner(inner(tiles[0], tiles[1]), inner(tiles[2], tiles[3]));
    const Hash32 last = inner(inner(tiles[4], tiles[5]), tiles[6]);
    EXPECT_EQ(crypto::content_leaf(more.first(16384)), first);
    EXPECT_EQ(crypto::content_leaf(more.subspan(16384)), last);
    EXPECT_EQ(crypto::content_id_of(more),
              crypto::sha256({Bytes{0, 0, 0, 0, 0, 0, 0x60, 1}, inner(first, last), Bytes{2}}));
}

TEST(ContentId, leaves_are_the_tree_of_tiles_at_level_2) {
    for (std::size_t size = 1; size < 12 * 4096; size += 1365) {
        const Bytes bytes = random_bytes(size);
        crypto::ContentHasher hasher;
        hasher.update(bytes);
        const Hash32 id = hasher.finish();
        std::vector<Hash32> tiles;
        for (std::size_t at = 0; at < size; at += 4096)
            tiles.push_back(crypto::merkle_leaf(BytesView(bytes).subspan(at, std::min<std::size_t>(4096, size - at))));
        EXPECT_EQ(id, crypto::bytes_id(size, crypto::merkle_top(tiles)));
        EXPECT_EQ(hasher.leaves(), crypto::merkle_level(tiles, 2));
        EXPECT_EQ(crypto::content_id_of_leaves(hasher.leaves(), size), id);
    }
}

// A tensor's bytes are its tiles' in order: its root is what they are stored, fetched and checked under.
TEST_F(StoreTest, tiles_of_a_tensor_are_a_content_whose_id_is_its_root) {
    namespace tensor = vm::tensor;
    for (const tensor::Shape shape : {tensor::Shape{}, tensor::Shape{{1, 1, 1, 2049}}, tensor::Shape{{1, 1, 65, 33}},
                                      tensor::Shape{{3, 2, 40, 70}}}) {
        tensor::Tensor value{tensor::DType::f32, shape, std::vector<std::uint32_t>(shape.elements())};
        for (std::size_t i = 0; i < value.words.size(); ++i)
            value.words[i] = static_cast<std::uint32_t>(i * 2654435761);
        Bytes bytes;
        for (std::uint64_t tile = 0; tile < shape.tiles(); ++tile)
            append(bytes, tensor::tile_bytes(tensor::read_tile(value, tile)));
        const Hash32 root = tensor::tensor_root(value);
        auto upload = store_->begin_upload(root, bytes.size());
        ASSERT_TRUE(upload);
        ASSERT_TRUE((*upload)->append(bytes));
        ASSERT_TRUE((*upload)->finish()) << shape.to_string();
        EXPECT_TRUE(store_->verify(root));
        // Its leaves are the tensor's tree at level 2: a reader of one checks up to four tiles.
        EXPECT_EQ((*store_->manifest(root))->leaves, crypto::merkle_level(tensor::tile_hashes(value), 2));
        const std::uint64_t last = shape.tiles() - 1;
        EXPECT_EQ(*store_->read(root, last * tensor::kTileBytes, tensor::kTileBytes),
                  tensor::tile_bytes(tensor::read_tile(value, last)));
    }
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
        EXPECT_EQ(store_->usage().reserved, stored_bytes(1000));
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

TEST_F(StoreTest, what_an_earlier_format_left_is_removed_and_is_no_damage) {
    const auto id = store_->put(random_bytes(40'000));
    const auto old = store_->put(random_bytes(40'000, 2));
    ASSERT_TRUE(id && old);
    store_.reset();
    std::fstream(path_of(*old) + ".manifest", std::ios::in | std::ios::out | std::ios::binary).seekp(7).put('1');
    const std::string part = root_ + "/parts/" + to_hex(*id);
    std::ofstream(part) << "bytes";
    std::ofstream(part + ".manifest") << "QRNCONT1 and leaves";
    stdfs::remove(root_ + "/format");  // which they did not have
    open();
    EXPECT_FALSE(stdfs::exists(path_of(*old)));
    EXPECT_FALSE(stdfs::exists(path_of(*old) + ".manifest"));
    EXPECT_FALSE(stdfs::exists(part));
    EXPECT_EQ(store_->size(*old).error().name, "content.not_found");
    EXPECT_EQ(store_->usage().bytes, stored_bytes(40'000));
    EXPECT_TRUE(store_->verify(*id));
    EXPECT_TRUE(store_->put(random_bytes(40'000, 2)));
}

TEST_F(StoreTest, downloads_of_earlier_versions_go_and_nothing_else_does) {
    const std::string folder = root_ + "/downloads";
    remove_old_downloads(folder);
    stdfs::create_directories(folder);
    std::ofstream(folder + "/" + to_hex(Hash32{}) + ".part") << "bytes";
    std::ofstream(folder + "/letter.txt") << "somebody's";
    remove_old_downloads(folder);
    EXPECT_EQ(std::distance(stdfs::directory_iterator(folder), {}), 1);
    stdfs::remove(folder + "/letter.txt");
    remove_old_downloads(folder);
    EXPECT_FALSE(stdfs::exists(folder));
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
        if (entry.is_regular_file() && entry.path() != root_ + "/format") on_disk += blocks_of(entry.path());
    EXPECT_LE(on_disk, kQuota);
    EXPECT_EQ(store_->usage().bytes, taken * stored_bytes(9));
    open(kQuota);
    EXPECT_EQ(store_->usage().bytes, taken * stored_bytes(9));
    EXPECT_EQ(begin_part_of_nine_bytes(*store_), "content.quota_exceeded");
    ASSERT_TRUE(store_->remove(store_->list().front()));
    EXPECT_TRUE(store_->put(random_bytes(9)));
}

TEST_F(StoreTest, holds_no_more_contents_than_it_may_however_small) {
    open(kDefaultQuotaBytes, kDefaultMaxItemBytes, 3);
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(store_->put(random_bytes(9, i)));
    EXPECT_EQ(store_->put(random_bytes(9, 7)).error().name, "content.quota_exceeded");
    EXPECT_EQ(begin_part_of_nine_bytes(*store_), "content.quota_exceeded");
    ASSERT_TRUE(store_->remove(store_->list().front()));
    EXPECT_TRUE(store_->put(random_bytes(9, 7)));
}

TEST_F(StoreTest, an_upload_has_its_room_from_its_announcement_on) {
    open(200'000);
    auto upload = store_->begin_upload(crypto::content_id_of(random_bytes(90'000)), 90'000);
    ASSERT_TRUE(upload);
    EXPECT_EQ(store_->usage().reserved, stored_bytes(90'000));
    EXPECT_EQ(store_->usage().unwritten, stored_bytes(90'000));
    EXPECT_EQ(store_->put(random_bytes(110'000, 2)).error().name, "content.quota_exceeded");
    ASSERT_TRUE(store_->put(random_bytes(80'000, 2)));
    ASSERT_TRUE((*upload)->append(random_bytes(90'000)));
    ASSERT_TRUE((*upload)->finish());
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_EQ(store_->usage().unwritten, 0U);
}

// Or four strangers who send nothing would keep all others out.
TEST_F(StoreTest, announcements_hold_half_of_the_quota_at_most) {
    open(100'000);
    std::vector<std::unique_ptr<Store::Upload>> idle;
    for (int i = 0; i < 4; ++i) {
        auto upload = store_->begin_upload(Hash32{}, i == 0 ? 40'000 : 90'000);
        ASSERT_EQ(upload.has_value(), i == 0) << "there is no room any more";
        if (upload) idle.push_back(std::move(*upload));
    }
    for (int i = 0; i < 4; ++i) idle.push_back(std::move(*store_->begin_upload(Hash32{}, 40'000)));
    EXPECT_EQ(store_->usage().reserved, stored_bytes(40'000));
    ASSERT_TRUE(store_->put(random_bytes(40'000)));
    // Now there is no room for what the others announced: the first bytes beyond it are refused.
    ASSERT_TRUE(idle[1]->append(random_bytes(4'000)));
    EXPECT_EQ(idle[1]->append(random_bytes(30'000)).error().name, "content.quota_exceeded");
    ASSERT_TRUE(idle[0]->append(random_bytes(40'000))) << "this one had its room";
    idle.clear();
    EXPECT_EQ(store_->usage().reserved, 0U);
    EXPECT_EQ(store_->usage().unwritten, 0U);
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
