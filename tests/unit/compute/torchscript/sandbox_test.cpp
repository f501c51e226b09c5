// What a process in the sandbox may not do any more, each tried before and in it, in processes of their own.
#include "compute/torchscript/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

namespace quern::compute::torchscript {
namespace {

constexpr SandboxLimits kLimits{std::uint64_t{64} << 30, 60};

// How a process ended that did that: its exit code, or the signal's number below zero.
int ends(const std::function<int()>& act) {
    const ::pid_t child = ::fork();
    if (child == 0) ::_exit(act());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int in_sandbox(const std::function<int()>& act, const SandboxLimits& limits = kLimits) {
    return ends([&] { return enter_sandbox(limits) ? act() : 99; });
}

struct Attempt {
    const char* name;
    std::function<int()> act;  // 0 where it went, else errno
};

int tried(long result) { return result < 0 ? errno : 0; }

TEST(Sandbox, denies_files_sockets_processes_and_code) {
    const Attempt attempts[] = {
        {"open", [] { return tried(::open("/etc/passwd", O_RDONLY)); }},
        {"open for writing", [] { return tried(::open("/tmp", O_TMPFILE | O_RDWR, 0600)); }},
        {"unlink", [] { return ::unlink("/tmp/quern-no-such-file") == 0 || errno == ENOENT ? 0 : errno; }},
        {"socket", [] { return tried(::socket(AF_INET, SOCK_STREAM, 0)); }},
        {"local socket", [] { return tried(::socket(AF_UNIX, SOCK_STREAM, 0)); }},
        {"fork",
         [] {
             const ::pid_t child = ::fork();
             if (child == 0) ::_exit(0);
             return tried(child);
         }},
        {"exec",
         [] {
             const char* const arguments[] = {"true", nullptr};
             ::execv("/bin/true", const_cast<char* const*>(arguments));
             return errno;
         }},
        {"ptrace", [] { return tried(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
        {"signal to the parent", [] { return tried(::kill(::getppid(), 0)); }},
        {"code",
         [] {
             void* const memory =
                 ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             return memory == MAP_FAILED ? errno : 0;
         }},
        {"memory that becomes code",
         [] {
             void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             if (memory == MAP_FAILED) return 98;
             return tried(::mprotect(memory, 4096, PROT_READ | PROT_EXEC));
         }},
    };
    for (const Attempt& each : attempts) {
        EXPECT_EQ(ends(each.act), 0) << each.name << " outside";
        EXPECT_EQ(in_sandbox(each.act), EPERM) << each.name;
    }
}

TEST(Sandbox, lets_it_read_write_take_memory_and_end) {
    EXPECT_EQ(in_sandbox([] { return 7; }), 7);
    int ends_of_pipe[2];
    ASSERT_EQ(::pipe(ends_of_pipe), 0);
    EXPECT_EQ(in_sandbox([&] {
                  const std::string text(100'000, 'a');
                  return text.size() == 100'000 && ::write(ends_of_pipe[1], text.data(), 10) == 10 ? 0 : 1;
              }),
              0);
    char read[10];
    EXPECT_EQ(::read(ends_of_pipe[0], read, 10), 10);
    ::close(ends_of_pipe[0]);
    ::close(ends_of_pipe[1]);
    EXPECT_EQ(in_sandbox([]() -> int { ::abort(); }), -SIGABRT);
}

TEST(Sandbox, bounds_memory_and_time) {
    const auto take = [] {
        void* const memory = ::mmap(nullptr, std::size_t{65} << 30, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return memory == MAP_FAILED ? errno : 0;
    };
    EXPECT_EQ(ends(take), 0);
    EXPECT_EQ(in_sandbox(take), ENOMEM);
    const auto spin = []() -> int {
        volatile std::uint64_t count = 0;
        while (count + 1 != 0) {
        }
        return 0;
    };
    EXPECT_EQ(in_sandbox(spin, {kLimits.memory_bytes, 1}), -SIGKILL);
    // Files that are open already do not grow.
    const int file = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
    ASSERT_GE(file, 0);
    const auto grow = [&] {
        ::signal(SIGXFSZ, SIG_IGN);
        return tried(::write(file, "a", 1));
    };
    EXPECT_EQ(ends(grow), 0);
    EXPECT_EQ(::ftruncate(file, 0), 0);
    EXPECT_EQ(in_sandbox([&] {
                  ::lseek(file, 0, SEEK_SET);
                  return grow();
              }),
              EFBIG);
    ::close(file);
}

}  // namespace
}  // namespace quern::compute::torchscript
