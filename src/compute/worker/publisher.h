// Puts a training's states into the content store while the training goes on: a thread of its own copies the slots,
// sends them under their roots, which are known, and then the state content that names them
// (compute/core/state_content.h), each again and again until the store has it. A step that comes to a slot before that
// thread copies it itself (before_writing): it never waits for the node, and seldom for memory. Beside the state there
// is one more at most, for which memory_needed (task_inputs.h) has room: nothing else is read or sent of a task that
// trains. Used by the solver, all members by the thread that trains.
#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

// What a state is in a store.
struct StoredState {
    Hash32 content;             // of the state
    std::vector<Hash32> slots;  // those that are contents of their own
};

class Publisher {
public:
    // `node` is this publisher's own; `pool` (null: none) copies slots. Once `stopping` is requested nothing is read
    // any more. `stored` is called on another thread when take() has something.
    Publisher(std::unique_ptr<NodeView> node, ThreadPool* pool, const Cancellation& stopping,
              std::function<void()> stored)
        : node_(std::move(node)), pool_(pool), stopping_(stopping), tell_(std::move(stored)) {}
    // Ends what runs, as soon as the node has answered.
    ~Publisher();
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    // Begins with `state` of `program`, whose slots have these roots. The state stays where it is until take(), and no
    // slot of it changes or goes but after before_writing(slot). None runs. Errors: those of check_state().
    [[nodiscard]] Status begin(const vm::tensor::Program& program, const vm::tensor::State& state,
                               std::span<const Hash32> roots);
    void before_writing(std::size_t slot);

    [[nodiscard]] bool runs() const { return thread_.joinable(); }  // from begin() to take()
    [[nodiscard]] bool is_stored() const;
    // Once, when it is in the store: none runs any more.
    [[nodiscard]] std::optional<StoredState> take();

private:
    // A slot that is a content of its own.
    struct Part {
        std::size_t slot = 0;
        vm::tensor::Shape shape;
        Hash32 root;
    };
    void run();
    [[nodiscard]] bool copy_ahead() QUERN_EXCLUDES(mutex_);  // false: it is to end
    [[nodiscard]] bool put(const Hash32& id, std::uint64_t bytes,
                           const std::function<ByteSource()>& source);  // false: it is to end
    [[nodiscard]] Expected<std::size_t> read(const Part& part, std::uint64_t& place, std::span<std::uint8_t> buffer)
        QUERN_EXCLUDES(mutex_);
    [[nodiscard]] bool pause(std::uint64_t milliseconds) QUERN_EXCLUDES(mutex_);  // false: it is to end
    [[nodiscard]] bool is_to_end() const QUERN_REQUIRES(mutex_) { return abandoned_ || stopping_.requested(); }

    const std::unique_ptr<NodeView> node_;
    ThreadPool* const pool_;
    const Cancellation& stopping_;
    const std::function<void()> tell_;
    Bytes content_;  // the state's
    std::vector<Part> parts_;
    std::thread thread_;

    mutable Mutex mutex_;
    CondVar changed_;
    bool abandoned_ QUERN_GUARDED_BY(mutex_) = false;
    std::optional<std::size_t> copying_ QUERN_GUARDED_BY(mutex_);  // the slot that run() reads where it lies
    // By slot: what is still to be sent (else empty), and who owns it where it is a copy.
    std::vector<std::span<const std::uint32_t>> words_ QUERN_GUARDED_BY(mutex_);
    std::vector<std::unique_ptr<std::uint32_t[]>> copies_ QUERN_GUARDED_BY(mutex_);
    std::optional<StoredState> stored_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::compute::worker
