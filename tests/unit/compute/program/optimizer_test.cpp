// Optimizers against their textbook formulas in double precision.
#include "compute/program/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "unit/compute/program/double_evaluator.h"

namespace quern::compute::program {
namespace {

using test::Doubles;
using test::DoubleState;
using vm::tensor::State;
using vm::tensor::Tensor;

// Loss 0.5 * sum((x - 3)^2) over a matrix x (decays) and a vector y (does not), both starting at 1: gradients x - 3.
struct Problem {
    BuiltProgram built;
    std::size_t x = 0, y = 0;
};
Problem make_problem(const OptimizerConfig& config) {
    Builder b;
    const auto step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    b.update(step, b.iadd(step, b.constant_i32(1)));
    const auto x = b.slot("x", DType::f32, matrix_shape(2, 2), Initializer::constant(1.0F));
    const auto y = b.slot("y", DType::f32, vector_shape(3), Initializer::constant(1.0F));
    Value loss;
    for (const Value slot : {x, y}) {
        const auto miss = b.sub(slot, b.constant(3.0F));
        const auto part = b.mul(sum_all(b, b.mul(miss, miss)), b.constant(0.5F));
        loss = loss.valid() ? b.add(loss, part) : part;
    }
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    const std::vector<Value> wrt{x, y};
    const auto derivatives = gradients(b, loss, wrt);
    const std::vector<ParameterGradient> parameters{{"x", x, derivatives[0], true}, {"y", y, derivatives[1], false}};
    append_optimizer(b, config, parameters, step);
    auto built = b.finish();
    EXPECT_TRUE(built) << (built ? "" : built.error().to_string());
    return {built ? *built : BuiltProgram{}, 1, 2};
}

// Runs the program on the canonical executor and `reference` (value, gradient, step, decays) -> next value beside it.
void compare(const OptimizerConfig& config, int steps,
             const std::function<double(double, double, int, bool)>& reference_x,
             const std::function<double(double, double, int, bool)>& reference_y) {
    const Problem problem = make_problem(config);
    State state = initial_state(problem.built, 1);
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {0, 0, 0, 0}};
    vm::tensor::Executor executor(problem.built.program, vm::tensor::arith::Backend::scalar, nullptr);
    double x = 1, y = 1;
    for (int t = 0; t < steps; ++t) {
        double gx = x - 3, gy = y - 3;
        if (config.clip_norm > 0) {
            const double norm = std::sqrt(4 * gx * gx + 3 * gy * gy);
            const double scale =
                static_cast<double>(config.clip_norm) / std::max(norm, static_cast<double>(config.clip_norm));
            gx *= scale;
            gy *= scale;
        }
        x = reference_x(x, gx, t, true);
        y = reference_y(y, gy, t, false);
        executor.step(state, data, seed);
        ASSERT_EQ(state[0].words[0], static_cast<std::uint32_t>(t + 1));
        for (const double value : test::to_doubles(state[problem.x])) ASSERT_NEAR(value, x, 1e-5) << "step " << t;
        for (const double value : test::to_doubles(state[problem.y])) ASSERT_NEAR(value, y, 1e-5) << "step " << t;
    }
}

double rate_at(const OptimizerConfig& c, int step) {
    double factor = 1;
    if (c.warmup > 0) factor = std::min((step + 1.0) / c.warmup, 1.0);
    if (c.total_steps > c.warmup) {
        const double left = (static_cast<double>(c.total_steps) - step) / (c.total_steps - c.warmup);
        const auto least = static_cast<double>(c.final_rate);
        const double x = 1 - std::clamp(left, 0.0, 1.0);
        factor *= c.schedule == OptimizerConfig::Schedule::cosine
                      ? least + (1 - least) * (1 + std::cos(std::acos(-1.0) * x)) / 2
                      : std::min(std::max(left, least), 1.0);
    }
    return factor * static_cast<double>(c.learning_rate);
}

TEST(Optimizer, sgd_follows_its_formula_with_schedule_decay_and_clipping) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::sgd;
    config.learning_rate = 0.1F;
    config.weight_decay = 0.5F;
    config.clip_norm = 2.0F;
    config.warmup = 3;
    config.total_steps = 10;
    const auto next = [&](double p, double g, int t, bool decays) {
        const double rate = rate_at(config, t);
        return p * (decays ? 1 - rate * 0.5 : 1) - rate * g;
    };
    compare(config, 15, next, next);
}

