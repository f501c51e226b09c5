// The whistleblower: replays every proven training on its own account. It challenges a history that is wrong, and
// reports that passed what is wrong in it or whose probe tiles are wrong, by commit and reveal, then plays the
// disputes. What it found is saved before the first commitment is sent. One thread.
#pragma once

#include <map>
#include <set>

#include "compute/worker/replay.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

// What a watch of one (history, draw) found.
struct SavedWatch {
    std::uint64_t wrong_step = 0;  // first step whose result differs; 0: the history is right
    Bytes history;                 // this worker's own roots, when it is wrong
    Bytes probes;                  // hashes of all reports' probe tiles, in the order of the reports
    Hash32 secret;                 // the challenges' salts follow from it
    template <class V>
    void fields(V& v) {
        v("wrongStep", wrong_step), v("history", history), v("probes", probes), v("secret", secret);
    }
};

class Whistleblower {
public:
    explicit Whistleblower(Context& context) : context_(context) {}

    void on_task(const chain::types::Task& task);
    bool work(std::uint64_t milliseconds);
    void forget_all_but(const std::set<std::uint64_t>& live);
    // The history that this worker claims against the solver's; empty when it agrees.
    [[nodiscard]] std::vector<Hash32> claimed_history(const chain::types::Task& task);

private:
    struct Watch {
        std::uint64_t round = 0;
        Hash32 verify_beacon;
        Workspace workspace;
        std::unique_ptr<Replay> replay;
        std::optional<SavedWatch> saved;
        bool given_up = false;  // a checkpoint that it needs cannot be had
    };
    struct Accusation {
        std::uint32_t target = 0;
        Hash32 claim;
        Bytes opening;
    };
    [[nodiscard]] Expected<Watch*> watch(const chain::types::Task& task);
    [[nodiscard]] Status save(Watch& watch);
    [[nodiscard]] Expected<std::vector<Accusation>> accusations(const chain::types::Task& task,
                                                                const SavedWatch& saved);
    void challenge(const chain::types::Task& task, const SavedWatch& saved, const Accusation& accusation);

    Context& context_;
    std::map<std::uint64_t, Watch> watches_;  // by task
    Turns turns_;
};

}  // namespace quern::compute::worker
