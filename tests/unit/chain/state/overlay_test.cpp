#include "chain/state/overlay.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "chain/state/account_codec.h"
#include "chain/state/flat_state.h"
#include "chain/state/state_tries.h"
#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

types::Address address(std::uint8_t number) {
    types::Address result;
    result.data[19] = number;
    return result;
}

Account with_balance(std::uint64_t balance) {
    Account account = empty_account();
    account.balance = balance;
    return account;
}

Bytes key(std::string_view text) { return to_bytes(as_bytes(text)); }

class OverlayOnStore : public ::testing::Test {
protected:
    store::MemoryStore store;
    FlatState flat{store};
    Overlay overlay{flat};
};

TEST_F(OverlayOnStore, revert_undoes_everything_since_the_point) {
    overlay.set_account(address(1), with_balance(5));
    overlay.set_native(key("a"), {1});
    const auto point = overlay.snapshot();
    overlay.set_account(address(1), with_balance(6));
    overlay.set_account(address(2), with_balance(7));
    overlay.set_native(key("a"), {2});
    overlay.erase_native(key("a"));
    overlay.set_native(key("b"), {3});
    overlay.set_storage(address(1), Hash32{}, Hash32::copy_of(crypto::keccak256({})));
    overlay.set_code(crypto::keccak256(key("code")), key("code"));
    overlay.add_log({});
    const auto written = overlay.written_since(point);
    EXPECT_EQ(written.objects, 2U);
    EXPECT_EQ(written.object_bytes, 1U);  // what was erased has none
    EXPECT_EQ(written.stored_bytes, 1U);  // of "b", which is new
    EXPECT_EQ(written.accounts, 2U);
    EXPECT_EQ(written.logs, 1U);
    EXPECT_EQ(overlay.written_since(overlay.snapshot()).objects, 0U);
    overlay.revert_to(point);
    EXPECT_EQ(overlay.account(address(1))->balance, Uint256(5));
    EXPECT_FALSE(overlay.account(address(2)));
    EXPECT_EQ(overlay.native(key("a")), Bytes{1});
    EXPECT_FALSE(overlay.native(key("b")));
    EXPECT_TRUE(overlay.storage(address(1), Hash32{}).is_zero());
    EXPECT_TRUE(overlay.code(crypto::keccak256(key("code"))).empty());
    EXPECT_TRUE(overlay.take_logs().empty());
}

