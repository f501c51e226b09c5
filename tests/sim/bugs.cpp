#include "sim/bugs.h"

#include <array>

namespace quern::sim {

using chain::consensus::sdbft::PlantedBug;

namespace {
constexpr std::array<std::string_view, static_cast<std::size_t>(PlantedBug::count_)> kNames = {
    "none",
    "finalize_after_nullify",
    "finalize_after_sibling",
    "nullify_after_finalize",
    "notarize_after_nullify",
    "notarize_twice",
    "propose_twice",
    "skip_nullification_check",
    "child_of_last_block",
    "send_before_sync",
    "forget_votes",
    "stale_epoch_certificates",
    "quorum_by_members",
    "weak_quorum_finalizes",
    "no_rebroadcast",
    "commit_on_notarization",
};
}  // namespace

std::vector<std::string_view> bug_names() { return {kNames.begin() + 1, kNames.end()}; }

std::optional<PlantedBug> bug_from_name(std::string_view name) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == name) return static_cast<PlantedBug>(i);
    return std::nullopt;
}

std::string_view name_of(PlantedBug bug) { return kNames[static_cast<std::size_t>(bug)]; }

}  // namespace quern::sim
