// A program that is run for its output: a closed environment, a file as its standard input, bounds on its time and on
// what it says. Used where hostile files are read by libraries that may die of them. Linux; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern {
inline namespace base {

struct ChildCommand {
    std::string program;  // a path
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // "NAME=value"; the child has these alone
    std::string input;                     // a file that is there: its standard input
    std::uint32_t seconds = 60;            // by the wall clock, then it is killed
    std::size_t max_output = std::size_t{1} << 20;
    std::size_t max_complaint = std::size_t{1} << 16;
};
struct ChildResult {
    int exit_code = 0;
    int signal = 0;  // that ended it; 0: it ended itself
    bool timed_out = false;
    bool said_too_much = false;  // it was killed for its output
    Bytes output;
    std::string complaint;  // its standard error
};

// Runs the program to its end, which is waited for whatever happens; it inherits standard input, output and error and
// no other descriptor. Errors: child.no_input (the file cannot be opened), child.not_started.
[[nodiscard]] Expected<ChildResult> run_child_process(const ChildCommand& command);

// The folder of the running program's own file; empty where the system does not say it.
[[nodiscard]] std::string own_folder();

}  // namespace base
}  // namespace quern
