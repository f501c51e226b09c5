// The whole way on real text: data set, program, initial state, training, files, sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/autodiff.h"
#include "compute/program/initial_state.h"
#include "compute/program/sampler.h"
#include "compute/program/start_program.h"
#include "compute/program/state_file.h"
#include "compute/program/text_dataset.h"
#include "unit/compute/program/double_evaluator.h"

namespace quern::compute::program {
namespace {

using test::evaluate_in_double;
using test::step_in_double;
using test::to_doubles;
using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};

float loss_of(const BuiltProgram& built, const State& state) {
    return __builtin_bit_cast(float, state[built.program.header.loss_slot].words[0]);
}

std::string licence_text() {
    // On every Debian system; the sentence stands in where tests run on another.
    auto text = fs::read_text_file("/usr/share/common-licenses/GPL-3", 1 << 20);
    if (text) return *text;
    std::string repeated;
    for (int i = 0; i < 400; ++i)
        repeated += "The licence of each work is given with that work, and binds who copies it.\n";
    return repeated;
}

struct Task {
    TextDataset dataset;
    vm::tensor::MemoryData data;
    Architecture architecture;
    BuiltProgram built;
};

Task make_task(std::uint32_t layers, std::uint32_t width, std::uint32_t context, std::uint32_t batch) {
    const std::string text = licence_text();
    const std::vector<std::string_view> texts{text};
    auto dataset = build_text_dataset(texts);
    EXPECT_TRUE(dataset);
    Architecture architecture;
    architecture.model =
        TransformerSpec{layers, width, 2, context, 2, static_cast<std::uint32_t>(dataset->vocabulary.size())};
    architecture.data = {{vm::tensor::DataType::u8, dataset->tokens.size()}};
    architecture.batch = batch;
    architecture.optimizer.learning_rate = 1e-2F;
    architecture.optimizer.weight_decay = 0.1F;
    architecture.optimizer.clip_norm = 1.0F;
    architecture.optimizer.warmup = 5;
    auto built = build_training_program(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    vm::tensor::MemoryData data({dataset->tokens});
    return {std::move(*dataset), std::move(data), architecture, std::move(*built)};
}

TEST(Training, lowers_the_loss_on_real_text) {
    const Task task = make_task(1, 32, 16, 8);
    State state = initial_state(task.built, 7);
    ASSERT_TRUE(vm::tensor::check_state(task.built.program, state));
    ThreadPool pool(1);
    vm::tensor::Executor executor(task.built.program, vm::tensor::arith::best_backend(), &pool);
    executor.step(state, task.data, kSeed);
    const float first = loss_of(task.built, state);
    // Untrained: about the entropy of guessing evenly.
    EXPECT_NEAR(first, std::log(static_cast<float>(task.dataset.vocabulary.size())), 0.6F);
    float last = 0;
    for (int step = 1; step < 120; ++step) {
        executor.step(state, task.data, kSeed);
        if (step >= 110) last += loss_of(task.built, state) / 10;
    }
    EXPECT_LT(last, first - 1.2F);
}

// All products in bytes: training goes as in f32, but for what seeds differ by.
TEST(Training, in_bytes_lowers_the_loss_as_f32_does) {
    std::vector<float> losses;
    for (const bool in_bytes : {false, true}) {
        Task task = make_task(1, 32, 16, 8);
        if (in_bytes) {
            TransformerSpec& model = task.architecture.transformer();
            model.precision = model.head_precision = model.attention_precision = TransformerSpec::Precision::int8;
            auto built = build_training_program(task.architecture);
            ASSERT_TRUE(built) << built.error().to_string();
            EXPECT_EQ(built->program.slots, task.built.program.slots);
            std::size_t floats = 0;
            std::size_t bytes = 0;
            for (const auto& node : built->program.nodes) {
                floats += node.op == vm::tensor::Op::matmul ? 1 : 0;
                bytes += node.op == vm::tensor::Op::imatmul ? 1 : 0;
            }
            EXPECT_EQ(floats, 0U);
            EXPECT_EQ(bytes, 3U * 7);  // four matrices, the head, two of attention; each with two gradients
            task.built = std::move(*built);
        }
        State state = initial_state(task.built, 7);
        ThreadPool pool(1);
        vm::tensor::Executor executor(task.built.program, vm::tensor::arith::best_backend(), &pool);
        float last = 0;
        for (int step = 0; step < 120; ++step) {
            executor.step(state, task.data, kSeed);
            if (step >= 100) last += loss_of(task.built, state) / 20;
        }
        losses.push_back(last);
    }
    EXPECT_NEAR(losses[1], losses[0], 0.05F * losses[0]);
    EXPECT_NE(losses[1], losses[0]);
}

TEST(Training, draws_other_roundings_each_step) {
    Task task = make_task(1, 8, 8, 2);
    task.architecture.transformer().precision = TransformerSpec::Precision::int8;
    const auto built = build_training_program(task.architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    // The words themselves are looked at: another step has another batch, too.
    const auto& nodes = built->program.nodes;
    std::set<std::uint32_t> keys;
    for (const auto& node : nodes)
        if (node.op == vm::tensor::Op::philox_words) keys.insert(node.inputs[0]);
    EXPECT_EQ(keys.size(), 2U * 4);  // two uses for each of four matrices, each with a key of its own
    const State first = initial_state(built.value(), 7);
    vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
    const auto outputs = executor.run_all(first, task.data, kSeed);
    State later = first;
    for (std::size_t s = 0; s < built->program.slots.size(); ++s)
        if (built->program.slots[s].name == "step") later[s].words[0] = 1;
    const auto others = executor.run_all(later, task.data, kSeed);
    std::set<std::vector<std::uint32_t>> words;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].op == vm::tensor::Op::philox_words) {
            words.insert(outputs[i].words);
            words.insert(others[i].words);
        }
    EXPECT_EQ(words.size(), 2 * keys.size());
}

TEST(Training, gives_the_same_bits_on_every_backend) {
    const Task task = make_task(1, 8, 8, 2);
    std::set<std::string> roots;
    for (const auto backend : vm::tensor::arith::kBackends) {
        if (!vm::tensor::arith::available(backend)) continue;
        State state = initial_state(task.built, 7);
        vm::tensor::Executor executor(task.built.program, backend, nullptr);
        for (int step = 0; step < 2; ++step) executor.step(state, task.data, kSeed);
        roots.insert(to_hex(vm::tensor::state_root(state)));
    }
    EXPECT_EQ(roots.size(), 1U);
}

TEST(Training, agrees_with_double_precision) {
    const Task task = make_task(2, 8, 8, 2);
    State state = initial_state(task.built, 7);
    test::DoubleState reference = to_doubles(state);
    vm::tensor::Executor executor(task.built.program, vm::tensor::arith::Backend::scalar, nullptr);
    for (int step = 0; step < 5; ++step) {
        executor.step(state, task.data, kSeed);
        reference = step_in_double(task.built.program, reference, task.data, kSeed);
        ASSERT_NEAR(loss_of(task.built, state), reference[task.built.program.header.loss_slot][0], 1e-4) << step;
    }
}

// --- Accumulated gradients -------------------------------------------------------------------------------------------

std::size_t slot_of(const Program& program, std::string_view name) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].name == name) return s;
    ADD_FAILURE() << "no slot " << name;
    return 0;
}

