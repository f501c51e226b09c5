#include "sim/market/tables.h"

#include <cstdio>

#include "base/rng.h"
#include "compute/core/verification_report.h"
#include "sim/market/formulas.h"
#include "sim/market/money.h"

namespace quern::sim::market {
namespace {

constexpr double kFee = static_cast<double>(chain::params::kVerifierFeeNumerator) /
                        static_cast<double>(chain::params::kVerifierFeeDenominator);
constexpr std::uint64_t kTrials = 4'000;

template <class... Parts>
std::string line(const char* form, Parts... parts) {
    char text[256];
    std::snprintf(text, sizeof text, form, parts...);
    return text;
}

// How often m verifiers, drawn for their segments as the chain draws them, have one of the first `faked`.
double drawn_detection(std::uint64_t n, std::uint64_t faked, std::uint64_t samples, std::uint64_t verifiers) {
    SeededRng rng(1);
    std::uint64_t found = 0;
    for (std::uint64_t trial = 0; trial < kTrials; ++trial) {
        Hash32 beacon;
        rng.fill(beacon.data);
        bool seen = false;
        for (std::uint64_t i = 0; i < verifiers; ++i) {
            chain::types::Address address;
            rng.fill(address.data);
            const auto drawn = compute::core::draw_segments(beacon, address, n, samples);
            seen = seen || (!drawn.empty() && drawn.front() < faked);
        }
        found += seen ? 1 : 0;
    }
    return static_cast<double>(found) / static_cast<double>(kTrials);
}

std::string detection_table() {
    constexpr std::uint64_t kSegments = 1'200;
    constexpr std::uint64_t kVerifiers = 3;
    std::string text = "samples,of_1,of_2,of_5,of_10,drawn_of_5\n";
    for (std::uint64_t samples = 1; samples <= 40; ++samples) {
        const auto at = [&](std::uint64_t percent) {
            return detection(kSegments, kSegments * percent / 100, samples, kVerifiers);
        };
        text += line("%llu,%.5f,%.5f,%.5f,%.5f,%.5f\n", static_cast<unsigned long long>(kVerifiers * samples), at(1),
                     at(2), at(5), at(10), drawn_detection(kSegments, kSegments / 20, samples, kVerifiers));
    }
    return text;
}

// What it takes to find 5 % of made-up segments with p >= 0.95, in parts of the training's work and price.
std::string cost_table() {
    std::string text = "segments,verifiers,samples,p,work_percent,fee_percent\n";
    for (const std::uint64_t n : {100, 200, 400, 600, 800, 1'000, 1'200, 1'500, 2'000, 3'000, 5'000, 10'000})
        for (const std::uint64_t m : {1, 3, 5}) {
            const std::uint64_t s = samples_for(n, n / 20, m, 0.95);
            const double work = 100 * static_cast<double>(m * s) / static_cast<double>(n);
            text += line("%llu,%llu,%llu,%.4f,%.3f,%.3f\n", static_cast<unsigned long long>(n),
                         static_cast<unsigned long long>(m), static_cast<unsigned long long>(s),
                         detection(n, n / 20, s, m), work, kFee * work);
        }
    return text;
}

// By the tax, in parts of what all samples cost whoever computes them: how much of the bonds watches, how many reports
// are looked at, and what a report earns a verifier that looks and one that does not, in parts of what looking costs.
// Computing costs `kCost` of the price; a lock is ten fees.
std::string watching_table() {
    constexpr double kCost = 0.5;
    const chain::params::MarketParams market;
    const double fee = kFee / kCost;
    const double lock = static_cast<double>(market.verifier_bond_fees) * fee;
    std::string text = "tax,watching,watched,honest,lazy\n";
    for (int tenths = 5; tenths <= 60; ++tenths) {
        const double tax = static_cast<double>(tenths) / 20;
        const double part = watching_at_balance(tax, 1);
        const double seen = watched(part);
        text += line("%.2f,%.4f,%.4f,%.4f,%.4f\n", tax, part, seen, fee - 1, fee * (1 - seen) - lock * seen);
    }
    return text;
}

// How often a coalition has a draw, and what an invented task earns it that it serves to its own verifiers only: the
// bid where it has the draw, else what a solver loses whose data is missing; in parts of the reward at the cap.
std::string draws_table() {
    constexpr double kBid = 0.8;
    const chain::params::MarketParams market;
    const double lost = static_cast<double>(chain::params::kSolverRewardMultiple) *
                        static_cast<double>(market.data_missing_slash_percent) / 100;
    std::string text = "share,draws_1,draws_3,draws_5,draws_7,draws_9,draws_15,earns_3,earns_5,earns_9,earns_15\n";
    for (int percent = 0; percent <= 60; percent += 2) {
        const double share = percent / 100.0;
        const auto earns = [&](std::uint64_t m) {
            const double won = majority(share, m);
            return won * kBid - (1 - won) * lost;
        };
        text += line("%.2f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f\n", share, majority(share, 1),
                     majority(share, 3), majority(share, 5), majority(share, 7), majority(share, 9),
                     majority(share, 15), earns(3), earns(5), earns(9), earns(15));
    }
    return text;
}

}  // namespace

std::string csv_header() {
    return "scenario,swept,value,seed,run,purse,tasks,assigned,settled,lies,paid_lies,reports,watches,accusations,"
           "received,jackpots,slashed,gas,cost,profit,reward,fee,tax,forced,found,watched,all_reports\n";
}

std::string csv_rows(const std::string& scenario, const std::string& swept, std::uint64_t value,
                     const Settings& settings, const RunResult& run) {
    std::string text;
    const auto count = [](std::uint64_t number) { return std::to_string(number) + ","; };
    const auto money = [](double qrn) { return line("%.6f,", qrn); };
    for (std::size_t i = 0; i < run.names.size(); ++i) {
        const auto& purse = run.purses[i];
        auto received = purse.received;
        received.erase("storage_deposit");
        const auto jackpots = received.find("jackpot");
        text += scenario + "," + swept + "," + count(value) + count(settings.seed) + "\"" + run.name + "\"," +
                run.names[i] + "," + count(settings.tasks) + count(purse.assigned) + count(purse.settled) +
                count(purse.lies) + count(purse.paid_lies) + count(purse.reports) + count(purse.watches) +
                count(purse.accusations) + money(to_qrn(sum(received))) +
                money(jackpots == received.end() ? 0 : to_qrn(jackpots->second)) + money(to_qrn(sum(purse.slashed))) +
                money(to_qrn(purse.gas)) + money(to_qrn(purse.cost)) + money(purse.profit()) +
                money(to_qrn(run.reward)) + money(to_qrn(run.fee)) + money(to_qrn(run.tax)) + count(run.forced) +
                count(run.found) + count(run.watched) + std::to_string(run.reports) + "\n";
    }
    return text;
}

const std::vector<Table>& tables() {
    static const std::vector<Table> all = {
        {"detection", "how likely a lie is sampled, by samples of three verifiers of 1,200 segments", detection_table},
        {"cost", "the fewest samples that find 5 % of made-up segments with p >= 0.95, and what they cost", cost_table},
        {"watching", "what a tax brings about: who watches, and what passing without looking earns", watching_table},
        {"draws", "how often a coalition has a draw, by its part of the bonds, and what an invention earns it",
         draws_table},
    };
    return all;
}

const Table* find_table(std::string_view name) {
    for (const auto& table : tables())
        if (table.name == name) return &table;
    return nullptr;
}

}  // namespace quern::sim::market
