// What the programs share at the shell: questions without echo, usage errors. Used by src/bin only; main thread.
#pragma once

#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "base/args.h"
#include "base/expected.h"

namespace quern {

// Exit codes of every program: 0 done, 1 failed, 2 wrong options (quern-cli also 3: no node answers).
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Parses the command line; the exit code when there is nothing more to do (help, version, wrong options).
[[nodiscard]] inline std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(arguments_for_cli11(argc, argv));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    return std::nullopt;
}

// Says on standard error what went wrong.
inline int complain(const char* program, const std::string& text, int code = kExitFailed) {
    std::fprintf(stderr, "%s: %s\n", program, text.c_str());
    return code;
}
inline int complain(const char* program, const Error& error, int code = kExitFailed) {
    return complain(program, error.to_string(), code);
}

// A line typed without echo. Error: wallet.no_password when standard input is no terminal.
[[nodiscard]] inline Expected<std::string> ask_password(const char* prompt) {
    termios old{};
    if (::isatty(STDIN_FILENO) == 0 || ::tcgetattr(STDIN_FILENO, &old) != 0)
        return fail("wallet.no_password", "give --password-file");
    termios silent = old;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    std::fprintf(stderr, "%s", prompt);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    std::string password;
    std::getline(std::cin, password);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
    std::fputc('\n', stderr);
    return password;
}

}  // namespace quern