// Each batch's own gradients and loss, from the program without accumulation that is given the batch's windows.
TEST(Accumulation, sums_are_those_of_the_batches_in_their_order_bit_for_bit) {
    const Task task = make_task(1, 8, 6, 2);
    constexpr std::uint32_t kBatches = 3;
    Architecture architecture = task.architecture;
    architecture.accumulate = kBatches;
    const auto built = build_training_programs(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    ASSERT_EQ(built->programs.size(), 2U);
    const Program& adds = built->programs[0].program;
    const Program& updates = built->programs[1].program;
    EXPECT_EQ(
        built->body(5),
        (std::vector{core::plan_repeat(5, {core::plan_repeat(kBatches, {core::plan_step(0)}), core::plan_step(1)})}));
    EXPECT_EQ(built->body(1).size(), 2U);
    const auto programs = core::TaskPrograms::make({adds, updates}, built->body(2));
    ASSERT_TRUE(programs) << programs.error().to_string();
    EXPECT_EQ(updates.header.sizes.window_bytes, 0U);
    EXPECT_EQ(updates.header.data, adds.header.data);

    const State initial = initial_state(built->programs[0], 7);
    EXPECT_EQ(initial, initial_state(built->programs[1], 7));
    const auto gradients_of = [&](std::uint32_t batch) {
        Architecture plain = task.architecture;
        plain.optimizer = {};
        plain.optimizer.type = OptimizerConfig::Type::sgd;
        plain.optimizer.learning_rate = 1.0F;
        const auto one = build_training_program(plain);
        EXPECT_TRUE(one);
        // Initial values follow from slot numbers, which are others here.
        State state = initial_state(*one, 7);
        for (std::size_t s = 0; s < state.size(); ++s)
            if (one->program.slots[s].flags == vm::tensor::kSlotParameter)
                state[s] = initial[slot_of(adds, one->program.slots[s].name)];
        state[slot_of(one->program, "step")].words = {batch};
        vm::tensor::Executor executor(one->program, vm::tensor::arith::Backend::scalar, nullptr);
        const auto outputs = executor.run_all(state, task.data, kSeed);
        std::map<std::string, Tensor> found;
        for (std::size_t s = 0; s < one->program.slots.size(); ++s) {
            const std::uint32_t update = one->program.updates[s];
            const std::string& name = one->program.slots[s].name;
            if (name == "loss") found[name] = outputs[update];
            // fma(gradient, descent, parameter)
            if (one->program.slots[s].flags == vm::tensor::kSlotParameter)
                found[name] = outputs[one->program.nodes[update].inputs[0]];
        }
        return found;
    };
    State state = initial;
    std::map<std::string, std::vector<float>> sums;
    vm::tensor::Executor add(adds, vm::tensor::arith::best_backend(), nullptr);
    for (std::uint32_t batch = 0; batch < kBatches; ++batch) {
        for (const auto& [name, tensor] : gradients_of(batch)) {
            auto& sum = sums[name];
            sum.resize(tensor.words.size());
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += std::bit_cast<float>(tensor.words[i]);
        }
        const State before = state;
        add.step(state, task.data, kSeed);
        for (std::size_t s = 0; s < state.size(); ++s) {
            const std::string& name = adds.slots[s].name;
            if (name == "micro" || name == "loss_sum" || name.starts_with("gradient.")) continue;
            ASSERT_EQ(state[s], before[s]) << name;
        }
    }
    const auto expect_sum = [&](const std::string& slot, const std::vector<float>& sum) {
        const auto& words = state[slot_of(adds, slot)].words;
        ASSERT_EQ(words.size(), sum.size()) << slot;
        for (std::size_t i = 0; i < sum.size(); ++i)
            ASSERT_EQ(words[i], std::bit_cast<std::uint32_t>(sum[i])) << slot << " element " << i;
    };
    for (const auto& [name, sum] : sums) expect_sum(name == "loss" ? "loss_sum" : "gradient." + name, sum);
    EXPECT_GT(sums.size(), 10U);

    const float summed = std::bit_cast<float>(state[slot_of(adds, "loss_sum")].words[0]);
    vm::tensor::Executor update(updates, vm::tensor::arith::best_backend(), nullptr);
    const State before = state;
    update.step(state, task.data, kSeed);
    EXPECT_EQ(state[slot_of(adds, "loss")].words[0], std::bit_cast<std::uint32_t>(summed * (1.0F / kBatches)));
    EXPECT_EQ(state[slot_of(adds, "step")].words[0], 1U);
    EXPECT_EQ(state[slot_of(adds, "micro")].words[0], kBatches);
    for (std::size_t s = 0; s < state.size(); ++s) {
        const std::string& name = adds.slots[s].name;
        const bool sum = name == "loss_sum" || name.starts_with("gradient.");
        EXPECT_TRUE(!sum || state[s].words == std::vector<std::uint32_t>(state[s].words.size())) << name;
        EXPECT_TRUE(adds.slots[s].flags != vm::tensor::kSlotParameter || state[s] != before[s]) << name;
    }
}

TEST(Accumulation, lowers_the_loss_with_tied_embeddings_too) {
    Task task = make_task(1, 32, 16, 4);
    task.architecture.accumulate = 2;
    task.architecture.transformer().tied = true;
    const auto built = build_training_programs(task.architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    for (const vm::tensor::Slot& slot : built->programs[0].program.slots) EXPECT_NE(slot.name, "model.head");
    State state = initial_state(built->programs[0], 7);
    vm::tensor::Executor add(built->programs[0].program, vm::tensor::arith::best_backend(), nullptr);
    vm::tensor::Executor update(built->programs[1].program, vm::tensor::arith::best_backend(), nullptr);
    std::vector<float> losses;
    for (int turn = 0; turn < 80; ++turn) {
        for (int batch = 0; batch < 2; ++batch) add.step(state, task.data, kSeed);
        update.step(state, task.data, kSeed);
        losses.push_back(loss_of(built->programs[0], state));
    }
    EXPECT_NEAR(losses.front(), std::log(static_cast<float>(task.dataset.vocabulary.size())), 0.8F);
    EXPECT_LT(losses.back(), losses.front() - 1.0F);
}

TEST(Accumulation, takes_two_programs) {
    Task task = make_task(1, 8, 6, 2);
    const auto plain = build_training_programs(task.architecture);
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->programs.size(), 1U);
    EXPECT_EQ(plain->body(7), core::plain_body(7));
    EXPECT_EQ(vm::tensor::program_root(plain->programs[0].program), vm::tensor::program_root(task.built.program));
    task.architecture.accumulate = 1;
    EXPECT_EQ(build_training_program(task.architecture).error().name, "arch.accumulates");
    const auto both = build_training_programs(task.architecture);
    ASSERT_TRUE(both);
    EXPECT_EQ(both->turn, (std::vector{core::plan_step(0), core::plan_step(1)}));
}

// The model's gradient as a whole: SGD without clipping at rate r moves a parameter by -r g, so g can be read off the
// update; it must be the central difference of the loss.
void expect_finite_differences(bool tied) {
    Task task = make_task(2, 8, 6, 2);
    task.architecture.transformer().tied = tied;
    task.architecture.optimizer = {};
    task.architecture.optimizer.type = OptimizerConfig::Type::sgd;
    task.architecture.optimizer.learning_rate = 1.0F;
    const auto built = build_training_program(task.architecture);
    ASSERT_TRUE(built);
    const auto& program = built->program;
    const std::uint64_t loss = program.header.loss_slot;
    const test::DoubleState start = to_doubles(initial_state(*built, 3));
    const test::DoubleState after = step_in_double(program, start, task.data, kSeed);
    std::size_t checked = 0;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
        for (const std::size_t e : {std::size_t{0}, start[s].size() / 2, start[s].size() - 1}) {
            constexpr double kStep = 1e-5;
            test::DoubleState moved = start;
            moved[s][e] = start[s][e] + kStep;
            const double up = step_in_double(program, moved, task.data, kSeed)[loss][0];
            moved[s][e] = start[s][e] - kStep;
            const double down = step_in_double(program, moved, task.data, kSeed)[loss][0];
            const double expected = (up - down) / (2 * kStep);
            ASSERT_NEAR(start[s][e] - after[s][e], expected, 1e-6 * (1 + std::fabs(expected)))
                << program.slots[s].name << " element " << e;
            ++checked;
        }
    }
    EXPECT_GT(checked, 60U);
}

