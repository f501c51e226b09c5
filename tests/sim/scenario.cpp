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
        case Behaviour::forger:
            return "forger";
    }
    return "?";
}

std::string_view name_of(Scheduler scheduler) {
    switch (scheduler) {
        case Scheduler::fair:
            return "fair";
        case Scheduler::below_quorum:
            return "below quorum";
        case Scheduler::hides_masters:
            return "hides masters";
        case Scheduler::newest_first:
            return "newest first";
        case Scheduler::halves:
            return "certificates to every other";
        case Scheduler::overtaken:
            return "proposals overtaken";
        case Scheduler::barren:
            return "barren views";
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
    text += "; " + std::to_string(observers) + " observers; delay " + std::to_string(delay_min_ms) + ".." +
            std::to_string(delay_max_ms) + " ms, loss " + std::to_string(loss_permille) + "/1000, duplication " +
            std::to_string(duplication_permille) + "/1000, scheduler " + std::string(name_of(scheduler)) +
            ", executor " + std::to_string(executor_max_ms) + " ms, " + std::to_string(partitions) +
            (one_way ? " one-way partitions, " : " partitions, ") + std::to_string(crashes) + " crashes, " +
            std::to_string(failed_writes) + " failed writes";
    const auto add = [&text](bool is, std::string_view what) {
        if (is) text.append(", ").append(what);
    };
    add(old_disk, "old disk");
    add(old_database, "old database");
    add(old_journal, "old journal");
    add(lost_journal, accepted ? "lost journal, accepted" : "lost journal");
    add(lost_disk, "lost disk");
    add(over_budget, "over budget");
    add(stolen_keys, "stolen keys");
    add(tiny_limits, "tiny limits");
    return text + "; heals at " + std::to_string(heal_at_ms) + " ms";
}

namespace {

// Small enough to be reached, large enough to go on.
sdbft::Limits tiny(Rng& rng) {
    sdbft::Limits limits;
    limits.future_views = 2 + rng.below(4);
    limits.future_proposals = 1 + rng.below(2);
    limits.kept_vote_views = 2 + rng.below(4);
    limits.kept_final_views = 1 + rng.below(3);
    limits.blocks_kept = 3 + rng.below(13);
    limits.wanted_blocks = 1 + rng.below(2);
    limits.pending_messages = 2 + rng.below(4);
    limits.pending_bytes = 1000 + rng.below(1000);
    limits.pending_peers = 1 + rng.below(3);
    limits.peers_helped = 1 + rng.below(3);
    limits.blank_start_certificates = 1 + rng.below(3);
    limits.range_distance = 1 + rng.below(3);
    limits.nullifications_per_proposal = 1 + rng.below(2);
    limits.certificates_per_query = 1 + rng.below(2);
    return limits;
}

void choose_validators(Scenario& s, const Options& options, const std::vector<crypto::PublicKey>& keys, Rng& rng) {
    const bool many = has_many_validators(options.seed) && !options.real_executor && !options.real_signatures;
    const bool long_epochs = has_long_epochs(options.seed) && !options.real_executor && !options.real_signatures;
    const std::size_t voters =
        many ? 20 + rng.below(chance(rng, 20) ? 30 : 6) : 4 + rng.below(options.real_signatures ? 1 : 4);
    const std::size_t validators = std::min(kMaxValidators, voters + (chance(rng, 40) ? 1 : 0));
    auto& genesis = s.genesis;
    genesis.block = make_genesis_block();
    genesis.epoch_length = long_epochs ? 100 + rng.below(200) : 3 + rng.below(8);
    if (options.real_executor) genesis.epoch_length = std::max(genesis.epoch_length, chain::params::kMinEpochLength);
    genesis.keys.assign(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(validators));
    const bool equal_weights = chance(rng, 40);
    for (std::size_t i = 0; i < validators; ++i)
        genesis.stake.push_back(i >= voters ? 0 : equal_weights ? 10 : 2 + rng.below(20));
    s.behaviour.assign(validators, Behaviour::honest);
    if (many) {
        s.depth_epochs = 1;
        genesis.epoch_length = std::min<std::uint64_t>(genesis.epoch_length, 4);
    }
    if (long_epochs) {
        s.depth_epochs = 1;
        s.delta_ms = 40;
        s.min_block_ms = 10;
        s.max_idle_ms = 30;
    }
    if (runs_deep(options.seed)) s.depth_epochs = 12;
    s.stolen_keys = has_stolen_keys(options.seed) && !options.real_executor;
    s.tiny_limits = has_tiny_limits(options.seed) && !many;
    if (s.tiny_limits) s.limits = tiny(rng);
}

}  // namespace

Scenario make_scenario(const Options& options, const std::vector<crypto::PublicKey>& keys, Rng& rng) {
    Scenario s;
    choose_validators(s, options, keys, rng);
    auto& genesis = s.genesis;
    const std::size_t validators = genesis.keys.size();
    const std::size_t voters = static_cast<std::size_t>(
        std::count_if(genesis.stake.begin(), genesis.stake.end(), [](std::uint64_t stake) { return stake != 0; }));
    std::uint64_t total = 0;
    for (const auto stake : genesis.stake) total += stake;
    std::uint64_t faulty = 0;
    s.over_budget = (chance(rng, 6) || options.over_budget) && options.bug == sdbft::PlantedBug::none && !s.stolen_keys;
    const auto within = [&](std::uint64_t weight) { return 3 * (faulty + weight) < total; };
    if (s.over_budget) {
        // Twins on both sides of a partition that lasts: each side believes it is the chain.
        for (std::size_t i = 0; i < voters && 3 * faulty <= total; ++i) {
            s.behaviour[i] = Behaviour::twin;
            faulty += genesis.stake[i];
        }
    } else if (chance(rng, 80) || s.stolen_keys) {
        static constexpr Behaviour kKinds[] = {
            Behaviour::silent,      Behaviour::slow,   Behaviour::selective, Behaviour::twin,   Behaviour::replayer,
            Behaviour::equivocator, Behaviour::forger, Behaviour::forger,    Behaviour::forger, Behaviour::forger};
        for (std::size_t i = 0; i < voters; ++i) {
            if (!within(genesis.stake[i])) continue;
            s.behaviour[i] = s.stolen_keys ? Behaviour::forger : kKinds[rng.below(std::size(kKinds))];
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
    s.heal_at_ms = (2000 + rng.below(5000)) * (runs_deep(options.seed) ? 4 : 1);
    const bool calm = chance(rng, 15);
    if (!calm) {
        s.delay_max_ms = 5 + rng.below(chance(rng, 30) ? 400 : 90);
        s.loss_permille = chance(rng, 60) ? rng.below(250) : 0;
        s.duplication_permille = chance(rng, 50) ? rng.below(200) : 0;
        s.sync_max_ms = 1 + rng.below(chance(rng, 20) ? 120 : 15);
        s.partitions = chance(rng, 50) ? 1 + rng.below(3) : 0;
        s.one_way = chance(rng, 40);
        s.crashes = chance(rng, 65) ? 1 + rng.below(8) : 0;
        s.all_crash_permille = chance(rng, 40) ? 300 : 0;
        s.failed_writes = chance(rng, 30) ? 1 + rng.below(4) : 0;
        if (chance(rng, 20)) s.executor_max_ms = 20 + rng.below(180);
        if (chance(rng, 35)) s.scheduler = static_cast<Scheduler>(1 + rng.below(5));
        if (s.tiny_limits && chance(rng, 40)) {
            // Many views in a row without a block.
            s.scheduler = Scheduler::hides_masters;
            s.crashes = 4 + rng.below(6);
        }
    }
    if (s.tiny_limits && !s.over_budget && chance(rng, 8)) {
        // Timers back off: only with short ones do more views pass without a final block than blocks are kept.
        s.scheduler = Scheduler::barren;
        s.limits.blocks_kept = 3;
        s.delta_ms = s.min_block_ms = s.max_idle_ms = 2;
        s.delay_max_ms = s.sync_max_ms = 1;
        s.executor_max_ms = 1;
        s.loss_permille = s.duplication_permille = 0;
        s.partitions = s.crashes = s.failed_writes = 0;
        s.heal_at_ms = 7000;
    }
    if (options.scheduler) s.scheduler = *options.scheduler;
    if (s.crashes > 0 && !s.over_budget) {
        // Such a validator counts as faulty, so it must fit, and its weight must not grow.
        for (std::size_t i = 0; i < voters && !s.victim; ++i)
            if (s.behaviour[i] == Behaviour::honest && within(genesis.stake[i])) s.victim = i;
        if (s.victim) {
            const std::uint64_t fate = rng.below(100);
            s.old_disk = fate < 12;
            s.old_journal = fate >= 12 && fate < 20;
            s.old_database = fate >= 20 && fate < 32;
            s.lost_journal = fate >= 32 && fate < 50;
            s.accepted = fate >= 40 && fate < 50;
            s.lost_disk = fate >= 50 && fate < 70;
            if (s.old_disk || s.old_journal || s.lost_journal || s.lost_disk)
                genesis.ceiling[*s.victim] = genesis.stake[*s.victim];
        }
    }
    if (s.over_budget) {
        s.tiny_limits = false;  // with which a node would not keep what convicts
        s.limits = {};
        s.crashes = 0;
        s.failed_writes = 0;
        s.partitions = 0;
        s.loss_permille = 0;
    }
    return s;
}

}  // namespace quern::sim
