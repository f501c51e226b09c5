// Mixtures of experts: routing against plain loops, places, what a token may depend on, the balance loss.
#include "compute/program/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "unit/compute/program/gradient_check.h"
#include "unit/compute/program/plain_transformer.h"

namespace quern::compute::program {
namespace {

using quern::test::to_doubles;
using test::Doubles;
using test::ExpertLoad;
using test::numbers;
using test::PlainTransformer;
using test::values_of;
using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};

struct Sizes {
    std::uint32_t windows;
    std::uint32_t context;
    std::uint32_t experts;
    std::uint32_t top;
    std::uint32_t capacity;

    [[nodiscard]] std::size_t tokens() const { return std::size_t{windows} * context; }
    [[nodiscard]] Shape logits() const { return Shape{{1, windows, context, experts}}; }
    [[nodiscard]] double rows() const { return static_cast<double>(experts * windows * capacity); }
};
// Less than a block of 32 rows, some, and more than 32 blocks; with and without dropped tokens.
const std::vector<Sizes> kSizes{{3, 5, 4, 1, 2},  {3, 5, 4, 2, 5},   {2, 70, 5, 1, 9},     {2, 70, 5, 2, 20},
                                {2, 32, 3, 2, 7}, {1, 64, 1, 1, 64}, {1, 1100, 3, 2, 300}, {2, 33, 2, 2, 33}};

// Few values: most tokens have experts of equal logits.
Doubles tied_logits(const Sizes& sizes) {
    Doubles logits = numbers(sizes.logits().elements(), 2.0);
    for (double& each : logits) each = std::round(each * 2) / 2;
    return logits;
}

// [tokens][top]: what `part` (of the choice's number) gives.
template <class Part>
Doubles of_choices(const Sizes& sizes, const Doubles& logits, const Part& part,
                   test::Arithmetic arithmetic = test::Arithmetic::canonical) {
    return values_of(
        {sizes.logits()}, {logits},
        [&](Builder& b, auto x) {
            const Routing routing = route(b, x[0], sizes.top, sizes.capacity);
            const auto first = part(b, routing, 0);
            return sizes.top == 1 ? first : b.concat(first, part(b, routing, 1), 3);
        },
        arithmetic);
}
Doubles rows_of(const Sizes& sizes, const Doubles& logits) {
    return of_choices(sizes, logits,
                      [](Builder& b, const Routing& routing, std::size_t i) { return b.to_f32(routing.rows[i]); });
}

TEST(Experts, are_chosen_by_the_largest_logits_and_the_lowest_number) {
    for (const Sizes& sizes : kSizes) {
        SCOPED_TRACE(std::to_string(sizes.context) + " tokens, " + std::to_string(sizes.top) + " choices");
        const Doubles logits = tied_logits(sizes);
        Doubles rows;
        Doubles gates;
        Doubles firsts(sizes.experts, 0);
        Doubles sums(sizes.experts, 0);
        for (std::uint32_t window = 0; window < sizes.windows; ++window) {
            std::vector<std::uint32_t> asked(sizes.experts, 0);
            for (std::uint32_t t = 0; t < sizes.context; ++t) {
                const double* const row = &logits[(std::size_t{window} * sizes.context + t) * sizes.experts];
                double sum = 0;
                for (std::uint32_t e = 0; e < sizes.experts; ++e) sum += std::exp(row[e]);
                for (std::uint32_t e = 0; e < sizes.experts; ++e) sums[e] += std::exp(row[e]) / sum;
                std::set<std::uint32_t> taken;
                double total = 0;
                for (std::uint32_t choice = 0; choice < sizes.top; ++choice) {
                    std::uint32_t best = sizes.experts;
                    for (std::uint32_t e = 0; e < sizes.experts; ++e)
                        if (!taken.contains(e) && (best == sizes.experts || row[e] > row[best])) best = e;
                    taken.insert(best);
                    if (choice == 0) firsts[best] += 1;
                    const std::uint32_t place = asked[best]++;
                    rows.push_back(place < sizes.capacity ? (best * sizes.windows + window) * sizes.capacity + place
                                                          : -1.0);
                    gates.push_back(std::exp(row[best]) / sum);
                    total += gates.back();
                }
                if (sizes.top == 2)
                    for (std::size_t i = gates.size() - 2; i < gates.size(); ++i) gates[i] /= total;
            }
        }
        EXPECT_EQ(rows_of(sizes, logits), rows);
        const auto found =
            of_choices(sizes, logits, [](Builder&, const Routing& routing, std::size_t i) { return routing.gates[i]; });
        ASSERT_EQ(found.size(), gates.size());
        for (std::size_t i = 0; i < gates.size(); ++i) ASSERT_NEAR(found[i], gates[i], 1e-6) << i;
        double balance = 0;
        for (std::uint32_t e = 0; e < sizes.experts; ++e)
            balance += firsts[e] * sums[e] * sizes.experts / std::pow(static_cast<double>(sizes.tokens()), 2);
        const auto weighed = values_of({sizes.logits()}, {logits}, [&](Builder& b, auto x) {
            return route(b, x[0], sizes.top, sizes.capacity).balance;
        });
        ASSERT_EQ(weighed.size(), 1U);
        EXPECT_NEAR(weighed[0], balance, 1e-6);
    }
}

TEST(Experts, have_no_more_rows_than_places) {
    std::size_t dropped = 0;
    for (const Sizes& sizes : kSizes)
        for (const bool same : {false, true}) {
            // All of one mind: the worst case.
            const Doubles logits = same ? Doubles(sizes.logits().elements(), 0.5) : tied_logits(sizes);
            const Doubles rows = rows_of(sizes, logits);
            ASSERT_EQ(rows.size(), sizes.tokens() * sizes.top);
            std::map<std::uint32_t, std::uint32_t> given;  // by expert and window
            std::set<double> taken;
            for (std::size_t i = 0; i < rows.size(); ++i) {
                if (rows[i] == -1.0) {
                    ++dropped;
                    continue;
                }
                ASSERT_GE(rows[i], 0.0);
                ASSERT_LT(rows[i], sizes.rows());
                ASSERT_TRUE(taken.insert(rows[i]).second) << "one row for two";
                const std::uint32_t group = static_cast<std::uint32_t>(rows[i]) / sizes.capacity;
                ASSERT_EQ(group % sizes.windows, i / sizes.top / sizes.context) << "another window's place";
                ASSERT_LE(++given[group], sizes.capacity);
            }
            if (!same) continue;
            for (const auto& [group, count] : given) EXPECT_EQ(count, std::min(sizes.capacity, sizes.context));
        }
    EXPECT_GT(dropped, 100U);
}

TEST(Experts, without_a_number_a_token_goes_nowhere) {
    const Sizes sizes{2, 5, 4, 2, 2};
    Doubles logits = tied_logits(sizes);
    const Doubles before = rows_of(sizes, logits);
    constexpr std::size_t kToken = 6;  // the second of the second window
    logits[kToken * sizes.experts + 1] = std::nan("");
    const Doubles after = rows_of(sizes, logits);
    for (std::size_t i = 0; i < after.size(); ++i) {
        if (i / 2 < kToken) {
            EXPECT_EQ(after[i], before[i]);
        } else if (i / 2 == kToken) {
            EXPECT_GE(after[i], sizes.rows()) << "out of range";
        } else {
            EXPECT_LT(after[i], sizes.rows());
        }
    }
}

TEST(Experts, get_their_tokens_and_give_them_back) {
    const Sizes sizes{2, 40, 3, 2, 11};
    constexpr std::size_t kWidth = 2;
    const auto tokens = static_cast<std::uint32_t>(sizes.tokens());
    const Doubles logits = tied_logits(sizes);
    const Doubles x = numbers(sizes.tokens() * kWidth, 1.5);
    const Doubles rows = rows_of(sizes, logits);
    const auto given = values_of({matrix_shape(tokens, kWidth), sizes.logits()}, {x, logits}, [&](Builder& b, auto v) {
        return dispatch(b, v[0], route(b, v[1], sizes.top, sizes.capacity));
    });
    Doubles wanted(static_cast<std::size_t>(sizes.rows()) * kWidth, 0);
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t c = 0; c < kWidth && rows[i] >= 0; ++c)
            wanted[static_cast<std::size_t>(rows[i]) * kWidth + c] = x[i / 2 * kWidth + c];
    ASSERT_EQ(given.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(given[i], wanted[i], 1e-6) << i;
    // Gates of two are 1 together: whose both choices have places comes back as it was.
    const auto back = values_of({matrix_shape(tokens, kWidth), sizes.logits()}, {x, logits}, [&](Builder& b, auto v) {
        const Routing routing = route(b, v[1], sizes.top, sizes.capacity);
        return combine(b, dispatch(b, v[0], routing), routing);
    });
    std::size_t whole = 0;
    std::size_t none = 0;
    for (std::size_t t = 0; t < sizes.tokens(); ++t) {
        const int places = (rows[2 * t] >= 0 ? 1 : 0) + (rows[2 * t + 1] >= 0 ? 1 : 0);
        for (std::size_t c = 0; c < kWidth && places != 1; ++c)
            ASSERT_NEAR(back[t * kWidth + c], places == 2 ? x[t * kWidth + c] : 0.0, 1e-6) << "token " << t;
        whole += places == 2 ? 1U : 0U;
        none += places == 0 ? 1U : 0U;
    }
    EXPECT_GT(whole, 10U);
    EXPECT_GT(none, 10U);
}

TEST(Experts, names_what_does_not_fit) {
    const auto error = [](std::uint32_t experts, std::uint32_t top, std::uint32_t capacity) {
        Builder b;
        const auto logits = b.slot("x", DType::f32, Shape{{1, 2, 5, experts}}, Initializer::zeros());
        (void)route(b, logits, top, capacity);
        return b.failed() ? std::string(b.status().error().name) : "none";
    };
    EXPECT_EQ(error(4, 0, 1), "experts.bad_top");
    EXPECT_EQ(error(4, 3, 1), "experts.bad_top");
    EXPECT_EQ(error(1, 2, 1), "experts.bad_top");
    EXPECT_EQ(error(4, 2, 0), "experts.bad_capacity");
    EXPECT_EQ(error(4, 2, 1), "none");
}

// --- In a transformer ------------------------------------------------------------------------------------------------

TransformerSpec spec_of(std::uint32_t top, float capacity_factor) {
    TransformerSpec spec{2, 8, 2, 40, 2, 11};
    spec.experts.count = 4;
    spec.experts.top = top;
    spec.experts.capacity_factor = capacity_factor;
    return spec;
}

std::size_t slot_of(const Program& program, std::string_view name) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].name == name) return s;
    ADD_FAILURE() << "no slot " << name;
    return 0;
}

