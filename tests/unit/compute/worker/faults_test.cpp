#include "compute/worker/faults.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/worker/step_runner.h"

namespace quern::compute::worker {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;
namespace arith = vm::tensor::arith;

constexpr const char* kTinyModel = R"({"format":"quern-arch-1",
    "model":{"type":"char_transformer","layers":1,"d_model":16,"heads":2,"context":8,"mlp_ratio":2,"vocab":11},
    "data":{"dtype":"u8","elements":49},"batch":2,"optimizer":{"type":"adamw","lr":0.01}})";
constexpr std::uint64_t kSteps = 6;

class FaultsTest : public ::testing::Test {
protected:
    void SetUp() override {
        const auto architecture = program::parse_architecture(kTinyModel);
        ASSERT_TRUE(architecture) << architecture.error().to_string();
        auto built = program::build_training_program(*architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        initial_ = program::initial_state(*built, 5);
        program_ = built->program;
        programs_.emplace(*core::TaskPrograms::make({program_}, core::plain_body(kSteps)));
        Bytes tokens;
        for (std::uint64_t i = 0; i < architecture->data[0].elements; ++i)
            tokens.push_back(static_cast<std::uint8_t>(i * 7 % 11));
        data_ = vm::tensor::MemoryData({std::move(tokens)});
        Hash32 beacon;
        beacon.data[3] = 9;
        seed_ = vm::tensor::seed_tensor(beacon);
    }

    // State roots S_0 … S_N under a plan.
    std::vector<Hash32> history(const FaultPlan& plan, State* last = nullptr) {
        StepRunner runner(*programs_, data_, seed_, plan, arith::Backend::scalar, nullptr, nullptr);
        State state = initial_;
        std::vector<Hash32> roots{vm::tensor::state_root(state)};
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
            EXPECT_TRUE(runner.run(state, step));
            roots.push_back(vm::tensor::state_root(state));
        }
        if (last != nullptr) *last = std::move(state);
        return roots;
    }

    static std::uint64_t first_difference(const std::vector<Hash32>& a, const std::vector<Hash32>& b) {
        for (std::size_t i = 0; i < a.size(); ++i)
            if (a[i] != b[i]) return i;
        return a.size();
    }

    vm::tensor::Program program_;
    std::optional<core::TaskPrograms> programs_;
    State initial_;
    vm::tensor::MemoryData data_;
    Tensor seed_;
};

TEST_F(FaultsTest, reads_names_and_steps) {
    EXPECT_EQ(parse_fault("flip_element")->fault, Fault::flip_element);
    EXPECT_EQ(parse_fault("flip_element")->step, 0U);
    EXPECT_EQ(parse_fault("skip_work@17")->step, 17U);
    EXPECT_EQ(parse_fault("wrong_slot@1")->fault, Fault::wrong_slot);
    EXPECT_EQ(parse_fault("wrong_choice")->fault, Fault::wrong_choice);
    EXPECT_EQ(parse_fault("silent_opening")->fault, Fault::silent_opening);
    EXPECT_EQ(parse_fault("every_other_step@2")->fault, Fault::every_other_step);
    EXPECT_EQ(parse_fault("steal").error().name, "fault.unknown");
    EXPECT_NE(parse_fault("steal").error().detail.find(", interpolated, pass_without_work, "), std::string::npos);
    EXPECT_EQ(parse_fault("skip_work@0").error().name, "fault.bad_step");
    EXPECT_EQ(parse_fault("skip_work@x").error().name, "fault.bad_step");
    EXPECT_EQ(parse_fault("").error().name, "fault.unknown");
}

TEST_F(FaultsTest, each_solver_fault_changes_the_history_from_its_step_on) {
    const auto honest = history({});
    for (const Fault fault : {Fault::skip_work, Fault::wrong_update, Fault::flip_element, Fault::wrong_slot}) {
        const auto altered = history({fault, 3});
        EXPECT_EQ(first_difference(honest, altered), 3U) << static_cast<int>(fault);
        EXPECT_NE(honest.back(), altered.back());
    }
}

