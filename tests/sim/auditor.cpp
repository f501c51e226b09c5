#include "sim/auditor.h"

#include <algorithm>

namespace quern::sim {

using chain::consensus::Vote;
using chain::consensus::VoteType;

namespace {
constexpr std::size_t kMaxFailures = 20;
std::string say(const Vote& vote) {
    return std::string(sdbft::name_of(vote.type)) + " " + std::to_string(vote.epoch) + "." + std::to_string(vote.view) +
           " " + to_hex(vote.hash.view().first(4));
}
}  // namespace

Auditor::Auditor(const LightGenesis& genesis, std::unique_ptr<SimChain> reference,
                 const chain::consensus::ChainIdentity& chain, const sdbft::Scheme& scheme,
                 std::set<std::size_t> faulty, bool fork_allowed)
    : genesis_(genesis),
      identity_(chain),
      scheme_(scheme),
      faulty_(std::move(faulty)),
      fork_allowed_(fork_allowed),
      chain_(std::move(reference)) {}

void Auditor::failed(std::string what) {
    if (failures_.size() < kMaxFailures) failures_.push_back(std::move(what));
}

std::optional<std::size_t> Auditor::validator_of(const crypto::PublicKey& key) const {
    const auto found = std::find(genesis_.keys.begin(), genesis_.keys.end(), key);
    if (found == genesis_.keys.end()) return std::nullopt;
    return static_cast<std::size_t>(found - genesis_.keys.begin());
}

void Auditor::signed_and_sent(std::size_t validator, const Vote& vote) {
    if (faulty_.contains(validator)) return;
    auto& before = votes_[{validator, vote.epoch, vote.view}];
    if (std::find(before.begin(), before.end(), vote) != before.end()) return;
    for (const auto& other : before) {
        if (sdbft::is_slashable_pair(other, vote))
            failed("double sign: honest validator " + std::to_string(validator) + " sent " + say(other) + " and " +
                   say(vote));
        else if (other.type == VoteType::nullify && vote.type == VoteType::notarize)
            failed("rule 2: honest validator " + std::to_string(validator) + " sent " + say(vote) + " after " +
                   say(other));
    }
    before.push_back(vote);
}

void Auditor::committed(std::size_t node, std::uint64_t height, BytesView bytes,
                        const std::optional<Certificate>& certificate) {
    const auto block = types::decode_block(bytes);
    if (!block) return failed("node " + std::to_string(node) + " committed bytes that are no block");
    const Hash32 hash = types::hash_of(block->header);
    const std::string where = "node " + std::to_string(node) + " at height " + std::to_string(height);
    if (height <= chain_->height()) {
        if (chain_->hash_at(height) != hash) {
            if (!fork_allowed_) failed("agreement: " + where + " committed another block than the others");
            if (!fork_epoch_) fork_epoch_ = height / genesis_.epoch_length;
        }
    } else if (!fork_epoch_) {
        if (height != chain_->height() + 1) return failed(where + " skipped a height");
        if (block->header.consensus.epoch != height / genesis_.epoch_length)
            failed("rule 9: " + where + " committed a block of epoch " + std::to_string(block->header.consensus.epoch));
        if (const auto done = chain_->commit(hash, bytes, certificate); !done) {
            if (!fork_allowed_) failed("agreement: " + where + ": " + done.error().to_string());
            if (!fork_epoch_) fork_epoch_ = height / genesis_.epoch_length;
        }
        transactions_ += block->transactions.size();
        if (const auto sound = chain_->audit(); !sound) failed("state: " + where + ": " + sound.error().to_string());
    }
    if (!certificate) return;
    const auto committee = chain_->committee_of(certificate->epoch);
    if (!committee || fork_epoch_) return;
    if (certificate->type != VoteType::finalize || certificate->hash != hash)
        failed("rule 6: " + where + " committed without a finalization of the block");
    else if (const auto checked = sdbft::check_certificate(*certificate, *committee, identity_, scheme_); !checked)
        failed("quorum: " + where + ": " + checked.error().to_string());
}

void Auditor::kept(std::size_t node, const Certificate& certificate) {
    auto& list = archive_[certificate.epoch][certificate.view];
    const auto same = [&](const Certificate& other) {
        return other.type == certificate.type && other.hash == certificate.hash;
    };
    if (std::any_of(list.begin(), list.end(), same)) return;
    list.push_back(certificate);
    const auto committee = chain_->committee_of(certificate.epoch);
    if (!committee || fork_epoch_) return;
    if (const auto checked = sdbft::check_certificate(certificate, *committee, identity_, scheme_); !checked)
        failed("quorum: node " + std::to_string(node) + " kept " + sdbft::describe(certificate) + ": " +
               checked.error().to_string());
}

void Auditor::convicted(const sdbft::Evidence& evidence) {
    if (const auto checked = sdbft::check_evidence(evidence, identity_, scheme_); !checked)
        return failed("evidence that does not hold: " + checked.error().to_string());
    const auto validator = validator_of(evidence.signer);
    if (!validator) return failed("evidence against a stranger");
    if (!faulty_.contains(*validator))
        return failed("slashable: honest validator " + std::to_string(*validator) + " signed " + say(evidence.first) +
                      " and " + say(evidence.second));
    convicted_.insert(evidence.signer);
}

void Auditor::halted(std::size_t node, const Error& error) {
    if (fork_allowed_) return;
    failed("node " + std::to_string(node) + " halted: " + error.to_string());
}

void Auditor::blamed(std::size_t accuser, std::size_t accused, const Error& error) {
    if (fork_allowed_) return;
    failed("node " + std::to_string(accuser) + " blames honest node " + std::to_string(accused) + ": " +
           error.to_string());
}

void Auditor::state_of(std::size_t node, const SimChain& chain) {
    const std::string where = "node " + std::to_string(node) + " at height " + std::to_string(chain.height());
    if (const auto sound = chain.audit(); !sound) failed("state: " + where + ": " + sound.error().to_string());
    if (!fork_epoch_ && chain.height() <= chain_->height() && chain.tip().hash != chain_->hash_at(chain.height()))
        failed("agreement: " + where + " ended on another block than the others");
}

void Auditor::finish() {
    if (!fork_epoch_) return;
    const auto committee = chain_->committee_of(*fork_epoch_);
    if (!committee) return failed("the fork's epoch has no committee");
    // From the certificates that honest nodes kept alone.
    for (const auto& entry : archive_[*fork_epoch_])
        for (std::size_t i = 0; i < entry.second.size(); ++i)
            for (std::size_t j = i + 1; j < entry.second.size(); ++j)
                for (const auto& evidence : sdbft::conflicts_between(entry.second[i], entry.second[j], *committee))
                    convicted(evidence);
    Uint256 weight;
    for (const auto& key : convicted_) {
        const std::size_t index = committee->index_of(key);
        if (index < committee->members().size()) weight += committee->members()[index].weight;
    }
    if (!committee->is_weak_quorum(weight))
        failed("the fork in epoch " + std::to_string(*fork_epoch_) + " convicts only " + weight.to_decimal() + " of " +
               committee->total_weight().to_decimal());
}

}  // namespace quern::sim
