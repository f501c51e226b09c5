// The index of what concerns tasks and accounts, and what is told by it, over a real chain.
#include "node/serve/ledger.h"

#include "base/big_endian.h"
#include "chain/store/block_store.h"
#include "lifecycle_fixture.h"
#include "node/chain/activity_index.h"
#include "node/chain/revert.h"
#include "unit/node/chain_fixture.h"

namespace quern::node {
namespace {

namespace api = chain::api;
namespace test = chain::exec::test;
using types::NativeKind;

chain::exec::Genesis cheap_genesis() {
    auto genesis = test_genesis();
    genesis.params.market.dispute_cost = 10;
    genesis.params.market.storage_deposit_per_byte = 3;
    return genesis;
}

class LedgerTest : public ChainFixture {
protected:
    LedgerTest() : ChainFixture(cheap_genesis()) { open(); }
    void open() { ledger_ = std::make_unique<ChainLedger>(ChainLedger::Parts{chain_->board(), *reader_}); }
    void restart() {
        ledger_.reset();
        stop();
        start();
        open();
    }
    template <types::Record T>
    Hash32 send(std::uint8_t seed, NativeKind kind, const T& payload) {
        auto tx = bond(nonces_[seed]++, 1);
        tx.native_kind = static_cast<std::uint8_t>(kind);
        tx.gas_limit = 3'000'000;
        tx.data = types::encode_record(payload);
        return submit(seed, tx);
    }
    // In a block of its own.
    template <types::Record T>
    Hash32 one(std::uint8_t seed, NativeKind kind, const T& payload) {
        const Hash32 hash = send(seed, kind, payload);
        EXPECT_TRUE(make_block());
        EXPECT_TRUE(reader_->receipt(hash)->receipt.success) << reader_->receipt(hash)->receipt.failure;
        return hash;
    }
    std::uint64_t submit_task(std::uint8_t seed) {
        auto spec = test::tiny_spec(4, 2);
        const auto& market = setup_->genesis.params.market;
        spec.windows = {market.min_window_s, market.min_window_s, market.min_window_s,
                        market.min_window_s, market.min_window_s, market.min_window_s};
        one(seed, NativeKind::task_submit, spec);
        return ++tasks_;
    }
    [[nodiscard]] api::LedgerPage<api::Happening> history(std::uint64_t task, std::uint64_t from = 0,
                                                          std::size_t limit = 1'000) const {
        auto page = ledger_->task_history(task, from, limit, {});
        EXPECT_TRUE(page) << page.error().to_string();
        return page.value_or(api::LedgerPage<api::Happening>());
    }
    [[nodiscard]] api::LedgerPage<api::StatementBlock> statement(std::uint8_t seed, std::uint64_t from = 0,
                                                                 std::uint64_t to = 1'000'000,
                                                                 std::size_t limit = 1'000) const {
        auto page = ledger_->statement(test_address(seed), from, to, limit, {});
        EXPECT_TRUE(page) << page.error().to_string();
        return page.value_or(api::LedgerPage<api::StatementBlock>());
    }
    static std::vector<std::uint64_t> blocks(const api::LedgerPage<api::StatementBlock>& page) {
        std::vector<std::uint64_t> numbers;
        for (const auto& block : page.items) numbers.push_back(block.number);
        return numbers;
    }
    static std::vector<std::string> names(const api::LedgerPage<api::Happening>& page) {
        std::vector<std::string> all;
        for (const auto& happening : page.items) all.emplace_back(happening.event.name);
        return all;
    }

