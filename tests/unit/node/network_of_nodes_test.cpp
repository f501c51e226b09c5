// Four validators and a follower in one process, over real connections on the loopback interface.
#include "chain_fixture.h"
#include "node/participation.h"

namespace quern::node {
namespace {

namespace sdbft = chain::consensus::sdbft;

constexpr std::uint8_t kFirstValidator = 101;
constexpr std::uint8_t kFollower = 120;

template <class Condition>
bool wait_until(Condition condition, int seconds = 60) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

std::string network_genesis(std::uint8_t validators) {
    auto genesis = test_genesis();
    genesis.validators.clear();
    for (std::uint8_t i = 0; i < validators; ++i) {
        const auto seed = static_cast<std::uint8_t>(kFirstValidator + i);
        genesis.validators.push_back(
            {to_bytes(crypto::derive_public(test_key(seed)).bytes), Uint256(1000) * chain::params::kGrainsPerQrn});
        genesis.allocations.push_back({test_address(seed), Uint256(10) * chain::params::kGrainsPerQrn});
    }
    genesis.params.min_block_ms = 50;
    genesis.params.max_idle_ms = 150;
    genesis.params.epoch_length = 20;
    return chain::exec::to_json(genesis).dump();
}

struct TestNode {
    TestNode(std::uint8_t key_seed, bool signs, std::uint8_t validators) : seed(key_seed), validator(signs) {
        std::string pattern = ::testing::TempDir() + "quern-network-XXXXXX";
        if (::mkdtemp(pattern.data()) != nullptr) folder = pattern;
        auto opened = open_chain_database(store, network_genesis(validators));
        if (!opened) throw std::runtime_error(opened.error().to_string());
        setup = std::move(*opened);
    }
    ~TestNode() {
        stop();
        std::filesystem::remove_all(folder);
    }
    // `double_vote`: see ParticipationOptions::test_fault.
    void start(const std::vector<p2p::StaticPeer>& peers, bool double_vote = false) {
        pool = std::make_unique<chain::mempool::Pool>(setup->genesis.params);
        auto loaded = Chain::open({store, *setup, *pool, threads, clock, test_address(seed)});
        ASSERT_TRUE(loaded) << loaded.error().to_string();
        chain = std::move(*loaded);
        gateway = std::make_unique<TxGateway>(
            *pool, chain->board(), threads, std::move(*chain::mempool::PoolJournal::open(folder + "/mempool.journal")));
        reader = std::make_unique<Reader>(*setup, chain->board(), *pool, chain->leaf_timer());
        ParticipationOptions options;
        options.network.chain_id = setup->genesis.params.chain_id;
        options.network.genesis_hash = setup->genesis_hash;
        options.network.local_network = true;
        options.network.listen_host = "127.0.0.1";
        options.network.static_peers = peers;
        options.journal = folder + "/sdbft.journal";
        options.network.compact_proposal_bytes = compact_proposal_bytes;
        if (double_vote) options.test_fault = "double_vote";
        auto made =
            Participation::start({store, *setup, *chain, *pool, *gateway, clock,
                                  [](const Error& error) { ADD_FAILURE() << error.to_string(); }},
                                 options, test_key(seed), validator ? std::optional(test_key(seed)) : std::nullopt);
        ASSERT_TRUE(made) << made.error().to_string();
        node = std::move(*made);
    }
    void stop() { node.reset(), reader.reset(), gateway.reset(), chain.reset(), pool.reset(); }
    [[nodiscard]] p2p::StaticPeer peer() const { return {test_address(seed), {"127.0.0.1", node->network().port()}}; }
    [[nodiscard]] std::uint64_t height() const { return chain->board().latest()->number(); }
    [[nodiscard]] Hash32 hash_at(std::uint64_t number) const {
        return reader->block({chain::api::BlockSelector::Kind::number, number, {}})->hash;
    }

