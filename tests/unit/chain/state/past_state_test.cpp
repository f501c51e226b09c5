// Older states, read and proven, against their definition: after any number of blocks, restarts and power cuts, what is
// told about each kept block is what its content was.
#include "chain/state/past_state.h"
#include "base/big_endian.h"

#include <gtest/gtest.h>

#include "chain/state/archive_state.h"
#include "chain/state/flat_state.h"
#include "chain/state/state_revert.h"
#include "chain/state/trie.h"
#include "chain/store/fault_kv.h"
#include "crypto/hash.h"
#include "unit/chain/state/state_content.h"

namespace quern::chain::state {
namespace {

using store::Table;
using store::table_key;

// A chain of states in a store that can lose what was not synced.
struct Chain {
    explicit Chain(const StateTries::Limits& wanted) : limits(wanted) { open(); }

    void open() {
        auto opened = StateTries::open(store, history.size() - 1, roots_of(history.back()), nullptr, limits);
        ASSERT_TRUE(opened) << opened.error().to_string();
        tries = std::move(*opened);
    }
    void add_block(Rng& rng, std::uint64_t people, bool sync) {
        const FlatState flat(store);
        Overlay overlay(flat);
        Content content = history.back();
        change(rng, overlay, content, people);
        auto made = tries->compute(overlay, *tries->head(), store).value();
        ASSERT_EQ(made.roots, roots_of(content));
        const std::uint64_t number = history.size();
        tries->commit(made.version, number, made.batch);
        made.batch.put(table_key(Table::head), be64(number).view());
        ASSERT_TRUE(store.write(made.batch, sync));
        auto due = tries->take_due_parts();
        ASSERT_TRUE(write_parts(store, due, false));
        tries->parts_stored(due.parts);
        history.push_back(std::move(content));
    }
    void crash(Rng& rng) {
        tries.reset();
        ASSERT_TRUE(store.crash(rng.below(1 + store.unsynced_batches())));
        const auto head = store.get(table_key(Table::head)).value();
        history.resize(1 + (head ? Uint256::from_be(*head).low_u64() : 0));
        open();
    }
    std::uint64_t newest() const { return history.size() - 1; }

    StateTries::Limits limits;
    store::MemoryStore disk;
    store::FaultStore store{disk};
    std::vector<Content> history{Content{}};
    std::unique_ptr<StateTries> tries;
};

// Everything that `at` says is what the content has.
void expect_state(const StateAt& at, const Content& content, std::uint64_t people, Rng& rng) {
    const FlatState flat(at);
    for (std::uint64_t i = 0; i < 8; ++i) {
        const auto who = address(rng.below(people));
        const auto expected = content.accounts.find(who);
        const auto found = flat.account(who);
        ASSERT_EQ(found.has_value(), expected != content.accounts.end());
        if (found) {
            EXPECT_EQ(found->balance, expected->second.balance);
        }
        std::vector<Hash32> slots(4);
        for (auto& slot : slots) slot.data[31] = static_cast<std::uint8_t>(rng.below(6));
        const Hash32 root = roots_of(content).state_root;
        const auto proof = at.prove(root, who, slots);
        ASSERT_TRUE(proof) << proof.error().to_string();
        const auto proven = verify_trie_proof(root, crypto::keccak256(who), proof->nodes);
        ASSERT_TRUE(proven) << proven.error().to_string();
        ASSERT_EQ(proven->has_value(), found.has_value());
        EXPECT_EQ(proof->account, found.value_or(empty_account()));
        const auto expected_slots = content.slots.find(who);
        for (const auto& slot : proof->slots) {
            Hash32 value;
            if (expected_slots != content.slots.end()) {
                if (const auto word = expected_slots->second.find(slot.slot); word != expected_slots->second.end())
                    value = word->second;
            }
            EXPECT_EQ(slot.value, value);
            EXPECT_EQ(flat.storage(who, slot.slot), value);
            EXPECT_TRUE(
                verify_trie_proof(proof->account.storage_root, crypto::keccak256(slot.slot), slot.nodes).has_value());
        }
    }
    const Bytes prefix = {0x01};
    const Bytes from = native_key(rng.below(40));
    const std::size_t limit = 1 + rng.below(20);
    std::vector<std::pair<Bytes, Bytes>> all(content.natives.begin(), content.natives.end());
    EXPECT_EQ(flat.native_range(prefix, {}, 100), all);
    std::erase_if(all, [&](const auto& item) { return BytesLess()(item.first, from); });
    if (all.size() > limit) all.resize(limit);
    EXPECT_EQ(flat.native_range(prefix, from, limit), all);
    const auto native = content.natives.find(from);
    EXPECT_EQ(flat.native(from), native == content.natives.end() ? std::nullopt : std::optional(native->second));
    EXPECT_TRUE(flat.status()) << flat.status().error().to_string();
}

TEST(PastState, each_of_the_newest_states_is_read_and_proven_after_blocks_and_power_cuts) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        SeededRng rng(seed);
        const std::uint64_t people = seed % 3 == 0 ? 3 : 300;
        // Parts far behind the newest block, close to it, and in between.
        const std::size_t behind = seed % 3 == 1 ? kMaxChangesBehind : seed % 3 == 2 ? 6 : 200;
        Chain chain({behind, 40, false});
        for (int step = 0; step < 300; ++step) {
            chain.add_block(rng, people, rng.below(4) == 0);
            if (rng.below(20) == 0) chain.crash(rng);
            if (step % 10 != 0) continue;
            const std::uint64_t back = rng.below(std::min<std::uint64_t>(kKeptStates, chain.newest() + 1));
            const std::uint64_t number = chain.newest() - back;
            const PastState past(chain.store, chain.newest(), number);
            expect_state(past, chain.history[number], people, rng);
            if (::testing::Test::HasFailure()) FAIL() << seed << " " << step << " " << number;
        }
    }
}

