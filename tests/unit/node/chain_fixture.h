// A chain over a store that forgets what was not synced, with one validator, funded accounts and a clock moved by hand.
// Blocks are built and committed as consensus would ask for it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "chain/consensus/beacon.h"
#include "chain/store/fault_kv.h"
#include "chain/store/memory_kv.h"
#include "chain/store/tables.h"
#include "node/chain/chain.h"
#include "node/serve/call_simulator.h"
#include "node/serve/reader.h"
#include "node/serve/tx_gateway.h"

namespace quern::node {

namespace types = chain::types;

inline crypto::PrivateKey test_key(std::uint8_t seed) {
    Hash32 secret;
    secret.data[31] = seed;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}
inline types::Address test_address(std::uint8_t seed) { return crypto::address20(test_key(seed)); }

inline constexpr std::uint8_t kValidator = 100;
inline constexpr std::uint64_t kGenesisTime = 1'700'000'000'000;

inline chain::exec::Genesis test_genesis() {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = kGenesisTime;
    genesis.params.market.dispute_cost = 1'000'000;
    genesis.params.min_base_fee = 7;
    for (std::uint8_t seed = 1; seed <= 5; ++seed)
        genesis.allocations.push_back({test_address(seed), Uint256(1000) * chain::params::kGrainsPerQrn});
    genesis.validators.push_back({to_bytes(crypto::derive_public(test_key(kValidator)).bytes),
                                  Uint256(1000) * Uint256(chain::params::kGrainsPerQrn)});
    return genesis;
}
inline std::string test_genesis_text() { return chain::exec::to_json(test_genesis()).dump(); }

class ChainFixture : public ::testing::Test {
protected:
    explicit ChainFixture(const chain::exec::Genesis& genesis = test_genesis())
        : genesis_text_(chain::exec::to_json(genesis).dump()) {
        std::string pattern = ::testing::TempDir() + "quern-node-XXXXXX";
        if (::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
        store_ = std::make_unique<chain::store::FaultStore>(durable_);
        start();
    }
    ~ChainFixture() override {
        stop();
        std::filesystem::remove_all(folder_);
    }

    // What a new process does over what the disk holds.
    void start() {
        auto opened = open_chain_database(*store_, genesis_text_, archive_);
        ASSERT_TRUE(opened) << opened.error().to_string();
        setup_ = std::move(*opened);
        pool_ = std::make_unique<chain::mempool::Pool>(setup_->genesis.params);
        auto chain = Chain::open(
            {*store_, *setup_, *pool_, threads_, clock_, test_address(kValidator), checkpoint_, max_unflushed_bytes_});
        ASSERT_TRUE(chain) << chain.error().to_string();
        chain_ = std::move(*chain);
        gateway_ =
            std::make_unique<TxGateway>(*pool_, chain_->board(), threads_,
                                        std::move(*chain::mempool::PoolJournal::open(folder_ + "/mempool.journal")));
        gateway_->restore();
        reader_ = std::make_unique<Reader>(*setup_, chain_->board(), *pool_, chain_->leaf_timer());
        simulator_ = std::make_unique<CallSimulator>(*setup_, chain_->board());
    }
    void stop() {
        simulator_.reset(), reader_.reset(), gateway_.reset();
        chain_.reset(), pool_.reset(), setup_.reset();
    }
    void restart_after_power_loss() {
        stop();
        ASSERT_TRUE(store_->crash());
        start();
    }
    // What consensus would ask for on `parent`.
    [[nodiscard]] chain::consensus::sdbft::BlockRequest request_on(const chain::consensus::Tip& parent,
                                                                   const Bytes& parent_certificate) const {
        const auto epoch = *chain_->epoch_setup();
        chain::consensus::sdbft::BlockRequest request;
        request.parent = parent;
        request.epoch = epoch.epoch;
        request.view = parent.epoch == epoch.epoch ? parent.view + 1 : 1;
        request.timestamp_ms = std::max(clock_.now_ms(), parent.timestamp_ms + 1);
        request.beacon = chain::consensus::next_beacon(parent.beacon, parent.hash);
        request.parent_certificate = parent_certificate;
        request.committee_hash = epoch.committee.hash();
        request.next_committee_hash = epoch.next_committee_hash;
        return request;
    }
    [[nodiscard]] chain::consensus::sdbft::BlockRequest next_request() const {
        return request_on(chain_->tip(), chain_->tip_certificate());
    }
    [[nodiscard]] static chain::consensus::Tip tip_of(const chain::consensus::BuiltBlock& built) {
        return chain::consensus::tip_of(types::decode_block(built.block)->header);
    }
    // The one validator's finalization, in the view in which the block was proposed.
    [[nodiscard]] chain::consensus::Certificate finalize(const chain::consensus::Tip& block) const {
        const chain::consensus::Vote vote{chain::consensus::VoteType::finalize, block.epoch, block.view, block.hash};
        const chain::consensus::ChainIdentity chain{setup_->genesis_hash, setup_->genesis.params.chain_id};
        return chain::consensus::make_certificate(
            vote, chain_->epoch_setup()->committee,
            {{0, chain::consensus::sign_vote(chain, vote, test_key(kValidator))}});
    }
    Status commit(const chain::consensus::BuiltBlock& built) {
        QUERN_CHECK(chain_->commit(built.hash, built.block, finalize(tip_of(built))));
        check_walks();
        return {};
    }
    // What execution walks over in memory is what the database holds.
    void check_walks() const {
        using chain::store::LiveRangesReader;
        const auto latest = chain_->board().latest();
        const chain::state::FlatState stored(*store_);
        for (const auto prefix : types::kWalkedObjects) {
            const Bytes key = types::object_key(prefix);
            EXPECT_TRUE(dynamic_cast<const LiveRangesReader&>(*latest->reader)
                            .is_in_memory(chain::store::table_key(chain::store::Table::native, {key})));
            EXPECT_EQ(latest->state.native_range(key, {}, 1'000), stored.native_range(key, {}, 1'000));
        }
    }
    // Makes one block (after max_idle_ms).
    Status make_block() {
        clock_.advance(setup_->genesis.params.max_idle_ms);
        QUERN_TRY(const auto built, chain_->build_block(next_request()));
        return commit(built);
    }

    types::Transaction transfer(std::uint64_t nonce, const Uint256& value = 1) const {
        types::Transaction tx;
        tx.type = types::TxType::dynamic_fee;
        tx.chain_id = setup_->genesis.params.chain_id;
        tx.nonce = nonce;
        tx.max_priority_fee_per_gas = 1'000'000'000;
        tx.max_fee_per_gas = 100'000'000'000;
        tx.gas_limit = 21'000;
        tx.to = test_address(50);
        tx.value = value;
        return tx;
    }
    types::Transaction bond(std::uint64_t nonce, const Uint256& amount) const {
        auto tx = transfer(nonce, 0);
        tx.type = types::TxType::native;
        tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::bond);
        tx.to.reset();
        tx.gas_limit = 200'000;
        tx.data = types::encode_record(types::BondPayload{types::Role::solver, amount});
        return tx;
    }
    static Bytes signed_by(std::uint8_t seed, types::Transaction tx) {
        types::sign(tx, test_key(seed));
        return types::encode(tx);
    }
    Hash32 submit(std::uint8_t seed, const types::Transaction& tx) {
        const auto submission = gateway_->submit(signed_by(seed, tx));
        EXPECT_TRUE(submission) << submission.result.to_string();
        return submission.hash;
    }
    [[nodiscard]] Uint256 balance(const types::Address& address) const {
        return (*reader_->state({}))->account(address).balance;
    }

    const std::string genesis_text_;
    std::string folder_;
    ManualClock clock_{kGenesisTime + 60'000};
    ThreadPool threads_{2};
    std::optional<Checkpoint> checkpoint_;  // of the next start
    bool archive_ = false;
    std::size_t max_unflushed_bytes_ = 0;  // so that databases can be compared
    chain::store::MemoryStore durable_;
    std::unique_ptr<chain::store::FaultStore> store_;
    std::optional<ChainSetup> setup_;
    std::unique_ptr<chain::mempool::Pool> pool_;
    std::unique_ptr<Chain> chain_;
    std::unique_ptr<TxGateway> gateway_;
    std::unique_ptr<Reader> reader_;
    std::unique_ptr<CallSimulator> simulator_;
};

}  // namespace quern::node