// A later token that took an earlier one's place would be seen in that one's logits.
TEST(ExpertModels, a_token_never_changes_the_logits_before_it) {
    for (const std::uint32_t top : {1U, 2U}) {
        const TransformerSpec spec = spec_of(top, 0.6F);
        const auto built = build_forward_program(spec);
        ASSERT_TRUE(built) << built.error().to_string();
        const Program& program = built->program;
        State state = initial_state(*built, 3);
        std::vector<std::uint32_t> tokens;
        for (std::uint32_t t = 0; t < spec.context; ++t) tokens.push_back((t * t + 3 * t) % spec.vocabulary);
        vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
        const auto probabilities = [&](const std::vector<std::uint32_t>& input) {
            State next = state;
            next[slot_of(program, "tokens")].words = input;
            EXPECT_TRUE(executor.step(next, vm::tensor::MemoryData{}, kSeed));
            return next[slot_of(program, "probabilities")].words;
        };
        std::vector<ExpertLoad> loads(spec.layers);
        (void)PlainTransformer(spec, program, to_doubles(state)).logits(tokens, &loads);
        for (const ExpertLoad& load : loads) EXPECT_GT(load.dropped, 5U) << "places are scarce";
        const auto before = probabilities(tokens);
        for (std::uint32_t changed = 0; changed < spec.context; ++changed)
            for (const std::uint32_t by : {1U, 4U, 7U}) {
                auto other = tokens;
                other[changed] = (other[changed] + by) % spec.vocabulary;
                const auto after = probabilities(other);
                const std::size_t end = std::size_t{changed} * spec.vocabulary;
                for (std::size_t i = 0; i < end; ++i)
                    ASSERT_EQ(after[i], before[i]) << "token " << changed << ", top " << top;
                EXPECT_FALSE(std::equal(before.begin() + static_cast<std::ptrdiff_t>(end), before.end(),
                                        after.begin() + static_cast<std::ptrdiff_t>(end)));
            }
    }
}

