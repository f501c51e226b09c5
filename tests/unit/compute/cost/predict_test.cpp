// What is counted of programs, and what comes of it: with made-up profiles, nothing is timed here.
#include "compute/cost/predict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "compute/program/builder.h"
#include "support/training_game.h"

namespace quern::compute::cost {
namespace {

using program::Builder;
using program::Initializer;
using program::matrix_shape;
using program::Value;
using vm::tensor::DType;
using vm::tensor::PlanMode;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::arith::Backend;

constexpr double kTiny = 1e-9;

Profile profile_of(double nanoseconds, std::size_t threads = 1) {
    Profile profile;
    profile.key = {"some processor", {Backend::avx512, threads, true}, "1"};
    profile.nanoseconds.fill(nanoseconds);
    return profile;
}

// result := op(a, b), both of which keep their values.
Program product(const Shape& a, const Shape& b, bool transpose_a = false, bool transpose_b = false) {
    Builder builder;
    const Value left = builder.slot("a", DType::f32, a, Initializer::zeros());
    const Value right = builder.slot("b", DType::f32, b, Initializer::zeros());
    const Value result = builder.matmul(left, right, transpose_a, transpose_b);
    builder.update(builder.slot("c", DType::f32, builder.shape(result), Initializer::zeros()), result);
    builder.set_loss_slot(builder.slot("loss", DType::f32, program::scalar_shape(), Initializer::zeros()));
    const auto built = builder.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    return built->program;
}

Counts counts_of(const Program& program, const Setup& setup, PlanMode mode = PlanMode::step) {
    Counts sum{};
    count_step(program, mode, setup, [&](std::uint32_t, const Counts& counts) {
        for (std::size_t i = 0; i < kCounted; ++i) sum[i] += counts[i];
    });
    return sum;
}
double at(const Counts& counts, Unit unit) { return counts[static_cast<std::size_t>(unit)]; }

const Setup kOne{Backend::avx512, 1, true};
const Setup kTwo{Backend::avx512, 2, true};

TEST(Counts, of_a_product_are_those_of_its_kernel) {
    // Panels of 14 rows and two vectors of 16 columns: 2 x 2 tiles, the last ones of 28 and 40 ragged.
    const Counts counts = counts_of(product(matrix_shape(28, 300), matrix_shape(300, 40)), kOne);
    EXPECT_EQ(at(counts, Unit::step), 1);
    EXPECT_EQ(at(counts, Unit::product_call), 2) << "300 is two blocks of 256";
    EXPECT_EQ(at(counts, Unit::product_step), 4 * 300);
    EXPECT_EQ(at(counts, Unit::product_fma), (2 * 28 + 2 * 14) * 300) << "8 columns are one vector";
    EXPECT_EQ(at(counts, Unit::product_tile), 4 * 2);
    EXPECT_EQ(at(counts, Unit::product_store), (2 * 28 + 2 * 14) * 2);
    EXPECT_EQ(at(counts, Unit::pack_left), 28 * 300);
    EXPECT_EQ(at(counts, Unit::pack_right), 64 * 300);
}

TEST(Counts, of_a_product_tell_how_its_operands_lie) {
    const Counts left = counts_of(product(matrix_shape(64, 28), matrix_shape(64, 32), true, false), kOne);
    EXPECT_EQ(at(left, Unit::pack_left_steps), 28 * 64);
    EXPECT_EQ(at(left, Unit::pack_left), 0);
    const Counts right = counts_of(product(matrix_shape(28, 64), matrix_shape(32, 64), false, true), kOne);
    EXPECT_EQ(at(right, Unit::pack_right_turned), 32 * 64);
    EXPECT_EQ(at(right, Unit::pack_right), 0);
}

TEST(Counts, of_threads_are_the_share_of_one) {
    const Program wide = product(matrix_shape(960, 256), matrix_shape(256, 256));
    EXPECT_DOUBLE_EQ(at(counts_of(wide, kTwo), Unit::pack_left), 490 * 256) << "480 rows are 35 panels";
    EXPECT_EQ(at(counts_of(wide, kTwo), Unit::loop), 1);
    const Program small = product(matrix_shape(16, 16), matrix_shape(16, 16));
    EXPECT_EQ(counts_of(small, kTwo), counts_of(small, kOne)) << "too little for two threads";
    // Three products, two threads: one thread has two.
    const Program odd = product(Shape{{1, 3, 64, 256}}, Shape{{1, 3, 256, 64}});
    EXPECT_NEAR(at(counts_of(odd, kTwo), Unit::product_step), at(counts_of(odd, kOne), Unit::product_step) * 2 / 3,
                kTiny);
}

TEST(Counts, tell_nodes_that_run_together_apart) {
    Builder builder;
    const Value x = builder.slot("x", DType::f32, matrix_shape(64, 64), Initializer::zeros());
    const Value y = builder.slot("y", DType::f32, matrix_shape(64, 64), Initializer::zeros());
    const Value grown = builder.exp(x);
    builder.update(x, builder.add(grown, y));
    builder.set_loss_slot(builder.slot("loss", DType::f32, program::scalar_shape(), Initializer::zeros()));
    const Program program = builder.finish()->program;
    std::vector<double> exps;
    std::vector<double> sums;
    count_step(program, PlanMode::step, kOne, [&](std::uint32_t, const Counts& counts) {
        exps.push_back(counts[counted_of("element.exp")]);
        sums.push_back(counts[counted_of("element.add")]);
    });
    EXPECT_EQ(exps, (std::vector<double>{4096, 0}));
    EXPECT_EQ(sums, (std::vector<double>{0, 4096}));
}

// What is used again at once is near; what comes after much else is far.
TEST(Counts, tell_far_bytes_from_near_ones) {
    const auto far_bytes = [](std::uint32_t rows) {
        const Counts counts = counts_of(product(matrix_shape(rows, 256), matrix_shape(256, 16)), kOne);
        return at(counts, Unit::read_8m) + at(counts, Unit::read_32m) + at(counts, Unit::read_128m);
    };
    EXPECT_EQ(far_bytes(16), 0);
    EXPECT_GT(far_bytes(65536), 65536 * 256 * 2.0) << "64 MiB were read since";
}

TEST(Counts, of_the_demos_step_are_all_of_its_work) {
    const test::Training training = test::train(test::demo_architecture(64), 0);
    const Counts counts = counts_of(training.program(), kOne);
    double fmas = 0;
    for (const auto& node : training.program().nodes) {
        if (node.op != vm::tensor::Op::matmul) continue;
        const auto& a = training.program().nodes[node.inputs[0]].shape;
        const double inner = a.dims[node.attributes[0] != 0 ? 2 : 3];
        fmas += static_cast<double>(node.shape.elements()) * inner / 16;
    }
    EXPECT_GE(at(counts, Unit::product_fma), fmas);
    EXPECT_LE(at(counts, Unit::product_fma), 1.4 * fmas);
    const Counts commitment = count_commitment(training.program(), kOne);
    EXPECT_EQ(at(commitment, Unit::hash_tile) * vm::tensor::kTileBytes,
              static_cast<double>(training.program().header.sizes.state_bytes));
    EXPECT_LT(at(count_commitment(training.program(), kTwo), Unit::hash_tile), at(commitment, Unit::hash_tile));
}

TEST(Predict, nodes_add_up_to_the_step) {
    const test::Training training = test::train(test::demo_architecture(64), 0);
    Profile profile = profile_of(1);
    for (std::size_t i = 0; i < kCounted; ++i) profile.nanoseconds[i] = 1 + static_cast<double>(i % 7);
    const StepTime time = predict_step(training.program(), profile);
    const std::vector<double> nodes = predict_nodes(training.program(), profile);
    EXPECT_EQ(nodes.size(), training.program().nodes.size());
    EXPECT_NEAR(std::accumulate(nodes.begin(), nodes.end(), 0.0), time.step, time.step * kTiny);
    EXPECT_GT(time.step, 0);
    EXPECT_GT(time.tapped, time.step) << "every node is shown, none runs with others";
    EXPECT_GT(time.commit, 0);
}

TEST(Predict, of_threads_count_that_they_wait_for_each_other) {
    const test::Training training = test::train(test::demo_architecture(64), 0);
    const Profile two = profile_of(1, 2);
    double sum = 0;
    count_step(training.program(), PlanMode::step, two.key.setup,
               [&](std::uint32_t, const Counts& counts) { sum += seconds_of(counts, two); });
    EXPECT_DOUBLE_EQ(predict_step(training.program(), two).step, kBetweenThreads * sum);
    const std::vector<double> nodes = predict_nodes(training.program(), two);
    EXPECT_NEAR(std::accumulate(nodes.begin(), nodes.end(), 0.0), kBetweenThreads * sum, sum * kTiny);
}

TEST(Predict, more_of_anything_never_takes_less) {
    const test::Training small = test::train(test::demo_architecture(64), 0);
    auto twice = test::demo_architecture(64);
    twice.batch *= 2;
    const test::Training large = test::train(twice, 0);
    const Profile plain = profile_of(1);
    const StepTime before = predict_step(small.program(), plain);
    EXPECT_GT(predict_step(large.program(), plain).step, before.step);
    for (std::size_t i = 0; i < kCounted; ++i) {
        Profile slower = plain;
        slower.nanoseconds[i] *= 2;
        const StepTime after = predict_step(small.program(), slower);
        EXPECT_GE(after.step, before.step) << name_of(i);
        EXPECT_GE(after.tapped, before.tapped) << name_of(i);
        EXPECT_GE(after.commit, before.commit) << name_of(i);
    }
}

TEST(Predict, of_the_largest_tensors_is_a_number) {
    const Shape most = matrix_shape(1U << 15, 1U << 16);
    ASSERT_EQ(most.elements(), vm::tensor::kMaxTensorElements);
    Builder builder;
    const Value x = builder.slot("x", DType::f32, most, Initializer::zeros());
    const Value y = builder.matmul(x, x, false, true);
    const Value z = builder.matmul(y, x);
    builder.update(x, builder.tanh(builder.add(z, x)));
    builder.set_loss_slot(builder.slot("loss", DType::f32, program::scalar_shape(), Initializer::zeros()));
    const auto built = builder.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    Profile profile = profile_of(kMostNanoseconds, 256);
    const StepTime time = predict_step(built->program, profile);
    for (const double seconds : {time.step, time.tapped, time.commit}) {
        EXPECT_TRUE(std::isfinite(seconds));
        EXPECT_GT(seconds, 1e6);
    }
    EXPECT_TRUE(std::isfinite(training_seconds(time, ~std::uint64_t{0}, 0)));
}

core::TaskPrograms programs_of(std::vector<Program> programs, std::vector<core::PlanItem> body) {
    auto made = core::TaskPrograms::make(std::move(programs), std::move(body));
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
}

TEST(TaskTime, of_a_training_is_its_steps_and_commitments) {
    const Program program = product(matrix_shape(64, 64), matrix_shape(64, 64));
    const auto programs = programs_of({program}, core::plain_body(std::uint64_t{1} << 32));
    const Profile profile = profile_of(3);
    const TaskTime time(programs, profile);
    const StepTime one = predict_step(program, profile);
    EXPECT_DOUBLE_EQ(time.training(1, 1000, 10), 1000 * one.step + 100 * one.commit);
    EXPECT_DOUBLE_EQ(time.training(5, 4, 1), 0);
    EXPECT_DOUBLE_EQ(time.training(0, 4, 1), 0);
    EXPECT_NEAR(time.replay(1, 1000, 10, 2) - time.training(1, 1000, 10), 2 * (one.tapped - one.step), kTiny);
    EXPECT_DOUBLE_EQ(time.training(1, std::uint64_t{1} << 32, 1), 0x1p32 * (one.step + one.commit));
}

TEST(TaskTime, of_a_plan_takes_each_step_by_its_program) {
    auto architecture = test::small_architecture();
    architecture.accumulate = 3;
    const auto built = program::build_training_programs(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& add = built->programs[0].program;
    const Program& update = built->programs[1].program;
    const auto programs = programs_of({add, update}, built->body(1'000'000));
    const Profile profile = profile_of(3);
    const TaskTime time(programs, profile);
    const double adding = predict_step(add, profile).step;
    const double updating = predict_step(update, profile).step;
    const double commit = predict_step(add, profile).commit;
    EXPECT_NE(adding, updating);
    EXPECT_NEAR(time.training(1, 4, 4), 3 * adding + updating + commit, kTiny);
    EXPECT_NEAR(time.training(4, 4, 1), updating + commit, kTiny);
    EXPECT_NEAR(time.training(1, 4'000'000, 4) / (1e6 * (3 * adding + updating + commit)), 1, 1e-3);
}

}  // namespace
}  // namespace quern::compute::cost
