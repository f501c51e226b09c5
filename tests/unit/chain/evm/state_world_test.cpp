#include "chain/evm/state_world.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/rng.h"
#include "chain/state/flat_state.h"
#include "chain/state/state_tries.h"
#include "chain/store/memory_kv.h"
#include "crypto/hash.h"

namespace quern::chain::evm {
namespace {

using state::Account;
using state::Overlay;
using vm::evm::Address;

Address address(int number) {
    Address result;
    result.data[19] = static_cast<std::uint8_t>(number);
    return result;
}

Account with_balance(std::uint64_t balance) {
    Account account = state::empty_account();
    account.balance = balance;
    return account;
}

class NumberedHashes final : public BlockHashes {
public:
    Hash32 block_hash(std::uint64_t number) const override { return Uint256(number + 1).to_be32(); }
};

class WorldOnStore : public ::testing::Test {
protected:
    static constexpr std::uint64_t kBlock = 1'000;

    // What was written goes into the store.
    void commit(const Overlay& overlay) {
        const auto done = state::commit_overlay(overlay, roots, store);
        ASSERT_TRUE(done) << done.error().to_string();
        roots = *done;
    }
    static Hash32 word(std::uint64_t number) { return Uint256(number).to_be32(); }

    store::MemoryStore store;
    state::Roots roots;
    state::FlatState flat{store};
    CodeCache codes;
    NumberedHashes hashes;
};

TEST_F(WorldOnStore, a_revert_undoes_what_lasts_and_what_is_of_the_transaction) {
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    world.set_balance(address(1), 5);
    world.set_transient(address(1), 7, 70);
    EXPECT_FALSE(world.access_account(address(1)));
    const auto point = world.snapshot();
    EXPECT_TRUE(world.access_account(address(1)));
    EXPECT_FALSE(world.access_account(address(2)));
    EXPECT_FALSE(world.access_slot(address(1), 3).was_warm);
    world.set_storage(address(1), 3, 9);
    world.set_balance(address(1), 6);
    world.set_nonce(address(2), 1);
    world.set_code(address(2), Bytes{0x5b});
    world.create_contract(address(3));
    EXPECT_TRUE(world.is_new(address(3)));
    EXPECT_TRUE(world.mark_destroyed(address(3)));
    EXPECT_FALSE(world.mark_destroyed(address(3)));
    world.set_transient(address(1), 7, 71);
    world.set_transient(address(1), 8, 80);
    world.add_log({address(1), {word(1)}, {2}});
    const auto inner = world.snapshot();
    world.set_transient(address(1), 7, 72);
    world.revert_to(inner);
    EXPECT_EQ(world.transient(address(1), 7), Uint256(71));
    world.revert_to(point);
    EXPECT_EQ(world.balance(address(1)), Uint256(5));
    EXPECT_TRUE(world.is_empty(address(2)));
    EXPECT_TRUE(world.code(address(2))->bytes().empty());
    EXPECT_FALSE(world.is_new(address(3)));
    EXPECT_TRUE(world.mark_destroyed(address(3)));
    EXPECT_EQ(world.transient(address(1), 7), Uint256(70));
    EXPECT_EQ(world.transient(address(1), 8), Uint256());
    EXPECT_TRUE(world.access_account(address(1)));
    EXPECT_FALSE(world.access_account(address(2)));
    const auto slot = world.access_slot(address(1), 3);
    EXPECT_FALSE(slot.was_warm);
    EXPECT_TRUE(slot.value.is_zero());
    EXPECT_TRUE(overlay.take_logs().empty());
}

TEST_F(WorldOnStore, a_transaction_begins_with_nothing_warm_transient_new_or_destroyed) {
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    world.access_account(address(1));
    (void)world.access_slot(address(1), 1);
    world.set_storage(address(1), 1, 4);
    world.set_transient(address(1), 1, 5);
    world.create_contract(address(2));
    world.set_balance(address(2), 3);
    world.end_transaction(true);
    world.begin_transaction();
    EXPECT_FALSE(world.access_account(address(1)));
    EXPECT_FALSE(world.is_new(address(2)));
    EXPECT_TRUE(world.transient(address(1), 1).is_zero());
    const auto slot = world.access_slot(address(1), 1);
    EXPECT_FALSE(slot.was_warm);
    EXPECT_EQ(slot.value, Uint256(4));
    EXPECT_EQ(slot.original, Uint256(4));
    world.mark_destroyed(address(1));
    world.begin_transaction();
    world.end_transaction(true);
    EXPECT_EQ(world.balance(address(2)), Uint256(3));
    EXPECT_EQ(world.access_slot(address(1), 1).value, Uint256(4));
}

TEST_F(WorldOnStore, originals_are_of_the_transactions_beginning) {
    Overlay below(flat);
    below.set_account(address(1), with_balance(1));
    below.set_storage(address(1), word(1), word(10));
    commit(below);
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    world.set_storage(address(1), 1, 11);  // nobody looked before
    EXPECT_EQ(world.access_slot(address(1), 1).original, Uint256(10));
    world.set_storage(address(1), 1, 12);
    EXPECT_EQ(world.access_slot(address(1), 1).original, Uint256(10));
    // A contract that is made now has had nothing, until that is reverted.
    const auto point = world.snapshot();
    world.create_contract(address(1));
    EXPECT_TRUE(world.access_slot(address(1), 1).original.is_zero());
    EXPECT_TRUE(world.access_slot(address(1), 2).value.is_zero());
    world.set_storage(address(1), 2, 20);
    EXPECT_TRUE(world.access_slot(address(1), 2).original.is_zero());
    world.revert_to(point);
    EXPECT_EQ(world.access_slot(address(1), 1).original, Uint256(10));
    EXPECT_EQ(world.access_slot(address(1), 1).value, Uint256(12));
    EXPECT_TRUE(world.access_slot(address(1), 2).value.is_zero());
    world.end_transaction(true);
    world.begin_transaction();
    EXPECT_EQ(world.access_slot(address(1), 1).original, Uint256(12));
}

TEST_F(WorldOnStore, a_contract_that_is_destroyed_and_made_again_begins_with_nothing) {
    Overlay below(flat);
    below.set_account(address(1), with_balance(1));
    for (std::uint64_t i = 1; i < 20; ++i) below.set_storage(address(1), word(i), word(10 * i));
    commit(below);
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    EXPECT_TRUE(world.has_storage(address(1)));
    world.begin_transaction();
    world.set_storage(address(1), 30, 1);
    world.mark_destroyed(address(1));
    EXPECT_EQ(world.access_slot(address(1), 1).value, Uint256(10));  // until the end
    world.end_transaction(true);
    EXPECT_FALSE(world.exists(address(1)));
    EXPECT_FALSE(world.has_storage(address(1)));

    world.begin_transaction();
    world.create_contract(address(1));
    world.set_nonce(address(1), 1);
    for (std::uint64_t i = 1; i < 31; ++i) EXPECT_TRUE(world.access_slot(address(1), i).value.is_zero()) << i;
    world.set_storage(address(1), 2, 22);
    EXPECT_TRUE(world.has_storage(address(1)));
    world.end_transaction(true);
    world.begin_transaction();
    EXPECT_EQ(world.access_slot(address(1), 2).original, Uint256(22));

    commit(overlay);
    EXPECT_EQ(flat.storage(address(1), word(2)), word(22));
    EXPECT_TRUE(flat.storage(address(1), word(3)).is_zero());
    EXPECT_TRUE(flat.storage(address(1), word(30)).is_zero());
    const std::vector<std::pair<Bytes, Bytes>> slots = {{to_bytes(word(2)), Bytes{22}}};
    EXPECT_EQ(flat.account(address(1))->storage_root, state::secure_trie_root(slots));
}

TEST_F(WorldOnStore, a_destroyed_account_is_gone_with_what_it_got_later) {
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    world.create_contract(address(1));
    world.set_nonce(address(1), 1);
    world.mark_destroyed(address(1));
    world.set_balance(address(1), 7);
    const auto point = world.snapshot();
    world.create_contract(address(2));
    world.set_nonce(address(2), 1);
    world.revert_to(point);
    world.end_transaction(true);
    EXPECT_TRUE(world.is_empty(address(1)));
    EXPECT_FALSE(overlay.account(address(1)));
    EXPECT_FALSE(overlay.account(address(2)));
}

TEST_F(WorldOnStore, touched_accounts_that_are_empty_go_with_their_storage) {
    // An empty account in the state, as before EIP-161.
    struct WithEmpty final : state::StateReader {
        std::optional<Account> account(const types::Address& who) const override {
            if (who == address(9)) return std::nullopt;
            Account account = state::empty_account();
            account.storage_root = crypto::keccak256({});
            return account;
        }
        Bytes code(const Hash32&) const override { return {}; }
        Hash32 storage(const types::Address&, const Hash32&) const override { return word(1); }
        std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
        std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override {
            return {};
        }
    } const base;
    const auto run = [&](Overlay& overlay) {
        StateWorld world(overlay, codes, hashes, kBlock);
        world.begin_transaction();
        world.touch(address(1));
        world.set_balance(address(2), 0);
        world.touch(address(4));
        world.set_balance(address(4), 1);
        world.touch(address(9));
        const auto point = world.snapshot();
        world.touch(address(3));
        world.touch(address(5));
        world.revert_to(point);
        world.end_transaction(!overlay.keeps_empty());
    };
    Overlay overlay(base);
    run(overlay);
    for (const int gone : {1, 2, 3}) {  // RIPEMD-160, which is 3, in spite of the revert
        EXPECT_FALSE(overlay.account(address(gone))) << gone;
        EXPECT_TRUE(overlay.storage(address(gone), word(1)).is_zero()) << gone;
    }
    for (const int kept : {4, 5, 6}) {
        EXPECT_TRUE(overlay.account(address(kept))) << kept;
        EXPECT_EQ(overlay.storage(address(kept), word(1)), word(1)) << kept;
    }
    EXPECT_FALSE(overlay.account(address(9)));

    Overlay before_eip161(base, state::EmptyAccounts::kept);
    run(before_eip161);
    for (const int there : {1, 2, 3, 4, 5, 9}) EXPECT_TRUE(before_eip161.account(address(there))) << there;
}

TEST_F(WorldOnStore, what_does_not_change_is_not_written) {
    Overlay below(flat);
    below.set_account(address(1), with_balance(1));
    below.set_storage(address(1), word(1), word(10));
    commit(below);
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    world.set_balance(address(1), 1);
    world.set_balance(address(2), 0);
    world.touch(address(1));
    world.touch(address(3));
    world.set_storage(address(1), 1, 10);
    (void)world.access_slot(address(1), 2);
    world.end_transaction(true);
    EXPECT_TRUE(overlay.changed_accounts().empty());
    EXPECT_TRUE(overlay.changed_storage().empty());
}

TEST_F(WorldOnStore, code_is_analysed_once_for_all_who_have_it) {
    const Bytes code = {0x60, 0x00, 0x5b};
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    world.begin_transaction();
    EXPECT_TRUE(world.code(address(1))->bytes().empty());
    EXPECT_EQ(world.code_hash(address(1)), crypto::keccak256({}));
    world.set_code(address(1), code);
    world.set_code(address(2), code);
    EXPECT_EQ(world.code_hash(address(1)), crypto::keccak256(code));
    EXPECT_EQ(to_bytes(world.code(address(1))->bytes()), code);
    EXPECT_EQ(world.code(address(1)), world.code(address(2)));
    StateWorld other(overlay, codes, hashes, kBlock + 1);
    EXPECT_EQ(other.code(address(1)), world.code(address(1)));
    world.set_code(address(1), Bytes{0x5b});
    EXPECT_EQ(to_bytes(world.code(address(1))->bytes()), Bytes{0x5b});
    world.set_code(address(1), {});
    EXPECT_TRUE(world.code(address(1))->bytes().empty());
    EXPECT_EQ(world.code_hash(address(1)), crypto::keccak256({}));
}

// A store that fails must not make others believe that the contract has no code.
TEST_F(WorldOnStore, code_that_cannot_be_read_is_not_remembered) {
    const Bytes code = {0x5b};
    Account account = with_balance(1);
    account.code_hash = crypto::keccak256(code);
    Overlay overlay(flat);
    overlay.set_account(address(1), account);
    StateWorld world(overlay, codes, hashes, kBlock);
    EXPECT_TRUE(world.code(address(1))->bytes().empty());
    EXPECT_EQ(codes.size(), 0U);
    overlay.set_code(account.code_hash, code);
    EXPECT_EQ(to_bytes(world.code(address(1))->bytes()), code);
}

TEST_F(WorldOnStore, tells_hashes_of_the_256_blocks_before) {
    Overlay overlay(flat);
    StateWorld world(overlay, codes, hashes, kBlock);
    EXPECT_EQ(world.block_hash(kBlock - 1), word(kBlock));
    EXPECT_EQ(world.block_hash(kBlock - 256), word(kBlock - 255));
    for (const std::uint64_t none : {std::uint64_t{0}, kBlock - 257, kBlock, kBlock + 1, ~std::uint64_t{0}})
        EXPECT_TRUE(world.block_hash(none).is_zero()) << none;
    StateWorld young(overlay, codes, hashes, 3);
    EXPECT_EQ(young.block_hash(0), word(1));
}

// The world as its definition: a copy of everything for each point.
struct PlainWorld {
    std::map<Address, std::uint64_t> balances;  // of those that are there: their nonce is 1
    std::map<std::pair<Address, std::uint64_t>, std::uint64_t> slots, originals, transients;
    std::set<Address> warm, made, destroyed;
    std::set<std::pair<Address, std::uint64_t>> warm_slots;

