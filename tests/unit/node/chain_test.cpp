#include "node/chain/chain.h"

#include "base/big_endian.h"
#include "chain/exec/block_validation.h"
#include "chain/store/block_store.h"
#include "chain/types/transaction_rules.h"
#include "chain_fixture.h"

namespace quern::node {
namespace {

namespace api = chain::api;

class ChainTest : public ChainFixture {};

TEST_F(ChainTest, puts_waiting_transfers_into_a_block_with_receipts) {
    const Hash32 first = submit(1, transfer(0, 7));
    const Hash32 second = submit(1, transfer(1, 8));
    EXPECT_EQ(reader_->pending_nonce(test_address(1)), 2U);
    EXPECT_FALSE(reader_->transaction(first)->block_hash);
    EXPECT_FALSE(reader_->receipt(first));
    ASSERT_TRUE(make_block());

    EXPECT_EQ(reader_->head_number(), 1U);
    EXPECT_EQ(balance(test_address(50)), 15);
    EXPECT_GT(balance(test_address(kValidator)), 0);  // tips
    const auto view = reader_->transaction(second);
    ASSERT_TRUE(view && view->block_hash);
    EXPECT_EQ(view->index, 1U);
    EXPECT_EQ(view->transaction.sender, test_address(1));
    const auto receipt = reader_->receipt(second);
    ASSERT_TRUE(receipt);
    EXPECT_TRUE(receipt->receipt.success);
    EXPECT_EQ(receipt->receipt.cumulative_gas_used, 42'000U);
    EXPECT_EQ(reader_->pending_nonce(test_address(1)), 2U);
    EXPECT_EQ(pool_->status().transactions, 0U);
    EXPECT_EQ(reader_->receipts(1).size(), 2U);
    EXPECT_TRUE(reader_->receipts(2).empty());
}

TEST_F(ChainTest, each_block_carries_its_parents_certificate) {
    ASSERT_TRUE(make_block());
    ASSERT_TRUE(make_block());
    const auto first = reader_->block({api::BlockSelector::Kind::number, 1, {}});
    const auto second = reader_->block({api::BlockSelector::Kind::number, 2, {}});
    ASSERT_TRUE(first && second);
    EXPECT_TRUE(first->block.parent_certificate.empty());
    EXPECT_EQ(second->block.parent_certificate, first->finalization);
    const auto certificate = chain::consensus::decode_certificate(first->finalization);
    ASSERT_TRUE(certificate);
    EXPECT_EQ(certificate->hash, first->hash);
    EXPECT_TRUE(chain::consensus::verify_certificate(*certificate, chain_->epoch_setup()->committee,
                                                     {setup_->genesis_hash, setup_->genesis.params.chain_id}));
    EXPECT_EQ(reader_->block({api::BlockSelector::Kind::hash, 0, first->hash})->block, first->block);
    EXPECT_EQ(reader_->block({api::BlockSelector::Kind::earliest, 0, {}})->hash, setup_->genesis_hash);
    EXPECT_EQ(reader_->block({api::BlockSelector::Kind::number, 3, {}}), nullptr);
}

TEST_F(ChainTest, committed_blocks_survive_power_loss) {
    std::vector<Hash32> hashes;
    for (std::uint64_t nonce = 0; nonce < 5; ++nonce) {
        hashes.push_back(submit(1, transfer(nonce, 3)));
        ASSERT_TRUE(make_block());
        const auto tip = chain_->tip();
        restart_after_power_loss();
        EXPECT_EQ(chain_->tip(), tip);
        for (const auto& hash : hashes) EXPECT_TRUE(reader_->receipt(hash));
        EXPECT_EQ(balance(test_address(50)), Uint256(3 * (nonce + 1)));
    }
}

TEST_F(ChainTest, refuses_a_history_without_the_checkpoints_block) {
    ASSERT_TRUE(make_block());
    clock_.advance(setup_->genesis.params.max_idle_ms);
    const auto built = chain_->build_block(next_request());
    ASSERT_TRUE(built);
    // The block that everybody has.
    checkpoint_ = Checkpoint{2, built->hash};
    restart_after_power_loss();
    ASSERT_TRUE(chain_->build_block(request_on(chain_->tip(), chain_->tip_certificate())));
    ASSERT_TRUE(chain_->commit(built->hash, built->block, finalize(tip_of(*built))));
    ASSERT_TRUE(make_block());
    // A node whose history is another refuses to start, ...
    checkpoint_->hash.data[0] ^= 1;
    const auto refused =
        Chain::open({*store_, *setup_, *pool_, threads_, clock_, test_address(kValidator), checkpoint_});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "node.other_history");
    // ... and one that is not there yet to take the other block, final or not.
    checkpoint_->number = 4;
    restart_after_power_loss();
    ASSERT_EQ(chain_->tip().number, 3U);
    const auto other = make_block();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().name, "node.other_history");
    EXPECT_EQ(chain_->tip().number, 3U);
}

TEST_F(ChainTest, a_block_whose_commit_failed_is_committed_after_a_restart) {
    ASSERT_TRUE(make_block());
    const Hash32 hash = submit(1, transfer(0, 9));
    const auto built = chain_->build_block(next_request());
    ASSERT_TRUE(built);
    store_->fail_writes_after(0);
    EXPECT_EQ(commit(*built).error().name, "store.io");
    EXPECT_EQ(chain_->tip().number, 1U);
    EXPECT_FALSE(reader_->receipt(hash));

    stop();
    store_ = std::make_unique<chain::store::FaultStore>(durable_);
    start();
    submit(2, transfer(0, 1));  // what would be built now differs
    ASSERT_TRUE(commit(*built));
    EXPECT_EQ(chain_->tip().number, 2U);
    EXPECT_EQ(chain_->tip().hash, built->hash);
    EXPECT_TRUE(reader_->receipt(hash));
    ASSERT_TRUE(make_block());
    EXPECT_EQ(chain_->tip().number, 3U);
    EXPECT_EQ(balance(test_address(50)), 10);
}

TEST_F(ChainTest, refuses_blocks_that_do_not_follow_from_execution) {
    submit(1, transfer(0, 5));
    const auto built = chain_->build_block(next_request());
    ASSERT_TRUE(built);
    stop();
    start();  // another process, which has not executed it
    const auto block = *types::decode_block(built->block);
    const auto check = [&](auto&& change) {
        types::Block changed = block;
        change(changed);
        const auto status = chain_->validate_block(types::hash_of(changed.header), types::encode(changed));
        return status ? std::string("ok") : std::string(status.error().name);
    };
    EXPECT_EQ(check([](auto& b) { b.header.state_root.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.header.receipts_root.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.header.transactions_root.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.header.withdrawals_root.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.header.consensus.native_root.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.header.logs_bloom.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { ++b.header.gas_used; }), "block.wrong_gas");
    EXPECT_EQ(check([](auto& b) { ++b.header.gas_limit; }), "header.wrong_gas_limit");
    EXPECT_EQ(check([](auto& b) { b.header.base_fee_per_gas += 1; }), "block.wrong_base_fee");
    EXPECT_EQ(check([](auto& b) { b.header.parent_beacon_block_root.data[0] = 1; }), "header.wrong_constant");
    EXPECT_EQ(check([](auto& b) { b.header.prev_randao.data[0] ^= 1; }), "header.wrong_beacon");
    EXPECT_EQ(check([](auto& b) { ++b.header.timestamp; }), "header.wrong_timestamp");
    EXPECT_EQ(check([](auto& b) { b.header.consensus.timestamp_ms = kGenesisTime; }), "header.wrong_timestamp");
    EXPECT_EQ(check([](auto& b) { b.header.beneficiary.data[0] ^= 1; }), "block.wrong_root");
    EXPECT_EQ(check([](auto& b) { b.transactions.clear(); }), "block.wrong_gas");
    EXPECT_EQ(check([](auto& b) { b.transactions.push_back(b.transactions[0]); }), "block.bad_transaction");
    EXPECT_EQ(check([](auto& b) { b.transactions[0].back() ^= 1; }), "block.bad_transaction");
    EXPECT_EQ(check([](auto& b) { b.withdrawals.push_back({}); }), "block.unexpected_withdrawals");
    // More than its gas could pay for, which is seen before their signatures are.
    const auto all = [](auto& b) { return b.header.gas_limit / types::kTxBaseGas; };
    EXPECT_EQ(check([&](auto& b) { b.transactions.resize(all(b), Bytes{1}); }), "block.bad_transaction");
    EXPECT_EQ(check([&](auto& b) { b.transactions.resize(all(b) + 1, Bytes{1}); }), "block.too_many_transactions");
    EXPECT_EQ(check([](auto& b) { b.parent_certificate = Bytes{1}; }), "block.wrong_certificate");
    EXPECT_EQ(check([](auto& b) { b.header.number = 9; }), "header.wrong_number");
    EXPECT_EQ(check([](auto& b) { b.header.parent_hash.data[0] ^= 1; }), "block.unknown_parent");
    EXPECT_EQ(chain_->validate_block(Hash32{}, built->block).error().name, "block.wrong_hash");
    EXPECT_FALSE(chain_->validate_block(built->hash, BytesView(built->block).first(100)));
    EXPECT_EQ(chain_->commit(Hash32{}, built->block, {}).error().name, "block.wrong_hash");
    EXPECT_EQ(chain_->prepared_blocks(), 0U);
    EXPECT_EQ(check([](auto&) {}), "ok");
}

TEST_F(ChainTest, knows_whether_a_body_belongs_to_its_header) {
    submit(1, transfer(0, 5));
    const auto built = chain_->build_block(next_request());
    ASSERT_TRUE(built);
    EXPECT_TRUE(chain::exec::body_matches(built->block));
    const auto matches = [&](auto&& change) {
        auto block = *types::decode_block(built->block);
        change(block);
        return chain::exec::body_matches(types::encode(block));
    };
    EXPECT_TRUE(matches([](auto& b) { b.parent_certificate = Bytes{1}; }));  // the core compares its hash
    EXPECT_FALSE(matches([](auto& b) { b.transactions.clear(); }));
    EXPECT_FALSE(matches([](auto& b) { b.transactions.push_back(b.transactions[0]); }));
    // More than its gas can have paid for: said before their root is reckoned.
    EXPECT_FALSE(matches([](auto& b) { b.header.gas_used -= 1; }));
    EXPECT_FALSE(matches([](auto& b) { b.withdrawals.push_back({}); }));
    EXPECT_FALSE(matches([](auto& b) { b.header.withdrawals_root.data[0] ^= 1; }));
    EXPECT_FALSE(chain::exec::body_matches(BytesView(built->block).first(50)));
    EXPECT_FALSE(chain::exec::body_matches({}));
}

TEST_F(ChainTest, readers_keep_the_state_they_started_with) {
    const auto before = *reader_->state({});
    submit(1, transfer(0, 4));
    ASSERT_TRUE(make_block());
    EXPECT_EQ(before->account(test_address(50)).balance, 0);
    EXPECT_EQ(balance(test_address(50)), 4);
    EXPECT_EQ((*reader_->state({api::BlockSelector::Kind::number, 0, {}}))->account(test_address(50)).balance, 0);
    for (std::size_t i = 0; i < kKeptStates; ++i) ASSERT_TRUE(make_block());
    EXPECT_EQ(reader_->state({api::BlockSelector::Kind::number, 0, {}}).error().name, "chain.state_unavailable");
    EXPECT_EQ(reader_->state({api::BlockSelector::Kind::hash, 0, Hash32{{1}}}).error().name, "chain.state_unavailable");
    EXPECT_TRUE(reader_->state({api::BlockSelector::Kind::hash, 0, chain_->tip().hash}));
}

TEST_F(ChainTest, native_transactions_change_native_objects_and_roots) {
    const auto root = reader_->block({})->block.header.consensus.native_root;
    const Hash32 hash = submit(1, bond(0, Uint256(5) * chain::params::kGrainsPerQrn));
    ASSERT_TRUE(make_block());
    EXPECT_TRUE(reader_->receipt(hash)->receipt.success) << reader_->receipt(hash)->receipt.failure;
    EXPECT_NE(reader_->block({})->block.header.consensus.native_root, root);
    Bytes id{static_cast<std::uint8_t>(types::Role::solver)};
    append(id, test_address(1));
    EXPECT_TRUE((*reader_->state({}))->native(types::object_key(types::ObjectPrefix::role_bond, id)));
    EXPECT_GE(reader_->receipt(hash)->receipt.logs.size(), 1U);
}

TEST_F(ChainTest, waiting_transactions_survive_a_restart) {
    const Hash32 hash = submit(1, transfer(0, 4));
    submit(2, transfer(0, 4));
    ASSERT_TRUE(make_block());
    const Hash32 later = submit(1, transfer(1, 4));
    stop();
    start();
    EXPECT_EQ(pool_->find(hash), nullptr);  // in a block already
    EXPECT_NE(pool_->find(later), nullptr);
    EXPECT_EQ(pool_->status().transactions, 1U);
    ASSERT_TRUE(make_block());
    EXPECT_TRUE(reader_->receipt(later));
}

TEST_F(ChainTest, a_restart_recovers_no_signature_of_what_waits) {
    const Hash32 hash = submit(1, transfer(0, 4));
    stop();
    {
        // As if the journal's word were not enough: a sender whom no signature would give.
        auto journal = chain::mempool::PoolJournal::open(folder_ + "/mempool.journal");
        auto entries = journal->take_loaded();
        ASSERT_EQ(entries.size(), 1U);
        EXPECT_EQ(entries[0].sender, test_address(1));
        const chain::mempool::JournalEntryView other{test_address(2), entries[0].transaction};
        ASSERT_TRUE(journal->put_aside());
        ASSERT_TRUE(journal->append({&other, 1}));
        ASSERT_TRUE(journal->delete_old());
    }
    start();
    ASSERT_NE(pool_->find(hash), nullptr);
    EXPECT_EQ(pool_->find(hash)->transaction.sender, test_address(2));
}

TEST_F(ChainTest, the_journal_of_waiting_transactions_is_tidied_and_loses_none_on_the_way) {
    const std::string path = folder_ + "/mempool.journal";
    gateway_.reset();
    gateway_ = std::make_unique<TxGateway>(*pool_, chain_->board(), threads_,
                                           std::move(*chain::mempool::PoolJournal::open(path)), 1'000);
    for (std::uint64_t nonce = 0; nonce < 40; ++nonce) submit(1, transfer(nonce));
    ASSERT_TRUE(make_block());
    std::vector<Hash32> waiting;
    for (std::uint64_t nonce = 0; nonce < 3; ++nonce) waiting.push_back(submit(2, transfer(nonce)));
    const auto full = std::filesystem::file_size(path);
    gateway_->tidy_journal();  // puts it aside and moves what waits
    EXPECT_LT(std::filesystem::file_size(path), full / 4);
    waiting.push_back(submit(2, transfer(3)));
    EXPECT_TRUE(std::filesystem::exists(path + ".old"));
    // A process that ends here finds all in the two files.
    EXPECT_EQ(chain::mempool::PoolJournal::open(path)->take_loaded().size(), 43U + 3U + 1U);
    gateway_->tidy_journal();
    EXPECT_FALSE(std::filesystem::exists(path + ".old"));
    stop();
    start();
    for (const auto& hash : waiting) EXPECT_NE(pool_->find(hash), nullptr);
    EXPECT_EQ(pool_->status().transactions, 4U);
}

TEST_F(ChainTest, submission_names_what_is_wrong) {
    auto encoded = signed_by(1, transfer(0));
    ASSERT_TRUE(gateway_->submit(encoded));
    EXPECT_EQ(gateway_->submit(encoded).result.name, "already known");
    EXPECT_FALSE(gateway_->submit(BytesView(encoded).first(10)));
    EXPECT_FALSE(gateway_->submit({}));
    ASSERT_TRUE(make_block());
    EXPECT_EQ(gateway_->submit(encoded).result.name, "nonce too low");
}

TEST_F(ChainTest, tells_its_parameters_without_the_genesis_lists) {
    const auto document = json::parse(reader_->params_json());
    ASSERT_TRUE(document);
    EXPECT_EQ(*document->get_u64("chain_id"), setup_->genesis.params.chain_id);
    EXPECT_NE(document->find("market"), nullptr);
    EXPECT_EQ(document->find("allocations"), nullptr);
}

TEST(ChainDatabase, holds_one_chain) {
    chain::store::MemoryStore store;
    EXPECT_EQ(open_chain_database(store, std::nullopt).error().name, "node.no_genesis");
    const auto garbage = open_chain_database(store, "{,");
    EXPECT_EQ(garbage.error().name, "json.syntax");
    EXPECT_NE(garbage.error().detail.find("-genesis"), std::string::npos) << "which file?";
    const auto made = open_chain_database(store, test_genesis_text());
    ASSERT_TRUE(made) << made.error().to_string();
    const auto again = open_chain_database(store, std::nullopt);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->genesis_hash, made->genesis_hash);
    EXPECT_EQ(chain::exec::to_json(again->genesis), chain::exec::to_json(made->genesis));
    EXPECT_TRUE(open_chain_database(store, test_genesis_text()));

    auto other = test_genesis();
    other.params.market.retention_s += 1;
    EXPECT_EQ(open_chain_database(store, chain::exec::to_json(other).dump()).error().name, "node.wrong_genesis");
    chain::store::WriteBatch batch;
    chain::store::put_meta(batch, "database_version", be64(kVersionWithoutIndex));
    ASSERT_TRUE(store.write(batch, true));
    EXPECT_TRUE(open_chain_database(store, std::nullopt));
    EXPECT_EQ(chain::store::get_meta(store, "database_version")->value(), to_bytes(be64(kDatabaseVersion)))
        << "no program may go on with it that keeps no index";
    chain::store::put_meta(batch, "database_version", Bytes{9});
    ASSERT_TRUE(store.write(batch, true));
    EXPECT_EQ(open_chain_database(store, std::nullopt).error().name, "node.database_version");
}

}  // namespace
}  // namespace quern::node
