#include "chain/statetest/cases.h"
#include "chain/types/transaction_rules.h"

namespace quern::chain::statetest {
namespace {

using namespace types;

constexpr std::uint64_t kMainnetChainId = 1;  // all official cases are mainnet's

// The newest fork that the case speaks of, up to the rules that Quern starts with.
const json::Value* newest_result(const json::Value& results, bool& has_floor) {
    for (const char* fork : {"Prague", "Cancun", "Shanghai", "Paris", "London", "Berlin"}) {
        has_floor = std::string_view(fork) == "Prague";
        if (const json::Value* result = results.find(fork)) return result;
    }
    return nullptr;
}

Expected<RecoveredTransaction> accept(BytesView bytes, bool has_floor) {
    QUERN_TRY(RecoveredTransaction recovered, recover(bytes));
    QUERN_CHECK(check_form(recovered.tx, kMainnetChainId));
    if (has_floor) {
        QUERN_CHECK(check_gas_limit(recovered.tx));
    } else if (recovered.tx.gas_limit < intrinsic_gas(recovered.tx)) {
        return fail("tx.intrinsic_gas_too_low");
    }
    return recovered;
}

}  // namespace

std::optional<CaseResult> run_transaction_case(std::string_view, const json::Value& test) {
    const auto text = test.get_string("txbytes");
    const auto results = test.get_object("result");
    if (!text || !results) return std::nullopt;
    bool has_floor = false;
    const json::Value* wanted = newest_result(**results, has_floor);
    if (wanted == nullptr) return skipped("no result for a supported fork");
    const bool must_fail = wanted->find("exception") != nullptr;
    const auto bytes = from_hex(*text);
    if (!bytes) return must_fail ? passed() : failed(bytes.error().to_string());
    const auto transaction = accept(*bytes, has_floor);
    if (!transaction) {
        if (must_fail) return passed();
        if (transaction.error().name == "tx.blob_unsupported") return skipped("blob transaction");
        return failed(transaction.error().to_string());
    }
    if (must_fail) return failed("accepted, wanted " + std::string(wanted->get_string("exception").value_or("?")));
    if (encode(transaction->tx) != *bytes) return failed("decoding and encoding gives other bytes");
    if (to_hex0x(transaction->hash) != wanted->get_string("hash").value_or("")) return failed("hash");
    if (to_hex0x(transaction->sender) != wanted->get_string("sender").value_or("")) return failed("sender");
    const auto gas = Uint256::from_hex_quantity(wanted->get_string("intrinsicGas").value_or(""));
    if (!gas || *gas != Uint256(intrinsic_gas(transaction->tx)))
        return failed("intrinsic gas " + std::to_string(intrinsic_gas(transaction->tx)));
    return passed();
}

}  // namespace quern::chain::statetest
