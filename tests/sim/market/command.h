// `quern-sim market`: plays scenarios, with other numbers and over ranges of them, and writes tables.
#pragma once

#include <span>
#include <string>

namespace quern::sim::market {

// Of the arguments after "market". The program's exit code: 0, 1 where something does not hold, 2 for bad arguments.
[[nodiscard]] int market_command(std::span<const char* const> arguments);

}  // namespace quern::sim::market
