// Brings evidence to the chain: signs a native transaction with the node's key (a validator's is its own)
// and sends it until the signer is
// convicted or cannot be any more. What is pending is on the disk too, so that a restart forgets nobody. convict() may
// come from any thread; step() runs on the serving thread after each block.
#pragma once

#include "chain/api/tx_submitter.h"
#include "node/agree/consensus_link.h"

namespace quern::node {

inline constexpr std::size_t kMaxPendingEvidence = 128;  // signers; more is a network without honest validators
inline constexpr std::uint64_t kEvidenceGas = 1'000'000;
inline constexpr std::uint64_t kEvidenceFeeFactor = 4;  // times the next base fee, at most

class EvidenceSender final : public EvidenceSink {
public:
    struct Parts {  // all outlive the sender
        chain::store::Store& store;
        chain::api::TxSubmitter& submitter;
        const chain::mempool::Pool& pool;
        const SnapshotBoard& board;
        std::uint64_t chain_id;
    };
    // Takes up what was pending when the node stopped.
    EvidenceSender(const Parts& parts, crypto::PrivateKey key);

    void convict(chain::consensus::sdbft::Evidence evidence) override;
    void step();
    [[nodiscard]] std::size_t pending() const;

private:
    struct Pending {
        Bytes evidence;
        std::optional<Hash32> sent;
        bool warned = false;
    };
    [[nodiscard]] Bytes transaction(const Bytes& evidence, std::uint64_t nonce, const Uint256& max_fee) const;
    void write(const chain::store::WriteBatch& batch) const;
    // True when nothing is left to do about it.
    [[nodiscard]] bool handle(Pending& pending);

    const Parts parts_;
    const crypto::PrivateKey key_;
    const chain::types::Address address_;
    mutable Mutex mutex_;
    std::map<chain::types::Address, Pending> pending_ QUERN_GUARDED_BY(mutex_);  // by whom it convicts
};

}  // namespace quern::node
