// The kinds of official test cases (github.com/ethereum/tests, ethereum/execution-spec-tests) that are run, recognised
// by the shape of each test, so that any file of the same format can be given. Used by fixture_run.h; each function by
// any thread with a context of its own.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chain/evm/code_cache.h"
#include "vm/evm/machine.h"

namespace quern::chain::statetest {

enum class Outcome : std::uint8_t { passed, failed, skipped };

// What came of a test, or of one part of it.
struct CaseResult {
    Outcome outcome = Outcome::passed;
    std::string why;                   // what was expected and what came, or why it was skipped
    std::string fork;                  // empty where a test has no parts
    std::string indexes;               // of the transaction's data, gas and value: "d0 g0 v0"
    std::optional<Hash32> state_root;  // that came
};
using CaseResults = std::vector<CaseResult>;

[[nodiscard]] inline CaseResult passed() { return {}; }
[[nodiscard]] inline CaseResult failed(std::string why) { return {Outcome::failed, std::move(why), {}, {}, {}}; }
[[nodiscard]] inline CaseResult skipped(std::string why) { return {Outcome::skipped, std::move(why), {}, {}, {}}; }

// What a runner needs beside the test; `codes` may be shared.
struct RunContext {
    vm::evm::Machine& machine;
    evm::CodeCache& codes;
    std::optional<vm::evm::Revision> fork;  // the only one to run; absent: all
    bool verbose = false;                   // failures tell which accounts differ
    std::ostream* trace = nullptr;          // where each transaction's steps go (trace.h); null: nowhere
};

// Runs a test, or gives nullopt when it is of another kind. `file` is the file's name: trie tests do not say otherwise
// whether keys are hashed.
using Runner = std::optional<CaseResults> (*)(RunContext& context, std::string_view file, const json::Value& test);

[[nodiscard]] std::optional<CaseResults> run_state_test(RunContext& context, std::string_view file,
                                                        const json::Value& test);

[[nodiscard]] std::optional<CaseResults> run_blockchain_test(RunContext& context, std::string_view file,
                                                             const json::Value& test);

// Tests of one part.
[[nodiscard]] std::optional<CaseResult> run_rlp_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_transaction_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_trie_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_keystore_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_hex_prefix_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_key_address_case(std::string_view file, const json::Value& test);
[[nodiscard]] std::optional<CaseResult> run_signed_transaction_case(std::string_view file, const json::Value& test);

}  // namespace quern::chain::statetest
