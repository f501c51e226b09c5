// Programs that are run for their output: what they are given, and how those end that do not end.
#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace quern {
namespace {

ChildCommand shell(const std::string& script) {
    ChildCommand command;
    command.program = "/bin/sh";
    command.arguments = {"-c", script};
    command.input = "/dev/null";
    return command;
}
ChildResult result_of(const ChildCommand& command) {
    const auto result = run_child_process(command);
    EXPECT_TRUE(result) << result.error().to_string();
    return result ? *result : ChildResult{};
}
std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(ChildProcess, gives_what_the_program_says_and_how_it_ends) {
    const ChildResult result = result_of(shell("echo one; echo two >&2; exit 7"));
    EXPECT_EQ(text_of(result.output), "one\n");
    EXPECT_EQ(result.complaint, "two\n");
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result_of(shell("kill -9 $$")).signal, SIGKILL);
}

TEST(ChildProcess, has_the_environment_the_file_and_the_descriptors_it_is_given_alone) {
    ChildCommand command = shell("echo \"$HOME$ONE\"; cat; ls /proc/self/fd | wc -l");
    command.environment = {"ONE=1", "PATH=/usr/bin:/bin"};
    command.input = "/proc/self/comm";
    const int extra = ::dup(0);
    const std::string said = text_of(result_of(command).output);
    ::close(extra);
    EXPECT_TRUE(said.starts_with("1\n")) << said;
    EXPECT_NE(said.find("test_base"), std::string::npos) << said;
    EXPECT_TRUE(said.ends_with("\n4\n")) << said << ": three, and that of ls itself";
}

TEST(ChildProcess, waits_for_no_writer_of_a_pipe_that_is_named_as_its_file) {
    const std::string path = "/tmp/quern-child-pipe-" + std::to_string(::getpid());
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    ChildCommand command = shell("cat; echo read");
    command.input = path;
    // Were it waited for, this would be who comes, later.
    std::thread late([&] {
        std::this_thread::sleep_for(std::chrono::seconds(2));
        const int writer = ::open(path.c_str(), O_WRONLY | O_NONBLOCK);
        if (writer >= 0) ::close(writer);
    });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(text_of(result_of(command).output), "read\n");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1'900));
    late.join();
    ::unlink(path.c_str());
}

TEST(ChildProcess, is_killed_when_its_time_is_over) {
    const auto begin = std::chrono::steady_clock::now();
    for (const char* script :
         {"while true; do :; done", "exec 1>&- 2>&-; while true; do :; done", "trap '' TERM; sleep 60"}) {
        ChildCommand command = shell(script);
        command.seconds = 1;
        const ChildResult result = result_of(command);
        EXPECT_TRUE(result.timed_out) << script;
        EXPECT_EQ(result.signal, SIGKILL) << script;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(ChildProcess, is_killed_when_it_says_too_much) {
    ChildCommand command = shell("while true; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
    command.max_output = 100'000;
    const ChildResult result = result_of(command);
    EXPECT_TRUE(result.said_too_much);
    EXPECT_LE(result.output.size(), 100'000U);
    command.arguments[1] += " >&2";
    EXPECT_TRUE(result_of(command).said_too_much);
    command = shell("printf 12345");
    command.max_output = 5;
    EXPECT_EQ(text_of(result_of(command).output), "12345");
    command.max_output = 4;
    EXPECT_TRUE(result_of(command).said_too_much);
}

TEST(ChildProcess, needs_a_program_and_a_file) {
    ChildCommand command = shell("true");
    command.input = "/nothing";
    EXPECT_EQ(run_child_process(command).error().name, "child.no_input");
    command = shell("true");
    command.program = "/nothing";
    EXPECT_EQ(run_child_process(command).error().name, "child.not_started");
}

}  // namespace
}  // namespace quern
