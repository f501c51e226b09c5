#include "fuzz/core_target.h"

#include <array>
#include <deque>
#include <map>

#include "chain/consensus/beacon.h"
#include "chain/consensus/sdbft/core.h"
#include "sim/keys.h"
#include "sim/light_chain.h"

namespace quern::fuzz {
namespace {

namespace sdbft = chain::consensus::sdbft;
namespace types = chain::types;
using chain::consensus::Certificate;
using chain::consensus::ChainIdentity;
using chain::consensus::Tip;
using chain::consensus::Vote;
using chain::consensus::VoteType;

constexpr std::size_t kHonest = 3;
constexpr std::size_t kMembers = 4;  // the last one lies
constexpr std::uint64_t kEpochLength = 4;
constexpr std::uint64_t kDelta = 100;
constexpr std::size_t kMaxQueued = 256;
constexpr std::size_t kMaxSteps = 2'000;  // of all cores

// What the first byte of an operation, modulo the number of them, means.
enum Op : std::uint8_t {
    deliver,
    drop,
    repeat,
    run,
    wait,
    restart,
    crash,
    old_database,
    no_journal,
    snapshot,
    traffic,
    lie_vote,
    lie_block,
    lie_certificate,
    lie_early,
    raw,
    count_
};

class World {
public:
    explicit World(BytesView input) : input_(input), keys_(sim::make_keys(kMembers, false, false, 5)) {
        genesis_.block = sim::make_genesis_block();
        genesis_.epoch_length = kEpochLength;
        for (const auto& signer : keys_.signers) {
            genesis_.keys.push_back(signer->public_key());
            genesis_.stake.push_back(10);
            genesis_.floor.push_back(10);
            genesis_.ceiling.push_back(10);
        }
        identity_ = {genesis_.tip().hash, 7878};
        for (std::size_t i = 0; i < kHonest; ++i) {
            nodes_[i].chain = std::make_unique<sim::LightChain>(genesis_);
            start(i, true);
        }
    }

    bool play() {
        while (at_ < input_.size() && steps_ < kMaxSteps) operate(static_cast<Op>(next() % count_));
        return height_ > 0;
    }

private:
    struct Node {
        std::unique_ptr<sim::LightChain> chain;
        std::unique_ptr<sim::LightChain> old;
        std::vector<sdbft::Record> journal;  // durable
        std::deque<sdbft::action::Persist> unsynced;
        std::unique_ptr<sdbft::Core> core;
        std::optional<std::uint64_t> wake;
        bool slow_disk = false;
    };
    struct Mail {
        std::size_t from = 0;
        std::size_t to = 0;
        Bytes bytes;
    };

    std::uint8_t next() { return at_ < input_.size() ? input_[at_++] : 0; }

    void start(std::size_t i, bool journal_found) {
        Node& node = nodes_[i];
        sdbft::CoreSetup setup;
        setup.config.chain = identity_;
        setup.config.epoch_length = kEpochLength;
        setup.config.delta_ms = kDelta;
        setup.config.min_block_ms = 10;
        setup.config.max_idle_ms = 50;
        setup.config.journal_rewrite_bytes = 2'000;
        setup.config.limits.blocks_kept = 6;
        setup.config.limits.wanted_blocks = 3;
        setup.config.limits.pending_messages = 4;
        setup.config.limits.wrong_bodies = 2;
        setup.epoch = node.chain->epoch_setup();
        if (setup.epoch.epoch > 0) setup.previous_committee = node.chain->committee_of(setup.epoch.epoch - 1);
        setup.tip = node.chain->tip();
        setup.tip_certificate = node.chain->tip_certificate();
        setup.journal_found = journal_found;
        setup.records = node.journal;
        setup.body_matches = [&node](BytesView block) { return node.chain->body_matches(block); };
        setup.address_of = [this](sdbft::PeerId peer) -> std::optional<Bytes20> {
            if (peer >= keys_.signers.size()) return std::nullopt;
            return crypto::address20(keys_.signers[peer]->public_key());
        };
        SeededRng power(i);
        (void)node.chain->crash(power);
        node.unsynced.clear();
        node.wake.reset();
        auto made = sdbft::Core::make(std::move(setup), keys_.signers[i].get(), *keys_.scheme);
        QUERN_ACCEPTED(made);
        node.core = std::move(*made);
        feed(i, sdbft::event::Started{});
    }

    void feed(std::size_t i, const sdbft::Event& first) {
        std::deque<sdbft::Event> events = {first};
        while (!events.empty() && steps_++ < kMaxSteps) {
            const sdbft::Event event = std::move(events.front());
            events.pop_front();
            for (auto& action : nodes_[i].core->step(event, {1'000'000 + now_, 1 + now_})) act(i, action, events);
        }
        check(i);
    }