TEST(PastState, a_snapshot_of_an_older_block_tells_of_that_block_and_older_ones) {
    SeededRng rng(5);
    Chain chain({6, 40, false});
    for (int i = 0; i < 200; ++i) chain.add_block(rng, 100, true);
    const auto snapshot = chain.store.snapshot();
    for (int i = 0; i < 300; ++i) chain.add_block(rng, 100, true);
    for (const std::uint64_t number : {200, 199, 120, 73}) {
        const PastState past(*snapshot, 200, number);
        expect_state(past, chain.history[number], 100, rng);
    }
}

TEST(PastState, what_older_states_would_need_is_forgotten) {
    SeededRng rng(6);
    Chain chain({6, 40, false});
    std::size_t most = 0;
    for (int i = 0; i < 1500; ++i) {
        chain.add_block(rng, 100, true);
        if (i == 700) most = count(chain.store, Table::changes);
    }
    EXPECT_LE(count(chain.store, Table::changes), most * 5 / 4);
    std::uint64_t oldest = chain.newest();
    ASSERT_TRUE(chain.store.for_each(table_key(Table::changes), {}, [&](BytesView key, BytesView) {
        oldest = std::min(oldest, Uint256::from_be(key.last(8)).low_u64());
        return true;
    }));
    EXPECT_GT(oldest, chain.newest() - 2 * kKeptStates - kTrieParts);
}

TEST(PastState, a_proof_that_takes_too_much_is_refused_as_busy) {
    SeededRng rng(3);  // by which block 3 changes the part of address 1
    Chain chain({6, 40, false});
    for (int i = 0; i < 3; ++i) chain.add_block(rng, 100, true);
    ASSERT_FALSE(chain.history[2].accounts.empty());
    Bytes changes;
    for (std::uint64_t i = 0; i <= kMaxChangesForProof; ++i) {
        types::Address who;
        std::copy_n(be64(i).data.begin(), 8, who.data.begin());
        append_change(changes, who, std::nullopt);
    }
    store::WriteBatch batch;
    for (std::size_t part = 0; part < kAccountParts; ++part) batch.put(changes_key(part, 3), changes);
    ASSERT_TRUE(chain.store.write(batch, true));
    const auto proof = PastState(chain.store, 3, 2).prove(roots_of(chain.history[2]).state_root, address(1), {});
    ASSERT_FALSE(proof);
    EXPECT_EQ(proof.error().name, "state.too_many_changes");
    EXPECT_TRUE(proof.error().is_busy());
}

TEST(PastState, damage_is_a_fault_and_never_another_proof) {
    SeededRng rng(8);
    Chain chain({6, 40, false});
    for (int i = 0; i < 60; ++i) chain.add_block(rng, 100, true);
    const std::uint64_t number = 30;
    std::size_t refused = 0;
    for (int i = 0; i < 300; ++i) {
        // What the proof of this account rests on.
        const auto who = address(rng.below(100));
        const std::size_t part = part_of(who);
        std::vector<Bytes> keys = {above_key(kTopNode), above_key(static_cast<std::uint8_t>(part / 16))};
        for (const Bytes& prefix : {changes_key(part), part_prefix(part), changes_key(kAbovePart)})
            ASSERT_TRUE(chain.store.for_each(prefix, {}, [&](BytesView key, BytesView) {
                keys.push_back(to_bytes(key));
                return true;
            }));
        const Bytes key = keys[rng.below(keys.size())];
        if (!chain.store.get(key).value()) continue;
        const auto good = chain.store.get(key).value();
        store::WriteBatch damage;
        if (rng.below(2) == 0) {
            damage.erase(key);
        } else {
            Bytes bad = *good;
            bad[rng.below(bad.size())] ^= static_cast<std::uint8_t>(1U << rng.below(8));
            damage.put(key, bad);
        }
        ASSERT_TRUE(chain.store.write(damage, true));
        const auto proof =
            PastState(chain.store, chain.newest(), number).prove(roots_of(chain.history[number]).state_root, who, {});
        if (!proof) {
            EXPECT_TRUE(proof.error().is_local_fault()) << proof.error().to_string();
            ++refused;
        } else {
            const auto expected = chain.history[number].accounts.find(who);
            EXPECT_EQ(proof->account.balance,
                      expected == chain.history[number].accounts.end() ? Uint256() : expected->second.balance);
        }
        store::WriteBatch mend;
        mend.put(key, *good);
        ASSERT_TRUE(chain.store.write(mend, true));
    }
    EXPECT_GT(refused, 10U);
}

