// The stored state against its definition: random blocks with siblings, crashes and restarts, on limits so small that
// each is reached, compared with the roots of the whole content.
#include "chain/state/state_tries.h"
#include "base/big_endian.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <set>

#include "base/rng.h"
#include "chain/state/account_codec.h"
#include "chain/state/flat_state.h"
#include "chain/state/past_state.h"
#include "chain/store/fault_kv.h"
#include "chain/store/layered_reader.h"
#include "chain/store/leveldb_kv.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"
#include "unit/chain/state/state_content.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

// What a chain keeps of a block that is executed.
struct Block {
    StateChange change;
    Content content;
};

constexpr StateTries::Limits kTiny{6, 40, false};

// The newest block of a store, as the chain's head table would say.
std::uint64_t head_of(const store::Reader& store) {
    const auto head = store.get(table_key(Table::head)).value();
    return head ? Uint256::from_be(*head).low_u64() : 0;
}

Status write_block(store::Store& store, StateTries& tries, Block& block, std::uint64_t number, bool sync) {
    tries.commit(block.change.version, number, block.change.batch);
    block.change.batch.put(table_key(Table::head), be64(number).view());
    QUERN_CHECK(store.write(block.change.batch, sync));
    auto due = tries.take_due_parts();
    QUERN_CHECK(write_parts(store, due, sync));
    tries.parts_stored(due.parts);
    return {};
}

TEST(StateTries, random_blocks_siblings_and_crashes_give_the_roots_of_the_content) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        SeededRng rng(seed);
        const std::uint64_t people = seed % 3 == 0 ? 3 : 400;  // few accounts: all shapes of the nodes above the parts
        store::MemoryStore disk;
        store::FaultStore store(disk);
        std::vector<Content> history(1);
        ThreadPool pool(2);
        auto tries = StateTries::open(store, 0, Roots{}, &pool, kTiny).value();
        std::uint64_t number = 0;
        for (int step = 0; step < 120; ++step) {
            // A block, its sibling, and a child of either on what is not committed.
            std::vector<Block> blocks;
            for (int sibling = 0; sibling < 2; ++sibling) {
                const FlatState flat(store);
                Overlay overlay(flat);
                Content content = history.back();
                change(rng, overlay, content, people);
                auto made = tries->compute(overlay, *tries->head(), store, &pool);
                ASSERT_TRUE(made) << made.error().to_string();
                ASSERT_EQ(made->roots, roots_of(content)) << seed << " " << step;
                blocks.push_back({std::move(*made), std::move(content)});
            }
            Block& chosen = blocks[rng.below(2)];
            const store::LayeredReader layer(store, chosen.change.batch);
            const FlatState after(layer);
            Overlay overlay(after);
            Content content = chosen.content;
            change(rng, overlay, content, people);
            auto child = tries->compute(overlay, *chosen.change.version, layer, &pool);
            ASSERT_TRUE(child) << child.error().to_string();
            ASSERT_EQ(child->roots, roots_of(content)) << seed << " " << step;

            ASSERT_TRUE(write_block(store, *tries, chosen, ++number, rng.below(4) == 0));
            history.push_back(chosen.content);
            if (rng.below(2) == 0) {  // the child is committed on its parent, which is committed now
                Block next{std::move(*child), content};
                ASSERT_TRUE(write_block(store, *tries, next, ++number, rng.below(4) == 0));
                history.push_back(content);
            }
            EXPECT_LE(tries->changes_behind(), kTiny.changes_behind + 60);
            if (rng.below(8) != 0) continue;
            tries.reset();
            if (rng.below(2) == 0) {
                ASSERT_TRUE(store.crash(rng.below(1 + store.unsynced_batches())));
            }
            number = head_of(store);
            history.resize(number + 1);
            auto opened = StateTries::open(store, number, roots_of(history.back()), &pool, kTiny);
            ASSERT_TRUE(opened) << seed << " " << step << " " << opened.error().to_string();
            tries = std::move(*opened);
        }
    }
}

