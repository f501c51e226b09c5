// The kinds of official test cases (github.com/ethereum/tests) that are run, recognised by the shape of each case, so
// that any file of the same format can be given. Used by test_vectors only; one thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace quern::vectors {

enum class Outcome { passed, failed, skipped, not_mine };

struct Result {
    Outcome outcome = Outcome::not_mine;
    std::string why;
};
[[nodiscard]] inline Result passed() { return {Outcome::passed, {}}; }
[[nodiscard]] inline Result failed(std::string why) { return {Outcome::failed, std::move(why)}; }
[[nodiscard]] inline Result skipped(std::string why) { return {Outcome::skipped, std::move(why)}; }
[[nodiscard]] inline Result not_mine() { return {}; }

// `file` is the file's name: trie cases do not say otherwise whether keys are hashed.
using Runner = Result (*)(std::string_view file, const json::Value& test);

[[nodiscard]] Result run_rlp_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_transaction_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_trie_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_keystore_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_hex_prefix_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_key_address_case(std::string_view file, const json::Value& test);
[[nodiscard]] Result run_signed_transaction_case(std::string_view file, const json::Value& test);

}  // namespace quern::vectors
