// What peers say, handed to who answers for it: consensus messages to the consensus thread, transactions to the inbox,
// questions about blocks to the serving thread. Called on the network thread, so every function is short.
#pragma once

#include "node/chain/snapshot.h"
#include "node/net/answer_budget.h"
#include "node/net/block_server.h"
#include "node/net/consensus_inbox.h"
#include "node/net/duty_queue.h"
#include "node/net/peer_table.h"
#include "node/net/range_sync.h"
#include "node/net/transaction_inbox.h"
#include "p2p/network.h"

namespace quern::node {

class NetworkLink final : public p2p::NetworkHandler {
public:
    struct Parts {  // all outlive the link
        p2p::Network& network;
        ConsensusInbox& consensus;
        PeerTable& peers;
        TransactionInbox& inbox;
        RangeSync& sync;
        BlockServer& server;
        DutyQueue& work;
        std::shared_ptr<AnswerBudget> answers;
        const SnapshotBoard& board;
        const chain::mempool::Pool& pool;
        // A peer told of its newest final block.
        std::function<void(const Bytes20& peer, const p2p::messages::Status& status)> status_heard;
        // Whether an encoded block's body is the one that its header names; thread-safe.
        std::function<bool(BytesView block)> body_matches;
    };
    explicit NetworkLink(const Parts& parts) : parts_(parts) {}

    void peer_connected(const p2p::PeerInfo& peer) override;
    void peer_disconnected(const Bytes20& peer, const Error& reason) override;
    void peer_status(const Bytes20& peer, const p2p::messages::Status& status) override;
    void consensus(const Bytes20& from, Bytes envelope) override;
    bool wants_transaction(const p2p::messages::ShortId& id) override { return parts_.inbox.wants(id); }
    void transactions(const Bytes20& from, std::vector<Bytes> encoded) override {
        parts_.inbox.take(from, std::move(encoded));
    }
    std::optional<Bytes> find_transaction(const p2p::messages::ShortId& id) override { return parts_.inbox.find(id); }
    bool has_transaction(const p2p::messages::ShortId& id) override { return parts_.inbox.has(id); }
    bool body_matches(BytesView block) const override { return parts_.body_matches(block); }
    bool wants_block(const Hash32& hash, std::uint64_t number) override;
    void block(const Bytes20& from, p2p::messages::BlockAnswer block) override;
    void get_block(const Bytes20& from, const p2p::messages::GetBlock& request, p2p::Responder responder) override;
    void get_block_transactions(const Bytes20& from, const p2p::messages::GetBlockTransactions& request,
                                p2p::Responder responder) override;
    void get_certificate(const Bytes20& from, const p2p::messages::GetCertificate& request,
                         p2p::Responder responder) override;
    void get_range(const Bytes20& from, const p2p::messages::GetRange& request, p2p::Responder responder) override;

private:
    void serve(const Bytes20& from, p2p::Responder responder, std::function<void(p2p::Responder&)> answer);
    // An answer of up to `most` bytes, which has to find room.
    template <class Answer>
    void serve_large(const Bytes20& from, p2p::Responder responder, std::size_t most,
                     std::function<std::optional<Answer>()> read);
    void receive(const Bytes20& from, Bytes message);

    const Parts parts_;
};

}  // namespace quern::node
