// A process gives up what a converter of hostile files does not need, for good: files, sockets, processes, memory and
// time without end. Used by quern-torchscript, after its libraries are loaded and before it looks at a file. Linux.
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace quern::compute::torchscript {

struct SandboxLimits {
    std::uint64_t memory_bytes = 0;  // of address space, libraries included
    std::uint32_t cpu_seconds = 0;   // then the kernel kills the process
};

// From here on the process reads and writes the descriptors that it has, takes memory and ends. By setrlimit(2): no
// files of a byte or more, no further descriptors, no core, memory and CPU time as `limits` say. By
// prctl(PR_SET_NO_NEW_PRIVS) and seccomp(2): system calls of a short list alone; all others, open, socket, clone,
// execve and ptrace among them, fail with EPERM, and memory cannot become code. It dies with its parent. For a process
// of one thread. Error: torchscript.no_sandbox.
[[nodiscard]] Status enter_sandbox(const SandboxLimits& limits);

}  // namespace quern::compute::torchscript
