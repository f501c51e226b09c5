// Training tasks before they are signed: the specification from files and options, whether its parts fit one another,
// and its price. Used by quern-wallet and quern-train. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chain/market/escrow.h"
#include "chain/types/native_tx.h"
#include "compute/core/profiling.h"
#include "compute/core/task_spec.h"
#include "compute/tolerance/profile/profile.h"
#include "wallet/imports.h"

namespace quern::wallet {

// Where the parts of a specification come from; empty texts: not given.
struct SpecOptions {
    SpecOptions();
    std::string spec_file, init;
    std::vector<std::string> data;              // files, in the order of the programs' data tensors (but for the last
                                                // one in tolerance mode, the last two where profilers find the limits)
    std::vector<std::string> programs;          // files, in the plan's order
    std::string plan;                           // the body as JSON: numbers of programs and [count, body]
    std::uint64_t steps = 0;                    // the plan of one program that is run so often
    std::vector<compute::core::PlanItem> body;  // the plan's, where it is not read from a text
    std::vector<std::string> data_roots;        // of all data tensors, where the files are not given
    std::string init_root, price_cap, tax, max_escrow;
    std::vector<std::string> uris;
    std::vector<ImportFiles> imports;  // settled tasks from whose final states the initial one has slots
    std::uint64_t speed = 0;           // work units a second that those who take part have at least; 0: not given
    std::uint64_t bandwidth = 0;       // bytes a second
    // Of a task in tolerance mode whose limits are measured; 0 profilers: it names them, or the specification says so.
    std::uint32_t profilers = 0;
    std::uint32_t profiled_segments = compute::core::kMinProfiledSegments;
    std::uint64_t profile_window_s = 300;
    compute::tolerance::profile::TermNumbers tolerance;
    chain::types::TaskSubmitPayload defaults;
    // The chain's parameters, as quern_params answers them, as JSON or @FILE; for the price and the least windows
    // alone.
    std::string params;
};

// JSON given as it is, as @FILE, or as @- for standard input. Errors: json.* (with the file's name), fs.*.
[[nodiscard]] Expected<json::Value> read_json_argument(const std::string& text);

// Options without which there can be no specification and that are not given: "--program", ...
[[nodiscard]] std::vector<std::string> missing_options(const SpecOptions& options);

// From a JSON file or defaults, completed from the files that the task is about: the plan with its programs' headers
// and their paths, roots, content ids. The files must fit the programs: what has another shape would be signed, paid
// into escrow, and never trained. Errors: task.wrong_data_size, task.imports_nothing, task.import_files, uri.* (what no
// worker could fetch from; uri.whose: of several data tensors), plan.*, json.*, fs.*, program.*, state_file.*,
// safetensors.*, hex.*, amount.*; they name the file or the option.
[[nodiscard]] Expected<chain::types::TaskSubmitPayload> build_spec(const SpecOptions& options);

struct Price {
    chain::market::Escrow escrow;
    Uint256 profiler_bond;  // that each profiler must have free; 0: there are none
    json::Value json;       // all parts in grains and QRN
};
// Checks the specification as the chain will, with the parameters' standard values unless others are given. Errors:
// task.*, plan.*, program.*, amount.*, wallet.above_max_escrow, wallet.no_params (a limit that other parameters would
// break).
[[nodiscard]] Expected<Price> price_of(const chain::types::TaskSubmitPayload& spec, const SpecOptions& options);

// What is in an escrow beside the reward, for people: "verifiers 0.3, custodians 0, tax 0, deposit 0.1", in QRN; the
// profilers' fees only where there are some.
[[nodiscard]] std::string other_parts(const chain::market::Escrow& escrow);

// The highest price cap, in grains per work unit, with which the escrow is no more than `most`. Errors: those of
// price_of(); wallet.budget_too_small: even at 1 grain it is more (the detail says how much).
[[nodiscard]] Expected<Uint256> price_cap_within(const chain::types::TaskSubmitPayload& spec,
                                                 const SpecOptions& options, const Uint256& most);

}  // namespace quern::wallet