    const std::uint8_t seed;
    const bool validator;
    std::size_t compact_proposal_bytes = p2p::kCompactProposalBytes;
    std::string folder;
    SystemClock clock;
    ThreadPool threads{1};
    chain::store::MemoryStore store;
    std::optional<ChainSetup> setup;
    std::unique_ptr<chain::mempool::Pool> pool;
    std::unique_ptr<Chain> chain;
    std::unique_ptr<TxGateway> gateway;
    std::unique_ptr<Reader> reader;
    std::unique_ptr<Participation> node;
};

class NetworkOfNodes : public ::testing::Test {
protected:
    void start(std::uint8_t validators, std::optional<std::size_t> double_voter = std::nullopt,
               std::size_t compact_proposal_bytes = p2p::kCompactProposalBytes) {
        for (std::uint8_t i = 0; i < validators; ++i) {
            nodes_.push_back(
                std::make_unique<TestNode>(static_cast<std::uint8_t>(kFirstValidator + i), true, validators));
            std::vector<p2p::StaticPeer> peers;
            for (std::size_t other = 0; other + 1 < nodes_.size(); ++other) peers.push_back(nodes_[other]->peer());
            nodes_.back()->compact_proposal_bytes = compact_proposal_bytes;
            nodes_.back()->start(peers, double_voter == nodes_.size() - 1);
        }
    }
    [[nodiscard]] bool reach(std::uint64_t height) const {
        return wait_until([&] {
            for (const auto& node : nodes_)
                if (node->height() < height) return false;
            return true;
        });
    }
    void expect_agreement(std::uint64_t height) const {
        for (std::uint64_t number = 1; number <= height; ++number)
            for (const auto& node : nodes_) EXPECT_EQ(node->hash_at(number), nodes_[0]->hash_at(number)) << number;
    }
    std::vector<std::unique_ptr<TestNode>> nodes_;
};

TEST_F(NetworkOfNodes, agrees_across_epochs_and_newcomers_catch_up) {
    start(4);
    ASSERT_TRUE(reach(3));
    auto transfer = types::Transaction();
    transfer.type = types::TxType::dynamic_fee;
    transfer.chain_id = nodes_[0]->setup->genesis.params.chain_id;
    transfer.max_fee_per_gas = 100'000'000'000;
    transfer.gas_limit = 21'000;
    transfer.to = test_address(50);
    transfer.value = 7;
    types::sign(transfer, test_key(1));
    // Sent to one, in a block at all.
    const auto sent = nodes_[2]->gateway->submit(types::encode(transfer));
    ASSERT_TRUE(sent) << sent.result.to_string();
    for (const auto& node : nodes_)
        EXPECT_TRUE(wait_until([&] { return node->reader->receipt(sent.hash).has_value(); }));

    // One of four may be away, through a change of epochs; it catches up over its gap. A key without history listens
    // before it signs: it has to have signed, so that it is one with a history that comes back.
    ASSERT_TRUE(wait_until([&] { return nodes_[3]->node->consensus().core.signs; }));
    ASSERT_TRUE(reach(nodes_[0]->height() + 3));
    nodes_[3]->stop();
    const std::uint64_t left = nodes_[0]->height();
    ASSERT_TRUE(wait_until([&] { return nodes_[0]->height() >= left + 25; }));
    nodes_[3]->start({nodes_[0]->peer(), nodes_[1]->peer(), nodes_[2]->peer()});
    // A follower begins with nothing.
    nodes_.push_back(std::make_unique<TestNode>(kFollower, false, 4));
    nodes_.back()->start({nodes_[0]->peer()});
    const std::uint64_t target = nodes_[0]->height() + 5;
    ASSERT_TRUE(reach(target));
    expect_agreement(target);
    EXPECT_TRUE(wait_until([&] { return nodes_[3]->node->consensus().core.signs; }))
        << nodes_[3]->node->consensus().core.refuses_because;
    EXPECT_FALSE(nodes_[4]->node->consensus().member);
    EXPECT_TRUE(nodes_[4]->reader->receipt(sent.hash).has_value());
}

TEST_F(NetworkOfNodes, agrees_about_proposals_that_travel_as_short_ids) {
    start(4, std::nullopt, 1);
    ASSERT_TRUE(reach(3));
    auto transfer = types::Transaction();
    transfer.type = types::TxType::dynamic_fee;
    transfer.chain_id = nodes_[0]->setup->genesis.params.chain_id;
    transfer.max_fee_per_gas = 100'000'000'000;
    transfer.gas_limit = 21'000;
    transfer.to = test_address(50);
    transfer.value = 7;
    const auto counted = [&](std::uint64_t p2p::ProposalCounts::*member) {
        std::uint64_t sum = 0;
        for (const auto& node : nodes_) sum += node->node->network().status().proposals.*member;
        return sum;
    };
    // They wait for the one before them until all have them: what has just come travels inside.
    constexpr std::uint64_t kTransfers = 30;
    const auto submit = [&](std::uint64_t nonce) {
        transfer.nonce = nonce;
        types::sign(transfer, test_key(1));
        const auto sent = nodes_[nonce % 4]->gateway->submit(types::encode(transfer));
        EXPECT_TRUE(sent) << sent.result.to_string();
        return sent.hash;
    };
    Hash32 last;
    for (std::uint64_t nonce = 1; nonce <= kTransfers; ++nonce) last = submit(nonce);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    (void)submit(0);
    for (const auto& node : nodes_) EXPECT_TRUE(wait_until([&] { return node->reader->receipt(last).has_value(); }));
    EXPECT_TRUE(wait_until([&] { return counted(&p2p::ProposalCounts::sent) != 0; }));
    EXPECT_TRUE(wait_until([&] { return counted(&p2p::ProposalCounts::rebuilt) >= 2; }));
    expect_agreement(nodes_[0]->height() - 1);
    for (const auto& node : nodes_)
        for (const auto& peer : node->node->network().status().peers) EXPECT_EQ(peer.score, 0);
}

class Silent : public p2p::NetworkHandler {
public:
    void consensus(const Bytes20&, Bytes) override {}
    bool wants_transaction(const p2p::messages::ShortId&) override { return false; }
    void transactions(const Bytes20&, std::vector<Bytes>) override {}
    std::optional<Bytes> find_transaction(const p2p::messages::ShortId&) override { return std::nullopt; }
    bool wants_block(const Hash32&, std::uint64_t) override { return false; }
    void block(const Bytes20&, p2p::messages::BlockAnswer) override {}
    void get_block(const Bytes20&, const p2p::messages::GetBlock&, p2p::Responder) override {}
    void get_block_transactions(const Bytes20&, const p2p::messages::GetBlockTransactions&, p2p::Responder) override {}
    void get_certificate(const Bytes20&, const p2p::messages::GetCertificate&, p2p::Responder) override {}
    void get_range(const Bytes20&, const p2p::messages::GetRange&, p2p::Responder) override {}
};

// Claims to have blocks and lets everybody who asks for them wait.
class Staller final : public Silent {
public:
    void get_range(const Bytes20&, const p2p::messages::GetRange&, p2p::Responder responder) override {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(responder));
    }
    [[nodiscard]] std::size_t asked() {
        const std::lock_guard lock(mutex_);
        return waiting_.size();
    }

private:
    std::mutex mutex_;
    std::vector<p2p::Responder> waiting_;
};

struct Stranger {
    Stranger(const TestNode& victim, std::uint8_t seed) {
        p2p::NetworkOptions options;
        options.chain_id = victim.setup->genesis.params.chain_id;
        options.genesis_hash = victim.setup->genesis_hash;
        options.listen = false;
        options.static_peers = {victim.peer()};
        auto started = p2p::Network::start(options, test_key(seed), handler);
        if (!started) throw std::runtime_error(started.error().to_string());
        network = std::move(*started);
        network->set_status({std::uint64_t{1} << 63, Hash32{{1}}, 9, 9, 0});
    }
    Staller handler;
    std::unique_ptr<p2p::Network> network;
};

TEST_F(NetworkOfNodes, a_strangers_claim_makes_nobody_sync) {
    start(1);
    ASSERT_TRUE(reach(2));
    Stranger stranger(*nodes_[0], 200);
    ASSERT_TRUE(wait_until([&] { return stranger.handler.asked() != 0; })) << "it is put to the test";
    const std::uint64_t height = nodes_[0]->height();
    bool was_syncing = false;
    ASSERT_TRUE(wait_until([&] {
        was_syncing = was_syncing || nodes_[0]->node->progress().syncing;
        return nodes_[0]->height() >= height + 20;
    }));
    EXPECT_FALSE(was_syncing);
    EXPECT_LT(nodes_[0]->node->progress().target, height + 100);
    EXPECT_LE(stranger.handler.asked(), 3U) << "ever less";
}

TEST_F(NetworkOfNodes, catches_up_although_strangers_claim_everything_and_answer_nothing) {
    start(4);
    ASSERT_TRUE(reach(45));
    // Nobody in the committee is known to who has nothing yet but one follower, which has it all.
    nodes_.push_back(std::make_unique<TestNode>(kFollower, false, 4));
    nodes_.back()->start({nodes_[0]->peer(), nodes_[1]->peer()});
    ASSERT_TRUE(reach(45));
    TestNode newcomer(kFollower + 1, false, 4);
    newcomer.start({});
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (std::uint8_t i = 0; i < 3; ++i)
        strangers.push_back(std::make_unique<Stranger>(newcomer, static_cast<std::uint8_t>(200 + i)));
    ASSERT_TRUE(wait_until([&] { return newcomer.node->network().peer_count() == 3; }));
    std::atomic<bool> done = false;
    // What they say is of epochs to come: a reason to ask, but not them.
    std::thread talk([&] {
        for (std::uint64_t i = 0; !done; ++i) {
            sdbft::VoteMessage vote{{chain::consensus::VoteType::notarize, 9, i, Hash32{{1}}}, i % 4, {}};
            for (const auto& stranger : strangers) stranger->network->send_consensus(encode(sdbft::Message(vote)));
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    });
    const auto began = std::chrono::steady_clock::now();
    newcomer.node->network().add_static_peer(nodes_.back()->peer());
    const bool reached = wait_until([&] { return newcomer.height() >= 45; }, 120);
    const auto took = std::chrono::steady_clock::now() - began;
    done = true;
    talk.join();
    ASSERT_TRUE(reached);
    EXPECT_LT(took, std::chrono::seconds(9)) << std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
}

TEST_F(NetworkOfNodes, goes_on_while_a_stranger_floods_it_with_forged_votes) {
    start(4);
    ASSERT_TRUE(reach(2));
    Silent silent;
    p2p::NetworkOptions options;
    options.chain_id = nodes_[0]->setup->genesis.params.chain_id;
    options.genesis_hash = nodes_[0]->setup->genesis_hash;
    options.local_network = true;
    options.listen = false;
    for (const auto& node : nodes_) options.static_peers.push_back(node->peer());
    const auto attacker = p2p::Network::start(options, test_key(200), silent);
    ASSERT_TRUE(attacker) << attacker.error().to_string();
    ASSERT_TRUE(wait_until([&] { return (*attacker)->peer_count() == 4; }));
    std::size_t most_queued = 0;
    auto at = nodes_[0]->node->consensus().core;
    // In bursts: asking the nodes in between takes as long as the machine likes, and a slow flood is none.
    for (std::uint64_t i = 0; i < 2000; ++i) {
        if (i % 100 == 0) {
            at = nodes_[0]->node->consensus().core;
            for (const auto& node : nodes_) most_queued = std::max(most_queued, node->node->consensus().queued_bytes);
        }
        sdbft::VoteMessage vote{{chain::consensus::VoteType::notarize, at.epoch, at.view, Hash32{{1}}}, i % 4, {}};
        vote.signature.data[0] = static_cast<std::uint8_t>(i);
        (*attacker)->send_consensus(encode(sdbft::Message(vote)));
    }
    // Each node judges it by the signatures, and leaves it.
    EXPECT_TRUE(wait_until([&] { return (*attacker)->peer_count() == 0; }));
    const std::uint64_t height = nodes_[0]->height();
    EXPECT_TRUE(reach(height + 5));
    expect_agreement(height);
    EXPECT_LT(most_queued, kMaxPeerQueueBytes);
    for (const auto& node : nodes_) EXPECT_TRUE(node->node->consensus().core.signs);
}

TEST_F(NetworkOfNodes, a_followers_evidence_convicts_too) {
    start(4);
    nodes_.push_back(std::make_unique<TestNode>(kFollower, false, 4));
    nodes_.back()->start({nodes_[0]->peer(), nodes_[1]->peer()});
    ASSERT_TRUE(reach(3));
    // Only the follower hears of two votes for one view to come.
    const TestNode& follower = *nodes_.back();
    Stranger stranger(follower, 200);
    ASSERT_TRUE(wait_until([&] { return stranger.network->peer_count() == 1; }));
    const auto& params = follower.setup->genesis.params;
    const chain::consensus::ChainIdentity identity{follower.setup->genesis_hash, params.chain_id};
    const auto convicted = [&] {
        const auto at = follower.node->consensus();
        const auto key = test_key(kFirstValidator);
        const auto member = at.committee.index_of(crypto::derive_public(key));
        for (const std::uint8_t hash : {std::uint8_t{1}, std::uint8_t{2}}) {
            const chain::consensus::Vote vote{chain::consensus::VoteType::notarize, at.core.epoch, at.core.view + 30,
                                              Hash32{{hash}}};
            stranger.network->send_consensus_to(
                test_address(kFollower),
                encode(sdbft::Message(sdbft::VoteMessage{vote, member, sign_vote(identity, vote, key)})));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        const auto stored =
            (*nodes_[1]->reader->state({}))
                ->native(types::object_key(types::ObjectPrefix::validator, test_address(kFirstValidator)));
        const auto validator = types::decode_record<types::ValidatorObject>(*stored);
        return validator && validator->tombstoned;
    };
    EXPECT_TRUE(wait_until(convicted));
}

#ifdef QUERN_TEST_FAULTS
TEST_F(NetworkOfNodes, convicts_a_validator_that_votes_twice) {
    start(4, 3);
    const auto convicted = [&] {
        for (const auto& node : nodes_) {
            const auto stored =
                (*node->reader->state({}))
                    ->native(types::object_key(types::ObjectPrefix::validator, test_address(nodes_[3]->seed)));
            if (!stored) return false;
            const auto validator = types::decode_record<types::ValidatorObject>(*stored);
            if (!validator || !validator->tombstoned) return false;
        }
        return true;
    };
    EXPECT_TRUE(wait_until(convicted));
    // The others go on, and in the end without it.
    const std::uint64_t height = nodes_[0]->height();
    EXPECT_TRUE(reach(height + 45));
    EXPECT_EQ(nodes_[0]->node->consensus().committee.members().size(), 3U);
    expect_agreement(height);
}
#endif

}  // namespace
}  // namespace quern::node
