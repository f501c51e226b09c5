#include "node/agree/consensus_link.h"

#include "base/log.h"
#include "chain/exec/system/epoch_reader.h"
#include "chain/store/certificate_store.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;

p2p::Offence offence_of(const Error& error) {
    if (error.name.starts_with("message.") || error.name.starts_with("rlp.")) return p2p::Offence::malformed;
    if (error.name.starts_with("header.") || error.name == "sdbft.bad_block" || error.name == "sdbft.bad_range" ||
        error.name == "proposal.invalid_block")
        return p2p::Offence::invalid_block;
    return p2p::Offence::invalid_consensus;
}

void ConsensusLink::send_to(const Bytes20& peer, Bytes message) {
    if (auto* const network = network_.load()) network->send_consensus_to(peer, std::move(message));
}

void ConsensusLink::send(sdbft::action::Send send, bool member) {
    auto* const network = network_.load();
    if (network == nullptr) return;
    switch (send.target) {
        case sdbft::action::Target::all:
            // Votes and certificates of one who is no member say nothing that the members do not know.
            if (!member) return;
#ifdef QUERN_TEST_FAULTS
            if (double_voter_ != nullptr) send_second_vote(*network, send.message);
#endif
            return network->send_consensus(std::move(send.message));
        case sdbft::action::Target::one:
            if (const auto peer = parts_.peers.address_of(send.peer)) send_to(*peer, std::move(send.message));
            return;
        case sdbft::action::Target::any:
            if (const auto peer = parts_.peers.pick(0)) send_to(*peer, std::move(send.message));
            return;
    }
}

void ConsensusLink::ask_range(std::uint64_t first_height, std::optional<sdbft::PeerId> peer) {
    // Blocks in bulk go by a request of their own: bounded, timed, behind votes in the queues.
    sync_->ask(first_height, peer ? parts_.peers.address_of(*peer) : std::nullopt);
}

void ConsensusLink::ask_block(const Hash32& hash, std::optional<sdbft::PeerId> peer) {
    auto address = peer ? parts_.peers.address_of(*peer) : std::nullopt;
    if (!address) address = parts_.peers.pick(0);
    if (address) send_to(*address, encode(sdbft::Message(sdbft::BlockQuery{hash})));
}

#ifdef QUERN_TEST_FAULTS
void ConsensusLink::send_second_vote(p2p::Network& network, BytesView message) const {
    const auto decoded = sdbft::decode_message(message);
    const auto* vote = decoded ? std::get_if<sdbft::VoteMessage>(&*decoded) : nullptr;
    if (vote == nullptr || vote->vote.type != chain::consensus::VoteType::notarize) return;
    sdbft::VoteMessage second = *vote;
    second.vote.hash.data[0] ^= 1;
    second.signature = double_voter_->sign(vote_digest(identity_, second.vote));
    network.send_consensus(encode(sdbft::Message(second)));
}
#endif

void ConsensusLink::keep(chain::consensus::Certificate certificate) {
    const bool queued = parts_.work.post(8192, [this, certificate = std::move(certificate)] {
        chain::store::WriteBatch batch;
        chain::store::CertificateStore::put(batch, certificate.epoch, certificate.view,
                                            static_cast<std::uint8_t>(certificate.type), certificate.hash,
                                            encode(certificate));
        // Not synced: the journal and the blocks hold the newest ones.
        if (const auto written = parts_.store.write(batch, false); !written)
            log::warning(log::Category::consensus, "certificate not kept reason={}", written.error().to_string());
    });
    if (!queued) log::debug(log::Category::consensus, "certificate not kept: the disk is behind");
}

void ConsensusLink::convict(sdbft::Evidence evidence) {
    // One who signs twice does so in each view: the first pair of an epoch is enough.
    if (accused_.size() >= kMaxAccused) accused_.clear();
    if (!accused_.insert({crypto::address20(evidence.signer), evidence.first.epoch}).second) return;
    log::error(log::Category::consensus, "A VALIDATOR SIGNED TWICE address={} epoch={} view={} first={} second={}",
               to_hex0x(crypto::address20(evidence.signer)), evidence.first.epoch, evidence.first.view,
               sdbft::name_of(evidence.first.type), sdbft::name_of(evidence.second.type));
    if (parts_.evidence != nullptr) parts_.evidence->convict(std::move(evidence));
}

void ConsensusLink::misbehaved(sdbft::PeerId peer, const Error& error) {
    const auto address = parts_.peers.address_of(peer);
    log::debug(log::Category::consensus, "refused from={} reason={}",
               address ? to_hex0x(*address) : std::to_string(peer), error.to_string());
    auto* const network = network_.load();
    if (network != nullptr && address) network->report(*address, offence_of(error));
}

void ConsensusLink::serve_block(sdbft::PeerId peer, const Hash32& hash) {
    (void)parts_.work.post(64, [this, peer, hash] {
        const auto address = parts_.peers.address_of(peer);
        if (!address) return;
        if (auto block = parts_.server.block(hash))
            send_to(*address, encode(sdbft::Message(sdbft::BlockAnswer{std::move(block->block)})));
    });
}

void ConsensusLink::serve_range(sdbft::PeerId peer, std::uint64_t first_height) {
    (void)parts_.work.post(64, [this, peer, first_height] {
        const auto address = parts_.peers.address_of(peer);
        if (!address) return;
        auto found = epoch_range(parts_.server.range({first_height, messages::kMaxRangeBlocks, kMaxServedRangeBytes}),
                                 first_height, parts_.board.latest()->number(), heights_);
        if (found && found->count != 0) send_to(*address, encode(sdbft::Message(std::move(found->answer))));
    });
}

bool ConsensusLink::transactions_wait() { return parts_.pool.has_executable(parts_.board.latest()->next_base_fee); }

void ConsensusLink::committed(const sdbft::event::Committed& committed) {
    if (!committed.next_epoch) return;
    announce_committee();
    prune_certificates(committed.next_epoch->epoch);
}

void ConsensusLink::announce_committee() {
    const auto at = parts_.board.latest();
    const std::uint64_t epoch = heights_.epoch_of(at->number() + 1);
    std::set<Bytes20> members;
    for (const std::uint64_t which : {epoch, epoch + 1}) {
        const auto committee = chain::exec::system::committee_of_epoch(at->state, which);
        if (!committee) continue;  // the next one is not frozen yet
        for (const auto& member : committee->members()) members.insert(crypto::address20(member.key));
    }
    parts_.peers.set_committee({members.begin(), members.end()});
    if (auto* const network = network_.load()) network->set_committee(members);
}

void ConsensusLink::prune_certificates(std::uint64_t epoch) {
    if (epoch <= chain::store::kCertificateEpochs) return;
    (void)parts_.work.post(64, [this, oldest = epoch - chain::store::kCertificateEpochs] {
        for (;;) {
            chain::store::WriteBatch batch;
            const auto erased = chain::store::CertificateStore(parts_.store).prune(batch, oldest);
            if (!erased || *erased == 0) return;
            if (!parts_.store.write(batch, false) || *erased < chain::store::kMaxPrunedAtOnce) return;
        }
    });
}

}  // namespace quern::node
