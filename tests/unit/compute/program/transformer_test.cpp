// What a transformer may be beside GPT-2's: each option against a model of plain loops, gradients against differences,
// and programs that options at their defaults leave as they were.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compute/program/evaluate.h"
#include "compute/program/initial_state.h"
#include "compute/program/sampler.h"
#include "unit/compute/program/plain_transformer.h"

namespace quern::compute::program {
namespace {

using quern::test::DoubleState;
using quern::test::step_in_double;
using quern::test::to_doubles;
using test::Doubles;
using test::PlainTransformer;
using test::TestModel;
using vm::tensor::State;
using vm::tensor::Tensor;
using Positions = TransformerSpec::Positions;
using Norm = TransformerSpec::Norm;
using Activation = TransformerSpec::Activation;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
constexpr std::uint32_t kBatch = 2;

TransformerSpec plain_spec() { return TransformerSpec{2, 12, 6, 6, 2, 7}; }

std::vector<TestModel> models() {
    std::vector<TestModel> result;
    const auto add = [&](const char* name, const auto& change) {
        result.push_back({name, plain_spec()});
        change(result.back().spec);
    };
    add("defaults", [](TransformerSpec&) {});
    add("rotary", [](TransformerSpec& spec) { spec.positions = Positions::rotary; });
    add("no positions", [](TransformerSpec& spec) { spec.positions = Positions::none; });
    add("rms", [](TransformerSpec& spec) { spec.norm = Norm::rms; });
    add("relu", [](TransformerSpec& spec) { spec.activation = Activation::relu; });
    add("silu, tied", [](TransformerSpec& spec) {
        spec.activation = Activation::silu;
        spec.tied = true;
    });
    add("swiglu", [](TransformerSpec& spec) { spec.activation = Activation::swiglu; });
    add("two heads of keys", [](TransformerSpec& spec) { spec.kv_heads = 2; });
    add("as Llama", [](TransformerSpec& spec) {
        spec.positions = Positions::rotary;
        spec.norm = Norm::rms;
        spec.activation = Activation::swiglu;
        spec.kv_heads = 3;
    });
    add("an expert of three", [](TransformerSpec& spec) { spec.experts = {3, 1, 1.0F, 0.0F}; });
    add("two experts of four", [](TransformerSpec& spec) {
        spec.activation = Activation::swiglu;
        spec.experts = {4, 2, 0.75F, 0.5F};
    });
    return result;
}

Architecture architecture_of(const TransformerSpec& spec) {
    Architecture architecture;
    architecture.model = spec;
    architecture.data = {{vm::tensor::DataType::u8, std::uint64_t{5} * spec.context + 1}};
    architecture.batch = kBatch;
    architecture.optimizer.learning_rate = 1e-2F;
    return architecture;
}

vm::tensor::MemoryData data_of(const Architecture& architecture) {
    Bytes tokens(architecture.data[0].elements);
    for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<std::uint8_t>(i * i * 5 % 13 % architecture.transformer().vocabulary);
    return vm::tensor::MemoryData({tokens});
}

std::size_t slot_of(const Program& program, std::string_view name) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].name == name) return s;
    ADD_FAILURE() << "no slot " << name;
    return 0;
}

std::size_t count_of(const Program& program, Op op) {
    std::size_t count = 0;
    for (const Node& node : program.nodes) count += node.op == op ? 1U : 0U;
    return count;
}

// Biases and gains begin as what they add or multiply by nothing: others tell where they go.
void move_vectors(const Program& program, DoubleState& state) {
    for (std::size_t s = 0; s < state.size(); ++s)
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) != 0 && program.slots[s].shape.rows() == 1)
            for (std::size_t i = 0; i < state[s].size(); ++i)
                state[s][i] += 0.3 * std::sin(static_cast<double>(i + 3 * s));
}