TEST(Training, moves_parameters_by_the_finite_difference_gradient) { expect_finite_differences(false); }

TEST(Training, moves_tied_embeddings_by_the_finite_difference_gradient) { expect_finite_differences(true); }

TEST(Training, takes_each_window_once_in_a_pass) {
    const Task task = make_task(1, 8, 16, 4);
    const auto& program = task.built.program;
    State state = initial_state(task.built, 1);
    std::uint32_t picker = 0;
    for (std::uint32_t n = 0; n < program.nodes.size(); ++n)
        if (program.nodes[n].element == ElementOp::permute_index) picker = n;
    std::map<std::uint32_t, int> seen;
    const auto windows = static_cast<std::uint32_t>(example_count(task.architecture));
    const std::uint32_t steps = windows / task.architecture.batch;
    for (std::uint32_t step = 0; step < steps; step += 97) {
        state[0].words[0] = step;
        const auto outputs = evaluate_in_double(program, to_doubles(state), task.data, kSeed);
        for (const double window : outputs[picker]) {
            EXPECT_LT(window, windows);
            EXPECT_EQ(++seen[static_cast<std::uint32_t>(window)], 1);
        }
    }
    EXPECT_GT(seen.size(), 20U);
}

TEST(Training, depends_on_the_seed_of_the_initialisation) {
    const Task task = make_task(1, 8, 8, 2);
    const auto root = [&](std::uint64_t seed) { return vm::tensor::state_root(initial_state(task.built, seed)); };
    EXPECT_EQ(root(1), root(1));
    EXPECT_NE(root(1), root(2));
    EXPECT_NE(root(1), root(1 + (std::uint64_t{1} << 32)));
}

