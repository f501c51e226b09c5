// Blocks on parents that are not final yet: built, validated, committed in order, dropped.
#include "base/big_endian.h"
#include "base/rng.h"
#include "chain/store/tables.h"
#include "chain_fixture.h"
#include "crypto/hash.h"

namespace quern::node {
namespace {

namespace consensus = chain::consensus;
namespace store = chain::store;
using consensus::BuiltBlock;

// Another node of the same network, with its own disk and pool.
class OtherNode {
public:
    explicit OtherNode(ThreadPool& threads, const Clock& clock, std::uint8_t beneficiary)
        : setup_(std::move(*open_chain_database(disk_, test_genesis_text()))),
          pool_(setup_.genesis.params),
          chain_(std::move(
              *Chain::open({disk_, setup_, pool_, threads, clock, test_address(beneficiary), std::nullopt, 0}))) {}
    [[nodiscard]] Chain& chain() { return *chain_; }
    [[nodiscard]] const store::MemoryStore& disk() const { return disk_; }
    void submit(const Bytes& encoded) {
        const auto latest = chain_->board().latest();
        ASSERT_TRUE(pool_.add(*types::recover(encoded), latest->state, latest->number()).pooled);
    }

private:
    store::MemoryStore disk_;
    ChainSetup setup_;
    chain::mempool::Pool pool_;
    std::unique_ptr<Chain> chain_;
};

using Rows = std::map<Bytes, Bytes, BytesLess>;

class SpeculationTest : public ChainFixture {
protected:
    // On a block that has no certificate of its own here: any bytes do, the core checks them.
    [[nodiscard]] consensus::sdbft::BlockRequest on(const BuiltBlock& parent) const {
        return request_on(tip_of(parent), consensus::encode(finalize(tip_of(parent))));
    }
    BuiltBlock build(const consensus::sdbft::BlockRequest& request) {
        auto built = chain_->build_block(request);
        EXPECT_TRUE(built) << built.error().to_string();
        return built.value_or(BuiltBlock{});
    }
    Status commit_ancestor(const BuiltBlock& built) {
        QUERN_CHECK(chain_->commit(built.hash, built.block, std::nullopt));
        return {};
    }
    [[nodiscard]] static std::size_t transactions_in(const BuiltBlock& built) {
        return types::decode_block(built.block)->transactions.size();
    }
    // What the database says after everything: chain, state and tries.
    [[nodiscard]] static Rows rows(const store::Reader& reader) {
        Rows all;
        EXPECT_TRUE(reader.for_each({}, {}, [&](BytesView key, BytesView value) {
            all[to_bytes(key)] = to_bytes(value);
            return true;
        }));
        return all;
    }
    // But for parts of the tries: a power cut takes those that no block's sync covered, and they are written again as
    // of a later block.
    [[nodiscard]] static Rows rows_but_parts(const store::Reader& reader) {
        Rows all = rows(reader);
        std::erase_if(all, [](const auto& row) {
            const auto table = static_cast<store::Table>(row.first[0]);
            return table == store::Table::account_trie || table == store::Table::native_trie ||
                   table == store::Table::trie_part;
        });
        return all;
    }
};

TEST_F(SpeculationTest, a_committed_block_is_valid_when_the_question_comes_late) {
    const auto first = build(next_request());
    const auto sibling = build(on(first));
    ASSERT_TRUE(commit_ancestor(first));
    const auto second = build(next_request());
    ASSERT_TRUE(commit_ancestor(second));
    EXPECT_TRUE(chain_->validate_block(first.hash, first.block));
    EXPECT_TRUE(chain_->validate_block(second.hash, second.block));
    ASSERT_NE(sibling.hash, second.hash);
    const auto late = chain_->validate_block(sibling.hash, sibling.block);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().name, "block.unknown_parent");
}

TEST_F(SpeculationTest, blocks_follow_blocks_that_are_not_final) {
    std::vector<Hash32> hashes;
    hashes.push_back(submit(1, transfer(0, 5)));
    const auto first = build(next_request());
    hashes.push_back(submit(1, transfer(1, 6)));
    hashes.push_back(submit(2, bond(0, chain::params::kGrainsPerQrn)));
    const auto second = build(on(first));
    hashes.push_back(submit(1, transfer(2, 7)));
    const auto third = build(on(second));
    EXPECT_EQ(transactions_in(first), 1U);
    EXPECT_EQ(transactions_in(second), 2U);
    EXPECT_EQ(transactions_in(third), 1U);
    EXPECT_EQ(chain_->prepared_blocks(), 3U);
    EXPECT_EQ(reader_->head_number(), 0U);
    EXPECT_EQ(balance(test_address(50)), 0);

    ASSERT_TRUE(commit_ancestor(first));
    EXPECT_EQ(balance(test_address(50)), 5);
    EXPECT_TRUE(chain_->tip_certificate().empty());
    ASSERT_TRUE(commit_ancestor(second));
    ASSERT_TRUE(commit(third));
    EXPECT_EQ(balance(test_address(50)), 18);
    EXPECT_EQ(chain_->prepared_blocks(), 0U);
    EXPECT_EQ(chain_->tip().hash, third.hash);
    EXPECT_EQ(pool_->status().transactions, 0U);
    for (const auto& hash : hashes) EXPECT_TRUE(reader_->receipt(hash)->receipt.success);
    EXPECT_TRUE(make_block());
}

TEST_F(SpeculationTest, a_committed_block_drops_its_siblings_and_their_children) {
    submit(1, transfer(0, 5));
    const auto loser = build(next_request());
    const auto losers_child = build(on(loser));
    const auto losers_grandchild = build(on(losers_child));
    clock_.advance(5);
    submit(2, transfer(0, 3));
    const auto winner = build(next_request());
    ASSERT_NE(winner.hash, loser.hash);
    const auto winners_child = build(on(winner));
    submit(2, transfer(1, 4));
    const auto winners_grandchild = build(on(winners_child));
    EXPECT_EQ(chain_->prepared_blocks(), 6U);

    ASSERT_TRUE(commit(winner));
    EXPECT_EQ(chain_->prepared_blocks(), 2U);
    EXPECT_EQ(chain_->validate_block(losers_child.hash, losers_child.block).error().name, "block.unknown_parent");
    EXPECT_EQ(chain_->commit(losers_child.hash, losers_child.block, {}).error().name, "block.unknown_parent");
    EXPECT_EQ(chain_->build_block(on(losers_grandchild)).error().name, "block.unknown_parent");
    ASSERT_TRUE(commit(winners_child));
    ASSERT_TRUE(commit(winners_grandchild));
    EXPECT_EQ(balance(test_address(50)), 12);
    EXPECT_EQ(reader_->head_number(), 3U);
}

TEST_F(SpeculationTest, blocks_of_another_node_are_validated_in_order) {
    OtherNode other(threads_, clock_, 101);
    std::vector<BuiltBlock> blocks;
    for (std::uint64_t nonce = 0; nonce < 3; ++nonce) {
        other.submit(signed_by(1, transfer(nonce, 2)));
        auto built = other.chain().build_block(blocks.empty() ? next_request() : on(blocks.back()));
        ASSERT_TRUE(built);
        blocks.push_back(std::move(*built));
    }
    EXPECT_EQ(chain_->validate_block(blocks[1].hash, blocks[1].block).error().name, "block.unknown_parent");
    for (const auto& block : blocks) {
        ASSERT_TRUE(chain_->validate_block(block.hash, block.block));
        ASSERT_TRUE(chain_->validate_block(block.hash, block.block));  // once more costs nothing
    }
    EXPECT_EQ(chain_->prepared_blocks(), 3U);
    EXPECT_EQ(commit(blocks[1]).error().name, "block.wrong_parent");
    for (const auto& block : blocks) {
        ASSERT_TRUE(commit(block));
        ASSERT_TRUE(other.chain().commit(block.hash, block.block, finalize(tip_of(block))));
    }
    EXPECT_EQ(rows(*store_), rows(other.disk()));
}

TEST_F(SpeculationTest, final_blocks_are_committed_without_having_been_validated) {
    OtherNode other(threads_, clock_, 101);
    for (std::uint64_t nonce = 0; nonce < 4; ++nonce) {
        other.submit(signed_by(1, transfer(nonce, 2)));
        const auto built = other.chain().build_block(request_on(other.chain().tip(), other.chain().tip_certificate()));
        ASSERT_TRUE(built);
        ASSERT_TRUE(other.chain().commit(built->hash, built->block, finalize(tip_of(*built))));
        auto damaged = *types::decode_block(built->block);
        damaged.transactions.clear();
        EXPECT_EQ(chain_->commit(built->hash, types::encode(damaged), {}).error().name, "block.wrong_gas");
        ASSERT_TRUE(commit(*built));
        EXPECT_EQ(chain_->commit(built->hash, built->block, {}).error().name, "block.unknown_parent");
    }
    EXPECT_EQ(rows(*store_), rows(other.disk()));
    restart_after_power_loss();
    EXPECT_EQ(chain_->tip(), other.chain().tip());
}

TEST_F(SpeculationTest, only_the_bytes_that_were_executed_are_committed) {
    const auto built = build(next_request());
    auto other = built.block;
    other.back() ^= 1;
    EXPECT_EQ(chain_->validate_block(built.hash, other).error().name, "block.other_bytes");
    EXPECT_EQ(chain_->commit(built.hash, other, {}).error().name, "block.other_bytes");
    EXPECT_TRUE(commit(built));
}

TEST_F(SpeculationTest, what_was_not_committed_is_gone_after_a_restart) {
    submit(1, transfer(0, 5));
    const auto first = build(next_request());
    submit(1, transfer(1, 6));
    const auto second = build(on(first));
    restart_after_power_loss();
    EXPECT_EQ(chain_->tip().number, 0U);
    EXPECT_EQ(chain_->validate_block(second.hash, second.block).error().name, "block.unknown_parent");
    ASSERT_TRUE(chain_->validate_block(first.hash, first.block));
    ASSERT_TRUE(chain_->validate_block(second.hash, second.block));
    ASSERT_TRUE(commit_ancestor(first));
    restart_after_power_loss();
    EXPECT_EQ(chain_->tip().hash, first.hash);
    EXPECT_TRUE(chain_->tip_certificate().empty());
    ASSERT_TRUE(commit(second));
    restart_after_power_loss();
    EXPECT_EQ(chain_->tip().hash, second.hash);
    EXPECT_EQ(chain_->tip_certificate(), consensus::encode(finalize(tip_of(second))));
    EXPECT_EQ(balance(test_address(50)), 11);
}

TEST_F(SpeculationTest, a_store_that_fails_in_a_commit_changes_nothing) {
    submit(1, transfer(0, 5));
    const auto first = build(next_request());
    const auto second = build(on(first));
    const auto before = rows(durable_);
    store_->fail_writes_after(0);
    EXPECT_EQ(commit(first).error().name, "store.io");
    EXPECT_EQ(rows(durable_), before);
    stop();
    store_ = std::make_unique<store::FaultStore>(durable_);
    start();
    ASSERT_TRUE(commit(first));
    ASSERT_TRUE(commit(second));
    EXPECT_EQ(balance(test_address(50)), 5);
}

TEST_F(SpeculationTest, the_base_fee_follows_the_parent) {
    const auto base_fee = [](const BuiltBlock& block) {
        return types::decode_block(block.block)->header.base_fee_per_gas;
    };
    const auto first = build(next_request());
    const auto second = build(on(first));
    EXPECT_LT(base_fee(second), base_fee(first));  // the first one is empty
    auto request = on(first);
    request.timestamp_ms += 1;
    auto wrong = *types::decode_block(build(request).block);
    wrong.header.base_fee_per_gas = base_fee(first);
    EXPECT_EQ(chain_->validate_block(types::hash_of(wrong.header), types::encode(wrong)).error().name,
              "block.wrong_base_fee");
}

TEST_F(SpeculationTest, a_transaction_of_an_ancestor_waits_in_the_pool_until_that_is_final) {
    const Hash32 hash = submit(1, transfer(0, 5));
    const auto with = build(next_request());
    const auto child = build(on(with));
    EXPECT_EQ(transactions_in(with), 1U);
    EXPECT_EQ(transactions_in(child), 0U);
    EXPECT_NE(pool_->find(hash), nullptr);

    // Another node's block wins, which does not have it.
    OtherNode other(threads_, clock_, 101);
    const auto without = other.chain().build_block(next_request());
    ASSERT_TRUE(without);
    ASSERT_TRUE(commit(*without));
    const auto next = build(next_request());
    EXPECT_EQ(transactions_in(next), 1U);
    ASSERT_TRUE(commit(next));
    EXPECT_EQ(pool_->find(hash), nullptr);
    EXPECT_TRUE(reader_->receipt(hash));
}

TEST_F(SpeculationTest, a_later_nonce_follows_an_ancestor_of_another_node) {
    OtherNode other(threads_, clock_, 101);
    other.submit(signed_by(1, transfer(0, 5)));
    const auto foreign = other.chain().build_block(next_request());
    ASSERT_TRUE(foreign);
    const Hash32 later = submit(1, transfer(1, 6));  // its predecessor never came here
    EXPECT_EQ(transactions_in(build(next_request())), 0U);
    ASSERT_TRUE(chain_->validate_block(foreign->hash, foreign->block));
    const auto child = build(on(*foreign));
    EXPECT_EQ(transactions_in(child), 1U);
    ASSERT_TRUE(commit(*foreign));
    ASSERT_TRUE(commit(child));
    EXPECT_TRUE(reader_->receipt(later));
}

TEST_F(SpeculationTest, what_an_unfinished_ancestor_refuses_stays_in_the_pool) {
    // The other node's block spends all of the account's money, with the same nonce.
    OtherNode other(threads_, clock_, 101);
    auto spend = transfer(0, Uint256(999) * chain::params::kGrainsPerQrn);
    other.submit(signed_by(1, spend));
    const auto poor = other.chain().build_block(next_request());
    ASSERT_TRUE(poor);
    const Hash32 first = submit(1, transfer(0, 5));
    const Hash32 second = submit(1, transfer(1, Uint256(10) * chain::params::kGrainsPerQrn));
    ASSERT_TRUE(chain_->validate_block(poor->hash, poor->block));
    EXPECT_EQ(transactions_in(build(on(*poor))), 0U);
    EXPECT_NE(pool_->find(first), nullptr);
    EXPECT_NE(pool_->find(second), nullptr);

    // That block never becomes final: both are good.
    clock_.advance(7);
    const auto both = build(next_request());
    EXPECT_EQ(transactions_in(both), 2U);
    // It does become final: the first is outdated, the second cannot be paid for any more and is parked.
    ASSERT_TRUE(commit(*poor));
    EXPECT_EQ(pool_->find(first), nullptr);
    EXPECT_NE(pool_->find(second), nullptr);
    EXPECT_EQ(pool_->parked(), 1U);
    EXPECT_EQ(pool_->status().executable, 0U);
    EXPECT_EQ(transactions_in(build(next_request())), 0U);
}

// A bond that does not cover its locks, as no execution makes one: whoever touches it breaks an invariant.
class BrokenStateTest : public SpeculationTest {
protected:
    BrokenStateTest() {
        stop();
        store::WriteBatch batch;
        for (std::uint8_t seed = 1; seed <= 5; ++seed) {
            types::RoleBond bond;
            bond.address = test_address(seed);
            bond.role = types::Role::solver;
            bond.locked = Uint256(100) * chain::params::kGrainsPerQrn;
            Bytes id{static_cast<std::uint8_t>(types::Role::solver)};
            append(id, test_address(seed));
            batch.put(store::table_key(store::Table::native, {types::object_key(types::ObjectPrefix::role_bond, id)}),
                      types::encode_record(bond));
        }
        EXPECT_TRUE(store_->write(batch, true));
        start();
    }
    [[nodiscard]] types::Transaction breaker(std::uint64_t nonce) const {
        return bond(nonce, chain::params::kGrainsPerQrn);
    }
};

TEST_F(BrokenStateTest, a_transaction_that_breaks_an_invariant_is_left_out) {
    std::vector<Hash32> good;
    for (std::uint8_t sender = 2; sender <= 5; ++sender)
        for (std::uint64_t nonce = 0; nonce < 5; ++nonce) good.push_back(submit(sender, transfer(nonce, 1)));
    const Hash32 bad = submit(1, breaker(0));
    const Hash32 after = submit(1, transfer(1, 1));
    const auto built = build(next_request());
    EXPECT_EQ(transactions_in(built), good.size());
    EXPECT_EQ(pool_->find(bad), nullptr);
    EXPECT_NE(pool_->find(after), nullptr);
    ASSERT_TRUE(commit(built));
    for (const auto& hash : good) EXPECT_TRUE(reader_->receipt(hash));
    // Sent again, it is not even tried.
    submit(1, breaker(0));
    const auto next = build(next_request());
    EXPECT_EQ(transactions_in(next), 0U);
    EXPECT_TRUE(commit(next));
}

TEST_F(BrokenStateTest, a_block_stays_empty_when_too_many_transactions_break_the_state) {
    static_assert(kMaxBuildRepairs < 5);
    std::vector<Hash32> bad;
    for (std::uint8_t sender = 1; sender <= 5; ++sender) {
        submit(sender, transfer(0, 1));
        bad.push_back(submit(sender, breaker(1)));
    }
    const auto built = build(next_request());
    EXPECT_EQ(transactions_in(built), 0U);
    EXPECT_EQ(pool_->status().transactions, 10 - kMaxBuildRepairs);
    ASSERT_TRUE(commit(built));
    const auto next = build(next_request());
    EXPECT_EQ(transactions_in(next), 5U);
    ASSERT_TRUE(commit(next));
    for (const auto& hash : bad) EXPECT_EQ(pool_->find(hash), nullptr);
    EXPECT_EQ(balance(test_address(50)), 5);
}

TEST_F(BrokenStateTest, a_block_that_breaks_an_invariant_is_invalid) {
    // Another node does not have the broken object, so it includes the transaction.
    OtherNode other(threads_, clock_, 101);
    other.submit(signed_by(1, breaker(0)));
    const auto built = other.chain().build_block(next_request());
    ASSERT_TRUE(built);
    ASSERT_EQ(transactions_in(*built), 1U);
    const auto status = chain_->validate_block(built->hash, built->block);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().name, "exec.invariant_broken");
    EXPECT_EQ(status.error().kind, ErrorKind::input);
    EXPECT_EQ(chain_->prepared_blocks(), 0U);
    EXPECT_TRUE(make_block());
}

