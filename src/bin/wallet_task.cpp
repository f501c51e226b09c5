#include "bin/wallet_task.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/fs.h"
#include "bin/amount.h"
#include "chain/params/params.h"
#include "chain/types/json_codec.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"

namespace quern::wallet {
namespace {

namespace core = compute::core;
namespace tensor = vm::tensor;
namespace types = chain::types;

constexpr std::size_t kMaxJsonFile = std::size_t{1} << 20;
constexpr std::size_t kMaxContentFile = std::size_t{1} << 30;

Status take_hash(const std::string& text, Hash32& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, fixed_from_hex<32>(text));
    return {};
}

Status take_amount(const std::string& text, Uint256& target) {
    if (text.empty()) return {};
    QUERN_TRY(target, parse_amount(text));
    return {};
}

}  // namespace

Expected<json::Value> read_json_argument(const std::string& text) {
    if (text.empty() || text[0] != '@') return json::parse(text);
    if (text == "@-") return json::parse(std::string(std::istreambuf_iterator<char>(std::cin), {}));
    QUERN_TRY(const std::string content, fs::read_text_file(text.substr(1), kMaxJsonFile));
    return json::parse(content);
}

Expected<types::TaskSubmitPayload> build_spec(const SpecOptions& options) {
    types::TaskSubmitPayload spec = options.defaults;
    if (!options.spec_file.empty()) {
        QUERN_TRY(const json::Value json, read_json_argument(options.spec_file));
        QUERN_TRY(spec, types::record_from_json<types::TaskSubmitPayload>(json, types::ExtraMembers::refuse));
    }
    std::optional<tensor::Program> program;
    if (!options.program.empty()) {
        QUERN_TRY(const Bytes bytes, fs::read_file(options.program, tensor::kMaxProgramBytes));
        QUERN_TRY(program, tensor::decode_program(bytes));
        const auto leaves = tensor::program_leaves(*program);
        spec.program_root = tensor::program_root(*program);
        spec.program_header = tensor::encode(program->header);
        spec.program_header_path = crypto::merkle_path(leaves, tensor::header_leaf_index());
        spec.program_content = crypto::content_id_of(bytes);
    }
    if (!options.init.empty()) {
        QUERN_TRY(const Bytes bytes, fs::read_file(options.init, kMaxContentFile));
        spec.init_content = crypto::content_id_of(bytes);
        if (program && options.init_root.empty()) {
            QUERN_TRY(const tensor::State state, compute::program::read_state(*program, bytes));
            spec.init_root = tensor::state_root(state);
        }
    }
    if (!options.data.empty()) {
        QUERN_TRY(const Bytes bytes, fs::read_file(options.data, kMaxContentFile));
        spec.data_content = crypto::content_id_of(bytes);
        if (options.data_root.empty()) {
            QUERN_TRY(const tensor::Tensor data, compute::program::read_data_set(bytes));
            spec.data_root = tensor::tensor_root(data);
        }
    }
    QUERN_CHECK(take_hash(options.init_root, spec.init_root));
    QUERN_CHECK(take_hash(options.data_root, spec.data_root));
    QUERN_CHECK(take_amount(options.price_cap, spec.price_cap));
    QUERN_CHECK(take_amount(options.tax, spec.tax));
    if (!options.uris.empty()) spec.uris = options.uris;
    return spec;
}

Expected<Price> price_of(const types::TaskSubmitPayload& spec, const SpecOptions& options) {
    QUERN_TRY(const tensor::ProgramHeader header, core::check_task_spec(spec));
    Uint256 deposit = chain::params::MarketParams{}.storage_deposit;
    QUERN_CHECK(take_amount(options.storage_deposit, deposit));
    const core::TaskWork work = core::task_work(spec, header.work_units);
    Price price;
    QUERN_TRY(price.escrow, core::escrow_of(work, spec.price_cap, spec.tax, deposit));
    const auto amount = [](const Uint256& grains) {
        return json::Value::object({{"grains", grains.to_decimal()}, {"qrn", in_qrn(grains)}});
    };
    price.json = json::Value::object({{"workUnitsPerStep", work.work_per_step},
                                      {"steps", work.steps},
                                      {"totalWorkUnits", core::total_work(work).to_decimal()},
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

void add_spec_options(CLI::App& app, SpecOptions& spec) {
    app.add_option("--spec", spec.spec_file, "the whole specification as JSON or @FILE; other options override it");
    app.add_option("--program", spec.program, "program file of quern-compile");
    app.add_option("--init", spec.init, "initial state, safetensors");
    app.add_option("--data", spec.data, "data set, safetensors");
    app.add_option("--init-root", spec.init_root, "root of the initial state when --init is not given");
    app.add_option("--data-root", spec.data_root, "root of the data set when --data is not given");
    app.add_option("--price-cap", spec.price_cap, "grains per work unit");
    app.add_option("--tax", spec.tax, "to the jackpot vault: 0.1qrn");
    app.add_option("--storage-deposit", spec.storage_deposit,
                   "the chain's parameter (quern_params); for the price only");
    app.add_option("--uri", spec.uris, "another source of the contents; several may be given");
    auto& d = spec.defaults;
    d.bid_blocks = 10, d.start_blocks = 30, d.heartbeat_blocks = 300, d.prove_blocks = 100;
    d.verify_blocks = 300, d.challenge_blocks = 20;
    app.add_option("--steps", d.steps, "training steps N");
    app.add_option("--interval", d.interval, "a checkpoint each so many steps");
    app.add_option("--verifiers", d.verifiers, "verifiers")->capture_default_str();
    app.add_option("--samples", d.samples, "segments each verifier replays")->capture_default_str();
    app.add_option("--memory-mib", d.memory_mib, "memory the solver needs");
    for (const auto& [name, target, text] :
         {std::tuple{"--bid-blocks", &d.bid_blocks, "blocks for bids"},
          std::tuple{"--start-blocks", &d.start_blocks, "blocks until the winner must start"},
          std::tuple{"--heartbeat-blocks", &d.heartbeat_blocks, "blocks from one checkpoint to the next"},
          std::tuple{"--prove-blocks", &d.prove_blocks, "blocks for the proof after the last checkpoint"},
          std::tuple{"--verify-blocks", &d.verify_blocks, "blocks for each of custody, commit and reveal"},
          std::tuple{"--challenge-blocks", &d.challenge_blocks, "blocks of the challenge window"}})
        app.add_option(name, *target, text)->capture_default_str();
}

}  // namespace quern::wallet