TEST(InitialState, quantiles_are_those_of_the_normal_distribution) {
    const auto quantile = [](std::uint32_t k) { return __builtin_bit_cast(float, normal_quantile_bits(k)); };
    // p = (2k + 1) 2^-24; Phi(quantile(p)) must be p.
    for (std::uint32_t k = 0; k < 1U << 23; k += 4099) {
        const double p = (2.0 * k + 1) * 0x1p-24;
        const double back = 0.5 * std::erfc(-static_cast<double>(quantile(k)) / std::sqrt(2.0));
        ASSERT_NEAR(back, p, 4e-7 * std::min(p, 1 - p) * 10 + 1e-9) << k;
        ASSERT_EQ(quantile(k), -quantile((1U << 23) - 1 - k));
    }
    EXPECT_NEAR(quantile(0), -5.294704, 1e-5);
}

TEST(InitialState, has_the_deviation_it_names) {
    Builder b;
    (void)b.slot("w", DType::f32, matrix_shape(100, 200), Initializer::normal(0.5F));
    (void)b.slot("one", DType::f32, vector_shape(3), Initializer::constant(1.0F));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    const State state = initial_state(*built, 99);
    double sum = 0, squares = 0;
    for (const double x : test::to_doubles(state[0])) {
        sum += x;
        squares += x * x;
    }
    EXPECT_NEAR(sum / 20000, 0, 0.015);
    EXPECT_NEAR(std::sqrt(squares / 20000), 0.5, 0.01);
    EXPECT_EQ(state[1].words, (std::vector<std::uint32_t>(3, 0x3f800000)));
}

