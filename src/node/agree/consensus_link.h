// Consensus' way out: carries what the consensus thread asks for to the network, the executor, the stores. Its
// functions are called on the consensus thread, announce_committee() also before that thread starts.
#pragma once

#include "node/agree/accusations.h"
#include "node/agree/certificate_keeper.h"
#include "node/agree/consensus_thread.h"
#include "node/agree/finality_meter.h"
#include "node/chain/executor_thread.h"
#include "node/net/answer_budget.h"
#include "node/net/block_giver.h"
#include "node/net/peer_table.h"
#include "node/net/range_sync.h"

namespace quern::node {

// Evidence for the chain to act upon.
class EvidenceSink {
public:
    virtual ~EvidenceSink() = default;
    virtual void convict(chain::consensus::sdbft::Evidence evidence) = 0;
};

class ConsensusLink final : public ConsensusPorts {
public:
    struct Parts {  // all outlive the link
        const SnapshotBoard& board;
        const chain::mempool::Pool& pool;
        p2p::Network& network;
        ExecutorThread& executor;
        RangeSync& sync;
        PeerTable& peers;
        const BlockGiver& blocks;
        AnswerBudget& answers;  // knows the committee
        CertificateKeeper& certificates;
        EvidenceSink& evidence;
        std::uint64_t epoch_length;
        std::function<void(const Error&)> failed;
    };
    explicit ConsensusLink(const Parts& parts) : parts_(parts), heights_(parts.epoch_length) {}

    // The peers that consensus talks to: the members of the tip's and the next epoch.
    void announce_committee();

    // What goes out after a message to all, if anything: test builds misbehave with it (test_faults.h). Before the
    // consensus thread starts.
    using Echo = std::function<std::optional<Bytes>(BytesView message)>;
    void set_echo(Echo echo) { echo_ = std::move(echo); }

    void send(chain::consensus::sdbft::action::Send send, bool member) override;
    void ask_range(std::uint64_t first_height, std::optional<chain::consensus::sdbft::PeerId> peer) override;
    void ask_block(const Hash32& hash, std::optional<chain::consensus::sdbft::PeerId> peer) override;
    void build(chain::consensus::sdbft::BlockRequest request) override { parts_.executor.build(std::move(request)); }
    void validate(chain::consensus::sdbft::action::Validate block) override {
        parts_.executor.validate(std::move(block));
    }
    void commit(chain::consensus::sdbft::action::Commit block) override { parts_.executor.commit(std::move(block)); }
    void keep(chain::consensus::Certificate certificate) override;
    // From any thread.
    void convict(chain::consensus::sdbft::Evidence evidence) override;
    void misbehaved(const chain::consensus::sdbft::action::Misbehaved& blame) override;
    void serve_block(chain::consensus::sdbft::PeerId peer, const Hash32& hash,
                     const std::shared_ptr<const Bytes>& block) override;
    void serve_range(chain::consensus::sdbft::PeerId peer, std::uint64_t first_height) override;
    [[nodiscard]] bool transactions_wait() override;
    void committed(const chain::consensus::sdbft::event::Committed& committed) override;
    void failed(const Error& error) override { parts_.failed(error); }

private:
    void send_to(const Bytes20& peer, Bytes message);

    const Parts parts_;
    const chain::consensus::sdbft::EpochHeights heights_;
    Accusations accused_;
    Echo echo_;
};

// What the peer pays for.
[[nodiscard]] p2p::Offence offence_of(chain::consensus::sdbft::action::Wrong wrong);

}  // namespace quern::node
