#include "vm/evm/transition.h"

#include <algorithm>

#include "vm/evm/code.h"
#include "vm/evm/machine.h"
#include "vm/evm/precompiles.h"

namespace quern::vm::evm {
namespace {

constexpr std::uint64_t kTransactionGas = 21'000;
constexpr std::uint64_t kCreationGas = 32'000;
constexpr std::uint64_t kInitCodeWordGas = 2;           // EIP-3860
constexpr std::uint64_t kAccessListAddressGas = 2'400;  // EIP-2930
constexpr std::uint64_t kAccessListKeyGas = 1'900;
constexpr std::uint64_t kAuthorizationGas = 25'000;                   // EIP-7702, of an account that is new
constexpr std::uint64_t kKnownAuthorizationGas = 12'500;              // of one that is there
constexpr std::uint64_t kFloorTokenGas = 10;                          // EIP-7623
constexpr std::uint64_t kMaxTransactionGas = std::uint64_t{1} << 24;  // EIP-7825
constexpr std::uint64_t kBlobGas = std::uint64_t{1} << 17;            // EIP-4844
constexpr std::uint8_t kBlobHashVersion = 0x01;

struct DataBytes {
    std::uint64_t zero = 0;
    std::uint64_t other = 0;
};
DataBytes count(BytesView data) {
    const auto zero = static_cast<std::uint64_t>(std::count(data.begin(), data.end(), 0));
    return {zero, data.size() - zero};
}

struct BlobLimits {
    std::size_t of_block;
    std::size_t of_transaction;
};
BlobLimits blob_limits(Revision revision) {
    if (revision >= Revision::osaka) return {9, 6};  // EIP-7594
    constexpr std::size_t kNoLimit = ~std::size_t{0};
    return {revision >= Revision::prague ? std::size_t{9} : std::size_t{6}, kNoLimit};
}

class Transition {
public:
    Transition(Machine& machine, World& world, const BlockContext& block, Revision revision, const TransactionInput& tx)
        : machine_(machine), world_(world), block_(block), revision_(revision), tx_(tx) {}

    Expected<TransactionResult> run(std::uint64_t block_gas_left) {
        QUERN_CHECK(check_type());
        QUERN_CHECK(check_gas_limit(block_gas_left));
        QUERN_CHECK(check_fees());
        if (tx_.type == TransactionType::blob) QUERN_CHECK(check_blobs());
        if (tx_.type == TransactionType::set_code) QUERN_CHECK(check_authorizations());
        QUERN_CHECK(check_intrinsic_gas());
        QUERN_CHECK(check_sender());
        return execute();
    }

private:
    [[nodiscard]] bool has(Revision since) const { return revision_ >= since; }
    [[nodiscard]] bool is_creation() const { return !tx_.to.has_value(); }

    // --- Whether it may be in a block -------------------------------------------------------------------------------
    Status check_type() const {
        constexpr std::array<Revision, 5> kSince{Revision::frontier, Revision::berlin, Revision::london,
                                                 Revision::cancun, Revision::prague};
        constexpr std::array<std::string_view, 5> kPreFork{"tx.type_0_tx_pre_fork", "tx.type_1_tx_pre_fork",
                                                           "tx.type_2_tx_pre_fork", "tx.type_3_tx_pre_fork",
                                                           "tx.type_4_tx_pre_fork"};
        const auto type = static_cast<std::size_t>(tx_.type);
        if (!has(kSince[type])) return fail(kPreFork[type]);
        if (tx_.chain_id && *tx_.chain_id != block_.chain_id) return fail("tx.invalid_chainid");
        return {};
    }

    Status check_fees() const {
        if (!has(Revision::london)) return {};
        if (tx_.max_fee_per_gas < tx_.max_priority_fee_per_gas) return fail("tx.priority_greater_than_max_fee_per_gas");
        if (tx_.max_fee_per_gas < block_.base_fee) return fail("tx.insufficient_max_fee_per_gas");
        return {};
    }

    Status check_blobs() const {
        if (is_creation()) return fail("tx.type_3_tx_contract_creation");
        if (tx_.blob_hashes.empty()) return fail("tx.type_3_tx_zero_blobs");
        const BlobLimits limits = blob_limits(revision_);
        if (tx_.blob_hashes.size() > block_.max_blobs.value_or(limits.of_block))
            return fail("tx.type_3_tx_max_blob_gas_allowance_exceeded");
        if (tx_.blob_hashes.size() > limits.of_transaction) return fail("tx.type_3_tx_blob_count_exceeded");
        for (const Hash32& hash : tx_.blob_hashes)
            if (hash.data[0] != kBlobHashVersion) return fail("tx.type_3_tx_invalid_blob_versioned_hash");
        if (tx_.max_fee_per_blob_gas < block_.blob_base_fee) return fail("tx.insufficient_max_fee_per_blob_gas");
        return {};
    }

