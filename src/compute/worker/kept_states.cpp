#include "compute/worker/kept_states.h"

#include <algorithm>

#include "chain/market/delays.h"
#include "compute/core/verification_report.h"

namespace quern::compute::worker {

std::uint64_t kept_spacing(const chain::types::TaskClaim& live, std::uint64_t done, const Keeping& keeping) {
    const auto& spec = live.task.spec;
    const std::uint64_t segments = core::segment_count(chain::market::stretch_of(live).steps, spec.work.interval);
    const std::uint64_t drawn = std::uint64_t{spec.work.verifiers} * spec.work.samples + spec.work.largest;
    // Whether the way to a state, and to all that may be drawn, is short enough where every so many-th is kept.
    const auto in_time = [&](std::uint64_t spacing) {
        const std::uint64_t way = std::min(spacing, segments);
        const Uint256 to_one = Uint256(way) * Uint256(keeping.segment_ms);
        const Uint256 to_all =
            Uint256(std::min(way * std::min(drawn, segments), segments)) * Uint256(keeping.segment_ms);
        return to_one * Uint256(kReplayShare) <= Uint256(chain::market::in_ms(spec.windows.heartbeat_s)) &&
               to_all * Uint256(kReplayShare) <= Uint256(chain::market::in_ms(spec.windows.verify_s));
    };
    std::uint64_t spacing = 1;
    while (spacing < segments && (done - 1) / spacing > keeping.bytes / keeping.state_bytes && in_time(2 * spacing))
        spacing *= 2;
    return spacing;
}

std::vector<KeptState> take_spare(const chain::types::TaskClaim& live, std::uint64_t spacing,
                                  std::vector<KeptState>& kept) {
    const auto stretch = chain::market::stretch_of(live);
    const std::uint64_t before = stretch.before;
    // Once the last state is there, custodians are to have that before it, too.
    const bool ends = live.task.custodians != 0 && !kept.empty() && kept.back().step == stretch.last();
    std::vector<KeptState> spare;
    for (std::size_t i = 0; i + 1 < kept.size();) {
        const std::uint64_t segment = (kept[i].step - before) / live.task.spec.work.interval;
        if (segment % spacing == 0 || (ends && kept[i].step + live.task.spec.work.interval == stretch.last())) {
            ++i;
            continue;
        }
        spare.push_back(std::move(kept[i]));
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return spare;
}

std::set<std::uint64_t> drawn_steps(const chain::types::TaskClaim& live) {
    const auto stretch = chain::market::stretch_of(live);
    const auto& spec = live.task.spec;
    std::set<std::uint64_t> steps;
    for (const auto& report : live.reports)
        for (const std::uint64_t segment : core::segments_of(live.task, live.claim, report.verifier))
            steps.insert(stretch.before + segment * spec.work.interval);
    if (!live.reports.empty()) steps.insert({stretch.before, stretch.last() - spec.work.interval});
    return steps;
}

}  // namespace quern::compute::worker
