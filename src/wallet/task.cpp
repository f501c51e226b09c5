#include "wallet/task.h"

#include <iostream>

#include "base/fs.h"
#include "chain/market/bonds.h"
#include "chain/params/parameters.h"
#include "chain/types/json_codec.h"
#include "compute/core/plan_json.h"
#include "compute/core/profiling.h"
#include "compute/core/program_opening.h"
#include "compute/core/task_plan.h"
#include "compute/program/state_file.h"
#include "compute/transfer/source_uri.h"
#include "crypto/content_file.h"
#include "crypto/content_id.h"
#include "vm/tensor/data.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr std::size_t kMaxJsonFile = std::size_t{1} << 20;
constexpr std::size_t kMaxContentFile = std::size_t{8} << 30;  // a state

Status take_hash(std::string_view option, const std::string& text, Hash32& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, named(std::string(option) + " " + text, fixed_from_hex<32>(text)));
    return {};
}

// The chain takes any text; workers fetch from those that they understand.
Status check_uris(const std::vector<std::string>& uris, std::size_t data) {
    for (const std::string& text : uris) {
        const auto uri = compute::transfer::parse_source_uri(text);
        if (!uri) return detailed(uri.error(), "--uri " + text + ": " + uri.error().detail);
        if (!uri->id && !uri->is_folder() && data != 1)
            return fail("uri.whose", "--uri " + text + " of a task with " + std::to_string(data) +
                                         " data tensors: say which content it is, FILE#ID, or FOLDER/");
    }
    return {};
}

Status take_amount(std::string_view option, const std::string& text, Uint256& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, amount_of_option(option, text));
    return {};
}

// Of the options, else of the specification. Empty: neither has one.
Expected<std::vector<core::PlanItem>> take_body(const SpecOptions& options, const types::TaskSubmitPayload& spec) {
    if (!options.plan.empty()) {
        QUERN_TRY(const json::Value json, named("--plan", read_json_argument(options.plan)));
        return named("--plan", core::body_of(json));
    }
    if (!options.body.empty()) return options.body;
    if (options.steps != 0) return core::plain_body(options.steps);
    if (spec.plan.empty()) return std::vector<core::PlanItem>();
    QUERN_TRY(const core::TaskPlan plan, core::TaskPlan::decode(spec.plan));
    return plan.body();
}

// The programs whose files are at hand.
Expected<std::optional<core::TaskPrograms>> take_programs(const SpecOptions& options, types::TaskSubmitPayload& spec) {
    QUERN_TRY(std::vector<core::PlanItem> body, take_body(options, spec));
    if (options.programs.empty()) {
        QUERN_TRY(const core::TaskPlan named_plan, core::TaskPlan::decode(spec.plan));
        QUERN_TRY(const core::TaskPlan plan, core::TaskPlan::make(named_plan.programs(), std::move(body)));
        spec.plan = plan.bytes();
        return std::optional<core::TaskPrograms>();
    }
    std::vector<tensor::Program> programs;
    spec.header_paths.clear();
    spec.contents.programs.clear();
    for (const std::string& file : options.programs) {
        QUERN_TRY(const Bytes bytes, fs::read_file(file, tensor::kMaxProgramBytes));
        QUERN_TRY(tensor::Program program, named(file, tensor::decode_program(bytes)));
        spec.header_paths.push_back(core::ProgramProver(program).header_path());
        spec.contents.programs.push_back(crypto::content_id_of(bytes));
        programs.push_back(std::move(program));
    }
    QUERN_TRY(core::TaskPrograms made, core::TaskPrograms::make(std::move(programs), std::move(body)));
    spec.plan = made.plan.bytes();
    return std::optional(std::move(made));
}

Status take_initial_state(const SpecOptions& options, const std::optional<core::TaskPrograms>& programs,
                          types::TaskSubmitPayload& spec) {
    if (!options.imports.empty() && (options.init.empty() || !programs))
        return fail("task.import_files", "--import needs --init and --program");
    if (options.init.empty()) return {};
    QUERN_TRY(const Bytes bytes, fs::read_file(options.init, kMaxContentFile));
    spec.contents.init = crypto::content_id_of(bytes);
    if (!programs) return {};
    const auto state = named(options.init, compute::program::read_state(programs->any(), bytes));
    if (!state) return fail(state.error());
    spec.init_root = tensor::state_root(*state);
    if (!options.imports.empty()) QUERN_CHECK(add_imports(options.imports, programs->any(), *state, spec));
    return {};
}

Status take_profiling(const SpecOptions& options, types::TaskSubmitPayload& spec) {
    if (options.profilers == 0) return {};
    QUERN_TRY(const core::TaskPlan plan, core::TaskPlan::decode(spec.plan));
    const auto terms = options.tolerance.of(chain::market::segment_count(plan.steps(), spec.work.interval));
    spec.profiling = {options.profilers,   options.profiled_segments, options.profile_window_s,
                      terms.cap,           terms.history_cap,         terms.range,
                      terms.allowance.l2,  terms.allowance.linf,      terms.allowance.moments,
                      terms.allowance.rest};
    return {};
}