// Random trees of blocks, random paths through them: the database holds the same as one that only ever saw the
// committed blocks, and the same as one that was switched off again and again.
TEST_F(SpeculationTest, any_order_of_work_gives_the_same_database) {
    SeededRng rng(11);
    OtherNode follower(threads_, clock_, 101);
    std::vector<std::uint64_t> nonces(6, 0);
    struct Made {
        BuiltBlock block;
        Hash32 parent;
    };
    std::vector<Made> made;
    for (int step = 0; step < 250; ++step) {
        clock_.advance(1 + rng.below(50));
        switch (rng.below(5)) {
            case 0:
            case 1: {
                const auto sender = static_cast<std::uint8_t>(1 + rng.below(5));
                auto tx = rng.below(3) == 0 ? bond(nonces[sender], Uint256(1 + rng.below(1000)))
                                            : transfer(nonces[sender], Uint256(rng.below(1000)));
                if (gateway_->submit(signed_by(sender, tx))) ++nonces[sender];
                break;
            }
            case 2:
            case 3: {
                const bool on_tip = made.empty() || rng.below(3) == 0;
                const auto request = on_tip ? next_request() : on(made[rng.below(made.size())].block);
                auto built = build(request);
                made.push_back({std::move(built), request.parent.hash});
                break;
            }
            default: {
                std::vector<const Made*> children;
                for (const auto& block : made)
                    if (block.parent == chain_->tip().hash) children.push_back(&block);
                if (children.empty()) break;
                const BuiltBlock chosen = children[rng.below(children.size())]->block;
                ASSERT_TRUE(commit(chosen));
                ASSERT_TRUE(follower.chain().commit(chosen.hash, chosen.block, finalize(tip_of(chosen))));
                ASSERT_EQ(follower.chain().tip(), chain_->tip());
                std::set<Hash32> alive = {chosen.hash};
                std::vector<Made> rest;
                for (auto& block : made) {  // children come after their parents
                    if (!alive.contains(block.parent)) continue;
                    alive.insert(block.block.hash);
                    rest.push_back(std::move(block));
                }
                made = std::move(rest);
                ASSERT_EQ(chain_->prepared_blocks(), made.size());
                if (rng.below(6) == 0) {
                    restart_after_power_loss();
                    made.clear();
                }
            }
        }
    }
    EXPECT_GT(chain_->tip().number, 20U);
    EXPECT_GT(balance(test_address(50)), 0);
    EXPECT_EQ(rows_but_parts(*store_), rows_but_parts(follower.disk()));
}

