// The same behaviour from every Store, then what each adds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/big_endian.h"
#include "chain/store/block_store.h"
#include "chain/store/fault_kv.h"
#include "chain/store/leveldb_kv.h"
#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"

namespace quern::chain::store {
namespace {

Bytes text(std::string_view value) { return to_bytes(as_bytes(value)); }

std::vector<std::string> keys_of(const Reader& reader, std::string_view prefix, std::string_view start = {}) {
    std::vector<std::string> keys;
    EXPECT_TRUE(reader
                    .for_each(as_bytes(prefix), as_bytes(start),
                              [&](BytesView key, BytesView) {
                                  keys.emplace_back(as_text(key));
                                  return true;
                              })
                    .has_value());
    return keys;
}

class Folder {
public:
    Folder() {
        std::string pattern = testing::TempDir() + "quern-store-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    [[nodiscard]] std::string db() const { return path_ + "/db"; }

private:
    std::string path_;
};

enum class Which { memory, leveldb, fault };

class AnyStore : public testing::TestWithParam<Which> {
protected:
    void SetUp() override {
        if (GetParam() == Which::leveldb) {
            auto opened = LevelDbStore::open(folder_.db());
            ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
            store_ = std::move(*opened);
        } else if (GetParam() == Which::memory) {
            store_ = std::make_unique<MemoryStore>();
        } else {
            store_ = std::make_unique<FaultStore>(durable_);
        }
    }
    void put(std::string_view key, std::string_view value) {
        WriteBatch batch;
        batch.put(text(key), as_bytes(value));
        ASSERT_TRUE(store_->write(batch, false).has_value());
    }
    Folder folder_;
    MemoryStore durable_;
    std::unique_ptr<Store> store_;
};

TEST_P(AnyStore, batches_apply_in_order) {
    WriteBatch batch;
    batch.put(text("a"), text("1"));
    batch.put(text("b"), text(""));
    batch.erase(text("a"));
    batch.put(text("c"), text("x"));
    batch.put(text("c"), text("3"));
    ASSERT_TRUE(store_->write(batch, true).has_value());
    EXPECT_EQ(store_->get(as_bytes("a")).value(), std::nullopt);
    EXPECT_EQ(store_->get(as_bytes("b")).value(), Bytes());
    EXPECT_EQ(store_->get(as_bytes("c")).value(), text("3"));
}

TEST_P(AnyStore, iterates_a_prefix_in_byte_order_from_a_start) {
    for (const std::string key : {"b1", "a", "b", "b\xff", "c", "b2", "b11"}) put(key, "v");
    EXPECT_EQ(keys_of(*store_, "b"), (std::vector<std::string>{"b", "b1", "b11", "b2", "b\xff"}));
    EXPECT_EQ(keys_of(*store_, "b", "b11"), (std::vector<std::string>{"b11", "b2", "b\xff"}));
    EXPECT_EQ(keys_of(*store_, "b", "a"), keys_of(*store_, "b"));
    EXPECT_TRUE(keys_of(*store_, "b", "c").empty());
    EXPECT_EQ(keys_of(*store_, "").size(), 7U);
    int visited = 0;
    ASSERT_TRUE(store_->for_each({}, {}, [&](BytesView, BytesView) { return ++visited < 3; }).has_value());
    EXPECT_EQ(visited, 3);
}

TEST_P(AnyStore, a_snapshot_does_not_see_later_writes) {
    put("a", "1");
    const auto snapshot = store_->snapshot();
    put("a", "2");
    put("b", "3");
    EXPECT_EQ(snapshot->get(as_bytes("a")).value(), text("1"));
    EXPECT_EQ(snapshot->get(as_bytes("b")).value(), std::nullopt);
    EXPECT_EQ(keys_of(*snapshot, "").size(), 1U);
    EXPECT_EQ(store_->get(as_bytes("a")).value(), text("2"));
}

TEST_P(AnyStore, visitors_may_write) {
    put("a", "1");
    put("b", "1");
    ASSERT_TRUE(store_
                    ->for_each({}, {},
                               [&](BytesView key, BytesView) {
                                   WriteBatch batch;
                                   batch.erase(to_bytes(key));
                                   return store_->write(batch, false).has_value();
                               })
                    .has_value());
    EXPECT_TRUE(keys_of(*store_, "").empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, testing::Values(Which::memory, Which::leveldb, Which::fault));

TEST(LevelDb, keeps_its_content_and_names_what_keeps_it_from_opening) {
    const Folder folder;
    {
        auto store = LevelDbStore::open(folder.db()).value();
        WriteBatch batch;
        for (int i = 0; i < 1000; ++i) batch.put(text("key" + std::to_string(i)), Bytes(100, 7));
        ASSERT_TRUE(store->write(batch, true).has_value());
        EXPECT_EQ(LevelDbStore::open(folder.db()).error().name, "store.locked");
    }
    {
        auto store = LevelDbStore::open(folder.db(), {.bloom_bits_per_key = 0, .create_if_missing = false}).value();
        EXPECT_EQ(keys_of(*store, "key").size(), 1000U);
    }
    EXPECT_EQ(LevelDbStore::open(folder.db() + "none", {.create_if_missing = false}).error().name, "store.not_found");
    std::filesystem::remove(folder.db() + "/CURRENT");
    std::ofstream(folder.db() + "/CURRENT") << "MANIFEST-999999\n";
    EXPECT_EQ(LevelDbStore::open(folder.db()).error().name, "store.corrupt");
}

TEST(LevelDb, a_flipped_byte_in_a_table_is_corruption_and_never_a_wrong_value) {
    const Folder folder;
    WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.put(text("key" + std::to_string(i)), Bytes(200, static_cast<std::uint8_t>(i)));
    // A second opening moves the log into a table.
    ASSERT_TRUE(LevelDbStore::open(folder.db()).value()->write(batch, true).has_value());
    { const auto reopened = LevelDbStore::open(folder.db()).value(); }
    bool damaged = false;
    for (const auto& entry : std::filesystem::directory_iterator(folder.db())) {
        if (entry.path().extension() != ".ldb") continue;
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(2000);
        file.put('\x55');
        file.put('\xaa');
        damaged = true;
    }
    ASSERT_TRUE(damaged);
    const auto store = LevelDbStore::open(folder.db()).value();
    const auto scan = store->for_each({}, {}, [](BytesView, BytesView) { return true; });
    ASSERT_FALSE(scan.has_value());
    EXPECT_EQ(scan.error().name, "store.corrupt");
}

TEST(FaultStore, a_crash_keeps_synced_batches_and_a_prefix_of_the_others) {
    MemoryStore durable;
    FaultStore store(durable);
    const auto put = [&](std::string_view key, bool sync) {
        WriteBatch batch;
        batch.put(text(key), text("v"));
        return store.write(batch, sync).has_value();
    };
    ASSERT_TRUE(put("a", false));
    ASSERT_TRUE(put("b", true));
    ASSERT_TRUE(put("c", false));
    ASSERT_TRUE(put("d", false));
    EXPECT_EQ(store.unsynced_batches(), 2U);
    EXPECT_EQ(keys_of(store, "").size(), 4U);
    ASSERT_TRUE(store.crash(1).has_value());
    EXPECT_EQ(keys_of(store, ""), (std::vector<std::string>{"a", "b", "c"}));
    ASSERT_TRUE(put("e", false));
    ASSERT_TRUE(store.crash().has_value());
    EXPECT_EQ(keys_of(store, ""), (std::vector<std::string>{"a", "b", "c"}));
    store.fail_writes_after(1);
    EXPECT_TRUE(put("f", true));
    EXPECT_FALSE(put("g", true));
    EXPECT_EQ(store.get(as_bytes("g")).value(), std::nullopt);
    EXPECT_EQ(store.writes(), 2U);
    // Refused, and on the disk all the same.
    ASSERT_TRUE(store.crash().has_value());
    EXPECT_EQ(store.writes(), 0U);
    store.fail_writes_after(0, true);
    EXPECT_FALSE(put("h", true));
    EXPECT_FALSE(put("i", true));
    EXPECT_EQ(store.get(as_bytes("h")).value(), std::nullopt);
    EXPECT_EQ(store.unsynced_batches(), 1U);
    ASSERT_TRUE(store.crash(1).has_value());
    EXPECT_EQ(keys_of(store, ""), (std::vector<std::string>{"a", "b", "c", "f", "h"}));
}

TEST(BlockStore, reads_back_what_one_batch_wrote) {
    MemoryStore kv;
    const BlockStore blocks(kv);
    const BlockId id{7, Hash32::copy_of(Bytes(32, 1))};
    const std::vector<Hash32> hashes = {Hash32::copy_of(Bytes(32, 2)), Hash32::copy_of(Bytes(32, 3))};
    const std::vector<Bytes> receipts = {text("r0"), Bytes(300, 5)};
    EXPECT_EQ(blocks.head().value(), std::nullopt);
    EXPECT_EQ(blocks.receipts(id.hash).value(), std::nullopt);
    WriteBatch batch;
    BlockStore::put_block(batch, id.hash, as_bytes("block"));
    BlockStore::put_receipts(batch, id.hash, receipts);
    BlockStore::put_transaction_places(batch, id, hashes);
    BlockStore::put_canonical(batch, id);
    BlockStore::put_height(batch, 2, 9, id.number);
    BlockStore::put_finalization(batch, id.hash, as_bytes("certificate"));
    BlockStore::put_head(batch, id);
    put_meta(batch, "version", as_bytes("1"));
    EXPECT_EQ(kv.size(), 0U);
    ASSERT_TRUE(kv.write(batch, true).has_value());
    EXPECT_EQ(blocks.block(id.hash).value(), text("block"));
    EXPECT_EQ(blocks.receipts(id.hash).value(), receipts);
    EXPECT_EQ(blocks.transaction_place(hashes[1]).value(), (TransactionPlace{id, 1}));
    EXPECT_EQ(blocks.canonical_hash(7).value(), id.hash);
    EXPECT_EQ(blocks.canonical_hash(8).value(), std::nullopt);
    EXPECT_EQ(blocks.height_of(2, 9).value(), id.number);
    EXPECT_EQ(blocks.height_of(2, 8).value(), std::nullopt);
    EXPECT_EQ(blocks.finalization(id.hash).value(), text("certificate"));
    EXPECT_EQ(blocks.head().value(), id);
    EXPECT_EQ(get_meta(kv, "version").value(), text("1"));
    WriteBatch removal;
    BlockStore::erase_block(removal, id.hash);
    ASSERT_TRUE(kv.write(removal, true).has_value());
    EXPECT_EQ(blocks.block(id.hash).value(), std::nullopt);
    EXPECT_EQ(blocks.receipts(id.hash).value(), std::nullopt);
}

TEST(BlockStore, damaged_entries_are_named) {
    MemoryStore kv;
    WriteBatch batch;
    batch.put(table_key(Table::head), text("nonsense"));
    batch.put(table_key(Table::canonical, {be64(1)}), text("short"));
    batch.put(table_key(Table::height, {be64(0), be64(1)}), text("short"));
    ASSERT_TRUE(kv.write(batch, true).has_value());
    EXPECT_EQ(BlockStore(kv).head().error().name, "store.corrupt");
    EXPECT_EQ(BlockStore(kv).height_of(0, 1).error().name, "store.corrupt");
    EXPECT_EQ(BlockStore(kv).canonical_hash(1).error().name, "store.corrupt");
}

}  // namespace
}  // namespace quern::chain::store
