// Trainings that measure themselves on held-out examples: what the metric is, when it is taken, and who loses a dispute
// about it.
#include "compute/program/held_out.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "compute/program/arch_json.h"
#include "compute/program/evaluate.h"
#include "compute/program/initial_state.h"
#include "compute/program/start_program.h"
#include "support/training_game.h"

namespace quern::compute::program {
namespace {

using core::plan_repeat;
using core::plan_step;
using core::PlanItem;
using core::Side;
using core::Verdict;
using quern::test::Alter;
using vm::tensor::DataType;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint64_t kUpdates = 5;
constexpr std::uint64_t kHeight = 100;
constexpr std::uint64_t kBudget = 60;

// Seven windows of four tokens in batches of two: the last one is half empty.
Architecture of_tokens() {
    Architecture architecture = quern::test::small_architecture();
    architecture.transformer().dropout = 0.3F;
    architecture.held_out = HeldOut{{{DataType::u8, 7 * 4 + 1}}, 0, 2};
    return architecture;
}

constexpr const char* kRegression = R"({"format": "quern-arch-1",
 "model": {"type": "layers", "input": {"features": 3}, "layers": [{"type": "linear", "size": 8}, {"type": "batch_norm"},
           {"type": "tanh"}, {"type": "linear", "size": 2}], "outputs": 2, "loss": "mse"},
 "data": [{"dtype": "u8", "elements": 60}, {"dtype": "u8", "elements": 40}], "batch": 4, "accumulate": 2,
 "held_out": {"data": [{"dtype": "u8", "elements": 27}, {"dtype": "u8", "elements": 18}], "every": 1},
 "optimizer": {"type": "sgd", "lr": 0.001}})";

std::vector<Bytes> random_sets(const std::vector<vm::tensor::DataSet>& sets, std::uint32_t below) {
    SeededRng rng(3);
    std::vector<Bytes> result;
    for (const vm::tensor::DataSet& set : sets) {
        Bytes& bytes = result.emplace_back(set.elements);
        for (std::uint8_t& element : bytes) element = static_cast<std::uint8_t>(rng.below(below));
    }
    return result;
}

