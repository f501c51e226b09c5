#include "wallet/transaction.h"

#include <algorithm>

#include "chain/types/abi.h"
#include "chain/types/json_codec.h"
#include "chain/types/transaction_rules.h"
#include "wallet/amount.h"

namespace quern::wallet {

namespace types = chain::types;
using types::NativeKind;
using types::Transaction;
using types::TxType;

namespace {

constexpr std::string_view kFields[] = {
    "type", "chainId", "nonce", "gas",   "gasLimit",   "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas",
    "to",   "value",   "data",  "input", "accessList", "kind",     "payload",      "from"};

Expected<Transaction> base_transaction(const TxFields& fields, std::uint64_t default_gas) {
    Transaction tx;
    tx.chain_id = fields.chain_id;
    tx.nonce = fields.nonce;
    tx.gas_limit = fields.gas != 0 ? fields.gas : default_gas;
    QUERN_TRY(tx.max_fee_per_gas, amount_of_option("--max-fee", fields.max_fee));
    QUERN_TRY(tx.max_priority_fee_per_gas, amount_of_option("--tip", fields.tip));
    return tx;
}

template <class Reader, class Target>
Status read_member(const json::Value& object, const char* name, Reader&& reader, Target& target) {
    const json::Value* value = object.find(name);
    if (value == nullptr || value->is_null()) return {};
    auto result = reader(*value);
    if (!result) return detailed(result.error(), std::string(name) + ": " + result.error().detail);
    target = std::move(*result);
    return {};
}

Expected<std::uint64_t> small(const json::Value& value) {
    QUERN_TRY(const Uint256 number, types::uint256_from_json(value));
    if (!number.fits_u64()) return fail("json.out_of_range");
    return number.low_u64();
}

template <class T>
Expected<T> field_value(const json::Value& value) {
    T result{};
    QUERN_CHECK(types::from_json(value, result));
    return result;
}

Expected<std::vector<types::AccessListEntry>> access_list(const json::Value& list) {
    if (!list.is_array()) return fail("json.wrong_type", "expected an array");
    std::vector<types::AccessListEntry> entries;
    for (const json::Value& item : list.items()) {
        types::AccessListEntry entry;
        QUERN_CHECK(read_member(item, "address", field_value<types::Address>, entry.address));
        QUERN_CHECK(read_member(item, "storageKeys", field_value<std::vector<Hash32>>, entry.storage_keys));
        entries.push_back(std::move(entry));
    }
    return entries;
}

}  // namespace

Expected<Transaction> make_transfer(const TxFields& fields, int type, const std::string& to,
                                    const std::string& amount) {
    QUERN_TRY(Transaction tx, base_transaction(fields, kTransferGas));
    if (type < 0 || type > 2) return fail("wallet.bad_type", "--type: transfers have type 0, 1 or 2");
    tx.type = static_cast<TxType>(type);
    if (tx.type != TxType::dynamic_fee) tx.max_priority_fee_per_gas = tx.max_fee_per_gas;  // one gas price
    QUERN_TRY(const types::Address recipient, address_of_option("--to", to));
    tx.to = recipient;
    QUERN_TRY(tx.value, amount_of_option("--amount", amount));
    return tx;
}

Expected<Transaction> make_native(const TxFields& fields, NativeKind kind, Bytes payload, bool via_abi) {
    QUERN_TRY(Transaction tx, base_transaction(fields, kNativeGas));
    if (via_abi) {
        tx.type = TxType::dynamic_fee;
        tx.to = types::group_address(types::group_of(kind));
        QUERN_TRY(tx.data, types::abi::encode_call(kind, payload));
    } else {
        tx.type = TxType::native;
        tx.native_kind = static_cast<std::uint8_t>(kind);
        tx.data = std::move(payload);
    }
    return tx;
}

Expected<NativeKind> kind_named(std::string_view name) {
    const auto* kind = types::find_kind(name);
    if (kind == nullptr)
        return fail("wallet.unknown_kind", std::string(name) + ": doc/market.md, \"Kinds\", has the names");
    return kind->kind;
}

Expected<Bytes> payload_from_json(NativeKind kind, const json::Value& json) {
    return types::visit_kind(kind, [&](auto, auto tag) -> Expected<Bytes> {
        using Payload = typename decltype(tag)::Payload;
        QUERN_TRY(const Payload payload, types::record_from_json<Payload>(json, types::ExtraMembers::refuse));
        return types::encode_record(payload);
    });
}

Expected<Transaction> transaction_from_json(const json::Value& object, std::uint64_t chain_id) {
    if (!object.is_object()) return fail("json.wrong_type", "expected an object");
    for (const json::Member& member : object.members())
        if (std::find(std::begin(kFields), std::end(kFields), member.key) == std::end(kFields))
            return fail("json.unknown_field", member.key);
    Transaction tx;
    std::uint64_t type = object.find("maxFeePerGas") != nullptr ? 2 : 0;
    tx.chain_id = chain_id;
    QUERN_CHECK(read_member(object, "type", small, type));
    QUERN_CHECK(read_member(object, "chainId", small, tx.chain_id));
    QUERN_CHECK(read_member(object, "nonce", small, tx.nonce));
    QUERN_CHECK(read_member(object, "gas", small, tx.gas_limit));
    QUERN_CHECK(read_member(object, "gasLimit", small, tx.gas_limit));
    QUERN_CHECK(read_member(object, "value", types::uint256_from_json, tx.value));
    QUERN_CHECK(read_member(object, "to", field_value<types::Address>, tx.to));
    QUERN_CHECK(read_member(object, "data", field_value<Bytes>, tx.data));
    QUERN_CHECK(read_member(object, "input", field_value<Bytes>, tx.data));
    QUERN_CHECK(read_member(object, "gasPrice", types::uint256_from_json, tx.max_fee_per_gas));
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    QUERN_CHECK(read_member(object, "maxFeePerGas", types::uint256_from_json, tx.max_fee_per_gas));
    QUERN_CHECK(read_member(object, "maxPriorityFeePerGas", types::uint256_from_json, tx.max_priority_fee_per_gas));
    if (type > 2 && type != static_cast<std::uint64_t>(TxType::native))
        return fail("wallet.bad_type", "types 0, 1, 2 and 0x51 can be signed");
    tx.type = static_cast<TxType>(type);
    QUERN_CHECK(read_member(object, "accessList", access_list, tx.access_list));
    if (tx.type == TxType::native) {
        QUERN_TRY(const std::string_view name, object.get_string("kind"));
        QUERN_TRY(const NativeKind kind, kind_named(name));
        QUERN_TRY(const json::Value* payload, object.get("payload"));
        tx.native_kind = static_cast<std::uint8_t>(kind);
        QUERN_TRY(tx.data, payload_from_json(kind, *payload));
    }
    return tx;
}

Expected<types::RecoveredTransaction> sign(Transaction tx, const crypto::PrivateKey& key) {
    QUERN_CHECK(types::check_form(tx, tx.chain_id.value_or(0)));
    QUERN_CHECK(types::check_gas_limit(tx));
    types::sign(tx, key);
    return types::recover(types::encode(tx));
}

json::Value describe(const types::RecoveredTransaction& done) {
    const auto fee = checked_mul(done.tx.max_fee_per_gas, done.tx.gas_limit);
    return json::Value::object({{"raw", to_hex0x(done.encoded)},
                                {"hash", to_hex0x(done.hash)},
                                {"from", types::to_checksum_address(done.sender)},
                                {"nonce", done.tx.nonce},
                                {"gas", done.tx.gas_limit},
                                {"maxFee", fee ? fee->to_decimal() : std::string()}});
}

}  // namespace quern::wallet