TEST(TransformerOptions, give_the_logits_of_plain_loops) {
    for (const TestModel& model : models()) {
        SCOPED_TRACE(model.name);
        const auto built = build_forward_program(model.spec);
        ASSERT_TRUE(built) << built.error().to_string();
        const Program& program = built->program;
        DoubleState state = to_doubles(initial_state(*built, 3));
        move_vectors(program, state);
        const std::vector<std::uint32_t> tokens{3, 1, 6, 0, 6, 2};
        state[slot_of(program, "tokens")] = Doubles(tokens.begin(), tokens.end());
        const auto found =
            step_in_double(program, state, vm::tensor::MemoryData{}, kSeed)[slot_of(program, "probabilities")];
        const auto logits = PlainTransformer(model.spec, program, state).logits(tokens);
        ASSERT_EQ(found.size(), tokens.size() * model.spec.vocabulary);
        for (std::size_t t = 0; t < tokens.size(); ++t) {
            double sum = 0;
            for (const double each : logits[t]) sum += std::exp(each);
            for (std::size_t v = 0; v < logits[t].size(); ++v)
                ASSERT_NEAR(found[t * model.spec.vocabulary + v], std::exp(logits[t][v]) / sum, 1e-6)
                    << "position " << t << " token " << v;
        }
    }
}

// What a step differentiates: its loss, and the balance of the experts of the windows that it took.
double objective_of(const Program& program, const TransformerSpec& spec, const DoubleState& state,
                    const vm::tensor::DataSource& data) {
    const auto outputs = quern::test::evaluate_in_double(program, state, data, kSeed);
    double sum = outputs[program.updates[program.header.loss_slot]][0];
    if (spec.experts.count == 0) return sum;
    const PlainTransformer plain(spec, program, state);
    std::vector<test::ExpertLoad> loads(spec.layers);
    for (std::size_t n = 0; n < outputs.size(); ++n) {
        if (program.nodes[n].op != Op::window) continue;
        for (std::size_t window = 0; window < kBatch; ++window) {
            const double* const begin = &outputs[n][window * (spec.context + 1)];
            (void)plain.logits(std::vector<std::uint32_t>(begin, begin + spec.context), &loads);
        }
    }
    for (const test::ExpertLoad& load : loads) {
        EXPECT_EQ(load.tokens, std::size_t{kBatch} * spec.context);
        sum += static_cast<double>(spec.experts.balance) * load.balance();
    }
    return sum;
}

