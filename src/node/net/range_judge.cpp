#include "node/net/range_judge.h"

#include "chain/consensus/sdbft/proposal_rules.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
using chain::consensus::Certificate;
using p2p::Offence;

namespace {

RangeVerdict blame(std::size_t index, Offence offence, Error error) {
    RangeVerdict verdict;
    verdict.blame = RangeVerdict::Blame{index, false, offence, std::move(error)};
    return verdict;
}

}  // namespace

RangeVerdict judge_range(const std::vector<const p2p::messages::BlockAnswer*>& blocks, std::uint64_t first,
                         const Hash32& parent, const chain::consensus::Committee& committee, const RangeRules& rules,
                         const RangeReach& reach) {
    const std::uint64_t epoch = rules.heights.epoch_of(first);
    const std::uint64_t last = rules.heights.last(epoch);
    std::vector<sdbft::BlockInfo> infos;
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < blocks.size() && i < reach.blocks && i <= last - first; ++i) {
        bytes += blocks[i]->block.size();
        if (i != 0 && bytes > reach.bytes) break;
        auto info = sdbft::read_block(blocks[i]->block);
        if (!info) return blame(i, Offence::malformed, info.error());
        if (info->number != first + i || info->epoch != epoch)
            return blame(i, Offence::invalid_block, {"range.wrong_block", std::to_string(info->number)});
        infos.push_back(std::move(*info));
        if (!blocks[i]->certificate.empty()) count = i + 1;
    }
    RangeVerdict verdict;
    if (count == 0) return verdict;

    auto certificate = chain::consensus::decode_certificate(blocks[count - 1]->certificate);
    if (!certificate) return blame(count - 1, Offence::malformed, certificate.error());
    if (certificate->type != chain::consensus::VoteType::finalize || certificate->epoch != epoch ||
        certificate->hash != infos[count - 1].hash)
        return blame(count - 1, Offence::invalid_block, {"range.wrong_certificate", {}});
    if (const auto valid = verify_certificate(*certificate, committee, rules.chain); !valid)
        return blame(count - 1, Offence::invalid_consensus, valid.error());

    // From the certified one down: whatever does not have the hash that the block above it names is its sender's lie.
    Hash32 wanted = certificate->hash;
    for (std::size_t i = count; i-- > 0;) {
        if (infos[i].hash != wanted)
            return blame(i, Offence::invalid_block, {"range.wrong_parent", to_hex0x(infos[i].hash)});
        if (!rules.body_matches(blocks[i]->block))
            return blame(i, Offence::invalid_block, {"range.wrong_body", to_hex0x(infos[i].hash)});
        wanted = infos[i].parent;
    }
    verdict.count = count;
    verdict.certificate = std::move(*certificate);
    verdict.hash = infos[count - 1].hash;
    verdict.forks = wanted != parent;
    return verdict;
}

std::optional<std::size_t> outside_history(const std::vector<const p2p::messages::BlockAnswer*>& blocks,
                                           std::uint64_t first, const Checkpoint& checkpoint) {
    if (checkpoint.number < first || checkpoint.number - first >= blocks.size()) return std::nullopt;
    Hash32 wanted = checkpoint.hash;
    for (std::size_t i = checkpoint.number - first + 1; i-- > 0;) {
        const auto info = sdbft::read_block(blocks[i]->block);
        if (!info || info->hash != wanted) return i;
        wanted = info->parent;
    }
    return std::nullopt;
}

}  // namespace quern::node
