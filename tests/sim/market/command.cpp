#include "sim/market/command.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>

#include "base/log.h"
#include "bin/terminal.h"
#include "sim/market/money.h"
#include "sim/market/scenario.h"
#include "sim/market/tables.h"

namespace quern::sim::market {
namespace {

constexpr std::uint64_t kLastSeed = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMostRuns = 1'000'000;

struct Value {
    std::string name;
    std::uint64_t value = 0;
};

Expected<std::uint64_t> read_number(const std::string& name, const std::string& text) {
    const auto number = Uint256::from_decimal(text);
    if (!number || !number->fits_u64())
        return fail("sim.bad_number", name + ": \"" + text + "\" is no whole number from 0 to 2^64 - 1");
    return number->low_u64();
}
// "name=value".
Expected<Value> read_value(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) return fail("sim.bad_value", text + " is not NAME=VALUE");
    const std::string name = text.substr(0, equals);
    QUERN_TRY(const auto number, read_number(name, text.substr(equals + 1)));
    return Value{name, number};
}
// "name=value,value,…".
Expected<std::vector<Value>> read_sweep(const std::string& text) {
    std::vector<Value> values;
    const auto equals = text.find('=');
    if (equals == std::string::npos) return fail("sim.bad_value", text + " is not NAME=VALUE,VALUE…");
    const std::string name = text.substr(0, equals);
    for (std::size_t from = equals + 1; from <= text.size();) {
        const auto to = std::min(text.find(',', from), text.size());
        QUERN_TRY(const auto number, read_number(name, text.substr(from, to - from)));
        values.push_back({name, number});
        from = to + 1;
    }
    return values;
}

// Where along a parameter a scenario stops coming out, or begins to.
struct Search {
    std::string name;
    std::uint64_t low = 0;
    std::uint64_t high = 0;
};
// "name=low:high".
Expected<Search> read_search(const std::string& text) {
    const auto equals = text.find('=');
    const auto colon = text.find(':');
    if (equals == std::string::npos || colon == std::string::npos || colon < equals)
        return fail("sim.bad_value", text + " is not NAME=LOW:HIGH");
    Search search{text.substr(0, equals)};
    QUERN_TRY(search.low, read_number(search.name, text.substr(equals + 1, colon - equals - 1)));
    QUERN_TRY(search.high, read_number(search.name, text.substr(colon + 1)));
    if (search.low >= search.high) return fail("sim.bad_value", text + ": the first is not below the second");
    return search;
}

void print_run(const RunResult& run) {
    std::printf("  %s: %llu blocks, %llu transactions, %llu reports, %llu forced, %llu found, %llu looked at\n",
                run.name.c_str(), static_cast<unsigned long long>(run.blocks),
                static_cast<unsigned long long>(run.transactions), static_cast<unsigned long long>(run.reports),
                static_cast<unsigned long long>(run.forced), static_cast<unsigned long long>(run.found),
                static_cast<unsigned long long>(run.watched));
    std::printf("    %-12s %8s %8s %8s %8s %10s %9s %9s %9s %9s %10s\n", "QRN", "settled", "lies", "reports", "watches",
                "received", "slashed", "escrowed", "gas", "computing", "profit");
    for (std::size_t i = 0; i < run.names.size(); ++i) {
        const auto& purse = run.purses[i];
        auto received = purse.received;
        received.erase("storage_deposit");
        std::printf("    %-12s %8llu %8llu %8llu %8llu %10.3f %9.3f %9.3f %9.4f %9.3f %10.3f\n", run.names[i].c_str(),
                    static_cast<unsigned long long>(purse.settled), static_cast<unsigned long long>(purse.lies),
                    static_cast<unsigned long long>(purse.reports), static_cast<unsigned long long>(purse.watches),
                    to_qrn(sum(received)), to_qrn(sum(purse.slashed)), to_qrn(purse.escrowed), to_qrn(purse.gas),
                    to_qrn(purse.cost), purse.profit());
    }
}

void print_details(const RunResult& run) {
    for (std::size_t i = 0; i < run.names.size(); ++i) {
        for (const auto& [reason, amount] : run.purses[i].received)
            std::printf("    %s received %.4f: %s\n", run.names[i].c_str(), to_qrn(amount), reason.c_str());
        for (const auto& [reason, amount] : run.purses[i].slashed)
            std::printf("    %s lost %.4f: %s\n", run.names[i].c_str(), to_qrn(amount), reason.c_str());
    }
    for (const auto& [end, count] : run.ends)
        std::printf("    %llu tasks: %s\n", static_cast<unsigned long long>(count), end.c_str());
    for (const auto& [end, count] : run.disputes)
        std::printf("    %llu disputes: %s\n", static_cast<unsigned long long>(count), end.c_str());
    for (const auto& [name, count] : run.refusals)
        std::printf("    %llu refused: %s\n", static_cast<unsigned long long>(count), name.c_str());
}

void print_findings(const Findings& findings) {
    for (const auto& finding : findings) {
        const char* word = "";
        switch (finding.kind) {
            case Finding::Kind::holds:
                word = "ok";
                break;
            case Finding::Kind::fails:
                word = "FAIL";
                break;
            case Finding::Kind::pays:
                word = "known: pays";
                break;
            case Finding::Kind::pays_not:
                word = "known: does not pay here";
                break;
        }
        std::printf("  %s: %s\n", word, finding.text.c_str());
    }
}

void list() {
    for (const auto& scenario : scenarios()) std::printf("%-16s %s\n", scenario.name.c_str(), scenario.summary.c_str());
    std::printf("\nNumbers, beside the parameters of a genesis file's section market:\n");
    for (const auto& [name, doc, standard] : setting_names())
        std::printf("%-16s %s (%llu)\n", std::string(name).c_str(), std::string(doc).c_str(),
                    static_cast<unsigned long long>(standard));
    std::printf("\nTables:\n");
    for (const auto& table : tables()) std::printf("%-16s %s\n", table.name.c_str(), table.summary.c_str());
}

Status write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return fault("sim.write_failed", path);
    return {};
}

