#include "node/agree/fork_audit.h"

#include <algorithm>

#include "base/log.h"
#include "chain/consensus/sdbft/messages.h"
#include "chain/consensus/sdbft/proposal_rules.h"
#include "node/chain/certificate_lookup.h"

namespace quern::node {

namespace messages = p2p::messages;
namespace sdbft = chain::consensus::sdbft;
using chain::consensus::Certificate;
using chain::consensus::VoteType;

namespace {

// Notes the time; false when the last one is not `pause` ago.
bool is_due(std::map<Bytes20, std::uint64_t>& times, const Bytes20& peer, std::uint64_t now, std::uint64_t pause) {
    const auto known = times.find(peer);
    if (known != times.end() && now < known->second + pause) return false;
    times[peer] = now;
    if (times.size() <= kMaxAuditsRemembered) return true;
    times.erase(
        std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; }));
    return true;
}

}  // namespace

std::optional<Hash32> ForkAudit::own_hash(std::uint64_t number) const {
    const auto at = parts_.board.latest();
    const auto hash = chain::store::BlockStore(*at->reader).canonical_hash(number);
    return hash ? *hash : std::nullopt;
}

void ForkAudit::said(const Bytes20& peer, const messages::Status& status) {
    if (status.finalized_number == 0 || status.finalized_number > parts_.board.latest()->number()) return;
    {
        const MutexLock lock(mutex_);
        if (!is_due(compared_ms_, peer, parts_.clock.monotonic_ms(), kCompareMs)) return;
    }
    parts_.duties.post_for(peer, [this, peer, status](bool in_time) {
        if (!in_time) return;
        const auto ours = own_hash(status.finalized_number);
        if (ours && *ours != status.finalized_hash) suspect(peer, status.finalized_number);
    });
}

void ForkAudit::suspect(const Bytes20& peer, std::uint64_t number) {
    if (number == 0) return;
    {
        const MutexLock lock(mutex_);
        if (running_ >= kMaxAudits || !is_due(audited_ms_, peer, parts_.clock.monotonic_ms(), kAuditAgainMs)) return;
        ++running_;
    }
    log::warning(log::Category::consensus, "a peer has another final block number={} peer={}", number, to_hex0x(peer));
    ask(peer, number, messages::kMaxRangeBlocks,
        [this, peer, number](const messages::Range& range) { audit(peer, number, range, true); });
}

void ForkAudit::ask(const Bytes20& peer, std::uint64_t number, std::uint64_t blocks,
                    std::function<void(const messages::Range& range)> then) {
    const auto& heights = parts_.rules.heights;
    const std::uint64_t left = heights.last(heights.epoch_of(number)) - number + 1;
    const messages::GetRange asked{number, std::min(left, blocks), 1U << 20};
    parts_.request_range(peer, asked, kAuditRequestMs,
                         [this, peer, then = std::move(then)](Expected<messages::Range> range) {
                             over();
                             if (!range || range->blocks.empty()) return;
                             parts_.duties.post_for(peer, [then, range = std::move(*range)](bool in_time) {
                                 if (in_time) then(range);
                             });
                         });
}

void ForkAudit::find_parting(const Bytes20& peer, const Parted& parted) {
    const auto& heights = parts_.rules.heights;
    // Under a committee that is ours as well what it has shown does not hold.
    if (parted.first == parted.last && parted.number == parted.shown) return parts_.report(peer, parted.offence);
    {
        const MutexLock lock(mutex_);
        ++running_;  // it has begun
    }
    if (parted.first == parted.last) {
        ask(peer, parted.number, messages::kMaxRangeBlocks,
            [this, peer, parted](const messages::Range& range) { audit(peer, parted.number, range, false); });
        return;
    }
    const std::uint64_t middle = parted.first + (parted.last - parted.first) / 2;
    const std::uint64_t number = heights.last(middle);
    ask(peer, number, 1, [this, peer, parted, middle, number](const messages::Range& range) {
        const auto theirs = sdbft::read_block(range.blocks[0].block);
        const auto ours = own_hash(number);
        if (!theirs || theirs->number != number) return parts_.report(peer, p2p::Offence::invalid_block);
        if (!ours) return;
        Parted closer = parted;
        if (theirs->hash == *ours) {
            closer.first = middle + 1;
        } else {
            closer.last = middle;
            closer.number = number;
        }
        find_parting(peer, closer);
    });
}

