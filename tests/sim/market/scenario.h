// The scenarios of the market simulation: who takes part, which numbers are usual in it, and what must come out.
#pragma once

#include <functional>

#include "sim/market/run.h"

namespace quern::sim::market {

struct Finding {
    enum class Kind {
        holds,
        fails,
        pays,      // known to be open: somebody gains by it
        pays_not,  // known to be open, and nobody gains with these numbers
    };
    Kind kind = Kind::holds;
    std::string text;
};
using Findings = std::vector<Finding>;

struct Scenario {
    std::string name;
    std::string summary;
    std::function<void(Settings&)> defaults;
    std::function<std::vector<RunSpec>(const Settings&)> runs;
    std::function<Findings(const std::vector<RunResult>&, const Settings&)> judge;
};
[[nodiscard]] const std::vector<Scenario>& scenarios();
[[nodiscard]] const Scenario* find_scenario(std::string_view name);

struct Outcome {
    std::vector<RunResult> runs;
    Findings findings;  // what must not be in any run included
    [[nodiscard]] bool passed() const;
};
[[nodiscard]] Outcome play(const Scenario& scenario, const Settings& settings);

}  // namespace quern::sim::market
