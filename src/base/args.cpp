#include "base/args.h"

#include <algorithm>

namespace quern {
inline namespace base {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::vector<std::string> normalize_arguments(int argc, const char* const* argv) {
    std::vector<std::string> arguments;
    bool options_ended = false;
    for (int i = 1; i < argc; ++i) {
        std::string argument = argv[i];
        if (argument == "--") options_ended = true;
        const bool single_dash_word = argument.size() > 2 && argument[0] == '-' && is_letter(argument[1]);
        if (single_dash_word && !options_ended) argument.insert(0, 1, '-');
        arguments.push_back(std::move(argument));
    }
    return arguments;
}

std::vector<std::string> arguments_for_cli11(int argc, const char* const* argv) {
    auto arguments = normalize_arguments(argc, argv);
    std::reverse(arguments.begin(), arguments.end());
    return arguments;
}

}  // namespace base
}  // namespace quern
