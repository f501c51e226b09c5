#include "chain/ethereum/block_execution.h"

#include "chain/ethereum/dao_fork.h"
#include "chain/ethereum/fees.h"
#include "chain/ethereum/ommers.h"
#include "chain/ethereum/requests.h"
#include "chain/ethereum/system_calls.h"
#include "chain/ethereum/transactions.h"
#include "chain/evm/state_world.h"
#include "chain/state/trie.h"

namespace quern::chain::ethereum {
namespace {

constexpr std::uint64_t kGwei = 1'000'000'000;
constexpr std::size_t kMaxEncodedBytes = std::size_t{8} << 20;  // EIP-7934

class AncestorHashes final : public evm::BlockHashes {
public:
    explicit AncestorHashes(const Ancestor& parent) : parent_(parent) {}
    Hash32 block_hash(std::uint64_t number) const override {
        for (const Ancestor* each = &parent_; each != nullptr; each = each->parent)
            if (each->header.number == number) return each->header.hash;
        return {};
    }

private:
    const Ancestor& parent_;
};

vm::evm::BlockContext context_of(const Header& header, const Fork& fork, std::uint64_t chain_id) {
    vm::evm::BlockContext context;
    context.coinbase = header.coinbase;
    context.number = header.number;
    context.timestamp = header.timestamp;
    context.gas_limit = header.gas_limit;
    context.difficulty = header.difficulty;
    context.prev_randao = header.mix_hash;
    context.base_fee = header.base_fee.value_or(Uint256());
    if (header.excess_blob_gas)
        context.blob_base_fee = blob_base_fee(*header.excess_blob_gas, fork.blobs.base_fee_update_fraction);
    context.chain_id = chain_id;
    return context;
}

class Execution {
public:
    Execution(const Surroundings& surroundings, const Fork& fork, const Block& block, const Ancestor& parent,
              state::Overlay& overlay)
        : surroundings_(surroundings),
          fork_(fork),
          block_(block),
          parent_(parent),
          overlay_(overlay),
          hashes_(parent),
          world_(overlay, surroundings.codes, hashes_, block.header.number),
          context_(context_of(block.header, fork, surroundings.chain_id)),
          system_(surroundings.machine, world_, context_, fork.revision) {}

    Status run() {
        const Header& header = block_.header;
        if (surroundings_.network.dao_block() == header.number) move_dao_balances(overlay_);
        if (has(Revision::cancun)) system_.store_beacon_root(*header.parent_beacon_block_root);
        if (has(Revision::prague)) system_.store_parent_hash(parent_.header.hash);
        for (const Bytes& envelope : block_.transactions) QUERN_CHECK(execute(envelope));
        for (const types::Withdrawal& withdrawal : block_.withdrawals.value_or(std::vector<types::Withdrawal>()))
            overlay_.change_account(withdrawal.address).balance += Uint256(withdrawal.amount_gwei) * Uint256(kGwei);
        pay_rewards(overlay_, fork_, block_);
        if (has(Revision::prague)) QUERN_CHECK(check_requests());
        return check_results();
    }

private:
    [[nodiscard]] bool has(Revision since) const { return fork_.revision >= since; }

    Status execute(const Bytes& envelope) {
        QUERN_TRY(const auto tx, decode_transaction(envelope, fork_.revision));
        context_.max_blobs = static_cast<std::size_t>(fork_.blobs.max) - blobs_;
        if (surroundings_.watcher != nullptr) surroundings_.watcher->begin();
        QUERN_TRY(const auto result,
                  vm::evm::execute_transaction(surroundings_.machine, world_, context_, fork_.revision, tx,
                                               block_.header.gas_limit - gas_used_));
        if (surroundings_.watcher != nullptr) surroundings_.watcher->end(result, overlay_);
        gas_used_ += result.gas_used;
        blobs_ += tx.blob_hashes.size();
        const std::vector<types::Log> logs = overlay_.take_logs();
        if (has(Revision::prague)) QUERN_CHECK(add_deposits(logs, deposits_));
        receipts_.push_back(receipt(tx.type, result.succeeded, logs));
        return {};
    }

