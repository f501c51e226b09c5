// The live tasks with their claims as a worker's node last told them. They are read once; with each new block only what
// changed is asked for, and all anew when the node cannot tell: after it knew another chain, after more blocks than it
// keeps changes of, or when what it tells does not fit what is known. Belongs to one thread.
#pragma once

#include <map>
#include <set>

#include "compute/worker/node_view.h"

namespace quern::compute::worker {

// Of all news since the tasks were read: then they are read anew. What a node that invents tasks can fill memory with.
inline constexpr std::size_t kMaxNewsBytes = std::size_t{256} << 20;

// The reports of the claim, as a node tells them. Errors: node.bad_answer, json.*, hex.*, bytes.*, uint256.*.
[[nodiscard]] Status read_reports(const json::Value& list, chain::types::TaskClaim& live);
// The same of its custodians' record; null: it has none.
[[nodiscard]] Status read_custody(const json::Value& record, chain::types::TaskClaim& live);
// Whether the claim is the present one that the task says it has: decide() counts on it. Error node.bad_answer.
[[nodiscard]] Status check_claim(const chain::types::TaskClaim& live);
// Whether it is the one after that. Error node.bad_answer.
[[nodiscard]] Status check_next(const chain::types::TaskClaim& live);

// A task after its news; null: it was not known. Errors: node.bad_answer, json.*, hex.*, bytes.*, uint256.*.
[[nodiscard]] Expected<chain::types::TaskClaim> with_news(const chain::types::TaskClaim* known, const TaskNews& news);
// The claim after the present one of that task, after the news; null: none was known. nullopt: it has none.
[[nodiscard]] Expected<std::optional<chain::types::TaskClaim>> next_with_news(const chain::types::TaskClaim* known,
                                                                              const chain::types::Task& task,
                                                                              const TaskNews& news);

class LiveTasks {
public:
    using Tasks = std::map<std::uint64_t, std::shared_ptr<const chain::types::TaskClaim>>;
    struct Update {
        bool new_block = false;
        bool all_anew = false;                // any dispute may have changed
        std::vector<std::uint64_t> disputes;  // that changed
    };
    // Goes on to the node's newest block. Errors: the node's; what it had told before then stays what is known, or some
    // of it is newer.
    [[nodiscard]] Expected<Update> update(NodeView& node);

    [[nodiscard]] const Head& head() const { return head_; }
    [[nodiscard]] const Tasks& tasks() const { return tasks_; }
    // Those that have two unsettled claims with the second one.
    [[nodiscard]] const Tasks& next() const { return next_; }

private:
    [[nodiscard]] Status read_all(NodeView& node);
    // The tasks whose news do not fit.
    [[nodiscard]] std::vector<std::uint64_t> take(const MarketNews& news);

    Head head_;
    bool known_ = false;  // head_ is a block since which the node can be asked
    Tasks tasks_;
    Tasks next_;
    std::set<std::uint64_t> left_out_;  // not readable when all were read: their news are no reason to do so again
    std::size_t news_bytes_ = 0;
};

}  // namespace quern::compute::worker
