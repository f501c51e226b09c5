#include "base/thread_priority.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "base/thread_pool.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern {
namespace {

int nice_of_this_thread() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))); }

TEST(ThreadPriority, a_thread_that_stands_back_takes_no_other_with_it) {
    const int before = nice_of_this_thread();
    int other = -1;
    std::thread([&] {
        stand_back();
        stand_back();
        other = nice_of_this_thread();
    }).join();
    EXPECT_EQ(other, std::max(before, kBackgroundNice));
    EXPECT_EQ(nice_of_this_thread(), before);
}

TEST(ThreadPriority, all_threads_of_a_pool_stand_back_and_its_caller_does_not) {
    const int before = nice_of_this_thread();
    ThreadPool pool(3, [] { stand_back(); });
    Mutex mutex;
    std::multiset<int> seen;
    // A part for each thread.
    pool.parallel_for(3, [&](std::size_t) {
        const MutexLock lock(mutex);
        seen.insert(nice_of_this_thread());
    });
    std::multiset<int> expected = {std::max(before, kBackgroundNice), std::max(before, kBackgroundNice)};
    expected.insert(before);
    EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace quern
#endif
