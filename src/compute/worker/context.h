// What the roles of one worker process share: connection, key, inputs, threads, options. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/worker/options.h"
#include "compute/worker/sender.h"
#include "compute/worker/task_inputs.h"
#include "compute/worker/turns.h"

namespace quern::compute::worker {

struct Context {
    const WorkerOptions& options;
    NodeView& node;
    Sender& sender;
    InputStore& inputs;
    ThreadPool& pool;
    Rng& rng;
    std::uint64_t height = 0;  // of the newest block
};

// Sender's purpose of an action that a worker takes once in each round of a task: "bid/3.0".
[[nodiscard]] inline std::string purpose(const char* what, const chain::types::Task& task) {
    return std::string(what) + "/" + std::to_string(task.id) + "." + std::to_string(task.round);
}

// What a role keeps of a task, when it is of the task's present round and draw; what is older is dropped.
template <class Job>
[[nodiscard]] Job* current_job(std::map<std::uint64_t, Job>& jobs, const chain::types::Task& task) {
    const auto known = jobs.find(task.id);
    if (known == jobs.end()) return nullptr;
    if (known->second.round == task.round && known->second.verify_beacon == task.verify_beacon) return &known->second;
    jobs.erase(known);
    return nullptr;
}

// The jobs (by task) that `runs` holds for, in the order of their turns.
template <class Job, class Runs>
[[nodiscard]] std::vector<std::uint64_t> next_in_turn(const std::map<std::uint64_t, Job>& jobs, const Turns& turns,
                                                      Runs&& runs) {
    std::vector<std::uint64_t> ids;
    for (const auto& [task, job] : jobs)
        if (runs(job)) ids.push_back(task);
    return turns.order(std::move(ids));
}

// Until when the next of `waiting` jobs may run: equal shares of what is left.
[[nodiscard]] inline std::chrono::steady_clock::time_point share_of(std::chrono::steady_clock::time_point until,
                                                                    std::size_t waiting) {
    const auto now = std::chrono::steady_clock::now();
    return now + std::max(until - now, std::chrono::steady_clock::duration::zero()) /
                     static_cast<std::int64_t>(std::max<std::size_t>(waiting, 1));
}

// 32-byte roots as one byte string and back, for records.
[[nodiscard]] inline Bytes join_roots(const std::vector<Hash32>& roots) {
    Bytes bytes;
    bytes.reserve(32 * roots.size());
    for (const auto& root : roots) append(bytes, root);
    return bytes;
}
[[nodiscard]] inline std::vector<Hash32> split_roots(BytesView bytes) {
    std::vector<Hash32> roots;
    roots.reserve(bytes.size() / 32);
    for (std::size_t i = 0; i + 32 <= bytes.size(); i += 32) roots.push_back(Hash32::copy_of(bytes.subspan(i, 32)));
    return roots;
}

}  // namespace quern::compute::worker
