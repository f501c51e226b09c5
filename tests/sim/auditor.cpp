#include "sim/auditor.h"

#include <algorithm>

#include "chain/consensus/beacon.h"
#include "chain/params/params.h"

namespace quern::sim {

using chain::consensus::Vote;
using chain::consensus::VoteType;

namespace {
constexpr std::size_t kMaxFailures = 20;
// From an accusation to the conviction: the transaction's way into the next master's pool and a few masters without it.
constexpr std::uint64_t kBlocksToConvict = 10;
std::string say(const Vote& vote) {
    return std::string(sdbft::name_of(vote.type)) + " " + std::to_string(vote.epoch) + "." + std::to_string(vote.view) +
           " " + to_hex(vote.hash.view().first(4));
}
}  // namespace

Auditor::Auditor(const Rules& rules, std::unique_ptr<SimChain> reference, std::set<std::size_t> faulty)
    : rules_(rules), faulty_(std::move(faulty)), chain_(std::move(reference)) {}

void Auditor::failed(std::string what) {
    if (failures_.size() < kMaxFailures) failures_.push_back(std::move(what));
}

std::optional<std::size_t> Auditor::validator_of(const crypto::PublicKey& key) const {
    const auto found = std::find(rules_.genesis.keys.begin(), rules_.genesis.keys.end(), key);
    if (found == rules_.genesis.keys.end()) return std::nullopt;
    return static_cast<std::size_t>(found - rules_.genesis.keys.begin());
}

void Auditor::signed_and_sent(std::size_t validator, const Vote& vote) {
    if (faulty_.contains(validator)) return;
    if (vote.type == VoteType::notarize)
        if (const auto* forgery = rules_.forgeries.find(vote.epoch, vote.view, vote.hash))
            failed("forgery: honest validator " + std::to_string(validator) + " sent " + say(vote) + ": " +
                   std::string(*forgery));
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

void Auditor::voted_at(std::size_t validator, std::uint64_t timestamp_ms, std::uint64_t wall_ms) {
    if (faulty_.contains(validator) || timestamp_ms <= wall_ms + chain::params::kMaxFutureMs) return;
    failed("time: honest validator " + std::to_string(validator) + " voted for a block " +
           std::to_string(timestamp_ms - wall_ms) + " ms ahead of its clock");
}

void Auditor::holds(std::size_t node, std::string_view what, std::size_t count, std::size_t reached, std::size_t most) {
    if (count >= reached) limits_reached_.insert(what);
    if (count > most)
        failed("limit: node " + std::to_string(node) + " holds " + std::to_string(count) + " of " + std::string(what) +
               ", at most " + std::to_string(most));
}

Status Auditor::check_block(const types::Block& block) const {
    const auto& header = block.header;
    const auto& fields = header.consensus;
    const Tip& parent = chain_->tip();
    const auto setup = chain_->epoch_setup();
    if (header.number != parent.number + 1 || header.parent_hash != parent.hash) return fail("audit.parent");
    if (fields.epoch != setup.epoch) return fail("audit.epoch");
    if (fields.timestamp_ms <= parent.timestamp_ms) return fail("audit.timestamp");
    if (fields.committee_hash != setup.committee.hash() || fields.next_committee_hash != setup.next_committee_hash)
        return fail("audit.committee");
    const auto& master = setup.committee.members()[sdbft::master_of(setup, fields.view)];
    QUERN_TRY(const auto output, rules_.scheme.vrf_verify(master.key, parent.beacon, fields.vrf_proof));
    if (fields.beacon != chain::consensus::next_beacon(parent.beacon, output)) return fail("audit.beacon");
    if (fields.parent_certificate_hash != chain::consensus::certificate_hash(block.parent_certificate))
        return fail("audit.parent_certificate", "not the one in the body");
    if (header.number == 1) return block.parent_certificate.empty() ? Status() : Status(fail("audit.genesis"));
    QUERN_TRY(const auto certificate, chain::consensus::decode_certificate(block.parent_certificate));
    if (certificate.hash != header.parent_hash) return fail("audit.parent_certificate", "of another block");
    const bool first = parent.epoch != setup.epoch;
    if (certificate.type != VoteType::finalize && (first || certificate.type != VoteType::notarize))
        return fail("audit.parent_certificate", "type");
    const auto committee = chain_->committee_of(certificate.epoch);
    if (!committee || certificate.epoch != parent.epoch) return fail("audit.parent_certificate", "epoch");
    return sdbft::check_certificate(certificate, *committee, rules_.chain, rules_.scheme);
}

void Auditor::committed(std::size_t node, std::uint64_t height, BytesView bytes,
                        const std::optional<Certificate>& certificate) {
    const auto block = types::decode_block(bytes);
    if (!block) return failed("node " + std::to_string(node) + " committed bytes that are no block");
    const Hash32 hash = types::hash_of(block->header);
    const std::string where = "node " + std::to_string(node) + " at height " + std::to_string(height);
    if (const auto* forgery = rules_.forgeries.find(0, 0, hash))
        failed("forgery: " + where + " committed: " + std::string(*forgery));
    if (height <= chain_->height()) {
        if (chain_->hash_at(height) != hash) {
            if (!rules_.fork_allowed && !rules_.stolen_keys)
                failed("agreement: " + where + " committed another block than the others");
            if (!fork_epoch_) fork_epoch_ = height / rules_.genesis.epoch_length;
        } else if (const auto same = chain_->block(hash); same && !equal(same->block, bytes)) {
            failed("agreement: " + where + " committed another body than the others");
        }
    } else if (!fork_epoch_) {
        if (height != chain_->height() + 1) return failed(where + " skipped a height");
        if (block->header.consensus.epoch != height / rules_.genesis.epoch_length)
            failed("rule 9: " + where + " committed a block of epoch " + std::to_string(block->header.consensus.epoch));
        if (const auto sound = check_block(*block); !sound && !rules_.stolen_keys)
            failed("block: " + where + ": " + sound.error().to_string());
        if (const auto done = chain_->commit(hash, bytes, certificate); !done) {
            if (!rules_.fork_allowed && !rules_.stolen_keys)
                failed("agreement: " + where + ": " + done.error().to_string());
            if (!fork_epoch_) fork_epoch_ = height / rules_.genesis.epoch_length;
        }
        transactions_ += block->transactions.size();
        if (const auto sound = chain_->audit(); !sound) failed("state: " + where + ": " + sound.error().to_string());
    }
    if (!certificate) return;
    const auto committee = chain_->committee_of(certificate->epoch);
    if (!committee || fork_epoch_ || rules_.stolen_keys) return;
    if (certificate->type != VoteType::finalize || certificate->hash != hash)
        failed("rule 6: " + where + " committed without a finalization of the block");
    else if (const auto checked = sdbft::check_certificate(*certificate, *committee, rules_.chain, rules_.scheme);
             !checked)
        failed("quorum: " + where + ": " + checked.error().to_string());
}

void Auditor::kept(std::size_t node, const Certificate& certificate) {
    if (rules_.stolen_keys) return;
    auto& list = archive_[{certificate.epoch, certificate.view}];
    const auto same = [&](const Certificate& other) {
        return other.type == certificate.type && other.hash == certificate.hash;
    };
    if (std::any_of(list.begin(), list.end(), same)) return;
    list.push_back(certificate);
    const auto committee = chain_->committee_of(certificate.epoch);
    if (!committee || fork_epoch_) return;
    if (const auto checked = sdbft::check_certificate(certificate, *committee, rules_.chain, rules_.scheme); !checked)
        failed("quorum: node " + std::to_string(node) + " kept " + sdbft::describe(certificate) + ": " +
               checked.error().to_string());
}

void Auditor::convicted(const sdbft::Evidence& evidence) {
    if (rules_.stolen_keys) return;
    if (const auto checked = sdbft::check_evidence(evidence, rules_.chain, rules_.scheme); !checked)
        return failed("evidence that does not hold: " + checked.error().to_string());
    const auto validator = validator_of(evidence.signer);
    if (!validator) return failed("evidence against a stranger");
    if (!faulty_.contains(*validator))
        return failed("slashable: honest validator " + std::to_string(*validator) + " signed " + say(evidence.first) +
                      " and " + say(evidence.second));
    convicted_.insert(evidence.signer);
}

void Auditor::accused(std::size_t node, const crypto::PublicKey& signer, std::uint64_t height) {
    accused_[node].push_back({signer, height});
}

void Auditor::convicted_on_chain(std::size_t node, std::uint64_t height, const std::vector<types::Address>& convicts) {
    on_chains_[node] = {height, convicts};
    for (const auto& address : convicts) {
        const bool guilty = std::any_of(faulty_.begin(), faulty_.end(), [&](std::size_t validator) {
            return types::address_of(rules_.genesis.keys[validator]) == address;
        });
        if (!guilty)
            failed("slashed: node " + std::to_string(node) + "'s chain convicted the honest validator " +
                   to_hex0x(address));
    }
}

void Auditor::halted(std::size_t node, const Error& error) {
    if (rules_.fork_allowed || rules_.stolen_keys) return;
    failed("node " + std::to_string(node) + " halted: " + error.to_string());
}

void Auditor::blamed(std::size_t accuser, std::size_t accused, const Error& error) {
    if (rules_.fork_allowed || rules_.stolen_keys) return;
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
    // From the certificates that honest nodes kept alone, beside the double signs that they met.
    std::vector<sdbft::Evidence> found;
    for (const auto& [position, certificates] : archive_) {
        if (position.first != *fork_epoch_) continue;
        for (std::size_t i = 0; i < certificates.size(); ++i)
            for (std::size_t j = i + 1; j < certificates.size(); ++j)
                for (auto& evidence : sdbft::conflicts_between(certificates[i], certificates[j], *committee))
                    found.push_back(std::move(evidence));
    }
    for (const auto& evidence : found) convicted(evidence);
    Uint256 weight;
    for (const auto& key : convicted_) {
        const std::size_t index = committee->index_of(key);
        if (index < committee->members().size()) weight += committee->members()[index].weight;
    }
    if (!committee->is_weak_quorum(weight))
        failed("the fork in epoch " + std::to_string(*fork_epoch_) + " convicts only " + weight.to_decimal() + " of " +
               committee->total_weight().to_decimal());
}

void Auditor::finish_on_chains() {
    const auto committee = fork_epoch_ ? chain_->committee_of(*fork_epoch_) : std::nullopt;
    for (const auto& [node, chain] : on_chains_) {
        const auto has = [&chain = chain](const crypto::PublicKey& key) {
            const auto address = types::address_of(key);
            return std::find(chain.convicts.begin(), chain.convicts.end(), address) != chain.convicts.end();
        };
        for (const auto& [signer, height] : accused_[node])
            if (!has(signer) && height + kBlocksToConvict <= chain.height)
                failed("evidence: node " + std::to_string(node) + " accused a validator at height " +
                       std::to_string(height) + " whom its chain has not convicted at " + std::to_string(chain.height));
        if (!committee) continue;
        Uint256 weight;
        for (const auto& member : committee->members())
            if (has(member.key)) weight += member.weight;
        const bool third = committee->is_weak_quorum(weight);
        chains_that_convicted_ += third ? 1 : 0;
        const auto told = told_.find(node);
        if (!third && told != told_.end() && told->second + kBlocksToConvict <= chain.height)
            failed("fork: node " + std::to_string(node) + " was told of it at height " + std::to_string(told->second) +
                   ", and at " + std::to_string(chain.height) + " its chain has convicted only " + weight.to_decimal() +
                   " of " + committee->total_weight().to_decimal());
    }
}

}  // namespace quern::sim