class EpochTest : public ChainFixture {
protected:
    static chain::exec::Genesis short_epochs() {
        auto genesis = test_genesis();
        genesis.params.epoch_length = 6;
        return genesis;
    }
    EpochTest() : ChainFixture(short_epochs()) {}
};

TEST_F(EpochTest, the_last_block_of_an_epoch_gives_the_next_ones_setup) {
    const consensus::sdbft::EpochHeights heights(6);
    std::map<std::uint64_t, Hash32> beacons = {{0, chain_->tip().beacon}};
    EXPECT_EQ(chain_->epoch_setup()->epoch, 0U);
    EXPECT_EQ(chain_->epoch_setup()->seed, beacons[0]);
    EXPECT_FALSE(chain_->previous_committee());
    // Each round is a run of blocks on each other, then their commits, then another process.
    for (int round = 0; round < 5; ++round) {
        std::vector<BuiltBlock> blocks;
        for (int i = 0; i < 4; ++i) {
            const bool closed = heights.is_last(blocks.empty() ? chain_->tip().number : tip_of(blocks.back()).number);
            if (closed && !blocks.empty()) break;  // the next block needs the next epoch's setup
            auto built = chain_->build_block(
                blocks.empty() ? next_request()
                               : request_on(tip_of(blocks.back()), consensus::encode(finalize(tip_of(blocks.back())))));
            ASSERT_TRUE(built) << built.error().to_string();
            blocks.push_back(std::move(*built));
        }
        for (const auto& block : blocks) {
            const auto committed = chain_->commit(block.hash, block.block, finalize(tip_of(block)));
            ASSERT_TRUE(committed) << committed.error().to_string();
            beacons[committed->tip.number] = committed->tip.beacon;
            const bool last = heights.is_last(committed->tip.number);
            ASSERT_EQ(committed->next_epoch.has_value(), last);
            const auto setup = *chain_->epoch_setup();
            EXPECT_EQ(setup.epoch, heights.epoch_of(committed->tip.number + 1));
            EXPECT_EQ(setup.next_committee_hash, setup.committee.hash());
            EXPECT_EQ(chain_->previous_committee().has_value(), setup.epoch > 0);
            if (setup.epoch > 0) {
                EXPECT_EQ(setup.seed, beacons[heights.seed_height(setup.epoch - 1)]);
            }
            if (!last) continue;
            EXPECT_EQ(committed->next_epoch->epoch, setup.epoch);
            EXPECT_EQ(committed->next_epoch->seed, setup.seed);
            EXPECT_EQ(committed->next_epoch->committee.hash(), setup.committee.hash());
        }
        const auto before = *chain_->epoch_setup();
        restart_after_power_loss();
        EXPECT_EQ(chain_->epoch_setup()->seed, before.seed);
        EXPECT_EQ(chain_->epoch_setup()->epoch, before.epoch);
        EXPECT_EQ(chain_->previous_committee().has_value(), before.epoch > 0);
    }
    EXPECT_GE(chain_->epoch_setup()->epoch, 2U);
}

