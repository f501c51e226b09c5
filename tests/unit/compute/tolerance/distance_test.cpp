// The distance program: against formulas in double precision, over hostile words, and by what rule slots are compared.
#include "compute/tolerance/distance/distance_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/rng.h"
#include "compute/program/initial_state.h"
#include "compute/tolerance/distance/adam_moments.h"
#include "compute/tolerance/limits.h"
#include "support/training_game.h"

namespace quern::compute::tolerance::distance {
namespace {

using program::Architecture;
using program::Builder;
using program::BuiltProgram;
using program::DType;
using program::Initializer;
using program::Value;
using vm::tensor::Executor;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr auto kScalar = vm::tensor::arith::Backend::scalar;
// What everything passes that is a number: only what is none, or not bounded at all, does not.
constexpr std::uint32_t kHuge = 0x7f7fffff;
constexpr Limits kLoose{kHuge, kHuge, kHuge, kHuge, kHuge, 0, kHuge};

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }
float number(std::uint32_t x) { return __builtin_bit_cast(float, x); }

// A training of the small transformer with its segment programs and three states: before, replayed, claimed.
struct Segment {
    test::Training training;
    SegmentPrograms programs;
    State previous;
    State replayed;
    State claimed;

    explicit Segment(std::uint64_t k = 3, program::OptimizerConfig::Type type = program::OptimizerConfig::Type::adamw) {
        Architecture architecture = test::small_architecture();
        architecture.optimizer.type = type;
        training = test::train(architecture, 2 + k);
        auto built = build_segment_programs(training.program());
        EXPECT_TRUE(built) << built.error().to_string();
        programs = std::move(*built);
        previous = training.states[2];
        replayed = training.states[2 + k];
        claimed = replayed;
    }
    [[nodiscard]] std::size_t slot(const std::string& name) const {
        return program::slot_index(training.program(), name, "test.no_slot").value_or(0);
    }
    [[nodiscard]] std::size_t any(Class its) const {
        return static_cast<std::size_t>(std::find(programs.classes.begin(), programs.classes.end(), its) -
                                        programs.classes.begin());
    }
    // By the distance program alone.
    [[nodiscard]] Measured measure() const {
        auto state = segment_state(programs, previous, claimed);
        EXPECT_TRUE(state) << state.error().to_string();
        for (std::size_t s = 0; s < replayed.size(); ++s) (*state)[s] = replayed[s];
        Executor executor(programs.distance, kScalar, nullptr);
        EXPECT_TRUE(executor.step(*state, training.data, training.seed));
        return read_measured(programs, *state);
    }
    // Noise on every f32 slot that is compared by distance.
    void disturb(float share) {
        SeededRng rng(3);
        for (std::size_t s = 0; s < claimed.size(); ++s) {
            if (programs.classes[s] == Class::exact) continue;
            for (std::size_t i = 0; i < claimed[s].words.size(); ++i) {
                const float way = number(replayed[s].words[i]) - number(previous[s].words[i]);
                const float noise = static_cast<float>(rng.below(2001)) / 1000.0F - 1.0F;
                claimed[s].words[i] = word(number(claimed[s].words[i]) + way * noise * share);
            }
        }
    }
};

// Whether a claimed first moment is larger than the second beside it allows: never by rounding alone here.
bool beyond_second(const Segment& segment) {
    const auto pairs = find_moment_pairs(segment.training.program());
    return std::any_of(pairs.begin(), pairs.end(), [&](const MomentPair& pair) {
        const auto& firsts = segment.claimed[pair.first].words;
        const auto& seconds = segment.claimed[pair.second].words;
        for (std::size_t i = 0; i < firsts.size(); ++i) {
            const auto m = std::fabs(static_cast<double>(number(firsts[i])));
            const auto v = static_cast<double>(number(seconds[i]));
            if (v < 0 || m > std::sqrt(static_cast<double>(pair.bound) * v) + 1e-15) return true;
        }
        return false;
    });
}

// The measures by their definition (measures.h), in double precision.
std::array<double, kMeasures> by_definition(const Segment& segment) {
    struct Sums {
        double error = 0, way = 0, claimed_way = 0, dot = 0, largest_error = 0, largest_way = 0;
    };
    std::map<std::string, Sums> groups;
    double rest = 0;
    double exact = 0;
    const auto& slots = segment.training.program().slots;
    for (std::size_t s = 0; s < slots.size(); ++s) {
        double size_sum = 0;
        double error_sum = 0;
        Sums& sums = groups[segment.programs.classes[s] == Class::parameter ? "" : slots[s].name.substr(0, 7)];
        for (std::size_t i = 0; i < segment.claimed[s].words.size(); ++i) {
            if (segment.programs.classes[s] == Class::exact) {
                exact += segment.claimed[s].words[i] == segment.replayed[s].words[i] ? 0 : 1;
                continue;
            }
            const auto c = static_cast<double>(number(segment.claimed[s].words[i]));
            const auto r = static_cast<double>(number(segment.replayed[s].words[i]));
            const auto p = static_cast<double>(number(segment.previous[s].words[i]));
            const double size = std::max(std::fabs(r - p), std::fabs(r));
            size_sum += size * size;
            error_sum += (c - r) * (c - r);
            sums.error += (c - r) * (c - r);
            sums.way += (r - p) * (r - p);
            sums.claimed_way += (c - p) * (c - p);
            sums.dot += (c - p) * (r - p);
            sums.largest_error = std::max(sums.largest_error, std::fabs(c - r));
            sums.largest_way = std::max(sums.largest_way, std::fabs(r - p));
        }
        if (segment.programs.classes[s] == Class::rest) rest = std::max(rest, std::sqrt(error_sum / size_sum));
    }
    const Sums& all = groups[""];
    const auto l2 = [](const Sums& sums) { return sums.way > 0 ? std::sqrt(sums.error / sums.way) : 0; };
    return {l2(all),
            all.largest_error / all.largest_way,
            beyond_second(segment) ? std::numeric_limits<double>::infinity()
                                   : std::max(l2(groups["adamw.m"]), l2(groups["adamw.v"])),
            rest,
            exact,
            std::sqrt(all.way),
            all.dot / std::sqrt(all.way * all.claimed_way),
            0};
}

// A convolution with a bias before a batch norm.
Architecture convolution() {
    using namespace program;
    Architecture architecture = test::small_architecture();
    LayersSpec& model = architecture.model.emplace<LayersSpec>();
    model.input = LayersSpec::Input::image;
    model.image = {4, 4};
    model.channels = 1;
    model.scale = 1.0F / 256;
    model.outputs = 2;
    model.layers = {ConvLayer{4, Window2d{{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, BatchNormLayer{}, Activation::relu,
                    GlobalPoolLayer{}, LinearLayer{2}};
    architecture.data = {{vm::tensor::DataType::u8, 16 * model.input_size()}, {vm::tensor::DataType::u8, 16}};
    architecture.batch = 4;
    return architecture;
}

TEST(Distance, agrees_with_double_precision) {
    for (const float share : {1e-4F, 1e-2F, 1.0F, 1e4F}) {
        Segment segment;
        segment.disturb(share);
        const auto expected = by_definition(segment);
        const Measured measured = segment.measure();
        const bool beyond = std::isinf(expected[2]);
        EXPECT_EQ(beyond, share >= 1) << "noise as large as what is there";
        for (std::size_t m = 0; m < kMeasures; ++m) {
            if (beyond && m == static_cast<std::size_t>(Measure::moments)) {
                EXPECT_EQ(measured.words[m], kInfinity);
                continue;
            }
            EXPECT_NEAR(static_cast<double>(number(measured.words[m])), expected[m], 1e-6 + 2e-3 * share * expected[m])
                << kMeasureNames[m] << " at " << share;
        }
        EXPECT_NEAR(static_cast<double>(number(measured[Measure::l2])), expected[0], 3e-6 * expected[0]) << share;
        EXPECT_GT(expected[0], 0.3 * static_cast<double>(share));
        if (beyond) continue;
        EXPECT_NEAR(static_cast<double>(number(measured[Measure::moments])), expected[2], 3e-6 * expected[2]) << share;
    }
}

TEST(Distance, of_an_exact_claim_is_nothing) {
    for (const std::uint64_t k : {1U, 3U}) {
        const Segment segment(k);
        const Measured measured = segment.measure();
        for (const Measure each : {Measure::l2, Measure::linf, Measure::moments, Measure::rest, Measure::exact})
            EXPECT_EQ(measured[each], 0U);
        EXPECT_GT(number(measured[Measure::movement]), 1e-3F);
        EXPECT_NEAR(number(measured[Measure::cosine]), 1.0F, 1e-6F);
    }
}

TEST(Distance, a_plan_of_both_programs_replays_and_measures) {
    Segment segment(3);
    segment.disturb(1e-2F);
    const auto plan =
        core::TaskPrograms::make({segment.programs.training, segment.programs.distance}, segment.programs.body(3));
    ASSERT_TRUE(plan) << plan.error().to_string();
    ASSERT_EQ(plan->plan.steps(), 4U);
    auto state = segment_state(segment.programs, segment.previous, segment.claimed);
    ASSERT_TRUE(state);
    for (std::uint64_t step = 1; step <= 4; ++step) {
        Executor executor(plan->at(step), kScalar, nullptr);
        ASSERT_TRUE(executor.step(*state, segment.training.data, segment.training.seed));
    }
    EXPECT_EQ(read_measured(segment.programs, *state), segment.measure());
    for (std::size_t s = 0; s < segment.replayed.size(); ++s) EXPECT_EQ((*state)[s], segment.replayed[s]);
    for (const std::uint64_t k : {1U, 2U, 1000U})
        EXPECT_TRUE(
            core::TaskPrograms::make({segment.programs.training, segment.programs.distance}, segment.programs.body(k)));
}

TEST(Distance, the_input_of_a_dispute_follows_from_the_roots_of_two_checkpoints) {
    const Segment segment;
    const auto state = segment_state(segment.programs, segment.previous, segment.claimed);
    ASSERT_TRUE(state);
    const auto previous = vm::tensor::slot_roots(segment.previous);
    const auto claimed = vm::tensor::slot_roots(segment.claimed);
    EXPECT_EQ(segment_slot_roots(segment.programs, previous, claimed), vm::tensor::slot_roots(*state));
    EXPECT_TRUE(segment_slot_roots(segment.programs, std::span(previous).first(3), claimed).empty());
    State wrong = segment.claimed;
    wrong.pop_back();
    EXPECT_EQ(segment_state(segment.programs, segment.previous, wrong).error().name, "executor.bad_state");
    wrong = segment.claimed;
    wrong[0].words.pop_back();
    EXPECT_EQ(segment_state(segment.programs, segment.previous, wrong).error().name, "executor.bad_state");
}

TEST(Distance, hostile_words_are_never_near) {
    const Segment honest;
    ASSERT_EQ(refused_by(honest.measure(), kLoose), std::nullopt);
    for (const std::uint32_t hostile : {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7f800000U, 0xff800000U}) {
        for (std::size_t s = 0; s < honest.claimed.size(); ++s) {
            if (honest.programs.classes[s] == Class::exact) continue;
            const int cases = s % 8 == 0 || honest.programs.classes[s] == Class::rest ? 7 : 1;
            for (int who = 0; who < cases; ++who) {  // any of the three states, any two, all
                Segment segment = honest;
                if (who == 0 || who >= 4) segment.claimed[s].words.back() = hostile;
                if (who == 1 || who == 3 || who == 4 || who == 6) segment.replayed[s].words.back() = hostile;
                if (who == 2 || who == 3 || who >= 5) segment.previous[s].words.back() = hostile;
                EXPECT_NE(refused_by(segment.measure(), kLoose), std::nullopt)
                    << hostile << " in " << honest.training.program().slots[s].name << ", case " << who;
            }
        }
    }
}

TEST(Distance, words_near_the_end_of_the_range_are_compared_as_any_or_refused) {
    // A quarter of 2e-38 is subnormal: what multiplies reads it as zero.
    for (const float size : {2e-38F, 1e-36F, 1e-30F, 1e-20F, 1e20F, 1e30F, 1.5e38F}) {
        Segment segment;
        for (std::size_t s = 0; s < segment.claimed.size(); ++s)
            if (segment.programs.classes[s] != Class::exact) {
                std::fill(segment.previous[s].words.begin(), segment.previous[s].words.end(), word(0.0F));
                std::fill(segment.replayed[s].words.begin(), segment.replayed[s].words.end(), word(size));
                std::fill(segment.claimed[s].words.begin(), segment.claimed[s].words.end(), word(size * 1.25F));
            }
        const Measured measured = segment.measure();
        for (const Measure each : {Measure::l2, Measure::linf, Measure::moments, Measure::rest}) {
            // From some size on no gradients make m as large as v.
            if (each == Measure::moments && size > 1) {
                EXPECT_FALSE(within(measured[each], word(1e38F))) << size;
            } else {
                EXPECT_NEAR(number(measured[each]), size < 1e-37F ? 0 : 0.25F, 1e-5F) << size;
            }
        }
    }
    Segment far;  // r - p is infinite though both are numbers; what is claimed is elsewhere
    const std::size_t slot = far.any(Class::parameter);
    far.replayed[slot].words[0] = word(3e38F);
    far.previous[slot].words[0] = word(-3e38F);
    far.claimed[slot].words[0] = word(2e38F);
    EXPECT_NE(refused_by(far.measure(), kLoose), std::nullopt);
    far.claimed[slot].words[0] = word(3e38F);  // even where it is not
    EXPECT_NE(refused_by(far.measure(), kLoose), std::nullopt);
}

TEST(Distance, where_nothing_moved_only_the_same_is_near) {
    Segment still;
    still.previous = still.replayed;
    Measured measured = still.measure();
    for (const Measure each : {Measure::l2, Measure::linf, Measure::moments, Measure::movement})
        EXPECT_EQ(measured[each], 0U);
    still.claimed[still.any(Class::parameter)].words[0] ^= 1;
    measured = still.measure();
    EXPECT_EQ(measured[Measure::movement], 0U);
    EXPECT_FALSE(within(measured[Measure::l2], word(1e6F))) << number(measured[Measure::l2]);
}

TEST(Distance, a_slot_that_is_left_out_may_move_as_far_as_others) {
    Segment segment;
    const std::size_t slot = segment.any(Class::parameter);
    segment.programs =
        *build_segment_programs(segment.training.program(), std::vector{segment.training.program().slots[slot].name});
    float largest = 0;
    for (std::size_t s = 0; s < segment.replayed.size(); ++s)
        for (std::size_t i = 0; i < segment.replayed[s].words.size(); ++i)
            if (segment.programs.classes[s] == Class::parameter)
                largest = std::max(
                    largest, std::fabs(number(segment.replayed[s].words[i]) - number(segment.previous[s].words[i])));
    segment.claimed[slot] = segment.previous[slot];
    segment.claimed[slot].words[1] = word(number(segment.previous[slot].words[1]) - 3 * largest);
    const Measured measured = segment.measure();
    EXPECT_EQ(measured[Measure::l2], 0U);
    EXPECT_NEAR(number(measured[Measure::loose]), 3.0F, 1e-3F);
    Limits limits = kLoose;
    limits.loose = word(2.9F);
    EXPECT_EQ(refused_by(measured, limits), Measure::loose);
    for (const std::uint32_t hostile : {0x7fc00000U, 0x7f800000U, 0xff800000U}) {
        segment.claimed[slot].words[1] = hostile;
        EXPECT_EQ(refused_by(segment.measure(), kLoose), Measure::loose) << hostile;
    }
}

TEST(Distance, counters_and_powers_are_compared_bit_by_bit) {
    const Segment honest;
    for (const char* const name : {"step", "adamw.beta1_power", "adamw.beta2_power"}) {
        Segment segment = honest;
        ASSERT_EQ(segment.programs.classes[segment.slot(name)], Class::exact) << name;
        segment.claimed[segment.slot(name)].words[0] ^= 1;
        EXPECT_EQ(segment.measure()[Measure::exact], word(1.0F)) << name;
        EXPECT_EQ(refused_by(segment.measure(), kLoose), Measure::exact) << name;
    }
}

TEST(Distance, each_class_has_a_measure_of_its_own) {
    Segment honest;
    honest.programs = *build_segment_programs(
        honest.training.program(), std::vector{honest.training.program().slots[honest.any(Class::parameter)].name});
    const std::map<Class, Measure> measures{{Class::parameter, Measure::l2},
                                            {Class::companion, Measure::moments},
                                            {Class::rest, Measure::rest},
                                            {Class::exact, Measure::exact}};
    std::map<Class, int> seen;
    for (std::size_t s = 0; s < honest.claimed.size(); ++s) {
        Segment segment = honest;
        const Class its = segment.programs.classes[s];
        ++seen[its];
        for (std::uint32_t& each : segment.claimed[s].words)
            each = its == Class::exact ? each + 1 : word(number(each) + 1);
        const Measured measured = segment.measure();
        if (its == Class::loose) {
            EXPECT_GT(number(measured[Measure::loose]), 10.0F);
            EXPECT_EQ(measured[Measure::l2], 0U);
            continue;
        }
        for (const auto& [other, measure] : measures)
            EXPECT_EQ(measured[measure] != 0, other == its) << honest.training.program().slots[s].name;
    }
    EXPECT_EQ(seen.size(), 5U);
}

TEST(Distance, slots_are_classed_by_what_they_depend_on) {
    const auto classes_of = [](const Architecture& architecture, std::size_t number,
                               const std::vector<std::string>& loose = {}) {
        const auto built = program::build_training_programs(architecture);
        EXPECT_TRUE(built) << built.error().to_string();
        const vm::tensor::Program& training = built->programs[number].program;
        const auto classes = classify(training, loose);
        EXPECT_TRUE(classes) << classes.error().to_string();
        std::map<std::string, Class> named;
        for (std::size_t s = 0; s < classes->size(); ++s) named[training.slots[s].name] = (*classes)[s];
        return named;
    };
    Architecture architecture = test::small_architecture();
    auto named = classes_of(architecture, 0);
    EXPECT_EQ(named["step"], Class::exact);
    EXPECT_EQ(named["loss"], Class::rest);
    EXPECT_EQ(named["adamw.beta1_power"], Class::exact);
    std::size_t parameters = 0;
    for (const auto& [name, its] : named) {
        if (!name.starts_with("model.")) continue;
        ++parameters;
        EXPECT_EQ(its, Class::parameter) << name;
        EXPECT_EQ(named["adamw.m." + name], Class::companion);
        EXPECT_EQ(named["adamw.v." + name], Class::companion);
    }
    EXPECT_EQ(named.size(), 4 + 3 * parameters);

    architecture.transformer().adapter_rank = 2;  // what is not trained is as it was
    named = classes_of(architecture, 0);
    for (const auto& [name, its] : named) {
        if (!name.starts_with("model.")) continue;
        EXPECT_EQ(its, name.find(".lora_") != std::string::npos ? Class::parameter : Class::exact) << name;
    }

    named = classes_of(convolution(), 0);
    EXPECT_EQ(named["model.0.bias"], Class::parameter);
    EXPECT_EQ(named["model.1.weight"], Class::parameter);
    EXPECT_EQ(named["model.1.running_var"], Class::rest);
    named = classes_of(convolution(), 0, {"model.0.bias"});
    EXPECT_EQ(named["model.0.bias"], Class::loose);
    EXPECT_EQ(named["adamw.v.model.0.bias"], Class::companion);
}

TEST(Distance, optimizers_without_moments_have_none) {
    using Type = program::OptimizerConfig::Type;
    for (const Type type : {Type::sgd, Type::momentum, Type::lion}) {
        Segment segment(2, type);
        segment.disturb(1e-2F);
        const Measured measured = segment.measure();
        EXPECT_EQ(refused_by(measured, kLoose), std::nullopt);
        EXPECT_EQ(measured[Measure::moments] == 0, type == Type::sgd);
        EXPECT_GT(number(measured[Measure::l2]), 1e-3F);
    }
}

// A slot that a sum moves, through what `make` does to it.
Expected<vm::tensor::Program> moved_by_a_sum(DType dtype, std::uint32_t flags,
                                             const std::function<Value(Builder&, Value)>& make) {
    Builder b;
    const Value weight = b.slot("model.w", DType::f32, program::vector_shape(4), Initializer::zeros());
    const Value slot =
        b.slot(dtype == DType::i32 ? "count" : "model.v", dtype, program::scalar_shape(), Initializer::zeros(), flags);
    const Value loss = b.slot("loss", DType::f32, program::scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss);
    b.update(loss, dtype == DType::f32 ? slot : b.to_f32(slot));
    b.update(slot, make(b, b.sum_last(weight)));
    QUERN_TRY(BuiltProgram built, b.finish());
    return std::move(built.program);
}

TEST(Distance, a_fused_product_is_no_exact_operation_and_taints_who_reads_it) {
    Builder b;
    const Value weight =
        b.slot("model.w", DType::f32, program::vector_shape(4), Initializer::zeros(), vm::tensor::kSlotParameter);
    const Value half = b.constant(0.5F);
    const auto scalar = [&](const char* name) {
        return b.slot(name, DType::f32, program::scalar_shape(), Initializer::constant(1.0F));
    };
    const Value power = scalar("power");
    const Value fused = scalar("fused");
    const Value reader = scalar("reader");
    const Value late = scalar("late");
    const Value loss = scalar("loss");
    b.set_loss_slot(loss);
    b.update(power, b.sqrt(b.add(b.mul(power, half), b.div(half, power))));
    b.update(fused, b.fma(fused, half, half));
    b.update(reader, b.neg(fused));
    b.update(late, b.neg(reader));  // two steps after
    b.update(loss, b.sum_last(weight));
    b.update(weight, b.mul(weight, loss));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const auto classes = classify(built->program);
    ASSERT_TRUE(classes) << classes.error().to_string();
    EXPECT_EQ(*classes,
              (std::vector{Class::parameter, Class::exact, Class::rest, Class::rest, Class::rest, Class::rest}));
}

TEST(Distance, refuses_programs_that_it_cannot_compare_by_name) {
    const auto same = [](Builder&, Value x) { return x; };
    const auto name_of = [](const Expected<vm::tensor::Program>& training) {
        EXPECT_TRUE(training) << training.error().to_string();
        const auto built = build_segment_programs(*training);
        return built ? std::string("none") : std::string(built.error().name);
    };
    EXPECT_EQ(name_of(moved_by_a_sum(DType::f32, vm::tensor::kSlotParameter, same)), "none");
    EXPECT_EQ(name_of(moved_by_a_sum(DType::f32, 0, same)), "tolerance.no_parameters");
    const auto moved = moved_by_a_sum(DType::f32, vm::tensor::kSlotParameter, same);
    const auto error_of = [&](const std::string& loose) {
        return build_segment_programs(*moved, std::vector{loose}).error().name;
    };
    EXPECT_EQ(error_of("model.v"), "tolerance.no_parameters");      // all of them
    EXPECT_EQ(error_of("model.w"), "tolerance.unknown_parameter");  // it never changes
    EXPECT_EQ(error_of("loss"), "tolerance.unknown_parameter");
    EXPECT_EQ(
        name_of(moved_by_a_sum(
            DType::i32, 0, [](Builder& b, Value x) { return b.elementwise(vm::tensor::arith::ElementOp::f2i, {x}); })),
        "tolerance.rounded_integers");
    auto long_name = moved_by_a_sum(DType::f32, vm::tensor::kSlotParameter, same);
    ASSERT_TRUE(long_name);
    long_name->slots[0].name = std::string(125, 'x');
    vm::tensor::complete_header(*long_name);
    EXPECT_EQ(name_of(long_name), "program.bad_slot_name");
}

}  // namespace
}  // namespace quern::compute::tolerance::distance
