#include "compute/worker/custody_run.h"

#include <utility>

namespace quern::compute::worker {

CustodyRun::CustodyRun(std::unique_ptr<NodeView> node, const Cancellation& stopping, Work work,
                       std::function<void()> done)
    : node_(std::move(node)),
      cancelled_([this, &stopping] { return abandoned_.load() || stopping.requested(); }),
      thread_([this, work = std::move(work), done = std::move(done)] {
          CustodyLimits limits;
          limits.cancellation = &cancelled_;
          Status result = work(*node_, limits);
          {
              const MutexLock lock(mutex_);
              result_ = std::move(result);
          }
          done();
      }) {}

CustodyRun::~CustodyRun() {
    abandoned_ = true;
    thread_.join();
}

bool CustodyRun::is_done() const {
    const MutexLock lock(mutex_);
    return result_.has_value();
}

Status CustodyRun::result() const {
    const MutexLock lock(mutex_);
    return *result_;
}

}  // namespace quern::compute::worker
