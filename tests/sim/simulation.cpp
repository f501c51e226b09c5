#include "sim/simulation.h"

#include <algorithm>

#include "sim/simulation_impl.h"

namespace quern::sim {

namespace {
constexpr std::uint64_t kMaxDeliveries = 3'000'000;
constexpr std::uint64_t kWallBase = 1'010'000;
// After the network has healed, a node has this long, and so much more for each block.
constexpr std::uint64_t kGraceMs = 20'000;
constexpr std::uint64_t kGracePerBlockMs = 1'000;
}  // namespace

Simulation::Simulation(const Options& options, std::function<void(const std::string&)> trace)
    : options_(options),
      trace_(std::move(trace)),
      rng_(options.seed * 0x9e3779b97f4a7c15ULL + 1),
      keys_(make_keys(options.real_executor || options.real_signatures ? kFewValidators : kMaxValidators,
                      options.real_signatures, options.real_executor, options.seed)),
      scenario_(make_scenario(options, public_keys(), rng_)),
      genesis_text_(options.real_executor ? real_genesis_text(scenario_.genesis) : std::string()),
      identity_{new_chain(0)->tip().hash, chain::params::kDevnetChainId},
      auditor_({scenario_.genesis, identity_, *keys_.scheme, book_, scenario_.over_budget, scenario_.stolen_keys},
               new_chain(0), faulty()),
      users_(make_users()) {}

std::vector<crypto::PublicKey> Simulation::public_keys() const {
    std::vector<crypto::PublicKey> keys;
    for (const auto& signer : keys_.signers) keys.push_back(signer->public_key());
    return keys;
}

Users Simulation::make_users() {
    std::vector<Users::Validator> validators;
    std::optional<Users::Joiner> joiner;
    const auto& genesis = scenario_.genesis;
    for (std::size_t i = 0; i < genesis.stake.size() && options_.real_executor; ++i) {
        if (genesis.stake[i] == 0)
            joiner = {to_bytes(genesis.keys[i].bytes), &keys_.private_keys[i]};
        else if (genesis.ceiling[i] > genesis.stake[i])
            validators.push_back({types::address_of(genesis.keys[i]), genesis.ceiling[i] - genesis.stake[i]});
    }
    return Users(rng_, std::move(validators), std::move(joiner));
}

std::unique_ptr<SimChain> Simulation::new_chain(std::uint8_t mark) const {
    if (!options_.real_executor) return std::make_unique<LightChain>(scenario_.genesis, scenario_.limits.blocks_kept);
    return std::make_unique<RealChain>(genesis_text_, mark, scenario_.limits.blocks_kept);
}

std::set<std::size_t> Simulation::faulty() const {
    std::set<std::size_t> out;
    for (std::size_t i = 0; i < scenario_.behaviour.size(); ++i)
        if (scenario_.behaviour[i] != Behaviour::honest) out.insert(i);
    return out;
}

void Simulation::at(Node& node, std::uint64_t delay, std::function<void()> what) {
    at(delay, [&node, incarnation = node.incarnation, what = std::move(what)] {
        if (node.up && node.incarnation == incarnation) what();
    });
}

chain::consensus::Time Simulation::time_of(const Node& node) const {
    return {static_cast<std::uint64_t>(static_cast<std::int64_t>(kWallBase + now_) + node.skew),
            1 + now_ * node.rate / 100};
}

void Simulation::add_node(std::optional<std::size_t> validator, bool second_twin) {
    auto node = std::make_unique<Node>(Node{.id = nodes_.size(),
                                            .validator = validator,
                                            .second_twin = second_twin,
                                            .chain = new_chain(static_cast<std::uint8_t>(1 + nodes_.size())),
                                            .disk = {},
                                            .core = nullptr,
                                            .snapshot = std::nullopt,
                                            .heard = {},
                                            .heard_proposals = {},
                                            .blamed = std::nullopt,
                                            .forger = nullptr,
                                            .witness = nullptr});
    if (validator) {
        node->behaviour = scenario_.behaviour[*validator];
        node->rate = scenario_.clock_rate_percent[*validator];
        node->skew = scenario_.clock_skew_ms[*validator];
        if (node->behaviour == Behaviour::forger)
            node->forger = std::make_unique<Forger>(
                Forger::Parts{rng_, keys_, scenario_.genesis, book_, identity_, *validator, scenario_.stolen_keys});
    }
    nodes_.push_back(std::move(node));
}

void Simulation::plan_chaos() {
    if (scenario_.over_budget) {
        for (const auto& node : nodes_)
            side_.push_back(node->behaviour == Behaviour::twin ? (node->second_twin ? 1 : 0) : node->id % 2);
    }
    for (std::uint64_t i = 0; i < scenario_.partitions; ++i) {
        const std::uint64_t begin = rng_.below(scenario_.heal_at_ms);
        const std::uint64_t length = 100 + rng_.below(3000);
        at(begin, [this] {
            side_.clear();
            for (std::size_t n = 0; n < nodes_.size(); ++n) side_.push_back(rng_.below(2));
        });
        at(std::min(begin + length, scenario_.heal_at_ms), [this] { side_.clear(); });
    }
    crashes_left_ = scenario_.crashes;
    failures_left_ = scenario_.failed_writes;
    for (std::uint64_t i = 0; i < scenario_.crashes; ++i) {
        at(rng_.below(scenario_.heal_at_ms), [this] {
            if (crashes_left_ == 0) return;
            --crashes_left_;
            if (rng_.below(1000) < scenario_.all_crash_permille) {
                for (auto& node : nodes_) crash(*node, "with all others");
            } else {
                crash(*nodes_[rng_.below(nodes_.size())], "");
            }
        });
    }
    plan_victim();
    at(scenario_.heal_at_ms, [this] { heal(); });
}

void Simulation::plan_victim() {
    const auto& s = scenario_;
    if (!s.victim || !(s.old_disk || s.old_journal || s.old_database || s.lost_journal || s.lost_disk)) return;
    const auto victim = [this]() -> Node* {
        for (auto& node : nodes_)
            if (node->validator == scenario_.victim) return node.get();
        return nullptr;
    };
    const std::uint64_t first = s.heal_at_ms / 4;
    at(first, [this, victim] {
        Node& node = *victim();
        node.snapshot.emplace(node.chain->copy_of_disk(), node.disk);
        node.snapshot->second.crash(rng_);
    });
    at(first + 1 + rng_.below(s.heal_at_ms / 2), [this, victim] { crash(*victim(), "and its disk suffers"); });
}

void Simulation::heal() {
    side_.clear();
    crashes_left_ = 0;
    failures_left_ = 0;
    if (trace_) trace_(std::to_string(now_) + " ms: the network heals");
    for (auto& node : nodes_)
        if (!node->up && !node->halted) start(*node);
}

// Somebody sends a transaction, new or once more, and most nodes hear of it.
void Simulation::use() {
    users_.prune(static_cast<const RealChain&>(auditor_.reference()));
    const auto transaction = std::make_shared<const types::RecoveredTransaction>(users_.send());
    for (auto& node : nodes_)
        if (rng_.below(5) != 0)
            at(*node, rng_.below(60), [&node = *node, transaction] { node.chain->submit(*transaction); });
    at(20 + rng_.below(60), [this] { use(); });
}

bool Simulation::all_reached(std::uint64_t target) const {
    if (scenario_.stolen_keys) return false;
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
        return node->halted || !honest(*node) || (node->up && node->chain->height() >= target);
    });
}