    void act(std::size_t i, sdbft::Action& action, std::deque<sdbft::Event>& events) {
        namespace a = sdbft::action;
        Node& node = nodes_[i];
        if (auto* send = std::get_if<a::Send>(&action)) {
            audit_sent(i, send->message);
            if (send->target == a::Target::all)
                for (std::size_t to = 0; to < kMembers; ++to) post(i, to, send->message);
            else
                post(i, send->target == a::Target::one ? send->peer : now_ % kMembers, send->message);
        } else if (const auto* range = std::get_if<a::AskRange>(&action)) {
            post(i, range->peer.value_or(now_ % kMembers),
                 sdbft::encode(sdbft::Message(sdbft::RangeQuery{range->first_height})));
        } else if (const auto* block = std::get_if<a::AskBlock>(&action)) {
            post(i, block->peer.value_or((now_ + 1) % kMembers),
                 sdbft::encode(sdbft::Message(sdbft::BlockQuery{block->hash})));
        } else if (auto* persist = std::get_if<a::Persist>(&action)) {
            const std::uint64_t sequence = persist->sequence;
            node.unsynced.push_back(std::move(*persist));
            if (!node.slow_disk) {
                sync(node);
                events.push_back(sdbft::event::Persisted{sequence});
            }
        } else if (const auto* wake = std::get_if<a::WakeAt>(&action)) {
            node.wake = wake->monotonic_ms;
        } else if (const auto* build = std::get_if<a::Build>(&action)) {
            auto made = node.chain->build(build->request, {}, static_cast<std::uint8_t>(i + 1));
            QUERN_ACCEPTED(made);
            events.push_back(sdbft::event::Built{build->request.view, std::move(*made)});
        } else if (const auto* validate = std::get_if<a::Validate>(&action)) {
            events.push_back(
                sdbft::event::Validated{validate->hash, node.chain->validate(validate->hash, validate->block)});
        } else if (const auto* commit = std::get_if<a::Commit>(&action)) {
            auto epoch = node.chain->commit(commit->hash, commit->block, commit->certificate);
            QUERN_ACCEPTED(epoch);
            const auto [known, is_new] = final_.emplace(node.chain->height(), commit->hash);
            QUERN_PROPERTY(known->second == commit->hash);
            height_ = std::max(height_, node.chain->height());
            events.push_back(sdbft::event::Committed{node.chain->tip(), std::move(*epoch)});
        } else if (const auto* blame = std::get_if<a::Misbehaved>(&action)) {
            if (blame->peer < kHonest)
                violated("an honest peer is blamed", __FILE__, __LINE__, blame->error.to_string());
        } else if (const auto* convict = std::get_if<a::Convict>(&action)) {
            QUERN_PROPERTY(convict->evidence.signer == keys_.signers[kHonest]->public_key());
        } else if (const auto* serve = std::get_if<a::ServeBlock>(&action)) {
            if (serve->block)
                post(i, serve->peer, sdbft::encode(sdbft::Message(sdbft::BlockAnswer{*serve->block})));
            else if (auto answer = node.chain->block(serve->hash))
                post(i, serve->peer, sdbft::encode(sdbft::Message(std::move(*answer))));
        } else if (const auto* served = std::get_if<a::ServeRange>(&action)) {
            if (auto answer = node.chain->range(served->first_height))
                post(i, served->peer, sdbft::encode(sdbft::Message(std::move(*answer))));
        } else if (const auto* halted = std::get_if<a::Halt>(&action)) {
            violated("an honest node halts", __FILE__, __LINE__, halted->error.to_string());
        }
    }

    static void sync(Node& node) {
        for (auto& write : node.unsynced) {
            if (write.replace) node.journal.clear();
            node.journal.insert(node.journal.end(), write.records.begin(), write.records.end());
        }
        node.unsynced.clear();
    }

    void check(std::size_t i) const {
        const auto held = nodes_[i].core->status();
        QUERN_PROPERTY(held.blocks_kept <= 2 * 6 + 5 + 2 * kEpochLength);
        QUERN_PROPERTY(held.wanted_blocks <= 3);
        QUERN_PROPERTY(held.pending_peers <= kMembers && held.pending_messages <= 4 * kMembers);
    }

