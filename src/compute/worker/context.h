// What the roles of one worker process share: connection, key, inputs, threads, options. One thread.
#pragma once

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/worker/options.h"
#include "compute/worker/sender.h"
#include "compute/worker/task_inputs.h"

namespace quern::compute::worker {

struct Context {
    const WorkerOptions& options;
    NodeClient& node;
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
