// The numbers of a market simulation, by name: those of a task and of what computing costs, beside the chain's own
// parameters. Plain values.
#pragma once

#include <string_view>
#include <vector>

#include "base/expected.h"
#include "chain/params/params.h"

namespace quern::sim::market {

// X(member, default, what it is).
#define QUERN_MARKET_SETTINGS(X)                                                                   \
    X(tasks, 16, "tasks of a run")                                                                 \
    X(at_once, 4, "of these at once")                                                              \
    X(segments, 50, "n = N / k: segments of a task")                                               \
    X(interval, 2, "k: steps of a segment")                                                        \
    X(verifiers, 3, "m")                                                                           \
    X(samples, 3, "s: segments that each verifier replays")                                        \
    X(reward_qrn, 20, "what a task's training costs at the price cap")                             \
    X(bid_percent, 80, "what honest solvers bid, of the price cap")                                \
    X(cost_percent, 50, "what computing a work unit costs, of the price cap")                      \
    X(tax_percent, 200, "a task's tax, of what all its verifiers' samples cost at the price cap")  \
    X(share_percent, 33, "a coalition's part of the bonds of each role")                           \
    X(faked_per_mille, 50, "segments that a cheating solver makes up")                             \
    X(watch_percent, 100, "of the watches that it is drawn for, those that a watcher carries out") \
    X(retrain_percent, 0, "of the claims, those that a whistleblower trains again unasked")        \
    X(doubt_percent, 0, "the same of claims of which a verifier says that the data is missing")

struct Settings {
#define QUERN_SETTING(member, standard, doc) std::uint64_t member = standard;
    QUERN_MARKET_SETTINGS(QUERN_SETTING)
#undef QUERN_SETTING
    std::uint64_t seed = 1;
    chain::params::ChainParams chain;

    // Of a real chain but for the time that ended tasks stay, so that deposits come back within a run.
    Settings();
};

struct SettingName {
    std::string_view name;
    std::string_view doc;
    std::uint64_t standard = 0;
};
[[nodiscard]] const std::vector<SettingName>& setting_names();
// One of these, or a parameter of a genesis' section `market`. Errors: sim.unknown_parameter, genesis.bad_parameter
// (whatever its limits say a value is taken where `beyond_limits`: to show what a limit is for).
[[nodiscard]] Status set(Settings& settings, std::string_view name, std::uint64_t value, bool beyond_limits = false);

}  // namespace quern::sim::market
