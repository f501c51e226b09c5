// What a task names, fetched by content id and checked against the roots that the chain judges by: programs, the data's
// leaf hashes, initial state, and after a proof the history manifest and checkpoints. Thread-safe: all threads of
// a worker share one store, each with a connection of its own; nothing is locked while something is fetched.
#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "chain/types/native_objects.h"
#include "compute/core/history.h"
#include "compute/core/task_plan.h"
#include "compute/worker/content_sources.h"
#include "compute/worker/custody.h"
#include "compute/worker/task_data.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

struct TaskInputs {
    core::TaskPrograms programs;
    std::shared_ptr<const TaskData> data;  // the initial state was checked and is fetched anew by who begins with it
    std::uint64_t memory_bytes = 0;        // memory_needed
};

// What a worker may hold at once for a task of these programs, whatever its part in it: they themselves, a step of
// each, tapped or not, whose executors live side by side, or a move of a dispute (of several games about a task one at
// a time) by strides of `stride` steps; what is kept of the data, one state, and while it is read its file, or its
// fetched_bytes.
[[nodiscard]] std::uint64_t memory_needed(std::span<const vm::tensor::Program> programs, std::uint64_t stride);

// Of a state content beside the state: it, and as many slots of those that are fetched one by one as are read at once,
// as tiles. Of a slot that is narrow these are up to a thousand times its words.
[[nodiscard]] std::uint64_t fetched_bytes(const vm::tensor::Program& program);

[[nodiscard]] std::uint64_t state_bytes(const vm::tensor::Program& program);  // of a plan's programs any
// Of the content that a state is read from: a file, or a list of slots. A file is no larger than the memory.
[[nodiscard]] std::uint64_t most_state_bytes(const vm::tensor::Program& program,
                                             std::uint64_t memory_bytes = ~std::uint64_t{0});

// What a worker takes on for strangers.
struct InputLimits {
    std::uint64_t memory_bytes = std::uint64_t{4} << 30;  // of all tasks together
    std::uint64_t step_work = std::uint64_t{1} << 30;     // work units
};

// A tensor's scalar as the chain opens it: bits of the loss slot.
[[nodiscard]] std::uint32_t loss_bits(const vm::tensor::Program& program, const vm::tensor::State& state);

inline constexpr std::string_view kTooMuchMemory = "inputs.too_much_memory";
inline constexpr std::string_view kTooMuchWork = "inputs.too_much_work";

// Not the task's fault, and may be otherwise soon: the node or the room was not there, or this process failed.
[[nodiscard]] inline bool is_passing(const Error& error) { return error.is_busy() || error.is_local_fault(); }
// This worker has not the means, ever: says nothing about the task.
[[nodiscard]] inline bool is_own_limit(const Error& error) {
    return error.name == kTooMuchMemory || error.name == kTooMuchWork;
}

// What is asked for may yet come, or not: nobody has it now.
[[nodiscard]] inline bool is_awaited(const Error& error) {
    return is_on_its_way(error) || is_not_found(error) || error.name == kContentBusy;
}
// Nobody serves what was proved, or not what was proved: nothing that this worker or its node could do about it.
[[nodiscard]] inline bool is_withheld(const Error& error) {
    return is_not_found(error) || is_on_its_way(error) || !(is_passing(error) || is_own_limit(error));
}

// A state as a task or a history names it, and where its custodians are told, if it has some.
struct StateRef {
    Hash32 content;
    Hash32 root;
    CustodyRef custody{};
};

class InputStore {
public:
    // Memory that is counted for as long as this lives.
    using Hold = std::shared_ptr<const std::uint64_t>;

    // `sources` (null: none) are asked for what no node serves, and outlive the store.
    explicit InputStore(const InputLimits& limits, ContentSources* sources = nullptr)
        : limits_(limits), sources_(sources) {}

    // Room for `bytes` that memory_needed of a loaded task does not count: of several games about it, of states kept
    // for later. nullptr: there is none now.
    [[nodiscard]] Hold hold(std::uint64_t bytes, Duty duty);

    // Sizes are checked before anything large is fetched; one thread fetches a task's inputs, others that want the same
    // wait for it. Errors that may pass: the kind busy (the node, or inputs.busy: other tasks hold the memory),
    // content.not_found. That will not: inputs.wrong_program_root,
    // inputs.wrong_data_size, inputs.wrong_init_root, inputs.beyond_claimed_memory (the submitter's claim is false: the
    // same for everybody), program.*, state_file.*; inputs.too_much_memory and inputs.too_much_work are this worker's
    // own limits. Kept for the last few tasks, one that profilers have found limits for since anew. These limits, which
    // nobody but the chain has, are put into the node's store.
    [[nodiscard]] Expected<std::shared_ptr<const TaskInputs>> load(NodeView& node, const chain::types::Task& task,
                                                                   Duty duty = Duty::bound);

    // What the claim's steps read: the task's data, in tolerance mode with what its solver claims (`inputs` are the
    // task's). Errors: content.*, inputs.wrong_data_size of what the solver named.
    [[nodiscard]] Expected<std::shared_ptr<const TaskData>> data_of(NodeView& node, const chain::types::TaskClaim& live,
                                                                    const TaskInputs& inputs);

