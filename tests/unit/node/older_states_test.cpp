// What RPC reads of older blocks: the newest 128 states, also those from before the node's start, and every state of an
// archive; balances, objects, calls and proofs.
#include <gtest/gtest.h>

#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"
#include "node/chain/revert.h"
#include "unit/node/chain_fixture.h"

namespace quern::node {
namespace {

namespace api = chain::api;

class OlderStates : public ChainFixture {
protected:
    OlderStates() {
        stop();
        max_unflushed_bytes_ = kMaxUnflushedBytes;
        start();
    }
    // A transfer to test_address(50) in each fifth block.
    void make_blocks(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            if (chain_->tip().number % 5 == 0) submit(1, transfer(nonce_, 2 + nonce_)), ++nonce_;
            ASSERT_TRUE(make_block());
            ASSERT_EQ(chain_->tip().number, balances_.size());
            balances_.push_back(balance(test_address(50)));
        }
    }
    static api::BlockSelector at(std::uint64_t number) { return {api::BlockSelector::Kind::number, number, {}}; }
    void expect_state(std::uint64_t number) {
        SCOPED_TRACE(number);
        const auto state = reader_->state(at(number));
        ASSERT_TRUE(state) << state.error().to_string();
        EXPECT_EQ((*state)->block_number(), number);
        EXPECT_EQ((*state)->account(test_address(50)).balance, balances_[number]);
        EXPECT_FALSE((*state)->native_range(Bytes{}, {}, 10'000).empty());
        // The record of the block's own beacon is there, the next block's is not.
        using types::ObjectPrefix;
        if (number > 0) {
            EXPECT_TRUE((*state)->native(types::object_key(ObjectPrefix::beacon, number)));
        }
        EXPECT_FALSE((*state)->native(types::object_key(ObjectPrefix::beacon, number + 1)));
        const Hash32 root = reader_->block(at(number))->block.header.state_root;
        for (const int number_of : {1, 50, 77}) {
            const auto seed = static_cast<std::uint8_t>(number_of);
            const auto who = test_address(seed);
            const auto proof = (*state)->prove(who, std::vector<Hash32>{Hash32{}});
            ASSERT_TRUE(proof) << proof.error().to_string();
            const auto proven = chain::state::verify_trie_proof(root, crypto::keccak256(who), proof->nodes);
            ASSERT_TRUE(proven) << proven.error().to_string();
            const bool is_there = seed == 1 || (seed == 50 && balances_[number] != 0);
            ASSERT_EQ(proven->has_value(), is_there);
            if (is_there) {
                EXPECT_EQ(chain::state::decode_account(**proven)->balance, (*state)->account(who).balance);
            }
            EXPECT_EQ(proof->account.balance, (*state)->account(who).balance);
            EXPECT_TRUE(proof->slots[0].value.is_zero());
        }
        api::SimulatedCall call;
        call.from = test_address(50);
        call.to = test_address(1);
        call.value = balances_[number];
        const auto fits = simulator_->call(call, at(number));
        ASSERT_TRUE(fits) << fits.error().to_string();
        EXPECT_TRUE(fits->success);
        call.value += Uint256(1);
        const auto too_much = simulator_->call(call, at(number));
        EXPECT_FALSE(too_much && too_much->success);
    }

    std::uint64_t nonce_ = 0;
    std::vector<Uint256> balances_{Uint256()};
};

TEST_F(OlderStates, of_the_newest_blocks_are_told_and_proven_before_and_after_a_restart) {
    make_blocks(150);
    for (int start_again = 0; start_again < 2; ++start_again) {
        for (const std::uint64_t number : {23, 24, 60, 111, 149, 150}) expect_state(number);
        const auto forgotten = reader_->state(at(22));
        ASSERT_FALSE(forgotten);
        EXPECT_EQ(forgotten.error().name, "chain.state_unavailable");
        EXPECT_TRUE(forgotten.error().detail.starts_with("historical state of block 22 is not available"));
        const auto unknown = reader_->state(at(151));
        ASSERT_FALSE(unknown);
        EXPECT_TRUE(unknown.error().detail.starts_with("header not found"));
        restart_after_power_loss();
    }
    make_blocks(3);
    expect_state(26);
    expect_state(151);
    const Hash32 hash = reader_->block(at(100))->hash;
    const auto by_hash = reader_->state({api::BlockSelector::Kind::hash, 0, hash});
    ASSERT_TRUE(by_hash);
    EXPECT_EQ((*by_hash)->account(test_address(50)).balance, balances_[100]);
}

TEST_F(OlderStates, tell_which_objects_changed_since_a_kept_block) {
    const Uint256 amount = Uint256(5) * chain::params::kGrainsPerQrn;
    const Bytes mine = types::key_of<types::RoleBond>(types::Role::solver, test_address(1));
    const std::vector<Bytes> bonds = {types::prefix_of<types::RoleBond>()};
    const api::ChangeLimits all{1'000, std::size_t{1} << 20};
    const auto since = [&](std::uint64_t number, const api::ChangeLimits& limits) {
        return *(*reader_->state({}))->changed_since(number, bonds, limits);
    };
    const auto add = [&] {
        submit(1, bond(nonce_++, amount));
        ASSERT_TRUE(make_block());
        balances_.emplace_back();
    };
    add();
    const Bytes first = *(*reader_->state({}))->native(mine);
    ASSERT_TRUE(make_block());
    add();
    add();
    const Bytes third = *(*reader_->state({}))->native(mine);
    for (int start_again = 0; start_again < 2; ++start_again) {
        const auto changes = since(0, all);
        ASSERT_TRUE(changes);
        ASSERT_EQ(changes->size(), 1U);
        EXPECT_EQ((*changes)[0].key, mine);
        ASSERT_EQ((*changes)[0].before.size(), 3U);
        EXPECT_EQ((*changes)[0].before[0], std::nullopt);
        EXPECT_EQ((*changes)[0].before[1], first);
        EXPECT_NE((*changes)[0].before[2], third);
        EXPECT_EQ((*since(2, all))[0].before.size(), 2U);
        EXPECT_EQ((*since(3, all))[0].before.size(), 1U);
        EXPECT_TRUE(since(4, all)->empty());
        EXPECT_FALSE(since(0, {0, 1'000}));
        EXPECT_FALSE(since(0, {1, first.size()}));
        EXPECT_TRUE(since(2, {1, 2 * first.size() + 8}));
        // Of an older state: up to that one.
        const auto older = (*reader_->state(at(3)))->changed_since(1, bonds, all);
        ASSERT_TRUE(older && *older);
        EXPECT_EQ((**older)[0].before.size(), 1U);
        restart_after_power_loss();
    }
    for (int i = 0; i < 130; ++i) ASSERT_TRUE(make_block());
    EXPECT_EQ(chain_->tip().number, 134U);
    EXPECT_FALSE(since(6, all));
    EXPECT_TRUE(since(7, all));
    // Going back keeps no less and no more.
    stop();
    ASSERT_TRUE(revert_chain(*store_, 130));
    start();
    EXPECT_FALSE(since(6, all));
    EXPECT_TRUE(since(7, all));
    // Of an older state, read from the newest one: what is kept counts from that.
    EXPECT_FALSE(*(*reader_->state(at(10)))->changed_since(6, bonds, all));
    EXPECT_TRUE(*(*reader_->state(at(10)))->changed_since(7, bonds, all));
}

class Archive : public OlderStates {
protected:
    Archive() {
        stop();
        store_ = nullptr;
        chain::store::WriteBatch all;
        (void)durable_.for_each({}, {}, [&](BytesView key, BytesView) {
            all.erase(to_bytes(key));
            return true;
        });
        (void)durable_.write(all, true);
        store_ = std::make_unique<chain::store::FaultStore>(durable_);
        archive_ = true;
        start();
    }
};

TEST_F(Archive, tells_and_proves_every_state_since_the_first) {
    make_blocks(150);
    for (const std::uint64_t number : {0, 1, 7, 22, 23, 150}) expect_state(number);
    archive_ = false;  // it stays one
    restart_after_power_loss();
    EXPECT_TRUE(setup_->archive);
    make_blocks(5);
    for (const std::uint64_t number : {0, 3, 20, 26, 152}) expect_state(number);
}

TEST_F(OlderStates, a_database_that_was_no_archive_from_its_start_does_not_become_one) {
    make_blocks(2);
    stop();
    const auto refused = open_chain_database(*store_, genesis_text_, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "node.not_archive");
    EXPECT_FALSE(refused.error().is_local_fault());
    start();
}

TEST_F(OlderStates, a_database_goes_back_to_a_kept_block_and_loads_the_later_ones_again) {
    make_blocks(30);
    std::vector<chain::consensus::BuiltBlock> later;
    for (std::uint64_t number = 21; number <= 30; ++number) {
        const auto view = reader_->block(at(number));
        later.push_back({view->hash, types::encode(view->block)});
    }
    const Hash32 moved = types::transaction_hash(reader_->block(at(26))->block.transactions.at(0));
    ASSERT_TRUE(reader_->receipt(moved));
    stop();
    EXPECT_EQ(revert_chain(*store_, 30).error().name, "node.cannot_revert");
    ASSERT_TRUE(revert_chain(*store_, 20));
    start();
    EXPECT_EQ(chain_->tip().number, 20U);
    EXPECT_EQ(reader_->block(at(21)), nullptr);
    EXPECT_FALSE(reader_->receipt(moved));
    expect_state(20);
    expect_state(7);
    for (const auto& block : later) ASSERT_TRUE(commit(block));
    EXPECT_EQ(chain_->tip().hash, later.back().hash);
    EXPECT_TRUE(reader_->receipt(moved));
    expect_state(30);
    expect_state(20);
}

TEST_F(OlderStates, a_damaged_database_does_not_go_back) {
    make_blocks(12);
    stop();
    // What the last block changed of the native objects is lost: so the older state cannot be made.
    const Bytes key = chain::state::changes_key(chain::state::kNativePart, 11);
    const Bytes changes = store_->get(key).value().value();
    chain::store::WriteBatch loss;
    loss.erase(key);
    ASSERT_TRUE(store_->write(loss, true));
    const auto refused = revert_chain(*store_, 10);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().is_local_fault());
    chain::store::WriteBatch mend;
    mend.put(key, changes);
    ASSERT_TRUE(store_->write(mend, true));
    start();
    EXPECT_EQ(chain_->tip().number, 12U);
}

// Each write of a chain's run fails once, that of its first block included.
TEST_F(OlderStates, a_chain_whose_write_failed_goes_on_with_every_block_that_it_reported) {
    stop();
    for (const bool is_logged : {false, true}) {
        for (std::size_t failing = 0; failing < 22; ++failing) {
            SCOPED_TRACE(failing);
            chain::store::MemoryStore disk;
            store_ = std::make_unique<chain::store::FaultStore>(disk);
            store_->fail_writes_after(failing, is_logged);
            std::uint64_t reported = 0;
            if (auto setup = open_chain_database(*store_, genesis_text_)) {
                setup_ = std::move(*setup);
                pool_ = std::make_unique<chain::mempool::Pool>(setup_->genesis.params);
                chain_ = *Chain::open(
                    {*store_, *setup_, *pool_, threads_, clock_, test_address(kValidator), std::nullopt, 0});
                for (int i = 0; i < 16; ++i) {
                    if (!make_block()) break;
                    reported = chain_->tip().number;
                }
            }
            stop();
            ASSERT_TRUE(store_->crash(store_->unsynced_batches()));
            start();
            ASSERT_GE(chain_->tip().number, reported);
            ASSERT_LE(chain_->tip().number, reported + 1);
            ASSERT_TRUE(make_block());
            stop();
        }
    }
    store_ = std::make_unique<chain::store::FaultStore>(durable_);
    start();
}

}  // namespace
}  // namespace quern::node
