#include "fuzz/target.h"

#include <cstdio>

namespace quern::fuzz {

const Target* find_target(std::string_view name) {
    for (const Target& target : all_targets())
        if (target.name == name) return &target;
    return nullptr;
}

void violated(std::string_view property, const char* file, int line, const std::string& detail) {
    std::string what = std::string(file) + ":" + std::to_string(line) + ": does not hold: " + std::string(property);
    if (!detail.empty()) what += " (" + detail + ")";
    std::fprintf(stderr, "%s\n", what.c_str());
    throw Violation{std::move(what)};
}

}  // namespace quern::fuzz