TEST(StateFile, the_file_of_a_first_state_leaves_out_zeros) {
    const Task task = make_task(1, 8, 8, 2);
    const auto& program = task.built.program;
    State state = initial_state(task.built, 5);
    const auto file = write_first_state(program, state);
    ASSERT_TRUE(file) << file.error().to_string();
    const auto content = read_safetensors(*file);
    ASSERT_TRUE(content);
    EXPECT_NE(content->find("model.wte"), nullptr);
    EXPECT_EQ(content->find("adamw.m.model.wte"), nullptr);
    EXPECT_EQ(content->find("step"), nullptr);
    EXPECT_EQ(*read_state(program, *file), state);
    for (Tensor& slot : state) slot.words.assign(slot.words.size(), 0);
    const auto nothing = write_first_state(program, state);
    ASSERT_TRUE(nothing);
    EXPECT_EQ(*read_state(program, *nothing), state);
}

// A plan may begin with it: then the seed that nobody knew makes what initial_state() makes of one.
TEST(StartProgram, makes_the_initial_state_of_its_seed) {
    const Task earlier = make_task(1, 8, 8, 2);
    const Task task = make_task(2, 8, 8, 2);
    const Program& training = task.built.program;
    const auto kept = common_parameters(earlier.built.program, training);
    ASSERT_FALSE(kept.empty());
    const auto start = build_start_program(task.built, kept);
    ASSERT_TRUE(start) << start.error().to_string();
    EXPECT_TRUE(vm::tensor::validate(start->program));
    const auto programs = core::TaskPrograms::make({training, start->program},
                                                   {core::plan_step(1), core::plan_repeat(9, {core::plan_step(0)})});
    ASSERT_TRUE(programs) << programs.error().to_string();
    EXPECT_EQ(programs->plan.program_of(1), 1U);

    State state = initial_state(task.built, 7);
    for (Tensor& slot : state) slot.words.assign(slot.words.size(), 0);
    const State trained = initial_state(earlier.built, 5);
    take_parameters(earlier.built.program, trained, training, state);
    State wanted = initial_state(task.built, 0x89abcdef01234567);
    take_parameters(earlier.built.program, trained, training, wanted);
    ThreadPool pool(2);
    for (const auto backend : {vm::tensor::arith::Backend::scalar, vm::tensor::arith::best_backend()}) {
        State made = state;
        vm::tensor::Executor executor(start->program, backend, &pool);
        ASSERT_TRUE(executor.step(made, task.data, kSeed));
        for (std::size_t s = 0; s < made.size(); ++s) EXPECT_EQ(made[s], wanted[s]) << training.slots[s].name;
    }
}

