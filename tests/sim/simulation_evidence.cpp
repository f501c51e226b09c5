// Evidence and forks outside of the core: nodes tell each other their newest final block, audit whose is another,
// accuse, and bring what convicts to their chains (witness.h). With the real executor and real signatures, which the
// chain's rule asks for. What p2p carries beside consensus' messages passes the partition that makes a fork from the
// middle of it on: who splits the validators need not split everybody.
#include "sim/simulation_impl.h"

namespace quern::sim {

namespace messages = p2p::messages;

namespace {
constexpr std::uint64_t kStatusMs = 200;
constexpr std::uint64_t kRequestMs = node::kAuditRequestMs;
// A key that is no validator's.
crypto::PrivateKey follower_key(std::size_t node) {
    Hash32 secret;
    secret.data[0] = 1;
    secret.data[31] = static_cast<std::uint8_t>(node);
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}
}  // namespace

// As p2p knows it: twins have one key, and connections of their own.
Bytes20 Simulation::address_of(const Node& node) {
    Bytes20 address;
    address.data[0] = 0x4e;
    address.data[19] = static_cast<std::uint8_t>(node.id);
    return address;
}

Node& Simulation::node_at(const Bytes20& address) { return *nodes_[address.data[19]]; }

bool Simulation::has_witnesses() const { return options_.real_executor && options_.real_signatures; }

bool Simulation::connected(const Node& a, const Node& b) const {
    if (!a.up || !b.up) return false;
    if (scenario_.over_budget) return now_ >= scenario_.heal_at_ms / 2 || (!cut(a, b) && !cut(b, a));
    return !cut(a, b) && !cut(b, a);
}

void Simulation::start_witness(Node& node) {
    node.duties_due = false;
    if (!has_witnesses()) return;
    at(node, rng_.below(kStatusMs), [this, &node] { tell_status(node); });
    if (!honest(node)) return;
    auto& chain = static_cast<RealChain&>(*node.chain);
    node.witness = std::make_unique<Witness>(Witness::Parts{
        .chain = chain,
        .clock = clock_,
        .identity = identity_,
        .key = node.validator ? keys_.private_keys[*node.validator].clone() : follower_key(node.id),
        .accused =
            [this, &node](const sdbft::Evidence& evidence) {
                trace(node, [] { return std::string("accuses a validator"); });
                auditor_.convicted(evidence);
                auditor_.accused(node.id, evidence.signer, node.chain->height());
            },
        .sent = [this, &node](const types::RecoveredTransaction& transaction) { spread(node, transaction); },
        .request_range =
            [this, &node](const Bytes20& peer, const messages::GetRange& asked, p2p::Answer<messages::Range> answer) {
                request<messages::Range>(node, peer, std::move(answer), [this, asked](Node& asked_node) {
                    auto range = static_cast<RealChain&>(*asked_node.chain).server().range(asked);
                    // A liar has nothing to show, or shows it without what proves it.
                    if (asked_node.forger && rng_.below(2) == 0)
                        for (auto& block : range.blocks) block.certificate.clear();
                    return std::optional(std::move(range));
                });
            },
        .request_certificate =
            [this, &node](const Bytes20& peer, const messages::GetCertificate& asked,
                          p2p::Answer<messages::CertificateAnswer> answer) {
                request<messages::CertificateAnswer>(node, peer, std::move(answer), [asked](Node& asked_node) {
                    auto found = static_cast<RealChain&>(*asked_node.chain).server().certificates(asked);
                    return found.empty() ? std::nullopt : std::optional(messages::CertificateAnswer{std::move(found)});
                });
            },
        .report =
            [this, &node](const Bytes20& peer, p2p::Offence offence) {
                const Node& accused = node_at(peer);
                trace(node, [&] { return "reports node " + std::to_string(accused.id); });
                if (honest(accused))
                    auditor_.blamed(node.id, accused.id,
                                    {"audit.report", std::string(p2p::rule_of(offence).name), ErrorKind::input});
            }});
}

// There and back, or the requester learns that nothing came.
template <class Answer>
void Simulation::request(Node& node, const Bytes20& address, p2p::Answer<Answer> answer,
                         std::function<std::optional<Answer>(Node& asked)> serve) {
    Node& asked = node_at(address);
    const std::uint64_t there = scenario_.delay_min_ms + rng_.below(scenario_.delay_max_ms);
    const auto waits = std::make_shared<p2p::Answer<Answer>>(std::move(answer));
    const auto reply = [this, &node, waits](Expected<Answer> value) {
        if (!*waits) return;
        const auto told = std::exchange(*waits, nullptr);
        told(std::move(value));
        do_duties(node);
    };
    at(node, kRequestMs, [reply] { reply(fail("network.timeout")); });
    at(node, there, [this, &node, &asked, reply, serve = std::move(serve)] {
        if (!connected(node, asked)) return;
        const auto served = std::make_shared<std::optional<Answer>>(serve(asked));
        at(node, scenario_.delay_min_ms + rng_.below(scenario_.delay_max_ms), [reply, served] {
            if (*served)
                reply(std::move(**served));
            else
                reply(fail("network.refused", "not_found"));
        });
    });
}

// To everybody whom the node is connected to, now and then. Forgers claim blocks that there are not.
void Simulation::tell_status(Node& node) {
    at(node, kStatusMs, [this, &node] { tell_status(node); });
    const auto& tip = node.chain->tip();
    messages::Status status{tip.number, tip.hash, tip.epoch, tip.view, 0};
    if (node.forger && rng_.below(3) == 0) {
        if (rng_.below(2) == 0) status.finalized_number -= std::min(status.finalized_number, rng_.below(5));
        rng_.fill(status.finalized_hash.data);
    }
    for (auto& to : nodes_) {
        if (to->id == node.id || !to->witness || !connected(node, *to)) continue;
        at(*to, scenario_.delay_min_ms + rng_.below(scenario_.delay_max_ms), [this, &node, to = to.get(), status] {
            if (!to->witness || !connected(node, *to)) return;
            if (honest(node) && status.finalized_number <= to->chain->height() &&
                to->chain->hash_at(status.finalized_number) != status.finalized_hash)
                auditor_.told_of_fork(to->id, to->chain->height());
            to->witness->said(address_of(node), status);
            do_duties(*to);
        });
    }
}

// A node's own transaction goes to whom it is connected to.
void Simulation::spread(Node& node, const types::RecoveredTransaction& transaction) {
    const auto shared = std::make_shared<const types::RecoveredTransaction>(transaction);
    for (auto& to : nodes_) {
        if (to->id == node.id || cut(node, *to)) continue;
        at(*to, scenario_.delay_min_ms + rng_.below(scenario_.delay_max_ms),
           [to = to.get(), shared] { to->chain->submit(*shared); });
    }
}

// The serving thread's turn comes soon.
void Simulation::do_duties(Node& node) {
    if (!node.witness || node.duties_due || !node.witness->has_work()) return;
    node.duties_due = true;
    at(node, 1 + rng_.below(scenario_.executor_max_ms), [&node] {
        node.duties_due = false;
        if (node.witness) node.witness->work();
    });
}

}  // namespace quern::sim
