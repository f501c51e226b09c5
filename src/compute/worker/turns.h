// Whose turn it is: jobs share a thread in slices of time, the one that is due first before all others. Among those
// that are due at the same time the next is another each time, so that one whose single step takes longer than a slice
// does not keep the others from theirs. Pure; used by one thread.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace quern::compute::worker {

// What somebody works at: one stretch of a task.
struct JobId {
    std::uint64_t task = 0;
    std::uint32_t stretch = 0;
    auto operator<=>(const JobId&) const = default;
};

struct Turn {
    JobId id;
    std::uint64_t due = 0;  // market time
};

class Turns {
public:
    // Whom of `waiting` (by ascending id) the next slice belongs to; nullopt when nobody waits.
    [[nodiscard]] std::optional<JobId> next(std::vector<Turn> waiting) {
        const auto behind =
            std::find_if(waiting.begin(), waiting.end(), [&](const Turn& each) { return each.id > last_; });
        std::rotate(waiting.begin(), behind, waiting.end());
        const auto first = std::min_element(waiting.begin(), waiting.end(),
                                            [](const Turn& a, const Turn& b) { return a.due < b.due; });
        if (first == waiting.end()) return std::nullopt;
        last_ = first->id;
        return last_;
    }

private:
    JobId last_;
};

}  // namespace quern::compute::worker
