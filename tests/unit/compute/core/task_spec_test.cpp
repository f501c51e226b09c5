// What a task must look like, and the escrow equation.
#include "compute/core/task_spec.h"

#include <gtest/gtest.h>

#include "compute/core/program_opening.h"
#include "compute/core/verification_report.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core {
namespace {

using chain::types::TaskSubmitPayload;

TaskSubmitPayload good_spec() {
    static const vm::tensor::Program program = vm::tensor::test::training_program(4, 5, 40);
    const ProgramProver prover(program);
    TaskSubmitPayload spec;
    spec.program_root = prover.root();
    spec.program_header = vm::tensor::encode(program.header);
    spec.program_header_path = prover.header_path();
    spec.init_root = spec.data_root = spec.program_content = spec.init_content = spec.data_content = Hash32{{1}};
    spec.steps = 300;
    spec.interval = 30;
    spec.price_cap = 7;
    spec.tax = 1000;
    spec.bid_s = spec.start_s = spec.heartbeat_s = spec.prove_s = spec.verify_s = spec.challenge_s = 10;
    spec.uris = {"https://example.org/data"};
    return spec;
}

TEST(TaskSpec, WellFormedTaskGivesItsHeader) {
    const auto header = check_task_spec(good_spec());
    ASSERT_TRUE(header.has_value()) << header.error().to_string();
    EXPECT_GT(header->work_units, 0U);
}

TEST(TaskSpec, EachDefectIsNamed) {
    const auto expect = [](std::string_view error, auto change) {
        TaskSubmitPayload spec = good_spec();
        change(spec);
        const auto header = check_task_spec(spec);
        EXPECT_EQ(header ? "accepted" : header.error().name, error);
    };
    using Spec = TaskSubmitPayload;
    expect("task.bad_steps", [](Spec& s) { s.steps = 0; });
    expect("task.bad_steps", [](Spec& s) { s.steps = kMaxSteps + 30; });
    expect("task.bad_interval", [](Spec& s) { s.interval = 0; });
    expect("task.bad_interval", [](Spec& s) { s.interval = 31; });
    expect("task.bad_verifiers", [](Spec& s) { s.verifiers = 0; });
    expect("task.bad_verifiers", [](Spec& s) { s.verifiers = kMaxVerifiers + 1; });
    expect("task.bad_samples", [](Spec& s) { s.samples = 0; });
    expect("task.bad_samples", [](Spec& s) { s.samples = 5000; });
    expect("task.bad_price", [](Spec& s) { s.price_cap = 0; });
    expect("task.bad_price", [](Spec& s) { s.price_cap = Uint256(1) << kMaxPriceBits; });
    expect("task.bad_price", [](Spec& s) { s.tax = Uint256(1) << kMaxPriceBits; });
    expect("task.bad_root", [](Spec& s) { s.init_root = {}; });
    expect("task.bad_root", [](Spec& s) { s.data_content = {}; });
    expect("task.bad_window", [](Spec& s) { s.verify_s = 0; });
    expect("task.bad_window", [](Spec& s) { s.bid_s = kMaxWindowSeconds + 1; });
    expect("task.bad_class", [](Spec& s) { s.bandwidth_class = chain::market::kMaxClass + 1; });
    expect("task.bad_class", [](Spec& s) { s.device_class = ~std::uint32_t{0}; });
    expect("task.window_too_short", [](Spec& s) { s.bandwidth_class = 1; });
    expect("task.window_too_short", [](Spec& s) { s.device_class = 1; });
    expect("accepted", [](Spec& s) { s.bandwidth_class = s.device_class = chain::market::kMaxClass; });
    expect("task.bad_uris", [](Spec& s) { s.uris.assign(9, "x"); });
    expect("task.bad_uris", [](Spec& s) { s.uris = {""}; });
    expect("task.bad_uris", [](Spec& s) { s.uris = {"a b"}; });
    expect("task.bad_uris", [](Spec& s) { s.uris = {std::string(513, 'x')}; });
    expect("task.mode_not_supported", [](Spec& s) { s.mode = chain::types::TaskMode::tolerance; });
    expect("task.mode_not_supported", [](Spec& s) { s.mode = static_cast<chain::types::TaskMode>(9); });
    expect("task.privacy_not_supported", [](Spec& s) { s.privacy = chain::types::TaskPrivacy::encrypted; });
    expect("task.solvers_not_supported", [](Spec& s) { s.solvers = 2; });
    expect("task.bad_header_path", [](Spec& s) { s.program_root = Hash32{{9}}; });
    expect("task.bad_header_path", [](Spec& s) { s.program_header_path.pop_back(); });
    expect("rlp.truncated", [](Spec& s) { s.program_header.clear(); });
}

// chain/market's sums are checked for these.
static_assert(kMaxSteps <= 1U << 20 && kMaxSamples <= 4096);

}  // namespace
}  // namespace quern::compute::core
