#include "sim/simulation.h"

#include <algorithm>
#include <queue>

#include "sim/disk.h"
#include "sim/users.h"

namespace quern::sim {
namespace {

using chain::consensus::Time;
using chain::consensus::Vote;
using chain::consensus::VoteType;

constexpr std::uint64_t kMaxDeliveries = 3'000'000;
constexpr std::uint64_t kWallBase = 1'010'000;
constexpr std::size_t kReplayMemory = 64;

struct Node {
    std::size_t id = 0;
    std::optional<std::size_t> validator;
    Behaviour behaviour = Behaviour::honest;
    bool second_twin = false;
    std::uint64_t rate = 100;
    std::int64_t skew = 0;
    std::unique_ptr<SimChain> chain;
    Disk disk;
    std::unique_ptr<sdbft::Core> core;
    std::uint64_t incarnation = 0;
    bool up = false;
    bool halted = false;
    std::uint64_t wake_token = 0;
    std::optional<std::pair<std::unique_ptr<SimChain>, Disk>> snapshot;
    std::vector<std::shared_ptr<const Bytes>> heard;  // a replayer's
};

class Simulation {
public:
    Simulation(const Options& options, std::function<void(const std::string&)> trace)
        : options_(options),
          trace_(std::move(trace)),
          rng_(options.seed * 0x9e3779b97f4a7c15ULL + 1),
          keys_(make_keys(kMaxValidators, options.real_signatures, options.real_executor, options.seed)),
          scenario_(make_scenario(options, public_keys(), rng_)),
          genesis_text_(options.real_executor ? real_genesis_text(scenario_.genesis) : std::string()),
          identity_{new_chain(0)->tip().hash, chain::params::kDevnetChainId},
          auditor_(scenario_.genesis, new_chain(0), identity_, *keys_.scheme, faulty(), scenario_.over_budget),
          users_(make_users()) {}

    Result run();
    [[nodiscard]] const Scenario& scenario() const { return scenario_; }

private:
    struct Item {
        std::uint64_t at = 0;
        std::uint64_t order = 0;
        std::function<void()> run;
        bool operator<(const Item& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
    };

