// Drives the cores: starts, crashes and feeds them, and carries out what they ask for.
#include "sim/simulation_impl.h"

namespace quern::sim {

void Simulation::start(Node& node) {
    auto records = node.disk.recover();
    if (!records) return auditor_.failed("journal: " + records.error().to_string());
    sdbft::CoreSetup setup;
    setup.config.chain = identity_;
    setup.config.epoch_length = scenario_.genesis.epoch_length;
    setup.config.min_block_ms = scenario_.min_block_ms;
    setup.config.max_idle_ms = scenario_.max_idle_ms;
    setup.config.delta_ms = scenario_.delta_ms;
    setup.config.journal_rewrite_bytes = scenario_.old_database ? rng_.below(3000) : 4000 + rng_.below(30000);
    setup.config.limits = scenario_.limits;
#ifdef QUERN_SDBFT_PLANTED_BUGS
    setup.config.hooks.bug = options_.bug;
#endif
    setup.epoch = node.chain->epoch_setup();
    if (setup.epoch.epoch > 0) setup.previous_committee = node.chain->committee_of(setup.epoch.epoch - 1);
    setup.tip = node.chain->tip();
    setup.tip_certificate = node.chain->tip_certificate();
    setup.journal_found = node.disk.exists();
    setup.accept_missing_journal = node.accepts_missing_journal;
    setup.listen_ms = 3 * scenario_.delta_ms;
    setup.records = std::move(*records);
    setup.detect_other_signer = node.behaviour == Behaviour::honest;
    setup.body_matches = [&node](BytesView block) { return node.chain->body_matches(block); };
    setup.address_of = [this](sdbft::PeerId peer) -> std::optional<Bytes20> {
        const auto& validator = nodes_[peer]->validator;
        if (!validator) return std::nullopt;
        return crypto::address20(keys_.signers[*validator]->public_key());
    };
    const sdbft::Signer* signer = node.validator ? keys_.signers[*node.validator].get() : nullptr;
    auto core = sdbft::Core::make(std::move(setup), signer, *keys_.scheme);
    if (!core) return auditor_.failed("start: " + core.error().to_string());
    node.core = std::move(*core);
    node.up = true;
    node.heard_proposals.clear();
    ++node.incarnation;
    trace(node, [] { return std::string("starts"); });
    start_witness(node);
    feed(node, sdbft::event::Started{});
    at(node, rng_.below(200), [this, &node] { toggle_transactions(node); });
}

void Simulation::crash(Node& node, const char* why) {
    if (!node.up) return;
    trace(node, [&] { return std::string("crashes ") + why; });
    node.witness.reset();
    if (node.validator && node.validator == scenario_.victim && !spoiled_) spoil(node);
    node.up = false;
    node.core.reset();
    if (const auto restarted = node.chain->crash(rng_); !restarted)
        auditor_.failed("database: " + restarted.error().to_string());
    node.disk.crash(rng_);
    // Where nothing moves without this validator, an early return finds the view that it left.
    const std::uint64_t back = std::min(50 + rng_.below(now_ < node.alone_until ? 300 : 2500),
                                        scenario_.heal_at_ms - std::min(now_, scenario_.heal_at_ms));
    at(back, [this, &node] {
        if (!node.up && !node.halted) start(node);
    });
}

// What the operator finds when the victim has crashed.
void Simulation::spoil(Node& node) {
    const auto view = node.core->status();
    if (scenario_.lost_journal) {
        if (node.chain->height() == 0) return;
        node.disk.lose();
        spoiled_ = true;
        trace(node, [] { return std::string("loses its journal"); });
        if (scenario_.accepted) accept_without_journal(node, {view.epoch, view.view});
        return;
    }
    if (scenario_.lost_disk) {
        if (node.lost_disk || node.chain->height() == 0) return;
        node.lost_disk = true;
        node.chain = new_chain(static_cast<std::uint8_t>(1 + node.id));
        node.disk.lose();
        come_back_alone(node);
        return trace(node, [] { return std::string("loses its disk"); });
    }
    if (!node.snapshot) return;
    if (scenario_.old_disk || scenario_.old_database) node.chain = std::move(node.snapshot->first);
    if (scenario_.old_disk || scenario_.old_journal) node.disk = std::move(node.snapshot->second);
    node.snapshot.reset();
    if (scenario_.old_database) {
        come_back_alone(node);
        trace(node, [] { return std::string("gets an old database back"); });
        return;
    }
    spoiled_ = true;
    auditor_.now_faulty(*node.validator);
    trace(node, [] { return std::string("gets an old journal back"); });
}

// Its connections take longer than its timers: what it signs before anybody can tell it how far the others are.
void Simulation::come_back_alone(Node& node) {
    node.alone_until = std::min(now_ + rng_.below(3000), std::max(now_, scenario_.heal_at_ms));
}

// The operator waits until all that the key has signed is over, and says that it may sign again.
void Simulation::accept_without_journal(Node& node, std::pair<std::uint64_t, std::uint64_t> signed_up_to) {
    at(300, [this, &node, signed_up_to] {
        const auto& tip = auditor_.reference().tip();
        if (!healed() || std::pair(tip.epoch, tip.view) <= signed_up_to)
            return accept_without_journal(node, signed_up_to);
        node.accepts_missing_journal = true;
        crash(node, "to be started without its journal");
    });
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
        if (!node.up) return;
    }
    if (scenario_.tiny_limits && honest(node)) check_limits(node);
    // The moment at which a forgotten vote would hurt most.
    if (sent && crashes_left_ > 0 && !healed() && rng_.below(60) == 0) {
        --crashes_left_;
        crash(node, "right after it sent a vote");
    }
}