    // An honest validator never contradicts itself, in all its lives.
    void audit_sent(std::size_t i, BytesView bytes) {
        if (bytes.empty() || bytes[0] > 2) return;
        const auto message = sdbft::decode_message(bytes);
        QUERN_ACCEPTED(message);
        Vote vote;
        if (const auto* sent = std::get_if<sdbft::VoteMessage>(&*message)) {
            vote = sent->vote;
        } else {
            const auto& propose = std::get<sdbft::ProposeMessage>(*message);
            vote = {VoteType::propose, propose.epoch, propose.view, sdbft::read_block(propose.block)->hash};
        }
        auto& signed_before = votes_[{i, vote.epoch, vote.view}];
        for (const auto& other : signed_before)
            if (sdbft::is_slashable_pair(vote, other))
                violated("an honest validator contradicts itself", __FILE__, __LINE__,
                         std::string(sdbft::name_of(vote.type)) + " " + std::to_string(vote.epoch) + "." +
                             std::to_string(vote.view));
        signed_before.push_back(vote);
    }

    void post(std::size_t from, std::size_t to, Bytes bytes) {
        if (to >= kHonest || from == to) return;
        if (mail_.size() >= kMaxQueued) mail_.pop_front();
        mail_.push_back({from, to, std::move(bytes)});
    }
    void hand_over(std::size_t index) {
        const Mail mail = std::move(mail_[index]);
        mail_.erase(mail_.begin() + static_cast<std::ptrdiff_t>(index));
        feed(mail.to, sdbft::event::Received{mail.from, mail.bytes});
    }
    void pass(std::uint64_t milliseconds) {
        now_ += milliseconds;
        for (std::size_t i = 0; i < kHonest; ++i)
            if (nodes_[i].wake && *nodes_[i].wake <= 1 + now_) {
                nodes_[i].wake.reset();
                feed(i, sdbft::event::TimePassed{});
            }
    }

    // --- The Byzantine member
    void lie(std::size_t to, const sdbft::Message& message) { post(kHonest, to, sdbft::encode(message)); }
    sdbft::Signature signature(const Vote& vote) const {
        return keys_.signers[kHonest]->sign(vote_digest(identity_, vote));
    }
    std::size_t liar_in(const sdbft::EpochSetup& epoch) const {
        return epoch.committee.index_of(keys_.signers[kHonest]->public_key());
    }
    Vote vote_from(std::uint64_t epoch, std::uint64_t around) {
        Vote vote{static_cast<VoteType>(2 + next() % 3), epoch, around + next() % 6, {}};
        vote.view -= std::min<std::uint64_t>(vote.view, 2);
        if (vote.type == VoteType::nullify) return vote;
        const auto known = final_.find(nodes_[0].chain->height());
        vote.hash = next() % 2 == 0 && known != final_.end() ? known->second : Hash32{{next()}};
        return vote;
    }
    void propose_lie(std::size_t to) {
        Node& node = nodes_[to];
        const auto view = node.core->status();
        const auto setup = node.chain->epoch_setup();
        const std::uint64_t in_view = view.view + next() % 5;
        const Tip parent = node.chain->tip();
        auto vrf = keys_.signers[kHonest]->vrf_prove(parent.beacon);
        auto made =
            node.chain->build({parent, setup.epoch, in_view, parent.timestamp_ms + 1 + next(),
                               chain::consensus::next_beacon(parent.beacon, vrf.output), vrf.proof,
                               node.chain->tip_certificate(), setup.committee.hash(), setup.next_committee_hash},
                              {}, next());
        if (!made) return;
        auto block = *types::decode_block(*made);
        auto& header = block.header;
        switch (next() % 10) {
            case 0:
                header.number += next();
                break;
            case 1:
                header.consensus.epoch += next();
                break;
            case 2:
                header.consensus.view += next();
                break;
            case 3:
                header.consensus.beacon.data[0] ^= next();
                break;
            case 4:
                header.parent_hash.data[0] ^= next();
                break;
            case 5:
                header.consensus.committee_hash.data[0] ^= next();
                break;
            case 6:
                header.state_root.data[0] ^= next();
                break;
            case 7:
                block.transactions.push_back(Bytes(11));
                break;
            case 8:
                header.consensus.parent_certificate_hash.data[0] ^= next();
                break;
            default:
                break;
        }
        sdbft::ProposeMessage message{setup.epoch, in_view, types::encode(block), {}, {}, {}};
        message.signature = signature({VoteType::propose, setup.epoch, in_view, types::hash_of(block.header)});
        lie(to, std::move(message));
    }