TEST(RevertState, goes_back_to_any_kept_state_and_on_from_there) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        SeededRng rng(200 + seed);
        const std::uint64_t people = seed % 3 == 0 ? 3 : 300;
        Chain chain({seed % 2 == 0 ? std::size_t{6} : kMaxChangesBehind, 40, false});
        for (int i = 0; i < 200; ++i) chain.add_block(rng, people, true);
        for (int turn = 0; turn < 4; ++turn) {
            const std::uint64_t newest = chain.newest();
            const std::uint64_t oldest = oldest_state(chain.store, newest).value();
            const std::uint64_t number = oldest + rng.below(newest - oldest + 1);
            store::WriteBatch batch;
            ASSERT_TRUE(revert_state(chain.store, newest, number, batch));
            batch.put(table_key(Table::head), be64(number).view());
            chain.tries.reset();
            ASSERT_TRUE(chain.store.write(batch, true));
            chain.history.resize(number + 1);
            chain.open();
            // What was forgotten before is not told of now.
            EXPECT_EQ(oldest_state(chain.store, number).value(), oldest);
            expect_state(PastState(chain.store, number, number), chain.history[number], people, rng);
            expect_state(PastState(chain.store, number, oldest), chain.history[oldest], people, rng);
            for (int i = 0; i < 20; ++i) chain.add_block(rng, people, true);
            expect_state(PastState(chain.store, chain.newest(), number), chain.history[number], people, rng);
            if (::testing::Test::HasFailure()) FAIL() << seed << " " << turn << " " << number;
        }
        store::WriteBatch batch;
        const std::uint64_t newest = chain.newest();
        const std::uint64_t oldest = oldest_state(chain.store, newest).value();
        EXPECT_EQ(revert_state(chain.store, newest, oldest - 1, batch).error().name, "state.not_kept");
        EXPECT_EQ(revert_state(chain.store, newest, newest + 1, batch).error().name, "state.not_kept");
    }
}

TEST(ArchiveState, every_state_since_the_first_is_read_and_proven) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        SeededRng rng(100 + seed);
        const std::uint64_t people = seed == 0 ? 3 : 300;
        Chain chain({200, 40, true});
        for (int i = 0; i < 400; ++i) {
            chain.add_block(rng, people, rng.below(4) == 0);
            if (rng.below(30) == 0) chain.crash(rng);
        }
        for (int i = 0; i < 60; ++i) {
            const std::uint64_t number = rng.below(chain.history.size());
            const Content& content = chain.history[number];
            const ArchiveState past(chain.store, roots_of(content));
            expect_state(past, content, people, rng);
            if (::testing::Test::HasFailure()) FAIL() << seed << " " << number;
        }
    }
}

TEST(ArchiveState, a_lost_or_damaged_node_is_a_fault) {
    SeededRng rng(9);
    Chain chain({200, 40, true});
    for (int i = 0; i < 20; ++i) chain.add_block(rng, 100, true);
    const Roots roots = roots_of(chain.history[10]);
    const ArchiveState past(chain.store, roots);
    const Bytes good = chain.store.get(archive_key(roots.state_root)).value().value();
    store::WriteBatch damage;
    damage.put(archive_key(roots.state_root), Bytes{0xc1, 0x80});
    ASSERT_TRUE(chain.store.write(damage, true));
    EXPECT_EQ(past.prove(roots.state_root, address(1), {}).error().name, "trie.corrupt_node");
    const FlatState flat(past);
    EXPECT_FALSE(flat.account(address(1)));
    EXPECT_FALSE(flat.status());
    store::WriteBatch loss;
    loss.erase(archive_key(roots.state_root));
    ASSERT_TRUE(chain.store.write(loss, true));
    EXPECT_EQ(past.prove(roots.state_root, address(1), {}).error().name, "trie.missing_node");
}

TEST(ArchiveState, tables_of_the_state_without_an_order_are_not_visited) {
    const store::MemoryStore store;
    const store::Reader::Visitor all = [](BytesView, BytesView) { return true; };
    EXPECT_EQ(ArchiveState(store, Roots{}).for_each(table_key(Table::account), {}, all).error().name,
              "state.not_ordered");
    EXPECT_EQ(PastState(store, 1, 0).for_each(table_key(Table::account), {}, all).error().name, "state.not_ordered");
    EXPECT_TRUE(ArchiveState(store, Roots{}).for_each(table_key(Table::native), {}, all));
}

}  // namespace
}  // namespace quern::chain::state