// Each file is a data tensor byte by byte, its content id the root.
Status take_data(const SpecOptions& options, types::TaskSubmitPayload& spec) {
    if (!options.data_roots.empty()) {
        spec.data_roots.clear();
        for (const std::string& text : options.data_roots) {
            QUERN_TRY(const Hash32 root, named("--data-root " + text, fixed_from_hex<32>(text)));
            spec.data_roots.push_back(root);
        }
        spec.data_roots.resize(spec.data_roots.size() + core::unnamed_data(spec));
    }
    if (options.data.empty()) return {};
    QUERN_TRY(const core::TaskPlan plan, core::TaskPlan::decode(spec.plan));
    const std::vector<tensor::DataSet>& wanted = plan.header().data;
    const std::size_t unnamed = core::unnamed_data(spec);
    if (options.data.size() + unnamed != wanted.size())
        return fail(
            "task.wrong_data_size",
            std::to_string(options.data.size()) + " data files, the program reads " +
                std::to_string(wanted.size() - std::min(unnamed, wanted.size())) +
                (unnamed == 2   ? " and what profilers find and the solver claims (--profilers)"
                 : unnamed == 1 ? " and what the solver claims (--tolerance)"
                                : "") +
                (unnamed == 0 && options.data.size() + 1 == wanted.size() ? "; is it a tolerance task? --tolerance"
                                                                          : ""));
    spec.data_roots.clear();
    for (std::size_t i = 0; i < options.data.size(); ++i) {
        // Of any size: never in memory as a whole.
        QUERN_TRY(const crypto::ContentShards content, crypto::content_shards_of_file(options.data[i]));
        if (content.size != tensor::data_bytes(wanted[i]))
            return fail("task.wrong_data_size", options.data[i] + " has " + std::to_string(content.size) +
                                                    " bytes, the program was compiled for " +
                                                    std::to_string(wanted[i].elements) + " elements of " +
                                                    std::string(tensor::name_of(wanted[i].type)));
        spec.data_roots.push_back(content.id());
    }
    spec.data_roots.resize(wanted.size());
    return {};
}

Expected<chain::params::MarketParams> market_of(const SpecOptions& options) {
    if (options.params.empty()) return chain::params::MarketParams{};
    QUERN_TRY(const json::Value json, named("--params", read_json_argument(options.params)));
    return named("--params", chain::params::market_params_from_json(json));
}

}  // namespace

SpecOptions::SpecOptions() {
    auto& d = defaults;
    d.windows.bid_s = 60, d.windows.start_s = 60, d.windows.heartbeat_s = 300, d.windows.prove_s = 120;
    d.windows.verify_s = 300, d.windows.challenge_s = 60;
}

Expected<json::Value> read_json_argument(const std::string& text) {
    if (text.empty() || text[0] != '@') return json::parse(text);
    if (text == "@-")
        return named("standard input", json::parse(std::string(std::istreambuf_iterator<char>(std::cin), {})));
    const std::string file = text.substr(1);
    QUERN_TRY(const std::string content, fs::read_text_file(file, kMaxJsonFile));
    return named(file, json::parse(content));
}

std::vector<std::string> missing_options(const SpecOptions& options) {
    std::vector<std::string> missing;
    if (!options.spec_file.empty()) return missing;
    const auto need = [&](const char* name, bool given) {
        if (!given) missing.emplace_back(name);
    };
    need("--program", !options.programs.empty());
    need("--init", !options.init.empty());
    need("--data", !options.data.empty() || !options.data_roots.empty());
    need("--steps or --plan", options.steps != 0 || !options.plan.empty());
    need("--interval", options.defaults.work.interval != 0);
    need("--price-cap", !options.price_cap.empty());
    return missing;
}

Expected<types::TaskSubmitPayload> build_spec(const SpecOptions& options) {
    types::TaskSubmitPayload spec = options.defaults;
    if (!options.spec_file.empty()) {
        QUERN_TRY(const json::Value json, named("--spec", read_json_argument(options.spec_file)));
        QUERN_TRY(spec, named("--spec",
                              types::record_from_json<types::TaskSubmitPayload>(json, types::ExtraMembers::refuse)));
    }
    QUERN_TRY(const auto programs, take_programs(options, spec));
    QUERN_CHECK(take_initial_state(options, programs, spec));
    QUERN_CHECK(take_profiling(options, spec));
    QUERN_CHECK(take_data(options, spec));
    QUERN_CHECK(take_hash("--init-root", options.init_root, spec.init_root));
    QUERN_CHECK(take_amount("--price-cap", options.price_cap, spec.money.price_cap));
    QUERN_CHECK(take_amount("--tax", options.tax, spec.money.tax));
    if (options.speed != 0) spec.classes.speed = chain::market::class_of_rate(options.speed);
    if (options.bandwidth != 0) spec.classes.bandwidth = chain::market::class_of_rate(options.bandwidth);
    QUERN_CHECK(check_uris(options.uris, spec.data_roots.size()));
    if (!options.uris.empty()) spec.contents.uris = options.uris;
    return spec;
}

