// The held shares of a solver's rewards that nobody else need collect (doc/market.md, "The held share"): the end of a
// retention pays one with the first tick, and a task that has settled is no live one any more. So the tasks that a
// solver was given are noted while they are live, in a file, and each of them is asked for once it is live no more.
// Belongs to one thread.
//
//   owed.rlp = [[[task, height], ...]]
#pragma once

#include <map>
#include <string>

#include "compute/worker/decide.h"
#include "compute/worker/live_tasks.h"

namespace quern::compute::worker {

inline constexpr std::size_t kMaxOwed = 1U << 14;      // tasks that are noted: others anybody may tick
inline constexpr std::size_t kMaxOwedAsked = 16;       // of which a node is asked with a block
inline constexpr std::uint64_t kOwedAgainBlocks = 16;  // from one question about a task to the next

class OwedShares {
public:
    // The file need not exist yet; one that cannot be read is as if it did not, and logged.
    OwedShares(std::string file, const Address& solver);

    // With each block, whose tasks these are: the ticks that are due. One is asked for again until the share is paid;
    // none that would cost more than it pays.
    [[nodiscard]] std::vector<Attempt> look(NodeView& node, const LiveTasks& live, std::uint64_t retention_ms);

    [[nodiscard]] std::size_t size() const { return tasks_.size(); }

private:
    struct Saved {
        struct Entry {
            std::uint64_t task = 0;
            std::uint64_t height = 0;  // at which it was live: a node that is behind that cannot tell of its end
            QUERN_FIELDS(v("task", task), v("height", height))
        };
        std::vector<Entry> tasks;
        QUERN_FIELDS(v("tasks", tasks))
    };
    struct Known {
        std::uint64_t height = 0;
        std::uint64_t ask_at = 0;  // height
        std::uint64_t due_ms = 0;  // market time at which its retention ends; 0: not known
    };
    void save() const;

    std::string file_;
    Address solver_;
    std::map<std::uint64_t, Known> tasks_;
};

}  // namespace quern::compute::worker
