#include "chain/types/transaction_rules.h"

#include <algorithm>

#include "chain/types/transaction_errors.h"

namespace quern::chain::types {
namespace {

std::uint64_t count_zero_bytes(BytesView data) {
    return static_cast<std::uint64_t>(std::count(data.begin(), data.end(), std::uint8_t{0}));
}

bool is_creation(const Transaction& tx) { return !tx.to && tx.type != TxType::native; }

}  // namespace

std::uint64_t intrinsic_gas(const Transaction& tx) {
    const std::uint64_t zeros = count_zero_bytes(tx.data);
    std::uint64_t gas = kTxBaseGas + kZeroByteGas * zeros + kNonZeroByteGas * (tx.data.size() - zeros);
    if (is_creation(tx)) gas += kTxCreateGas + kInitCodeWordGas * ((tx.data.size() + 31) / 32);
    for (const auto& entry : tx.access_list)
        gas += kAccessListAddressGas + kAccessListKeyGas * entry.storage_keys.size();
    return gas + kAuthorizationGas * tx.authorization_list.size();
}

std::uint64_t floor_gas(const Transaction& tx) {
    const std::uint64_t zeros = count_zero_bytes(tx.data);
    const std::uint64_t tokens = zeros + 4 * (tx.data.size() - zeros);
    return kTxBaseGas + kFloorTokenGas * tokens;
}

Uint256 effective_gas_price(const Transaction& tx, const Uint256& base_fee) {
    const auto wanted = checked_add(base_fee, tx.max_priority_fee_per_gas);
    return wanted ? std::min(*wanted, tx.max_fee_per_gas) : tx.max_fee_per_gas;
}

Status check_form(const Transaction& tx, std::uint64_t chain_id) {
    if (tx.chain_id && *tx.chain_id != chain_id)
        return fail(kWrongChainId, "expected " + std::to_string(chain_id) + ", got " + std::to_string(*tx.chain_id));
    if (tx.max_priority_fee_per_gas > tx.max_fee_per_gas) return fail(kPriorityFeeAboveMaxFee);
    if (!checked_mul(tx.max_fee_per_gas, tx.gas_limit)) return fail("tx.fee_overflow");
    if (tx.type == TxType::set_code) {
        if (!tx.to) return fail("tx.missing_recipient");
        if (tx.authorization_list.empty()) return fail("tx.empty_authorization_list");
    }
    if (is_creation(tx) && tx.data.size() > kMaxInitCodeBytes)
        return fail("tx.init_code_too_large", std::to_string(tx.data.size()) + " bytes");
    return {};
}

Status check_gas_limit(const Transaction& tx) {
    const std::uint64_t needed = std::max(intrinsic_gas(tx), floor_gas(tx));
    if (tx.gas_limit < needed)
        return fail("tx.intrinsic_gas_too_low",
                    "have " + std::to_string(tx.gas_limit) + ", want " + std::to_string(needed));
    return {};
}

}  // namespace quern::chain::types
