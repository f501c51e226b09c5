// The market simulation's own rules: that its accounts add up, that its formulas are those of the draws, that a
// scenario fails when the rule that it is about is gone, and that a run follows from its seed.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/market/formulas.h"
#include "sim/market/money.h"
#include "sim/market/scenario.h"
#include "sim/market/tables.h"
#include "sim/market/training.h"

namespace quern::sim::market {
namespace {

Outcome play_with(std::string_view name, const std::vector<std::pair<std::string, std::uint64_t>>& values) {
    const auto* scenario = find_scenario(name);
    EXPECT_NE(scenario, nullptr);
    Settings settings;
    scenario->defaults(settings);
    settings.tasks = 6;
    for (const auto& [setting, value] : values) EXPECT_TRUE(set(settings, setting, value));
    return play(*scenario, settings);
}

std::string failures(const Outcome& outcome) {
    std::string text;
    for (const auto& finding : outcome.findings)
        if (finding.kind == Finding::Kind::fails) text += finding.text + "\n";
    return text;
}

TEST(MarketSim, histories_are_what_the_machine_computes) {
    const Training training(6, 2);
    EXPECT_EQ(training.with_faked({}).root, training.truth().root);
    const auto faked = training.with_faked({2});
    // The altered output of step 6, from which it goes on as it should.
    const auto same = exec::test::compute_history(training.programs(), 6, 1U << 18);
    EXPECT_EQ(faked.root, same.root);
    EXPECT_EQ(faked.step_roots, same.step_roots);
    const auto replayed = training.replayed(faked, 2);
    EXPECT_EQ(replayed.step_roots[6], training.truth().step_roots[6]);
    EXPECT_EQ(replayed.step_roots[7], faked.step_roots[7]) << "where it was not drawn it repeats what was claimed";
    EXPECT_EQ(training.replayed(faked, 1).root, faked.root);
}

TEST(MarketSim, all_money_is_somewhere) {
    const auto outcome = play_with("cheating", {});
    EXPECT_TRUE(outcome.passed()) << failures(outcome);
    for (const auto& run : outcome.runs) {
        EXPECT_TRUE(run.faults.empty()) << run.faults.front();
        EXPECT_FALSE(run.minted.is_zero());
        EXPECT_GT(run.burned, Uint256());
        const auto& cheats = run.of("cheats");
        EXPECT_GT(sum(cheats.slashed), Uint256());
    }
    const auto dearer = play_with("cheating", {{"cost_percent", 100}});
    const auto& before = outcome.runs[0].of("verifiers");
    const auto& after = dearer.runs[0].of("verifiers");
    EXPECT_EQ(after.cost, before.cost * Uint256(2)) << "computing is paid for by the unit, beside the chain";
    EXPECT_EQ(after.after, before.after);
}

TEST(MarketSim, the_same_seed_is_the_same_run) {
    const auto once = play_with("lazy", {});
    const auto again = play_with("lazy", {});
    Settings settings;
    EXPECT_EQ(csv_rows("lazy", "", 0, settings, once.runs[0]), csv_rows("lazy", "", 0, settings, again.runs[0]));
}

// What each rule is for: without it a scenario does not come out.
TEST(MarketSim, who_does_not_look_loses_as_long_as_errors_are_forced) {
    const auto with = play_with("lazy", {});
    EXPECT_TRUE(with.passed()) << failures(with);
    const auto without = play_with("lazy", {{"forced_error_inverse", 0}});
    EXPECT_FALSE(without.passed()) << "with nothing to be found nobody looks";
    const auto unwatched = play_with("lazy", {{"watch_percent", 0}});
    EXPECT_FALSE(unwatched.passed()) << "nor where nobody watches";
}

TEST(MarketSim, what_is_known_to_pay_is_said) {
    const auto kind = [](const Outcome& outcome) { return outcome.findings.front().kind; };
    EXPECT_EQ(kind(play_with("withholding", {{"tasks", 32}, {"share_percent", 40}})), Finding::Kind::pays);
    EXPECT_EQ(
        kind(play_with("withholding", {{"tasks", 32}, {"share_percent", 40}, {"data_missing_slash_percent", 40}})),
        Finding::Kind::pays_not);
}

TEST(MarketSim, withholding_is_judged_by_what_was_trained_again) {
    const auto outcome = play_with("withholding", {{"tasks", 2}, {"share_percent", 10}});
    EXPECT_FALSE(outcome.passed()) << "nothing was doubted";
    EXPECT_NE(failures(outcome).find("trained again and accused: 0"), std::string::npos) << failures(outcome);
}

TEST(MarketSim, detection_is_that_of_the_draws) {
    EXPECT_DOUBLE_EQ(detection(10, 1, 1, 1), 0.1);
    EXPECT_NEAR(detection(10, 2, 2, 1), 1 - 8.0 * 7.0 / (10.0 * 9.0), 1e-12);
    EXPECT_DOUBLE_EQ(detection(10, 1, 10, 1), 1);
    EXPECT_DOUBLE_EQ(detection(10, 0, 10, 3), 0);
    EXPECT_GE(detection(1'200, 60, 20, 3), 0.95);
    EXPECT_EQ(samples_for(1'200, 60, 3, 0.95), 20U);
    // 4,000 draws: three standard deviations are 0.011 at most.
    const std::string table = find_table("detection")->write();
    const auto row = table.find("\n60,");
    ASSERT_NE(row, std::string::npos);
    double of_5 = 0;
    double drawn = 0;
    ASSERT_EQ(std::sscanf(table.c_str() + row + 1, "60,%*f,%*f,%lf,%*f,%lf", &of_5, &drawn), 2);
    EXPECT_NEAR(of_5, drawn, 0.011);
}

TEST(MarketSim, a_coalition_has_draws_as_often_as_its_bonds_say) {
    EXPECT_NEAR(majority(1.0 / 3, 3), 7.0 / 27, 1e-12);
    EXPECT_NEAR(majority(1.0 / 3, 1), 1.0 / 3, 1e-12);
    EXPECT_NEAR(majority(0.5, 2), 0.75, 1e-12) << "one stranger of two is no majority that misses data";
    EXPECT_DOUBLE_EQ(majority(1, 9), 1);
    EXPECT_NEAR(watched(1), 1 - std::exp(-2.0), 1e-12);
    EXPECT_DOUBLE_EQ(watching_at_balance(1, 1), 0);
    const double balance = watching_at_balance(2, 1);
    EXPECT_NEAR(2 * watcher_income(balance), 1, 1e-12) << "where it pays just what it costs";
}

TEST(MarketSim, numbers_are_set_by_name) {
    Settings settings;
    EXPECT_TRUE(set(settings, "samples", 7));
    EXPECT_EQ(settings.samples, 7U);
    EXPECT_TRUE(set(settings, "burn_percent", 30));
    EXPECT_EQ(settings.chain.market.burn_percent, 30U);
    EXPECT_EQ(set(settings, "nonsense", 1).error().name, "sim.unknown_parameter");
    EXPECT_EQ(set(settings, "burn_percent", 10).error().name, "genesis.bad_parameter");
    EXPECT_TRUE(set(settings, "burn_percent", 10, true));
}

}  // namespace
}  // namespace quern::sim::market
