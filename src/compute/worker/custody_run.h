// A long pass over contents (custody.h) on a thread of its own, over a connection of its own, so that the trainings or
// replays of the thread that asks for it go on meanwhile. All members are called by that thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "compute/worker/custody.h"

namespace quern::compute::worker {

class CustodyRun {
public:
    using Work = std::function<Status(NodeView& node, const CustodyLimits& limits)>;
    // `limits.cancellation` is requested once `stopping` is, which outlives this, or when this goes. `done` is called
    // on the other thread when is_done().
    CustodyRun(std::unique_ptr<NodeView> node, const Cancellation& stopping, Work work, std::function<void()> done);
    // Ends what runs, as soon as the node has answered.
    ~CustodyRun();
    CustodyRun(const CustodyRun&) = delete;
    CustodyRun& operator=(const CustodyRun&) = delete;

    [[nodiscard]] bool is_done() const;
    [[nodiscard]] Status result() const;  // once it is done

private:
    const std::unique_ptr<NodeView> node_;
    std::atomic<bool> abandoned_{false};
    const Cancellation cancelled_;
    mutable Mutex mutex_;
    std::optional<Status> result_ QUERN_GUARDED_BY(mutex_);
    std::thread thread_;  // last, so that all it uses is there
};

}  // namespace quern::compute::worker
