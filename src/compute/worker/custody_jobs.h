// A custodian's work: having its node fetch the fragments that it was drawn to keep. The node keeps them from then on
// for as long as it serves the history (node/serve/content_duties.h). One thread.
#pragma once

#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/custody.h"
#include "compute/worker/decide.h"

namespace quern::compute::worker {

// The place that a claim's present custodians have for this worker.
struct CustodyOrder {
    std::shared_ptr<const TaskClaim> live;  // with its custodians
    std::size_t place = 0;
    [[nodiscard]] JobId id() const { return TaskOrder{live}.id(); }
    [[nodiscard]] bool same_job(const CustodyOrder& other) const {
        return live->claim.id == other.live->claim.id && place == other.place &&
               live->custody->draws == other.live->custody->draws &&
               live->claim.custody_content == other.live->claim.custody_content;
    }
};

// What one custodian of a claim of the task is paid to keep, with room for what fragments are larger by than their
// share.
[[nodiscard]] std::uint64_t paid_fragment_bytes(const Task& task);

class CustodyJobs {
public:
    using Orders = Board<CustodyOrder, Kept>;
    CustodyJobs(Context& context, Orders& board) : context_(context), board_(board) {}
    // False when there is nothing to do until new orders come.
    bool work();

private:
    [[nodiscard]] Status keep(const CustodyOrder& order, std::size_t& done);

    Context& context_;
    Orders& board_;
    struct Later {
        std::optional<CustodyOrder> order{};  // the job that this is about
        std::uint64_t at_ms = 0;              // when what could not be had is asked for again
        std::string said{};                   // why, in the log
        std::size_t done = 0;                 // contents whose fragments are here
    };
    std::map<JobId, Later> later_;
};

}  // namespace quern::compute::worker