// Opened for appending, so that what is there stays until there is something to write.
Status check_writable(const std::string& path) {
    if (!std::ofstream(path, std::ios::binary | std::ios::app)) return fault("sim.write_failed", path);
    return {};
}

bool comes_out(const Outcome& outcome) {
    return std::none_of(outcome.findings.begin(), outcome.findings.end(), [](const Finding& each) {
        return each.kind == Finding::Kind::fails || each.kind == Finding::Kind::pays;
    });
}

int complain(const Error& error) {
    std::fprintf(stderr, "%s\n", error.to_string().c_str());
    return 2;
}

}  // namespace

int market_command(std::span<const char* const> arguments) {
    CLI::App app{
        "Plays the compute market with honest, idle and lying purses over the chain's own handlers, and says "
        "who gains by what. Money is QRN; who computes pays for it beside the chain."};
    app.name("quern-sim market");
    std::vector<std::string> names;
    std::vector<std::string> given;
    std::string sweep;
    std::string search_text;
    std::string csv;
    std::string table;
    std::uint64_t seed = 1;
    std::uint64_t tasks = 0;
    std::uint64_t seeds = 1;
    bool show_list = false;
    bool details = false;
    bool beyond = false;
    app.add_flag("--list", show_list, "scenarios, numbers and tables by name");
    app.add_option("--scenario", names, "which ones; default: all");
    // CLI11 takes -4 as 2^64 - 4.
    app.add_option("--seed", seed)->capture_default_str()->check(CLI::Range(kLastSeed));
    app.add_option("--seeds", seeds, "so many runs, with this seed and those that follow it")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, kMostRuns));
    app.add_option("--tasks", tasks, "of a run; default: the scenario's")
        ->check(CLI::Range(std::uint64_t{1}, kMostRuns));
    app.add_option("--param", given, "NAME=VALUE, instead of the scenario's or a genesis' default");
    app.add_option("--sweep", sweep, "NAME=V1,V2,…: plays the scenarios with each of these");
    app.add_option("--search", search_text,
                   "NAME=LOW:HIGH: the value between these where the scenarios cease or begin to come out, with nobody "
                   "gaining by what is known to be open, in all --seeds");
    app.add_option("--csv", csv, "a line for each purse of each run into this file");
    app.add_option("--table", table, "writes a table of formulas to --csv or the terminal");
    app.add_flag("--details", details, "what was received and lost for what");
    app.add_flag("--beyond-limits", beyond, "take parameters that no genesis file may have");
    std::vector<const char*> all{"market"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    if (const auto code = parse_command_line(app, "quern-sim market", static_cast<int>(all.size()), all.data()))
        return *code;
    (void)log::configure({.level = log::Level::off});
    if (show_list) {
        list();
        return 0;
    }
    if (!csv.empty())
        if (const auto status = check_writable(csv); !status) return complain(status.error());
    if (!table.empty()) {
        const auto* found = find_table(table);
        if (found == nullptr) return complain(Error{"sim.unknown_table", table});
        const std::string text = found->write();
        if (csv.empty()) {
            std::printf("%s", text.c_str());
            return 0;
        }
        const auto written = write_file(csv, text);
        return written ? 0 : complain(written.error());
    }
    std::vector<const Scenario*> chosen;
    for (const auto& name : names) {
        chosen.push_back(find_scenario(name));
        if (chosen.back() == nullptr) return complain(Error{"sim.unknown_scenario", name});
    }
    if (names.empty())
        for (const auto& scenario : scenarios()) chosen.push_back(&scenario);
    std::vector<Value> values;
    for (const auto& text : given) {
        const auto value = read_value(text);
        if (!value) return complain(value.error());
        values.push_back(*value);
    }
    std::vector<Value> swept{{}};
    if (!sweep.empty()) {
        auto read = read_sweep(sweep);
        if (!read) return complain(read.error());
        swept = std::move(*read);
    }

    // The scenario's numbers with those that were given.
    const auto settings_of = [&](const Scenario& scenario, const Value& point,
                                 std::uint64_t number) -> Expected<Settings> {
        Settings settings;
        scenario.defaults(settings);
        settings.seed = seed + number;
        if (tasks != 0) settings.tasks = tasks;
        for (const auto& value : values) QUERN_CHECK(set(settings, value.name, value.value, beyond));
        if (!point.name.empty()) QUERN_CHECK(set(settings, point.name, point.value, beyond));
        return settings;
    };

    if (!search_text.empty()) {
        const auto search = read_search(search_text);
        if (!search) return complain(search.error());
        for (const auto* scenario : chosen) {
            const auto holds = [&](std::uint64_t value) -> Expected<bool> {
                for (std::uint64_t i = 0; i < seeds; ++i) {
                    QUERN_TRY(const auto settings, settings_of(*scenario, {search->name, value}, i));
                    if (!comes_out(play(*scenario, settings))) return false;
                }
                return true;
            };
            auto low = search->low;
            auto high = search->high;
            const auto at_low = holds(low);
            const auto at_high = holds(high);
            if (!at_low) return complain(at_low.error());
            if (!at_high) return complain(at_high.error());
            const auto say = [](bool it) { return it ? "comes out" : "does not come out"; };
            if (*at_low == *at_high) {
                std::printf("%s %s with %s %llu and %llu\n", scenario->name.c_str(), say(*at_low), search->name.c_str(),
                            static_cast<unsigned long long>(low), static_cast<unsigned long long>(high));
                continue;
            }
            while (low + 1 < high) {
                const auto middle = low + (high - low) / 2;
                const auto at_middle = holds(middle);
                if (!at_middle) return complain(at_middle.error());
                (*at_middle == *at_low ? low : high) = middle;
            }
            std::printf("%s %s with %s up to %llu, and %s from %llu on\n", scenario->name.c_str(), say(*at_low),
                        search->name.c_str(), static_cast<unsigned long long>(low), say(*at_high),
                        static_cast<unsigned long long>(high));
        }
        return 0;
    }

    const auto began = std::chrono::steady_clock::now();
    std::uint64_t passed = 0;
    std::uint64_t failed = 0;
    std::string rows = csv_header();
    for (const auto* scenario : chosen) {
        for (const auto& point : swept) {
            for (std::uint64_t i = 0; i < seeds; ++i) {
                const auto made = settings_of(*scenario, point, i);
                if (!made) return complain(made.error());
                const Settings& settings = *made;
                std::printf("%s", scenario->name.c_str());
                if (!point.name.empty())
                    std::printf(", %s %llu", point.name.c_str(), static_cast<unsigned long long>(point.value));
                if (seeds > 1) std::printf(", seed %llu", static_cast<unsigned long long>(settings.seed));
                std::printf(": %s\n", scenario->summary.c_str());
                const auto outcome = play(*scenario, settings);
                for (const auto& run : outcome.runs) {
                    print_run(run);
                    if (details) print_details(run);
                    rows += csv_rows(scenario->name, point.name, point.value, settings, run);
                }
                print_findings(outcome.findings);
                std::fflush(stdout);
                ++(outcome.passed() ? passed : failed);
            }
        }
    }
    // What the world of the handlers' tests checks of itself.
    if (::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) {
        std::printf("FAIL: a check of the chain's world failed, see above\n");
        ++failed;
    }
    if (!csv.empty())
        if (const auto status = write_file(csv, rows); !status) return complain(status.error());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("%.1f s\n%llu passed, %llu failed\n", seconds, static_cast<unsigned long long>(passed),
                static_cast<unsigned long long>(failed));
    return failed == 0 ? 0 : 1;
}

}  // namespace quern::sim::market
