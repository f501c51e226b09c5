#include "wallet/task.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fs.h"
#include "chain/market/bonds.h"
#include "chain/market/storage.h"
#include "chain/params/parameters.h"
#include "chain/types/json_codec.h"
#include "compute/core/profiling.h"
#include "compute/core/task_imports.h"
#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "compute/program/text_dataset.h"
#include "compute/tolerance/judge/judge_program.h"
#include "crypto/content_id.h"
#include "wallet/amount.h"

namespace quern::wallet {
namespace {

namespace core = compute::core;
namespace program = compute::program;
namespace tensor = vm::tensor;

constexpr std::uint32_t kContext = 6;
constexpr std::uint32_t kWindows = 20;

std::string architecture_of(std::uint32_t windows, std::uint32_t width = 8) {
    return R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":)" +
           std::to_string(width) + R"(,"heads":2,"context":)" + std::to_string(kContext) +
           R"(,"mlp_ratio":2,"vocab":11},"data":{"dtype":"u8","elements":)" + std::to_string(windows * kContext + 1) +
           R"(},"batch":3,"optimizer":{"type":"adamw","lr":3e-3,"betas":[0.9,0.95],"eps":1e-8,"weight_decay":0.1,)"
           R"("warmup":20,"total_steps":300,"grad_clip":1.0}})";
}

Bytes text_of(std::uint32_t windows) {
    std::string text;
    for (std::uint32_t i = 0; i <= windows * kContext; ++i) text.push_back(static_cast<char>('a' + i * i % 11));
    const std::string_view view = text;
    const auto dataset = program::build_text_dataset(std::span(&view, 1));
    EXPECT_TRUE(dataset);
    EXPECT_EQ(dataset->tokens.size(), windows * kContext + 1);
    return dataset->tokens;
}

json::Value params_of(const chain::params::MarketParams& market) {
    chain::params::ChainParams params;
    params.market = market;
    return json::Value::object({{"market", chain::params::to_json(params, "market")}});
}

// A program, its initial state and its data set as files, and all options that a task needs.
class TaskTest : public ::testing::Test {
protected:
    TaskTest() {
        std::string name = ::testing::TempDir() + "quern-task-XXXXXX";
        directory_ = ::mkdtemp(name.data());
        const auto built = program::build_training_program(*program::parse_architecture(architecture_of(kWindows)));
        EXPECT_TRUE(built);
        options_.programs.push_back(write("program.bin", tensor::encode(built->program)));
        options_.init =
            write("init.safetensors", *program::write_state(built->program, program::initial_state(*built, 1)));
        options_.data = {write("data.u8", text_of(kWindows))};
        options_.price_cap = "1000000";
        options_.steps = 40;
        options_.defaults.work.interval = 10;
    }
    ~TaskTest() override { std::filesystem::remove_all(directory_); }

    std::string write(const std::string& name, BytesView bytes) {
        const std::string path = directory_ + "/" + name;
        EXPECT_TRUE(fs::write_file_atomic(path, bytes));
        return path;
    }
    Error error() {
        const auto spec = build_spec(options_);
        if (!spec) return spec.error();
        const auto price = price_of(*spec, options_);
        return price ? Error{"none", ""} : price.error();
    }

