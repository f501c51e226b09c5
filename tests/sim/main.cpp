// quern-sim: runs seeds of the consensus simulation. Every seed is a network of its own with its own faults; a seed
// replays exactly. Prints what failed and ends with "N passed, N failed". `quern-sim market` plays the market instead
// (market/command.h).
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <span>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "bin/terminal.h"
#include "sim/bugs.h"
#include "sim/market/command.h"
#include "sim/simulation.h"

int main(int argc, char** argv) {
    using namespace quern;
    if (argc > 1 && std::string_view(argv[1]) == "market")
        return sim::market::market_command(std::span(argv, static_cast<std::size_t>(argc)).subspan(2));
    CLI::App app{
        "Simulates SDBFT networks from seeds and checks what must always hold. `quern-sim market` plays the "
        "compute market."};
    std::uint64_t count = 100;
    std::uint64_t first = 1;
    std::uint64_t real_every = 0;
    std::uint64_t real_executor_every = 10;
    bool real_executor = false;
    unsigned threads = 0;
    bool trace = false;
    bool list_forgeries = false;
    bool stop = false;
    bool forks = false;
    std::string bug_name;
    // CLI11 takes -4 as 2^64 - 4.
    const auto not_negative = CLI::Range(std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    app.add_option("-n", count, "number of seeds")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
    app.add_option("--first-seed", first, "the first of them")->capture_default_str()->check(not_negative);
    app.add_flag("--trace", trace, "print every event (one thread)");
    app.add_option("--real-signatures-every", real_every, "ECDSA and ECVRF in each K-th seed; 0 for none")
        ->check(not_negative);
    app.add_option("--real-executor-every", real_executor_every,
                   "the node's executor and database in each K-th seed; 0 for none")
        ->capture_default_str()
        ->check(not_negative);
    app.add_flag("--real", real_executor, "the node's executor and database in every seed");
    app.add_option("--threads", threads, "0 for as many as the machine has; results do not depend on it")
        ->check(CLI::Range(1024U));
    app.add_flag("--forks", forks,
                 "a third of the weight or more is Byzantine in every seed, on both sides of a partition");
    app.add_flag("--stop", stop, "at the first seed that fails");
    app.add_flag("--forgeries", list_forgeries, "print how often each kind of forgery was tried");
    app.add_option("--bug", bug_name, "plant a protocol bug by name, to see it found");
    if (const auto code = parse_command_line(app, "quern-sim", argc, argv)) return *code;
    auto bug = sim::sdbft::PlantedBug::none;
    if (!bug_name.empty()) {
        const auto found = sim::bug_from_name(bug_name);
        if (!found) {
            std::fprintf(stderr, "no such bug; known are:\n");
            for (const auto& name : sim::bug_names()) std::fprintf(stderr, "  %s\n", std::string(name).c_str());
            return 2;
        }
        bug = *found;
    }
    (void)log::configure({.level = trace ? log::Level::info : log::Level::off});
    if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
    if (trace) threads = 1;

    const auto began = std::chrono::steady_clock::now();
    std::vector<sim::Result> results(count);
    std::atomic<std::uint64_t> next{0};
    std::atomic<bool> stopped{false};
    const auto work = [&] {
        for (std::uint64_t i = next++; i < count && !(stop && stopped); i = next++) {
            const std::uint64_t seed = first + i;
            const auto each = [seed](std::uint64_t every) { return every != 0 && seed % every == 0; };
            const sim::Options options{seed, each(real_every), trace, bug, real_executor || each(real_executor_every),
                                       forks};
            results[i] = trace ? sim::run_seed(options, [](const std::string& line) { std::puts(line.c_str()); })
                               : sim::run_seed(options);
            if (!results[i].passed()) stopped = true;
        }
    };
    std::vector<std::thread> pool;
    for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
    for (auto& thread : pool) thread.join();

    std::uint64_t failed = 0;
    std::uint64_t blocks = 0;
    std::uint64_t transactions = 0;
    std::uint64_t committee_changes = 0;
    std::uint64_t convictions = 0;
    std::uint64_t messages = 0;
    std::uint64_t virtual_ms = 0;
    std::uint64_t forked = 0;
    std::uint64_t chains = 0;
    std::set<std::string_view> limits;
    std::map<std::string_view, std::uint64_t> forgeries;
    for (const auto& result : results) {
        blocks += result.height;
        transactions += result.transactions;
        committee_changes += result.committee_changes;
        convictions += result.convictions;
        messages += result.deliveries;
        virtual_ms += result.virtual_ms;
        forked += result.forked ? 1 : 0;
        chains += result.chains_that_convicted;
        limits.insert(result.limits_reached.begin(), result.limits_reached.end());
        for (const auto& [kind, times] : result.forgeries) forgeries[kind] += times;
        if (result.passed()) continue;
        ++failed;
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(result.seed), result.scenario.c_str());
        for (const auto& failure : result.failures) std::printf("  %s\n", failure.c_str());
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf("%llu blocks with %llu transactions, %llu committee changes, %llu convictions, %llu messages\n",
                number(blocks), number(transactions), number(committee_changes), number(convictions), number(messages));
    std::printf("%.0f s of virtual time, %llu forks (all with evidence; %llu chains convicted a third) in %.1f s\n",
                static_cast<double>(virtual_ms) / 1000, number(forked), number(chains), seconds);
    std::uint64_t forged = 0;
    for (const auto& [kind, times] : forgeries) {
        if (list_forgeries) std::printf("  %llu x %s\n", number(times), std::string(kind).c_str());
        forged += times;
    }
    if (list_forgeries)
        for (const auto& limit : limits) std::printf("  limit reached: %s\n", std::string(limit).c_str());
    std::printf("%llu forgeries of %zu kinds, %zu limits reached\n", number(forged), forgeries.size(), limits.size());
    std::printf("%llu passed, %llu failed\n", number(count - failed), number(failed));
    return failed == 0 ? 0 : 1;
}