    void clear(const Address& who) {
        std::erase_if(slots, [&](const auto& slot) { return slot.first.first == who; });
    }
};

TEST_F(WorldOnStore, random_transactions_agree_with_copies_of_everything) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SeededRng rng(seed);
        store::MemoryStore disk;
        const state::FlatState tables(disk);
        state::Roots last;
        PlainWorld plain;
        for (int block = 0; block < 6; ++block) {
            Overlay overlay(tables);
            StateWorld world(overlay, codes, hashes, kBlock);
            for (int transaction = 0; transaction < 8; ++transaction) {
                world.begin_transaction();
                plain.originals = plain.slots;
                plain.transients.clear();
                for (auto* set : {&plain.warm, &plain.made, &plain.destroyed}) set->clear();
                plain.warm_slots.clear();
                std::vector<std::pair<std::size_t, PlainWorld>> points;
                for (int step = 0; step < 60; ++step) {
                    const Address who = address(static_cast<int>(10 + rng.below(6)));
                    const std::uint64_t key = rng.below(4);
                    const std::uint64_t value = rng.below(4);
                    // Storage of an account that is otherwise empty has no place in a state.
                    const auto make = [&] {
                        world.set_nonce(who, 1);
                        plain.balances.try_emplace(who, 0);
                    };
                    switch (rng.below(11)) {
                        case 0:
                            points.emplace_back(world.snapshot(), plain);
                            break;
                        case 1:
                            if (points.empty()) break;
                            points.resize(1 + rng.below(points.size()));
                            world.revert_to(points.back().first);
                            plain = points.back().second;
                            points.pop_back();
                            break;
                        case 2:
                            make();
                            world.set_balance(who, value);
                            plain.balances[who] = value;
                            break;
                        case 3:
                        case 4:
                            make();
                            world.set_storage(who, key, value);
                            plain.slots.erase({who, key});
                            if (value != 0) plain.slots[{who, key}] = value;
                            break;
                        case 5:
                            world.set_transient(who, key, value);
                            plain.transients[{who, key}] = value;
                            break;
                        case 6:
                            if (rng.below(4) != 0) break;
                            world.create_contract(who);
                            make();
                            plain.clear(who);
                            plain.made.insert(who);
                            break;
                        case 7:
                            if (rng.below(4) != 0) break;
                            ASSERT_EQ(world.mark_destroyed(who), plain.destroyed.insert(who).second);
                            break;
                        case 8:
                            ASSERT_EQ(world.access_account(who), !plain.warm.insert(who).second);
                            break;
                        case 9: {
                            const auto slot = world.access_slot(who, key);
                            ASSERT_EQ(slot.was_warm, !plain.warm_slots.insert({who, key}).second);
                            const auto now = plain.slots.find({who, key});
                            ASSERT_EQ(slot.value, Uint256(now == plain.slots.end() ? 0 : now->second));
                            const auto before = plain.originals.find({who, key});
                            const bool has_been = before != plain.originals.end() && !plain.made.contains(who);
                            ASSERT_EQ(slot.original, Uint256(has_been ? before->second : 0)) << seed << " " << step;
                            break;
                        }
                        default: {
                            const auto balance = plain.balances.find(who);
                            ASSERT_EQ(world.balance(who),
                                      Uint256(balance == plain.balances.end() ? 0 : balance->second));
                            const auto kept = plain.transients.find({who, key});
                            ASSERT_EQ(world.transient(who, key),
                                      Uint256(kept == plain.transients.end() ? 0 : kept->second));
                            ASSERT_EQ(world.is_new(who), plain.made.contains(who));
                        }
                    }
                }
                world.end_transaction(true);
                for (const Address& who : plain.destroyed) {
                    plain.balances.erase(who);
                    plain.clear(who);
                }
                if (rng.below(2) == 0) overlay.settle();
            }
            const auto done = state::commit_overlay(overlay, last, disk);
            ASSERT_TRUE(done) << done.error().to_string();
            last = *done;
            for (const auto& [who, balance] : plain.balances) {
                Account account = with_balance(balance);
                account.nonce = 1;
                std::vector<std::pair<Bytes, Bytes>> slots;
                for (const auto& [place, value] : plain.slots)
                    if (place.first == who)
                        slots.emplace_back(to_bytes(word(place.second)), Bytes{static_cast<std::uint8_t>(value)});
                account.storage_root = state::secure_trie_root(slots);
                ASSERT_EQ(tables.account(who), account) << seed << " " << block;
            }
            for (int i = 10; i < 16; ++i)
                ASSERT_EQ(tables.account(address(i)).has_value(), plain.balances.contains(address(i)));
            for (std::uint8_t i = 10; i < 16; ++i)
                for (std::uint64_t key = 0; key < 4; ++key) {
                    const auto kept = plain.slots.find({address(i), key});
                    ASSERT_EQ(tables.storage(address(i), word(key)),
                              word(kept == plain.slots.end() ? 0 : kept->second));
                }
        }
    }
}

}  // namespace
}  // namespace quern::chain::evm