struct Training {
    Architecture architecture;
    BuiltProgram built;
    vm::tensor::MemoryData data;
};
Training training_of(const TransformerSpec& spec) {
    Training result;
    result.architecture.model = spec;
    result.architecture.batch = 2;
    result.architecture.data = {{vm::tensor::DataType::u8, std::uint64_t{8} * spec.context + 1}};
    result.architecture.optimizer.learning_rate = 1e-2F;
    auto built = build_training_program(result.architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    if (built) result.built = std::move(*built);
    Bytes tokens(result.architecture.data[0].elements);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint8_t>(i * i % spec.vocabulary);
    result.data = vm::tensor::MemoryData({tokens});
    return result;
}

float loss_of(const BuiltProgram& built, const State& state) {
    return __builtin_bit_cast(float, state[built.program.header.loss_slot].words[0]);
}

TEST(ExpertModels, report_the_cross_entropy_and_train_the_balance_too) {
    std::map<float, std::pair<float, State>> after;
    for (const float balance : {0.0F, 0.5F}) {
        TransformerSpec spec = spec_of(2, 1.0F);
        spec.experts.balance = balance;
        const Training training = training_of(spec);
        State state = initial_state(training.built, 3);
        vm::tensor::Executor executor(training.built.program, vm::tensor::arith::best_backend(), nullptr);
        ASSERT_TRUE(executor.step(state, training.data, kSeed));
        const float loss = loss_of(training.built, state);
        const std::size_t router = slot_of(training.built.program, "model.h.0.experts.w_router");
        after[balance] = {loss, State{state[router]}};
    }
    EXPECT_EQ(after[0.0F].first, after[0.5F].first);
    EXPECT_NE(after[0.0F].second, after[0.5F].second);
}

// Without it a few experts get most tokens.
TEST(ExpertModels, are_balanced_by_the_balance_loss) {
    const auto balance_after = [](float balance) {
        TransformerSpec spec = spec_of(1, 4.0F);
        spec.experts.balance = balance;
        const Training training = training_of(spec);
        const Program& program = training.built.program;
        State state = initial_state(training.built, 3);
        vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
        for (int step = 0; step < 40; ++step) EXPECT_TRUE(executor.step(state, training.data, kSeed));
        const PlainTransformer plain(spec, program, to_doubles(state));
        std::vector<ExpertLoad> loads(spec.layers);
        for (std::size_t window = 0; window < 8; ++window) {
            const auto begin = training.data.sets()[0].begin() + static_cast<std::ptrdiff_t>(window * spec.context);
            (void)plain.logits(std::vector<std::uint32_t>(begin, begin + spec.context), &loads);
        }
        double sum = 0;
        for (const ExpertLoad& load : loads) sum += load.balance() / spec.layers;
        return sum;
    };
    const double free = balance_after(0.0F);
    const double balanced = balance_after(1.0F);
    EXPECT_LT(balanced, free) << "1 is even";
}

TEST(ExpertModels, lower_the_loss) {
    for (const std::uint32_t top : {1U, 2U}) {
        const Training training = training_of(spec_of(top, 1.25F));
        State state = initial_state(training.built, 3);
        vm::tensor::Executor executor(training.built.program, vm::tensor::arith::best_backend(), nullptr);
        ASSERT_TRUE(executor.step(state, training.data, kSeed));
        const float first = loss_of(training.built, state);
        for (int step = 1; step < 60; ++step) ASSERT_TRUE(executor.step(state, training.data, kSeed));
        EXPECT_LT(loss_of(training.built, state), first - 0.3F);
    }
}

TEST(ExpertModels, are_exported_by_expert) {
    TransformerSpec spec = spec_of(1, 1.0F);
    const Training training = training_of(spec);
    const State state = initial_state(training.built, 3);
    const auto file = export_model(training.built.program, state);
    ASSERT_TRUE(file) << file.error().to_string();
    const auto content = read_safetensors(*file);
    ASSERT_TRUE(content) << content.error().to_string();
    const auto shape_of = [&](const char* name) {
        const Tensor* const found = content->find(name);
        EXPECT_NE(found, nullptr) << name;
        return found == nullptr ? Shape{} : found->shape;
    };
    EXPECT_EQ(shape_of("h.0.experts.w_router"), matrix_shape(8, 4));
    EXPECT_EQ(shape_of("h.0.experts.w_in"), (Shape{{1, 4, 8, 16}}));
    EXPECT_EQ(shape_of("h.0.experts.b_in"), (Shape{{1, 4, 1, 16}}));
    EXPECT_EQ(shape_of("h.1.experts.w_out"), (Shape{{1, 4, 16, 8}}));
    EXPECT_EQ(shape_of("h.1.experts.b_out"), (Shape{{1, 4, 1, 8}}));
    EXPECT_EQ(content->find("h.0.mlp.w_in"), nullptr);
}

TEST(ExpertModels, have_the_places_that_the_factor_gives) {
    const auto places = [](std::uint32_t count, std::uint32_t top, float factor) {
        TransformerSpec spec = spec_of(top, factor);
        spec.experts.count = count;
        return spec.expert_capacity();
    };
    EXPECT_EQ(places(4, 1, 1.0F), 10U);
    EXPECT_EQ(places(4, 1, 1.01F), 11U);
    EXPECT_EQ(places(4, 2, 1.0F), 20U);
    EXPECT_EQ(places(4, 2, 1.25F), 25U);
    EXPECT_EQ(places(3, 1, 1.0F), 14U);
    EXPECT_EQ(places(4, 1, 100.0F), 40U) << "a window has no more tokens";
    EXPECT_EQ(places(256, 1, kMinCapacityFactor), 1U);
}

TEST(ExpertModels, name_what_does_not_fit) {
    const auto error = [](const auto& change) {
        TransformerSpec spec = spec_of(1, 1.0F);
        change(spec);
        const auto built = build_forward_program(spec);
        return built ? std::string("none") : std::string(built.error().name);
    };
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.experts.count = kMaxExperts + 1; }), "arch.out_of_range");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.experts.top = 0; }), "arch.out_of_range");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.experts.top = 3; }), "arch.out_of_range");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.experts = {1, 2}; }), "arch.out_of_range");
    for (const float factor : {0.0F, -1.0F, kMaxCapacityFactor, std::nanf("")})
        EXPECT_EQ(error([&](TransformerSpec& spec) { spec.experts.capacity_factor = factor; }), "arch.out_of_range");
    for (const float balance : {-1.0F, kMaxBalance, std::nanf("")})
        EXPECT_EQ(error([&](TransformerSpec& spec) { spec.experts.balance = balance; }), "arch.out_of_range");
    EXPECT_EQ(error([](TransformerSpec& spec) { spec.adapter_rank = 1; }), "arch.adapters_of_experts");
    EXPECT_EQ(error([](TransformerSpec& spec) {
                  spec.width = 8192;
                  spec.heads = 1;
                  spec.experts.count = 256;
              }),
              "arch.too_large")
        << "matrices";
    EXPECT_EQ(error([](TransformerSpec& spec) {
                  spec.context = 8192;
                  spec.width = 128;
                  spec.mlp_ratio = 16;
                  spec.experts.count = 256;
                  spec.experts.capacity_factor = 255.0F;
              }),
              "arch.too_large")
        << "activations";
}

}  // namespace
}  // namespace quern::compute::program
