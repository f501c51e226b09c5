#include "compute/worker/profile_jobs.h"

#include <bit>
#include <utility>

#include "base/log.h"
#include "chain/market/escrow.h"
#include "compute/core/profiling.h"
#include "compute/worker/profile_cover.h"

namespace quern::compute::worker {
namespace {

using log::Category;

constexpr std::uint64_t kAskAgainMs = 5'000;

// A run that ends without a word has stopped this process, as where libtorch fails or the memory is gone.
constexpr std::uint64_t kMostBegun = 3;
struct BegunProfile {
    std::uint64_t times = 0;
    QUERN_FIELDS(v("times", times))
};

// Another draw of a task asks for another profile.
std::string name_of(const char* what, const chain::types::Task& task) {
    return std::string(what).append(to_hex(task.profiling.beacon.view().first(8))).append(".rlp");
}
std::string file_of(const chain::types::Task& task) { return name_of("profile-", task); }
std::string begun_file_of(const chain::types::Task& task) { return name_of("profile-begun-", task); }

// Zero: it has not committed.
Hash32 commitment_of(const chain::types::Task& task, const Address& address) {
    const auto* const own = own_profiler(task, address);
    return own == nullptr ? Hash32() : own->commitment;
}

}  // namespace

ProfileJobs::~ProfileJobs() {
    for (const auto& [id, job] : jobs_)
        if (job.run != nullptr) came_back(job);
}

void ProfileJobs::take_orders() {
    const auto orders = board_.take();
    if (!orders) return;
    std::erase_if(jobs_, [&](const auto& entry) { return !is_wanted(*orders, entry.second.order); });
    for (const auto& [id, order] : *orders) {
        const auto [at, is_new] = jobs_.try_emplace(id);
        Job& job = at->second;
        job.order = order;
        if (job.found != nullptr) tell(job);
        if (!is_new && (!job.failed || context_.clock.monotonic_ms() < job.again_ms)) continue;
        job.failed = false;
        if (job.run != nullptr) continue;
        if (const Status begun = begin(job); !begun) stopped(job, begun.error());
    }
}

Status ProfileJobs::begin(Job& job) {
    const chain::types::Task& task = job.order.live->task;
    QUERN_TRY(job.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(auto saved, job.workspace.load<SealedProfile>(file_of(task)));
    const Hash32 committed = commitment_of(task, address_);
    if (!committed.is_zero() &&
        (!saved || core::profile_commitment(address_, saved->measures, saved->salt) != committed))
        return fail("worker.profile_lost", "what this worker has committed to is not in its data directory");
    if (saved) {
        log::info(Category::verifier, "profile is there task={}", task.id);
        job.found = std::make_shared<const SealedProfile>(std::move(*saved));
        tell(job);
        return {};
    }
    // A task must not stop this process again and again, and with it what others wait for.
    QUERN_TRY(const auto begun, job.workspace.load<BegunProfile>(begun_file_of(task)));
    const std::uint64_t times = begun ? begun->times : 0;
    if (times >= kMostBegun)
        return fail("worker.profile_crashes", "it was begun " + std::to_string(times) + " times and never came back");
    QUERN_CHECK(job.workspace.save(begun_file_of(task), BegunProfile{times + 1}));
    job.begun = times;
    job.unwanted = std::make_unique<Cancellation>([this, order = job.order] {
        return context_.stop || !board_.has(order.id(), [&](const auto& now) { return now.same_job(order); });
    });
    QUERN_TRY(job.run, ProfileRun::begin(context_, task, *job.unwanted));
    log::info(Category::verifier, "profiling begins task={} segments={} until={} fee={}", task.id, job.run->segments(),
              task.deadline, chain::market::profiler_fee(task).to_decimal());
    return {};
}

void ProfileJobs::tell(const Job& job) {
    if (board_.facts(job.order).found == nullptr) board_.publish(job.order, {job.found});
}

// It came back, so that it did not stop this process.
void ProfileJobs::came_back(const Job& job) {
    if (const auto saved = job.workspace.save(begun_file_of(job.order.live->task), BegunProfile{job.begun}); !saved)
        log::warning(Category::verifier, "not written down task={} reason={}", job.order.live->task.id,
                     saved.error().to_string());
}

// Of who has not committed, that it is not paid is all that follows. It keeps nothing in memory while it waits for what
// nobody sends.
void ProfileJobs::stopped(Job& job, const Error& error) {
    if (job.unwanted != nullptr && job.unwanted->requested()) {
        job.run.reset();
        came_back(job);
        job.failed = true;  // it may be wanted again
        return;
    }
    job.failed = is_passing(error) || is_awaited(error);
    job.again_ms = context_.clock.monotonic_ms() + kAskAgainMs;
    if (!job.failed || is_not_found(error)) job.run.reset();
    if (job.unwanted != nullptr && job.run == nullptr) came_back(job);
    const auto& task = job.order.live->task;
    const std::string reason = error.to_string();
    if (std::exchange(job.said, reason) == reason) return;
    const bool is_bound = !commitment_of(task, address_).is_zero();
    const char* const outcome = job.failed ? "tried again"
                                : is_bound ? "given up: it was committed to, and a part of the bond is lost"
                                           : "given up: nothing is committed";
    log::warning(Category::verifier, "profile not made task={} until={} ({}) reason={}", task.id, task.deadline,
                 outcome, reason);
}

bool ProfileJobs::work(std::uint64_t milliseconds) {
    take_orders();
    return run_in_turn(jobs_, turns_, [&](Job& job) {
        if (const Status status = advance(job, Slice(context_, milliseconds)); !status) stopped(job, status.error());
    });
}

Status ProfileJobs::advance(Job& job, const Slice& slice) {
    do {
        QUERN_CHECK(job.run->advance());
        log::info(Category::verifier, "profiles task={} segment={}/{}", job.order.live->task.id,
                  job.run->measured().size(), job.run->segments());
    } while (!job.run->done() && !slice.over());
    return job.run->done() ? finish(job) : Status();
}

Status ProfileJobs::finish(Job& job) {
    SealedProfile sealed{core::encode_profile(job.run->measured()), {}};
    context_.rng->fill(sealed.salt.data);
    QUERN_CHECK(job.workspace.save(file_of(job.order.live->task), sealed));
    const chain::types::ProfiledBounds found = core::bounds_of(job.run->measured());
    job.run.reset();
    log::info(Category::verifier, "profiled task={} noise={:.3g} movement={:.3g}", job.order.live->task.id,
              std::bit_cast<float>(found.noise), std::bit_cast<float>(found.movement));
    job.found = std::make_shared<const SealedProfile>(std::move(sealed));
    tell(job);
    return {};
}

}  // namespace quern::compute::worker