void Simulation::check_limits(const Node& node) {
    const auto held = node.core->status();
    const auto& limits = scenario_.limits;
    // As many again that a quorum has signed, a range, and what the views ahead bring.
    auditor_.holds(node.id, "blocks_kept", held.blocks_kept, limits.blocks_kept,
                   3 * limits.blocks_kept + limits.future_proposals + 2);
    auditor_.holds(node.id, "wanted_blocks", held.wanted_blocks, limits.wanted_blocks, limits.wanted_blocks);
    auditor_.holds(node.id, "pending_peers", held.pending_peers, limits.pending_peers, limits.pending_peers);
    auditor_.holds(node.id, "pending_messages", held.pending_messages, limits.pending_messages,
                   limits.pending_messages * limits.pending_peers);
    auditor_.holds(node.id, "pending_bytes", held.pending_bytes, limits.pending_bytes * 3 / 4,
                   limits.pending_bytes * limits.pending_peers);
    auditor_.holds(node.id, "peers_helped", held.peers_helped, limits.peers_helped, limits.peers_helped);
}

bool Simulation::write_fails() {
    if (failures_left_ == 0 || healed() || rng_.below(60) != 0) return false;
    --failures_left_;
    return true;
}

void Simulation::act(Node& node, sdbft::Action& action) {
    namespace a = sdbft::action;
    if (auto* send_action = std::get_if<a::Send>(&action)) {
        send(node, *send_action);
    } else if (const auto* range = std::get_if<a::AskRange>(&action)) {
        ask(node, range->peer, sdbft::RangeQuery{range->first_height});
    } else if (const auto* block = std::get_if<a::AskBlock>(&action)) {
        ask(node, block->peer, sdbft::BlockQuery{block->hash});
    } else if (auto* persist_action = std::get_if<a::Persist>(&action)) {
        persist(node, *persist_action);
    } else if (auto* wake = std::get_if<a::WakeAt>(&action)) {
        const std::uint64_t real = (wake->monotonic_ms * 100 + node.rate - 1) / node.rate;
        const std::uint64_t token = ++node.wake_token;
        at(node, real > now_ ? real - now_ : 1, [this, &node, token] {
            if (token == node.wake_token) feed(node, sdbft::event::TimePassed{});
        });
    } else if (auto* build_action = std::get_if<a::Build>(&action)) {
        at(node, rng_.below(scenario_.executor_max_ms),
           [this, &node, request = build_action->request] { build(node, request); });
    } else if (auto* validate = std::get_if<a::Validate>(&action)) {
        at(node, rng_.below(scenario_.executor_max_ms),
           [this, &node, hash = validate->hash, block = std::move(validate->block)] {
               feed(node, sdbft::event::Validated{hash, node.chain->validate(hash, block)});
           });
    } else if (auto* commit_action = std::get_if<a::Commit>(&action)) {
        at(node, rng_.below(scenario_.executor_max_ms),
           [this, &node, commit_action = std::move(*commit_action)] { commit(node, commit_action); });
    } else if (auto* keep = std::get_if<a::Keep>(&action)) {
        if (honest(node)) auditor_.kept(node.id, keep->certificate);
        if (node.witness) node.witness->keep(keep->certificate);
        do_duties(node);
    } else if (auto* convict = std::get_if<a::Convict>(&action)) {
        trace(node, [] { return std::string("has evidence of a double sign"); });
        if (honest(node)) auditor_.convicted(convict->evidence);
        if (node.witness) node.witness->convict(convict->evidence);
    } else if (auto* blame = std::get_if<a::Misbehaved>(&action)) {
        Node& accused = *nodes_[blame->peer];
        node.blamed = blame->peer;
        trace(node, [&] { return "blames node " + std::to_string(accused.id) + ": " + blame->error.to_string(); });
        if (honest(node) && honest(accused)) auditor_.blamed(node.id, accused.id, blame->error);
    } else if (auto* serve = std::get_if<a::ServeBlock>(&action)) {
        if (serve->block)
            send(node, {a::Target::one, serve->peer, sdbft::encode(sdbft::Message(sdbft::BlockAnswer{*serve->block}))});
        else if (auto answer = node.chain->block(serve->hash))
            send(node, {a::Target::one, serve->peer, sdbft::encode(sdbft::Message(std::move(*answer)))});
    } else if (auto* serve_range = std::get_if<a::ServeRange>(&action)) {
        if (auto answer = node.chain->range(serve_range->first_height))
            send(node, {a::Target::one, serve_range->peer, sdbft::encode(sdbft::Message(std::move(*answer)))});
    } else if (auto* halt = std::get_if<a::Halt>(&action)) {
        trace(node, [&] { return "halts: " + halt->error.to_string(); });
        node.up = false;
        node.halted = true;
        node.witness.reset();
        if (honest(node)) auditor_.halted(node.id, halt->error);
    }
}

