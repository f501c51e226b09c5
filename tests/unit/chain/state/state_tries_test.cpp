// The stored state against its definition: random blocks with siblings, crashes and restarts, on limits so small that
// each is reached, compared with the roots of the whole content.
#include "chain/state/state_tries.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/rng.h"
#include "chain/state/account_codec.h"
#include "chain/state/flat_state.h"
#include "chain/store/fault_kv.h"
#include "chain/store/layered_reader.h"
#include "chain/store/leveldb_kv.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

types::Address address(std::uint64_t number) {
    types::Address result;
    result.data[18] = static_cast<std::uint8_t>(number >> 8);
    result.data[19] = static_cast<std::uint8_t>(number);
    return result;
}

Bytes native_key(std::uint64_t number) { return {0x01, static_cast<std::uint8_t>(number)}; }

// The state as plain maps.
struct Content {
    std::map<types::Address, Account> accounts;
    std::map<types::Address, std::map<Hash32, Hash32>> slots;
    std::map<Bytes, Bytes, BytesLess> natives;
};

Hash32 storage_root_of(const std::map<Hash32, Hash32>& slots) {
    std::vector<std::pair<Bytes, Bytes>> pairs;
    for (const auto& [slot, value] : slots) {
        rlp::Writer out;
        out.integer(Uint256::from_be(value));
        pairs.emplace_back(to_bytes(slot), std::move(out).finish());
    }
    return secure_trie_root(pairs);
}

Roots roots_of(const Content& content) {
    std::vector<std::pair<Bytes, Bytes>> accounts;
    for (auto [who, account] : content.accounts) {
        const auto slots = content.slots.find(who);
        account.storage_root = slots == content.slots.end() ? empty_trie_root() : storage_root_of(slots->second);
        accounts.emplace_back(to_bytes(who), encode(account));
    }
    std::vector<std::pair<Bytes, Bytes>> natives(content.natives.begin(), content.natives.end());
    return {secure_trie_root(accounts), trie_root(natives)};
}

// Random writes to the overlay and to the content.
void change(Rng& rng, Overlay& overlay, Content& content, std::uint64_t people) {
    for (std::uint64_t i = rng.below(12); i > 0; --i) {
        const auto who = address(rng.below(people));
        Account account = overlay.account_or_empty(who);
        if (rng.below(4) == 0 && !content.slots.contains(who)) {
            overlay.set_account(who, empty_account());
            content.accounts.erase(who);
            continue;
        }
        account.balance = 1 + rng.below(1'000'000);
        overlay.set_account(who, account);
        content.accounts[who] = account;
        if (rng.below(4) == 0) {
            Hash32 slot;
            slot.data[31] = static_cast<std::uint8_t>(rng.below(6));
            Hash32 value;
            value.data[31] = static_cast<std::uint8_t>(rng.below(3));
            overlay.set_storage(who, slot, value);
            auto& slots = content.slots[who];
            if (value.is_zero())
                slots.erase(slot);
            else
                slots[slot] = value;
        }
    }
    for (std::uint64_t i = rng.below(4); i > 0; --i) {
        const Bytes key = native_key(rng.below(40));
        if (rng.below(3) == 0) {
            overlay.erase_native(key);
            content.natives.erase(key);
        } else {
            const Bytes value(1 + rng.below(50), static_cast<std::uint8_t>(rng.u64()));
            overlay.set_native(key, value);
            content.natives[key] = value;
        }
    }
}

// What a chain keeps of a block that is executed.
struct Block {
    StateChange change;
    Content content;
};

constexpr StateTries::Limits kTiny{6, 40};

std::size_t count(const store::Reader& store, Table table) {
    std::size_t found = 0;
    EXPECT_TRUE(store.for_each(table_key(table), {}, [&](BytesView, BytesView) {
        ++found;
        return true;
    }));
    return found;
}

// The newest block of a store, as the chain's head table would say.
std::uint64_t head_of(const store::Reader& store) {
    const auto head = store.get(table_key(Table::head)).value();
    return head ? Uint256::from_be(*head).low_u64() : 0;
}

Status write_block(store::Store& store, StateTries& tries, Block& block, std::uint64_t number, bool sync) {
    tries.commit(block.change.version, number, block.change.batch);
    block.change.batch.put(table_key(Table::head), store::be64(number).view());
    return store.write(block.change.batch, sync);
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
            EXPECT_LE(count(store, Table::changes), kTrieParts * kBlocksAPart + 8);
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
    tries->commit_whole(last.version, ++number, last.batch);
    ASSERT_TRUE(store.write(last.batch, true));

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
        std::map<Bytes, Bytes> expected;
        std::map<Bytes, Bytes> found;
        const auto into = [](std::map<Bytes, Bytes>& map) {
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
    EXPECT_EQ(count(store, Table::changes), 0U);
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
        const auto proof = tries->prove_account(*tries->head(), address(i));
        ASSERT_TRUE(proof);
        const auto proven = verify_trie_proof(tries->head()->roots.state_root, crypto::keccak256(address(i)), *proof);
        ASSERT_TRUE(proven) << proven.error().to_string();
        EXPECT_EQ(proven->has_value(), i < 300);
        if (i < 300) {
            EXPECT_EQ(**proven, encode(content.accounts[address(i)]));
        }
    }
}

TEST_F(StoredState, a_lost_list_of_changes_is_reported) {
    erase(table_key(Table::changes, {store::be64(2)}));
    EXPECT_EQ(error_of_opening(), "store.corrupt");
}

TEST_F(StoredState, a_damaged_list_of_changes_is_reported) {
    put(table_key(Table::changes, {store::be64(2)}), {0xc3, 0x01});
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
    tries->commit_whole(change.version, ++number, change.batch);
    ASSERT_TRUE(store.write(change.batch, true));
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