    std::vector<crypto::PublicKey> public_keys() const {
        std::vector<crypto::PublicKey> keys;
        for (const auto& signer : keys_.signers) keys.push_back(signer->public_key());
        return keys;
    }
    Users make_users() {
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
    // On a new disk.
    std::unique_ptr<SimChain> new_chain(std::uint8_t mark) const {
        if (!options_.real_executor) return std::make_unique<LightChain>(scenario_.genesis);
        return std::make_unique<RealChain>(genesis_text_, mark);
    }
    std::set<std::size_t> faulty() const {
        std::set<std::size_t> out;
        for (std::size_t i = 0; i < scenario_.behaviour.size(); ++i)
            if (scenario_.behaviour[i] != Behaviour::honest) out.insert(i);
        return out;
    }
    void at(std::uint64_t delay, std::function<void()> what) { queue_.push({now_ + delay, order_++, std::move(what)}); }
    // Runs only if the node has not crashed in between.
    void at(Node& node, std::uint64_t delay, std::function<void()> what) {
        at(delay, [this, &node, incarnation = node.incarnation, what = std::move(what)] {
            if (node.up && node.incarnation == incarnation) what();
        });
    }
    [[nodiscard]] bool healed() const { return now_ >= scenario_.heal_at_ms; }
    [[nodiscard]] bool honest(const Node& node) const {
        return node.behaviour == Behaviour::honest && !(spoiled_ && node.validator == scenario_.victim);
    }
    [[nodiscard]] Time time_of(const Node& node) const {
        return {static_cast<std::uint64_t>(static_cast<std::int64_t>(kWallBase + now_) + node.skew),
                1 + now_ * node.rate / 100};
    }
    void note(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; }
    template <class Text>
    void trace(const Node& node, Text&& text) {
        if (!trace_) return;
        const auto view = node.core ? node.core->status() : sdbft::Core::View{};
        trace_(std::to_string(now_) + " ms, node " + std::to_string(node.id) + " (" + std::to_string(view.epoch) + "." +
               std::to_string(view.view) + ", tip " + std::to_string(view.tip.number) + "): " + text());
    }

    void add_node(std::optional<std::size_t> validator, bool second_twin);
    void start(Node& node);
    void crash(Node& node, const char* why);
    void plan_chaos();
    void heal();
    void feed(Node& node, const sdbft::Event& event);
    void act(Node& node, sdbft::Action& action);
    void send(Node& node, const sdbft::action::Send& send);
    void audit_sent(const Node& node, BytesView bytes);
    void route(Node& from, Node& to, const std::shared_ptr<const Bytes>& bytes);
    void deliver(Node& from, Node& to, const std::shared_ptr<const Bytes>& bytes);
    [[nodiscard]] bool cut(const Node& a, const Node& b) const;
    void toggle_transactions(Node& node);
    void equivocate(Node& node, const sdbft::Message& message);
    [[nodiscard]] std::optional<Bytes> sibling_of(const Node& node, const sdbft::Message& message);
    [[nodiscard]] std::vector<Bytes> transactions();
    void use();
    void check_liveness(std::uint64_t target);
    [[nodiscard]] bool all_reached(std::uint64_t target) const;

    Options options_;
    std::function<void(const std::string&)> trace_;
    SeededRng rng_;
    KeyRing keys_;
    Scenario scenario_;
    std::string genesis_text_;  // of the real executor
    chain::consensus::ChainIdentity identity_;
    Auditor auditor_;
    Users users_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::priority_queue<Item> queue_;
    std::uint64_t now_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t deliveries_ = 0;
    std::uint64_t digest_ = 0xcbf29ce484222325ULL;
    std::vector<std::size_t> side_;  // of a partition, by node; empty when there is none
    std::uint64_t crashes_left_ = 0;
    bool spoiled_ = false;  // the victim's disk was exchanged
};

void Simulation::add_node(std::optional<std::size_t> validator, bool second_twin) {
    auto node = std::make_unique<Node>(Node{.id = nodes_.size(),
                                            .validator = validator,
                                            .second_twin = second_twin,
                                            .chain = new_chain(static_cast<std::uint8_t>(1 + nodes_.size())),
                                            .disk = {},
                                            .core = nullptr,
                                            .snapshot = std::nullopt,
                                            .heard = {}});
    if (validator) {
        node->behaviour = scenario_.behaviour[*validator];
        node->rate = scenario_.clock_rate_percent[*validator];
        node->skew = scenario_.clock_skew_ms[*validator];
    }
    nodes_.push_back(std::move(node));
}

void Simulation::start(Node& node) {
    auto records = node.disk.recover();
    if (!records) return auditor_.failed("journal: " + records.error().to_string());
    sdbft::CoreSetup setup;
    setup.config.chain = identity_;
    setup.config.epoch_length = scenario_.genesis.epoch_length;
    setup.config.min_block_ms = scenario_.min_block_ms;
    setup.config.max_idle_ms = scenario_.max_idle_ms;
    setup.config.delta_ms = scenario_.delta_ms;
    setup.config.journal_rewrite_bytes = 4000 + rng_.below(30000);
#ifdef QUERN_SDBFT_PLANTED_BUGS
    setup.config.hooks.bug = options_.bug;
#endif
    setup.epoch = node.chain->epoch_setup();
    if (setup.epoch.epoch > 0) setup.previous_committee = node.chain->committee_of(setup.epoch.epoch - 1);
    setup.tip = node.chain->tip();
    setup.tip_certificate = node.chain->tip_certificate();
    setup.journal_found = node.disk.exists();
    setup.listen_ms = 3 * scenario_.delta_ms;
    setup.records = std::move(*records);
    setup.detect_other_signer = node.behaviour == Behaviour::honest;
    setup.body_matches = [&node](BytesView block) { return node.chain->body_matches(block); };
    const sdbft::Signer* signer = node.validator ? keys_.signers[*node.validator].get() : nullptr;
    auto core = sdbft::Core::make(std::move(setup), signer, *keys_.scheme);
    if (!core) return auditor_.failed("start: " + core.error().to_string());
    node.core = std::move(*core);
    node.up = true;
    ++node.incarnation;
    trace(node, [] { return std::string("starts"); });
    feed(node, sdbft::event::Started{});
    at(node, rng_.below(200), [this, &node] { toggle_transactions(node); });
}

void Simulation::crash(Node& node, const char* why) {
    if (!node.up) return;
    trace(node, [&] { return std::string("crashes ") + why; });
    node.up = false;
    node.core.reset();
    if (const auto restarted = node.chain->crash(); !restarted)
        auditor_.failed("database: " + restarted.error().to_string());
    node.disk.crash(rng_);
    if (node.validator && node.validator == scenario_.victim && !spoiled_) {
        if (scenario_.old_disk && node.snapshot) {
            node.chain = std::move(node.snapshot->first);
            node.disk = std::move(node.snapshot->second);
            node.snapshot.reset();
            spoiled_ = true;
            auditor_.now_faulty(*node.validator);
            trace(node, [] { return std::string("gets an old disk back"); });
        } else if (scenario_.lost_journal && node.chain->height() > 0) {
            node.disk.lose();
            spoiled_ = true;
            trace(node, [] { return std::string("loses its journal"); });
        }
    }
    const std::uint64_t back =
        std::min(50 + rng_.below(2500), scenario_.heal_at_ms - std::min(now_, scenario_.heal_at_ms));
    at(back, [this, &node] {
        if (!node.up && !node.halted) start(node);
    });
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
    if (scenario_.victim && (scenario_.old_disk || scenario_.lost_journal)) {
        const std::uint64_t first = scenario_.heal_at_ms / 4;
        at(first, [this] {
            for (auto& node : nodes_)
                if (node->validator == scenario_.victim) {
                    node->snapshot.emplace(node->chain->copy_of_disk(), node->disk);
                    node->snapshot->second.crash(rng_);
                }
        });
        at(first + 1 + rng_.below(scenario_.heal_at_ms / 2), [this] {
            for (auto& node : nodes_)
                if (node->validator == scenario_.victim) crash(*node, "and its disk suffers");
        });
    }
    at(scenario_.heal_at_ms, [this] { heal(); });
}

void Simulation::heal() {
    side_.clear();
    crashes_left_ = 0;
    if (trace_) trace_(std::to_string(now_) + " ms: the network heals");
    for (auto& node : nodes_)
        if (!node->up && !node->halted) start(*node);
}

void Simulation::toggle_transactions(Node& node) {
    const bool coin = rng_.below(2) == 0;
    feed(node, sdbft::event::TransactionsWait{node.chain->has_transactions().value_or(coin)});
    at(node, 50 + rng_.below(500), [this, &node] { toggle_transactions(node); });
}

void Simulation::feed(Node& node, const sdbft::Event& event) {
    if (!node.up) return;
    auto actions = node.core->step(event, time_of(node));
    bool sent = false;
    for (auto& action : actions) {
        const auto* send = std::get_if<sdbft::action::Send>(&action);
        sent = sent || (send != nullptr && !send->message.empty() && send->message[0] <= 2);
        act(node, action);
    }
    // The moment at which a forgotten vote would hurt most.
    if (sent && crashes_left_ > 0 && !healed() && rng_.below(60) == 0) {
        --crashes_left_;
        crash(node, "right after it sent a vote");
    }
}

void Simulation::act(Node& node, sdbft::Action& action) {
    namespace a = sdbft::action;
    if (auto* send_action = std::get_if<a::Send>(&action)) return send(node, *send_action);
    const auto ask = [this, &node](const std::optional<sdbft::PeerId>& peer, const sdbft::Message& query) {
        send(node, {peer ? a::Target::one : a::Target::any, peer.value_or(0), sdbft::encode(query)});
    };
    if (const auto* range = std::get_if<a::AskRange>(&action)) {
        ask(range->peer, sdbft::RangeQuery{range->first_height});
    } else if (const auto* block = std::get_if<a::AskBlock>(&action)) {
        ask(block->peer, sdbft::BlockQuery{block->hash});
    } else if (auto* persist = std::get_if<a::Persist>(&action)) {
        node.disk.write(persist->sequence, persist->records, persist->replace);
        const std::uint64_t sequence = persist->sequence;
        at(node, rng_.below(scenario_.sync_max_ms + 1), [this, &node, sequence] {
            node.disk.sync(sequence);
            feed(node, sdbft::event::Persisted{sequence});
        });
    } else if (auto* wake = std::get_if<a::WakeAt>(&action)) {
        const std::uint64_t real = (wake->monotonic_ms * 100 + node.rate - 1) / node.rate;
        const std::uint64_t token = ++node.wake_token;
        at(node, real > now_ ? real - now_ : 1, [this, &node, token] {
            if (token == node.wake_token) feed(node, sdbft::event::TimePassed{});
        });
    } else if (auto* build = std::get_if<a::Build>(&action)) {
        at(node, rng_.below(5), [this, &node, request = build->request] {
            const auto mark = static_cast<std::uint8_t>(1 + node.id);
            auto block =
                node.chain->build(request, options_.real_executor ? std::vector<Bytes>() : transactions(), mark);
            if (block)
                feed(node, sdbft::event::Built{request.view, std::move(*block)});
            else
                feed(node, sdbft::event::BuildFailed{request.view});
        });
    } else if (auto* validate = std::get_if<a::Validate>(&action)) {
        at(node, rng_.below(5), [this, &node, hash = validate->hash, block = std::move(validate->block)] {
            feed(node, sdbft::event::Validated{hash, node.chain->validate(hash, block)});
        });
    } else if (auto* commit = std::get_if<a::Commit>(&action)) {
        at(node, rng_.below(4),
           [this, &node, hash = commit->hash, block = std::move(commit->block),
            certificate = std::move(commit->certificate)] {
               auto next = node.chain->commit(hash, block, certificate);
               if (!next) {
                   node.up = false;
                   node.halted = true;
                   if (honest(node)) auditor_.halted(node.id, next.error());
                   return;
               }
               trace(node, [&] {
                   return "commits height " + std::to_string(node.chain->height()) + " " +
                          to_hex(node.chain->tip().hash.view().first(4));
               });
               if (honest(node)) auditor_.committed(node.id, node.chain->height(), block, certificate);
               feed(node, sdbft::event::Committed{node.chain->tip(), std::move(*next)});
           });
    } else if (auto* keep = std::get_if<a::Keep>(&action)) {
        if (honest(node)) auditor_.kept(node.id, keep->certificate);
    } else if (auto* convict = std::get_if<a::Convict>(&action)) {
        trace(node, [] { return std::string("has evidence of a double sign"); });
        auditor_.convicted(convict->evidence);
        // The chain checks real signatures only.
        if (options_.real_executor && options_.real_signatures) users_.report(convict->evidence);
    } else if (auto* blame = std::get_if<a::Misbehaved>(&action)) {
        Node& accused = *nodes_[blame->peer];
        trace(node, [&] { return "blames node " + std::to_string(accused.id) + ": " + blame->error.to_string(); });
        if (honest(node) && honest(accused)) auditor_.blamed(node.id, accused.id, blame->error);
    } else if (auto* serve = std::get_if<a::ServeBlock>(&action)) {
        if (auto answer = node.chain->block(serve->hash))
            send(node, {a::Target::one, serve->peer, sdbft::encode(sdbft::Message(std::move(*answer)))});
    } else if (auto* serve_range = std::get_if<a::ServeRange>(&action)) {
        if (auto answer = node.chain->range(serve_range->first_height))
            send(node, {a::Target::one, serve_range->peer, sdbft::encode(sdbft::Message(std::move(*answer)))});
    } else if (auto* halt = std::get_if<a::Halt>(&action)) {
        trace(node, [&] { return "halts: " + halt->error.to_string(); });
        node.up = false;
        node.halted = true;
        if (honest(node)) auditor_.halted(node.id, halt->error);
    }
}

void Simulation::audit_sent(const Node& node, BytesView bytes) {
    if (!honest(node) || !node.validator || bytes.empty() || bytes[0] > 2) return;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return auditor_.failed("a node sends what nobody can read: " + message.error().to_string());
    if (const auto* vote = std::get_if<sdbft::VoteMessage>(&*message))
        return auditor_.signed_and_sent(*node.validator, vote->vote);
    const auto& propose = std::get<sdbft::ProposeMessage>(*message);
    if (const auto info = sdbft::read_block(propose.block))
        auditor_.signed_and_sent(*node.validator, {VoteType::propose, propose.epoch, propose.view, info->hash});
}

void Simulation::send(Node& node, const sdbft::action::Send& send) {
    audit_sent(node, send.message);
    if (node.behaviour == Behaviour::silent) return;
    const auto bytes = std::make_shared<const Bytes>(send.message);
    if (send.target == sdbft::action::Target::one) return route(node, *nodes_[send.peer], bytes);
    if (send.target == sdbft::action::Target::any) {
        const std::size_t other = rng_.below(nodes_.size() - 1);
        return route(node, *nodes_[other >= node.id ? other + 1 : other], bytes);
    }
    std::shared_ptr<const Bytes> sibling;
    if (node.behaviour == Behaviour::equivocator && !bytes->empty() && bytes->front() == 1) {
        const auto message = sdbft::decode_message(*bytes);
        if (message)
            if (auto other = sibling_of(node, *message)) sibling = std::make_shared<const Bytes>(std::move(*other));
    }
    for (auto& other : nodes_)
        if (other->id != node.id) route(node, *other, sibling && rng_.below(2) == 0 ? sibling : bytes);
}

bool Simulation::cut(const Node& a, const Node& b) const { return !side_.empty() && side_[a.id] != side_[b.id]; }

void Simulation::route(Node& from, Node& to, const std::shared_ptr<const Bytes>& bytes) {
    if (from.id == to.id || cut(from, to)) return;
    if (from.behaviour == Behaviour::selective && rng_.below(2) == 0) return;
    if (!healed() && rng_.below(1000) < scenario_.loss_permille) return;
    const std::uint64_t slowest =
        healed() ? std::min(scenario_.delay_max_ms, scenario_.delta_ms / 2) : scenario_.delay_max_ms;
    const std::uint64_t copies = !healed() && rng_.below(1000) < scenario_.duplication_permille ? 2 : 1;
    for (std::uint64_t i = 0; i < copies; ++i) {
        std::uint64_t delay = scenario_.delay_min_ms + rng_.below(slowest);
        if (from.behaviour == Behaviour::slow) delay += scenario_.delta_ms * (2 + rng_.below(6));
        at(delay, [this, &from, &to, bytes] { deliver(from, to, bytes); });
    }
}

void Simulation::deliver(Node& from, Node& to, const std::shared_ptr<const Bytes>& bytes) {
    if (!to.up) return;
    ++deliveries_;
    note(now_ << 16 ^ from.id << 8 ^ to.id);
    for (std::size_t i = 0; i < bytes->size(); i += 7) note((*bytes)[i]);
    trace(to, [&] {
        const auto message = sdbft::decode_message(*bytes);
        return "from node " + std::to_string(from.id) + ": " +
               (message ? sdbft::describe(*message) : message.error().to_string());
    });
    if (to.behaviour == Behaviour::replayer) {
        if (to.heard.size() < kReplayMemory)
            to.heard.push_back(bytes);
        else if (rng_.below(4) == 0)
            to.heard[rng_.below(kReplayMemory)] = bytes;
        if (rng_.below(12) == 0) {
            Node& target = *nodes_[rng_.below(nodes_.size())];
            route(to, target, to.heard[rng_.below(to.heard.size())]);
        }
    }
    if (to.behaviour == Behaviour::equivocator && rng_.below(3) == 0)
        if (const auto message = sdbft::decode_message(*bytes)) equivocate(to, *message);
    feed(to, sdbft::event::Received{from.id, *bytes});
}

// Votes that contradict each other about whatever it hears of.
void Simulation::equivocate(Node& node, const sdbft::Message& message) {
    Vote vote;
    if (const auto* heard = std::get_if<sdbft::VoteMessage>(&message))
        vote = heard->vote;
    else if (const auto* heard_certificate = std::get_if<sdbft::CertificateMessage>(&message))
        vote = heard_certificate->certificate.vote();
    else
        return;
    const auto committee = node.chain->committee_of(vote.epoch);
    const auto& signer = *keys_.signers[*node.validator];
    if (!committee) return;
    const std::size_t member = committee->index_of(signer.public_key());
    if (member == committee->members().size()) return;
    static constexpr VoteType kTypes[] = {VoteType::notarize, VoteType::nullify, VoteType::finalize};
    for (auto& other : nodes_) {
        if (other->id == node.id || rng_.below(2) == 0) continue;
        Vote lie = vote;
        lie.type = kTypes[rng_.below(3)];
        if (lie.type == VoteType::nullify)
            lie.hash = {};
        else if (lie.hash.is_zero())
            lie.hash.data[0] = static_cast<std::uint8_t>(1 + rng_.below(2));
        const sdbft::VoteMessage out{lie, member, signer.sign(chain::consensus::vote_digest(identity_, lie))};
        route(node, *other, std::make_shared<const Bytes>(sdbft::encode(sdbft::Message(out))));
    }
}

// The same proposal with another block: valid, and in contradiction.
std::optional<Bytes> Simulation::sibling_of(const Node& node, const sdbft::Message& message) {
    auto propose = std::get<sdbft::ProposeMessage>(message);
    auto block = types::decode_block(propose.block);
    if (!block || propose.justification) return std::nullopt;
    block->header.beneficiary.data[1] = 0xEE;
    propose.block = types::encode(*block);
    const Vote vote{VoteType::propose, propose.epoch, propose.view, types::hash_of(block->header)};
    propose.signature = keys_.signers[*node.validator]->sign(chain::consensus::vote_digest(identity_, vote));
    return sdbft::encode(sdbft::Message(std::move(propose)));
}

std::vector<Bytes> Simulation::transactions() {
    std::vector<Bytes> out;
    for (std::uint64_t i = rng_.below(4); i > 0; --i) {
        Bytes transaction(11);
        rng_.fill(transaction);
        transaction[0] = static_cast<std::uint8_t>(rng_.below(3));
        transaction[2] = static_cast<std::uint8_t>(1 + rng_.below(8));
        out.push_back(std::move(transaction));
    }
    return out;
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

    std::optional<std::uint64_t> target;
    const std::uint64_t limit = scenario_.over_budget ? scenario_.heal_at_ms + 3000 : 20'000 + 8 * scenario_.heal_at_ms;
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
        if (scenario_.over_budget || now_ <= scenario_.heal_at_ms) continue;
        if (!target) target = auditor_.height() + 2 * scenario_.genesis.epoch_length + 3;
        if (all_reached(*target)) break;
    }
    if (!scenario_.over_budget && auditor_.failures().empty()) check_liveness(target.value_or(1));
    for (const auto& node : nodes_)
        if (honest(*node) && !node->halted) auditor_.state_of(node->id, *node->chain);
    auditor_.finish();

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
    if (options_.real_executor) result.convictions = static_cast<const RealChain&>(reference).convictions();
    result.virtual_ms = now_;
    result.deliveries = deliveries_;
    result.forked = auditor_.forked();
    note(result.height);
    result.digest = digest_;
    return result;
}

}  // namespace

Result run_seed(const Options& options, const std::function<void(const std::string&)>& trace) {
    return Simulation(options, trace).run();
}

bool is_over_budget(const Options& options) { return Simulation(options, nullptr).scenario().over_budget; }

}  // namespace quern::sim
