#include "base/thread_priority.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#endif

namespace quern {
inline namespace base {

void stand_back(int nice) {
#ifdef __linux__
    thread_local bool done = false;
    if (done) return;
    done = true;
    // On Linux a thread's number names the thread alone.
    const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
    errno = 0;
    const int now = ::getpriority(PRIO_PROCESS, thread);
    if (errno == 0) (void)::setpriority(PRIO_PROCESS, thread, std::max(now, nice));
#endif
}

}  // namespace base
}  // namespace quern