    std::string directory_;
    SpecOptions options_;
};

TEST_F(TaskTest, the_files_make_the_specification) {
    const auto spec = build_spec(options_);
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_EQ(spec->contents.programs,
              (std::vector<Hash32>{crypto::content_id_of(*fs::read_file(options_.programs[0], 1U << 24))}));
    const auto plan = core::TaskPlan::decode(spec->plan);
    ASSERT_TRUE(plan) << plan.error().to_string();
    EXPECT_EQ(plan->body(), core::plain_body(40));
    EXPECT_EQ(spec->data_roots, std::vector{crypto::content_id_of(text_of(kWindows))});
    const auto price = price_of(*spec, options_);
    ASSERT_TRUE(price) << price.error().to_string();
    const auto work = price->json.find("totalWorkUnits");
    ASSERT_NE(work, nullptr);
    EXPECT_EQ(price->escrow.reward, *Uint256::from_decimal(*work->as_string()) * Uint256(1'000'000));
}

TEST_F(TaskTest, several_programs_need_a_plan) {
    auto architecture = *program::parse_architecture(architecture_of(kWindows));
    architecture.accumulate = 4;
    const auto built = program::build_training_programs(architecture);
    ASSERT_TRUE(built);
    options_.programs.clear();
    for (const auto& one : built->programs)
        options_.programs.push_back(
            write("part" + std::to_string(options_.programs.size()), tensor::encode(one.program)));
    options_.init = write("both.safetensors", *program::write_state(built->programs[0].program,
                                                                    program::initial_state(built->programs[0], 1)));
    EXPECT_EQ(error().name, "plan.unused_program");  // --steps 40 speaks of the first alone
    options_.steps = 0;
    options_.plan = "[[8,[[4,[0]],1]]]";
    EXPECT_EQ(error().name, "none");
    const auto spec = build_spec(options_);
    ASSERT_TRUE(spec);
    const auto plan = core::TaskPlan::decode(spec->plan);
    ASSERT_TRUE(plan) << plan.error().to_string();
    EXPECT_EQ(plan->body(), built->body(8));
    EXPECT_EQ(spec->header_paths.size(), 2U);
    EXPECT_EQ(spec->contents.programs.size(), 2U);
    for (const auto& [text, name] :
         {std::pair{"[[8,[0]]]", "plan.unused_program"}, std::pair{"[[8,[0,2]],1]", "plan.bad_program"},
          std::pair{"[[8,[0,9]],1]", "plan.bad_program"}, std::pair{"[[3]]", "plan.bad_body"},
          std::pair{"[[1,[0]],1]", "plan.bad_count"}, std::pair{"[[2,[0,[2,[0,[2,[0,[2,[0]]]]]]]],1]", "plan.too_deep"},
          std::pair{"7", "json.wrong_type"}}) {
        options_.plan = text;
        EXPECT_EQ(error().name, name) << text;
    }
}

TEST_F(TaskTest, what_a_first_state_has_of_settled_tasks_is_found_and_opened) {
    const auto built = program::build_training_program(*program::parse_architecture(architecture_of(kWindows)));
    ASSERT_TRUE(built);
    const tensor::Program& made = built->program;
    tensor::State trained = program::initial_state(*built, 2);
    for (tensor::Tensor& slot : trained)
        for (std::uint32_t& word : slot.words) word ^= 0x3f000001;
    const std::string trained_file = write("trained.safetensors", *program::write_state(made, trained));
    options_.imports = {{5, trained_file, options_.programs[0]}};
    EXPECT_EQ(error().name, "task.imports_nothing") << "another first state";

    tensor::State first = program::initial_state(*built, 3);
    const auto taken = program::take_parameters(made, trained, made, first);
    options_.init = write("fine.safetensors", *program::write_first_state(made, first));
    const auto spec = build_spec(options_);
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_EQ(spec->init_root, tensor::state_root(first));
    const auto states = core::open_imports(*spec, made.slots.size());
    ASSERT_TRUE(states) << states.error().to_string();
    EXPECT_EQ(*states, std::vector{tensor::state_root(trained)});
    const auto& imports = spec->imports.list;
    ASSERT_EQ(imports.size(), 1U);
    EXPECT_EQ(imports[0].task, 5U);
    std::vector<std::string> imported;
    for (const auto& range : imports[0].slots) {
        EXPECT_EQ(range.there, range.here);
        for (std::uint32_t i = 0; i < range.count; ++i) imported.push_back(made.slots[range.here + i].name);
    }
    EXPECT_EQ(imported, taken);
    EXPECT_EQ(imports[0].slots.size(), 1U) << "parameters are neighbours";
    EXPECT_EQ(error().name, "none");

    // A slot has one origin, whose task has the lower number or not.
    options_.imports = {{9, trained_file, options_.programs[0]}, {5, trained_file, options_.programs[0]}};
    EXPECT_EQ(error().name, "task.imports_nothing");
    options_.imports = {{9, directory_ + "/absent", options_.programs[0]}};
    EXPECT_NE(error().detail.find("absent"), std::string::npos);
    options_.imports = {{5, trained_file, options_.programs[0]}};
    options_.init.clear();
    EXPECT_EQ(error().name, "task.import_files");
}

TEST_F(TaskTest, data_of_another_size_are_neither_priced_nor_signed) {
    options_.data = {write("other.u8", text_of(kWindows - 1))};
    EXPECT_EQ(error().name, "task.wrong_data_size");
    for (const char* part : {"other.u8", "115 bytes", "121 elements of u8"})
        EXPECT_NE(error().detail.find(part), std::string::npos) << part << " in " << error().detail;
    // Nor when the program is known from a specification alone.
    options_.data = {directory_ + "/data.u8"};
    const auto whole = build_spec(options_);
    ASSERT_TRUE(whole);
    SpecOptions from_spec;
    from_spec.spec_file = "@" + write("spec.json", as_bytes(chain::types::to_json(*whole).dump()));
    from_spec.data = {directory_ + "/other.u8"};
    EXPECT_EQ(build_spec(from_spec).error().name, "task.wrong_data_size");
    from_spec.data = options_.data;
    EXPECT_TRUE(build_spec(from_spec));
}

TEST_F(TaskTest, there_is_a_file_or_a_root_for_each_data_tensor) {
    options_.data.push_back(options_.data.front());
    EXPECT_EQ(error().name, "task.wrong_data_size");
    options_.data.clear();
    EXPECT_EQ(error().name, "task.bad_root");
    options_.data_roots = {to_hex0x(crypto::content_id_of(text_of(kWindows)))};
    EXPECT_EQ(error().name, "none") << error().to_string();
    options_.data_roots.push_back(options_.data_roots.front());
    EXPECT_EQ(error().name, "task.bad_root");
    options_.data_roots = {"0x12"};
    EXPECT_NE(error().detail.find("--data-root"), std::string::npos);
}

TEST_F(TaskTest, profilers_find_the_limits_that_no_file_has) {
    namespace judge = compute::tolerance::judge;
    constexpr std::uint64_t kSegment = 4;
    constexpr std::uint64_t kSegments = 8;
    const auto built = program::build_training_program(*program::parse_architecture(architecture_of(kWindows)));
    const auto judged = judge::build_judged_programs(built->program, kSegments);
    ASSERT_TRUE(judged) << judged.error().to_string();
    options_.programs = {write("training.bin", tensor::encode(judged->training)),
                         write("judge.bin", tensor::encode(judged->judge))};
    const auto first = judge::first_state(*judged, program::initial_state(*built, 1));
    options_.init = write("first.safetensors", *program::write_state(judged->training, *first));
    options_.steps = 0;
    options_.body = judged->body(kSegment, kSegments);
    options_.defaults.work.interval = options_.defaults.work.stride = kSegment + 1;
    options_.defaults.work.mode = chain::types::TaskMode::tolerance;
    EXPECT_EQ(error().name, "task.wrong_data_size") << "without profilers there must be limits";
    options_.profilers = 4;
    options_.profiled_segments = kSegments;
    options_.profile_window_s = 77;
    options_.tolerance.cap = 0.5F;
    options_.tolerance.range = 3;
    options_.tolerance.l2 = 0.25F;
    options_.tolerance.rest = 2;
    const auto spec = build_spec(options_);
    ASSERT_TRUE(spec) << spec.error().to_string();
    EXPECT_EQ(spec->data_roots, (std::vector<Hash32>{crypto::content_id_of(text_of(kWindows)), {}, {}}));
    EXPECT_EQ(spec->profiling, (chain::types::ProfilingTerms{4, kSegments, 77, 0x3f000000, 0x40800000, 0x40400000,
                                                             0x3e800000, 0, 0, 0x40000000}))
        << "the cap of all segments is that of each";
    const auto price = price_of(*spec, options_);
    ASSERT_TRUE(price) << price.error().to_string();
    EXPECT_EQ(price->escrow.profiler_fees, price->escrow.profiler_fee * Uint256(4));
    EXPECT_FALSE(price->escrow.profiler_fee.is_zero());
    EXPECT_EQ(*price->json.find("profilers")->as_u64(), 4U);
    EXPECT_EQ(price->profiler_bond, *chain::market::verifier_bond({}, price->escrow.profiler_fee));
    EXPECT_EQ(*price->json.find("profilerBond")->find("grains")->as_string(), price->profiler_bond.to_decimal());
    // Who sums up what is shown comes to what is paid.
    EXPECT_EQ(other_parts(price->escrow), "verifiers " + in_qrn(price->escrow.verifier_fees) + ", custodians " +
                                              in_qrn(price->escrow.custody_fees) + ", profilers " +
                                              in_qrn(price->escrow.profiler_fees) + ", tax 0, deposit " +
                                              in_qrn(price->escrow.storage_deposit));
    EXPECT_EQ(price->escrow.total, price->escrow.reward + price->escrow.verifier_fees + price->escrow.custody_fees +
                                       price->escrow.profiler_fees + price->escrow.storage_deposit);
    auto few = *spec;
    few.work.interval = kSegments * (kSegment + 1);
    EXPECT_EQ(price_of(few, options_).error().detail,
              "the task has 1 segments, profilers measure 8 at least: a shorter interval");
    options_.data_roots = {to_hex0x(Hash32{{1}})};
    options_.data.clear();
    EXPECT_EQ(build_spec(options_)->data_roots, (std::vector<Hash32>{Hash32{{1}}, {}, {}}));
    options_.data_roots.clear();
    options_.data = {write("data.u8", text_of(kWindows)), write("limits", Bytes(28))};
    EXPECT_EQ(error().name, "task.wrong_data_size") << "they are given by nobody";
}

TEST_F(TaskTest, an_initial_state_of_another_program_names_its_file) {
    const auto wider = program::build_training_program(*program::parse_architecture(architecture_of(kWindows, 16)));
    ASSERT_TRUE(wider);
    options_.init =
        write("wider.safetensors", *program::write_state(wider->program, program::initial_state(*wider, 1)));
    EXPECT_TRUE(error().name.starts_with("state_file.")) << error().to_string();
    EXPECT_NE(error().detail.find("wider.safetensors"), std::string::npos) << error().detail;
}

TEST_F(TaskTest, all_missing_options_are_named_at_once) {
    EXPECT_EQ(missing_options(options_), std::vector<std::string>());
    EXPECT_EQ(
        missing_options(SpecOptions()),
        (std::vector<std::string>{"--program", "--init", "--data", "--steps or --plan", "--interval", "--price-cap"}));
    SpecOptions whole;
    whole.spec_file = "@file";
    EXPECT_TRUE(missing_options(whole).empty());
}

TEST_F(TaskTest, errors_name_the_file_or_the_option) {
    auto wrong = options_;
    wrong.spec_file = "@" + write("bad.json", as_bytes("{,"));
    const auto error = build_spec(wrong).error();
    EXPECT_EQ(error.name, "json.syntax");
    EXPECT_NE(error.detail.find("bad.json"), std::string::npos) << error.detail;
    wrong = options_;
    wrong.price_cap = "dear";
    EXPECT_TRUE(build_spec(wrong).error().detail.starts_with("--price-cap dear"));
    wrong = options_;
    wrong.init_root = "0x12";
    EXPECT_TRUE(build_spec(wrong).error().detail.starts_with("--init-root 0x12"));
    wrong = options_;
    wrong.programs = {wrong.data};
    EXPECT_NE(build_spec(wrong).error().detail.find("data.u8"), std::string::npos);
}

TEST_F(TaskTest, windows_that_a_promised_line_cannot_meet_are_neither_priced_nor_signed) {
    options_.bandwidth = 50'000;
    EXPECT_EQ(error().name, "task.window_too_short")
        << "8 MiB of a program go four times in 300 s at 46 KB/s, and twice that";
    options_.bandwidth = 1'250'000;
    const auto spec = build_spec(options_);
    EXPECT_EQ(spec->classes.bandwidth, 40U);
    const auto price = price_of(*spec, options_);
    ASSERT_TRUE(price) << price.error().to_string();
    EXPECT_EQ(*price->json.get_string("leastVerifyS"), "77");
    EXPECT_EQ(*price->json.get_string("leastHeartbeatS"), "1");
    options_.speed = 4;
    EXPECT_EQ(error().name, "task.window_too_short");
    EXPECT_EQ(build_spec(options_)->classes.speed, 4U);
}

// As the chain will take it, whose parameters the options give.
TEST_F(TaskTest, the_price_has_the_deposit_for_what_the_task_may_store) {
    const auto deposit_of = [&] {
        const auto spec = build_spec(options_);
        const auto price = price_of(*spec, options_);
        EXPECT_TRUE(price) << price.error().to_string();
        return price->escrow.storage_deposit;
    };
    chain::params::MarketParams market;
    const auto spec = build_spec(options_);
    EXPECT_EQ(deposit_of(), market.storage_deposit_per_byte * Uint256(chain::market::stored_bytes(market, *spec, 1)));
    market.storage_deposit_per_byte = Uint256(3);
    market.max_rounds = 1;
    market.max_bids = 2;
    options_.params = "@" + write("params.json", as_bytes(params_of(market).dump()));
    EXPECT_EQ(deposit_of(), Uint256(3 * chain::market::stored_bytes(market, *spec, 1)));
}

TEST_F(TaskTest, parameters_are_those_that_a_node_tells) {
    json::Value params = params_of({});
    options_.params = params.dump();
    EXPECT_EQ(error().name, "none") << error().to_string();
    json::Value market = **params.get_object("market");
    market.set("custody_fee_per_mib", "lots");
    options_.params = json::Value::object({{"market", market}}).dump();
    EXPECT_EQ(error().name, "uint256.bad_digit");
    EXPECT_EQ(error().detail, "--params: custody_fee_per_mib is lots");
    market.erase("custody_fee_per_mib");
    options_.params = json::Value::object({{"market", market}}).dump();
    EXPECT_EQ(error().name, "json.missing_field");
    options_.params = "@nowhere.json";
    EXPECT_TRUE(error().name.starts_with("fs.")) << error().to_string();
}

TEST_F(TaskTest, the_price_cap_within_a_budget_is_the_highest_one) {
    options_.price_cap = "0";
    auto spec = build_spec(options_);
    ASSERT_TRUE(spec);
    const Uint256 budget = *parse_amount("3qrn");
    const auto cap = price_cap_within(*spec, options_, budget);
    ASSERT_TRUE(cap) << cap.error().to_string();
    spec->money.price_cap = *cap;
    EXPECT_LE(price_of(*spec, options_)->escrow.total, budget);
    spec->money.price_cap = *cap + Uint256(1);
    EXPECT_GT(price_of(*spec, options_)->escrow.total, budget);
    spec->money.price_cap = Uint256(1);
    const Uint256 least = price_of(*spec, options_)->escrow.total;
    EXPECT_EQ(*price_cap_within(*spec, options_, least), Uint256(1));
    EXPECT_EQ(price_cap_within(*spec, options_, least - Uint256(1)).error().name, "wallet.budget_too_small");
    // Of more than any price the highest that a task may have.
    EXPECT_EQ(*price_cap_within(*spec, options_, ~Uint256()),
              (Uint256(1) << chain::params::kMaxPriceBits) - Uint256(1));
}

TEST_F(TaskTest, nothing_is_signed_above_the_limit_that_was_set) {
    options_.max_escrow = "1000qrn";
    EXPECT_EQ(error().name, "wallet.no_params");
    options_.params = params_of({}).dump();
    options_.max_escrow = "1";
    EXPECT_EQ(error().name, "wallet.above_max_escrow");
    options_.max_escrow = "1000qrn";
    EXPECT_EQ(error().name, "none");
    options_.max_escrow = "lots";
    EXPECT_TRUE(error().detail.starts_with("--max-escrow lots"));
}

}  // namespace
}  // namespace quern::wallet
