#include "wallet/task.h"

#include <iostream>

#include "base/fs.h"
#include "chain/params/params.h"
#include "chain/types/json_codec.h"
#include "compute/core/program_opening.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr std::size_t kMaxJsonFile = std::size_t{1} << 20;
constexpr std::size_t kMaxContentFile = std::size_t{1} << 30;

Status take_hash(std::string_view option, const std::string& text, Hash32& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, named(std::string(option) + " " + text, fixed_from_hex<32>(text)));
    return {};
}

Status take_amount(std::string_view option, const std::string& text, Uint256& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, amount_of_option(option, text));
    return {};
}

const char* name_of(tensor::DType type) { return type == tensor::DType::f32 ? "f32" : "i32"; }

// The dims are checked where the program is at hand: its header names the number of elements.
Status check_data(const tensor::ProgramHeader& header, const std::optional<tensor::Program>& program,
                  const tensor::Tensor& data, const std::string& file) {
    const tensor::DataSet& wanted = header.data.front();
    if (data.dtype == wanted.dtype && data.shape.elements() == wanted.elements &&
        (!program || data.shape == tensor::data_shape(*program)))
        return {};
    return fail("task.wrong_data_shape",
                file + " holds " + name_of(data.dtype) + " " + data.shape.to_string() +
                    ", the program was compiled for " + name_of(wanted.dtype) + " " +
                    (program ? tensor::data_shape(*program).to_string() : "of " + std::to_string(wanted.elements)));
}

// The header of the program that the specification names, whether or not its file is at hand.
Expected<tensor::ProgramHeader> header_of(const types::TaskSubmitPayload& spec) {
    return core::open_header(spec.program_root, spec.program_header, spec.program_header_path);
}

Expected<std::optional<tensor::Program>> take_program(const SpecOptions& options, types::TaskSubmitPayload& spec) {
    if (options.program.empty()) return std::optional<tensor::Program>();
    QUERN_TRY(const Bytes bytes, fs::read_file(options.program, tensor::kMaxProgramBytes));
    QUERN_TRY(tensor::Program program, named(options.program, tensor::decode_program(bytes)));
    spec.program_root = tensor::program_root(program);
    spec.program_header = tensor::encode(program.header);
    spec.program_header_path = crypto::merkle_path(tensor::program_leaves(program), tensor::header_leaf_index());
    spec.program_content = crypto::content_id_of(bytes);
    return std::optional(std::move(program));
}

Status take_initial_state(const SpecOptions& options, const std::optional<tensor::Program>& program,
                          types::TaskSubmitPayload& spec) {
    if (options.init.empty()) return {};
    QUERN_TRY(const Bytes bytes, fs::read_file(options.init, kMaxContentFile));
    spec.init_content = crypto::content_id_of(bytes);
    if (!program) return {};
    const auto state = named(options.init, compute::program::read_state(*program, bytes));
    if (!state) return fail(state.error());
    spec.init_root = tensor::state_root(*state);
    return {};
}

Status take_data(const SpecOptions& options, const std::optional<tensor::Program>& program,
                 types::TaskSubmitPayload& spec) {
    if (options.data.empty()) return {};
    QUERN_TRY(const Bytes bytes, fs::read_file(options.data, kMaxContentFile));
    QUERN_TRY(const tensor::Tensor data, named(options.data, compute::program::read_data_set(bytes)));
    QUERN_TRY(const tensor::ProgramHeader header, header_of(spec));
    QUERN_CHECK(check_data(header, program, data, options.data));
    spec.data_content = crypto::content_id_of(bytes);
    spec.data_root = tensor::tensor_root(data);
    return {};
}

}  // namespace

SpecOptions::SpecOptions() {
    auto& d = defaults;
    d.bid_s = 60, d.start_s = 60, d.heartbeat_s = 300, d.prove_s = 120;
    d.verify_s = 300, d.challenge_s = 60;
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
    need("--program", !options.program.empty());
    need("--init", !options.init.empty());
    need("--data", !options.data.empty());
    need("--steps", options.defaults.steps != 0);
    need("--interval", options.defaults.interval != 0);
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
    QUERN_TRY(const auto program, take_program(options, spec));
    QUERN_CHECK(take_initial_state(options, program, spec));
    QUERN_CHECK(take_data(options, program, spec));
    QUERN_CHECK(take_hash("--init-root", options.init_root, spec.init_root));
    QUERN_CHECK(take_hash("--data-root", options.data_root, spec.data_root));
    QUERN_CHECK(take_amount("--price-cap", options.price_cap, spec.price_cap));
    QUERN_CHECK(take_amount("--tax", options.tax, spec.tax));
    if (options.speed != 0) spec.device_class = chain::market::class_of_rate(options.speed);
    if (options.bandwidth != 0) spec.bandwidth_class = chain::market::class_of_rate(options.bandwidth);
    if (!options.uris.empty()) spec.uris = options.uris;
    return spec;
}

Expected<Price> price_of(const types::TaskSubmitPayload& spec, const SpecOptions& options) {
    QUERN_TRY(const tensor::ProgramHeader header, core::check_task_spec(spec));
    Uint256 deposit = chain::params::MarketParams{}.storage_deposit;
    QUERN_CHECK(take_amount("--storage-deposit", options.storage_deposit, deposit));
    const auto work = chain::market::task_work(spec, tensor::step_work(header));
    Price price;
    QUERN_TRY(price.escrow, chain::market::escrow_of(spec, work.work_per_step, deposit));
    if (!options.max_escrow.empty()) {
        QUERN_TRY(const Uint256 limit, amount_of_option("--max-escrow", options.max_escrow));
        if (price.escrow.total > limit)
            return fail("wallet.above_max_escrow", "the task takes " + in_qrn(price.escrow.total) + " QRN into escrow");
    }
    const auto amount = [](const Uint256& grains) {
        return json::Value::object({{"grains", grains.to_decimal()}, {"qrn", in_qrn(grains)}});
    };
    const auto least = chain::market::least_windows(spec, work, core::task_bytes(header));
    price.json = json::Value::object({{"leastVerifyS", least.verify_s.to_decimal()},
                                      {"leastHeartbeatS", least.heartbeat_s.to_decimal()},
                                      {"workUnitsPerStep", work.work_per_step},
                                      {"steps", work.steps},
                                      {"totalWorkUnits", chain::market::total_work(work).to_decimal()},
                                      {"priceCapPerWorkUnit", spec.price_cap.to_decimal()},
                                      {"reward", amount(price.escrow.reward)},
                                      {"verifiers", work.verifiers},
                                      {"verifierFee", amount(price.escrow.verifier_fee)},
                                      {"verifierFees", amount(price.escrow.verifier_fees)},
                                      {"tax", amount(price.escrow.tax)},
                                      {"storageDeposit", amount(price.escrow.storage_deposit)},
                                      {"escrow", amount(price.escrow.total)}});
    return price;
}

}  // namespace quern::wallet