    Status check_authorizations() const {
        if (is_creation()) return fail("tx.type_4_tx_contract_creation");
        if (tx_.authorizations.empty()) return fail("tx.type_4_empty_authorization_list");
        return {};
    }

    Status check_gas_limit(std::uint64_t block_gas_left) const {
        if (has(Revision::osaka) && tx_.gas_limit > kMaxTransactionGas) return fail("tx.gas_limit_exceeds_maximum");
        if (tx_.gas_limit > block_gas_left) return fail("tx.gas_allowance_exceeded");
        return {};
    }

    Status check_intrinsic_gas() const {
        if (is_creation() && has(Revision::shanghai) && tx_.data.size() > kMaxInitCodeBytes)
            return fail("tx.initcode_size_exceeded");
        if (tx_.gas_limit < intrinsic_gas(tx_, revision_)) return fail("tx.intrinsic_gas_too_low");
        if (tx_.gas_limit < floor_gas(tx_, revision_)) return fail("tx.intrinsic_gas_below_floor_gas_cost");
        return {};
    }

    Status check_sender() {
        const std::uint64_t nonce = world_.nonce(tx_.sender);
        if (tx_.nonce < nonce) return fail("tx.nonce_mismatch_too_low");
        if (tx_.nonce > nonce) return fail("tx.nonce_mismatch_too_high");
        if (nonce == ~std::uint64_t{0}) return fail("tx.nonce_is_max");  // EIP-2681
        const auto code = world_.code(tx_.sender);
        if (!code->bytes().empty() && !(has(Revision::prague) && delegation_of(code->bytes())))
            return fail("tx.sender_not_eoa");  // EIP-3607
        const auto gas = checked_mul(tx_.max_fee_per_gas, tx_.gas_limit);
        if (!gas) return fail("tx.gaslimit_price_product_overflow");
        auto needed = checked_add(*gas, tx_.value);
        if (needed && tx_.type == TransactionType::blob) {
            const auto blobs = checked_mul(tx_.max_fee_per_blob_gas, kBlobGas * tx_.blob_hashes.size());
            needed = blobs ? checked_add(*needed, *blobs) : std::nullopt;
        }
        if (!needed || world_.balance(tx_.sender) < *needed) return fail("tx.insufficient_account_funds");
        return {};
    }

    // --- What it does -----------------------------------------------------------------------------------------------
    [[nodiscard]] Uint256 gas_price() const {
        if (!has(Revision::london)) return tx_.max_fee_per_gas;
        return block_.base_fee + std::min(tx_.max_priority_fee_per_gas, tx_.max_fee_per_gas - block_.base_fee);
    }

    void warm_what_is_named() {
        if (!has(Revision::berlin)) return;
        world_.access_account(tx_.sender);
        if (has(Revision::shanghai)) world_.access_account(block_.coinbase);  // EIP-3651
        if (tx_.to) world_.access_account(*tx_.to);
        for (const AccessListItem& item : tx_.access_list) {
            world_.access_account(item.address);
            for (const Hash32& key : item.keys) (void)world_.access_slot(item.address, Uint256::from_be(key));
        }
    }

    // EIP-7702. What is earned back for accounts that are there.
    std::uint64_t delegate() {
        std::uint64_t refund = 0;
        for (const SignedAuthorization& each : tx_.authorizations) {
            if (!each.chain_id.is_zero() && each.chain_id != Uint256(block_.chain_id)) continue;
            if (each.nonce == ~std::uint64_t{0} || !each.signer) continue;
            const Address& signer = *each.signer;
            world_.access_account(signer);
            const auto code = world_.code(signer);
            if (!code->bytes().empty() && !delegation_of(code->bytes())) continue;
            if (world_.nonce(signer) != each.nonce) continue;
            if (world_.exists(signer)) refund += kAuthorizationGas - kKnownAuthorizationGas;
            if (each.address.is_zero()) {
                world_.set_code(signer, {});
            } else {
                Bytes delegation{0xef, 0x01, 0x00};
                append(delegation, each.address);
                world_.set_code(signer, delegation);
            }
            world_.set_nonce(signer, each.nonce + 1);
        }
        return refund;
    }

