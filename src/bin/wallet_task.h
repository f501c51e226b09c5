// quern-wallet's training tasks: the specification from files and options, and its price before anything is signed.
// Used by quern_wallet.cpp only; one thread.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "chain/types/native_tx.h"
#include "compute/core/task_spec.h"

namespace CLI {
class App;
}

namespace quern::wallet {

// Where the parts of a specification come from; empty texts: not given.
struct SpecOptions {
    std::string spec_file, program, init, data;
    std::string init_root, data_root, price_cap, tax, storage_deposit, max_escrow;
    std::vector<std::string> uris;
    chain::types::TaskSubmitPayload defaults;
};
void add_spec_options(CLI::App& app, SpecOptions& spec);

// JSON given as it is, as @FILE, or as @- for standard input. Errors: json.*, fs.*.
[[nodiscard]] Expected<json::Value> read_json_argument(const std::string& text);

// From a JSON file or defaults, completed from the files that the task is about: roots, header with its path, content
// ids. Errors: json.*, fs.*, program.*, state_file.*, safetensors.*, hex.*, amount.*.
[[nodiscard]] Expected<chain::types::TaskSubmitPayload> build_spec(const SpecOptions& options);

struct Price {
    compute::core::Escrow escrow;
    json::Value json;  // all parts in grains and QRN
};
// Checks the specification as the chain will. Errors: task.*, program.*.
[[nodiscard]] Expected<Price> price_of(const chain::types::TaskSubmitPayload& spec, const SpecOptions& options);

}  // namespace quern::wallet
