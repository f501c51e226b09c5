#include "node/participation.h"

#include "base/fs.h"
#include "chain/exec/block_validation.h"
#include "chain/exec/system/epoch_reader.h"
#include "node/agree/file_journal.h"
#ifdef QUERN_TEST_FAULTS
#include "node/agree/test_faults.h"
#endif

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

Participation::Participation(const Parts& parts)
    : parts_(parts),
      work_(parts.clock),
      server_(parts.chain.board(), parts.setup.genesis.params.epoch_length),
      inbox_(parts.gateway, parts.pool) {}

Expected<std::unique_ptr<Participation>> Participation::start(const Parts& parts, const ParticipationOptions& options,
                                                              const crypto::PrivateKey& node_key,
                                                              std::optional<crypto::PrivateKey> validator) {
    std::unique_ptr<Participation> made(new Participation(parts));
    QUERN_CHECK(made->open(options, node_key, std::move(validator)));
    return made;
}

Status Participation::open(const ParticipationOptions& options, const crypto::PrivateKey& node_key,
                           std::optional<crypto::PrivateKey> validator) {
    const auto& params = parts_.setup.genesis.params;
    QUERN_TRY(network_, p2p::Network::make(options.network, node_key));
    // A follower's key has no money as a rule: what convicts travels without a fee.
    evidence_ = std::make_unique<EvidenceSender>(
        EvidenceSender::Parts{parts_.store, parts_.gateway, parts_.pool, parts_.chain.board(), params.chain_id},
        node_key.clone());
    if (validator) signer_.emplace(std::move(*validator));

    sdbft::CoreSetup setup;
    setup.config.chain = {parts_.setup.genesis_hash, params.chain_id};
    setup.config.epoch_length = params.epoch_length;
    setup.config.min_block_ms = params.min_block_ms;
    setup.config.max_idle_ms = params.max_idle_ms;
    setup.config.delta_ms = params.delta_ms;
    setup.listen_ms = kListenDeltas * params.delta_ms;
    QUERN_TRY(setup.epoch, parts_.chain.epoch_setup());
    setup.previous_committee = parts_.chain.previous_committee();
    setup.tip = parts_.chain.tip();
    setup.tip_certificate = parts_.chain.tip_certificate();
    setup.accept_missing_journal = options.accept_missing_journal;
    setup.body_matches = [](BytesView block) { return chain::exec::body_matches(block); };
    setup.address_of = [this](sdbft::PeerId peer) { return peers_.address_of(peer); };
    std::unique_ptr<sdbft::Journal> journal;
    // One that refuses to sign keeps no journal: at the next start it would pass for the one that is missing.
    const bool refuses = setup.tip.number != 0 && !options.accept_missing_journal && !fs::exists(options.journal);
    if (signer_ && !refuses) {
        QUERN_TRY(auto opened, FileJournal::open(options.journal));
        setup.journal_found = opened.existed();
        setup.records = opened.take_records();
        journal = std::make_unique<FileJournal>(std::move(opened));
    }

    const auto& board = parts_.chain.board();
    certificates_ = std::make_unique<CertificateKeeper>(
        CertificateKeeper::Parts{parts_.store, board, work_, params.epoch_length, params.staking.unbonding_blocks,
                                 [this](std::uint64_t epoch) { return committee(epoch); },
                                 [this](sdbft::Evidence evidence) { consensus_link_->convict(std::move(evidence)); }});
    executor_ = std::make_unique<ExecutorThread>(parts_.chain);
    sync_ = make_sync();
    blocks_ = std::make_unique<BlockGiver>(BlockGiver::Parts{
        work_, server_, answers_, [this](const Bytes20& peer, Bytes message, std::shared_ptr<const void> held) {
            network_->send_consensus_to(peer, std::move(message), std::move(held));
        }});
    consensus_link_ = std::make_unique<ConsensusLink>(
        ConsensusLink::Parts{board, parts_.pool, *network_, *executor_, *sync_, peers_, *blocks_, *answers_,
                             *certificates_, *evidence_, params.epoch_length, parts_.failed});
    QUERN_TRY(consensus_, ConsensusThread::make({std::move(setup), signer_ ? &*signer_ : nullptr, scheme_,
                                                 std::move(journal), *consensus_link_, parts_.clock}));
    audit_ = make_audit();
    network_link_ = std::make_unique<NetworkLink>(NetworkLink::Parts{
        *network_, *consensus_, peers_, inbox_, *sync_, server_, work_, answers_, board, parts_.pool,
        [this](const Bytes20& peer, const p2p::messages::Status& status) { audit_->said(peer, status); },
        [](BytesView block) { return chain::exec::body_matches(block); }});
#ifdef QUERN_TEST_FAULTS
    if (options.test_fault == "double_vote" && signer_)
        consensus_link_->set_echo(second_votes(*signer_, {parts_.setup.genesis_hash, params.chain_id}));
#endif
    run();
    return {};
}