    std::map<std::uint8_t, std::uint64_t> nonces_;
    std::uint64_t tasks_ = 0;
    std::unique_ptr<ChainLedger> ledger_;
};

TEST_F(LedgerTest, tells_what_happened_to_a_task_and_to_no_other) {
    const auto first = submit_task(1);
    const auto second = submit_task(2);
    const Hash32 hash = one(1, NativeKind::task_cancel, types::TaskIdPayload{first});
    const auto told = history(first);
    EXPECT_EQ(names(told), (std::vector<std::string>{"TaskSubmitted", "TaskStateChanged", "Paid", "TaskStateChanged"}));
    EXPECT_EQ(history(second).items.size(), 2U);
    EXPECT_TRUE(history(3).items.empty());
    const auto& last = told.items.back();
    EXPECT_EQ(last.place.block, 3U);
    EXPECT_EQ(last.place.transaction, hash);
    EXPECT_EQ(last.place.sender, test_address(1));
    EXPECT_EQ(last.place.kind, "task_cancel");
    EXPECT_EQ(last.place.timestamp, reader_->block({})->block.header.timestamp);
    EXPECT_EQ(last.event.fields.dump(), R"({"from":"open","to":"cancelled","reason":"by_submitter","deadline":0})");
    EXPECT_EQ(last.event.task, first);
}

TEST_F(LedgerTest, pages_end_with_a_block) {
    const auto id = submit_task(1);
    ASSERT_TRUE(make_block());
    one(1, NativeKind::task_cancel, types::TaskIdPayload{id});
    const auto first = history(id, 0, 1);
    EXPECT_EQ(first.items.size(), 2U);
    ASSERT_EQ(first.next, 3U);
    const auto second = history(id, *first.next, 1);
    EXPECT_EQ(names(second), (std::vector<std::string>{"Paid", "TaskStateChanged"}));
    EXPECT_FALSE(second.next);
    const auto money = statement(1, 0, 1'000, 1);
    EXPECT_EQ(blocks(money), std::vector<std::uint64_t>{1});
    EXPECT_EQ(money.next, 3U);
    EXPECT_EQ(blocks(statement(1, 2, 2)), std::vector<std::uint64_t>{});
    EXPECT_EQ(blocks(statement(1, 3)), std::vector<std::uint64_t>{3});
}

// Each block is read whole: a page has an end whatever it is asked for.
TEST_F(LedgerTest, pages_open_so_many_blocks_at_most) {
    for (std::size_t i = 0; i < kLedgerPageBlocks + 1; ++i)
        one(1, NativeKind::bond, types::BondPayload{types::Role::solver, 1'000});
    const auto first = statement(1, 0, 1'000'000, 1'000'000);
    EXPECT_EQ(first.items.size(), kLedgerPageBlocks);
    ASSERT_EQ(first.next, kLedgerPageBlocks + 1);
    const auto last = statement(1, *first.next, 1'000'000, 1'000'000);
    EXPECT_EQ(last.items.size(), 1U);
    EXPECT_FALSE(last.next);
}

TEST_F(LedgerTest, says_what_was_held_before_and_after_each_block) {
    const Uint256 before = balance(test_address(1));
    one(1, NativeKind::bond, types::BondPayload{types::Role::verifier, 5'000'000});
    const Uint256 between = balance(test_address(1));
    submit(1, transfer(nonces_[1]++, 77));
    ASSERT_TRUE(make_block());
    EXPECT_EQ(statement(1).items.size(), 1U) << "transfers are not the market's";
    const Uint256 after_transfer = balance(test_address(1));
    send(1, NativeKind::unbond, types::UnbondPayload{types::Role::verifier, 1'000'000});
    ASSERT_TRUE(make_block());
    const auto page = statement(1);
    ASSERT_EQ(page.items.size(), 2U);
    EXPECT_EQ(page.items[0].before.balance, before);
    EXPECT_TRUE(page.items[0].before.bonds.empty());
    EXPECT_EQ(page.items[0].after.balance, between);
    EXPECT_EQ(page.items[1].before.balance, after_transfer);
    EXPECT_EQ(page.items[1].after.balance, balance(test_address(1)));
    const auto& bond = page.items[1].after.bonds.at(0);
    EXPECT_EQ(bond.role, types::Role::verifier);
    EXPECT_EQ(bond.bonded, Uint256(4'000'000));
    EXPECT_EQ(bond.unbonding, Uint256(1'000'000));
    const auto& bonded = page.items[0].movements.at(0);
    EXPECT_EQ(bonded.category, "bonded");
    EXPECT_EQ(bonded.place.block, 1U);
    EXPECT_EQ(page.items[0].movements.at(1).category, "gas");
    EXPECT_TRUE(statement(2).items.empty());
}

TEST_F(LedgerTest, stops_when_nobody_waits_any_more) {
    const auto id = submit_task(1);
    const auto gone = [] { return true; };
    EXPECT_EQ(ledger_->task_history(id, 0, 10, gone).error().name, "ledger.cancelled");
    EXPECT_EQ(ledger_->statement(test_address(1), 0, 10, 10, gone).error().name, "ledger.cancelled");
}

TEST_F(LedgerTest, a_crash_loses_no_entry_of_a_block_that_is_there) {
    submit_task(1);
    ledger_.reset();
    restart_after_power_loss();
    open();
    EXPECT_EQ(chain_->tip().number, 1U);
    EXPECT_EQ(history(1).items.size(), 2U);
    EXPECT_EQ(blocks(statement(1)), std::vector<std::uint64_t>{1});
}

TEST_F(LedgerTest, begins_at_the_newest_block_of_a_database_that_has_no_index) {
    using chain::store::Table;
    EXPECT_EQ(*ledger_->since(), 1U);
    submit_task(1);
    chain::store::WriteBatch batch;
    for (const Table table : {Table::task_blocks, Table::money_blocks})
        ASSERT_TRUE(store_->for_each(chain::store::table_key(table), {}, [&](BytesView key, BytesView) {
            batch.erase(to_bytes(key));
            return true;
        }));
    EXPECT_EQ(batch.operations().size(), 2U);
    batch.erase(chain::store::table_key(Table::meta, {as_bytes("activity_since")}));
    ASSERT_TRUE(store_->write(batch, true));
    restart();
    EXPECT_EQ(*ledger_->since(), 2U);
    one(1, NativeKind::task_cancel, types::TaskIdPayload{1});
    EXPECT_EQ(names(history(1)), (std::vector<std::string>{"Paid", "TaskStateChanged"}));
    restart();
    EXPECT_EQ(*ledger_->since(), 2U);
}

TEST_F(LedgerTest, forgets_what_is_taken_back) {
    const auto id = submit_task(1);
    one(1, NativeKind::task_cancel, types::TaskIdPayload{id});
    ledger_.reset();
    stop();
    ASSERT_TRUE(revert_chain(*store_, 1));
    std::filesystem::remove(folder_ + "/mempool.journal");  // else the transaction comes back
    start();
    open();
    ASSERT_TRUE(make_block());  // another one than the one that held it
    EXPECT_EQ(chain_->tip().number, 2U);
    EXPECT_EQ(history(id).items.size(), 2U);
    EXPECT_EQ(blocks(statement(1)), std::vector<std::uint64_t>{1});
    EXPECT_EQ(*ledger_->since(), 1U);
}

TEST_F(LedgerTest, a_broken_index_is_a_fault) {
    submit_task(1);
    chain::store::WriteBatch batch;
    batch.put(chain::store::table_key(chain::store::Table::task_blocks, {be64(1), be64(1)}), Bytes{0, 0, 0});
    ASSERT_TRUE(store_->write(batch, true));
    restart();
    EXPECT_EQ(ledger_->task_history(1, 0, 10, {}).error().name, "store.corrupt");
    batch.put(chain::store::table_key(chain::store::Table::task_blocks, {be64(1), be64(1)}), Bytes{0, 0, 0, 9});
    ASSERT_TRUE(store_->write(batch, true));
    restart();
    EXPECT_EQ(ledger_->task_history(1, 0, 10, {}).error().name, "store.corrupt");
}

// --- try_native ------------------------------------------------------------------------------------------------------

class TrialTest : public LedgerTest {
protected:
    template <types::Record T>
    Expected<api::NativeTrial> trial(std::uint8_t seed, NativeKind kind, const T& payload,
                                     const api::BlockSelector& at = {}) {
        api::SimulatedCall call;
        call.from = test_address(seed);
        call.native_kind = static_cast<std::uint8_t>(kind);
        call.data = types::encode_record(payload);
        return simulator_->try_native(call, at);
    }
};

TEST_F(TrialTest, does_what_the_transaction_then_does_and_changes_nothing) {
    const types::BondPayload payload{types::Role::solver, 5'000'000};
    const Uint256 had = balance(test_address(1));
    const auto tried = trial(1, NativeKind::bond, payload);
    ASSERT_TRUE(tried) << tried.error().to_string();
    EXPECT_TRUE(tried->success) << tried->failure;
    EXPECT_EQ(balance(test_address(1)), had);
    EXPECT_EQ(tried->before.balance, had);
    EXPECT_EQ(tried->after.balance, had - Uint256(5'000'000));
    EXPECT_EQ(tried->after.bonds.at(0).bonded, Uint256(5'000'000));
    ASSERT_EQ(tried->events.size(), 1U);
    EXPECT_EQ(tried->events[0].name, "BondChanged");
    EXPECT_FALSE(tried->task);
    const Hash32 hash = one(1, NativeKind::bond, payload);
    EXPECT_EQ(reader_->receipt(hash)->receipt.gas_used, tried->gas_used);
}

TEST_F(TrialTest, names_the_task_and_what_is_held_for_it) {
    const auto id = submit_task(1);
    const auto cancelled = trial(1, NativeKind::task_cancel, types::TaskIdPayload{id});
    ASSERT_TRUE(cancelled);
    EXPECT_TRUE(cancelled->success) << cancelled->failure;
    EXPECT_EQ(cancelled->task, id);
    EXPECT_GT(cancelled->escrow_before, cancelled->escrow_after);
    EXPECT_EQ(cancelled->after.balance - cancelled->before.balance, cancelled->escrow_before - cancelled->escrow_after);
    const auto wrong = trial(2, NativeKind::task_cancel, types::TaskIdPayload{id});
    ASSERT_TRUE(wrong);
    EXPECT_FALSE(wrong->success);
    EXPECT_EQ(wrong->failure, "task.not_its_submitter");
    EXPECT_EQ(wrong->task, id);
    EXPECT_TRUE(wrong->events.empty());
    EXPECT_EQ(wrong->before.balance, wrong->after.balance);
    const auto late = trial(2, NativeKind::task_bid, types::TaskBidPayload{id, 1, 3});
    ASSERT_TRUE(late);
    EXPECT_EQ(late->failure, "bid.no_such_seat");
    EXPECT_EQ(late->detail, "the task has 1");
    const auto move = trial(2, NativeKind::dispute_concede, types::DisputeConcedePayload{4});
    ASSERT_TRUE(move);
    EXPECT_EQ(move->failure, "dispute.unknown");
    EXPECT_FALSE(move->task);
}

TEST_F(TrialTest, refuses_what_is_no_kind_and_states_that_are_not_kept) {
    api::SimulatedCall call;
    call.native_kind = 0xee;
    EXPECT_EQ(simulator_->try_native(call, {}).error().name, "native.unknown_kind");
    const api::BlockSelector far{api::BlockSelector::Kind::number, 99, {}};
    EXPECT_EQ(trial(1, NativeKind::task_cancel, types::TaskIdPayload{1}, far).error().name, "chain.state_unavailable");
}

}  // namespace
}  // namespace quern::node
