// Replays for whoever replays: verifiers their drawn segments, whistleblowers the whole training. One class for both;
// what they differ in is a ReplayDuty. What was found is saved before it is told. One thread each.
#pragma once

#include "base/log.h"
#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/custody_run.h"
#include "compute/worker/decide.h"
#include "compute/worker/replay.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct ReplayPlan {
    std::vector<std::uint64_t> segments;
    std::vector<core::Probe> probes;
    std::size_t own = 0;  // the first of them are those of the own report
};

class ReplayDuty {
public:
    virtual ~ReplayDuty() = default;
    [[nodiscard]] virtual log::Category category() const = 0;
    [[nodiscard]] virtual Duty duty() const = 0;
    // Whether every checkpoint is fetched before the first step is replayed.
    [[nodiscard]] virtual bool checks_data_first() const = 0;
    // Whether the first wrong segment is enough.
    [[nodiscard]] virtual bool stops_when_wrong() const = 0;
    [[nodiscard]] virtual ReplayPlan plan(const TaskClaim& live, const core::TaskPlan& steps) const = 0;
    // nullptr when nothing was saved. Errors: fs.*, rlp.*, worker.bad_saved_report.
    [[nodiscard]] virtual Expected<std::shared_ptr<Finding>> load(const Workspace& workspace,
                                                                  const Claim& claim) const = 0;
    [[nodiscard]] virtual Status save(const Workspace& workspace, const Claim& claim, const Finding& finding) const = 0;
    // Market time by which what comes next must be found.
    [[nodiscard]] virtual std::uint64_t due(const TaskClaim& live, const Replayed& told) const = 0;
    // What a dishonest one says without replaying; nullopt of all others.
    [[nodiscard]] virtual std::optional<Finding> invent(const Claim&, const ReplayPlan&) const { return std::nullopt; }
};

// `fault` and `address` as the worker's.
[[nodiscard]] std::unique_ptr<ReplayDuty> verifier_duty(const Address& address, const FaultPlan& fault);
[[nodiscard]] std::unique_ptr<ReplayDuty> whistleblower_duty();

class ReplayJobs {
public:
    using Orders = Board<TaskOrder, Replayed>;
    ReplayJobs(Context& context, Orders& board, std::unique_ptr<ReplayDuty> duty)
        : context_(context), board_(board), duty_(std::move(duty)) {}
    // Replays for about `milliseconds`; false when there is nothing to do until new orders come.
    bool work(std::uint64_t milliseconds);

private:
    struct Job {
        TaskOrder order;
        bool failed = false;         // tried again with later orders
        std::uint64_t again_ms = 0;  // not before then, while others have something to run
        std::string said;            // why it stopped, in the log
        Workspace workspace;
        std::unique_ptr<Replay> replay;       // null: nothing (more) to run
        std::unique_ptr<CustodyRun> custody;  // looks at what is beside the checkpoints; null: not begun, or over
        Replayed told;
        std::size_t own_probes = 0;
        const ReplayDuty* duty = nullptr;
        [[nodiscard]] bool runs() const {
            return replay != nullptr && !failed && (custody == nullptr || custody->is_done());
        }
        [[nodiscard]] std::uint64_t due() const { return duty->due(*order.live, told); }
    };
    void take_orders();
    [[nodiscard]] Status begin(Job& job);
    [[nodiscard]] Status advance(Job& job, const Slice& slice);
    [[nodiscard]] Status finish(Job& job);
    // Whether the claim's custody manifest is right, where it has custodians, and the segments that it says move most,
    // where it has to name some; false while that is looked at.
    [[nodiscard]] Expected<bool> custody_checked(Job& job);
    // Blames the data, when that is what is wrong; else the job is tried again, and goes on where it waits for data
    // that is on its way.
    void stopped(Job& job, const Error& error);
    // What challenges are made of besides.
    [[nodiscard]] Status complete(Job& job, Finding& finding);

    Context& context_;
    Orders& board_;
    std::unique_ptr<ReplayDuty> duty_;
    std::map<JobId, Job> jobs_;
    Turns turns_;
};

}  // namespace quern::compute::worker
