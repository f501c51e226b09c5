#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "sim/bugs.h"
#include "sim/simulation.h"

namespace quern::sim {
namespace {

TEST(Simulation, seeds_pass) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto result = run_seed({seed, false, false, sdbft::PlantedBug::none});
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        EXPECT_GT(result.height, 0U);
    }
}

TEST(Simulation, a_seed_passes_with_real_signatures) {
    const auto result = run_seed({3, true, false, sdbft::PlantedBug::none});
    EXPECT_TRUE(result.passed()) << (result.passed() ? "" : result.failures[0]);
    EXPECT_GT(result.height, 0U);
}

// The executor, mempool and database of the node, with people who send transactions.
Options real(std::uint64_t seed, bool signatures = false) {
    (void)log::configure({.level = log::Level::off});
    Options options{seed, signatures, false, sdbft::PlantedBug::none};
    options.real_executor = true;
    return options;
}

TEST(Simulation, seeds_pass_with_the_real_executor) {
    std::uint64_t changes = 0;
    std::uint64_t transactions = 0;
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        const auto result = run_seed(real(seed, seed % 5 == 0));
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        transactions += result.transactions;  // a network that is cut for long has none
        changes += result.committee_changes;
    }
    EXPECT_GT(transactions, 500U);
    EXPECT_GT(changes, 10U);
}

TEST(Simulation, evidence_in_blocks_convicts_double_signers) {
    std::uint64_t convictions = 0;
    for (std::uint64_t seed = 1; seed <= 30 && convictions < 2; ++seed) {
        const auto result = run_seed(real(seed, true));
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        convictions += result.convictions;
    }
    EXPECT_GE(convictions, 2U);
}

TEST(Simulation, a_seed_with_the_real_executor_replays_exactly) {
    const auto first = run_seed(real(7));
    const auto second = run_seed(real(7));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.transactions, second.transactions);
    EXPECT_NE(first.digest, run_seed(real(8)).digest);
}

TEST(Simulation, a_seed_replays_exactly_with_and_without_a_trace) {
    for (std::uint64_t seed = 4; seed <= 6; ++seed) {
        const Options options{seed, false, false, sdbft::PlantedBug::none};
        std::size_t lines = 0;
        const auto first = run_seed(options);
        const auto second = run_seed(options, [&lines](const std::string&) { ++lines; });
        EXPECT_EQ(first.digest, second.digest);
        EXPECT_EQ(first.height, second.height);
        EXPECT_GT(lines, 100U);
        EXPECT_NE(first.digest, run_seed({seed + 100, false, false, sdbft::PlantedBug::none}).digest);
    }
}

TEST(Simulation, seeds_reach_limits_and_forge_in_every_way) {
    // Every 16th of these runs deep, every 4th has limits small enough to be reached.
    const std::set<std::string_view> wanted = {"future_views",           "future_proposals",
                                               "kept_vote_views",        "kept_final_views",
                                               "wanted_blocks",          "pending_messages",
                                               "pending_bytes",          "pending_peers",
                                               "peers_helped",           "nullifications_per_proposal",
                                               "certificates_per_query", "blocks_kept"};
    std::set<std::string_view> limits;
    std::set<std::string_view> forgeries;
    const auto all_reached = [&] {
        return std::includes(limits.begin(), limits.end(), wanted.begin(), wanted.end()) && forgeries.size() >= 35;
    };
    for (std::uint64_t seed = 1; seed <= 3000 && !all_reached(); ++seed) {
        if (!has_tiny_limits(seed) && seed % 2 != 0) continue;
        const auto result = run_seed({seed, false, false, sdbft::PlantedBug::none});
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        limits.insert(result.limits_reached.begin(), result.limits_reached.end());
        for (const auto& [kind, times] : result.forgeries) forgeries.insert(kind);
    }
    for (const std::string_view limit : wanted) EXPECT_TRUE(limits.contains(limit)) << limit;
    EXPECT_GE(forgeries.size(), 35U);
}

TEST(Simulation, a_seed_with_many_validators_and_one_with_long_epochs_pass) {
    for (const std::uint64_t seed : {std::uint64_t{31}, std::uint64_t{63}}) {
        const auto result = run_seed({seed, false, false, sdbft::PlantedBug::none});
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        EXPECT_TRUE(has_many_validators(seed) || result.height > 100U);
    }
}

TEST(Simulation, a_fork_by_a_third_of_the_weight_convicts_it) {
    // Seeds with too many twins on both sides of a partition; the auditor fails a fork without enough convictions.
    std::size_t forks = 0;
    for (std::uint64_t seed = 1; seed <= 400 && forks == 0; ++seed) {
        const Options options{seed, false, false, sdbft::PlantedBug::none};
        if (!is_over_budget(options)) continue;
        const auto result = run_seed(options);
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        forks += result.forked ? 1 : 0;
    }
    EXPECT_GT(forks, 0U);
}

TEST(Simulation, a_fork_is_convicted_on_chain_by_the_evidence_that_nodes_find) {
    // The node's own search over the real executor; the auditor fails a seed in which a node was told of the fork, its
    // chain went on, and less than a third of the weight was convicted on it.
    std::size_t forks = 0;
    std::size_t chains = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        auto options = real(seed, true);
        options.over_budget = true;
        const auto result = run_seed(options);
        EXPECT_TRUE(result.passed()) << "seed " << seed << ": " << (result.passed() ? "" : result.failures[0]);
        forks += result.forked ? 1 : 0;
        chains += result.chains_that_convicted;
    }
    EXPECT_GE(forks, 6U);
    EXPECT_GE(chains, 10U);
}

class PlantedBugs : public ::testing::TestWithParam<std::string_view> {};

TEST_P(PlantedBugs, are_found_within_400_seeds) {
    const auto bug = bug_from_name(GetParam());
    ASSERT_TRUE(bug);
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        Options options{seed, false, false, *bug};
        // What it needs comes by chance in about one seed of 350.
        if (*bug == sdbft::PlantedBug::blames_the_late) options.scheduler = Scheduler::overtaken;
        const auto result = run_seed(options);
        if (result.passed()) continue;
        RecordProperty("seed", std::to_string(seed));
        RecordProperty("found", result.failures[0]);
        return;
    }
    ADD_FAILURE() << "no seed found it";
}

INSTANTIATE_TEST_SUITE_P(Sdbft, PlantedBugs, ::testing::ValuesIn(bug_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace quern::sim