// SGD at rate 1 moves a parameter by its gradient.
TEST(TransformerOptions, move_parameters_by_the_finite_difference_gradient) {
    auto all = models();
    all.push_back({"dropout", plain_spec()});
    all.back().spec.dropout = 0.3F;
    for (const TestModel& model : all) {
        SCOPED_TRACE(model.name);
        Architecture architecture = architecture_of(model.spec);
        architecture.optimizer = {};
        architecture.optimizer.type = OptimizerConfig::Type::sgd;
        architecture.optimizer.learning_rate = 1.0F;
        const auto data = data_of(architecture);
        const auto built = build_training_program(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        const Program& program = built->program;
        DoubleState start = to_doubles(initial_state(*built, 3));
        move_vectors(program, start);
        const DoubleState after = step_in_double(program, start, data, kSeed);
        for (std::size_t s = 0; s < program.slots.size(); ++s) {
            if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
            for (const std::size_t e : {start[s].size() / 3, start[s].size() - 1}) {
                constexpr double kStep = 1e-5;
                DoubleState moved = start;
                moved[s][e] = start[s][e] + kStep;
                const double up = objective_of(program, model.spec, moved, data);
                moved[s][e] = start[s][e] - kStep;
                const double down = objective_of(program, model.spec, moved, data);
                const double expected = (up - down) / (2 * kStep);
                ASSERT_NEAR(start[s][e] - after[s][e], expected, 1e-6 * (1 + std::fabs(expected)))
                    << program.slots[s].name << " element " << e;
            }
        }
    }
}

TEST(TransformerOptions, give_the_same_bits_on_every_backend_and_are_near_double_precision) {
    auto all = models();
    all.push_back({"dropout", plain_spec()});
    all.back().spec.dropout = 0.3F;
    for (const TestModel& model : all) {
        SCOPED_TRACE(model.name);
        const Architecture architecture = architecture_of(model.spec);
        const auto data = data_of(architecture);
        const auto built = build_training_program(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        std::set<std::string> roots;
        DoubleState reference = to_doubles(initial_state(*built, 7));
        for (int step = 0; step < 3; ++step) reference = step_in_double(built->program, reference, data, kSeed);
        for (const auto backend : vm::tensor::arith::kBackends) {
            if (!vm::tensor::arith::available(backend)) continue;
            State state = initial_state(*built, 7);
            vm::tensor::Executor executor(built->program, backend, nullptr);
            for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor.step(state, data, kSeed));
            roots.insert(to_hex(vm::tensor::state_root(state)));
            const std::size_t loss = built->program.header.loss_slot;
            EXPECT_NEAR(to_doubles(state)[loss][0], reference[loss][0], 1e-4);
        }
        EXPECT_EQ(roots.size(), 1U);
    }
}

TEST(TransformerOptions, are_other_programs_except_at_their_defaults) {
    const auto root_of = [](const TransformerSpec& spec) {
        const auto built = build_training_program(architecture_of(spec));
        EXPECT_TRUE(built) << built.error().to_string();
        return built ? to_hex(vm::tensor::program_root(built->program)) : std::string();
    };
    std::set<std::string> roots;
    for (const TestModel& model : models()) roots.insert(root_of(model.spec));
    EXPECT_EQ(roots.size(), models().size());
    TransformerSpec spelled = plain_spec();
    spelled.kv_heads = spelled.heads;
    EXPECT_EQ(root_of(spelled), root_of(plain_spec()));
}

TEST(TransformerOptions, drop_in_training_alone) {
    TransformerSpec spec = plain_spec();
    const Architecture without = architecture_of(spec);
    spec.dropout = 0.4F;
    const Architecture with = architecture_of(spec);
    const auto built = build_training_program(with);
    ASSERT_TRUE(built) << built.error().to_string();
    EXPECT_EQ(count_of(built->program, Op::philox), 1U + 2 * spec.layers) << "embeddings and residual branches";
    EXPECT_EQ(count_of(build_training_program(without)->program, Op::philox), 0U);
    const auto root_of = [](const Expected<BuiltProgram>& program) {
        EXPECT_TRUE(program);
        return vm::tensor::program_root(program->program);
    };
    EXPECT_EQ(root_of(build_forward_program(with.transformer())),
              root_of(build_forward_program(without.transformer())));
    EXPECT_EQ(root_of(build_evaluation_program(with)), root_of(build_evaluation_program(without)));

    // What is dropped differs between steps and uses, and is as much as is said.
    const auto data = data_of(with);
    State state = initial_state(*built, 7);
    vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
    std::set<std::vector<std::uint32_t>> masks;
    double dropped = 0;
    double all = 0;
    for (std::uint32_t step = 0; step < 8; ++step) {
        state[slot_of(built->program, "step")].words[0] = step;
        const auto outputs = executor.run_all(state, data, kSeed);
        for (std::size_t n = 0; n < outputs.size(); ++n) {
            const Node& node = built->program.nodes[n];
            if (node.element != ElementOp::ilt) continue;
            if (built->program.nodes[node.inputs[0]].element != ElementOp::ishr) continue;
            masks.insert(outputs[n].words);
            for (const std::uint32_t word : outputs[n].words) dropped += word;
            all += static_cast<double>(outputs[n].words.size());
        }
    }
    EXPECT_EQ(masks.size(), 8U * (1 + 2 * spec.layers));
    EXPECT_NEAR(dropped / all, 0.4, 0.03);
}

// Evaluation, sampling and training are of one model: the same loss of the same windows.
TEST(TransformerOptions, are_evaluated_as_they_are_trained) {
    for (const TestModel& model : models()) {
        SCOPED_TRACE(model.name);
        Architecture architecture = architecture_of(model.spec);
        const auto data = data_of(architecture);
        const auto built = build_training_program(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        const State state = initial_state(*built, 5);
        const auto found = evaluate(architecture, built->program, state, data, nullptr);
        ASSERT_TRUE(found) << found.error().to_string();
        EXPECT_EQ(found->examples, 5U);
        ASSERT_EQ(found->predicted.size(), 5U * model.spec.context);
        const PlainTransformer plain(model.spec, built->program, to_doubles(state));
        double loss = 0;
        std::size_t right = 0;
        for (std::size_t window = 0; window < 5; ++window) {
            std::vector<std::uint32_t> tokens;
            for (std::size_t t = 0; t <= model.spec.context; ++t)
                tokens.push_back(data.sets()[0][window * model.spec.context + t]);
            const std::vector<std::uint32_t> seen(tokens.begin(), tokens.end() - 1);
            const auto logits = plain.logits(seen);
            for (std::size_t t = 0; t < seen.size(); ++t) {
                double sum = 0;
                for (const double each : logits[t]) sum += std::exp(each);
                loss += (std::log(sum) - logits[t][tokens[t + 1]]) / static_cast<double>(5 * model.spec.context);
                right += found->predicted[window * model.spec.context + t] == tokens[t + 1] ? 1U : 0U;
            }
        }
        EXPECT_NEAR(found->loss, loss, 1e-5);
        ASSERT_TRUE(found->accuracy);
        EXPECT_DOUBLE_EQ(*found->accuracy, static_cast<double>(right) / static_cast<double>(5 * model.spec.context));

        SampleOptions options;
        options.length = 10;
        const auto text = sample_text(model.spec, built->program, state, std::string("abcdefg"), options, nullptr);
        ASSERT_TRUE(text) << text.error().to_string();
        EXPECT_EQ(text->size(), 10U);
    }
}

TEST(TransformerOptions, have_adapters_of_each_matrix_of_a_layer) {
    for (TestModel& model : models()) {
        if (model.spec.experts.count != 0) continue;
        SCOPED_TRACE(model.name);
        model.spec.adapter_rank = 2;
        const auto built = build_training_program(architecture_of(model.spec));
        ASSERT_TRUE(built) << built.error().to_string();
        std::set<std::string> adapted;
        std::set<std::string> matrices;
        for (const vm::tensor::Slot& slot : built->program.slots) {
            if ((slot.flags & vm::tensor::kSlotParameter) == 0 || !slot.name.starts_with("model.h.")) continue;
            if (slot.name.ends_with(".lora_a"))
                adapted.insert(slot.name.substr(0, slot.name.size() - 7));
            else if (!slot.name.ends_with(".lora_b") && slot.shape.rows() > 1)
                matrices.insert(slot.name);
        }
        EXPECT_EQ(adapted, matrices);
        const auto data = data_of(architecture_of(model.spec));
        State state = initial_state(*built, 5);
        const State first = state;
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        for (int step = 0; step < 2; ++step) ASSERT_TRUE(executor.step(state, data, kSeed));
        for (std::size_t s = 0; s < state.size(); ++s) {
            const std::string& name = built->program.slots[s].name;
            if (!name.starts_with("model.")) continue;
            EXPECT_EQ(state[s] != first[s], name.find(".lora_") != std::string::npos) << name;
        }
    }
}

TEST(TransformerOptions, name_what_does_not_fit) {
    const auto error = [](const auto& change) {
        TransformerSpec spec = plain_spec();
        change(spec);
        const auto built = build_training_program(architecture_of(spec));
        return built ? std::string("none") : std::string(built.error().name);
    };
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.kv_heads = 4; }), "arch.heads_do_not_divide");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.kv_heads = 12; }), "arch.heads_do_not_divide");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.kv_heads = kMaxHeads + 1; }), "arch.out_of_range");
    EXPECT_EQ(error([](TransformerSpec& spec) {
                  spec.positions = Positions::rotary;
                  spec.heads = 4;
              }),
              "arch.odd_head_size");
    const auto in_bytes = [](TransformerSpec& spec) { spec.attention_precision = TransformerSpec::Precision::int8; };
    EXPECT_EQ(error(in_bytes), "none");
    EXPECT_EQ(error([&](TransformerSpec& spec) {
                  in_bytes(spec);
                  spec.kv_heads = 2;
              }),
              "arch.attention_in_f32");
    EXPECT_EQ(error([&](TransformerSpec& spec) {
                  in_bytes(spec);
                  spec.positions = Positions::rotary;
              }),
              "arch.attention_in_f32");
    for (const float rate : {-0.1F, 1.0F, std::nanf("")})
        EXPECT_EQ(error([&](TransformerSpec& spec) { spec.dropout = rate; }), "arch.out_of_range");
}

}  // namespace
}  // namespace quern::compute::program
