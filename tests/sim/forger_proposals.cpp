// False proposals: the genuine one of the core behind, changed in one place, signed like any other.
#include "chain/consensus/beacon.h"
#include "sim/forger.h"

namespace quern::sim {

using chain::consensus::Vote;
using chain::consensus::VoteType;

namespace {
constexpr std::uint64_t kAnswerAfterMs = 30;
constexpr std::uint64_t kTries = 6;
}  // namespace

const Forger::Way Forger::kWays[] = {
    {"wrong number", &Forger::number},
    {"wrong epoch", &Forger::epoch},
    {"wrong view", &Forger::view},
    {"early timestamp", &Forger::early_timestamp},
    {"future timestamp", &Forger::future_timestamp},
    {"wrong committee", &Forger::committee},
    {"wrong next committee", &Forger::next_committee},
    {"chosen beacon", &Forger::beacon},
    {"false beacon proof", &Forger::beacon_proof},
    {"a certificate under the genesis block", &Forger::genesis_certificate, true},
    {"false signatures under the parent", &Forger::parent_signatures},
    {"no quorum under the parent", &Forger::parent_quorum},
    {"no certificate under the parent", &Forger::no_parent_certificate},
    {"a nullification under the parent", &Forger::nullified_parent, true},
    {"a parent in the epoch before", &Forger::parent_of_an_epoch_before, true},
    {"an earlier block's finalization under the epoch", &Forger::earlier_finalization, true},
    {"an epoch on a notarization", &Forger::unclosed_epoch, true},
    {"withheld", &Forger::withhold},
    {"an unnotarized block again", &Forger::unnotarized_again, true},
    {"child of an unnotarized block", &Forger::child_of_withheld, true},
    {"an old block again", &Forger::old_block_again},
    {"sibling", &Forger::sibling},
    {"child of a sibling", &Forger::child_of_sibling, true},
    {"parent in another view", &Forger::stolen_parent_view, true},
    {"wrong state root", &Forger::state_root},
    {"other transactions", &Forger::body_transactions},
    {"other parent certificate in the body", &Forger::body_certificate},
    {"no block at all", &Forger::no_block},
};

std::vector<Forger::Out> Forger::propose(const Bytes& genuine, SimChain& chain, std::uint64_t wall_ms) {
    const std::vector<Out> truth = {{0, genuine, false}};
    const auto decoded = sdbft::decode_message(genuine);
    if (!decoded) return truth;
    const auto& message = std::get<sdbft::ProposeMessage>(*decoded);
    const std::pair position(message.epoch, message.view);
    if (const auto known = proposed_.find(position); known != proposed_.end()) return known->second;
    auto& out = proposed_[position];
    out = truth;
    remember(*decoded);
    if (parts_.rng.below(4) == 0) return out;
    const auto block = types::decode_block(message.block);
    const auto info = sdbft::read_block(message.block);
    // What is proposed again is left alone: it is not this node's block.
    if (!block || !info || info->view != message.view) return out;
    if (const auto withheld = withheld_ ? known(*withheld_) : std::nullopt;
        withheld && withheld->parent != info->parent)
        withheld_.reset();
    const auto attempt = [&](const Way& way) {
        Draft draft{message, *block, *info, wall_ms, &chain, {}, false, false, false, false, false};
        draft.message.block.clear();
        if (!(this->*way.forge)(draft)) return false;
        ++parts_.book.written[way.name];
        out.clear();
        if (draft.silent) return true;
        if (draft.message.block.empty()) draft.message.block = types::encode(draft.block);
        const auto forged = sdbft::read_block(draft.message.block);
        const Hash32 hash = forged ? forged->hash : Hash32{};
        if (!draft.signed_already)
            draft.message.signature = sign({VoteType::propose, message.epoch, message.view, hash});
        if (draft.refused_at_once) parts_.book.refused_at_once.emplace(hash, way.name);
        if (draft.this_view_only)
            parts_.book.proposals.emplace(std::tuple(message.epoch, message.view, hash), way.name);
        else if (!draft.no_fault && !draft.signed_already)
            parts_.book.blocks.emplace(hash, way.name);
        // A body that is not the header's goes to some, the true one to the others: nobody can be convicted for that.
        const bool to_half = draft.signed_already && parts_.rng.below(2) == 0;
        out.push_back({0, sdbft::encode(sdbft::Message(draft.message)), to_half});
        if (to_half) out.push_back({1, genuine, true});
        for (auto& besides : draft.besides) out.push_back(std::move(besides));
        return true;
    };
    if (heights_.is_last(info->number) && !withheld_ && parts_.rng.below(2) == 0) {
        withheld_ = info->hash;
        out.clear();
        return out;
    }
    for (const auto& way : kWays)
        if (way.rare && parts_.rng.below(2) == 0 && attempt(way)) return out;
    for (std::uint64_t i = 0; i < kTries; ++i)
        if (attempt(kWays[parts_.rng.below(std::size(kWays))])) break;
    return out;
}

void Forger::rest_on(Draft& draft, Bytes certificate) const {
    draft.block.header.consensus.parent_certificate_hash = chain::consensus::certificate_hash(certificate);
    draft.block.parent_certificate = std::move(certificate);
}

void Forger::rest_on_another(Draft& draft, const Certificate& certificate) const {
    auto& header = draft.block.header;
    header.parent_hash = certificate.hash;
    rest_on(draft, chain::consensus::encode(certificate));
    // Where a view was given up, one higher does as well: then it need not be the child of anybody's tip.
    const std::uint64_t first = heights_.first(draft.message.epoch);
    if (!heights_.is_last(header.number) && header.number + 1 - first < draft.message.view) ++header.number;
    draft.refused_at_once = true;
}

bool Forger::number(Draft& draft) {
    auto& number = draft.block.header.number;
    switch (parts_.rng.below(4)) {
        case 0:
            number = 1'000'000;
            break;
        case 1:
            number = std::uint64_t{1} << 63;
            break;
        default:
            // The next one, where it is in the same epoch: nothing but the number itself is wrong.
            if (heights_.is_last(number)) return false;
            ++number;
            break;
    }
    return true;
}

bool Forger::epoch(Draft& draft) {
    auto& epoch = draft.block.header.consensus.epoch;
    epoch += parts_.rng.below(2) == 0 ? 1 : 1'000'000;
    return true;
}

bool Forger::view(Draft& draft) {
    auto& view = draft.block.header.consensus.view;
    view += parts_.rng.below(2) == 0 ? 1 : std::uint64_t{1} << 40;
    return true;
}

bool Forger::early_timestamp(Draft& draft) {
    std::uint64_t at = 1000;
    if (const auto parent = known(draft.info.parent); parent && parts_.rng.below(2) == 0) at = parent->timestamp_ms;
    draft.block.header.consensus.timestamp_ms = at;
    draft.block.header.timestamp = at / 1000;
    return true;
}

bool Forger::future_timestamp(Draft& draft) {
    const std::uint64_t at =
        parts_.rng.below(4) == 0 ? ~std::uint64_t{0} - 5000 : draft.wall_ms + 4000 + parts_.rng.below(5000);
    draft.block.header.consensus.timestamp_ms = at;
    draft.block.header.timestamp = at / 1000;
    draft.no_fault = true;  // the auditor looks at the clock
    return true;
}

bool Forger::committee(Draft& draft) {
    draft.block.header.consensus.committee_hash.data[parts_.rng.below(32)] ^= 1;
    return true;
}

bool Forger::next_committee(Draft& draft) {
    draft.block.header.consensus.next_committee_hash.data[parts_.rng.below(32)] ^= 1;
    return true;
}

bool Forger::beacon(Draft& draft) {
    auto& header = draft.block.header;
    parts_.rng.fill(header.consensus.beacon.data);
    header.prev_randao = header.consensus.beacon;
    return true;
}

bool Forger::beacon_proof(Draft& draft) {
    auto& header = draft.block.header;
    const auto parent = known(draft.info.parent);
    Hash32 output;
    parts_.rng.fill(output.data);
    header.consensus.vrf_proof = to_bytes(output);
    header.consensus.beacon = chain::consensus::next_beacon(parent ? parent->beacon : Hash32{}, output);
    header.prev_randao = header.consensus.beacon;
    return true;
}

bool Forger::genesis_certificate(Draft& draft) {
    if (!draft.block.parent_certificate.empty()) return false;
    Certificate forged;
    forged.hash = draft.info.parent;
    forged.view = 1;
    rest_on(draft, chain::consensus::encode(forged));
    return true;
}

bool Forger::parent_signatures(Draft& draft) {
    if (draft.block.parent_certificate.empty()) return false;
    auto certificate = chain::consensus::decode_certificate(draft.block.parent_certificate);
    if (!certificate) return false;
    const auto committee = draft.chain->committee_of(certificate->epoch);
    if (!committee) return false;
    rest_on(draft, chain::consensus::encode(this->certificate(certificate->vote(), *committee, false)));
    return true;
}

bool Forger::parent_quorum(Draft& draft) {
    const auto certificate = chain::consensus::decode_certificate(draft.block.parent_certificate);
    if (!certificate) return false;
    const auto committee = draft.chain->committee_of(certificate->epoch);
    const auto self = committee ? member(*committee) : std::nullopt;
    if (!self) return false;
    const std::vector<std::pair<std::size_t, sdbft::Signature>> own = {{*self, sign(certificate->vote())}};
    rest_on(draft, chain::consensus::encode(chain::consensus::make_certificate(certificate->vote(), *committee, own)));
    return true;
}

bool Forger::no_parent_certificate(Draft& draft) {
    if (draft.block.parent_certificate.empty()) return false;
    rest_on(draft, {});
    return true;
}

bool Forger::earlier_finalization(Draft& draft) {
    const std::uint64_t epoch = draft.message.epoch;
    if (epoch == 0 || draft.info.number != heights_.first(epoch)) return false;
    for (const auto& [position, certificate] : certificates_) {
        if (std::get<0>(position) + 1 != epoch || certificate.type != VoteType::finalize) continue;
        if (certificate.hash == draft.info.parent) continue;
        rest_on(draft, chain::consensus::encode(certificate));
        return true;
    }
    return false;
}

bool Forger::unclosed_epoch(Draft& draft) {
    const std::uint64_t epoch = draft.message.epoch;
    if (epoch == 0 || draft.info.number != heights_.first(epoch)) return false;
    for (const auto& [position, certificate] : certificates_) {
        if (std::get<0>(position) + 1 != epoch || certificate.type != VoteType::notarize) continue;
        if (certificate.hash != draft.info.parent) continue;
        rest_on(draft, chain::consensus::encode(certificate));
        return true;
    }
    return false;
}

bool Forger::withhold(Draft& draft) {
    withheld_ = draft.info.hash;
    draft.silent = true;
    return true;
}

bool Forger::unnotarized_again(Draft& draft) {
    const auto block = withheld_ ? known(*withheld_) : std::nullopt;
    if (!block || block->parent != draft.info.parent || block->epoch != draft.message.epoch) return false;
    if (!heights_.is_last(block->number)) return false;
    draft.message.block = blocks_.at(block->hash);
    const auto committee = draft.chain->committee_of(draft.message.epoch);
    if (committee && parts_.rng.below(2) == 0)
        draft.message.justification =
            certificate({VoteType::notarize, block->epoch, block->view, block->hash}, *committee, false);
    draft.this_view_only = true;
    return true;
}

bool Forger::child_of_withheld(Draft& draft) {
    const auto parent = withheld_ ? known(*withheld_) : std::nullopt;
    if (!parent || parent->parent != draft.info.parent || parent->epoch != draft.message.epoch) return false;
    const auto committee = draft.chain->committee_of(draft.message.epoch);
    if (!committee || heights_.is_last(parent->number)) return false;
    auto vrf = parts_.keys.signers[parts_.validator]->vrf_prove(parent->beacon);
    const auto forged = certificate({VoteType::notarize, parent->epoch, parent->view, parent->hash}, *committee, false);
    const auto& fields = draft.block.header.consensus;
    const auto child =
        draft.chain->build({sdbft::tip_of(*parent), draft.message.epoch, draft.message.view,
                            std::max(fields.timestamp_ms, parent->timestamp_ms + 1),
                            chain::consensus::next_beacon(parent->beacon, vrf.output), std::move(vrf.proof),
                            chain::consensus::encode(forged), fields.committee_hash, fields.next_committee_hash},
                           {}, 77);
    if (!child) return false;
    draft.message.block = *child;
    draft.message.justification.reset();
    draft.besides.push_back(
        {kAnswerAfterMs, sdbft::encode(sdbft::Message(sdbft::BlockAnswer{blocks_.at(parent->hash)})), false});
    return true;
}

bool Forger::old_block_again(Draft& draft) {
    const auto parent = known(draft.info.parent);
    if (!parent || parent->epoch != draft.message.epoch || heights_.is_last(parent->number)) return false;
    const auto certificate = certificates_.find({parent->epoch, parent->view, VoteType::notarize});
    if (certificate == certificates_.end() || certificate->second.hash != parent->hash) return false;
    draft.message.block = blocks_.at(parent->hash);
    draft.message.justification = certificate->second;
    draft.this_view_only = true;
    return true;
}

bool Forger::sibling(Draft& draft) {
    // The genuine one goes out, and this one is kept for its child.
    types::Block other = draft.block;
    other.header.beneficiary.data[2] = 99;
    const Hash32 hash = types::hash_of(other.header);
    blocks_.emplace(hash, types::encode(other));
    sibling_ = {draft.info.hash, hash};
    draft.signed_already = true;
    return true;
}

bool Forger::child_of_sibling(Draft& draft) {
    if (!sibling_ || sibling_->first != draft.info.parent || !known(sibling_->second)) return false;
    draft.block.header.parent_hash = sibling_->second;
    draft.besides.push_back(
        {kAnswerAfterMs, sdbft::encode(sdbft::Message(sdbft::BlockAnswer{blocks_.at(sibling_->second)})), false});
    return true;
}

bool Forger::stolen_parent_view(Draft& draft) {
    if (!parts_.stolen_keys) return false;
    const auto certificate = chain::consensus::decode_certificate(draft.block.parent_certificate);
    if (!certificate || certificate->epoch != draft.message.epoch || certificate->view + 1 >= draft.message.view)
        return false;
    const auto committee = draft.chain->committee_of(certificate->epoch);
    if (!committee) return false;
    Vote vote = certificate->vote();
    vote.type = VoteType::notarize;
    vote.view = draft.message.view - 1;
    rest_on(draft, chain::consensus::encode(this->certificate(vote, *committee, true)));
    return true;
}

bool Forger::nullified_parent(Draft& draft) {
    if (draft.info.number <= std::max<std::uint64_t>(1, heights_.first(draft.message.epoch))) return false;
    for (const auto& [position, certificate] : certificates_) {
        if (certificate.type != VoteType::nullify || certificate.epoch != draft.message.epoch) continue;
        if (certificate.view >= draft.message.view) continue;
        rest_on_another(draft, certificate);
        return true;
    }
    return false;
}

bool Forger::parent_of_an_epoch_before(Draft& draft) {
    const std::uint64_t epoch = draft.message.epoch;
    if (epoch == 0 || draft.info.number <= heights_.first(epoch)) return false;
    const auto committee = draft.chain->committee_of(epoch);
    const auto before = draft.chain->committee_of(epoch - 1);
    // The signatures must hold here, too: nothing but the epoch is wrong.
    if (!committee || !before || committee->hash() != before->hash()) return false;
    for (const auto& [position, certificate] : certificates_) {
        if (certificate.type == VoteType::nullify || certificate.epoch + 1 != epoch) continue;
        if (certificate.view >= draft.message.view) continue;
        rest_on_another(draft, certificate);
        return true;
    }
    return false;
}

bool Forger::state_root(Draft& draft) {
    draft.block.header.state_root.data[parts_.rng.below(32)] ^= 1;
    return true;
}

bool Forger::body_transactions(Draft& draft) {
    draft.block.transactions.push_back(Bytes(11, 7));
    draft.signed_already = true;
    return true;
}

bool Forger::body_certificate(Draft& draft) {
    draft.block.parent_certificate.push_back(7);
    draft.signed_already = true;
    return true;
}

bool Forger::no_block(Draft& draft) {
    draft.message.block = types::encode(draft.block);
    draft.message.block.resize(parts_.rng.below(draft.message.block.size()) + 1);
    parts_.rng.fill(std::span(draft.message.block).first(std::min<std::size_t>(draft.message.block.size(), 4)));
    draft.signed_already = true;
    return true;
}

}  // namespace quern::sim