TEST_F(EpochTest, the_previous_committee_is_the_one_of_the_epoch_before_across_a_change) {
    auto more_stake = bond(0, 0);
    more_stake.native_kind = static_cast<std::uint8_t>(types::NativeKind::delegate);
    more_stake.data = types::encode_record(
        types::DelegatePayload{test_address(kValidator), Uint256(5) * chain::params::kGrainsPerQrn});
    submit(1, more_stake);
    std::map<std::uint64_t, Hash32> committees;
    for (int i = 0; i < 4 * 6; ++i) {
        ASSERT_TRUE(make_block());
        const auto setup = *chain_->epoch_setup();
        committees[setup.epoch] = setup.committee.hash();
        if (setup.epoch == 0) continue;
        ASSERT_TRUE(chain_->previous_committee());
        EXPECT_EQ(chain_->previous_committee()->hash(), committees[setup.epoch - 1]) << "epoch " << setup.epoch;
        if (i % 3 == 0) restart_after_power_loss();
    }
    EXPECT_NE(committees[1], committees[2]) << "the stake counts two epochs later";
}

PreparedBlock prepared_in(std::uint64_t view, const Hash32& parent = {}, std::size_t bytes = 0) {
    PreparedBlock made;
    made.hash = crypto::sha256(be64(view));
    made.block.header.number = 1;
    made.block.header.parent_hash = parent;
    made.block.header.consensus.view = view;
    made.encoded.resize(bytes);
    return made;
}

