// Carries messages between the nodes, as badly as the scenario says, and lets Byzantine nodes lie in them.
#include "sim/simulation_impl.h"

namespace quern::sim {

using chain::consensus::Vote;
using chain::consensus::VoteType;

namespace {
constexpr std::size_t kReplayMemory = 64;
constexpr std::uint64_t kBunchMs = 100;
// The first byte of a message.
constexpr std::uint8_t kPropose = 1;
constexpr std::uint8_t kVote = 2;
constexpr std::uint8_t kCertificate = 3;
constexpr std::uint8_t kCertificateQuery = 4;
constexpr std::uint8_t kRangeQuery = 7;
std::uint8_t kind_of(BytesView message) { return message.empty() ? 0 : message[0]; }

bool is_about_notarizing(BytesView bytes) {
    if (kind_of(bytes) != kVote && kind_of(bytes) != kCertificate) return false;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return false;
    const auto* vote = std::get_if<sdbft::VoteMessage>(&*message);
    const auto* certificate = std::get_if<sdbft::CertificateMessage>(&*message);
    return (vote != nullptr && vote->vote.type == VoteType::notarize) ||
           (certificate != nullptr && certificate->certificate.type == VoteType::notarize);
}
}  // namespace

void Simulation::audit_sent(const Node& node, BytesView bytes) {
    if (honest(node) && kind_of(bytes) == kCertificateQuery) {
        const auto query = sdbft::decode_message(bytes);
        const auto* asked = query ? std::get_if<sdbft::CertificateQuery>(&*query) : nullptr;
        if (asked != nullptr && asked->last_view - asked->first_view >= scenario_.limits.certificates_per_query)
            auditor_.failed("limit: a question for " + std::to_string(asked->last_view - asked->first_view + 1) +
                            " views");
    }
    if (!honest(node) || !node.validator || bytes.empty() || bytes[0] > 2) return;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return auditor_.failed("a node sends what nobody can read: " + message.error().to_string());
    if (const auto* vote = std::get_if<sdbft::VoteMessage>(&*message)) {
        if (vote->vote.type == VoteType::notarize)
            if (const auto found = timestamps_.find(vote->vote.hash); found != timestamps_.end())
                auditor_.voted_at(*node.validator, found->second, time_of(node).wall_ms);
        return auditor_.signed_and_sent(*node.validator, vote->vote);
    }
    const auto& propose = std::get<sdbft::ProposeMessage>(*message);
    if (propose.nullifications.size() > scenario_.limits.nullifications_per_proposal)
        auditor_.failed("limit: a proposal with " + std::to_string(propose.nullifications.size()) + " nullifications");
    if (propose.nullifications.size() == scenario_.limits.nullifications_per_proposal)
        auditor_.reached("nullifications_per_proposal");
    if (const auto info = sdbft::read_block(propose.block))
        auditor_.signed_and_sent(*node.validator, {VoteType::propose, propose.epoch, propose.view, info->hash});
}

void Simulation::send(Node& node, const sdbft::action::Send& send) {
    audit_sent(node, send.message);
    if (node.behaviour == Behaviour::silent) return;
    if (node.forger && send.target == sdbft::action::Target::all && kind_of(send.message) == kPropose)
        return send_out(node, node.forger->propose(send.message, *node.chain, time_of(node).wall_ms));
    if (node.forger && send.target == sdbft::action::Target::one)
        if (auto lie = node.forger->answer(send.message))
            return route(node, *nodes_[send.peer], std::make_shared<const Bytes>(std::move(*lie)));
    const auto bytes = std::make_shared<const Bytes>(send.message);
    if (send.target == sdbft::action::Target::one) return route(node, *nodes_[send.peer], bytes);
    if (send.target == sdbft::action::Target::any) return route(node, anybody_but(node, *bytes), bytes);
    Shared sibling;
    if (node.behaviour == Behaviour::equivocator && kind_of(*bytes) == kPropose) {
        const auto message = sdbft::decode_message(*bytes);
        if (message)
            if (auto other = sibling_of(node, *message)) sibling = std::make_shared<const Bytes>(std::move(*other));
    }
    for (auto& other : nodes_)
        if (other->id != node.id) route(node, *other, sibling && rng_.below(2) == 0 ? sibling : bytes);
}

void Simulation::send_out(Node& node, const std::vector<Forger::Out>& out) {
    for (const auto& one : out) {
        if (kind_of(one.message) == kPropose)
            if (const auto message = sdbft::decode_message(one.message))
                if (const auto info = sdbft::read_block(std::get<sdbft::ProposeMessage>(*message).block))
                    timestamps_[info->hash] = info->timestamp_ms;
        const auto bytes = std::make_shared<const Bytes>(one.message);
        for (auto& other : nodes_) {
            if (other->id == node.id || (one.to_half && rng_.below(2) == 0)) continue;
            at(one.delay_ms, [this, &node, to = other.get(), bytes] { route(node, *to, bytes); });
        }
    }
}

// Some peer; for a range, one that says to have it. Forgers say to have everything.
Node& Simulation::anybody_but(const Node& node, BytesView message) {
    if (kind_of(message) == kRangeQuery && rng_.below(2) == 0) {
        std::vector<Node*> ahead;
        for (auto& other : nodes_)
            if (other->id != node.id && (other->forger || other->chain->height() > node.chain->height()))
                ahead.push_back(other.get());
        if (!ahead.empty()) return *ahead[rng_.below(ahead.size())];
    }
    const std::size_t other = rng_.below(nodes_.size() - 1);
    return *nodes_[other >= node.id ? other + 1 : other];
}

bool Simulation::cut(const Node& from, const Node& to) const {
    if (now_ < from.alone_until || now_ < to.alone_until) return true;
    if (side_.empty() || side_[from.id] == side_[to.id]) return false;
    return !scenario_.one_way || side_[from.id] == 0;
}

// By what a hostile network delays a message more than the others; nullopt: for ever.
std::optional<std::uint64_t> Simulation::scheduled_delay(const Node& from, const Node& to, const Bytes& bytes) {
    const std::uint64_t delta = scenario_.delta_ms;
    const std::uint8_t kind = kind_of(bytes);
    switch (scenario_.scheduler) {
        case Scheduler::below_quorum: {
            if (kind != kVote) return 0;
            const auto message = sdbft::decode_message(bytes);
            const auto* vote = message ? std::get_if<sdbft::VoteMessage>(&*message) : nullptr;
            if (vote == nullptr) return 0;
            const auto committee = from.chain->committee_of(vote->vote.epoch);
            if (!committee || vote->member >= committee->members().size()) return 0;
            auto& weight =
                let_through_[{to.id, vote->vote.epoch, vote->vote.view, static_cast<std::uint8_t>(vote->vote.type)}];
            const Uint256 more = weight + committee->members()[vote->member].weight;
            if (committee->is_quorum(more) && rng_.below(8) != 0) return delta * (2 + rng_.below(5));
            weight = more;
            return 0;
        }
        case Scheduler::hides_masters:
            if (kind != kPropose || rng_.below(4) == 0) return 0;
            return scenario_.max_idle_ms + delta + rng_.below(4 * delta);
        case Scheduler::halves:
            if (kind == kCertificate && (from.id + to.id) % 2 == 1 && rng_.below(8) != 0) return std::nullopt;
            return 0;
        case Scheduler::overtaken: {
            if (now_ / 1000 % nodes_.size() != to.id) return 0;
            if (kind == kPropose) return 2 * delta + rng_.below(2 * delta);
            return is_about_notarizing(bytes) ? delta + rng_.below(delta) : 0;
        }
        case Scheduler::barren:
            if (is_about_notarizing(bytes)) return std::nullopt;
            return 0;
        case Scheduler::newest_first:
        case Scheduler::fair:
            return 0;
    }
    return 0;
}

void Simulation::route(Node& from, Node& to, const Shared& bytes) {
    if (from.id == to.id || cut(from, to)) return;
    if (from.behaviour == Behaviour::selective && rng_.below(2) == 0) return;
    if (!healed() && rng_.below(1000) < scenario_.loss_permille) return;
    const std::uint64_t slowest =
        healed() ? std::min(scenario_.delay_max_ms, scenario_.delta_ms / 2) : scenario_.delay_max_ms;
    const std::uint64_t copies = !healed() && rng_.below(1000) < scenario_.duplication_permille ? 2 : 1;
    for (std::uint64_t i = 0; i < copies; ++i) {
        std::uint64_t delay = scenario_.delay_min_ms + rng_.below(slowest);
        if (from.behaviour == Behaviour::slow) delay += scenario_.delta_ms * (2 + rng_.below(6));
        if (scenario_.lost_disk && from.validator == scenario_.victim &&
            (kind_of(*bytes) == kPropose || kind_of(*bytes) == kVote))
            delay += scenario_.delta_ms * (1 + rng_.below(3));
        std::int64_t order = order_++;
        if (!healed()) {
            const auto more = scheduled_delay(from, to, *bytes);
            if (!more) return;
            delay += *more;
            if (scenario_.scheduler == Scheduler::newest_first) {
                delay = kBunchMs - now_ % kBunchMs;
                order = -order;
            }
            // What was sent before the network healed is there soon after.
            if (from.behaviour != Behaviour::slow)
                delay =
                    std::min(delay, scenario_.heal_at_ms + std::max(scenario_.delta_ms, scenario_.delay_max_ms) - now_);
        }
        queue_.push({now_ + delay, order, [this, &from, &to, bytes] { deliver(from, to, bytes); }});
    }
}

void Simulation::deliver(Node& from, Node& to, const Shared& bytes) {
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
    if (to.forger) send_out(to, to.forger->hear(*bytes, *to.chain));
    if (scenario_.tiny_limits && honest(to)) reach_by_message(to, *bytes);
    const auto* forgery = to_be_refused(to, *bytes);
    to.blamed.reset();
    feed(to, sdbft::event::Received{from.id, *bytes});
    if (forgery != nullptr && to.up && to.blamed != from.id)
        auditor_.failed("forgery: node " + std::to_string(to.id) +
                        " does not refuse at once: " + std::string(*forgery));
}

// What is wrong with the proposal, if it is the first in the view that the node is in and false at first sight.
const std::string_view* Simulation::to_be_refused(Node& to, const Bytes& bytes) {
    if (kind_of(bytes) != kPropose || !honest(to)) return nullptr;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return nullptr;
    const auto& propose = std::get<sdbft::ProposeMessage>(*message);
    const auto view = to.core->status();
    const bool first = to.heard_proposals.emplace(propose.epoch, propose.view).second;
    if (!first || propose.epoch != view.epoch || propose.view != view.view) return nullptr;
    const auto info = sdbft::read_block(propose.block);
    const auto found = info ? book_.refused_at_once.find(info->hash) : book_.refused_at_once.end();
    return found == book_.refused_at_once.end() ? nullptr : &found->second;
}

// Limits that show in what comes in only.
void Simulation::reach_by_message(const Node& to, const Bytes& bytes) {
    const std::uint8_t kind = kind_of(bytes);
    if (kind == 0 || kind > 4) return;
    const auto message = sdbft::decode_message(bytes);
    if (!message) return;
    const auto view = to.core->status();
    const auto& limits = scenario_.limits;
    if (const auto* query = std::get_if<sdbft::CertificateQuery>(&*message))
        if (query->last_view - query->first_view + 1 == limits.certificates_per_query)
            auditor_.reached("certificates_per_query");
    if (const auto* propose = std::get_if<sdbft::ProposeMessage>(&*message))
        if (propose->epoch == view.epoch && propose->view > view.view + limits.future_proposals)
            auditor_.reached("future_proposals");
    if (const auto* heard = std::get_if<sdbft::VoteMessage>(&*message)) {
        if (heard->vote.epoch != view.epoch) return;
        if (heard->vote.view > view.view + limits.future_views) auditor_.reached("future_views");
        if (heard->vote.view + limits.kept_vote_views < view.view) auditor_.reached("kept_vote_views");
        if (heard->vote.view + limits.kept_final_views < view.last_finalized_view) auditor_.reached("kept_final_views");
    }
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

}  // namespace quern::sim
