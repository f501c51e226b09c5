// How a task's training stands, for people and scripts: its state, its steps, what was paid. Used by quern-train. Plain
// values; numbers here are shown and decide nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chain/types/native_objects.h"
#include "compute/client/job_file.h"
#include "compute/client/options.h"
#include "compute/program/progress.h"

namespace quern::compute::client {

using program::Progress;

// A task as task_get answers it. `claim.state` none: it has none.
struct Look {
    chain::types::Task task;
    chain::types::Claim claim;  // the first that is not settled, after the end the last one
    std::optional<chain::types::Claim> next;
    std::optional<std::uint64_t> market_ms;  // of the newest block, where somebody asked
};
// Errors: train.bad_answer (busy: the node's fault).
[[nodiscard]] Expected<Look> read_look(const json::Value& task);

[[nodiscard]] std::string state_of(const Look& look);   // of its claim while it runs, else its own
[[nodiscard]] std::string reason_of(const Look& look);  // why it is there
// Steps whose checkpoints are on the chain, in whatever stretch.
[[nodiscard]] std::uint64_t step_of(const Look& look);
[[nodiscard]] std::optional<std::uint32_t> loss_of(const Look& look);
// Paid back to the submitter from the escrow.
[[nodiscard]] Uint256 refunded(const Look& look);
// Paid to others: what left the escrow and was not refunded.
[[nodiscard]] Uint256 paid(const Look& look, const Uint256& escrow_at_first);

// A checkpoint as its event tells: for the part of the curve that nobody saw. An argument of eth_getLogs, and its
// answer: of what a later round did again only that. Errors: train.bad_answer (busy).
struct PastCheckpoint {
    std::uint64_t step = 0;
    std::uint32_t loss = 0;  // f32 bits
};
[[nodiscard]] json::Value checkpoint_filter(std::uint64_t task);
[[nodiscard]] Expected<std::vector<PastCheckpoint>> read_checkpoints(const json::Value& logs);

// Tells of a task what is new since the look before.
class Follower {
public:
    Follower(const Job& job, std::uint64_t steps) : job_(&job), progress_(steps) {}
    // Checkpoints before the first look, by step.
    void recall(std::span<const PastCheckpoint> past) {
        for (const PastCheckpoint& each : past) progress_.recall(each.loss);
    }
    [[nodiscard]] std::vector<Event> take(const Look& look, std::uint64_t now_ms);

private:
    void tell_of_profilers(const Look& look, std::vector<Event>& news);

    const Job* job_;
    Progress progress_;
    std::string state_;
    std::optional<std::uint32_t> round_;
    std::optional<std::uint64_t> told_;  // the step
    std::string told_of_profilers_;      // how far they were, but for the time left
    bool told_limits_ = false;
};

}  // namespace quern::compute::client
