#include "node/agree/consensus_link.h"

#include "base/log.h"
#include "chain/exec/system/epoch_reader.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;

p2p::Offence offence_of(sdbft::action::Wrong wrong) {
    switch (wrong) {
        case sdbft::action::Wrong::form:
            return p2p::Offence::malformed;
        case sdbft::action::Wrong::block:
            return p2p::Offence::invalid_block;
        case sdbft::action::Wrong::consensus:
            break;
    }
    return p2p::Offence::invalid_consensus;
}

void ConsensusLink::send_to(const Bytes20& peer, Bytes message) {
    parts_.network.send_consensus_to(peer, std::move(message));
}

void ConsensusLink::send(sdbft::action::Send send, bool member) {
    switch (send.target) {
        case sdbft::action::Target::all:
            // Votes and certificates of one who is no member say nothing that the members do not know.
            if (!member) return;
            if (auto echo = echo_ ? echo_(send.message) : std::nullopt) parts_.network.send_consensus(std::move(*echo));
            if (const auto at = sdbft::transactions_in(send.message))
                return parts_.network.send_proposal(std::move(send.message), at->begin, at->end);
            return parts_.network.send_consensus(std::move(send.message));
        case sdbft::action::Target::one:
            if (const auto peer = parts_.peers.address_of(send.peer)) send_to(*peer, std::move(send.message));
            return;
        case sdbft::action::Target::any:
            if (const auto peer = parts_.peers.pick()) send_to(*peer, std::move(send.message));
            return;
    }
}

void ConsensusLink::ask_range(std::uint64_t, std::optional<sdbft::PeerId>) {
    // Whom to ask, and how much, is for who knows what each peer delivered.
    parts_.sync.ask();
}

void ConsensusLink::ask_block(const Hash32& hash, std::optional<sdbft::PeerId> peer) {
    auto address = peer ? parts_.peers.address_of(*peer) : std::nullopt;
    if (!address) address = parts_.peers.pick();
    if (address) send_to(*address, encode(sdbft::Message(sdbft::BlockQuery{hash})));
}

void ConsensusLink::keep(chain::consensus::Certificate certificate) {
    parts_.certificates.keep(std::move(certificate));
}

void ConsensusLink::convict(sdbft::Evidence evidence) {
    if (!accused_.add(crypto::address20(evidence.signer), evidence.first.epoch)) return;
    log::error(log::Category::consensus, "A VALIDATOR SIGNED TWICE address={} epoch={} view={} first={} second={}",
               to_hex0x(crypto::address20(evidence.signer)), evidence.first.epoch, evidence.first.view,
               sdbft::name_of(evidence.first.type), sdbft::name_of(evidence.second.type));
    parts_.evidence.convict(std::move(evidence));
}

void ConsensusLink::misbehaved(const sdbft::action::Misbehaved& blame) {
    const auto address = parts_.peers.address_of(blame.peer);
    log::debug(log::Category::consensus, "refused from={} reason={}",
               address ? to_hex0x(*address) : std::to_string(blame.peer), blame.error.to_string());
    if (address) parts_.network.report(*address, offence_of(blame.wrong));
}

void ConsensusLink::serve_block(sdbft::PeerId peer, const Hash32& hash, const std::shared_ptr<const Bytes>& block) {
    const auto address = parts_.peers.address_of(peer);
    if (!address) return;
    if (block)
        parts_.blocks.give(*address, block);
    else
        parts_.blocks.give_final(*address, hash);
}

// Nodes ask for ranges with p2p's get_range, which has a limit on what waits to be read.
void ConsensusLink::serve_range(sdbft::PeerId peer, std::uint64_t) {
    const auto address = parts_.peers.address_of(peer);
    if (address) parts_.network.report(*address, p2p::Offence::useless);
}

bool ConsensusLink::transactions_wait() { return parts_.pool.has_executable(parts_.board.latest()->next_base_fee); }

void ConsensusLink::committed(const sdbft::event::Committed& committed) {
    parts_.sync.committed(committed.tip.number, committed.tip.hash);
    if (!committed.next_epoch) return;
    announce_committee();
    parts_.certificates.entered(committed.next_epoch->epoch);
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
    parts_.answers.set_committee(members);
    parts_.network.set_committee(members);
}

}  // namespace quern::node