Expected<Uint256> price_cap_within(const types::TaskSubmitPayload& spec, const SpecOptions& options,
                                   const Uint256& most) {
    QUERN_TRY(const chain::params::MarketParams market, market_of(options));
    types::TaskSubmitPayload priced = spec;
    priced.money.price_cap = Uint256(1);
    QUERN_TRY(const core::TaskPlan plan, core::check_task_spec(priced, market.custodians));
    const auto planned = plan.planned(spec.work.interval, spec.work.stride, spec.work.tranche);
    const auto escrow_at = [&](const Uint256& price) -> Expected<Uint256> {
        priced.money.price_cap = price;
        QUERN_TRY(const auto escrow, chain::market::escrow_of(market, priced, planned));
        return escrow.total;
    };
    QUERN_TRY(const Uint256 least, escrow_at(Uint256(1)));
    if (least > most)
        return fail("wallet.budget_too_small", "even at 1 grain per work unit the task takes " + in_qrn(least) +
                                                   " QRN into escrow, there are " + in_qrn(most));
    Uint256 price(1);
    for (unsigned bit = chain::params::kMaxPriceBits; bit-- > 0;) {
        const Uint256 higher = price + (Uint256(1) << bit);
        if ((higher >> chain::params::kMaxPriceBits) != Uint256()) continue;
        const auto escrow = escrow_at(higher);
        if (escrow && *escrow <= most) price = higher;
    }
    return price;
}

std::string other_parts(const chain::market::Escrow& escrow) {
    std::string parts = "verifiers " + in_qrn(escrow.verifier_fees) + ", custodians " + in_qrn(escrow.custody_fees);
    if (!escrow.profiler_fees.is_zero()) parts += ", profilers " + in_qrn(escrow.profiler_fees);
    return parts + ", tax " + in_qrn(escrow.tax) + ", deposit " + in_qrn(escrow.storage_deposit);
}

Expected<Price> price_of(const types::TaskSubmitPayload& spec, const SpecOptions& options) {
    QUERN_TRY(const chain::params::MarketParams market, market_of(options));
    QUERN_TRY(const core::TaskPlan plan, core::check_task_spec(spec, market.custodians));
    const auto work =
        chain::market::task_work(spec, plan.planned(spec.work.interval, spec.work.stride, spec.work.tranche));
    Price price;
    QUERN_TRY(price.escrow, chain::market::escrow_of(market, spec, work.plan));
    if (!options.max_escrow.empty()) {
        if (options.params.empty())
            return fail("wallet.no_params",
                        "--max-escrow needs the chain's own prices: --params @FILE with what quern_params answers");
        QUERN_TRY(const Uint256 limit, amount_of_option("--max-escrow", options.max_escrow));
        if (price.escrow.total > limit)
            return fail("wallet.above_max_escrow", "the task takes " + in_qrn(price.escrow.total) + " QRN into escrow");
    }
    if (core::is_profiled(spec)) {
        const auto bond = chain::market::verifier_bond(market, price.escrow.profiler_fee);
        if (!bond) return fail("task.price_overflow");
        price.profiler_bond = *bond;
    }
    const auto amount = [](const Uint256& grains) {
        return json::Value::object({{"grains", grains.to_decimal()}, {"qrn", in_qrn(grains)}});
    };
    const auto least =
        chain::market::least_windows(spec, work, core::task_bytes(plan, spec.work.mode, market.custodians));
    price.json = json::Value::object({{"leastVerifyS", least.verify_s.to_decimal()},
                                      {"leastHeartbeatS", least.heartbeat_s.to_decimal()},
                                      {"workUnitsPerStep", work.plan.step},
                                      {"workUnitsPerCommitment", work.plan.commit},
                                      {"steps", work.plan.steps},
                                      {"stride", work.plan.stride},
                                      {"tranche", work.plan.tranche},
                                      {"stretches", chain::market::stretch_count(work.plan.steps, spec.work.tranche)},
                                      {"totalWorkUnits", work.plan.total.to_decimal()},
                                      {"priceCapPerWorkUnit", spec.money.price_cap.to_decimal()},
                                      {"reward", amount(price.escrow.reward)},
                                      {"verifiers", work.verifiers},
                                      {"verifierFee", amount(price.escrow.verifier_fee)},
                                      {"verifierFees", amount(price.escrow.verifier_fees)},
                                      {"custodyFee", amount(price.escrow.custody_fee)},
                                      {"custodyFees", amount(price.escrow.custody_fees)},
                                      {"profilers", spec.profiling.profilers},
                                      {"profilerFee", amount(price.escrow.profiler_fee)},
                                      {"profilerFees", amount(price.escrow.profiler_fees)},
                                      {"profilerBond", amount(price.profiler_bond)},
                                      {"profilerWorkUnits", chain::market::profiled_work(work).to_decimal()},
                                      {"tax", amount(price.escrow.tax)},
                                      {"storageDeposit", amount(price.escrow.storage_deposit)},
                                      {"escrow", amount(price.escrow.total)}});
    if (core::is_profiled(spec)) price.json.set("leastProfileWindowS", least.profile_s.to_decimal());
    return price;
}

}  // namespace quern::wallet
