#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace quern {
inline namespace base {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = std::size_t{1} << 16;

class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }
    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] bool is_open() const { return number_ >= 0; }
    void set(int number) {
        close();
        number_ = number;
    }
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

private:
    int number_;
};

struct Pipe {
    Descriptor read;
    Descriptor write;

    [[nodiscard]] bool open() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
        read.set(ends[0]);
        write.set(ends[1]);
        return true;
    }
};

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& each : texts) result.push_back(each.data());
    result.push_back(nullptr);
    return result;
}

int spawn(const ChildCommand& command, int input, int output, int complaint, ::pid_t& child) {
    std::vector<std::string> arguments{command.program};
    arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
    std::vector<std::string> environment = command.environment;
    ::posix_spawn_file_actions_t actions;
    ::posix_spawnattr_t attributes;
    if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return error;
    if (const int error = ::posix_spawnattr_init(&attributes); error != 0) {
        ::posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    // Signals as they are for a new program, whatever threads of this one block.
    ::sigset_t none;
    ::sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    int error = ::posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = ::posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0) error = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, complaint, STDERR_FILENO);
    if (error == 0) error = ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    if (error == 0)
        error = ::posix_spawn(&child, command.program.c_str(), &actions, &attributes, pointers_of(arguments).data(),
                              pointers_of(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Reads what is there; false where no more is to be read of it: at its end, or past `most`.
template <class Store>
bool read_some(Descriptor& from, std::size_t most, Store& store, bool& too_much) {
    std::array<char, kChunk> chunk{};
    const ::ssize_t count = ::read(from.get(), chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (count == 0) return false;
    const auto size = static_cast<std::size_t>(count);
    if (size > most - store.size()) {
        too_much = true;
        return false;
    }
    store.insert(store.end(), chunk.begin(), chunk.begin() + count);
    return true;
}

}  // namespace

Expected<ChildResult> run_child_process(const ChildCommand& command) {
    // A pipe that nobody writes to is not waited for. Above the three that the child has: a number that is already its
    // place would be closed on exec.
    const Descriptor opened(::open(command.input.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!opened.is_open()) return fail("child.no_input", command.input + ": " + std::strerror(errno));
    const Descriptor input(::fcntl(opened.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    Pipe output;
    Pipe complaint;
    ::pid_t child = -1;
    if (!input.is_open() || !output.open() || !complaint.open())
        return fault("child.not_started", std::strerror(errno));
    if (const int error = spawn(command, input.get(), output.write.get(), complaint.write.get(), child); error != 0)
        return fault("child.not_started", command.program + ": " + std::strerror(error));
    output.write.close();
    complaint.write.close();

    ChildResult result;
    const auto deadline = Clock::now() + std::chrono::seconds(command.seconds);
    while (output.read.is_open() || complaint.read.is_open()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        std::array<::pollfd, 2> waits{{{output.read.get(), POLLIN, 0}, {complaint.read.get(), POLLIN, 0}}};
        const int ready = left <= 0 ? 0 : ::poll(waits.data(), waits.size(), static_cast<int>(left));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            result.timed_out = true;
            break;
        }
        if (waits[0].revents != 0 && !read_some(output.read, command.max_output, result.output, result.said_too_much))
            output.read.close();
        if (waits[1].revents != 0 &&
            !read_some(complaint.read, command.max_complaint, result.complaint, result.said_too_much))
            complaint.read.close();
        if (result.said_too_much) break;
    }
    // Whatever it has closed, it has no more time than it was given.
    int status = 0;
    ::pid_t ended = 0;
    while (!result.timed_out && !result.said_too_much) {
        ended = ::waitpid(child, &status, WNOHANG);
        if (ended != 0) break;
        if (Clock::now() >= deadline) result.timed_out = true;
        ::poll(nullptr, 0, 1);
    }
    if (ended == 0) {
        ::kill(child, SIGKILL);
        do {
            ended = ::waitpid(child, &status, 0);
        } while (ended < 0 && errno == EINTR);
    }
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    return result;
}

std::string own_folder() {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? std::string() : self.parent_path().string();
}

}  // namespace base
}  // namespace quern
