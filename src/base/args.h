// Command lines in Bitcoin Core's style for CLI11, which takes long options with two dashes only: "-datadir=x" and
// "-datadir x" become "--datadir=x" and "--datadir x". Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

namespace quern {
inline namespace base {

// The arguments after the program's name, in order. Left alone: single-letter options ("-h"), negative numbers ("-5"),
// a lone "-", and everything after "--".
[[nodiscard]] std::vector<std::string> normalize_arguments(int argc, const char* const* argv);
// The same list in reverse, which is what CLI::App::parse(std::vector<std::string>) wants.
[[nodiscard]] std::vector<std::string> arguments_for_cli11(int argc, const char* const* argv);

}  // namespace base
}  // namespace quern