// Everything is there: those that are asked begin before those that ask, and the network brings work last.
void Participation::run() {
    work_.start();
    inbox_.start([this](const Bytes20& peer, p2p::Offence offence) { network_->report(peer, offence); });
    parts_.gateway.on_admitted([this](std::span<const chain::mempool::PooledPtr> taken) { admitted(taken); });
    const auto head = parts_.chain.board().latest();
    const auto& fields = head->head->block.header.consensus;
    network_->set_status({head->number(), head->head->hash, fields.epoch, fields.view, 0});
    consensus_link_->announce_committee();
    executor_->start({[this](sdbft::Event&& event) { consensus_->post(std::move(event)); },
                      [this](const SnapshotPtr& snapshot) { committed(snapshot); },
                      [this](const Error& error) { parts_.failed(error); }});
    consensus_->start();
    sync_->start();
    network_->run(*network_link_);
}

std::optional<chain::consensus::Committee> Participation::committee(std::uint64_t epoch) const {
    auto found = chain::exec::system::committee_of_epoch(parts_.chain.board().latest()->state, epoch);
    return found ? std::optional(std::move(*found)) : std::nullopt;
}

RangeRules Participation::range_rules() const {
    const auto& params = parts_.setup.genesis.params;
    return {{parts_.setup.genesis_hash, params.chain_id},
            sdbft::EpochHeights(params.epoch_length),
            [](BytesView block) { return chain::exec::body_matches(block); },
            parts_.chain.checkpoint()};
}

void Participation::report(const Bytes20& peer, p2p::Offence offence) { network_->report(peer, offence); }

void Participation::request_range(const Bytes20& peer, const p2p::messages::GetRange& asked, std::uint64_t timeout_ms,
                                  p2p::Answer<p2p::messages::Range> answer) {
    network_->request_range(peer, asked, timeout_ms, std::move(answer));
}

std::unique_ptr<RangeSync> Participation::make_sync() {
    const auto tip = parts_.chain.tip();
    return std::make_unique<RangeSync>(RangeSync::Parts{
        .clock = parts_.clock,
        .rules = range_rules(),
        .tip = tip.number,
        .tip_hash = tip.hash,
        .request = std::bind_front(&Participation::request_range, this),
        .deliver =
            [this](sdbft::RangeAnswer range, const Bytes20& from) {
                // As an event: what peers flood this node with does not stand before it.
                const auto peer = peers_.id_of(from).value_or(0);
                (void)consensus_->post_range({peer, std::move(range)});
            },
        .report = std::bind_front(&Participation::report, this),
        .committee = std::bind_front(&Participation::committee, this),
        .forked = [this](const Bytes20& peer, std::uint64_t number) { audit_->suspect(peer, number - 1); }});
}

std::unique_ptr<ForkAudit> Participation::make_audit() {
    return std::make_unique<ForkAudit>(
        ForkAudit::Parts{.clock = parts_.clock,
                         .board = parts_.chain.board(),
                         .duties = work_,
                         .certificates = *certificates_,
                         .rules = range_rules(),
                         .committee = std::bind_front(&Participation::committee, this),
                         .request_range = std::bind_front(&Participation::request_range, this),
                         .request_certificate =
                             [this](const Bytes20& peer, const p2p::messages::GetCertificate& asked,
                                    std::uint64_t timeout_ms, p2p::Answer<p2p::messages::CertificateAnswer> answer) {
                                 network_->request_certificate(peer, asked, timeout_ms, std::move(answer));
                             },
                         .report = std::bind_front(&Participation::report, this)});
}

void Participation::stop() {
    // Those that ask come before those that are asked.
    if (sync_) sync_->stop();
    if (consensus_) consensus_->stop();
    if (executor_) executor_->stop();
    inbox_.stop();
    work_.stop();
    if (certificates_) certificates_->flush();
    if (network_) network_->stop();
}

void Participation::admitted(std::span<const chain::mempool::PooledPtr> transactions) {
    std::vector<p2p::Network::Announcement> announcements;
    announcements.reserve(transactions.size());
    for (const auto& pooled : transactions)
        announcements.push_back({pooled->transaction.hash, {pooled, &pooled->transaction.encoded}});
    network_->announce_transactions(std::move(announcements));
    consensus_->transactions_changed();
}

void Participation::committed(const SnapshotPtr& snapshot) {
    const auto& block = snapshot->head->block;
    const auto& fields = block.header.consensus;
    const bool was_syncing = sync_->progress().syncing;
    // Not on the thread that has the next block to execute.
    const auto tidy = [this, snapshot] {
        inbox_.committed(snapshot->head->block.transactions);
        parts_.gateway.tidy_journal();
    };
    if (!work_.post_own(tidy)) tidy();
    network_->set_status({snapshot->number(), snapshot->head->hash, fields.epoch, fields.view, 0});
    if (evidence_->pending() != 0) (void)work_.post_own([this] { evidence_->step(); });
    if (was_syncing) return;
    const std::uint64_t now = parts_.clock.now_ms();
    finality_.add(now - std::min(now, fields.timestamp_ms));
    // Members of the committee have the block already.
    if (!snapshot->head->finalization.empty())
        network_->announce_block({snapshot->head, &block}, snapshot->head->finalization, true);
}

}  // namespace quern::node
