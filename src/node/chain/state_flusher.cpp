#include "node/chain/state_flusher.h"

#include "base/ensure.h"
#include "base/log.h"

namespace quern::node {
namespace {

std::size_t bytes_of(const chain::state::DueParts& due) {
    std::size_t bytes = 0;
    for (const auto& operation : due.batch.operations())
        bytes += operation.key.size() + (operation.value ? operation.value->size() : 0);
    return bytes;
}

}  // namespace

StateFlusher::StateFlusher(chain::store::Store& store, std::size_t max_bytes) : store_(store), max_bytes_(max_bytes) {
    if (max_bytes_ != 0) thread_ = std::thread([this] { run(); });
}

StateFlusher::~StateFlusher() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

Status StateFlusher::add(chain::state::DueParts due) {
    const std::size_t bytes = bytes_of(due);
    MutexLock lock(mutex_);
    if (!status_ || due.parts.empty()) return status_;
    if (max_bytes_ == 0) {
        status_ = chain::state::write_parts(store_, due, false);
        if (status_) written_.insert(written_.end(), due.parts.begin(), due.parts.end());
        return status_;
    }
    while (status_ && !waiting_.empty() && bytes_ + bytes > max_bytes_) changed_.wait(lock);
    if (!status_) return status_;
    bytes_ += bytes;
    waiting_.push_back(std::move(due));
    changed_.notify_all();
    return {};
}

std::vector<std::size_t> StateFlusher::take_written() {
    const MutexLock lock(mutex_);
    return std::exchange(written_, {});
}

Status StateFlusher::finish() {
    MutexLock lock(mutex_);
    while (status_ && !waiting_.empty()) changed_.wait(lock);
    return status_;
}

void StateFlusher::run() {
    MutexLock lock(mutex_);
    for (;;) {
        while (waiting_.empty() && !stopping_) changed_.wait(lock);
        if (waiting_.empty()) return;
        chain::state::DueParts& due = waiting_.front();  // others are added behind it alone
        const std::size_t bytes = bytes_of(due);
        lock.unlock();
        const Status written = chain::state::write_parts(store_, due, false);
        lock.lock();
        status_ = written;
        if (!status_) {
            log::error(log::Category::store, "state not flushed: {}", status_.error().to_string());
            changed_.notify_all();
            return;
        }
        written_.insert(written_.end(), due.parts.begin(), due.parts.end());
        deduct(bytes_, bytes);
        waiting_.pop_front();
        changed_.notify_all();
    }
}

}  // namespace quern::node