    Expected<TransactionResult> execute() {
        const std::size_t start = world_.snapshot();
        world_.begin_transaction();
        const Uint256 price = gas_price();
        Uint256 fee = price * Uint256(tx_.gas_limit);
        if (tx_.type == TransactionType::blob) fee += block_.blob_base_fee * Uint256(kBlobGas * tx_.blob_hashes.size());
        world_.set_balance(tx_.sender, world_.balance(tx_.sender) - fee);
        world_.set_nonce(tx_.sender, tx_.nonce + 1);
        warm_what_is_named();
        const std::uint64_t authorization_refund = delegate();

        CallMessage message;
        message.sender = tx_.sender;
        message.value = tx_.value;
        message.input = tx_.data;
        message.gas = static_cast<std::int64_t>(tx_.gas_limit - intrinsic_gas(tx_, revision_));
        if (is_creation()) {
            message.kind = CallKind::create;
            message.recipient = message.code_address = created_address(tx_.sender, tx_.nonce);
            if (has(Revision::berlin)) world_.access_account(message.recipient);
        } else {
            message.recipient = message.code_address = *tx_.to;
            message.code = world_.code(*tx_.to);
            if (has(Revision::prague))
                if (const auto delegate = delegation_of(message.code->bytes())) {
                    world_.access_account(*delegate);
                    message.code = world_.code(*delegate);
                }
        }
        const TransactionContext context{tx_.sender, price, tx_.blob_hashes};
        CallResult called = machine_.run(world_, block_, context, revision_, message);
        if (called.halt == Halt::stopped) {
            world_.revert_to(start);
            return busy("tx.stopped");
        }
        return settle(price, authorization_refund, std::move(called), message.recipient);
    }

    TransactionResult settle(const Uint256& price, std::uint64_t authorization_refund, CallResult called,
                             const Address& recipient) {
        std::uint64_t used = tx_.gas_limit - static_cast<std::uint64_t>(called.gas_left);
        const std::uint64_t earned =
            authorization_refund + static_cast<std::uint64_t>(std::max<std::int64_t>(called.refund, 0));
        used -= std::min(earned, used / (has(Revision::london) ? 5 : 2));  // EIP-3529
        used = std::max(used, floor_gas(tx_, revision_));
        world_.set_balance(tx_.sender, world_.balance(tx_.sender) + price * Uint256(tx_.gas_limit - used));
        const Uint256 tip = has(Revision::london) ? price - block_.base_fee : price;
        world_.touch(block_.coinbase);
        world_.set_balance(block_.coinbase, world_.balance(block_.coinbase) + tip * Uint256(used));
        world_.end_transaction(has(Revision::spurious_dragon));

        TransactionResult result{called.halt == Halt::none, used, std::move(called.output), std::nullopt};
        if (is_creation() && result.succeeded) result.created = recipient;
        return result;
    }

    Machine& machine_;
    World& world_;
    const BlockContext& block_;
    const Revision revision_;
    const TransactionInput& tx_;
};

}  // namespace

std::uint64_t intrinsic_gas(const TransactionInput& tx, Revision revision) {
    const auto has = [revision](Revision since) { return revision >= since; };
    const DataBytes bytes = count(tx.data);
    std::uint64_t gas = kTransactionGas + 4 * bytes.zero + (has(Revision::istanbul) ? 16 : 68) * bytes.other;
    if (!tx.to) {
        if (has(Revision::homestead)) gas += kCreationGas;  // EIP-2
        if (has(Revision::shanghai)) gas += kInitCodeWordGas * ((tx.data.size() + 31) / 32);
    }
    for (const AccessListItem& item : tx.access_list)
        gas += kAccessListAddressGas + kAccessListKeyGas * item.keys.size();
    return gas + kAuthorizationGas * tx.authorizations.size();
}

std::uint64_t floor_gas(const TransactionInput& tx, Revision revision) {
    if (revision < Revision::prague) return 0;
    const DataBytes bytes = count(tx.data);
    return kTransactionGas + kFloorTokenGas * (bytes.zero + 4 * bytes.other);
}

Expected<TransactionResult> execute_transaction(Machine& machine, World& world, const BlockContext& block,
                                                Revision revision, const TransactionInput& tx,
                                                std::uint64_t block_gas_left) {
    return Transition(machine, world, block, revision, tx).run(block_gas_left);
}

}  // namespace quern::vm::evm