TEST_F(OverlayOnStore, counts_what_is_read_and_reads_no_more_than_can_be_paid_for) {
    for (std::uint8_t i = 0; i < 100; ++i) overlay.set_native({'a', i}, Bytes(10));
    ReadMeter meter(100, 2, 1'000);
    overlay.count_reads(&meter);
    EXPECT_TRUE(overlay.native(Bytes{'a', 1}));
    EXPECT_EQ(meter.used(), 120U);
    EXPECT_FALSE(overlay.native(Bytes{'b'}));  // to find nothing costs, too
    EXPECT_EQ(meter.used(), 220U);
    EXPECT_EQ(overlay.native_range(key("a"), {}, 2).size(), 2U);
    EXPECT_EQ(meter.used(), 460U);
    EXPECT_FALSE(meter.is_exhausted());
    EXPECT_EQ(overlay.native_range(key("a"), {}, 100).size(), 5U);  // 540 left: at 120 each the fifth is too much
    EXPECT_TRUE(meter.is_exhausted());
    const std::uint64_t used = meter.used();
    EXPECT_TRUE(overlay.native_range(key("a"), {}, 100).empty());
    EXPECT_FALSE(overlay.native(Bytes{'a', 1}));
    const auto globals = overlay.load<types::Globals>();
    ASSERT_FALSE(globals);
    EXPECT_EQ(globals.error().name, "state.unpaid_read");
    EXPECT_EQ(meter.used(), used);
    overlay.count_reads(nullptr);
    EXPECT_TRUE(overlay.native(Bytes{'a', 1}));
    EXPECT_TRUE(overlay.load<types::Globals>());
}

// The overlay as its definition: a copy of everything for each point.
struct PlainOverlay {
    std::map<types::Address, Account> accounts;
    std::map<std::pair<types::Address, Hash32>, Hash32> slots;
    std::set<types::Address> cleared;  // whose slots are those alone
    std::map<Bytes, std::optional<Bytes>, BytesLess> natives;

    void clear(const types::Address& who) {
        std::erase_if(slots, [&](const auto& slot) { return slot.first.first == who; });
        cleared.insert(who);
    }
};

TEST_F(OverlayOnStore, random_writes_and_reverts_agree_with_copies_of_everything) {
    SeededRng rng(7);
    const auto slot_of = [](std::uint8_t number) {
        Hash32 slot;
        slot.data[3] = number;
        return slot;
    };
    for (std::uint8_t i = 0; i < 10; ++i) {
        overlay.set_account(address(i), with_balance(100U + i));
        if (i < 5) overlay.set_storage(address(i), slot_of(1), slot_of(9));
    }
    ASSERT_TRUE(commit_overlay(overlay, Roots{}, store));
    Overlay upper(flat);
    PlainOverlay plain;
    std::vector<std::pair<std::size_t, PlainOverlay>> points;
    for (int step = 0; step < 20'000; ++step) {
        const auto who = address(static_cast<std::uint8_t>(rng.below(20)));
        const Hash32 slot = slot_of(static_cast<std::uint8_t>(rng.below(3)));
        const Bytes name{static_cast<std::uint8_t>(rng.below(8))};
        switch (rng.below(11)) {
            case 0:
                points.emplace_back(upper.snapshot(), plain);
                break;
            case 1:
                if (points.empty() || rng.below(3) != 0) break;
                points.resize(1 + rng.below(points.size()));
                upper.revert_to(points.back().first);
                plain = points.back().second;
                if (rng.below(2) == 0) points.pop_back();  // a point may be reverted to more than once
                break;
            case 2:
                upper.change_account(who).nonce += 1;
                if (!plain.accounts.contains(who)) plain.accounts[who] = flat.account(who).value_or(empty_account());
                plain.accounts[who].nonce += 1;
                break;
            case 3:
                plain.accounts[who] = with_balance(rng.below(3));  // empty in a third of the cases
                upper.set_account(who, plain.accounts[who]);
                break;
            case 4:
                plain.slots[{who, slot}] = slot_of(static_cast<std::uint8_t>(rng.below(4)));
                upper.set_storage(who, slot, plain.slots[{who, slot}]);
                break;
            case 5:
                plain.natives[name] = Bytes{static_cast<std::uint8_t>(rng.below(250))};
                upper.set_native(name, *plain.natives[name]);
                break;
            case 6:
                plain.natives[name] = std::nullopt;
                upper.erase_native(name);
                break;
            case 7:
                if (rng.below(4) == 0) {
                    upper.erase(upper.account_ref(who));
                    plain.accounts[who] = empty_account();
                } else {
                    upper.clear_storage(upper.account_ref(who));
                    if (!plain.accounts.contains(who))
                        plain.accounts[who] = flat.account(who).value_or(empty_account());
                    plain.accounts[who].storage_root = empty_trie_root();
                }
                plain.clear(who);
                break;
            case 8:
                if (rng.below(20) != 0) break;
                points.clear();
                upper.settle();
                break;
            default: {
                const auto expected =
                    plain.accounts.contains(who)
                        ? plain.accounts[who].is_empty() ? std::nullopt : std::optional(plain.accounts[who])
                        : flat.account(who);
                ASSERT_EQ(upper.account(who), expected) << step;
                ASSERT_EQ(upper.account_or_empty(who), expected.value_or(empty_account())) << step;
                ASSERT_EQ(upper.account_before(who), flat.account(who)) << step;
                const auto kept = plain.slots.find({who, slot});
                const Hash32 below = plain.cleared.contains(who) ? Hash32{} : flat.storage(who, slot);
                ASSERT_EQ(upper.storage(who, slot), kept == plain.slots.end() ? below : kept->second) << step;
                ASSERT_EQ(upper.storage_before(who, slot), flat.storage(who, slot)) << step;
                ASSERT_EQ(upper.is_storage_cleared(who), plain.cleared.contains(who)) << step;
                const auto before = flat.account(who);
                const bool has_below =
                    !plain.cleared.contains(who) && before && before->storage_root != empty_trie_root();
                const bool has_own = std::any_of(plain.slots.begin(), plain.slots.end(), [&](const auto& item) {
                    return item.first.first == who && !item.second.is_zero();
                });
                ASSERT_EQ(upper.has_storage(upper.account_ref(who)), has_below || has_own) << step;
                const auto native = plain.natives.find(name);
                ASSERT_EQ(upper.native(name), native == plain.natives.end() ? std::nullopt : native->second) << step;
            }
        }
        if (step % 500 != 0) continue;
        const auto accounts = upper.changed_accounts();
        ASSERT_TRUE(std::equal(accounts.begin(), accounts.end(), plain.accounts.begin(), plain.accounts.end(),
                               [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }))
            << step;
        const auto slots = upper.changed_storage();
        ASSERT_TRUE(std::equal(slots.begin(), slots.end(), plain.slots.begin(), plain.slots.end(),
                               [](const auto& a, const auto& b) {
                                   return std::pair(a.address, a.slot) == b.first && a.value == b.second;
                               }))
            << step;
        ASSERT_EQ(upper.changed_native(), plain.natives) << step;
    }
}

TEST_F(OverlayOnStore, empty_accounts_are_there_where_they_are_kept) {
    overlay.set_account(address(1), empty_account());
    EXPECT_FALSE(overlay.account(address(1)));
    Overlay before_eip161(flat, EmptyAccounts::kept);
    EXPECT_FALSE(before_eip161.account(address(1)));
    before_eip161.set_account(address(1), empty_account());
    EXPECT_EQ(before_eip161.account(address(1)), empty_account());
    const auto point = before_eip161.snapshot();
    before_eip161.erase(before_eip161.account_ref(address(1)));
    EXPECT_FALSE(before_eip161.account(address(1)));
    before_eip161.revert_to(point);
    EXPECT_EQ(before_eip161.account(address(1)), empty_account());
}

TEST(KeyTable, finds_what_was_added_whatever_the_keys_have_in_common) {
    KeyTable<types::Address, std::uint32_t> table;
    const auto key_of = [](std::uint32_t number, std::size_t at) {
        types::Address key;
        for (std::size_t i = 0; i < 4; ++i) key.data[at + i] = static_cast<std::uint8_t>(number >> (8 * i));
        return key;
    };
    for (const std::size_t at : {0U, 8U, 16U})
        for (std::uint32_t i = 1; i < 5'000; ++i) {
            const auto [entry, added] = table.find_or_add(key_of(i, at));
            ASSERT_TRUE(added);
            entry->value = i;
        }
    const auto* first = table.find(key_of(1, 0));
    for (const std::size_t at : {0U, 8U, 16U})
        for (std::uint32_t i = 1; i < 5'000; ++i) {
            ASSERT_FALSE(table.find_or_add(key_of(i, at)).second);
            ASSERT_EQ(table.find(key_of(i, at))->value, i);
        }
    EXPECT_EQ(table.find(key_of(5'000, 0)), nullptr);
    EXPECT_EQ(table.find(key_of(1, 0)), first);  // entries never move
    EXPECT_EQ(table.size(), 3U * 4'999U);
    const auto sorted = table.in_key_order([](std::uint32_t value) { return value % 2 == 0; });
    EXPECT_EQ(sorted.size(), 3U * 2'499U);
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->key < b->key; }));
}

TEST_F(OverlayOnStore, a_point_in_a_transaction_keeps_what_an_earlier_one_must_undo) {
    overlay.set_account(address(1), with_balance(1));
    const auto outer = overlay.snapshot();
    overlay.change_account(address(1)).balance = Uint256(2);
    const auto inner = overlay.snapshot();
    overlay.change_account(address(1)).balance = Uint256(3);
    overlay.change_account(address(1)).balance = Uint256(4);
    overlay.revert_to(inner);
    EXPECT_EQ(overlay.account(address(1))->balance, Uint256(2));
    overlay.change_account(address(1)).balance = Uint256(5);
    overlay.revert_to(inner);
    EXPECT_EQ(overlay.account(address(1))->balance, Uint256(2));
    overlay.revert_to(outer);
    EXPECT_EQ(overlay.account(address(1))->balance, Uint256(1));
}

TEST_F(OverlayOnStore, what_is_settled_stands_and_what_comes_after_it_can_be_undone) {
    const auto before = overlay.snapshot();
    overlay.change_account(address(1)).balance = Uint256(1);
    overlay.set_native(key("n"), {1});
    overlay.settle();
    const auto point = overlay.snapshot();
    EXPECT_EQ(overlay.written_since(point).objects, 0U);
    overlay.change_account(address(1)).balance = Uint256(2);
    overlay.change_account(address(2)).balance = Uint256(2);
    overlay.set_native(key("n"), {2, 2});
    const auto written = overlay.written_since(point);
    EXPECT_EQ(written.objects, 1U);
    EXPECT_EQ(written.object_bytes, 2U);
    EXPECT_EQ(written.stored_bytes, 1U);  // one of them was there
    EXPECT_EQ(written.accounts, 2U);
    overlay.revert_to(point);
    EXPECT_EQ(overlay.account(address(1))->balance, Uint256(1));
    EXPECT_FALSE(overlay.account(address(2)));
    EXPECT_EQ(overlay.native(key("n")), Bytes{1});
    EXPECT_DEATH(overlay.revert_to(before), "settled");
}

TEST_F(OverlayOnStore, range_merges_layers_in_order) {
    overlay.set_native(key("p1"), {1});
    overlay.set_native(key("p2"), {2});
    overlay.set_native(key("p4"), {4});
    overlay.set_native(key("q"), {9});
    ASSERT_TRUE(commit_overlay(overlay, Roots{}, store));
    Overlay upper(flat);
    upper.erase_native(key("p1"));
    upper.set_native(key("p3"), {3});
    upper.set_native(key("p4"), {5});
    const auto all = upper.native_range(key("p"), {}, 10);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].first, key("p2"));
    EXPECT_EQ(all[1].second, Bytes{3});
    EXPECT_EQ(all[2].second, Bytes{5});
    EXPECT_EQ(upper.native_range(key("p"), {}, 1).size(), 1U);
    EXPECT_EQ(upper.native_range(key("p"), {}, 1)[0].first, key("p2"));
    EXPECT_EQ(upper.native_range(key("p"), key("p3"), 10).size(), 2U);
}

TEST_F(OverlayOnStore, to_walk_over_what_was_erased_costs_too_and_no_more_than_that_is_read) {
    for (std::uint8_t i = 0; i < 200; ++i) overlay.set_native({'a', i}, Bytes(10));
    ASSERT_TRUE(commit_overlay(overlay, Roots{}, store));
    Overlay upper(flat);
    for (std::uint8_t i = 20; i < 120; ++i) upper.erase_native({'a', i});
    ReadMeter meter(100, 2, 1'000'000);
    upper.count_reads(&meter);
    EXPECT_EQ(upper.native_range(key("a"), {}, 10).size(), 10U);
    EXPECT_EQ(meter.used(), 1'200U) << "what lies behind the last one costs nothing";
    const auto over = upper.native_range(key("a"), Bytes{'a', 15}, 10);
    ASSERT_EQ(over.size(), 10U);
    EXPECT_EQ(over[4].first, (Bytes{'a', 19}));
    EXPECT_EQ(over[5].first, (Bytes{'a', 120}));
    EXPECT_EQ(meter.used(), 1'200U + 10 * 120 + 100 * 100);
    // Who cannot pay for the way does not arrive.
    ReadMeter poor(100, 2, 3'000);
    upper.count_reads(&poor);
    EXPECT_TRUE(upper.native_range(key("a"), Bytes{'a', 20}, 10).empty());
    EXPECT_TRUE(poor.is_exhausted());
    upper.count_reads(nullptr);
}

TEST_F(OverlayOnStore, committed_state_reads_back) {
    const Hash32 code_hash = crypto::keccak256(key("code"));
    Account account = with_balance(5);
    account.nonce = 3;
    account.code_hash = code_hash;
    overlay.set_account(address(1), account);
    overlay.set_code(code_hash, key("code"));
    Hash32 one;
    one.data[31] = 1;
    overlay.set_storage(address(1), Hash32{}, one);
    const auto roots = commit_overlay(overlay, Roots{}, store);
    ASSERT_TRUE(roots);
    const auto read = flat.account(address(1));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->nonce, 3U);
    EXPECT_NE(read->storage_root, empty_trie_root());
    EXPECT_EQ(flat.code(code_hash), key("code"));
    EXPECT_EQ(flat.storage(address(1), Hash32{}), one);
    EXPECT_TRUE(flat.status());

    Overlay later(flat);
    later.set_storage(address(1), Hash32{}, Hash32{});
    ASSERT_TRUE(commit_overlay(later, *roots, store));
    EXPECT_EQ(flat.account(address(1))->storage_root, empty_trie_root());
    EXPECT_TRUE(flat.storage(address(1), Hash32{}).is_zero());
}

TEST_F(OverlayOnStore, roots_depend_on_content_alone) {
    overlay.set_account(address(1), with_balance(5));
    overlay.set_native(key("x"), {1});
    const auto first = commit_overlay(overlay, Roots{}, store);
    ASSERT_TRUE(first);
    EXPECT_NE(*first, Roots{});

    Overlay add(flat);
    add.set_account(address(2), with_balance(6));
    add.set_native(key("y"), {2});
    const auto second = commit_overlay(add, *first, store);
    ASSERT_TRUE(second);
    Overlay remove(flat);
    remove.set_account(address(2), empty_account());
    remove.erase_native(key("y"));
    const auto third = commit_overlay(remove, *second, store);
    ASSERT_TRUE(third);
    EXPECT_EQ(*third, *first);
    EXPECT_FALSE(flat.account(address(2)));
}

TEST_F(OverlayOnStore, a_dropped_change_leaves_no_trace) {
    overlay.set_account(address(1), with_balance(5));
    const auto first = commit_overlay(overlay, Roots{}, store);
    ASSERT_TRUE(first);
    const auto tries = StateTries::open(store, 0, *first).value();
    Overlay dropped(flat);
    dropped.set_account(address(2), with_balance(1));
    ASSERT_TRUE(tries->compute(dropped, *tries->head(), store));
    Overlay kept(flat);
    kept.set_account(address(3), with_balance(1));
    auto change = tries->compute(kept, *tries->head(), store);
    ASSERT_TRUE(change);
    const auto fresh = StateTries::open(store, 0, *first).value();
    EXPECT_EQ(change->roots, fresh->compute(kept, *fresh->head(), store)->roots);
    tries->commit(change->version, 1, change->batch);
    ASSERT_TRUE(store.write(change->batch, true));
    const auto reopened = StateTries::open(store, 1, change->roots);
    ASSERT_TRUE(reopened);
    EXPECT_EQ((*reopened)->compute(Overlay(flat), *(*reopened)->head(), store)->roots, change->roots);
}

TEST_F(OverlayOnStore, account_encoding_is_ethereums) {
    // rlp([0, 0, empty trie root, keccak256("")]), the encoding of an empty account.
    EXPECT_EQ(to_hex(encode(empty_account())),
              "f8448080a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421a0c5d2460186f7233c927e7db2dcc7"
              "03c0e500b653ca82273b7bfad8045d85a470");
    EXPECT_EQ(*decode_account(encode(with_balance(5))), with_balance(5));
    EXPECT_FALSE(decode_account(Bytes{0xc0}));
}

TEST_F(OverlayOnStore, corrupt_tables_are_reported) {
    store::WriteBatch batch;
    Bytes bad_key{0x20};
    append(bad_key, address(1));
    batch.put(bad_key, Bytes{0xff});
    ASSERT_TRUE(store.write(batch, true));
    EXPECT_FALSE(flat.account(address(1)));
    ASSERT_FALSE(flat.status());
    EXPECT_EQ(flat.status().error().name, "store.corrupt");
    // Of this process, not of the block that made it read: else a block would be called invalid.
    EXPECT_TRUE(flat.status().error().is_local_fault());
}

TEST_F(OverlayOnStore, corrupt_slots_are_reported) {
    store::WriteBatch batch;
    batch.put(store::table_key(store::Table::storage, {address(1), Hash32{}}), Bytes(31, 1));
    ASSERT_TRUE(store.write(batch, true));
    EXPECT_TRUE(flat.storage(address(1), Hash32{}).is_zero());
    ASSERT_FALSE(flat.status());
    EXPECT_EQ(flat.status().error().name, "store.corrupt");
    EXPECT_TRUE(flat.status().error().is_local_fault());
}

}  // namespace
}  // namespace quern::chain::state
