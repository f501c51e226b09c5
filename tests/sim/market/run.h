// A run of the market simulation: tasks that are submitted, solved, verified and disputed by purses with their
// strategies, in blocks that the chain's own handlers execute. It follows from its settings and seed alone.
#pragma once

#include <memory>

#include "sim/market/purse.h"
#include "sim/market/settings.h"

namespace quern::sim::market {

struct RunSpec {
    std::string name;
    Settings settings;
    std::vector<Group> groups;
};

struct RunResult {
    std::string name;
    std::vector<std::string> names;  // of purses, in the order of the groups ...
    std::vector<Ledger> purses;      // ... and theirs
    std::uint64_t blocks = 0;
    std::uint64_t transactions = 0;
    std::map<std::string, std::uint64_t> ends;      // of tasks, by state and reason
    std::map<std::string, std::uint64_t> disputes;  // by winner and reason
    std::map<std::string, std::uint64_t> refusals;  // of transactions, by name
    std::uint64_t reports = 0;
    std::uint64_t forced = 0;   // reports that had to tell an altered result ...
    std::uint64_t found = 0;    // ... of which somebody was paid for finding it
    std::uint64_t watched = 0;  // reports that some watcher looked at
    Uint256 minted, burned, jackpot_vault, treasury_vault;
    Uint256 lock;  // of a solver
    Uint256 verifier_lock;
    Uint256 fee;
    Uint256 reward;                   // at the cap
    Uint256 tax;                      // of a task
    Uint256 training;                 // what training a task costs whoever computes it
    std::vector<std::string> faults;  // what must not be: an invariant broken, money that does not add up

    [[nodiscard]] const Ledger& of(std::string_view purse) const;
};

[[nodiscard]] RunResult run(const RunSpec& spec);

}  // namespace quern::sim::market
