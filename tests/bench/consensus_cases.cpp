// What agreeing costs: messages and bytes a block between the real cores, certificates and VRF proofs against bare
// signature verification.
#include <secp256k1.h>

#include <algorithm>
#include <array>
#include <queue>

#include "base/rng.h"
#include "bench/cases.h"
#include "chain/consensus/sdbft/core.h"
#include "crypto/vrf.h"
#include "sim/keys.h"
#include "sim/light_chain.h"

namespace quern::bench {
namespace {

using namespace chain::consensus;
using sim::LightChain;

constexpr std::uint64_t kDelayMs = 20;  // of every message
constexpr std::uint64_t kWallBase = 1'010'000;
constexpr std::uint64_t kMostEvents = 5'000'000;

// libsecp256k1 alone: parse and verify.
class PureVerification {
public:
    PureVerification() : context_(secp256k1_context_create(SECP256K1_CONTEXT_VERIFY)) {}
    ~PureVerification() { secp256k1_context_destroy(context_); }
    PureVerification(const PureVerification&) = delete;
    PureVerification& operator=(const PureVerification&) = delete;

    void verify(const Hash32& digest, const FixedBytes<64>& signature, const crypto::PublicKey& key) const {
        secp256k1_ecdsa_signature parsed;
        secp256k1_pubkey point;
        std::array<std::uint8_t, 65> uncompressed = {0x04};
        std::copy(key.bytes.data.begin(), key.bytes.data.end(), uncompressed.begin() + 1);
        if (secp256k1_ecdsa_signature_parse_compact(context_, &parsed, signature.data.data()) != 1 ||
            secp256k1_ec_pubkey_parse(context_, &point, uncompressed.data(), uncompressed.size()) != 1 ||
            secp256k1_ecdsa_verify(context_, &parsed, digest.data.data(), &point) != 1)
            give_up("a signature does not verify");
    }

private:
    secp256k1_context* context_;
};

struct Traffic {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t largest_proposal = 0;
};

// Honest validators over a network that delivers everything after the same delay; disks and executors take no time.
class Quiet {
public:
    explicit Quiet(std::size_t validators) : keys_(sim::make_keys(validators, true, true, 7)) {
        genesis_.block = sim::make_genesis_block();
        genesis_.epoch_length = 1'000'000;
        for (const auto& signer : keys_.signers) genesis_.keys.push_back(signer->public_key());
        genesis_.stake.assign(validators, 10);
        genesis_.floor.assign(validators, 1);
        genesis_.ceiling.assign(validators, 100);
        for (std::size_t i = 0; i < validators; ++i)
            nodes_.push_back({std::make_unique<LightChain>(genesis_), nullptr, 0});
        for (std::size_t i = 0; i < validators; ++i) start(i);
    }

    // Until everybody has committed this height.
    void run_to(std::uint64_t height) {
        for (std::uint64_t events = 0; !reached(height); ++events) {
            if (queue_.empty() || events > kMostEvents) give_up("the validators do not get on");
            Item item = queue_.top();
            queue_.pop();
            now_ = item.at;
            item.run();
        }
    }
    [[nodiscard]] const Traffic& traffic() const { return traffic_; }
    [[nodiscard]] const Committee& committee() const { return committee_; }

private:
    struct Node {
        std::unique_ptr<LightChain> chain;
        std::unique_ptr<sdbft::Core> core;
        std::uint64_t wake_token = 0;
    };
    struct Item {
        std::uint64_t at = 0;
        std::uint64_t order = 0;
        std::function<void()> run;
        bool operator<(const Item& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
    };

    [[nodiscard]] bool reached(std::uint64_t height) const {
        for (const Node& node : nodes_)
            if (node.chain->height() < height) return false;
        return true;
    }
    void at(std::uint64_t delay, std::function<void()> what) { queue_.push({now_ + delay, order_++, std::move(what)}); }

