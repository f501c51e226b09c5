// What a seed stands for: who takes part, who misbehaves and how, how bad network and disks are and for how long.
#pragma once

#include <string>

#include "base/rng.h"
#include "chain/consensus/sdbft/hooks.h"
#include "chain/consensus/sdbft/limits.h"
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
    forger,       // proposes, signs, certifies and answers what is false (forger.h)
};
[[nodiscard]] std::string_view name_of(Behaviour behaviour);

// What the network does to hurt as long as it may. Beside random delays, which it always has.
enum class Scheduler : std::uint8_t {
    fair,
    below_quorum,   // holds back the vote with which a node would have a quorum
    hides_masters,  // proposals come about when the timer for them runs out
    newest_first,   // what arrives in a tenth of a second arrives in the opposite order
    halves,         // certificates reach every other node only
    overtaken,      // one node after the other hears what is final first, then that it was notarized, then the proposal
    barren,         // proposals arrive, votes for them do not: view after view is given up
};
[[nodiscard]] std::string_view name_of(Scheduler scheduler);

struct Options {
    std::uint64_t seed = 1;
    bool real_signatures = false;
    bool trace = false;
    sdbft::PlantedBug bug = sdbft::PlantedBug::none;
    bool real_executor = false;  // the node's executor, mempool and database instead of the light chain
    bool over_budget = false;    // a third of the weight or more is Byzantine whatever the seed says: forks
    std::optional<Scheduler> scheduler = std::nullopt;  // whatever the seed says
};

struct Scenario {
    LightGenesis genesis;
    std::vector<Behaviour> behaviour;  // by validator
    std::vector<std::int64_t> clock_skew_ms;
    std::vector<std::uint64_t> clock_rate_percent;
    std::size_t observers = 0;  // nodes without a key
    bool over_budget = false;   // a third of the weight or more is Byzantine: forks are possible
    // A quorum of the keys is in one forger's hands: nothing holds of such a chain, but honest nodes still keep to
    // every rule that is not about signatures.
    bool stolen_keys = false;
    std::size_t depth_epochs = 2;  // to finish after the network has healed
    sdbft::Limits limits;
    bool tiny_limits = false;
    std::uint64_t delta_ms = 100;
    std::uint64_t min_block_ms = 40;
    std::uint64_t max_idle_ms = 150;
    std::uint64_t heal_at_ms = 6000;  // chaos before, synchrony after
    std::uint64_t delay_min_ms = 1;
    std::uint64_t delay_max_ms = 40;
    std::uint64_t loss_permille = 0;
    std::uint64_t duplication_permille = 0;
    std::uint64_t sync_max_ms = 10;
    Scheduler scheduler = Scheduler::fair;
    std::uint64_t executor_max_ms = 5;  // for building, validating and committing a block each
    std::uint64_t partitions = 0;
    bool one_way = false;  // partitions: one side hears the other
    std::uint64_t crashes = 0;
    std::uint64_t all_crash_permille = 0;  // of the crashes, that take every node at once
    std::uint64_t failed_writes = 0;       // each takes its node down
    std::optional<std::size_t> victim;     // an honest validator whose disk suffers
    bool old_disk = false;                 // it comes back with an earlier disk
    bool lost_journal = false;             // or without its journal
    bool old_database = false;             // or with an earlier database under the journal as it is: still honest
    bool old_journal = false;              // or with an earlier journal beside the database as it is
    // Or with nothing at all, like a new key's; until then its votes come after everybody else's. It stays honest.
    bool lost_disk = false;
    bool accepted = false;  // of a lost journal: later the operator says that it may sign without
    [[nodiscard]] std::string describe() const;
};
[[nodiscard]] Scenario make_scenario(const Options& options, const std::vector<crypto::PublicKey>& keys, Rng& rng);
inline constexpr std::size_t kMaxValidators = 50;
inline constexpr std::size_t kFewValidators = 8;  // in most seeds

// What a seed is besides its chances follows from its number: each 64th has 20 to 50 validators, each 64th an epoch of
// hundreds of heights, each 16th runs for ten times as long, each 4th has limits so small that all of them are reached.
[[nodiscard]] constexpr bool has_many_validators(std::uint64_t seed) { return seed % 64 == 31; }
[[nodiscard]] constexpr bool has_long_epochs(std::uint64_t seed) { return seed % 64 == 63; }
[[nodiscard]] constexpr bool runs_deep(std::uint64_t seed) { return seed % 16 == 5; }
[[nodiscard]] constexpr bool has_tiny_limits(std::uint64_t seed) { return seed % 4 == 2; }
[[nodiscard]] constexpr bool has_stolen_keys(std::uint64_t seed) { return seed % 32 == 11; }

}  // namespace quern::sim
