#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace quern {
inline namespace base {
namespace {

using Clock = std::chrono::steady_clock;

// To wake a thread takes up to 50 microseconds, as long as a small loop; the loops of a training step follow each other
// sooner than that.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::microseconds kShortGap{2 * kSpin};  // between two loops: the next is expected as soon
constexpr int kPausesPerLook = 32;                         // between two looks at the clock

thread_local bool inside_loop = false;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Whether `ready` came true within kSpin.
template <class Ready>
bool spin_until(Ready&& ready) {
    const auto until = Clock::now() + kSpin;
    do {
        for (int i = 0; i < kPausesPerLook; ++i) {
            if (ready()) return true;
            pause_cpu();
        }
    } while (Clock::now() < until);
    return ready();
}

}  // namespace

struct ThreadPool::Impl {
    using Fn = std::function<void(std::size_t, std::size_t)>;

    Mutex loop_mutex;  // one loop at a time
    // The loop: written before `generation` rises, read after that was seen, not written again before `running` is 0.
    const Fn* fn = nullptr;
    std::size_t count = 0;
    std::size_t parts = 0;
    std::atomic<std::uint64_t> generation{0};
    std::atomic<std::size_t> running{0};
    std::atomic<bool> stopping{false};
    Mutex mutex;  // of the condition variables: held for each change that they wait for
    CondVar start;
    CondVar done;
    std::size_t sleeping QUERN_GUARDED_BY(mutex) = 0;  // threads that wait for `start`
    bool spins = false;                                // there is a CPU for each thread
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
        bool expects_soon = false;
        for (;;) {
            const auto called = [&] {
                return stopping.load(std::memory_order_acquire) || generation.load(std::memory_order_acquire) != seen;
            };
            const auto idle_since = Clock::now();
            if (!(spins && expects_soon && spin_until(called))) {
                MutexLock lock(mutex);
                ++sleeping;
                while (!called()) start.wait(lock);
                --sleeping;
            }
            if (stopping.load(std::memory_order_acquire)) return;
            expects_soon = Clock::now() - idle_since < kShortGap;
            seen = generation.load(std::memory_order_acquire);
            run_part(*fn, count, parts, index);
            if (running.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
            const MutexLock lock(mutex);  // so that the caller does not fall asleep in between
            done.notify_one();
        }
    }
};

ThreadPool::ThreadPool(std::size_t threads, const std::function<void()>& at_start) : impl_(std::make_unique<Impl>()) {
    if (threads == 0) threads = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    impl_->spins = threads <= std::thread::hardware_concurrency();
    for (std::size_t i = 1; i < threads; ++i)
        impl_->threads.emplace_back([this, i, at_start] {
            if (at_start) at_start();
            impl_->work(i);
        });
}

ThreadPool::~ThreadPool() {
    {
        const MutexLock lock(impl_->mutex);
        impl_->stopping.store(true, std::memory_order_release);
    }
    impl_->start.notify_all();
    for (auto& thread : impl_->threads) thread.join();
}

std::size_t ThreadPool::size() const { return impl_->threads.size() + 1; }

bool ThreadPool::spins() const { return impl_->spins; }

void ThreadPool::parallel_ranges(std::size_t count, const std::function<void(std::size_t, std::size_t)>& fn) {
    if (count == 0) return;
    if (inside_loop || impl_->threads.empty() || count == 1) {
        Impl::run_part(fn, count, 1, 0);
        return;
    }
    const MutexLock one_loop(impl_->loop_mutex);
    const std::size_t parts = size();
    impl_->fn = &fn;
    impl_->count = count;
    impl_->parts = parts;
    impl_->running.store(impl_->threads.size(), std::memory_order_relaxed);
    bool wake = false;
    {
        const MutexLock lock(impl_->mutex);
        impl_->generation.fetch_add(1, std::memory_order_release);
        wake = impl_->sleeping != 0;
    }
    if (wake) impl_->start.notify_all();
    Impl::run_part(fn, count, parts, 0);
    const auto all_done = [&] { return impl_->running.load(std::memory_order_acquire) == 0; };
    if (impl_->spins && spin_until(all_done)) return;
    MutexLock lock(impl_->mutex);
    while (!all_done()) impl_->done.wait(lock);
}

}  // namespace base
}  // namespace quern
