#include "compute/torchscript/sandbox.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>

namespace quern::compute::torchscript {
namespace {

Status refused(const char* what, int error) {
    return fail("torchscript.no_sandbox", std::string(what) + ": " + std::strerror(error));
}

Status limit(decltype(RLIMIT_AS) resource, rlim_t value, const char* name) {
    const rlimit both{value, value};
    if (::setrlimit(resource, &both) != 0) return refused(name, errno);
    return {};
}

constexpr int kCalls[] = {
    SCMP_SYS(read),         SCMP_SYS(pread64),         SCMP_SYS(write),
    SCMP_SYS(writev),       SCMP_SYS(lseek),           SCMP_SYS(close),
    SCMP_SYS(brk),          SCMP_SYS(munmap),          SCMP_SYS(mremap),
    SCMP_SYS(madvise),      SCMP_SYS(futex),           SCMP_SYS(getpid),
    SCMP_SYS(gettid),       SCMP_SYS(sched_yield),     SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getrandom),    SCMP_SYS(rt_sigaction),    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),     SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday),    SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo),      SCMP_SYS(restart_syscall), SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

Status filter_calls() {
    const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release);
    if (filter == nullptr) return refused("seccomp_init", ENOMEM);
    const auto allow = [&](int call) { return seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0); };
    int error = 0;
    for (const int call : kCalls)
        if (error == 0) error = allow(call);
    // Memory that is code: none.
    for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})
        if (error == 0)
            error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    // abort() signals its own process.
    const auto self = static_cast<scmp_datum_t>(::getpid());
    if (error == 0)
        error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, self));
    // Also sets no_new_privs.
    if (error == 0) error = seccomp_load(filter.get());
    if (error != 0) return refused("seccomp", -error);
    return {};
}

}  // namespace

Status enter_sandbox(const SandboxLimits& limits) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("no_new_privs", errno);
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return refused("parent's death", errno);
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return refused("dumpable", errno);
    QUERN_CHECK(limit(RLIMIT_CORE, 0, "core"));
    QUERN_CHECK(limit(RLIMIT_FSIZE, 0, "file size"));
    QUERN_CHECK(limit(RLIMIT_NOFILE, 3, "descriptors"));
    QUERN_CHECK(limit(RLIMIT_NPROC, 0, "processes"));
    QUERN_CHECK(limit(RLIMIT_CPU, limits.cpu_seconds, "CPU time"));
    QUERN_CHECK(limit(RLIMIT_AS, limits.memory_bytes, "memory"));
    return filter_calls();
}

}  // namespace quern::compute::torchscript