TEST(Adapters, train_alone_from_what_the_model_was) {
    Task base = make_task(1, 8, 8, 2);
    const State trained = initial_state(base.built, 5);
    Architecture architecture = base.architecture;
    architecture.transformer().adapter_rank = 2;
    architecture.transformer().adapter_scale = 4.0F;
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->program;
    State state = initial_state(*built, 6);
    const auto taken = take_parameters(base.built.program, trained, program, state);
    EXPECT_EQ(taken, common_parameters(base.built.program, base.built.program)) << "all that the model has";
    for (std::size_t s = 0, next = 0; s < program.slots.size() && next < taken.size(); ++s) {
        if (program.slots[s].name != taken[next]) {
            EXPECT_EQ(next, 0U) << "what is taken over lies side by side: " << program.slots[s].name;
            continue;
        }
        ++next;
    }
    const State first = state;
    ThreadPool pool(2);
    vm::tensor::Executor whole(base.built.program, vm::tensor::arith::best_backend(), &pool);
    vm::tensor::Executor adapters(program, vm::tensor::arith::best_backend(), &pool);
    State other = trained;
    ASSERT_TRUE(whole.step(other, base.data, kSeed));
    ASSERT_TRUE(adapters.step(state, base.data, kSeed));
    EXPECT_FLOAT_EQ(loss_of(*built, state), loss_of(base.built, other)) << "B is zero at first";
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(adapters.step(state, base.data, kSeed));
    std::size_t moved = 0;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        const std::string& name = program.slots[s].name;
        if (!name.starts_with("model.")) continue;
        const bool is_adapter = name.ends_with(".lora_a") || name.ends_with(".lora_b");
        EXPECT_EQ(state[s] != first[s], is_adapter) << name;
        moved += is_adapter ? 1 : 0;
        const bool has_moments = std::any_of(program.slots.begin(), program.slots.end(),
                                             [&](const auto& slot) { return slot.name == "adamw.m." + name; });
        EXPECT_EQ(has_moments, is_adapter) << name;
    }
    EXPECT_EQ(moved, 8U);
    // A model with adapters is sampled like any other.
    EXPECT_TRUE(build_forward_program(architecture.transformer()));
    architecture.transformer().adapter_rank = kMaxAdapterRank + 1;
    EXPECT_EQ(build_training_program(architecture).error().name, "arch.out_of_range");
}

TEST(InitialState, of_a_fine_tuning_takes_the_parameters_that_fit) {
    const Task earlier = make_task(1, 8, 8, 2);
    const Task deeper = make_task(2, 8, 8, 2);
    const State trained = initial_state(earlier.built, 5);
    const State fresh = initial_state(deeper.built, 6);
    State state = fresh;
    const auto taken = take_parameters(earlier.built.program, trained, deeper.built.program, state);
    std::size_t next = 0;
    for (std::size_t s = 0; s < state.size(); ++s) {
        const vm::tensor::Slot& slot = deeper.built.program.slots[s];
        const bool is_taken = next < taken.size() && taken[next] == slot.name;
        const auto same = std::find(earlier.built.program.slots.begin(), earlier.built.program.slots.end(), slot);
        EXPECT_EQ(is_taken, (slot.flags & vm::tensor::kSlotParameter) != 0 && same != earlier.built.program.slots.end())
            << slot.name;
        if (!is_taken) {
            EXPECT_EQ(state[s], fresh[s]) << slot.name;
            continue;
        }
        ++next;
        EXPECT_EQ(state[s], trained[static_cast<std::size_t>(same - earlier.built.program.slots.begin())]);
    }
    EXPECT_EQ(next, taken.size());
    EXPECT_NE(std::find(taken.begin(), taken.end(), "model.h.0.attn.w_qkv"), taken.end());
    EXPECT_EQ(std::find(taken.begin(), taken.end(), "model.h.1.attn.w_qkv"), taken.end());
    const Task wider = make_task(1, 16, 8, 2);
    state = initial_state(wider.built, 6);
    for (const std::string& name : take_parameters(earlier.built.program, trained, wider.built.program, state))
        EXPECT_EQ(name, "") << "of another shape";
}

// A file of a hundred bytes stands for all the zeros that a stranger's program asks for.
TEST(StateFile, makes_nothing_that_memory_has_no_room_for) {
    const Task task = make_task(1, 8, 8, 2);
    const auto nothing = write_safetensors({}, {{"format", "quern-state-1"}});
    ASSERT_TRUE(nothing);
    Program program = task.built.program;
    const std::uint64_t needed = nothing->size() + program.header.sizes.state_bytes;
    EXPECT_TRUE(read_state(program, *nothing, needed));
    EXPECT_EQ(read_state(program, *nothing, needed - 1).error().name, "memory.too_little");
    for (vm::tensor::Slot& slot : program.slots) slot.shape = matrix_shape(1U << 15, 1U << 15);
    for (std::size_t i = program.slots.size(); i < 4096; ++i) {
        program.slots.push_back(program.slots.front());
        program.slots.back().name = std::string("more.").append(std::to_string(i));
        program.updates.push_back(program.updates.front());
    }
    complete_header(program);
    EXPECT_EQ(read_state(program, *nothing).error().name, "memory.too_little") << "16 TiB are on no machine";
}

