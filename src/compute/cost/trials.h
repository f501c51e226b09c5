// The programs that a self-benchmark times. Internal to compute/cost. Pure.
#pragma once

#include <vector>

#include "base/expected.h"
#include "vm/tensor/executor.h"

namespace quern::compute::cost {

enum class TrialKind : std::uint8_t { step, tapped, commit };

struct Trial {
    std::string name;
    TrialKind kind = TrialKind::step;
    vm::tensor::Program program;
    std::vector<Bytes> data;
};
// In the same order each time. Errors: those of the builder, which there are none of.
[[nodiscard]] Expected<std::vector<Trial>> make_trials();
// Words that no op takes long over because of what they are: floats around 1, integers; in slots whose name begins with
// "index" those below 64.
[[nodiscard]] vm::tensor::State trial_state(const vm::tensor::Program& program);

}  // namespace quern::compute::cost
