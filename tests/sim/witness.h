// What a node does about double signs and forks, by the node's own code (src/node/agree): it keeps certificates and
// compares them, compares its final chain with what peers say of theirs, accuses each signer once an epoch, and sends
// evidence to its chain until that has acted. Over a RealChain and real signatures; its duties are done when the
// simulation says so. Of one run of one node; single-threaded.
#pragma once

#include "node/agree/accusations.h"
#include "node/agree/evidence_sender.h"
#include "node/agree/fork_audit.h"
#include "sim/real_chain.h"

namespace quern::sim {

class Witness {
public:
    struct Parts {  // what it refers to outlives it
        RealChain& chain;
        const Clock& clock;
        chain::consensus::ChainIdentity identity;
        crypto::PrivateKey key;  // that signs its transactions
        // The first accusation of a signer in an epoch; its own transaction that its pool took.
        std::function<void(const sdbft::Evidence& evidence)> accused;
        std::function<void(const types::RecoveredTransaction& transaction)> sent;
        std::function<void(const Bytes20& peer, const p2p::messages::GetRange& asked,
                           p2p::Answer<p2p::messages::Range> answer)>
            request_range;
        std::function<void(const Bytes20& peer, const p2p::messages::GetCertificate& asked,
                           p2p::Answer<p2p::messages::CertificateAnswer> answer)>
            request_certificate;
        std::function<void(const Bytes20& peer, p2p::Offence offence)> report;
    };
    explicit Witness(Parts parts);
    ~Witness();
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;

    // What consensus wants kept, and what it found.
    void keep(const Certificate& certificate) { keeper_.keep(certificate); }
    void convict(sdbft::Evidence evidence);
    void committed(const std::optional<sdbft::EpochSetup>& next_epoch);
    // A peer says that this is its newest final block.
    void said(const Bytes20& peer, const p2p::messages::Status& status) { audit_.said(peer, status); }
    // Does what waits.
    void work();
    [[nodiscard]] bool has_work() const { return duties_.waiting() != 0; }

private:
    class Door;  // to the pool

    const Parts parts_;
    node::DutyQueue duties_;
    std::unique_ptr<Door> door_;
    node::Accusations accused_;
    node::EvidenceSender sender_;
    node::CertificateKeeper keeper_;
    node::ForkAudit audit_;
};

}  // namespace quern::sim
