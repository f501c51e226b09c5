// One seed: a whole network of real cores over virtual time, network and disks, watched by the auditor. Everything
// follows from the seed, so a run replays exactly. Single-threaded; several simulations may run in parallel.
#pragma once

#include <functional>

#include "chain/consensus/sdbft/core.h"
#include "sim/auditor.h"
#include "sim/scenario.h"

namespace quern::sim {

struct Result {
    std::uint64_t seed = 0;
    std::vector<std::string> failures;
    std::string scenario;
    std::uint64_t height = 0;
    std::uint64_t transactions = 0;  // in final blocks
    std::uint64_t committee_changes = 0;
    std::uint64_t convictions = 0;  // by evidence in final blocks
    std::uint64_t virtual_ms = 0;
    std::uint64_t deliveries = 0;
    bool forked = false;
    std::size_t chains_that_convicted = 0;  // a third of the weight or more after a fork, of honest nodes
    std::set<std::string_view> limits_reached;
    std::map<std::string_view, std::uint64_t> forgeries;  // by kind
    std::uint64_t digest = 0;                             // of everything that happened
    [[nodiscard]] bool passed() const { return failures.empty(); }
};

// `trace` gets one line per event; null for none.
[[nodiscard]] Result run_seed(const Options& options, const std::function<void(const std::string&)>& trace = nullptr);
// Whether the seed is one of those in which a third of the weight or more is Byzantine.
[[nodiscard]] bool is_over_budget(const Options& options);

}  // namespace quern::sim