TEST(StateFile, reads_back_states_and_refuses_others) {
    const Task task = make_task(1, 8, 8, 2);
    const auto& program = task.built.program;
    const State state = initial_state(task.built, 5);
    const auto file = write_state(program, state);
    ASSERT_TRUE(file) << file.error().to_string();
    const auto back = read_state(program, *file);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, state);

    const Task wider = make_task(1, 16, 8, 2);
    EXPECT_EQ(read_state(wider.built.program, *file).error().name, "state_file.wrong_type");
    const Task deeper = make_task(2, 8, 8, 2);
    const auto partial = read_state(deeper.built.program, *file);
    ASSERT_TRUE(partial) << partial.error().to_string();
    for (std::size_t s = 0; s < partial->size(); ++s) {
        const vm::tensor::Slot& slot = deeper.built.program.slots[s];
        const auto same = std::find_if(program.slots.begin(), program.slots.end(),
                                       [&](const auto& known) { return known.name == slot.name; });
        Tensor expected{slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())};
        if (same != program.slots.end()) expected = state[static_cast<std::size_t>(same - program.slots.begin())];
        EXPECT_EQ((*partial)[s], expected) << slot.name << ": what a file leaves out is zero";
    }
    const auto larger = write_state(deeper.built.program, initial_state(deeper.built, 5));
    EXPECT_EQ(read_state(program, *larger).error().name, "state_file.unknown_slot");
    State wrong = state;
    wrong.pop_back();
    EXPECT_FALSE(write_state(program, wrong));
    const auto model = export_model(program, state);
    ASSERT_TRUE(model);
    EXPECT_EQ(read_state(program, *model).error().to_string(),
              "state_file.not_a_state: its format is pt, a state's is quern-state-1; an exported model has parameters "
              "alone");
    const auto content = read_safetensors(*model);
    ASSERT_TRUE(content);
    EXPECT_NE(content->find("h.0.attn.w_qkv"), nullptr);
    EXPECT_EQ(content->find("step"), nullptr);
}

TEST(TextDataset, is_a_byte_for_each_character_and_a_description) {
    const std::vector<std::string_view> texts{"abca", "bb\n"};
    const auto dataset = build_text_dataset(texts);
    ASSERT_TRUE(dataset);
    EXPECT_EQ(dataset->vocabulary, "\nabc");
    EXPECT_EQ(dataset->tokens, (Bytes{1, 2, 3, 1, 2, 2, 0}));
    const auto back = read_vocabulary(dataset->tokens, describe_text_dataset(*dataset));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, dataset->vocabulary);
}

TEST(TextDataset, takes_the_vocabulary_of_another) {
    const std::vector<std::string_view> texts{"ace ace"};
    const auto dataset = build_text_dataset(texts, " abcde");
    ASSERT_TRUE(dataset) << dataset.error().to_string();
    EXPECT_EQ(dataset->vocabulary, " abcde");
    EXPECT_EQ(dataset->tokens, (Bytes{1, 3, 5, 0, 1, 3, 5}));
    EXPECT_EQ(build_text_dataset(texts, "abcde").error().name, "dataset.unknown_character");
}

TEST(TextDataset, names_what_is_wrong) {
    const std::vector<std::string_view> texts{"a"};
    EXPECT_EQ(build_text_dataset(texts).error().name, "dataset.too_short");
    EXPECT_EQ(build_text_dataset({}).error().name, "dataset.too_short");
    const auto error = [](const std::string& vocabulary, const std::string& elements = "2",
                          const std::string& format = "quern-text-2") {
        return read_vocabulary(Bytes{0, 1}, R"({"format":")" + format + R"(","dtype":"u8","elements":)" + elements +
                                                R"(,"vocabulary":")" + vocabulary + R"("})")
            .error()
            .name;
    };
    EXPECT_EQ(error("6162", "3"), "dataset.not_a_text_data_set");
    EXPECT_EQ(error("6162", "2", "quern-text-1"), "dataset.not_a_text_data_set");
    EXPECT_EQ(read_vocabulary(Bytes{0}, "[]").error().name, "dataset.not_a_text_data_set");
    EXPECT_EQ(error(""), "dataset.bad_vocabulary");
    EXPECT_EQ(error("6z"), "dataset.bad_vocabulary");
    EXPECT_EQ(error("6261"), "dataset.bad_vocabulary");
    EXPECT_EQ(error("61"), "dataset.bad_vocabulary");
}