    void operate(Op op) {
        const std::size_t who = op == deliver || op == drop || op == repeat ? 0 : next() % kHonest;
        Node& node = nodes_[who];
        switch (op) {
            case deliver:
                if (!mail_.empty()) hand_over(next() % mail_.size());
                break;
            case drop:
                if (!mail_.empty()) mail_.erase(mail_.begin() + next() % static_cast<std::ptrdiff_t>(mail_.size()));
                break;
            case repeat:
                if (!mail_.empty()) {
                    const Mail again = mail_[next() % mail_.size()];
                    post(again.from, again.to, again.bytes);
                }
                break;
            case run:  // a while in which the network works
                for (std::size_t i = 40 + 4 * next(); i > 0 && steps_ < kMaxSteps; --i) {
                    if (mail_.empty())
                        pass(10);
                    else
                        hand_over(0);
                }
                break;
            case wait:
                pass(4 * next());
                break;
            case restart:
                sync(node);
                start(who, true);
                break;
            case crash:  // what was not synced is lost; the disk is slow from now on, or fast again
                node.slow_disk = next() % 2 == 0;
                start(who, true);
                break;
            case old_database:
                if (!node.old) break;
                sync(node);
                node.chain = std::move(node.old);
                start(who, true);
                break;
            case no_journal:
                if (next() % 8 != 0 || node.chain->height() == 0) break;
                node.journal.clear();
                start(who, false);
                break;
            case snapshot:
                node.old = std::make_unique<sim::LightChain>(*node.chain);
                break;
            case traffic:
                if (node.slow_disk && !node.unsynced.empty()) {
                    const std::uint64_t sequence = node.unsynced.back().sequence;
                    sync(node);
                    feed(who, sdbft::event::Persisted{sequence});
                }
                feed(who, sdbft::event::TransactionsWait{next() % 2 == 0});
                break;
            case lie_vote: {
                const auto view = node.core->status();
                const Vote vote = vote_from(view.epoch, view.view);
                lie(who, sdbft::VoteMessage{vote, liar_in(node.chain->epoch_setup()), signature(vote)});
                break;
            }
            case lie_block:
                propose_lie(who);
                break;
            case lie_certificate: {
                const auto view = node.core->status();
                const auto setup = node.chain->epoch_setup();
                const Vote vote = vote_from(view.epoch, view.view);
                std::vector<std::pair<std::size_t, sdbft::Signature>> signatures;
                for (std::size_t i = 0; i < kMembers; ++i)
                    if (i != who)
                        signatures.emplace_back(i, i == liar_in(setup) ? signature(vote) : sdbft::Signature{});
                lie(who, sdbft::CertificateMessage{make_certificate(vote, setup.committee, signatures)});
                break;
            }
            case lie_early: {
                const auto epoch = node.core->status().epoch + 1 + next() % 2;
                const Vote vote = vote_from(epoch, 1);
                lie(who, sdbft::VoteMessage{vote, liar_in(node.chain->epoch_setup()), signature(vote)});
                break;
            }
            default: {
                const std::size_t length = std::min<std::size_t>(next(), input_.size() - at_);
                post(10 + next() % 3, who, to_bytes(input_.subspan(std::min(at_, input_.size() - length), length)));
                break;
            }
        }
    }

    BytesView input_;
    std::size_t at_ = 0;
    sim::KeyRing keys_;
    sim::LightGenesis genesis_;
    ChainIdentity identity_;
    std::array<Node, kHonest> nodes_;
    std::deque<Mail> mail_;
    std::uint64_t now_ = 0;
    std::size_t steps_ = 0;
    std::uint64_t height_ = 0;
    std::map<std::uint64_t, Hash32> final_;  // by height
    std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, std::vector<Vote>> votes_;
};

}  // namespace

bool run_sdbft_core(BytesView input) { return World(input).play(); }

std::vector<Seed> seeds_sdbft_core() {
    return {
        {"epochs", {run, 0, 250, run, 0, 250, run, 0, 250, traffic, 0, 0, run, 0, 250}},
        {"restarts", {run, 0, 60,  snapshot, 1,  run,   0, 200, old_database, 1, run, 0, 200, crash,
                      0,   0, run, 0,        30, crash, 0, 1,   restart,      2, run, 0, 250}},
        {"lies", {lie_vote, 0, 0, 3, 1,   7,   run, 0,         20,        lie_block,
                  1,        0, 5, 9, 0,   200, run, 0,         20,        lie_certificate,
                  2,        1, 2, 0, 4,   run, 0,   60,        lie_early, 0,
                  0,        1, 2, 3, run, 0,   200, lie_block, 2,         1,
                  5,        9, 2, 7, run, 0,   100}},
    };
}

}  // namespace quern::fuzz