    // Whether some shards of its data can be had (TaskData::try_shards), for who has not taken the task on yet.
    [[nodiscard]] Status try_data(NodeView& node, const chain::types::Task& task, const TaskInputs& inputs) const;

    // What the first stretch of the task that is not settled begins with, as named by who trained up to there. Errors:
    // content.*, history.*, inputs.wrong_history_root.
    [[nodiscard]] static Expected<StateRef> start_of(NodeView& node, const chain::types::Task& task);

    // What the chain itself tells of a manifest that nobody serves: where the history begins. All other roots and
    // contents are zero. Errors: inputs.unknown_start of a stretch that does not begin where the task does now; those
    // of start_of.
    [[nodiscard]] static Expected<core::HistoryManifest> unserved_manifest(NodeView& node,
                                                                           const chain::types::TaskClaim& live);
    // The state that the claim's stretch begins with as the task names it, where the content that its solver names for
    // it cannot be had or is another, as `failed` says; that again where the stretch does not begin where the task
    // does.
    [[nodiscard]] Expected<vm::tensor::State> first_state(NodeView& node, const chain::types::TaskClaim& live,
                                                          const vm::tensor::Program& program,
                                                          Expected<vm::tensor::State> failed,
                                                          ThreadPool* pool = nullptr,
                                                          const Cancellation* cancellation = nullptr);
    // The history behind the claim's root. Errors: content.*, history.*, inputs.wrong_history_root.
    [[nodiscard]] Expected<std::shared_ptr<const core::HistoryManifest>> manifest(NodeView& node,
                                                                                  const chain::types::TaskClaim& live);

    // The state that is named so, in a file or a state content whose slots are fetched one by one. What nobody serves
    // of it is put together from custodians' fragments, where these can be had. Errors: content.*, state_file.*,
    // state.*, inputs.wrong_state_root; worker.stopped once the cancellation was requested.
    [[nodiscard]] Expected<vm::tensor::State> checkpoint(NodeView& node, const vm::tensor::Program& program,
                                                         const StateRef& named, ThreadPool* pool = nullptr,
                                                         const Cancellation* cancellation = nullptr);

private:
    [[nodiscard]] Expected<vm::tensor::State> read_state(NodeView& node, const vm::tensor::Program& program,
                                                         const StateRef& named, std::uint64_t most, ThreadPool* pool,
                                                         const Cancellation* cancellation) const;
    using Shared = std::shared_ptr<const TaskInputs>;
    [[nodiscard]] Shared known(std::uint64_t task) const QUERN_REQUIRES(mutex_);
    // The same of those that have the task's data as it is now named; others go, and count for as long as they are
    // used.
    [[nodiscard]] Shared known(const chain::types::Task& task) QUERN_REQUIRES(mutex_);
    [[nodiscard]] Expected<Shared> fetch(NodeView& node, const chain::types::Task& task, Duty duty);
    [[nodiscard]] Expected<core::TaskPrograms> fetch_programs(NodeView& node, const chain::types::Task& task,
                                                              Duty duty) const;
    [[nodiscard]] Expected<std::shared_ptr<const TaskData>> fetch_data(NodeView& node,
                                                                       const vm::tensor::ProgramHeader& header,
                                                                       const chain::types::Task& task, Duty duty) const;
    // Why a content that the node lacks is not here: content.on_its_way (busy) where the task's uris may have it, else
    // what was said. `is_here`: the node has it itself.
    [[nodiscard]] Error elsewhere(const chain::types::Task& task, const WantedContent& content, Duty duty, Error said,
                                  const Expected<bool>& is_here) const;
    // Keeps `needed` bytes for a task that is being fetched.
    [[nodiscard]] Status reserve(const chain::types::Task& task, std::uint64_t needed, Duty duty);
    [[nodiscard]] std::uint64_t used() const QUERN_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t budget_of(Duty duty) const;
    // What is kept only for later goes until `bytes` more fit, or is gone.
    void make_room(std::uint64_t bytes, std::uint64_t budget) QUERN_REQUIRES(mutex_);

    const InputLimits limits_;
    ContentSources* const sources_;
    const std::uint64_t tried_shards_ = OsRng().u64();  // nobody else's: the shards of a task that are tried
    mutable Mutex mutex_;
    CondVar fetched_;
    std::map<std::uint64_t, std::uint64_t> fetching_ QUERN_GUARDED_BY(mutex_);  // by task: bytes reserved for it
    std::map<std::uint64_t, Shared> inputs_ QUERN_GUARDED_BY(mutex_);           // by task
    std::map<std::uint64_t, std::weak_ptr<const TaskInputs>> in_use_ QUERN_GUARDED_BY(mutex_);  // kept ones included
    std::vector<std::weak_ptr<const std::uint64_t>> holds_ QUERN_GUARDED_BY(mutex_);
    std::map<Bytes, std::shared_ptr<const core::HistoryManifest>, BytesLess> manifests_
        QUERN_GUARDED_BY(mutex_);  // by content and history root
    std::map<std::pair<std::uint64_t, Hash32>, std::weak_ptr<const TaskData>> claimed_
        QUERN_GUARDED_BY(mutex_);  // in use, by task and what its solver claims
};

}  // namespace quern::compute::worker
