// This node's part in the network: consensus, execution, gossip and sync over one set of connections, wired together.
// Made over an opened chain; several may live in one process (tests). start(), stop() and the destructor belong to one
// thread; the readings may be called from any.
#pragma once

#include "node/agree/consensus_link.h"
#include "node/agree/evidence_sender.h"
#include "node/agree/fork_audit.h"
#include "node/net/network_link.h"
#include "node/serve/tx_gateway.h"

namespace quern::node {

inline constexpr std::uint64_t kListenDeltas = 3;  // how long a key without history listens before it signs

struct ParticipationOptions {
    p2p::NetworkOptions network;
    std::string journal;  // of a validator
    bool accept_missing_journal = false;
    std::string test_fault;  // double_vote: a fault to be found and convicted; works in test builds only
};

class Participation {
public:
    struct Parts {  // all outlive it
        chain::store::Store& store;
        const ChainSetup& setup;
        Chain& chain;
        chain::mempool::Pool& pool;
        TxGateway& gateway;
        const Clock& clock;
        // Called once, from any thread, when the node cannot go on.
        std::function<void(const Error&)> failed;
    };
    // `node_key` proves the node's address to peers; a validator's is its own key, which is then given as `validator`
    // too. Errors: sdbft.*, journal.*, p2p.cannot_listen, p2p.bad_options, committee.*.
    [[nodiscard]] static Expected<std::unique_ptr<Participation>> start(const Parts& parts,
                                                                        const ParticipationOptions& options,
                                                                        const crypto::PrivateKey& node_key,
                                                                        std::optional<crypto::PrivateKey> validator);
    ~Participation() { stop(); }
    Participation(const Participation&) = delete;
    Participation& operator=(const Participation&) = delete;
    void stop();

    [[nodiscard]] p2p::Network& network() { return *network_; }
    [[nodiscard]] const p2p::Network& network() const { return *network_; }
    [[nodiscard]] ConsensusThread::State consensus() const { return consensus_->state(); }
    [[nodiscard]] RangeSync::Progress progress() const { return sync_->progress(); }
    [[nodiscard]] FinalityMeter::Figures finality() const { return finality_.figures(); }

private:
    explicit Participation(const Parts& parts);
    [[nodiscard]] Status open(const ParticipationOptions& options, const crypto::PrivateKey& node_key,
                              std::optional<crypto::PrivateKey> validator);
    void run();
    [[nodiscard]] std::unique_ptr<RangeSync> make_sync();
    [[nodiscard]] std::unique_ptr<ForkAudit> make_audit();
    [[nodiscard]] RangeRules range_rules() const;
    void report(const Bytes20& peer, p2p::Offence offence);
    void request_range(const Bytes20& peer, const p2p::messages::GetRange& asked, std::uint64_t timeout_ms,
                       p2p::Answer<p2p::messages::Range> answer);
    // The committee of an epoch that the committed state knows.
    [[nodiscard]] std::optional<chain::consensus::Committee> committee(std::uint64_t epoch) const;
    void committed(const SnapshotPtr& snapshot);
    void admitted(std::span<const chain::mempool::PooledPtr> transactions);

    const Parts parts_;
    const chain::consensus::sdbft::EcdsaScheme scheme_;
    std::optional<chain::consensus::sdbft::KeySigner> signer_;
    PeerTable peers_;
    std::unique_ptr<p2p::Network> network_;  // made first, at rest; runs last
    DutyQueue work_;
    BlockServer server_;
    std::shared_ptr<AnswerBudget> answers_ = std::make_shared<AnswerBudget>();
    std::unique_ptr<BlockGiver> blocks_;
    TransactionInbox inbox_;
    FinalityMeter finality_;
    std::unique_ptr<EvidenceSender> evidence_;
    std::unique_ptr<CertificateKeeper> certificates_;
    std::unique_ptr<ExecutorThread> executor_;
    std::unique_ptr<RangeSync> sync_;
    std::unique_ptr<ConsensusLink> consensus_link_;
    std::unique_ptr<ConsensusThread> consensus_;
    std::unique_ptr<ForkAudit> audit_;
    std::unique_ptr<NetworkLink> network_link_;
};

}  // namespace quern::node
