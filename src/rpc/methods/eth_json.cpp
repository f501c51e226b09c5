#include "rpc/methods/eth_json.h"

#include "chain/types/abi.h"
#include "chain/types/json_codec.h"
#include "rpc/values.h"

namespace quern::rpc::methods {
namespace {

using chain::api::BlockView;
using chain::api::ReceiptView;
using chain::api::TransactionView;
using chain::types::NativeKind;
using chain::types::Transaction;
using chain::types::TxType;
namespace types = chain::types;

constexpr std::uint8_t kDynamicFee = 2;
constexpr std::uint64_t kLegacyV = 27;
constexpr std::uint64_t kProtectedV = 35;

json::Value or_null(bool present, json::Value value) { return present ? std::move(value) : json::Value(); }

json::Value access_list_json(const Transaction& tx) {
    json::Array entries;
    for (const auto& entry : tx.access_list) {
        json::Array keys;
        for (const Hash32& key : entry.storage_keys) keys.push_back(hex(key));
        entries.push_back(json::Value::object({{"address", hex(entry.address)}, {"storageKeys", std::move(keys)}}));
    }
    return entries;
}

json::Value authorizations_json(const Transaction& tx) {
    json::Array entries;
    for (const auto& entry : tx.authorization_list)
        entries.push_back(json::Value::object({{"chainId", quantity(entry.chain_id)},
                                               {"address", hex(entry.address)},
                                               {"nonce", quantity(entry.nonce)},
                                               {"yParity", quantity(entry.y_parity)},
                                               {"r", quantity(entry.r)},
                                               {"s", quantity(entry.s)}}));
    return entries;
}

Uint256 v_of(const Transaction& tx) {
    if (tx.type != TxType::legacy) return Uint256(tx.y_parity);
    if (!tx.chain_id) return Uint256(kLegacyV + tx.y_parity);
    return Uint256(*tx.chain_id) * Uint256(2) + Uint256(kProtectedV + tx.y_parity);
}

// The fee per gas that is paid, or for a waiting transaction at most paid.
Uint256 paid_price(const TransactionView& view) {
    const Transaction& tx = view.transaction.tx;
    return view.block_hash ? types::effective_gas_price(tx, view.base_fee) : tx.max_fee_per_gas;
}

json::Value place_and_party(const TransactionView& view, std::uint64_t block_timestamp) {
    const bool mined = view.block_hash.has_value();
    return json::Value::object({{"blockHash", or_null(mined, mined ? hex(*view.block_hash) : std::string())},
                                {"blockNumber", or_null(mined, quantity(view.block_number))},
                                {"blockTimestamp", or_null(mined, quantity(block_timestamp))},
                                {"transactionIndex", or_null(mined, quantity(view.index))},
                                {"hash", hex(view.transaction.hash)},
                                {"from", hex(view.transaction.sender)}});
}

void add_signature(json::Value& object, const Transaction& tx) {
    object.set("v", quantity(v_of(tx)));
    if (tx.type != TxType::legacy) object.set("yParity", quantity(tx.y_parity));
    object.set("r", quantity(tx.r));
    object.set("s", quantity(tx.s));
}

// Where clients see a transaction go.
std::optional<types::Address> shown_recipient(const Transaction& tx) {
    if (tx.type != TxType::native) return tx.to;
    const auto* kind = types::find_kind(tx.native_kind);
    return kind != nullptr ? types::group_address(kind->group) : types::Address();
}

Bytes shown_input(const Transaction& tx) {
    if (tx.type != TxType::native) return tx.data;
    if (types::find_kind(tx.native_kind) == nullptr) return tx.data;
    return types::abi::encode_call(static_cast<NativeKind>(tx.native_kind), tx.data).value_or(tx.data);
}

json::Value native_part(const Transaction& tx) {
    const auto* kind = types::find_kind(tx.native_kind);
    return json::Value::object({{"type", quantity(static_cast<std::uint64_t>(TxType::native))},
                                {"kind", kind != nullptr ? json::Value(kind->name) : json::Value()},
                                {"kindNumber", tx.native_kind},
                                {"payload", payload_json(tx.native_kind, tx.data)}});
}

}  // namespace

json::Value payload_json(std::uint8_t kind, BytesView payload) {
    if (types::find_kind(kind) == nullptr) return hex(payload);
    return types::visit_kind(static_cast<NativeKind>(kind), [&](auto, auto tag) -> json::Value {
        using Payload = typename decltype(tag)::Payload;
        const auto record = types::decode_record<Payload>(payload);
        return record ? types::to_json(*record) : json::Value(hex(payload));
    });
}

json::Value transaction_json(const TransactionView& view, std::uint64_t block_timestamp) {
    const Transaction& tx = view.transaction.tx;
    const bool native = tx.type == TxType::native;
    const bool dynamic = native || tx.type == TxType::dynamic_fee || tx.type == TxType::set_code;
    json::Value object = place_and_party(view, block_timestamp);
    object.set("type", quantity(native ? kDynamicFee : static_cast<std::uint64_t>(tx.type)));
    object.set("nonce", quantity(tx.nonce));
    const auto recipient = shown_recipient(tx);
    object.set("to", recipient ? json::Value(hex(*recipient)) : json::Value());
    object.set("value", quantity(tx.value));
    object.set("gas", quantity(tx.gas_limit));
    object.set("gasPrice", quantity(paid_price(view)));
    if (dynamic) {
        object.set("maxFeePerGas", quantity(tx.max_fee_per_gas));
        object.set("maxPriorityFeePerGas", quantity(tx.max_priority_fee_per_gas));
    }
    object.set("input", hex(shown_input(tx)));
    if (tx.chain_id) object.set("chainId", quantity(*tx.chain_id));
    if (tx.type != TxType::legacy) object.set("accessList", access_list_json(tx));
    if (tx.type == TxType::set_code) object.set("authorizationList", authorizations_json(tx));
    add_signature(object, tx);
    if (native) object.set("quern", native_part(tx));
    return object;
}

std::uint64_t block_timestamp_of(const chain::api::ChainReader& chain, const TransactionView& view) {
    if (!view.block_hash) return 0;
    const auto block = chain.block({chain::api::BlockSelector::Kind::number, view.block_number, {}});
    return block ? block->block.header.timestamp : 0;
}

json::Value native_transaction_json(const TransactionView& view, std::uint64_t block_timestamp) {
    const Transaction& tx = view.transaction.tx;
    if (tx.type != TxType::native) return transaction_json(view, block_timestamp);
    json::Value object = place_and_party(view, block_timestamp);
    const json::Value own = native_part(tx);
    for (const json::Member& member : own.members()) object.set(member.key, member.value);
    object.set("chainId", quantity(tx.chain_id.value_or(0)));
    object.set("nonce", quantity(tx.nonce));
    object.set("maxFeePerGas", quantity(tx.max_fee_per_gas));
    object.set("maxPriorityFeePerGas", quantity(tx.max_priority_fee_per_gas));
    object.set("gas", quantity(tx.gas_limit));
    object.set("raw", hex(view.transaction.encoded));
    add_signature(object, tx);
    return object;
}

Expected<TransactionView> transaction_in(const BlockView& view, std::uint64_t index) {
    const Bytes& encoded = view.block.transactions[index];
    QUERN_TRY(auto recovered, view.senders ? view.senders->recover(encoded) : types::recover(encoded));
    return TransactionView{std::move(recovered), view.hash, view.block.header.number, index,
                           view.block.header.base_fee_per_gas};
}

json::Value header_json(const BlockView& view) {
    const types::BlockHeader& header = view.block.header;
    return json::Value::object({{"number", quantity(header.number)},
                                {"hash", hex(view.hash)},
                                {"parentHash", hex(header.parent_hash)},
                                {"sha3Uncles", hex(types::kEmptyOmmersHash)},
                                {"miner", hex(header.beneficiary)},
                                {"stateRoot", hex(header.state_root)},
                                {"transactionsRoot", hex(header.transactions_root)},
                                {"receiptsRoot", hex(header.receipts_root)},
                                {"logsBloom", hex(header.logs_bloom)},
                                {"difficulty", quantity(0)},
                                {"gasLimit", quantity(header.gas_limit)},
                                {"gasUsed", quantity(header.gas_used)},
                                {"timestamp", quantity(header.timestamp)},
                                {"extraData", hex(types::encode(header.consensus))},
                                {"mixHash", hex(header.prev_randao)},
                                {"nonce", hex(FixedBytes<8>())},
                                {"baseFeePerGas", quantity(header.base_fee_per_gas)},
                                {"withdrawalsRoot", hex(header.withdrawals_root)},
                                {"blobGasUsed", quantity(0)},
                                {"excessBlobGas", quantity(0)},
                                {"parentBeaconBlockRoot", hex(header.parent_beacon_block_root)},
                                {"requestsHash", hex(types::kEmptyRequestsHash)}});
}

json::Value block_json(const BlockView& view, bool full) {
    const types::BlockHeader& header = view.block.header;
    json::Array transactions;
    transactions.reserve(view.block.transactions.size());
    for (std::size_t i = 0; i < view.block.transactions.size(); ++i) {
        if (full) {
            const auto transaction = transaction_in(view, i);
            if (transaction) transactions.push_back(transaction_json(*transaction, header.timestamp));
        } else {
            transactions.push_back(hex(types::transaction_hash(view.block.transactions[i])));
        }
    }
    json::Array withdrawals;
    for (const auto& withdrawal : view.block.withdrawals)
        withdrawals.push_back(json::Value::object({{"index", quantity(withdrawal.index)},
                                                   {"validatorIndex", quantity(withdrawal.validator_index)},
                                                   {"address", hex(withdrawal.address)},
                                                   {"amount", quantity(withdrawal.amount_gwei)}}));
    json::Value object = header_json(view);
    object.set("totalDifficulty", quantity(0));
    object.set("size", quantity(view.size));
    object.set("transactions", std::move(transactions));
    object.set("withdrawals", std::move(withdrawals));
    object.set("uncles", json::Array());
    return object;
}

json::Value log_json(const types::Log& log, const LogPlace& place) {
    json::Array topics;
    for (const Hash32& topic : log.topics) topics.push_back(hex(topic));
    return json::Value::object({{"address", hex(log.address)},
                                {"topics", std::move(topics)},
                                {"data", hex(log.data)},
                                {"blockHash", hex(place.block_hash)},
                                {"blockNumber", quantity(place.block_number)},
                                {"blockTimestamp", quantity(place.block_timestamp)},
                                {"transactionHash", hex(place.transaction_hash)},
                                {"transactionIndex", quantity(place.transaction_index)},
                                {"logIndex", quantity(place.log_index)},
                                {"removed", false}});
}

json::Value receipt_json(const ReceiptView& view, std::uint64_t block_timestamp) {
    const TransactionView& transaction = view.transaction;
    const types::Receipt& receipt = view.receipt;
    LogPlace place{transaction.block_hash.value_or(Hash32()),
                   transaction.block_number,
                   block_timestamp,
                   transaction.transaction.hash,
                   transaction.index,
                   view.first_log_index};
    json::Array logs;
    for (const auto& log : receipt.logs) {
        logs.push_back(log_json(log, place));
        ++place.log_index;
    }
    const bool native = receipt.type == TxType::native;
    const auto recipient = shown_recipient(transaction.transaction.tx);
    json::Value object =
        json::Value::object({{"transactionHash", hex(transaction.transaction.hash)},
                             {"transactionIndex", quantity(transaction.index)},
                             {"blockHash", hex(place.block_hash)},
                             {"blockNumber", quantity(transaction.block_number)},
                             {"from", hex(transaction.transaction.sender)},
                             {"to", recipient ? json::Value(hex(*recipient)) : json::Value()},
                             {"contractAddress", nullptr},
                             {"cumulativeGasUsed", quantity(receipt.cumulative_gas_used)},
                             {"gasUsed", quantity(receipt.gas_used)},
                             {"effectiveGasPrice", quantity(receipt.effective_gas_price)},
                             {"logs", std::move(logs)},
                             {"logsBloom", hex(chain::types::bloom_of(receipt.logs))},
                             {"status", quantity(receipt.success ? 1 : 0)},
                             {"type", quantity(native ? kDynamicFee : static_cast<std::uint64_t>(receipt.type))}});
    if (!receipt.success && !receipt.failure.empty())
        object.set("quern", json::Value::object({{"failure", receipt.failure}}));
    return object;
}

}  // namespace quern::rpc::methods
