// The whistleblower: replays every proven training on its own account and challenges what is wrong, by commit and
// reveal, then plays the dispute. The challenge is saved before its commitment is sent. One thread.
#pragma once

#include <map>
#include <set>

#include "compute/worker/replay.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct SavedChallenge {
    bool accuse = false;
    Hash32 rival_root;
    Hash32 salt;
    Bytes history;
    template <class V>
    void fields(V& v) {
        v("accuse", accuse), v("rivalRoot", rival_root), v("salt", salt), v("history", history);
    }
};

class Whistleblower {
public:
    explicit Whistleblower(Context& context) : context_(context) {}

    void on_task(const chain::types::Task& task);
    bool work(std::uint64_t milliseconds);
    void forget_all_but(const std::set<std::uint64_t>& live);
    [[nodiscard]] std::vector<Hash32> claimed_history(const chain::types::Task& task);

private:
    struct Watch {
        std::uint64_t round = 0;
        Hash32 history_root;
        Workspace workspace;
        std::unique_ptr<Replay> replay;
        std::optional<SavedChallenge> saved;
    };
    [[nodiscard]] Expected<Watch*> watch(const chain::types::Task& task);
    void challenge(const chain::types::Task& task, Watch& watch);

    Context& context_;
    std::map<std::uint64_t, Watch> watches_;  // by task
};

}  // namespace quern::compute::worker