TEST(PreparedBlocksTest, of_too_many_the_oldest_without_a_child_goes) {
    const store::MemoryStore disk;
    PreparedBlocks blocks(disk);
    const auto hash_of = [](std::uint64_t view) { return crypto::sha256(be64(view)); };
    std::vector<Hash32> gone;
    for (std::uint64_t view = 1; view <= kMaxPreparedBlocks; ++view) ASSERT_TRUE(blocks.add(prepared_in(view), gone));
    EXPECT_TRUE(gone.empty());
    std::uint64_t view = kMaxPreparedBlocks;
    ASSERT_TRUE(blocks.add(prepared_in(++view, hash_of(1)), gone));
    ASSERT_TRUE(blocks.add(prepared_in(++view), gone));
    EXPECT_EQ(gone, (std::vector<Hash32>{hash_of(2), hash_of(3)}));
    EXPECT_EQ(blocks.size(), kMaxPreparedBlocks);
    EXPECT_NE(blocks.find(hash_of(1)), nullptr);
    EXPECT_EQ(blocks.find(hash_of(2)), nullptr);
    EXPECT_TRUE(blocks.add(prepared_in(4), gone));  // known
    EXPECT_EQ(gone.size(), 2U);
    blocks.committed(hash_of(4));
    EXPECT_EQ(blocks.size(), 0U);
    EXPECT_EQ(blocks.bytes(), 0U);
}

