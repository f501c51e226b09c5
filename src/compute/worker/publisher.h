// Puts a state into the content store while the training goes on from it: a thread of its own reads the state where it
// lies, hashes and sends it, and the training waits for it only before it writes over a slot that has not been sent
// yet. Small slots, which a step may write over early, are copied when it begins. Used by the solver; all members but
// before_writing, which the running step calls, by one thread.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

class Publisher {
public:
    // `node` is this publisher's own. Once `stopping` is requested a publication ends with worker.stopped (busy).
    Publisher(std::unique_ptr<NodeView> node, const Cancellation& stopping)
        : node_(std::move(node)), stopping_(stopping) {}
    // Ends what runs.
    ~Publisher();
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    // Begins with `state` of `program`, as a state file (compute/program/state_file.h). Both stay where they are until
    // finish(), and no slot changes before before_writing(slot) has returned. None runs. Errors: those of
    // state_file_header.
    [[nodiscard]] Status begin(const vm::tensor::Program& program, const vm::tensor::State& state);
    // Returns when the slot has been read, or nothing more will be.
    void before_writing(std::size_t slot);
    [[nodiscard]] bool runs() const { return thread_.joinable(); }
    // Whether finish() would not wait.
    [[nodiscard]] bool is_ready() const { return is_ready_; }
    // The content's id, once it is in the store. Errors: NodeView::put_content's, worker.stopped. One runs.
    [[nodiscard]] Expected<Hash32> finish();

private:
    [[nodiscard]] Expected<Hash32> send();
    [[nodiscard]] std::span<const std::uint32_t> words(std::size_t slot) const;
    void set_sent(std::size_t slots);

    const std::unique_ptr<NodeView> node_;
    const Cancellation& stopping_;
    const vm::tensor::State* state_ = nullptr;
    Bytes header_;
    std::vector<std::vector<std::uint32_t>> copies_;  // by slot; empty: read where it lies
    std::thread thread_;
    std::atomic<bool> abandoned_{false};
    std::atomic<bool> is_ready_{false};
    Expected<Hash32> content_;  // of the thread until it is joined
    Mutex mutex_;
    CondVar sent_more_;
    std::size_t sent_ QUERN_GUARDED_BY(mutex_) = 0;  // slots before this one are read no more
};

}  // namespace quern::compute::worker