// Every state of a plan, as whoever alters outputs computes them.
quern::test::Training run(const Architecture& architecture, const Alter& alter = {}) {
    auto built = build_training_programs(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    quern::test::Training training;
    std::vector<Program> programs;
    for (const BuiltProgram& each : built->programs) programs.push_back(each.program);
    training.built = built->programs.front();
    auto task = core::TaskPrograms::make(std::move(programs), built->body(kUpdates));
    EXPECT_TRUE(task) << task.error().to_string();
    training.programs = std::make_shared<const core::TaskPrograms>(std::move(*task));
    training.data = vm::tensor::MemoryData(random_sets(architecture.all_data(), 8));
    training.beacon = Hash32{{7}};
    training.seed = vm::tensor::seed_tensor(training.beacon);
    State state = initial_state(training.built, 1);
    training.states.push_back(state);
    for (std::uint64_t step = 1; step <= training.programs->plan.steps(); ++step) {
        const Program& program = training.programs->at(step);
        vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
        const auto outputs =
            executor.run_altered(state, training.data, training.seed, [&](std::uint32_t node, Tensor& output) {
                if (alter) alter(step, node, output);
            });
        for (std::size_t slot = 0; slot < state.size(); ++slot) state[slot] = outputs[program.updates[slot]];
        training.states.push_back(state);
    }
    for (const State& each : training.states) training.roots.push_back(vm::tensor::state_root(each));
    return training;
}

// What quern-compile evaluate finds with a state.
Evaluation found_apart(const Architecture& architecture, const quern::test::Training& training, const State& state,
                       std::size_t first_set) {
    const Architecture other = on_held_out(architecture);
    const auto& sets = training.data.sets();
    const vm::tensor::MemoryData data({sets.begin() + static_cast<std::ptrdiff_t>(first_set), sets.end()});
    const auto found = evaluate(other, training.program(), state, data, nullptr);
    EXPECT_TRUE(found) << found.error().to_string();
    return *found;
}

TEST(HeldOut, the_metric_of_tokens_is_what_an_evaluation_apart_finds) {
    const Architecture architecture = of_tokens();
    const quern::test::Training training = run(architecture);
    ASSERT_EQ(training.states.size(), 1 + 2 * (2 + 4) + 1 + 4U);  // of five updates three evaluations of four batches
    EXPECT_FALSE(read_metrics(training.program(), training.states[5])) << "it is not whole";
    std::map<std::size_t, std::uint32_t> updates{{6, 2}, {12, 4}, {17, 5}};
    for (const auto& [step, done] : updates) {
        const auto metrics = read_metrics(training.program(), training.states[step]);
        ASSERT_TRUE(metrics) << step;
        EXPECT_EQ(metrics->step, done);
        const Evaluation apart = found_apart(architecture, training, training.states[step], 1);
        EXPECT_NEAR(metrics->loss, apart.loss, 1e-5);
        ASSERT_TRUE(metrics->accuracy);
        EXPECT_FLOAT_EQ(*metrics->accuracy, static_cast<float>(*apart.accuracy));
    }
    const auto between = read_metrics(training.program(), training.states[10]);
    ASSERT_TRUE(between);
    EXPECT_EQ(between->step, 2U) << "the last that is whole";
}

TEST(HeldOut, the_metric_of_numbers_is_what_an_evaluation_apart_finds) {
    const auto architecture = parse_architecture(kRegression);
    ASSERT_TRUE(architecture) << architecture.error().to_string();
    const quern::test::Training training = run(*architecture);
    const auto metrics = read_metrics(training.program(), training.states.back());
    ASSERT_TRUE(metrics);
    EXPECT_EQ(metrics->step, kUpdates);
    EXPECT_FALSE(metrics->accuracy);
    const Evaluation apart = found_apart(*architecture, training, training.states.back(), 2);
    EXPECT_EQ(apart.examples, 9U);
    EXPECT_NEAR(metrics->loss, apart.loss, 1e-4 * apart.loss);
}

TEST(HeldOut, the_first_so_many_examples_may_be_all) {
    Architecture architecture = of_tokens();
    architecture.held_out->examples = 3;
    architecture.held_out->every = 0;
    const quern::test::Training some = run(architecture);
    architecture.held_out->examples = 0;
    architecture.held_out->data[0].elements = 3 * 4 + 1;
    const quern::test::Training all = run(architecture);
    ASSERT_EQ(some.states.size(), all.states.size());
    const auto metrics = read_metrics(some.program(), some.states.back());
    ASSERT_TRUE(metrics);
    EXPECT_EQ(metrics->loss, read_metrics(all.program(), all.states.back())->loss);
}

TEST(HeldOut, a_training_is_the_one_that_it_is_without) {
    Architecture architecture = of_tokens();
    const quern::test::Training with = run(architecture);
    architecture.held_out.reset();
    const quern::test::Training without = run(architecture);
    for (std::size_t slot = 0; slot < without.program().slots.size(); ++slot) {
        EXPECT_EQ(with.program().slots[slot].name, without.program().slots[slot].name);
        EXPECT_EQ(with.states.back()[slot].words, without.states.back()[slot].words);
    }
}

std::vector<PlanItem> body_of(Architecture architecture, std::uint32_t every, std::uint64_t updates) {
    architecture.held_out->every = every;
    const auto built = build_training_programs(architecture);
    EXPECT_TRUE(built);
    std::vector<Program> programs;
    for (const BuiltProgram& each : built->programs) programs.push_back(each.program);
    const auto body = built->body(updates);
    const auto task = core::TaskPrograms::make(std::move(programs), body);
    EXPECT_TRUE(task) << task.error().to_string();
    return body;
}

TEST(HeldOut, plans_evaluate_every_so_many_updates_and_at_the_end) {
    const Architecture architecture = of_tokens();
    const PlanItem evaluation = plan_repeat(4, {plan_step(1)});
    const auto updates = [](std::uint64_t count) { return plan_repeat(count, {plan_step(0)}); };
    EXPECT_EQ(body_of(architecture, 0, 10), (std::vector{updates(10), evaluation}));
    EXPECT_EQ(body_of(architecture, 5, 10), (std::vector{plan_repeat(2, {updates(5), evaluation})}));
    EXPECT_EQ(body_of(architecture, 4, 10),
              (std::vector{plan_repeat(2, {updates(4), evaluation}), updates(2), evaluation}));
    EXPECT_EQ(body_of(architecture, 10, 10), (std::vector{updates(10), evaluation}));
    EXPECT_EQ(body_of(architecture, 20, 10), (std::vector{updates(10), evaluation}));
    EXPECT_EQ(body_of(architecture, 1, 2), (std::vector{plan_repeat(2, {plan_step(0), evaluation})}));
    Architecture sums = architecture;
    sums.accumulate = 3;
    const std::vector<PlanItem> turn{plan_repeat(3, {plan_step(0)}), plan_step(1)};
    EXPECT_EQ(body_of(sums, 2, 4),
              (std::vector{plan_repeat(2, {plan_repeat(2, turn), plan_repeat(4, {plan_step(2)})})}));
}

TEST(HeldOut, a_first_state_may_be_made_by_a_program) {
    const auto built = build_training_programs(of_tokens());
    ASSERT_TRUE(built);
    const auto start = build_start_program(built->programs.front(), {});
    ASSERT_TRUE(start) << start.error().to_string();
    std::vector<PlanItem> body = built->body(6);
    body.insert(body.begin(), plan_step(2));
    EXPECT_TRUE(core::TaskPrograms::make({built->programs[0].program, built->programs[1].program, start->program},
                                         std::move(body)));
}

// Somebody who says that a model is better than it is has to say of some node of an evaluation what is not so.
TEST(HeldOut, who_lies_about_the_metric_loses_the_dispute) {
    const Architecture architecture = of_tokens();
    const quern::test::Training honest = run(architecture);
    const std::uint64_t last = honest.programs->plan.steps();
    ASSERT_EQ(honest.programs->plan.program_of(last), 1U);
    const Program& evaluation = honest.programs->at(last);
    std::map<std::string, std::size_t> slots;
    for (std::size_t slot = 0; slot < evaluation.slots.size(); ++slot) slots[evaluation.slots[slot].name] = slot;
    for (const char* const name : {"evaluation.loss", "evaluation.accuracy", "evaluation.step"}) {
        ASSERT_TRUE(slots.contains(name));
        const std::uint32_t node = evaluation.updates[slots[name]];
        const Alter alter = [=](std::uint64_t step, std::uint32_t at, Tensor& output) {
            if (step == last && at == node) output.words[0] ^= 0x00400000U;
        };
        const quern::test::Training liar = run(architecture, alter);
        ASSERT_NE(liar.history_root(), honest.history_root()) << name;
        for (const bool defends : {true, false}) {
            auto game = core::open_history_game(honest.context(), (defends ? liar : honest).history_root(),
                                                (defends ? honest : liar).history_root(), kBudget, kHeight);
            ASSERT_TRUE(game) << game.error().to_string();
            auto lies = quern::test::player_of(liar, alter);
            auto truth = quern::test::player_of(honest, {});
            (void)quern::test::play(*game, defends ? lies : truth, defends ? truth : lies, kHeight);
            EXPECT_EQ(game->verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << name;
            EXPECT_EQ(game->step, last);
        }
    }
}

TEST(HeldOut, refuses_data_that_do_not_fit) {
    const auto error_of = [](const Architecture& architecture) {
        const auto built = build_training_programs(architecture);
        return built ? std::string("none") : built.error().to_string();
    };
    Architecture none = of_tokens();
    none.held_out->data[0].elements = 4;
    EXPECT_NE(error_of(none).find("arch.out_of_range"), std::string::npos);
    EXPECT_NE(error_of(none).find("held_out"), std::string::npos);
    Architecture numbers = of_tokens();
    numbers.held_out->data[0].type = DataType::f32;
    EXPECT_NE(error_of(numbers).find("arch.unknown_dtype"), std::string::npos);
    Architecture more = of_tokens();
    more.held_out->examples = 8;
    EXPECT_NE(error_of(more).find("arch.out_of_range"), std::string::npos);
    Architecture many = of_tokens();
    many.held_out->data[0].elements = (std::uint64_t{1} << 30) + 5;
    EXPECT_NE(error_of(many).find("arch.out_of_range"), std::string::npos);
    EXPECT_EQ(build_training_program(of_tokens()).error().name, "arch.accumulates");
    std::string unknown = kRegression;
    unknown.replace(unknown.find("\"every\""), 7, "\"evary\"");
    EXPECT_EQ(parse_architecture(unknown).error().name, "arch.unknown_field");
}

}  // namespace
}  // namespace quern::compute::program
