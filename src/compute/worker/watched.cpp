#include "compute/worker/watched.h"

#include <algorithm>
#include <utility>

#include "chain/market/work.h"
#include "compute/core/claims.h"
#include "compute/core/history.h"
#include "crypto/content_id.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::Address;
using chain::types::ReportChoice;
using chain::types::TaskClaim;
using chain::types::VerifierReport;

// Places at which an opened report is compared with what was computed here: a liar's may differ in all.
constexpr std::size_t kMostRebuilt = 64;

bool is_alteration(const Watched& watched, std::span<const Hash32> told, std::size_t probe) {
    return watched.tiles.empty() || core::is_alteration(told[watched.probes[probe].place], watched.tiles[probe]);
}

}  // namespace

Hash32 result_root_of(const VerifierReport& report, std::span<const Hash32> probes) {
    return crypto::list_id_of(crypto::MerkleTag::report, core::result_leaves(report.pass, report.rival_root, probes));
}

std::vector<core::Probe> probes_of(const TaskClaim& live, const Address& verifier, const core::TaskPlan& plan) {
    return core::draw_probes(live.claim.verify_beacon, verifier, core::segments_of(live.task, live.claim, verifier),
                             live.task.spec.work.interval, plan, chain::market::stretch_of(live).before);
}

std::vector<NumberedProbe> numbered_probes_of(const TaskClaim& live, const Address& verifier,
                                              const core::TaskPlan& plan) {
    std::vector<NumberedProbe> all;
    for (const auto& probe : probes_of(live, verifier, plan)) all.push_back({all.size(), probe});
    return all;
}

std::vector<NumberedProbe> peer_probes(const TaskClaim& live, const Address& verifier, const Address& peer,
                                       const core::TaskPlan& plan) {
    if (peer == verifier) return {};
    const auto own = core::segments_of(live.task, live.claim, verifier);
    auto shared = numbered_probes_of(live, peer, plan);
    std::erase_if(shared, [&](const NumberedProbe& each) {
        return !std::binary_search(own.begin(), own.end(), each.probe.segment);
    });
    return shared;
}

bool has_passed(const VerifierReport& report) { return report.revealed() && report.pass; }

std::vector<Watched> watched_reports(const TaskClaim& live, const Finding& finding, std::optional<Address> verifier) {
    std::vector<Watched> all;
    if (!finding.pass || finding.programs == nullptr) return all;
    const bool has_tiles = finding.probe_tiles.size() == finding.probe_hashes.size();
    const auto& plan = finding.programs->plan;
    std::size_t end = 0;
    for (const auto& report : live.reports) {
        Watched each{&report, finding.programs, {}, {}, {}, {}};
        each.probes = verifier ? peer_probes(live, *verifier, report.verifier, plan)
                               : numbered_probes_of(live, report.verifier, plan);
        const std::size_t begin = end;
        end += each.probes.size();
        if (end > finding.probe_hashes.size()) break;
        if (!has_passed(report) || each.probes.empty()) continue;
        each.hashes = std::span(finding.probe_hashes).subspan(begin, each.probes.size());
        if (has_tiles) each.tiles = std::span(finding.probe_tiles).subspan(begin, each.probes.size());
        if (!verifier) each.root = result_root_of(report, each.hashes);
        all.push_back(std::move(each));
    }
    return all;
}

std::vector<std::size_t> differences(const Watched& watched, std::span<const Hash32> told) {
    std::vector<std::size_t> wrong;
    for (std::size_t p = 0; p < watched.hashes.size(); ++p)
        if (const std::size_t place = watched.probes[p].place; place < told.size() && told[place] != watched.hashes[p])
            wrong.push_back(p);
    return wrong;
}

bool may_be_forced(const chain::types::Claim& claim, const Watched& watched, std::span<const Hash32> told,
                   std::span<const std::size_t> wrong) {
    return !claim.forced_beacon.is_zero() && watched.report->choice == ReportChoice::sealed && wrong.size() == 1 &&
           is_alteration(watched, told, wrong.front());
}

bool put_right(std::vector<Hash32>& told, const Watched& watched) {
    const std::vector<std::size_t> wrong = differences(watched, told);
    for (std::size_t i = 0; i < std::min(wrong.size(), kMostRebuilt); ++i) {
        Hash32& place = told[watched.probes[wrong[i]].place];
        const Hash32 former = std::exchange(place, watched.hashes[wrong[i]]);
        if (result_root_of(*watched.report, told) == watched.report->true_root) return true;
        place = former;
    }
    return false;
}

Accusation accuse(const Watched& watched, std::span<const Hash32> told, std::span<const std::size_t> wrong) {
    const VerifierReport& report = *watched.report;
    const auto lie = std::find_if(wrong.begin(), wrong.end(), [&](std::size_t each) {
        return !watched.tiles.empty() && !is_alteration(watched, told, each);
    });
    const std::size_t p = lie != wrong.end() ? *lie : wrong.front();
    const auto& [place, probe] = watched.probes[p];
    core::ProbeChallenge challenge;
    challenge.segment = probe.segment;
    challenge.probe = probe.probe;
    challenge.tile_hash = told[place];
    challenge.path = crypto::merkle_path(core::result_leaves(report.pass, report.rival_root, told), 1 + place);
    challenge.node = core::ProgramProver(watched.programs->at(probe.step)).node(probe.node);
    return {1U + report.place, watched.hashes[p], core::encode(challenge), true};
}

}  // namespace quern::compute::worker
