// The verifier: when drawn for a task it receipts the data, replays its segments, seals its report, reveals it, and
// after a FAIL plays the dispute as the rival. The sealed report is saved before its commitment is sent. One thread.
#pragma once

#include <map>
#include <set>

#include "compute/worker/replay.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct SavedReport {
    bool pass = false;
    Hash32 rival_root;
    Hash32 randomness;
    Bytes history;     // the roots claimed when !pass
    Bytes probe_dims;  // 16 bytes each, big endian
    std::vector<std::uint64_t> probe_tiles;
    Bytes probe_words;  // 4,096 bytes each
    template <class V>
    void fields(V& v) {
        v("pass", pass), v("rivalRoot", rival_root), v("randomness", randomness), v("history", history);
        v("probeDims", probe_dims), v("probeTiles", probe_tiles), v("probeWords", probe_words);
    }
};

class Verifier {
public:
    explicit Verifier(Context& context) : context_(context) {}

    // Tells the chain what this worker can do, so that it is not drawn for more. Looks now and then.
    void on_block();
    void on_task(const chain::types::Task& task);
    bool work(std::uint64_t milliseconds);
    void forget_all_but(const std::set<std::uint64_t>& live);
    // The history that this verifier's FAIL claims; empty when it made none.
    [[nodiscard]] std::vector<Hash32> claimed_history(const chain::types::Task& task);

private:
    struct Job {
        std::uint64_t round = 0;
        Hash32 verify_beacon;
        Workspace workspace;
        std::unique_ptr<Replay> replay;
        std::optional<SavedReport> saved;
        bool data_missing = false;
    };
    [[nodiscard]] Expected<Job*> job(const chain::types::Task& task);
    [[nodiscard]] Status finish(Job& job);
    [[nodiscard]] Expected<core::SealedReport> seal(const Job& job) const;

    Context& context_;
    std::map<std::uint64_t, Job> jobs_;  // by task
    Turns turns_;
    std::uint64_t declare_at_ = 0;  // height of the next look at the own bond
};

}  // namespace quern::compute::worker
