// The inside of a simulation: nodes, their disks and chains, the network between them, and what happens to all of it.
// simulation.cpp plans and runs, simulation_node.cpp drives the cores, simulation_network.cpp carries (and forges)
// messages, simulation_evidence.cpp what is done about forks. Single-threaded.
#pragma once

#include <queue>

#include "sim/disk.h"
#include "sim/forger.h"
#include "sim/simulation.h"
#include "sim/users.h"
#include "sim/witness.h"

namespace quern::sim {

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
    bool accepts_missing_journal = false;
    bool lost_disk = false;
    std::uint64_t alone_until = 0;  // nobody hears it, nor it anybody
    std::uint64_t wake_token = 0;
    std::optional<std::pair<std::unique_ptr<SimChain>, Disk>> snapshot;
    std::vector<std::shared_ptr<const Bytes>> heard;                    // a replayer's
    std::set<std::pair<std::uint64_t, std::uint64_t>> heard_proposals;  // since it started: epoch, view
    std::optional<std::size_t> blamed;                                  // by what it was given last
    std::unique_ptr<Forger> forger;
    std::unique_ptr<Witness> witness;  // while an honest node runs, where signatures are real; refers to the chain
    bool duties_due = false;
};

// Virtual time for what asks a clock.
class VirtualClock final : public Clock {
public:
    explicit VirtualClock(const std::uint64_t& now_ms) : now_ms_(now_ms) {}
    [[nodiscard]] std::uint64_t now_ms() const override { return now_ms_; }
    [[nodiscard]] std::uint64_t monotonic_ms() const override { return 1 + now_ms_; }

private:
    const std::uint64_t& now_ms_;
};

class Simulation {
public:
    Simulation(const Options& options, std::function<void(const std::string&)> trace);
    Result run();
    [[nodiscard]] const Scenario& scenario() const { return scenario_; }

private:
    using Shared = std::shared_ptr<const Bytes>;
    struct Item {
        std::uint64_t at = 0;
        std::int64_t order = 0;
        std::function<void()> run;
        bool operator<(const Item& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
    };

    // simulation.cpp
    [[nodiscard]] std::vector<crypto::PublicKey> public_keys() const;
    [[nodiscard]] Users make_users();
    [[nodiscard]] std::unique_ptr<SimChain> new_chain(std::uint8_t mark) const;  // on a new disk
    [[nodiscard]] std::set<std::size_t> faulty() const;
    void at(std::uint64_t delay, std::function<void()> what) { queue_.push({now_ + delay, order_++, std::move(what)}); }
    // Runs only if the node has not crashed in between.
    void at(Node& node, std::uint64_t delay, std::function<void()> what);
    [[nodiscard]] bool healed() const { return now_ >= scenario_.heal_at_ms; }
    [[nodiscard]] bool honest(const Node& node) const {
        return node.behaviour == Behaviour::honest && !(spoiled_ && node.validator == scenario_.victim);
    }
    [[nodiscard]] chain::consensus::Time time_of(const Node& node) const;
    void note(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; }
    template <class Text>
    void trace(const Node& node, Text&& text) {
        if (!trace_) return;
        const auto view = node.core ? node.core->status() : sdbft::Core::View{};
        trace_(std::to_string(now_) + " ms, node " + std::to_string(node.id) + " (" + std::to_string(view.epoch) + "." +
               std::to_string(view.view) + ", tip " + std::to_string(view.tip.number) + "): " + text());
    }
    void add_node(std::optional<std::size_t> validator, bool second_twin);
    void plan_chaos();
    void plan_victim();
    void heal();
    void use();
    [[nodiscard]] bool all_reached(std::uint64_t target) const;
    void check_liveness(std::uint64_t target);
    [[nodiscard]] Result result() const;

    // simulation_node.cpp
    void start(Node& node);
    void crash(Node& node, const char* why);
    void spoil(Node& node);
    void come_back_alone(Node& node);
    void accept_without_journal(Node& node, std::pair<std::uint64_t, std::uint64_t> signed_up_to);
    void feed(Node& node, const sdbft::Event& event);
    void act(Node& node, sdbft::Action& action);
    void ask(Node& node, const std::optional<sdbft::PeerId>& peer, const sdbft::Message& query);
    void persist(Node& node, const sdbft::action::Persist& persist);
    void build(Node& node, const sdbft::BlockRequest& request);
    void commit(Node& node, const sdbft::action::Commit& commit);
    void check_limits(const Node& node);
    void toggle_transactions(Node& node);
    [[nodiscard]] bool write_fails();
    [[nodiscard]] std::vector<Bytes> transactions();

    // simulation_network.cpp
    void send(Node& node, const sdbft::action::Send& send);
    void audit_sent(const Node& node, BytesView bytes);
    void send_out(Node& node, const std::vector<Forger::Out>& out);
    [[nodiscard]] Node& anybody_but(const Node& node, BytesView message);
    void route(Node& from, Node& to, const Shared& bytes);
    [[nodiscard]] std::optional<std::uint64_t> scheduled_delay(const Node& from, const Node& to, const Bytes& bytes);
    void deliver(Node& from, Node& to, const Shared& bytes);
    [[nodiscard]] bool cut(const Node& from, const Node& to) const;
    void equivocate(Node& node, const sdbft::Message& message);
    [[nodiscard]] std::optional<Bytes> sibling_of(const Node& node, const sdbft::Message& message);
    [[nodiscard]] const std::string_view* to_be_refused(Node& to, const Bytes& bytes);
    void reach_by_message(const Node& to, const Bytes& bytes);

    // simulation_evidence.cpp
    [[nodiscard]] static Bytes20 address_of(const Node& node);
    [[nodiscard]] Node& node_at(const Bytes20& address);
    [[nodiscard]] bool has_witnesses() const;
    [[nodiscard]] bool connected(const Node& a, const Node& b) const;
    void start_witness(Node& node);
    template <class Answer>
    void request(Node& node, const Bytes20& address, p2p::Answer<Answer> answer,
                 std::function<std::optional<Answer>(Node& asked)> serve);
    void tell_status(Node& node);
    void spread(Node& node, const types::RecoveredTransaction& transaction);
    void do_duties(Node& node);

    Options options_;
    std::function<void(const std::string&)> trace_;
    SeededRng rng_;
    KeyRing keys_;
    Scenario scenario_;
    std::string genesis_text_;  // of the real executor
    chain::consensus::ChainIdentity identity_;
    ForgeryBook book_;
    Auditor auditor_;
    Users users_;
    std::uint64_t now_ = 0;
    const VirtualClock clock_{now_};
    std::vector<std::unique_ptr<Node>> nodes_;
    std::priority_queue<Item> queue_;
    std::int64_t order_ = 0;
    std::uint64_t deliveries_ = 0;
    std::uint64_t digest_ = 0xcbf29ce484222325ULL;
    std::vector<std::size_t> side_;  // of a partition, by node; empty when there is none
    // What a hostile scheduler has let through: receiver, epoch, view, vote type -> weight.
    std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t, std::uint8_t>, Uint256> let_through_;
    std::map<Hash32, std::uint64_t> timestamps_;  // of what forgers proposed
    std::uint64_t crashes_left_ = 0;
    std::uint64_t failures_left_ = 0;  // of writes
    bool spoiled_ = false;             // the victim's disk was exchanged
};

}  // namespace quern::sim
