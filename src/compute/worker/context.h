// What a thread that works for a worker has: a connection of its own, the inputs that all share, threads for its
// arithmetic, options, and the wish to stop. One for each thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/cost/profile.h"
#include "compute/worker/options.h"
#include "compute/worker/task_inputs.h"
#include "compute/worker/turns.h"

namespace quern::compute::worker {

struct Context {
    const WorkerOptions& options;
    const Clock& clock;
    InputStore& inputs;
    const std::atomic<bool>& stop;
    NodeFactory connect;  // for threads that work for this one
    std::unique_ptr<NodeView> node;
    std::shared_ptr<ThreadPool> pool;  // of this kind of work alone: loops of others do not make it wait
    std::unique_ptr<Rng> rng;
    const cost::Profile* profile = nullptr;  // of this machine with these threads; null: it was not measured
    const Cancellation stopping{[&wish = stop] { return wish.load(); }};  // the same wish, for what runs long
};

// A job that one task asks for in one round, about one claim once there is one, and one draw of verifiers where it
// replays.
struct TaskOrder {
    std::shared_ptr<const chain::types::TaskClaim> live;
    [[nodiscard]] JobId id() const { return {live->task.id, live->claim.id.stretch}; }
    [[nodiscard]] std::uint64_t task() const { return live->task.id; }
    [[nodiscard]] bool same_job(const TaskOrder& other) const {
        return id() == other.id() && live->task.round == other.live->task.round &&
               live->claim.id == other.live->claim.id && live->claim.verify_beacon == other.live->claim.verify_beacon;
    }
};

// A slice of time. Read from a clock that a test may hold still.
class Slice {
public:
    Slice(const Context& context, std::uint64_t milliseconds)
        : context_(context), until_(context.clock.monotonic_ms() + milliseconds) {}
    [[nodiscard]] bool over() const { return context_.stop || context_.clock.monotonic_ms() >= until_; }

private:
    const Context& context_;
    std::uint64_t until_;
};

// Runs that one of the jobs with something to do, job.runs(), which is due first, job.due(). False when there
// is none.
template <class Job, class Run>
bool run_in_turn(std::map<JobId, Job>& jobs, Turns& turns, Run&& run) {
    std::vector<Turn> waiting;
    for (const auto& [id, job] : jobs)
        if (job.runs()) waiting.push_back({id, job.due()});
    const auto next = turns.next(std::move(waiting));
    if (next) run(jobs.at(*next));
    return next.has_value();
}

}  // namespace quern::compute::worker
