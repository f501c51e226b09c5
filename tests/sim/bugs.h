// Names of the planted bugs, for the command line and tests. Thread-safe.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "chain/consensus/sdbft/hooks.h"

namespace quern::sim {

[[nodiscard]] std::vector<std::string_view> bug_names();
[[nodiscard]] std::optional<chain::consensus::sdbft::PlantedBug> bug_from_name(std::string_view name);
[[nodiscard]] std::string_view name_of(chain::consensus::sdbft::PlantedBug bug);

}  // namespace quern::sim