TEST(Training, reads_tokens_of_two_bytes_too) {
    Task task = make_task(1, 8, 6, 2);
    Bytes wide;
    for (const std::uint8_t token : task.dataset.tokens) {
        wide.push_back(token);
        wide.push_back(0);
    }
    Architecture architecture = task.architecture;
    architecture.data[0].type = vm::tensor::DataType::u16;
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    State narrow_state = initial_state(task.built, 3);
    State wide_state = initial_state(*built, 3);
    ASSERT_EQ(narrow_state, wide_state);
    vm::tensor::Executor narrow(task.built.program, vm::tensor::arith::best_backend(), nullptr);
    vm::tensor::Executor other(built->program, vm::tensor::arith::best_backend(), nullptr);
    const vm::tensor::MemoryData data({wide});
    for (int step = 0; step < 2; ++step) {
        ASSERT_TRUE(narrow.step(narrow_state, task.data, kSeed));
        ASSERT_TRUE(other.step(wide_state, data, kSeed));
    }
    EXPECT_EQ(narrow_state, wide_state);
    architecture.data[0].type = vm::tensor::DataType::f32;
    EXPECT_EQ(build_training_program(architecture).error().name, "arch.unknown_dtype");
}

TEST(Sampler, samples_the_same_text_for_the_same_seed) {
    const Task task = make_task(1, 8, 8, 2);
    const State state = initial_state(task.built, 5);
    const auto sample = [&](const SampleOptions& options) {
        return sample_text(task.architecture.transformer(), task.built.program, state, task.dataset.vocabulary, options,
                           nullptr);
    };
    SampleOptions options;
    options.length = 40;
    const auto first = sample(options);
    ASSERT_TRUE(first) << first.error().to_string();
    EXPECT_EQ(first->size(), 40U);
    EXPECT_EQ(*first, *sample(options));
    options.seed = 2;
    EXPECT_NE(*first, *sample(options));
    options.temperature = 0;
    EXPECT_EQ(sample(options).error().name, "sample.bad_temperature");
    options.temperature = 1;
    options.prompt = std::string(1, '\1');
    EXPECT_EQ(sample(options).error().name, "sample.bad_prompt");
    const auto other =
        sample_text(task.architecture.transformer(), task.built.program, state, std::string("ab"), {}, nullptr);
    EXPECT_EQ(other.error().name, "sample.wrong_vocabulary");
}

TEST(Sampler, agrees_with_the_training_program) {
    // The loss of a step is the mean of -log p over the targets under the probabilities that sampling uses.
    Task task = make_task(1, 8, 8, 1);
    const State state = initial_state(task.built, 5);
    const auto after = step_in_double(task.built.program, to_doubles(state), task.data, kSeed);
    const auto outputs = evaluate_in_double(task.built.program, to_doubles(state), task.data, kSeed);
    test::Doubles window;  // [1,1,1,9]
    for (std::size_t n = 0; n < outputs.size(); ++n)
        if (task.built.program.nodes[n].op == Op::window) window = outputs[n];
    ASSERT_EQ(window.size(), 9U);
    const auto forward = build_forward_program(task.architecture.transformer());
    ASSERT_TRUE(forward) << forward.error().to_string();
    test::DoubleState sampling = to_doubles(initial_state(*forward, 0));
    std::size_t chances = 0;
    for (std::size_t s = 0; s < sampling.size(); ++s) {
        const std::string& name = forward->program.slots[s].name;
        if (name == "probabilities") chances = s;
        if (name == "tokens") sampling[s] = test::Doubles(window.begin(), window.end() - 1);
        for (std::size_t t = 0; t < task.built.program.slots.size(); ++t)
            if (task.built.program.slots[t].name == name && name.starts_with("model."))
                sampling[s] = to_doubles(state[t]);
    }
    const vm::tensor::MemoryData data;
    const auto result = step_in_double(forward->program, sampling, data, kSeed)[chances];
    double loss = 0;
    for (std::size_t i = 0; i < 8; ++i)
        loss -=
            std::log(result[i * task.architecture.transformer().vocabulary + static_cast<std::size_t>(window[i + 1])]) /
            8;
    EXPECT_NEAR(loss, after[task.built.program.header.loss_slot][0], 1e-6);
}

}  // namespace
}  // namespace quern::compute::program
