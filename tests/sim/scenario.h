// What a seed stands for: who takes part, who misbehaves and how, how bad network and disks are and for how long.
#pragma once

#include <string>

#include "base/rng.h"
#include "chain/consensus/sdbft/hooks.h"
#include "sim/light_chain.h"

namespace quern::sim {

enum class Behaviour : std::uint8_t {
    honest,
    silent,       // never sends anything
    slow,         // sends everything late
    selective,    // each message goes to some peers only
    equivocator,  // signs whatever contradicts itself, beside the honest core
    twin,         // two honest cores with one key
    replayer,     // sends again what it once received
};
[[nodiscard]] std::string_view name_of(Behaviour behaviour);

struct Options {
    std::uint64_t seed = 1;
    bool real_signatures = false;
    bool trace = false;
    sdbft::PlantedBug bug = sdbft::PlantedBug::none;
    bool real_executor = false;  // the node's executor, mempool and database instead of the light chain
};

struct Scenario {
    LightGenesis genesis;
    std::vector<Behaviour> behaviour;  // by validator
    std::vector<std::int64_t> clock_skew_ms;
    std::vector<std::uint64_t> clock_rate_percent;
    std::size_t observers = 0;  // nodes without a key
    bool over_budget = false;   // a third of the weight or more is Byzantine: forks are possible
    std::uint64_t delta_ms = 100;
    std::uint64_t min_block_ms = 40;
    std::uint64_t max_idle_ms = 150;
    std::uint64_t heal_at_ms = 6000;  // chaos before, synchrony after
    std::uint64_t delay_min_ms = 1;
    std::uint64_t delay_max_ms = 40;
    std::uint64_t loss_permille = 0;
    std::uint64_t duplication_permille = 0;
    std::uint64_t sync_max_ms = 10;
    std::uint64_t partitions = 0;
    std::uint64_t crashes = 0;
    std::uint64_t all_crash_permille = 0;  // of the crashes, that take every node at once
    std::optional<std::size_t> victim;     // an honest validator whose disk suffers
    bool old_disk = false;                 // it comes back with an earlier disk
    bool lost_journal = false;             // or without its journal
    [[nodiscard]] std::string describe() const;
};
[[nodiscard]] Scenario make_scenario(const Options& options, const std::vector<crypto::PublicKey>& keys, Rng& rng);
inline constexpr std::size_t kMaxValidators = 8;

}  // namespace quern::sim
