#include "compute/worker/custody_jobs.h"

#include <utility>

#include "base/log.h"
#include "chain/market/custody.h"
#include "compute/core/task_spec.h"

namespace quern::compute::worker {
namespace {

using log::Category;

constexpr std::uint64_t kAskAgainMs = 1'000;
// Of one claim, while others may be waiting: who names many fragments and sends them slowly holds nobody else's up.
constexpr std::uint64_t kTurnMs = 5'000;
// Fragments are counted as a k-th of states and history; what contents have beside their slots, and what their last
// cells are filled up with, comes on top: a part of what is counted, and a sum for small ones. (What a node keeps is
// bounded in node/serve/content_duties.cpp.)
constexpr std::uint64_t kUncountedShare = 8;
constexpr std::uint64_t kUncountedBytes = std::uint64_t{16} << 20;

}  // namespace

std::uint64_t paid_fragment_bytes(const Task& task) {
    const Uint256 counted =
        chain::market::fragment_bytes(task.custodians, core::task_state_bytes(task), chain::market::work_of(task).plan);
    const Uint256 most = counted + counted / kUncountedShare + Uint256(kUncountedBytes);
    return most.fits_u64() ? most.low_u64() : core::kMaxCustodyContentBytes;
}

Status CustodyJobs::keep(const CustodyOrder& order, std::size_t& done) {
    const TaskClaim& live = *order.live;
    const std::uint64_t paid = paid_fragment_bytes(live.task);
    const CustodyRef custody = custody_of(live);
    QUERN_TRY(const core::CustodyManifest manifest, fetch_custody(*context_.node, custody.manifest, custody.code));
    if (manifest.bytes_of_each() > paid)
        return fail(kWrongCustody, std::to_string(manifest.bytes_of_each()) + " bytes for each custodian, paid are " +
                                       std::to_string(paid));
    CustodyLimits limits;
    const Slice turn(context_, kTurnMs);
    const Cancellation over([&turn] { return turn.over(); });
    limits.cancellation = &over;
    const Status kept = fetch_fragments(*context_.node, manifest, order.place, limits, done);
    if (!kept && kept.error().name == "worker.stopped")
        return busy(chain::api::kContentOnItsWay, "more than are fetched at once");
    return kept;
}

bool CustodyJobs::work() {
    const auto orders = board_.take();
    if (!orders) return false;
    std::erase_if(later_, [&](const auto& entry) { return !orders->contains(entry.first); });
    for (const auto& [id, order] : *orders) {
        if (context_.stop) return false;
        const Kept known = board_.facts(order);
        if (known.data_checked || known.data_missing) continue;
        Later& later = later_[id];
        if (context_.clock.monotonic_ms() < later.at_ms) continue;
        if (!later.order || !later.order->same_job(order)) later = {.order = order};
        const Status kept = keep(order, later.done);
        if (context_.stop) return false;
        if (kept) {
            log::info(Category::custodian, "fragments kept task={} stretch={} place={}", id.task, id.stretch,
                      order.place);
            board_.publish(order, {.data_checked = true});
            continue;
        }
        const Error& error = kept.error();
        // Whatever keeps it from them, a broken disk as well, may pass, or not: who is silent in the end pays for it.
        const bool awaited = is_not_found(error) || is_passing(error);
        const bool missing = !awaited;
        if (std::string reason = error.to_string(); std::exchange(later.said, reason) != reason)
            log::warning(Category::custodian, "fragments not kept task={} stretch={} data={} reason={}", id.task,
                         id.stretch, missing ? "missing" : "awaited", later.said);
        later.at_ms = context_.clock.monotonic_ms() + kAskAgainMs;
        if (known.data_awaited != awaited || missing)
            board_.publish(order, {.data_missing = missing, .data_awaited = awaited});
    }
    return true;
}

}  // namespace quern::compute::worker
