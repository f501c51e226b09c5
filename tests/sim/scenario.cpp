#include "sim/scenario.h"

#include <algorithm>

#include "chain/params/params.h"

namespace quern::sim {
namespace {
bool chance(Rng& rng, std::uint64_t percent) { return rng.below(100) < percent; }
}  // namespace

std::string_view name_of(Behaviour behaviour) {
    switch (behaviour) {
        case Behaviour::honest:
            return "honest";
        case Behaviour::silent:
            return "silent";
        case Behaviour::slow:
            return "slow";
        case Behaviour::selective:
            return "selective";
        case Behaviour::equivocator:
            return "equivocator";
        case Behaviour::twin:
            return "twin";
        case Behaviour::replayer:
            return "replayer";
    }
    return "?";
}

std::string Scenario::describe() const {
    std::string text = std::to_string(behaviour.size()) + " validators, epochs of " +
                       std::to_string(genesis.epoch_length) + ", stakes";
    for (std::size_t i = 0; i < behaviour.size(); ++i) {
        text.append(" ").append(std::to_string(genesis.stake[i]));
        if (behaviour[i] != Behaviour::honest) text.append("(").append(name_of(behaviour[i])).append(")");
    }
    return text + "; " + std::to_string(observers) + " observers; delay " + std::to_string(delay_min_ms) + ".." +
           std::to_string(delay_max_ms) + " ms, loss " + std::to_string(loss_permille) + "/1000, duplication " +
           std::to_string(duplication_permille) + "/1000, " + std::to_string(partitions) + " partitions, " +
           std::to_string(crashes) + " crashes" + (old_disk ? ", old disk" : "") +
           (lost_journal ? ", lost journal" : "") + (over_budget ? ", over budget" : "") + "; heals at " +
           std::to_string(heal_at_ms) + " ms";
}

Scenario make_scenario(const Options& options, const std::vector<crypto::PublicKey>& keys, Rng& rng) {
    Scenario s;
    const std::size_t voters = 4 + rng.below(options.real_signatures ? 1 : 4);
    const bool joiner = chance(rng, 40);
    const std::size_t validators = std::min(kMaxValidators, voters + (joiner ? 1 : 0));
    auto& genesis = s.genesis;
    genesis.block = make_genesis_block();
    genesis.epoch_length = 3 + rng.below(8);
    if (options.real_executor) genesis.epoch_length = std::max(genesis.epoch_length, chain::params::kMinEpochLength);
    genesis.keys.assign(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(validators));
    const bool equal_weights = chance(rng, 40);
    for (std::size_t i = 0; i < validators; ++i) {
        const bool votes = i < voters;
        genesis.stake.push_back(!votes ? 0 : equal_weights ? 10 : 2 + rng.below(20));
    }
    s.behaviour.assign(validators, Behaviour::honest);
    std::uint64_t total = 0;
    for (const auto stake : genesis.stake) total += stake;
    std::uint64_t faulty = 0;
    s.over_budget = chance(rng, 6) && options.bug == sdbft::PlantedBug::none;
    const auto within = [&](std::uint64_t weight) { return 3 * (faulty + weight) < total; };
    if (s.over_budget) {
        // Twins on both sides of a partition that lasts: each side believes it is the chain.
        for (std::size_t i = 0; i < voters && 3 * faulty <= total; ++i) {
            s.behaviour[i] = Behaviour::twin;
            faulty += genesis.stake[i];
        }
    } else if (chance(rng, 75)) {
        for (std::size_t i = 0; i < voters; ++i) {
            if (!within(genesis.stake[i])) continue;
            static constexpr Behaviour kKinds[] = {Behaviour::silent,      Behaviour::slow, Behaviour::selective,
                                                   Behaviour::equivocator, Behaviour::twin, Behaviour::replayer};
            s.behaviour[i] = kKinds[rng.below(std::size(kKinds))];
            faulty += genesis.stake[i];
            if (chance(rng, 50)) break;
        }
    }
    // Only honest stake moves, and only upwards from where it began: the faulty share never grows.
    genesis.pool = 60;
    for (std::size_t i = 0; i < validators; ++i) {
        genesis.floor.push_back(genesis.stake[i]);
        genesis.ceiling.push_back(s.behaviour[i] == Behaviour::honest ? genesis.stake[i] + 20 : genesis.stake[i]);
        s.clock_skew_ms.push_back(static_cast<std::int64_t>(rng.below(1600)) - 800);
        s.clock_rate_percent.push_back(chance(rng, 50) ? 100 : 90 + rng.below(21));
    }
    s.observers = chance(rng, 25) ? 1 : 0;
    s.heal_at_ms = 2000 + rng.below(5000);
    const bool calm = chance(rng, 15);
    if (!calm) {
        s.delay_max_ms = 5 + rng.below(chance(rng, 30) ? 400 : 90);
        s.loss_permille = chance(rng, 60) ? rng.below(250) : 0;
        s.duplication_permille = chance(rng, 50) ? rng.below(200) : 0;
        s.sync_max_ms = 1 + rng.below(chance(rng, 20) ? 120 : 15);
        s.partitions = chance(rng, 50) ? 1 + rng.below(3) : 0;
        s.crashes = chance(rng, 65) ? 1 + rng.below(8) : 0;
        s.all_crash_permille = chance(rng, 40) ? 300 : 0;
    }
    if (s.crashes > 0 && !s.over_budget) {
        // Such a validator counts as faulty, so it must fit, and its weight must not grow.
        for (std::size_t i = 0; i < voters && !s.victim; ++i)
            if (s.behaviour[i] == Behaviour::honest && within(genesis.stake[i])) s.victim = i;
        s.old_disk = s.victim && chance(rng, 15);
        s.lost_journal = s.victim && !s.old_disk && chance(rng, 12);
        if (s.old_disk || s.lost_journal) genesis.ceiling[*s.victim] = genesis.stake[*s.victim];
    }
    if (s.over_budget) {
        s.crashes = 0;
        s.partitions = 0;
        s.loss_permille = 0;
    }
    return s;
}

}  // namespace quern::sim
