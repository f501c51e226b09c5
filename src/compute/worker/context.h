// What a thread that works for a worker has: a connection of its own, the inputs that all share, threads for its
// arithmetic, options, and the wish to stop. One for each thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/worker/options.h"
#include "compute/worker/task_inputs.h"
#include "compute/worker/turns.h"

namespace quern::compute::worker {

struct Context {
    const WorkerOptions& options;
    const Clock& clock;
    InputStore& inputs;
    const std::atomic<bool>& stop;
    std::unique_ptr<NodeView> node;
    std::shared_ptr<ThreadPool> pool;  // of this kind of work alone: loops of others do not make it wait
    std::unique_ptr<Rng> rng;
    const Cancellation stopping{[&wish = stop] { return wish.load(); }};  // the same wish, for what runs long
};

// A job that one task asks for in one round, about one claim once there is one, and one draw of verifiers where it
// replays.
struct TaskOrder {
    std::shared_ptr<const chain::types::TaskClaim> live;
    [[nodiscard]] std::uint64_t id() const { return live->task.id; }
    [[nodiscard]] bool same_job(const TaskOrder& other) const {
        return id() == other.id() && live->task.round == other.live->task.round &&
               live->claim.id == other.live->claim.id && live->claim.verify_beacon == other.live->claim.verify_beacon;
    }
};

// A slice of time, of which a job may use its share. Read from a clock that a test may hold still.
class Slice {
public:
    Slice(const Context& context, std::uint64_t milliseconds)
        : context_(context), until_(context.clock.monotonic_ms() + milliseconds) {}
    [[nodiscard]] bool over() const { return context_.stop || context_.clock.monotonic_ms() >= until_; }
    // For the next of `waiting` jobs: equal shares of what is left.
    [[nodiscard]] Slice share(std::size_t waiting) const {
        const std::uint64_t now = context_.clock.monotonic_ms();
        return {context_, (until_ - std::min(now, until_)) / std::max<std::uint64_t>(waiting, 1)};
    }

private:
    const Context& context_;
    std::uint64_t until_;
};

// Runs the jobs (by task) that `runs` holds for, in the order of their turns, each for its share of the slice; those
// that come too late are first the next time. `run` gets (job, share). False when there was none.
template <class Job, class Runs, class Run>
bool run_in_turn(std::map<std::uint64_t, Job>& jobs, Turns& turns, const Slice& slice, Runs&& runs, Run&& run) {
    std::vector<std::uint64_t> ids;
    for (const auto& [task, job] : jobs)
        if (runs(job)) ids.push_back(task);
    std::size_t waiting = ids.size();
    for (const std::uint64_t task : turns.order(ids)) {
        if (waiting < ids.size() && slice.over()) break;
        turns.ran(task);
        run(jobs.at(task), slice.share(waiting--));
    }
    return !ids.empty();
}

}  // namespace quern::compute::worker
