// A fixed set of threads for data-parallel loops over independent items: signature recovery, hashing, tensor tiles.
// The range is cut into equal contiguous parts, so which thread runs what never depends on timing; results must go to
// slots of their own. Who waits for a loop that is expected at once, or for a loop's end, spins for 50 microseconds
// before it sleeps, where there is a CPU for each thread. Functions must not throw (the process ends). Thread-safe:
// loops from several threads take turns; a loop started inside a loop runs on the thread that started it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace quern {
inline namespace base {

class ThreadPool {
public:
    // `threads` counts the caller: 1 runs everything in place; 0 means as many as the machine has.
    // `at_start` is called first on each of its own threads.
    explicit ThreadPool(std::size_t threads = 0, const std::function<void()>& at_start = {});
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] std::size_t size() const;
    // Whether its threads spin before they sleep: then a loop costs a microsecond to begin, else up to fifty.
    [[nodiscard]] bool spins() const;

    // fn(begin, end) for each part; returns when all are done.
    void parallel_ranges(std::size_t count, const std::function<void(std::size_t, std::size_t)>& fn);

    // fn(i) for i in 0..count-1.
    template <class Fn>
    void parallel_for(std::size_t count, Fn&& fn) {
        parallel_ranges(count, [&fn](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) fn(i);
        });
    }

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace base
}  // namespace quern
