// What the simulation writes as comma-separated values: its runs, and tables of the formulas.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/market/run.h"

namespace quern::sim::market {

[[nodiscard]] std::string csv_header();
[[nodiscard]] std::string csv_rows(const std::string& scenario, const std::string& swept, std::uint64_t value,
                                   const Settings& settings, const RunResult& run);

struct Table {
    std::string name;
    std::string summary;
    std::function<std::string()> write;
};
[[nodiscard]] const std::vector<Table>& tables();
[[nodiscard]] const Table* find_table(std::string_view name);

}  // namespace quern::sim::market
