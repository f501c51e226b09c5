// The chain as RPC and workers read it: chain/api's ChainReader over snapshots, stored blocks and the mempool.
// Thread-safe.
#pragma once

#include <array>
#include <map>
#include <unordered_map>

#include "base/mutex.h"
#include "chain/mempool/pool.h"
#include "node/chain/chain_database.h"
#include "node/chain/leaf_timer.h"
#include "node/chain/snapshot.h"

namespace quern::node {

inline constexpr std::size_t kCachedBlocks = 128;
inline constexpr std::size_t kMaxHotAccounts = 16'384;

// Accounts of the newest state that were asked for: wallets ask for the same ones again and again. Thread-safe.
class HotAccounts {
public:
    // Of the state after block `number`; nullopt: not known, or of another block.
    [[nodiscard]] std::optional<chain::api::AccountView> find(std::uint64_t number,
                                                              const chain::types::Address& address);
    void put(std::uint64_t number, const chain::types::Address& address, const chain::api::AccountView& account);

private:
    // Nobody can choose addresses that fall together.
    struct SecretHasher {
        std::array<std::uint64_t, 3> secret;
        std::size_t operator()(const chain::types::Address& address) const noexcept;
    };
    Mutex mutex_;
    std::uint64_t number_ QUERN_GUARDED_BY(mutex_) = 0;
    std::unordered_map<chain::types::Address, chain::api::AccountView, SecretHasher> accounts_ QUERN_GUARDED_BY(mutex_){
        0, SecretHasher{random_secret()}};
    [[nodiscard]] static std::array<std::uint64_t, 3> random_secret();
};

class Reader final : public chain::api::ChainReader {
public:
    // All outlive the reader.
    Reader(const ChainSetup& setup, const SnapshotBoard& board, const chain::mempool::Pool& pool,
           const LeafTimer& leaf_timer)
        : setup_(setup), board_(board), pool_(pool), leaf_timer_(leaf_timer) {}

    [[nodiscard]] std::uint64_t chain_id() const override { return setup_.genesis.params.chain_id; }
    [[nodiscard]] Hash32 genesis_hash() const override { return setup_.genesis_hash; }
    [[nodiscard]] std::uint64_t head_number() const override { return board_.latest()->number(); }
    [[nodiscard]] std::shared_ptr<const chain::api::BlockView> block(
        const chain::api::BlockSelector& selector) const override;
    [[nodiscard]] std::vector<chain::types::Receipt> receipts(std::uint64_t block_number) const override;
    [[nodiscard]] std::optional<chain::api::TransactionView> transaction(const Hash32& hash) const override;
    [[nodiscard]] std::optional<chain::api::ReceiptView> receipt(const Hash32& hash) const override;
    [[nodiscard]] Expected<std::shared_ptr<const chain::api::StateView>> state(
        const chain::api::BlockSelector& selector) const override;
    [[nodiscard]] std::uint64_t pending_nonce(const chain::types::Address& address) const override;
    [[nodiscard]] Uint256 next_base_fee() const override { return board_.latest()->next_base_fee; }
    [[nodiscard]] std::uint64_t block_gas_limit() const override { return setup_.genesis.params.block_gas_limit; }
    [[nodiscard]] std::vector<chain::types::RecoveredTransaction> pending_tasks() const override;
    [[nodiscard]] std::optional<double> leaf_microseconds(std::uint64_t dispute) const override;
    [[nodiscard]] std::string params_json() const override;

private:
    using BlockPtr = std::shared_ptr<const chain::api::BlockView>;
    [[nodiscard]] BlockPtr block_by_hash(const Snapshot& at, const Hash32& hash) const;
    [[nodiscard]] BlockPtr block_by_number(const Snapshot& at, std::uint64_t number) const;

    const ChainSetup& setup_;
    const SnapshotBoard& board_;
    const chain::mempool::Pool& pool_;
    const LeafTimer& leaf_timer_;
    mutable Mutex mutex_;
    // Recently read blocks by number; blocks never change.
    mutable std::map<std::uint64_t, BlockPtr> cache_ QUERN_GUARDED_BY(mutex_);
    mutable HotAccounts hot_accounts_;
};

// The snapshot that a selector names: of the newest kKeptStates blocks, or of any in an archive. Error
// chain.state_unavailable.
[[nodiscard]] Expected<SnapshotPtr> select_snapshot(const ChainSetup& setup, const SnapshotBoard& board,
                                                    const chain::api::BlockSelector& selector);

}  // namespace quern::node
