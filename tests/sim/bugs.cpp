#include "sim/bugs.h"

#include <array>

namespace quern::sim {

using chain::consensus::sdbft::PlantedBug;

namespace {
constexpr auto kNames = std::to_array<std::string_view>({"none",
#define QUERN_PLANTED_BUG(name) #name,
                                                         QUERN_PLANTED_BUGS(QUERN_PLANTED_BUG)
#undef QUERN_PLANTED_BUG
});
}  // namespace

std::vector<std::string_view> bug_names() { return {kNames.begin() + 1, kNames.end()}; }

std::optional<PlantedBug> bug_from_name(std::string_view name) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == name) return static_cast<PlantedBug>(i);
    return std::nullopt;
}

std::string_view name_of(PlantedBug bug) { return kNames[static_cast<std::size_t>(bug)]; }

}  // namespace quern::sim
