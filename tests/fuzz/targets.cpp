#include "fuzz/target.h"

#include "fuzz/mempool_targets.h"

#include <cstdio>

namespace quern::fuzz {

std::span<const Target> all_targets() {
    static const std::vector<Target> targets = [] {
        std::vector<Target> all;
        for (const auto group :
             {codec_targets(), native_targets(), text_targets(), program_targets(), game_targets(), consensus_targets(),
              network_targets(), transport_targets(), session_targets(), mempool_targets(), peer_targets()})
            all.insert(all.end(), group.begin(), group.end());
        return all;
    }();
    return targets;
}

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