    void start(std::size_t index) {
        Node& node = nodes_[index];
        sdbft::CoreSetup setup;
        setup.config.chain = {genesis_.tip().hash, 7878};
        setup.config.epoch_length = genesis_.epoch_length;
        setup.epoch = node.chain->epoch_setup();
        committee_ = setup.epoch.committee;
        setup.tip = node.chain->tip();
        setup.body_matches = [chain = node.chain.get()](BytesView block) { return chain->body_matches(block); };
        node.core = must(sdbft::Core::make(std::move(setup), keys_.signers[index].get(), *keys_.scheme), "core");
        at(0, [this, index] {
            feed(index, sdbft::event::Started{});
            feed(index, sdbft::event::TransactionsWait{true});
        });
    }
    void feed(std::size_t index, const sdbft::Event& event) {
        for (auto& action : nodes_[index].core->step(event, {kWallBase + now_, 1 + now_})) act(index, action);
    }
    void deliver(std::size_t from, std::size_t to, const std::shared_ptr<const Bytes>& bytes) {
        ++traffic_.messages;
        traffic_.bytes += bytes->size();
        at(kDelayMs, [this, from, to, bytes] { feed(to, sdbft::event::Received{from, *bytes}); });
    }
    void act(std::size_t index, sdbft::Action& action) {
        namespace a = sdbft::action;
        Node& node = nodes_[index];
        if (auto* send = std::get_if<a::Send>(&action)) {
            const auto bytes = std::make_shared<const Bytes>(std::move(send->message));
            if ((*bytes)[0] == 1)
                traffic_.largest_proposal = std::max<std::uint64_t>(traffic_.largest_proposal, bytes->size());
            if (send->target == a::Target::all) {
                for (std::size_t to = 0; to < nodes_.size(); ++to)
                    if (to != index) deliver(index, to, bytes);
            } else {
                deliver(index, send->target == a::Target::one ? send->peer : (index + 1) % nodes_.size(), bytes);
            }
        } else if (auto* persist = std::get_if<a::Persist>(&action)) {
            at(0, [this, index, sequence = persist->sequence] { feed(index, sdbft::event::Persisted{sequence}); });
        } else if (auto* wake = std::get_if<a::WakeAt>(&action)) {
            const std::uint64_t token = ++node.wake_token;
            at(wake->monotonic_ms > now_ ? wake->monotonic_ms - now_ : 1, [this, index, token] {
                if (token == nodes_[index].wake_token) feed(index, sdbft::event::TimePassed{});
            });
        } else if (auto* build = std::get_if<a::Build>(&action)) {
            at(0, [this, index, request = build->request] {
                auto block = must(nodes_[index].chain->build(request, {}, 1), "build");
                feed(index, sdbft::event::Built{request.view, std::move(block)});
            });
        } else if (auto* validate = std::get_if<a::Validate>(&action)) {
            at(0, [this, index, hash = validate->hash, block = std::move(validate->block)] {
                feed(index, sdbft::event::Validated{hash, nodes_[index].chain->validate(hash, block)});
            });
        } else if (auto* commit = std::get_if<a::Commit>(&action)) {
            at(0, [this, index, hash = commit->hash, block = std::move(commit->block),
                   certificate = std::move(commit->certificate)] {
                auto next = must(nodes_[index].chain->commit(hash, block, certificate), "commit");
                feed(index, sdbft::event::Committed{nodes_[index].chain->tip(), std::move(next)});
            });
        } else if (auto* halt = std::get_if<a::Halt>(&action)) {
            give_up("a core halts: " + halt->error.to_string());
        }
    }

