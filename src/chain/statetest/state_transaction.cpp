#include "chain/statetest/state_transaction.h"

#include "chain/ethereum/transactions.h"
#include "chain/statetest/pre_state.h"
#include "crypto/signature.h"

namespace quern::chain::statetest {
namespace {

using vm::evm::TransactionInput;
using vm::evm::TransactionType;

Expected<const json::Value*> pick(const json::Value& fields, std::string_view name, std::size_t index) {
    QUERN_TRY(const auto list, fields.get_array(name));
    if (index >= list.size()) return fail("statetest.bad_index", std::string(name) + " " + std::to_string(index));
    return &list[index];
}

// A field that may be missing.
Status read_number(const json::Value& fields, std::string_view name, Uint256& number) {
    const json::Value* value = fields.find(name);
    if (value == nullptr) return {};
    QUERN_TRY(number, parse_number(*value));
    return {};
}

Expected<vm::evm::Address> sender_of(const json::Value& fields) {
    if (const json::Value* sender = fields.find("sender")) return parse_fixed<vm::evm::Address::kSize>(*sender);
    QUERN_TRY(const auto* secret, fields.get("secretKey"));
    QUERN_TRY(const Hash32 bytes, parse_fixed<Hash32::kSize>(*secret));
    QUERN_TRY(const auto key, crypto::PrivateKey::from_bytes(bytes));
    return crypto::address20(key);
}

Expected<std::vector<vm::evm::AccessListItem>> parse_access_list(const json::Value& list) {
    std::vector<vm::evm::AccessListItem> items;
    for (const auto& entry : list.items()) {
        vm::evm::AccessListItem& item = items.emplace_back();
        QUERN_TRY(const auto* address, entry.get("address"));
        QUERN_TRY(item.address, parse_fixed<vm::evm::Address::kSize>(*address));
        QUERN_TRY(const auto keys, entry.get_array("storageKeys"));
        for (const auto& key : keys) {
            QUERN_TRY(item.keys.emplace_back(), parse_fixed<Hash32::kSize>(key));
        }
    }
    return items;
}

Expected<vm::evm::SignedAuthorization> parse_authorization(const json::Value& entry) {
    vm::evm::SignedAuthorization authorization;
    QUERN_TRY(const auto* address, entry.get("address"));
    QUERN_TRY(authorization.address, parse_fixed<vm::evm::Address::kSize>(*address));
    QUERN_CHECK(read_number(entry, "chainId", authorization.chain_id));
    QUERN_TRY(const auto* nonce, entry.get("nonce"));
    QUERN_TRY(authorization.nonce, parse_u64(*nonce));
    Uint256 y_parity;
    Uint256 r;
    Uint256 s;
    QUERN_CHECK(read_number(entry, entry.find("yParity") != nullptr ? "yParity" : "v", y_parity));
    QUERN_CHECK(read_number(entry, "r", r));
    QUERN_CHECK(read_number(entry, "s", s));
    authorization.signer = ethereum::recover_authority(authorization, y_parity, r, s);
    return authorization;
}

// By the fields that there are: fixtures do not say.
Status parse_typed_fields(const json::Value& fields, std::size_t index, TransactionInput& input) {
    if (const auto lists = fields.get_array("accessLists")) {
        if (index >= lists->size()) return fail("statetest.bad_index", "accessLists " + std::to_string(index));
        if (!(*lists)[index].is_null()) {
            input.type = TransactionType::access_list;
            QUERN_TRY(input.access_list, parse_access_list((*lists)[index]));
        }
    }
    if (const json::Value* price = fields.find("gasPrice")) {
        QUERN_TRY(input.max_fee_per_gas, parse_number(*price));
        input.max_priority_fee_per_gas = input.max_fee_per_gas;
    } else {
        input.type = TransactionType::dynamic_fee;
        QUERN_CHECK(read_number(fields, "maxFeePerGas", input.max_fee_per_gas));
        QUERN_CHECK(read_number(fields, "maxPriorityFeePerGas", input.max_priority_fee_per_gas));
    }
    if (const auto hashes = fields.get_array("blobVersionedHashes")) {
        input.type = TransactionType::blob;
        for (const auto& hash : *hashes) {
            QUERN_TRY(input.blob_hashes.emplace_back(), parse_fixed<Hash32::kSize>(hash));
        }
        QUERN_CHECK(read_number(fields, "maxFeePerBlobGas", input.max_fee_per_blob_gas));
    }
    if (const auto authorizations = fields.get_array("authorizationList")) {
        input.type = TransactionType::set_code;
        for (const auto& entry : *authorizations) {
            QUERN_TRY(input.authorizations.emplace_back(), parse_authorization(entry));
        }
    }
    return {};
}

}  // namespace

Status parse_transaction(const json::Value& fields, const Indexes& indexes, std::uint64_t chain_id,
                         StateTransaction& transaction) {
    TransactionInput& input = transaction.input;
    QUERN_TRY(input.sender, sender_of(fields));
    QUERN_TRY(const std::string_view to, fields.get_string("to"));
    if (!to.empty() && to != "0x") {
        QUERN_TRY(input.to, fixed_from_hex<vm::evm::Address::kSize>(to));
    }
    QUERN_TRY(const auto* data, pick(fields, "data", indexes.data));
    QUERN_TRY(const std::string_view data_text, data->as_string());
    QUERN_TRY(transaction.data, from_hex(data_text));
    input.data = transaction.data;
    QUERN_TRY(const auto* nonce, fields.get("nonce"));
    QUERN_TRY(input.nonce, parse_u64(*nonce));
    QUERN_TRY(const auto* gas_limit, pick(fields, "gasLimit", indexes.gas));
    QUERN_TRY(input.gas_limit, parse_u64(*gas_limit));
    QUERN_TRY(const auto* value, pick(fields, "value", indexes.value));
    QUERN_TRY(input.value, parse_number(*value));
    input.chain_id = chain_id;
    return parse_typed_fields(fields, indexes.data, input);
}

}  // namespace quern::chain::statetest