    // EIP-658: before Byzantium the state's root stands where the status is.
    Bytes receipt(vm::evm::TransactionType type, bool succeeded, const std::vector<types::Log>& logs) {
        const types::Bloom bloom = types::bloom_of(logs);
        for (std::size_t i = 0; i < bloom.data.size(); ++i) logs_bloom_.data[i] |= bloom.data[i];
        rlp::Writer out;
        out.begin_list();
        if (has(Revision::byzantium))
            out.boolean(succeeded);
        else
            out.fixed(surroundings_.root_of(overlay_));
        out.integer(gas_used_).fixed(bloom).begin_list();
        for (const types::Log& log : logs) {
            out.begin_list().fixed(log.address).begin_list();
            for (const Hash32& topic : log.topics) out.fixed(topic);
            out.end_list().bytes(log.data).end_list();
        }
        out.end_list().end_list();
        Bytes encoded;
        if (type != vm::evm::TransactionType::legacy) encoded.push_back(static_cast<std::uint8_t>(type));
        append(encoded, std::move(out).finish());
        return encoded;
    }

    Status check_requests() {
        QUERN_TRY(Bytes withdrawals, system_.take_withdrawals());
        QUERN_TRY(Bytes consolidations, system_.take_consolidations());
        const std::array<Requests, 3> requests{{{RequestType::deposit, std::move(deposits_)},
                                                {RequestType::withdrawal, std::move(withdrawals)},
                                                {RequestType::consolidation, std::move(consolidations)}}};
        if (hash_of(requests) != *block_.header.requests_hash) return fail("block.invalid_requests");
        return {};
    }

    Status check_results() const {
        const Header& header = block_.header;
        // Only here, so that a transaction that must not be in a block is the reason that is named, not what follows.
        if (block_.transactions_root != header.transactions_root) return fail("block.invalid_transactions_root");
        if (gas_used_ != header.gas_used) return fail("block.invalid_gas_used", "used " + std::to_string(gas_used_));
        if (header.blob_gas_used && *header.blob_gas_used > fork_.blobs.max * kBlobGas)
            return fail("block.blob_gas_used_above_limit");
        if (header.blob_gas_used && *header.blob_gas_used != blobs_ * kBlobGas)
            return fail("block.incorrect_blob_gas_used", "used " + std::to_string(blobs_ * kBlobGas));
        const auto check_root = [](std::string_view name, const Hash32& came, const Hash32& wanted) -> Status {
            if (came == wanted) return {};
            return fail(name, "expected " + to_hex0x(wanted) + ", got " + to_hex0x(came));
        };
        QUERN_CHECK(
            check_root("block.invalid_receipts_root", state::ordered_trie_root(receipts_), header.receipts_root));
        if (logs_bloom_ != header.logs_bloom) return fail("block.invalid_log_bloom");
        return check_root("block.invalid_state_root", surroundings_.root_of(overlay_), header.state_root);
    }

    const Surroundings& surroundings_;
    const Fork& fork_;
    const Block& block_;
    const Ancestor& parent_;
    state::Overlay& overlay_;
    AncestorHashes hashes_;
    evm::StateWorld world_;
    vm::evm::BlockContext context_;
    SystemCalls system_;

    std::uint64_t gas_used_ = 0;
    std::size_t blobs_ = 0;
    Bytes deposits_;
    std::vector<Bytes> receipts_;
    types::Bloom logs_bloom_;
};

// Whether the header speaks of this body.
Status check_body(const Network& network, const Fork& fork, const Block& block, const Ancestor& parent) {
    const Header& header = block.header;
    if (fork.revision >= Revision::osaka && block.encoded_bytes > kMaxEncodedBytes)
        return fail("block.rlp_block_limit_exceeded", std::to_string(block.encoded_bytes) + " bytes");
    if (block.withdrawals.has_value() != (fork.revision >= Revision::shanghai))
        return fail("block.incorrect_block_format", "withdrawals");
    if (header.withdrawals_root != block.withdrawals_root) return fail("block.invalid_withdrawals_root");
    if (header.ommers_hash != block.ommers_hash) return fail("block.invalid_uncles_hash");
    return check_ommers(network, block, parent);
}

}  // namespace

Status execute_block(const Surroundings& surroundings, const Block& block, const Ancestor& parent,
                     state::Overlay& overlay) {
    const Fork& fork =
        surroundings.network.fork_of(block.header.number, block.header.timestamp, parent.total_difficulty);
    QUERN_CHECK(check_body(surroundings.network, fork, block, parent));
    return Execution(surroundings, fork, block, parent, overlay).run();
}

}  // namespace quern::chain::ethereum
