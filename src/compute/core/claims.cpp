#include "compute/core/claims.h"

#include <algorithm>

#include "compute/core/history.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::compute::core {

using crypto::MerkleTag;

namespace {

template <class T>
Expected<T> decode_challenge(BytesView bytes) {
    if (bytes.size() > kMaxChallengeBytes) return fail("challenge.too_large", std::to_string(bytes.size()) + " bytes");
    return chain::types::decode_record<T>(bytes);
}

}  // namespace

Hash32 challenge_commitment(const Address& challenger, const Hash32& claim, const Hash32& salt) {
    return crypto::sha256({challenger.view(), claim.view(), salt.view()});
}

Expected<HistoryChallenge> decode_history_challenge(BytesView bytes) {
    return decode_challenge<HistoryChallenge>(bytes);
}
Expected<ProbeChallenge> decode_probe_challenge(BytesView bytes) { return decode_challenge<ProbeChallenge>(bytes); }
Bytes encode(const HistoryChallenge& challenge) { return chain::types::encode_record(challenge); }
Bytes encode(const ProbeChallenge& challenge) { return chain::types::encode_record(challenge); }

Status check_history_challenge(const HistoryChallenge& challenge, const Hash32& claim, const Hash32& defender_root,
                               const Hash32& start_root, std::uint64_t strides) {
    if (claim == defender_root) return fail("challenge.equal_claim");
    if (const Status status = check_history_leaf(claim, start_root, 0, strides, challenge.initial_path); !status)
        return fail("challenge.bad_initial_path", status.error().to_string());
    return {};
}

Expected<ProbeTarget> check_probe_challenge(const ProbeChallenge& challenge, const Hash32& claim,
                                            const ReportContext& report) {
    if (claim == challenge.tile_hash) return fail("challenge.equal_claim");
    const std::vector<std::uint64_t>& segments = report.segments;
    const auto place = std::lower_bound(segments.begin(), segments.end(), challenge.segment);
    if (place == segments.end() || *place != challenge.segment || challenge.probe >= kProbesPerSegment)
        return fail("challenge.not_sampled");
    const std::uint64_t leaf =
        1 + static_cast<std::uint64_t>(place - segments.begin()) * kProbesPerSegment + challenge.probe;
    if (const Status status = crypto::check_list_path(MerkleTag::report, report.result_root, challenge.tile_hash, leaf,
                                                      1 + segments.size() * kProbesPerSegment, challenge.path);
        !status)
        return fail("challenge.bad_probe_path", status.error().to_string());
    const Probe probe = draw_probe(report.verify_beacon, report.verifier, challenge.segment, challenge.probe,
                                   report.interval, *report.plan, report.stretch.before);
    const PlanProgram& program = report.plan->at(probe.step);
    if (challenge.node.index != probe.node) return fail("dispute.bad_opening", "another node was probed");
    QUERN_TRY(const vm::tensor::Node node, open_node(program.root, program.header, challenge.node));
    return ProbeTarget{probe.step, probe.node, probe_tile(probe, node.shape), challenge.tile_hash};
}

}  // namespace quern::compute::core
