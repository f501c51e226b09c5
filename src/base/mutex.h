// Mutexes whose rules the compiler checks: clang's thread-safety analysis (-Wthread-safety, an error in CI) refuses an
// access to a QUERN_GUARDED_BY member without its mutex, and a call of a QUERN_REQUIRES function without it. With other
// compilers the macros say nothing and the classes are std::mutex and its friends. Used by every class that threads
// share. https://releases.llvm.org/14.0.0/tools/clang/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define QUERN_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define QUERN_THREAD_ATTRIBUTE(x)
#endif

#define QUERN_CAPABILITY(name) QUERN_THREAD_ATTRIBUTE(capability(name))
#define QUERN_SCOPED_CAPABILITY QUERN_THREAD_ATTRIBUTE(scoped_lockable)
// Of a member: read and written only under this mutex.
#define QUERN_GUARDED_BY(mutex) QUERN_THREAD_ATTRIBUTE(guarded_by(mutex))
// Of a pointer: what it points to is.
#define QUERN_PT_GUARDED_BY(mutex) QUERN_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
// Of a function: called with the mutex held, or without it.
#define QUERN_REQUIRES(...) QUERN_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define QUERN_EXCLUDES(...) QUERN_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define QUERN_ACQUIRE(...) QUERN_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define QUERN_RELEASE(...) QUERN_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace quern {
inline namespace base {

class QUERN_CAPABILITY("mutex") Mutex {
public:
    Mutex() = default;
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;
    void lock() QUERN_ACQUIRE() { mutex_.lock(); }
    void unlock() QUERN_RELEASE() { mutex_.unlock(); }

private:
    friend class MutexLock;
    std::mutex mutex_;
};

// Holds a mutex for its lifetime; may let go of it in between.
class QUERN_SCOPED_CAPABILITY MutexLock {
public:
    explicit MutexLock(Mutex& mutex) QUERN_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
    ~MutexLock() QUERN_RELEASE() = default;
    MutexLock(const MutexLock&) = delete;
    MutexLock& operator=(const MutexLock&) = delete;
    void lock() QUERN_ACQUIRE() { lock_.lock(); }
    void unlock() QUERN_RELEASE() { lock_.unlock(); }

private:
    friend class CondVar;
    std::unique_lock<std::mutex> lock_;
};

// A condition variable for MutexLock. The analysis does not see into lambdas: write `while (!ready_)
// changed_.wait(lock)`.
class CondVar {
public:
    void notify_one() { variable_.notify_one(); }
    void notify_all() { variable_.notify_all(); }
    void wait(MutexLock& lock) { variable_.wait(lock.lock_); }
    // False when `duration` passed without a notification.
    template <class Rep, class Period>
    bool wait_for(MutexLock& lock, const std::chrono::duration<Rep, Period>& duration) {
        return variable_.wait_for(lock.lock_, duration) == std::cv_status::no_timeout;
    }
    template <class Clock, class Duration>
    bool wait_until(MutexLock& lock, const std::chrono::time_point<Clock, Duration>& until) {
        return variable_.wait_until(lock.lock_, until) == std::cv_status::no_timeout;
    }

private:
    std::condition_variable variable_;
};

}  // namespace base
}  // namespace quern
