// Profiling for verifiers that were drawn for it (doc/tolerance.md, "Profilers"): measures of the first segments of a
// judged task's training, and the salt that they are sealed with, written down before they are told, so that a restart
// commits to nothing else. A job that cannot be done says why, and commits to nothing; nor is one begun again that has
// stopped the process some times. One thread each.
#pragma once

#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/decide.h"
#include "compute/worker/profile_run.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

// A draw of a task's profilers, this worker among them.
struct ProfileOrder {
    std::shared_ptr<const chain::types::TaskClaim> live;
    [[nodiscard]] JobId id() const { return {live->task.id, 0}; }
    [[nodiscard]] bool same_job(const ProfileOrder& other) const {
        return id() == other.id() && live->task.profiling.beacon == other.live->task.profiling.beacon;
    }
};

class ProfileJobs {
public:
    using Orders = Board<ProfileOrder, Profiled>;
    ProfileJobs(Context& context, Orders& board, const Address& address)
        : context_(context), board_(board), address_(address) {}
    // What is begun is begun again by the next process, and was not what ended this one.
    ~ProfileJobs();
    ProfileJobs(ProfileJobs&&) = default;
    ProfileJobs& operator=(ProfileJobs&&) = delete;
    // Works for about `milliseconds`, a segment at least; false when there is nothing to do until new orders come.
    bool work(std::uint64_t milliseconds);

private:
    struct Job {
        ProfileOrder order;
        Workspace workspace;
        std::unique_ptr<Cancellation> unwanted;  // by those who gave the order, or by all; outlives the run
        std::unique_ptr<ProfileRun> run;         // null: nothing (more) to run
        std::shared_ptr<const SealedProfile> found;
        bool failed = false;         // tried again with later orders
        std::uint64_t again_ms = 0;  // from then on
        std::uint64_t begun = 0;     // times before, that never came back
        std::string said;            // why it stopped, in the log
        [[nodiscard]] bool runs() const { return run != nullptr && !failed; }
        [[nodiscard]] std::uint64_t due() const { return order.live->task.deadline; }
    };
    void take_orders();
    [[nodiscard]] Status begin(Job& job);
    // Tells what was found, again where the board has dropped it: it forgets what was not wanted for a moment.
    void tell(const Job& job);
    [[nodiscard]] Status advance(Job& job, const Slice& slice);
    [[nodiscard]] Status finish(Job& job);
    void stopped(Job& job, const Error& error);
    static void came_back(const Job& job);

    Context& context_;
    Orders& board_;
    const Address address_;
    std::map<JobId, Job> jobs_;
    Turns turns_;
};

}  // namespace quern::compute::worker
