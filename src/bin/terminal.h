// What the programs share at the shell: questions without echo, usage errors. Used by src/bin, quern-sim and
// quern-bench; main thread.
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
#include "base/printable.h"

namespace quern {

// Exit codes of every program: 0 done, 1 failed, 2 wrong options (quern-cli also 3: no node answers).
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Says on standard error what went wrong, in one line: part of it may be what a node or a file says.
inline int complain(const char* program, const std::string& text, int code = kExitFailed) {
    std::fprintf(stderr, "%s: %s\n", program, printable(text).c_str());
    return code;
}
inline int complain(const char* program, const Error& error, int code = kExitFailed) {
    return complain(program, error.to_string(), code);
}

// The first of the unsigned options that was given a negative number: CLI11 takes it as one of 2^64 less so many.
[[nodiscard]] inline std::string negative_count(const CLI::App& app) {
    for (const CLI::Option* option : app.get_options())
        if (option->get_type_name().starts_with("UINT"))
            for (const std::string& text : option->results())
                if (text.starts_with('-')) return option->get_name() + ": " + text + " is below 0";
    for (const CLI::App* command : app.get_subcommands())
        if (std::string found = negative_count(*command); !found.empty()) return found;
    return {};
}

// The first word that no option is called by; CLI11 asks for what is required before it names such a word, which may be
// the required option misspelled.
[[nodiscard]] inline std::string unknown_option(const CLI::App& app) {
    for (const std::string& word : app.remaining(true))
        if (word.size() > 1 && word.starts_with('-')) return word.substr(0, word.find('='));
    return {};
}

// Parses the command line of `program`, by which help and complaints call it; the exit code when there is nothing more
// to do (help, version, wrong options).
[[nodiscard]] inline std::optional<int> parse_command_line(CLI::App& app, const char* program, int argc,
                                                           const char* const* argv) {
    app.name(program);
    try {
        app.parse(arguments_for_cli11(argc, argv));
    } catch (const CLI::Success& shown) {  // help, version
        return app.exit(shown);
    } catch (const CLI::ParseError& error) {
        const auto chosen = app.get_subcommands();
        const auto unknown = app.remaining();
        const std::string help = std::string(program) + (chosen.empty() ? "" : " " + chosen[0]->get_name()) + " --help";
        // CLI11 asks for a subcommand before it looks at the words that it did not know.
        const bool unknown_command = chosen.empty() && !unknown.empty() && !app.get_subcommands({}).empty();
        std::string what = error.what();
        if (unknown_command)
            what = "there is no command " + unknown[0];
        else if (const std::string option = unknown_option(app); !option.empty())
            what = "there is no option " + option;
        return complain(program, what + "; see " + help, kExitUsage);
    }
    if (const std::string wrong = negative_count(app); !wrong.empty()) return complain(program, wrong, kExitUsage);
    return std::nullopt;
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
