// The node's own executor, mempool and database format behind a simulated node: node::Chain over a FaultStore, which
// loses what was not synced when the node crashes. Single-threaded.
#pragma once

#include "base/clock.h"
#include "chain/exec/block_validation.h"
#include "chain/store/fault_kv.h"
#include "node/chain/chain.h"
#include "node/net/block_server.h"
#include "sim/light_chain.h"

namespace quern::sim {

// The genesis file for what a light one describes, with accounts for the users.
[[nodiscard]] std::string real_genesis_text(const LightGenesis& light);

class RealChain final : public SimChain {
public:
    // A new disk with the genesis of this text. `beneficiary`: of the blocks built here.
    // `range_blocks`: that range() gives at most.
    RealChain(std::string genesis_text, std::uint8_t beneficiary, std::size_t range_blocks = sdbft::kMaxBlocksPerRange);

    Expected<Bytes> build(const sdbft::BlockRequest& request, std::vector<Bytes> transactions,
                          std::uint8_t mark) override;
    bool validate(const Hash32& hash, BytesView block) override;
    Expected<std::optional<sdbft::EpochSetup>> commit(const Hash32& hash, BytesView block,
                                                      const std::optional<Certificate>& certificate) override;
    void fail_next_commit(Rng& rng) override { store_->fail_writes_after(rng.below(2)); }
    Status crash(Rng& rng) override;
    std::unique_ptr<SimChain> copy_of_disk() const override;
    void submit(const types::RecoveredTransaction& transaction) override;
    std::optional<bool> has_transactions() const override;
    const Tip& tip() const override { return chain_->tip(); }
    Hash32 hash_at(std::uint64_t height) const override;
    Bytes tip_certificate() const override { return chain_->tip_certificate(); }
    sdbft::EpochSetup epoch_setup() const override;
    std::optional<Committee> committee_of(std::uint64_t epoch) const override;
    std::optional<sdbft::BlockAnswer> block(const Hash32& hash) const override;
    std::optional<sdbft::RangeAnswer> range(std::uint64_t first) const override;
    bool body_matches(BytesView block) const override { return chain::exec::body_matches(block); }
    Status audit() const override;

    // Until the next crash.
    [[nodiscard]] const node::ChainSetup& setup() const { return *setup_; }
    [[nodiscard]] const node::SnapshotBoard& board() const { return chain_->board(); }
    [[nodiscard]] chain::store::Store& store() { return *store_; }
    [[nodiscard]] chain::mempool::Pool& pool() { return *pool_; }
    [[nodiscard]] node::BlockServer server() const { return {chain_->board(), setup_->genesis.params.epoch_length}; }
    // Validators that evidence in blocks convicted.
    [[nodiscard]] std::vector<types::Address> convicted() const;
    [[nodiscard]] std::uint64_t nonce_of(const types::Address& address) const;

private:
    [[nodiscard]] Status start();
    [[nodiscard]] const chain::state::FlatState& state() const { return chain_->board().latest()->state; }

    std::string genesis_text_;
    std::uint8_t beneficiary_;
    std::size_t range_blocks_;
    chain::store::MemoryStore durable_;
    std::unique_ptr<chain::store::FaultStore> store_;
    ThreadPool threads_{1};
    ManualClock clock_{0};
    std::optional<node::ChainSetup> setup_;
    std::unique_ptr<chain::mempool::Pool> pool_;
    std::unique_ptr<node::Chain> chain_;
};

}  // namespace quern::sim