    sim::KeyRing keys_;
    sim::LightGenesis genesis_;
    Committee committee_;
    std::vector<Node> nodes_;
    std::priority_queue<Item> queue_;
    std::uint64_t now_ = 0;
    std::uint64_t order_ = 0;
    Traffic traffic_;
};

void bench_traffic(Bench& bench, std::size_t validators, std::uint64_t blocks, double verify_seconds) {
    constexpr std::uint64_t kWarmUp = 2;
    Quiet network(validators);
    network.run_to(kWarmUp);
    const Traffic before = network.traffic();
    const double started = steady_seconds();
    network.run_to(kWarmUp + blocks);
    const double seconds = steady_seconds() - started;
    const double n = static_cast<double>(validators);
    const double per_block = 1.0 / static_cast<double>(blocks);
    const double messages = static_cast<double>(network.traffic().messages - before.messages) * per_block;
    const double bytes = static_cast<double>(network.traffic().bytes - before.bytes) * per_block;

    // One proposal; each member sends two votes and relays two certificates to everybody.
    std::vector<std::pair<std::size_t, FixedBytes<64>>> quorum;
    for (std::size_t i = 0; 3 * i <= 2 * validators; ++i) quorum.emplace_back(i, FixedBytes<64>{});
    const Vote vote{VoteType::finalize, 0, 1'000, Hash32{{1}}};
    const double vote_bytes = static_cast<double>(sdbft::encode(sdbft::VoteMessage{vote, validators - 1, {}}).size());
    const double certificate_bytes = static_cast<double>(
        sdbft::encode(sdbft::CertificateMessage{make_certificate(vote, network.committee(), quorum)}).size());
    const double proposal_bytes = static_cast<double>(network.traffic().largest_proposal);
    const double least = (n - 1) * (1 + 2 * n);
    const double protocol = (n - 1) * (1 + 4 * n);
    const std::string name = "consensus, " + std::to_string(validators) + " validators: ";
    bench.add({name + "messages a block", messages, "messages", 0, 0, Reference{"(n - 1)(1 + 4 n)", protocol}, 0,
               "without relayed certificates " + std::to_string(static_cast<std::uint64_t>(least))});
    bench.add(
        {name + "bytes a block, all links", bytes, "bytes", 0, 0,
         Reference{"the encodings' sizes", (n - 1) * (proposal_bytes + 2 * n * vote_bytes + 2 * n * certificate_bytes)},
         0, "certificate " + std::to_string(static_cast<std::uint64_t>(certificate_bytes)) + " bytes"});
    bench.add({name + "bytes a block and validator", bytes / n, "bytes", 0, 0, {}, 0, {}});
    const double milliseconds = seconds * per_block / n * 1e3;
    bench.add({name + "CPU a block and validator",
               milliseconds,
               "ms",
               0,
               0,
               Reference{"verifying 2 (n - 1) signatures", 2 * (n - 1) * verify_seconds * 1e3},
               0,
               {}});
}

}  // namespace

void bench_consensus(Bench& bench) {
    constexpr std::size_t kMembers = kMaxCommittee;
    SeededRng rng(9);
    std::vector<crypto::PrivateKey> keys;
    std::vector<CommitteeMember> members;
    for (std::size_t i = 0; i < kMembers; ++i) {
        keys.push_back(crypto::PrivateKey::generate(rng));
        members.push_back({crypto::derive_public(keys.back()), Uint256(1)});
    }
    const Committee committee = must(Committee::make(members), "committee");
    const ChainIdentity chain{Hash32{{1}}, 7878};
    const Vote vote{VoteType::finalize, 3, 100, Hash32{{2}}};
    std::map<std::size_t, FixedBytes<64>> signatures;
    for (const auto& key : keys)
        if (signatures.size() < kMembers * 2 / 3 + 1)
            signatures[committee.index_of(crypto::derive_public(key))] = sign_vote(chain, vote, key);
    const Certificate certificate = make_certificate(vote, committee, {signatures.begin(), signatures.end()});
    const Hash32 digest = vote_digest(chain, vote);
    const PureVerification pure;
    const auto verify_all = [&] {
        for (const auto& [index, signature] : signatures)
            pure.verify(digest, signature, committee.members()[index].key);
    };
    const Bytes message = to_bytes(digest);
    const auto proof = crypto::vrf_prove(keys[0], message);
    const auto public_key = crypto::derive_public(keys[0]);
    const auto timings = bench.time({
        [&] { must(verify_certificate(certificate, committee, chain), "certificate"); },
        verify_all,
        [&] { keep(sign_vote(chain, vote, keys[0])); },
        [&] { keep(crypto::vrf_prove(keys[0], message)); },
        [&] { keep(must(crypto::vrf_verify(public_key, message, proof.proof), "proof")); },
    });
    const double count = static_cast<double>(signatures.size());
    const std::string bare = "libsecp256k1, " + std::to_string(signatures.size()) + " verifications";
    bench.add_time("certificate of 67 of 100 members, verified", timings[0], 1, bare, &timings[1], 1,
                   std::to_string(encode(certificate).size()) + " bytes");
    bench.add_time("signing a vote", timings[2], 1, "libsecp256k1, one verification", &timings[1], count);
    bench.add_time("VRF proof, made", timings[3], 1, "libsecp256k1, one verification", &timings[1], count);
    bench.add_time("VRF proof, verified", timings[4], 1, "libsecp256k1, one verification", &timings[1], count);

    const double verify_seconds = timings[1].median / count;
    for (const std::size_t validators : {4, 7, 25}) bench_traffic(bench, validators, 20, verify_seconds);
    bench_traffic(bench, 100, 3, verify_seconds);
}

}  // namespace quern::bench
