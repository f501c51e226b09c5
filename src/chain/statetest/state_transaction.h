// The transaction of a state test: lists of data, gas limits and values, of which each part of the test picks one.
// Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "vm/evm/transition.h"

namespace quern::chain::statetest {

struct Indexes {
    std::size_t data = 0;  // of access lists, too
    std::size_t gas = 0;
    std::size_t value = 0;
};

// What a part of a test executes: `input` looks into `data`.
struct StateTransaction {
    Bytes data;
    vm::evm::TransactionInput input;
};

// Fills `transaction`, which is to stay where it is. Errors: those of parse_number for a field that no transaction can
// hold, json.*, hex.*, bytes.*, key.*, statetest.bad_index.
[[nodiscard]] Status parse_transaction(const json::Value& fields, const Indexes& indexes, std::uint64_t chain_id,
                                       StateTransaction& transaction);

}  // namespace quern::chain::statetest