TEST_F(FaultsTest, each_solver_fault_that_lasts_changes_every_step_from_its_own_on) {
    const auto honest = history({});
    std::set<Hash32> ends{honest.back()};
    for (const Fault fault : {Fault::easy_data, Fault::data_order, Fault::altered_rate, Fault::tiny_updates,
                              Fault::stale_momentum, Fault::every_other_step, Fault::interpolated}) {
        const FaultPlan plan{fault, 4};
        EXPECT_TRUE(plan.solver_cheats());
        EXPECT_EQ(first_difference(honest, history(plan)), 4U) << static_cast<int>(fault);
        ends.insert(history({fault, 0}).back());
    }
    EXPECT_EQ(ends.size(), 8U) << "each is a lie of its own";
}

TEST_F(FaultsTest, another_initialisation_shows_in_the_first_step_alone) {
    EXPECT_EQ(first_difference(history({}), history({Fault::wrong_init, 0})), 1U);
    EXPECT_EQ(first_difference(history({}), history({Fault::wrong_init, 5})), 1U);
}

TEST_F(FaultsTest, tiny_updates_leave_the_parameters_near_where_they_were) {
    State honest;
    State tiny;
    (void)history({}, &honest);
    (void)history({Fault::tiny_updates, 0}, &tiny);
    const auto distance = [&](const State& from) {
        double sum = 0;
        for (std::size_t slot = 0; slot < program_.slots.size(); ++slot)
            for (std::size_t i = 0; i < initial_[slot].words.size(); ++i)
                if ((program_.slots[slot].flags & vm::tensor::kSlotParameter) != 0)
                    sum += std::abs(std::bit_cast<float>(from[slot].words[i]) -
                                    std::bit_cast<float>(initial_[slot].words[i]));
        return sum;
    };
    EXPECT_GT(distance(tiny), 0);
    EXPECT_LT(distance(tiny), distance(honest) / 100);
}

TEST_F(FaultsTest, a_fault_without_step_starts_after_the_middle) {
    EXPECT_EQ(first_difference(history({}), history({Fault::flip_element, 0})), kSteps / 2 + 1);
}

TEST_F(FaultsTest, a_lazy_verifier_does_not_change_execution) {
    for (const Fault fault : {Fault::pass_without_work, Fault::wrong_choice, Fault::silent_opening})
        EXPECT_EQ(history({}), history({fault, 1}));
}

TEST_F(FaultsTest, skipped_work_leaves_parameters_as_they_were) {
    State frozen;
    (void)history({Fault::skip_work, 1}, &frozen);
    std::size_t parameters = 0;
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot) {
        if ((program_.slots[slot].flags & vm::tensor::kSlotParameter) == 0) continue;
        ++parameters;
        EXPECT_EQ(frozen[slot].words, initial_[slot].words) << program_.slots[slot].name;
    }
    EXPECT_GT(parameters, 0U);
}

TEST_F(FaultsTest, taps_of_an_altered_step_see_what_leads_to_its_claimed_state) {
    for (const Fault fault : {Fault::none, Fault::flip_element, Fault::wrong_update, Fault::skip_work,
                              Fault::wrong_init, Fault::easy_data, Fault::altered_rate, Fault::stale_momentum}) {
        StepRunner runner(*programs_, data_, seed_, {fault, 1}, arith::Backend::scalar, nullptr, nullptr);
        State state = initial_;
        EXPECT_TRUE(runner.run(state, 1));
        State tapped_state = initial_;
        std::map<std::uint32_t, Hash32> roots;
        EXPECT_TRUE(runner.run_tapped(tapped_state, 1, [&](const vm::tensor::TappedNode& tapped) {
            roots[tapped.number] = vm::tensor::tensor_root(tapped.output, nullptr);
        }));
        EXPECT_EQ(tapped_state, state);
        EXPECT_EQ(roots.size(), program_.nodes.size());
        for (std::size_t slot = 0; slot < state.size(); ++slot)
            EXPECT_EQ(roots[program_.updates[slot]], vm::tensor::tensor_root(state[slot]));
    }
}

}  // namespace
}  // namespace quern::compute::worker
