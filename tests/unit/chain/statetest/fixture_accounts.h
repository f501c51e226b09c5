// Accounts of fixtures that tests make, and their root by its definition. Functions without state.
#pragma once

#include "base/json.h"
#include "chain/state/account_codec.h"
#include "chain/state/trie.h"
#include "chain/statetest/pre_state.h"

namespace quern::chain::statetest {

using json::Value;

constexpr std::string_view kSender = "0x00000000000000000000000000000000000000a1";
constexpr std::string_view kHeir = "0x00000000000000000000000000000000000000a2";
constexpr std::string_view kCoinbase = "0x00000000000000000000000000000000000000a3";

inline Value account(std::uint64_t nonce, std::uint64_t balance, Value storage = Value::object()) {
    return Value::object({{"nonce", Uint256(nonce).to_hex_quantity()},
                          {"balance", Uint256(balance).to_hex_quantity()},
                          {"code", "0x"},
                          {"storage", std::move(storage)}});
}

// The root of accounts without code, by its definition.
inline std::string root_of(const Value& accounts) {
    std::vector<std::pair<Bytes, Bytes>> pairs;
    for (const auto& [name, fields] : accounts.members()) {
        state::Account item = state::empty_account();
        item.nonce = parse_u64(*fields.find("nonce")).value();
        item.balance = parse_number(*fields.find("balance")).value();
        std::vector<std::pair<Bytes, Bytes>> slots;
        for (const auto& [key, value] : fields.find("storage")->members())
            slots.emplace_back(to_bytes(parse_number(Value(key))->to_be32()),
                               Bytes{static_cast<std::uint8_t>(parse_u64(value).value())});
        item.storage_root = state::secure_trie_root(slots);
        pairs.emplace_back(from_hex(name).value(), state::encode(item));
    }
    return to_hex0x(state::secure_trie_root(pairs));
}

}  // namespace quern::chain::statetest