TEST(Optimizer, momentum_follows_its_formula) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::momentum;
    config.learning_rate = 0.05F;
    config.momentum = 0.8F;
    double vx = 0, vy = 0;
    const auto with = [&](double& velocity) {
        return [&velocity](double p, double g, int, bool) {
            velocity = 0.8 * velocity + g;
            return p - 0.05 * velocity;
        };
    };
    compare(config, 20, with(vx), with(vy));
}

// Adam with its decay in the gradient, or AdamW with it beside; beta1 0.9.
void compare_adam(const OptimizerConfig& config, double beta2, double decay) {
    const bool decoupled = config.type == OptimizerConfig::Type::adamw;
    struct Moments {
        double m = 0, v = 0;
    } mx, my;
    const auto with = [&](Moments& s) {
        return [&, &s = s](double p, double g, int t, bool decays) {
            if (decays && !decoupled) g += decay * p;
            s.m = 0.9 * s.m + 0.1 * g;
            s.v = beta2 * s.v + (1 - beta2) * g * g;
            const double rate = rate_at(config, t);
            const double m = s.m / (1 - std::pow(0.9, t + 1));
            const double v = s.v / (1 - std::pow(beta2, t + 1));
            return p * (decays && decoupled ? 1 - rate * decay : 1) - rate * m / (std::sqrt(v) + 1e-8);
        };
    };
    compare(config, 40, with(mx), with(my));
}

TEST(Optimizer, adamw_follows_its_formula) {
    OptimizerConfig config;
    config.learning_rate = 0.05F;
    config.beta1 = 0.9F;
    config.beta2 = 0.95F;
    config.weight_decay = 0.1F;
    config.warmup = 5;
    config.total_steps = 30;
    compare_adam(config, 0.95, 0.1);
}

TEST(Optimizer, adam_adds_its_decay_to_the_gradient) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::adam;
    config.learning_rate = 0.05F;
    config.weight_decay = 0.5F;
    compare_adam(config, 0.999, 0.5);
}

TEST(Optimizer, lion_follows_its_formula_and_a_cosine) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::lion;
    config.learning_rate = 0.03F;
    config.beta1 = 0.9F;
    config.beta2 = 0.99F;
    config.weight_decay = 0.2F;
    config.warmup = 4;
    config.total_steps = 30;
    config.final_rate = 0.2F;
    config.schedule = OptimizerConfig::Schedule::cosine;
    EXPECT_NEAR(rate_at(config, 17), 0.03 * 0.6, 1e-9) << "half way";
    double mx = 0, my = 0;
    const auto with = [&](double& m) {
        return [&m, &config](double p, double g, int t, bool decays) {
            const double c = 0.9 * m + 0.1 * g;
            m = 0.99 * m + 0.01 * g;
            const double rate = rate_at(config, t);
            return p * (decays ? 1 - rate * 0.2 : 1) - rate * (c > 0 ? 1 : c < 0 ? -1 : 0);
        };
    };
    compare(config, 40, with(mx), with(my));
}

// Nothing moves where there is no gradient and there never was.
TEST(Optimizer, lion_stays_where_it_is_flat) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(2), Initializer::constant(1.0F));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::lion;
    const std::vector<ParameterGradient> parameters{{"x", x, b.full(DType::f32, vector_shape(2), 0), false}};
    append_optimizer(b, config, parameters, b.constant_i32(0));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    const vm::tensor::MemoryData none;
    const auto before = test::to_doubles(initial_state(*built, 1));
    EXPECT_EQ(test::step_in_double(built->program, before, none, Tensor{DType::i32, vector_shape(4), {0, 0, 0, 0}})[0],
              before[0]);
}

TEST(Optimizer, keeps_its_state_in_named_slots) {
    const Problem problem = make_problem({});
    std::vector<std::string> names;
    for (const auto& slot : problem.built.program.slots) names.push_back(slot.name);
    EXPECT_EQ(names, (std::vector<std::string>{"step", "x", "y", "loss", "adamw.beta1_power", "adamw.beta2_power",
                                               "adamw.m.x", "adamw.v.x", "adamw.m.y", "adamw.v.y"}));
}

}  // namespace
}  // namespace quern::compute::program