// Parts that a slow disk has not taken yet: their nodes stay in memory until it has, also when they are due again.
TEST(StateTries, parts_are_written_any_number_of_blocks_late) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        SeededRng rng(300 + seed);
        store::MemoryStore disk;
        store::FaultStore store(disk);
        std::vector<Content> history(1);
        const StateTries::Limits limits{seed % 2 == 0 ? std::size_t{0} : 6, seed % 4 < 2 ? std::size_t{0} : 40, false};
        auto tries = StateTries::open(store, 0, Roots{}, nullptr, limits).value();
        std::deque<DueParts> waiting;
        std::uint64_t number = 0;
        for (int step = 0; step < 300; ++step) {
            const FlatState flat(store);
            Overlay overlay(flat);
            Content content = history.back();
            change(rng, overlay, content, seed % 3 == 0 ? 3 : 100);
            auto made = tries->compute(overlay, *tries->head(), store);
            ASSERT_TRUE(made) << seed << " " << step << " " << made.error().to_string();
            ASSERT_EQ(made->roots, roots_of(content));
            tries->commit(made->version, ++number, made->batch);
            made->batch.put(table_key(Table::head), be64(number).view());
            ASSERT_TRUE(store.write(made->batch, rng.below(3) == 0));
            history.push_back(std::move(content));
            waiting.push_back(tries->take_due_parts());
            for (std::uint64_t left = rng.below(12); waiting.size() > left; waiting.pop_front()) {
                ASSERT_TRUE(write_parts(store, waiting.front(), false));
                tries->parts_stored(waiting.front().parts);
            }
            if (rng.below(20) != 0) continue;
            tries.reset();
            waiting.clear();
            ASSERT_TRUE(store.crash(rng.below(1 + store.unsynced_batches())));
            number = head_of(store);
            history.resize(number + 1);
            auto opened = StateTries::open(store, number, roots_of(history.back()), nullptr, limits);
            ASSERT_TRUE(opened) << seed << " " << step << " " << opened.error().to_string();
            tries = std::move(*opened);
        }
    }
}

TEST(StateTries, the_store_holds_the_tree_of_one_state_and_nothing_of_older_ones) {
    SeededRng rng(3);
    store::MemoryStore store;
    Content content;
    auto tries = StateTries::open(store, 0, Roots{}, nullptr, kTiny).value();
    std::uint64_t number = 0;
    for (int block = 0; block < 300; ++block) {
        const FlatState flat(store);
        Overlay overlay(flat);
        change(rng, overlay, content, 200);
        Block next{tries->compute(overlay, *tries->head(), store).value(), content};
        ASSERT_TRUE(write_block(store, *tries, next, ++number, true));
    }
    // Everything that is behind is stored by a block that changes nothing; then a store that was written once must
    // hold the same nodes.
    const FlatState flat(store);
    const Overlay nothing(flat);
    auto last = tries->compute(nothing, *tries->head(), store).value();
    tries->commit(last.version, number += kKeptStates, last.batch);  // as if the blocks in between changed nothing
    ASSERT_TRUE(store.write(last.batch, true));
    auto all_parts = tries->take_all_parts();
    ASSERT_TRUE(write_parts(store, all_parts, true));

    store::MemoryStore once;
    const FlatState empty(once);
    Overlay all(empty);
    for (auto [who, account] : content.accounts) {
        account.storage_root = empty_trie_root();
        all.set_account(who, account);
    }
    for (const auto& [who, slots] : content.slots)
        for (const auto& [slot, value] : slots) all.set_storage(who, slot, value);
    for (const auto& [key, value] : content.natives) all.set_native(key, value);
    ASSERT_EQ(commit_overlay(all, Roots{}, once), roots_of(content));
    for (const Table table : {Table::account_trie, Table::native_trie, Table::storage_trie}) {
        std::map<Bytes, Bytes, BytesLess> expected;
        std::map<Bytes, Bytes, BytesLess> found;
        const auto into = [](std::map<Bytes, Bytes, BytesLess>& map) {
            return [&map](BytesView key, BytesView value) {
                map[to_bytes(key)] = to_bytes(value);
                return true;
            };
        };
        ASSERT_TRUE(once.for_each(table_key(table), {}, into(expected)));
        ASSERT_TRUE(store.for_each(table_key(table), {}, into(found)));
        EXPECT_FALSE(expected.empty());
        EXPECT_EQ(found, expected) << static_cast<int>(table);
    }
    // But for the nodes above the parts, each block forgets one other block's.
    std::size_t above = 0;
    EXPECT_TRUE(store.for_each(changes_key(kAbovePart), {}, [&](BytesView, BytesView) { return ++above != 0; }));
    EXPECT_EQ(count(store, Table::changes), above);
    EXPECT_LE(above, kKeptStates);
}

// The power goes while LevelDB writes its log: whatever is left of it is the state of some block.
TEST(StateTries, a_log_that_was_cut_anywhere_opens_at_a_whole_block) {
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) / ("quern-cut-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    SeededRng rng(21);
    std::vector<Content> history(1);
    {
        const auto store = store::LevelDbStore::open(folder / "whole").value();
        auto tries = StateTries::open(*store, 0, Roots{}, nullptr, kTiny).value();
        for (std::uint64_t number = 1; number <= 60; ++number) {
            const FlatState flat(*store);
            Overlay overlay(flat);
            Content content = history.back();
            change(rng, overlay, content, 100);
            Block block{tries->compute(overlay, *tries->head(), *store).value(), content};
            ASSERT_TRUE(write_block(*store, *tries, block, number, false));
            history.push_back(content);
        }
    }
    std::set<std::uint64_t> heads;
    for (int cut = 0; cut < 60; ++cut) {
        std::filesystem::remove_all(folder / "cut");
        std::filesystem::copy(folder / "whole", folder / "cut", std::filesystem::copy_options::recursive);
        for (const auto& entry : std::filesystem::directory_iterator(folder / "cut"))
            if (entry.path().extension() == ".log")
                std::filesystem::resize_file(entry.path(), rng.below(entry.file_size() + 1));
        const auto store = store::LevelDbStore::open(folder / "cut");
        ASSERT_TRUE(store) << store.error().to_string();
        const std::uint64_t head = head_of(**store);
        heads.insert(head);
        const auto opened = StateTries::open(**store, head, roots_of(history[head]), nullptr, kTiny);
        ASSERT_TRUE(opened) << head << " " << opened.error().to_string();
    }
    EXPECT_GT(heads.size(), 20U);
    std::filesystem::remove_all(folder);
}

