// Adam's moments: which slots they are, and that honest ones never break the bound between them.
#include "compute/tolerance/distance/adam_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "base/rng.h"
#include "support/training_game.h"

namespace quern::compute::tolerance::distance {
namespace {

using program::Architecture;
using program::OptimizerConfig;
using vm::tensor::Program;

Program program_of(const std::function<void(OptimizerConfig&)>& change) {
    Architecture architecture = test::small_architecture();
    change(architecture.optimizer);
    return test::train(architecture, 0).program();
}

// What an optimizer makes of gradients, one element: m and v after each.
struct Moments {
    float keep1 = 0.9F;
    float keep2 = 0.999F;
    float m = 0;
    float v = 0;

    void step(float g) {
        const auto flushed = [](float x) { return std::fabs(x) < 0x1p-126F ? 0.0F : x; };
        m = flushed(std::fma(m, keep1, flushed(g * (1.0F - keep1))));
        v = flushed(std::fma(v, keep2, flushed(flushed(g * g) * (1.0F - keep2))));
    }
    [[nodiscard]] bool within(float bound) const {
        return !(std::fma(std::sqrt(v), std::sqrt(bound), kTinyMoment) < std::fabs(m));
    }
};

TEST(AdamMoments, are_found_by_what_updates_them) {
    for (const auto type : {OptimizerConfig::Type::adam, OptimizerConfig::Type::adamw})
        for (const float decay : {0.0F, 0.1F}) {
            const Program training = program_of([&](OptimizerConfig& config) {
                config.type = type;
                config.weight_decay = decay;
            });
            const auto pairs = find_moment_pairs(training);
            std::set<std::size_t> found;
            for (const MomentPair& pair : pairs) {
                const std::string& first = training.slots[pair.first].name;
                const std::string& second = training.slots[pair.second].name;
                const std::size_t m = first.find(".m.");
                ASSERT_NE(m, std::string::npos) << first;
                EXPECT_EQ(second, first.substr(0, m) + ".v." + first.substr(m + 3));
                EXPECT_NEAR(pair.bound, kMomentSlack * 52.857, 0.01);  // 0.01 / (0.001 * (1 - 0.81 / 0.999))
                found.insert(pair.first);
            }
            std::size_t parameters = 0;
            for (const auto& slot : training.slots) parameters += slot.flags & vm::tensor::kSlotParameter;
            EXPECT_EQ(found.size(), parameters);
            EXPECT_EQ(found.size(), pairs.size());
        }
}

TEST(AdamMoments, are_none_of_other_optimizers_and_of_factors_without_a_bound) {
    for (const auto type : {OptimizerConfig::Type::sgd, OptimizerConfig::Type::lion})
        EXPECT_TRUE(find_moment_pairs(program_of([&](OptimizerConfig& config) { config.type = type; })).empty());
    // keep1² >= keep2: gradients that grow by keep1 / keep2 a step take m² / v anywhere.
    EXPECT_TRUE(find_moment_pairs(program_of([](OptimizerConfig& config) {
                    config.beta1 = 0.99F;
                    config.beta2 = 0.98F;
                })).empty());
    EXPECT_FALSE(find_moment_pairs(program_of([](OptimizerConfig& config) {
                     config.beta1 = 0.9F;
                     config.beta2 = 0.95F;
                 })).empty());
}

TEST(AdamMoments, keep_their_bound_whatever_the_gradients_are) {
    for (const auto& [keep1, keep2] : {std::pair{0.9F, 0.999F}, std::pair{0.9F, 0.95F}, std::pair{0.5F, 0.9F}}) {
        const auto pairs = find_moment_pairs(program_of([&, k1 = keep1, k2 = keep2](OptimizerConfig& config) {
            config.beta1 = k1;
            config.beta2 = k2;
        }));
        ASSERT_FALSE(pairs.empty());
        const float bound = pairs.front().bound;
        SeededRng rng(5);
        for (int run = 0; run < 300; ++run) {
            Moments moments{keep1, keep2};
            const int scale = -90 + static_cast<int>(rng.below(150));  // from squares that vanish to large ones
            const bool one_sign = rng.below(2) == 0;
            for (int step = 0; step < 400; ++step) {
                const auto size = static_cast<float>(1 + rng.below(1000)) / 1000;
                const int more = rng.below(20) == 0 ? static_cast<int>(rng.below(12)) : 0;
                moments.step(std::ldexp(one_sign || rng.below(2) == 0 ? size : -size, scale + more));
                ASSERT_TRUE(moments.within(bound)) << keep1 << " " << scale << " " << step;
            }
        }
        // The gradients that come nearest to it grow by keep2 / keep1 a step.
        Moments worst{keep1, keep2};
        float g = 1e-6F;
        for (int step = 0; step < 180 && g < 1e6F; ++step, g *= keep2 / keep1) {
            worst.step(g);
            ASSERT_TRUE(worst.within(bound));
        }
        EXPECT_GT(worst.m, 0.95F * std::sqrt(worst.v * bound));
    }
}

}  // namespace
}  // namespace quern::compute::tolerance::distance