void Simulation::check_liveness(std::uint64_t target) {
    for (const auto& node : nodes_) {
        if (!honest(*node) || node->halted || (node->up && node->chain->height() >= target)) continue;
        auditor_.failed("liveness: node " + std::to_string(node->id) + " is at height " +
                        std::to_string(node->chain->height()) + " of " + std::to_string(target) + " at " +
                        std::to_string(now_) + " ms");
    }
}

Result Simulation::run() {
    if (trace_) trace_("seed " + std::to_string(options_.seed) + ": " + scenario_.describe());
    for (std::size_t i = 0; i < scenario_.behaviour.size(); ++i) {
        add_node(i, false);
        if (scenario_.behaviour[i] == Behaviour::twin) add_node(i, true);
    }
    for (std::size_t i = 0; i < scenario_.observers; ++i) add_node(std::nullopt, false);
    plan_chaos();
    for (auto& node : nodes_) at(rng_.below(50), [this, &node] { start(*node); });
    if (options_.real_executor) at(100, [this] { use(); });

    const bool must_go_on = !scenario_.over_budget && !scenario_.stolen_keys;
    std::optional<std::uint64_t> target;
    std::uint64_t limit = scenario_.heal_at_ms + (must_go_on ? kGraceMs : 3000);
    while (!queue_.empty() && auditor_.failures().empty()) {
        const Item item = queue_.top();
        queue_.pop();
        now_ = item.at;
        if (now_ > limit) break;
        item.run();
        if (deliveries_ > kMaxDeliveries) {
            auditor_.failed("too many messages");
            break;
        }
        if (!must_go_on || now_ <= scenario_.heal_at_ms) continue;
        if (!target) {
            target = auditor_.height() + scenario_.depth_epochs * scenario_.genesis.epoch_length + 3;
            limit = 5 * scenario_.heal_at_ms + kGraceMs + kGracePerBlockMs * (*target - auditor_.height());
        }
        if (all_reached(*target)) break;
    }
    if (must_go_on && auditor_.failures().empty()) check_liveness(target.value_or(1));
    auditor_.finish();
    for (const auto& node : nodes_) {
        if (!honest(*node)) continue;
        if (!node->halted) auditor_.state_of(node->id, *node->chain);
        if (options_.real_executor)
            auditor_.convicted_on_chain(node->id, node->chain->height(),
                                        static_cast<const RealChain&>(*node->chain).convicted());
    }
    if (has_witnesses()) auditor_.finish_on_chains();
    return result();
}

Result Simulation::result() const {
    Result result;
    result.seed = options_.seed;
    result.failures = auditor_.failures();
    result.scenario = scenario_.describe();
    result.height = auditor_.height();
    result.transactions = auditor_.transactions();
    const auto& reference = auditor_.reference();
    const std::uint64_t last_epoch = reference.epoch_setup().epoch + 1;
    for (std::uint64_t epoch = 1; epoch <= last_epoch; ++epoch)
        if (reference.committee_of(epoch)->hash() != reference.committee_of(epoch - 1)->hash())
            ++result.committee_changes;
    if (options_.real_executor) result.convictions = static_cast<const RealChain&>(reference).convicted().size();
    result.chains_that_convicted = auditor_.chains_that_convicted();
    result.virtual_ms = now_;
    result.deliveries = deliveries_;
    result.forked = auditor_.forked();
    result.limits_reached = auditor_.limits_reached();
    result.forgeries = book_.written;
    result.digest = (digest_ ^ result.height) * 0x100000001b3ULL;
    return result;
}

Result run_seed(const Options& options, const std::function<void(const std::string&)>& trace) {
    return Simulation(options, trace).run();
}

bool is_over_budget(const Options& options) { return Simulation(options, nullptr).scenario().over_budget; }

}  // namespace quern::sim