void ForkAudit::over() {
    const MutexLock lock(mutex_);
    --running_;
}

void ForkAudit::audit(const Bytes20& peer, std::uint64_t number, const messages::Range& range, bool first) {
    const std::uint64_t epoch = parts_.rules.heights.epoch_of(number);
    const auto committee = parts_.committee(epoch);
    if (!committee) return;
    std::vector<const messages::BlockAnswer*> blocks;
    for (const auto& block : range.blocks) blocks.push_back(&block);
    const auto verdict = judge_range(blocks, number, {}, *committee, parts_.rules);
    // Signed by others than ours: where histories parted in an earlier epoch, rightly so.
    if (verdict.blame && verdict.blame->offence == p2p::Offence::invalid_consensus && first && epoch != 0)
        return find_parting(peer, {0, epoch, number, number, verdict.blame->offence});
    if (verdict.blame) return parts_.report(peer, verdict.blame->offence);
    const auto theirs = sdbft::read_block(range.blocks[0].block);
    const auto ours = own_hash(number);
    // It has what we have, or shows nothing: what it said was a lie.
    if (verdict.count == 0 || !theirs || !ours || theirs->hash == *ours)
        return parts_.report(peer, p2p::Offence::invalid_consensus);
    log::error(log::Category::consensus,
               "THE CHAIN HAS FORKED: TWO BLOCKS ARE FINAL number={} ours={} theirs={} peer={}", number,
               to_hex0x(*ours), to_hex0x(theirs->hash), to_hex0x(peer));
    convict(peer, number, verdict.certificate);
}

void ForkAudit::convict(const Bytes20& peer, std::uint64_t number, const Certificate& theirs) {
    const auto at = parts_.board.latest();
    const auto ours = CertificateLookup(*at->reader, parts_.rules.heights).covering(number);
    if (!ours) {
        log::warning(log::Category::consensus, "no finalization of ours to compare number={} reason={}", number,
                     ours.error().to_string());
        return;
    }
    parts_.certificates.keep(*ours);
    parts_.certificates.keep(theirs);
    if (ours->view >= theirs.view) return;  // what contradicts theirs is here
    // Their chain passed our view: they notarized another block in it, or gave it up.
    for (const VoteType kind : {VoteType::nullify, VoteType::notarize, VoteType::finalize})
        parts_.request_certificate(
            peer, {static_cast<std::uint8_t>(kind), ours->epoch, ours->view}, kAuditRequestMs,
            [this, peer, epoch = ours->epoch, view = ours->view](Expected<messages::CertificateAnswer> answer) {
                if (!answer) return;
                parts_.duties.post_for(peer, [this, peer, epoch, view, answer = std::move(*answer)](bool in_time) {
                    if (in_time) take(peer, epoch, view, answer);
                });
            });
}

void ForkAudit::take(const Bytes20& peer, std::uint64_t epoch, std::uint64_t view,
                     const messages::CertificateAnswer& answer) {
    const auto committee = parts_.committee(epoch);
    if (!committee) return;
    for (const auto& encoded : answer.certificates) {
        auto certificate = chain::consensus::decode_certificate(encoded);
        if (!certificate) return parts_.report(peer, p2p::Offence::malformed);
        if (certificate->epoch != epoch || certificate->view != view ||
            !verify_certificate(*certificate, *committee, parts_.rules.chain))
            return parts_.report(peer, p2p::Offence::invalid_consensus);
        parts_.certificates.keep(std::move(*certificate));
    }
}

}  // namespace quern::node
