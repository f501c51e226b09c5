// What RPC and workers may ask of the chain. Implemented by the node; every method may be called from any thread and
// answers from immutable committed data. `latest` is the newest finalized block.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chain/types/native_objects.h"
#include "chain/types/receipt.h"
#include "chain/types/sender_cache.h"

namespace quern::chain::api {

struct BlockView {
    types::Block block;
    Hash32 hash;
    std::uint64_t size = 0;                 // bytes of the encoded block
    Bytes finalization;                     // certificate; empty for genesis
    types::SenderCache* senders = nullptr;  // remembers who sent its transactions, where there is one
};

struct TransactionView {
    types::RecoveredTransaction transaction;
    // Absent while the transaction waits in the mempool.
    std::optional<Hash32> block_hash;
    std::uint64_t block_number = 0;
    std::uint64_t index = 0;
    Uint256 base_fee;  // of its block
};

struct ReceiptView {
    types::Receipt receipt;
    TransactionView transaction;
    std::uint64_t first_log_index = 0;
};

struct AccountView {
    std::uint64_t nonce = 0;
    Uint256 balance;
};

// eth_getProof (EIP-1186): nodes from the root towards the key, whether it is there or not.
struct SlotProof {
    Hash32 slot;
    Hash32 value;
    std::vector<Bytes> nodes;
};
struct AccountProof {
    AccountView account;
    Hash32 code_hash;
    Hash32 storage_root;
    std::vector<Bytes> nodes;
    std::vector<SlotProof> slots;
};

// A native object that blocks have written.
struct ObjectChange {
    Bytes key;
    std::vector<std::optional<Bytes>> before;  // what was there before each block that wrote it, oldest block first
};
struct ChangeLimits {
    std::size_t objects = 0;
    std::size_t bytes = 0;  // of all that was there before
};

// The state after one committed block.
class StateView {
public:
    virtual ~StateView() = default;
    [[nodiscard]] virtual std::uint64_t block_number() const = 0;
    [[nodiscard]] virtual AccountView account(const types::Address& address) const = 0;
    [[nodiscard]] virtual Bytes code_at(const types::Address& address) const = 0;
    [[nodiscard]] virtual Hash32 storage(const types::Address& address, const Hash32& slot) const = 0;
    [[nodiscard]] virtual std::optional<Bytes> native(BytesView key) const = 0;
    [[nodiscard]] virtual std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                            std::size_t limit) const = 0;
    // Native objects under one of `prefixes` that blocks after `since` up to this state's have written, ascending by
    // key; nullopt: they are more than the limits, or what was there before is not kept any more. Errors: store.*.
    [[nodiscard]] virtual Expected<std::optional<std::vector<ObjectChange>>> changed_since(
        std::uint64_t since, std::span<const Bytes> prefixes, const ChangeLimits& limits) const = 0;
    // The first fault of the store that a read met: it read as "nothing there". To be asked before an answer is given.
    [[nodiscard]] virtual Status status() const { return {}; }
    // Under the block's state root. Errors: state.too_many_changes (busy), store.*, trie.*.
    [[nodiscard]] virtual Expected<AccountProof> prove(const types::Address& address,
                                                       std::span<const Hash32> slots) const = 0;
};

// A block named by a client.
struct BlockSelector {
    enum class Kind : std::uint8_t { latest, pending, earliest, number, hash } kind = Kind::latest;
    std::uint64_t number = 0;
    Hash32 hash;
};

class ChainReader {
public:
    virtual ~ChainReader() = default;
    [[nodiscard]] virtual std::uint64_t chain_id() const = 0;
    [[nodiscard]] virtual Hash32 genesis_hash() const = 0;
    [[nodiscard]] virtual std::uint64_t head_number() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const BlockView> block(
        const BlockSelector& selector) const = 0;  // null: unknown
    [[nodiscard]] virtual std::vector<types::Receipt> receipts(std::uint64_t block_number) const = 0;
    [[nodiscard]] virtual std::optional<TransactionView> transaction(const Hash32& hash) const = 0;
    [[nodiscard]] virtual std::optional<ReceiptView> receipt(const Hash32& hash) const = 0;
    // Error chain.state_unavailable when the state of that block is not kept.
    [[nodiscard]] virtual Expected<std::shared_ptr<const StateView>> state(const BlockSelector& selector) const = 0;
    // The next nonce counting the mempool's transactions of this sender.
    [[nodiscard]] virtual std::uint64_t pending_nonce(const types::Address& address) const = 0;
    [[nodiscard]] virtual Uint256 next_base_fee() const = 0;
    [[nodiscard]] virtual std::uint64_t block_gas_limit() const = 0;
    // task_submit transactions that wait in the mempool (the pending part of the task pool).
    [[nodiscard]] virtual std::vector<types::RecoveredTransaction> pending_tasks() const = 0;
    // Measured when this node executed the dispute's leaf; nullopt if it did not (yet).
    [[nodiscard]] virtual std::optional<double> leaf_microseconds(std::uint64_t dispute) const = 0;
    // The market's parameters as a JSON document, for task_estimate and clients.
    [[nodiscard]] virtual std::string params_json() const = 0;
};

}  // namespace quern::chain::api
