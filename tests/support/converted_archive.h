// A TorchScript archive read in a process of its own, sandboxed as quern-torchscript's, without the time that a program
// takes to start. For tests of one thread that are linked with libtorch. Linux.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "compute/torchscript/child.h"

namespace quern::test {

struct Ending {
    int code = 0;  // of the process, or the signal's number below zero
    std::string output;
    std::string complaint;
    double seconds = 0;
    bool in_time = true;  // else it was killed
};

// Ends the program where the system gives no process, descriptors or memory.
inline Ending converted_archive(BytesView archive, const compute::torchscript::ChildOptions& options,
                                int milliseconds) {
    const auto expect = [](bool holds) {
        if (!holds) std::abort();
    };
    Ending ending;
    const int file = ::memfd_create("archive", MFD_CLOEXEC);
    std::array<int, 2> output{};
    std::array<int, 2> complaint{};
    expect(file >= 0 && ::write(file, archive.data(), archive.size()) == static_cast<::ssize_t>(archive.size()));
    expect(::pipe2(output.data(), O_CLOEXEC) == 0 && ::pipe2(complaint.data(), O_CLOEXEC) == 0);
    const auto begin = std::chrono::steady_clock::now();
    const ::pid_t child = ::fork();
    expect(child >= 0);
    if (child == 0) {
        ::dup2(file, STDIN_FILENO);
        ::dup2(output[1], STDOUT_FILENO);
        ::dup2(complaint[1], STDERR_FILENO);
        ::_exit(compute::torchscript::run_child(options));
    }
    for (const int each : {file, output[1], complaint[1]}) ::close(each);
    bool open[2] = {true, true};
    std::array<char, 65536> chunk{};
    while (open[0] || open[1]) {
        std::array<::pollfd, 2> waits{
            {{open[0] ? output[0] : -1, POLLIN, 0}, {open[1] ? complaint[0] : -1, POLLIN, 0}}};
        if (::poll(waits.data(), 2, milliseconds) <= 0) {
            ending.in_time = false;
            ::kill(child, SIGKILL);
            break;
        }
        for (std::size_t i = 0; i < 2; ++i) {
            if (waits.at(i).revents == 0) continue;
            const ::ssize_t count = ::read(waits.at(i).fd, chunk.data(), chunk.size());
            if (count <= 0) open[i] = false;
            if (count > 0)
                (i == 0 ? ending.output : ending.complaint).append(chunk.data(), static_cast<std::size_t>(count));
        }
    }
    ::close(output[0]);
    ::close(complaint[0]);
    int status = 0;
    expect(::waitpid(child, &status, 0) == child);
    ending.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    ending.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return ending;
}

}  // namespace quern::test
