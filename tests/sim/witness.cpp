#include "sim/witness.h"

#include "chain/mempool/admission.h"

namespace quern::sim {

namespace mempool = chain::mempool;

// As node::TxGateway, without a journal and without threads.
class Witness::Door final : public chain::api::TxSubmitter {
public:
    Door(RealChain& chain, std::function<void(const types::RecoveredTransaction&)> sent)
        : chain_(chain), sent_(std::move(sent)) {}
    std::vector<chain::api::Submission> submit_all(std::span<const Bytes> encoded, const Bytes20& source) override {
        auto arrivals = mempool::recover_all(chain_.pool(), nullptr, encoded, source);
        for (;;) {
            const auto at = chain_.board().latest();
            if (mempool::admit(chain_.pool(), arrivals, at->state, at->number())) break;
        }
        std::vector<chain::api::Submission> submissions;
        for (auto& arrival : arrivals) {
            if (arrival.pooled) sent_(arrival.pooled->transaction);
            submissions.push_back({std::move(arrival.result), arrival.hash});
        }
        return submissions;
    }

private:
    RealChain& chain_;
    const std::function<void(const types::RecoveredTransaction&)> sent_;
};

Witness::Witness(Parts parts)
    : parts_(std::move(parts)),
      duties_(parts_.clock),
      door_(std::make_unique<Door>(parts_.chain, parts_.sent)),
      sender_({parts_.chain.store(), *door_, parts_.chain.pool(), parts_.chain.board(), parts_.identity.chain_id},
              parts_.key.clone()),
      keeper_({parts_.chain.store(), parts_.chain.board(), duties_, parts_.chain.setup().genesis.params.epoch_length,
               parts_.chain.setup().genesis.params.staking.unbonding_blocks,
               [this](std::uint64_t epoch) { return parts_.chain.committee_of(epoch); },
               [this](sdbft::Evidence evidence) { convict(std::move(evidence)); }}),
      audit_({.clock = parts_.clock,
              .board = parts_.chain.board(),
              .duties = duties_,
              .certificates = keeper_,
              .rules = {parts_.identity, sdbft::EpochHeights(parts_.chain.setup().genesis.params.epoch_length),
                        [](BytesView block) { return chain::exec::body_matches(block); }},
              .committee = [this](std::uint64_t epoch) { return parts_.chain.committee_of(epoch); },
              .request_range =
                  [this](const Bytes20& peer, const p2p::messages::GetRange& asked, std::uint64_t,
                         p2p::Answer<p2p::messages::Range> answer) {
                      parts_.request_range(peer, asked, std::move(answer));
                  },
              .request_certificate =
                  [this](const Bytes20& peer, const p2p::messages::GetCertificate& asked, std::uint64_t,
                         p2p::Answer<p2p::messages::CertificateAnswer> answer) {
                      parts_.request_certificate(peer, asked, std::move(answer));
                  },
              .report = parts_.report}) {}

Witness::~Witness() = default;

// As node::ConsensusLink does it.
void Witness::convict(sdbft::Evidence evidence) {
    if (!accused_.add(crypto::address20(evidence.signer), evidence.first.epoch)) return;
    parts_.accused(evidence);
    sender_.convict(std::move(evidence));
}

// As node::ConsensusLink and node::Participation do it.
void Witness::committed(const std::optional<sdbft::EpochSetup>& next_epoch) {
    if (next_epoch) keeper_.entered(next_epoch->epoch);
    if (sender_.pending() != 0) (void)duties_.post_own([this] { sender_.step(); });
}

void Witness::work() {
    while (duties_.run_one()) {
    }
}

}  // namespace quern::sim