TEST(PreparedBlocksTest, are_bounded_in_memory) {
    const store::MemoryStore disk;
    PreparedBlocks blocks(disk);
    std::vector<Hash32> gone;
    constexpr std::size_t kBlock = 7U << 20;
    for (std::uint64_t view = 1; view <= 40; ++view) ASSERT_TRUE(blocks.add(prepared_in(view, {}, kBlock), gone));
    EXPECT_LE(blocks.bytes(), kMaxPreparedBytes);
    EXPECT_GT(blocks.bytes(), kMaxPreparedBytes / 2);
    EXPECT_EQ(gone.size() + blocks.size(), 40U);
    EXPECT_EQ(blocks.find(gone.back()), nullptr);
}

TEST(PreparedBlocksTest, a_chain_as_deep_as_the_limit_is_read_and_rebased) {
    store::MemoryStore disk;
    PreparedBlocks blocks(disk);
    std::vector<Hash32> hashes = {Hash32{}};
    std::vector<Hash32> gone;
    for (std::uint64_t number = 1; number <= kMaxPreparedBlocks; ++number) {
        PreparedBlock made;
        made.hash = crypto::sha256(be64(number));
        made.block.header.number = number;
        made.block.header.parent_hash = hashes.back();
        made.change.batch.put(to_bytes(be64(number)), Bytes{1});
        made.change.batch.put(Bytes{0xff}, to_bytes(be64(number)));
        hashes.push_back(made.hash);
        ASSERT_TRUE(blocks.add(std::move(made), gone));
    }
    const auto refused = blocks.add(prepared_in(kMaxPreparedBlocks + 1, hashes.back()), gone);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "block.too_many");
    EXPECT_TRUE(refused.error().is_busy());
    EXPECT_TRUE(gone.empty());
    const auto count = [](const store::Reader& reader) {
        std::size_t rows = 0;
        EXPECT_TRUE(reader.for_each({}, {}, [&](BytesView, BytesView) { return ++rows > 0; }));
        return rows;
    };
    EXPECT_EQ(count(blocks.state_after(hashes.back())), kMaxPreparedBlocks + 1);
    EXPECT_EQ(*blocks.state_after(hashes[7]).get(Bytes{0xff}), to_bytes(be64(7)));
    for (std::uint64_t number = 1; number < 10; ++number) {
        ASSERT_TRUE(disk.write(blocks.to_commit(hashes[number]).change.batch, true));
        blocks.committed(hashes[number]);
        EXPECT_EQ(blocks.size(), kMaxPreparedBlocks - number);
        EXPECT_EQ(&blocks.state_after(hashes[number]), &disk);
        EXPECT_EQ(count(blocks.state_after(hashes.back())), kMaxPreparedBlocks + 1);
    }
}

}  // namespace
}  // namespace quern::node
