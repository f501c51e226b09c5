#include "base/thread_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace quern {
inline namespace base {
namespace {

thread_local bool inside_loop = false;

}  // namespace

struct ThreadPool::Impl {
    using Fn = std::function<void(std::size_t, std::size_t)>;

    std::mutex loop_mutex;  // one loop at a time
    std::mutex mutex;       // guards what follows
    std::condition_variable start;
    std::condition_variable done;
    const Fn* fn = nullptr;
    std::size_t count = 0;
    std::size_t parts = 0;
    std::size_t running = 0;
    std::uint64_t generation = 0;
    bool stopping = false;
    std::vector<std::thread> threads;

    static void run_part(const Fn& fn, std::size_t count, std::size_t parts, std::size_t index) noexcept {
        const std::size_t base = count / parts;
        const std::size_t extra = count % parts;
        const std::size_t begin = base * index + std::min(index, extra);
        const std::size_t end = begin + base + (index < extra ? 1 : 0);
        if (begin == end) return;
        const bool outer = inside_loop;
        inside_loop = true;
        fn(begin, end);
        inside_loop = outer;
    }

    void work(std::size_t index) {
        std::uint64_t seen = 0;
        for (;;) {
            const Fn* current = nullptr;
            std::size_t current_count = 0;
            std::size_t current_parts = 0;
            {
                std::unique_lock lock(mutex);
                start.wait(lock, [&] { return stopping || generation != seen; });
                if (stopping) return;
                seen = generation;
                current = fn;
                current_count = count;
                current_parts = parts;
            }
            run_part(*current, current_count, current_parts, index);
            const std::lock_guard lock(mutex);
            if (--running == 0) done.notify_one();
        }
    }
};

ThreadPool::ThreadPool(std::size_t threads) : impl_(std::make_unique<Impl>()) {
    if (threads == 0) threads = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    for (std::size_t i = 1; i < threads; ++i) impl_->threads.emplace_back([this, i] { impl_->work(i); });
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->stopping = true;
    }
    impl_->start.notify_all();
    for (auto& thread : impl_->threads) thread.join();
}

std::size_t ThreadPool::size() const { return impl_->threads.size() + 1; }

void ThreadPool::parallel_ranges(std::size_t count, const std::function<void(std::size_t, std::size_t)>& fn) {
    if (count == 0) return;
    if (inside_loop || impl_->threads.empty() || count == 1) {
        Impl::run_part(fn, count, 1, 0);
        return;
    }
    const std::lock_guard one_loop(impl_->loop_mutex);
    const std::size_t parts = size();
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->fn = &fn;
        impl_->count = count;
        impl_->parts = parts;
        impl_->running = impl_->threads.size();
        ++impl_->generation;
    }
    impl_->start.notify_all();
    Impl::run_part(fn, count, parts, 0);
    std::unique_lock lock(impl_->mutex);
    impl_->done.wait(lock, [&] { return impl_->running == 0; });
}

}  // namespace base
}  // namespace quern
