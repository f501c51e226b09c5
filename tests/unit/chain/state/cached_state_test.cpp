#include "chain/state/cached_state.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rlp.h"
#include "base/rng.h"
#include "chain/state/account_codec.h"
#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"

namespace quern::chain::state {
namespace {

types::Address address(std::uint64_t number) {
    types::Address result;
    result.data[18] = static_cast<std::uint8_t>(number >> 8);
    result.data[19] = static_cast<std::uint8_t>(number);
    return result;
}

Account with_balance(std::uint64_t balance) {
    Account account = empty_account();
    account.balance = balance;
    return account;
}

// Counts what is read, and fails when it is told to.
class CountingReader final : public store::Reader {
public:
    explicit CountingReader(const store::Reader& below) : below_(below) {}
    Expected<std::optional<Bytes>> get(BytesView key) const override {
        ++reads;
        if (broken) return fault("store.io", "injected");
        return below_.get(key);
    }
    Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override {
        return below_.for_each(prefix, start, visit);
    }
    mutable std::size_t reads = 0;
    bool broken = false;

private:
    const store::Reader& below_;
};

void write(store::MemoryStore& store, const types::Address& who, const Account& account) {
    store::WriteBatch batch;
    if (account.is_empty())
        batch.erase(store::table_key(store::Table::account, {who}));
    else
        batch.put(store::table_key(store::Table::account, {who}), encode(account));
    ASSERT_TRUE(store.write(batch, true));
}

TEST(CachedState, random_blocks_and_commits_agree_with_the_tables) {
    SeededRng rng(1);
    store::MemoryStore store;
    AccountCache cache(64);  // few: both generations turn over
    std::uint64_t height = 0;
    std::map<types::Address, Account> committed;
    for (int block = 0; block < 500; ++block) {
        // Two blocks on the committed one, the second on the first.
        AccountTable first;
        AccountTable second;
        auto after_first = committed;
        for (std::uint64_t i = rng.below(9); i > 0; --i) {
            const auto who = address(rng.below(400));
            after_first[who] = with_balance(rng.below(3));
            first.find_or_add(who).first->value = after_first[who];
        }
        auto after_second = after_first;
        for (std::uint64_t i = rng.below(9); i > 0; --i) {
            const auto who = address(rng.below(400));
            after_second[who] = with_balance(rng.below(3));
            second.find_or_add(who).first->value = after_second[who];
        }
        const auto check = [&](const StateReader& state, const std::map<types::Address, Account>& expected) {
            for (int i = 0; i < 20; ++i) {
                const auto who = address(rng.below(400));
                const auto found = expected.find(who);
                const bool there = found != expected.end() && !found->second.is_empty();
                ASSERT_EQ(state.account(who), there ? std::optional(found->second) : std::nullopt) << block;
            }
        };
        check(CachedState(store, store, {}, cache, height), committed);
        check(CachedState(store, store, {&second, &first}, cache, height), after_second);
        check(CachedState(store, store, {&first}, cache, height), after_first);
        EXPECT_LE(cache.size(), 128U);
        if (rng.below(2) == 0) continue;  // the first was dropped for a sibling
        for (const auto* entry : first.in_key_order([](const Account&) { return true; }))
            write(store, entry->key, entry->value);
        cache.put_all(first, ++height);
        committed = after_first;
    }
}

TEST(CachedState, an_account_is_read_from_the_tables_once_whether_it_is_there_or_not) {
    store::MemoryStore store;
    write(store, address(1), with_balance(5));
    const CountingReader reader(store);
    AccountCache cache;
    for (int block = 0; block < 3; ++block) {
        const CachedState state(reader, reader, {}, cache, 0);
        EXPECT_EQ(state.account(address(1)), with_balance(5));
        EXPECT_FALSE(state.account(address(2)));
    }
    EXPECT_EQ(reader.reads, 2U);
}

TEST(CachedState, what_a_fault_left_unread_is_not_taken_for_absent) {
    store::MemoryStore store;
    write(store, address(1), with_balance(5));
    CountingReader reader(store);
    AccountCache cache;
    reader.broken = true;
    {
        const CachedState state(reader, reader, {}, cache, 0);
        EXPECT_FALSE(state.account(address(1)));
        ASSERT_FALSE(state.status());
        EXPECT_EQ(state.status().error().name, "store.io");
        EXPECT_TRUE(state.status().error().is_local_fault());
        EXPECT_FALSE(state.native(Bytes{1}));
    }
    reader.broken = false;
    const CachedState state(reader, reader, {}, cache, 0);
    EXPECT_EQ(state.account(address(1)), with_balance(5));
    EXPECT_TRUE(state.status());
    reader.broken = true;
    EXPECT_FALSE(state.native(Bytes{1}));
    EXPECT_FALSE(state.status());
}

TEST(AccountCodec, agrees_with_the_general_encoder) {
    SeededRng rng(9);
    for (int i = 0; i < 2'000; ++i) {
        Account account;
        account.nonce = rng.u64() >> rng.below(64);
        account.balance =
            (Uint256(rng.u64()) << static_cast<unsigned>(64 * rng.below(4))) >> static_cast<unsigned>(rng.below(256));
        rng.fill(account.storage_root.data);
        rng.fill(account.code_hash.data);
        rlp::Writer writer;
        writer.begin_list().integer(account.nonce).integer(account.balance);
        writer.fixed(account.storage_root).fixed(account.code_hash).end_list();
        ASSERT_EQ(encode(account), std::move(writer).finish());
        ASSERT_EQ(*decode_account(encode(account)), account);
    }
}

// Two blocks apart: what a reader of the older state may see and leave behind.
TEST(AccountCache, answers_for_the_newest_state_alone_and_takes_nothing_of_older_ones) {
    AccountCache cache;
    cache.put_all({}, 7);
    cache.put(address(1), with_balance(5), 7);
    cache.put(address(2), with_balance(6), 7);
    EXPECT_EQ(cache.find(address(1), 7), with_balance(5));
    AccountTable changed;
    changed.find_or_add(address(1)).first->value = with_balance(9);
    cache.put_all(changed, 8);
    EXPECT_FALSE(cache.find(address(1), 7));
    EXPECT_FALSE(cache.find(address(2), 7));
    EXPECT_EQ(cache.find(address(1), 8), with_balance(9));
    EXPECT_EQ(cache.find(address(2), 8), with_balance(6));
    // Read before the commit, put after it.
    cache.put(address(1), with_balance(5), 7);
    cache.put(address(3), with_balance(1), 7);
    EXPECT_EQ(cache.find(address(1), 8), with_balance(9));
    EXPECT_FALSE(cache.find(address(3), 8));
}

TEST(AccountCache, a_flat_state_reads_through_it_and_puts_only_where_it_may) {
    store::MemoryStore store;
    write(store, address(1), with_balance(5));
    const CountingReader reader(store);
    AccountCache cache;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(FlatState(reader, {&cache, 0, false}).account(address(1)), with_balance(5));
    EXPECT_EQ(reader.reads, 2U);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(FlatState(reader, {&cache, 0, true}).account(address(1)), with_balance(5));
    EXPECT_EQ(reader.reads, 3U);
    EXPECT_EQ(FlatState(reader, {&cache, 0, false}).account(address(1)), with_balance(5));
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(FlatState(reader, {&cache, 0, true}).account(address(2)));
    EXPECT_EQ(reader.reads, 4U);
    // Of an older state it says nothing.
    EXPECT_EQ(FlatState(reader, {&cache, 1, true}).account(address(1)), with_balance(5));
    EXPECT_EQ(reader.reads, 5U);
}

}  // namespace
}  // namespace quern::chain::state