void Simulation::ask(Node& node, const std::optional<sdbft::PeerId>& peer, const sdbft::Message& query) {
    namespace a = sdbft::action;
    send(node, {peer ? a::Target::one : a::Target::any, peer.value_or(0), sdbft::encode(query)});
}

void Simulation::persist(Node& node, const sdbft::action::Persist& persist) {
    node.disk.write(persist.sequence, persist.records, persist.replace);
    // A validator that refuses for want of its journal keeps none, so that the next start refuses too.
    if (node.core->status().refuses_because == "sdbft.no_journal") node.disk.lose();
    if (write_fails()) return crash(node, "because it cannot write its journal");
    const std::uint64_t sequence = persist.sequence;
    at(node, rng_.below(scenario_.sync_max_ms + 1), [this, &node, sequence] {
        node.disk.sync(sequence);
        feed(node, sdbft::event::Persisted{sequence});
    });
}

void Simulation::build(Node& node, const sdbft::BlockRequest& request) {
    const auto mark = static_cast<std::uint8_t>(1 + node.id);
    auto block = node.chain->build(request, options_.real_executor ? std::vector<Bytes>() : transactions(), mark);
    if (block)
        feed(node, sdbft::event::Built{request.view, std::move(*block)});
    else
        feed(node, sdbft::event::BuildFailed{request.view});
}

void Simulation::commit(Node& node, const sdbft::action::Commit& commit) {
    const bool fails = write_fails();
    if (fails) node.chain->fail_next_commit(rng_);
    auto next = node.chain->commit(commit.hash, commit.block, commit.certificate);
    if (!next && fails) return crash(node, "because it cannot write its database");
    if (fails) {
        if (honest(node)) auditor_.committed(node.id, node.chain->height(), commit.block, commit.certificate);
        return crash(node, "because it cannot write its database any more");
    }
    if (!next) {
        node.up = false;
        node.halted = true;
        node.witness.reset();
        if (honest(node)) auditor_.halted(node.id, next.error());
        return;
    }
    trace(node, [&] {
        return "commits height " + std::to_string(node.chain->height()) + " " +
               to_hex(node.chain->tip().hash.view().first(4));
    });
    if (honest(node)) auditor_.committed(node.id, node.chain->height(), commit.block, commit.certificate);
    if (node.witness) node.witness->committed(*next);
    do_duties(node);
    // A crash in between finds a database that has a block of which the core was never told.
    at(node, rng_.below(scenario_.executor_max_ms), [this, &node, next = std::move(*next)] {
        feed(node, sdbft::event::Committed{node.chain->tip(), next});
    });
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

}  // namespace quern::sim