class StoredState : public ::testing::Test {
protected:
    void SetUp() override {
        SeededRng rng(11);
        auto tries = StateTries::open(store, 0, Roots{}).value();
        for (number = 1; number <= 3; ++number) {
            const FlatState flat(store);
            Overlay overlay(flat);
            for (std::uint64_t i = 0; i < 300; ++i) {
                Account account = empty_account();
                account.balance = rng.below(1000) + 1;
                overlay.set_account(address(i), account);
                content.accounts[address(i)] = account;
            }
            Block block{tries->compute(overlay, *tries->head(), store).value(), content};
            ASSERT_TRUE(write_block(store, *tries, block, number, true));
        }
        --number;
    }
    std::string error_of_opening() {
        const auto opened = StateTries::open(store, number, roots_of(content));
        if (opened) return "none";
        EXPECT_TRUE(opened.error().is_local_fault());
        return std::string(opened.error().name);
    }
    void erase(Bytes key) {
        store::WriteBatch batch;
        batch.erase(std::move(key));
        ASSERT_TRUE(store.write(batch, true));
    }
    void put(Bytes key, Bytes value) {
        store::WriteBatch batch;
        batch.put(std::move(key), std::move(value));
        ASSERT_TRUE(store.write(batch, true));
    }
    store::MemoryStore store;
    Content content;
    std::uint64_t number = 0;
};

TEST_F(StoredState, opens_and_proves_accounts_that_are_there_and_that_are_not) {
    EXPECT_EQ(error_of_opening(), "none");
    auto tries = StateTries::open(store, number, roots_of(content)).value();
    for (std::uint64_t i = 0; i < 320; ++i) {
        const auto proof = PastState(store, number, number).prove(tries->head()->roots.state_root, address(i), {});
        ASSERT_TRUE(proof) << proof.error().to_string();
        const auto proven =
            verify_trie_proof(tries->head()->roots.state_root, crypto::keccak256(address(i)), proof->nodes);
        ASSERT_TRUE(proven) << proven.error().to_string();
        EXPECT_EQ(proven->has_value(), i < 300);
        EXPECT_EQ(proof->account, i < 300 ? content.accounts[address(i)] : empty_account());
    }
}

TEST_F(StoredState, lost_changes_are_reported) {
    for (std::uint64_t block = 1; block <= 3; ++block) erase(changes_key(part_of(address(7)), block));
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

TEST_F(StoredState, damaged_changes_are_reported) {
    put(changes_key(part_of(address(7)), 2), {0xc3, 0x01});
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

TEST_F(StoredState, a_table_that_does_not_give_the_roots_is_reported) {
    put(table_key(Table::account, {address(7)}), encode(content.accounts[address(8)]));
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

TEST_F(StoredState, a_damaged_mark_or_root_is_reported) {
    auto tries = StateTries::open(store, number, roots_of(content)).value();
    const FlatState flat(store);
    auto change = tries->compute(Overlay(flat), *tries->head(), store).value();
    tries->commit(change.version, ++number, change.batch);
    ASSERT_TRUE(store.write(change.batch, true));
    auto all_parts = tries->take_all_parts();
    ASSERT_TRUE(write_parts(store, all_parts, true));
    EXPECT_EQ(error_of_opening(), "none");
    const std::array<std::uint8_t, 2> part = {0, 5};
    const Bytes mark = *store.get(table_key(Table::trie_part, {part})).value();
    put(table_key(Table::trie_part, {part}), {1, 2});
    EXPECT_EQ(error_of_opening(), "store.corrupt");
    put(table_key(Table::trie_part, {part}), mark);
    EXPECT_EQ(error_of_opening(), "none");
    const std::array<std::uint8_t, 1> first = {crypto::keccak256(address(7)).data[0]};
    put(table_key(Table::account_trie, {first}), {0x80});
    EXPECT_EQ(error_of_opening(), "trie.corrupt_node");
    erase(table_key(Table::account_trie, {first}));
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

TEST_F(StoredState, wrong_roots_are_not_accepted) {
    content.accounts.erase(address(0));
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

}  // namespace
}  // namespace quern::chain::state
