// What a machine's profile says about a program, for people and for scripts. Used by quern-compile. Pure; thread-safe.
#pragma once

#include <string>

#include "base/json.h"
#include "compute/cost/predict.h"

namespace quern::compute::cost {

// A whole training: `steps` steps of the program, a commitment each `stride` of them; 0 steps: none is told of.
struct Length {
    std::uint64_t steps = 0;
    std::uint64_t stride = 1;
};

// "processor", "backend", "threads", "profile_error", "step_seconds", "probed_step_seconds", "commit_seconds",
// "training_seconds" of the length, "operations" ("op", "seconds", the most first), "largest" nodes ("node", "op",
// "seconds").
[[nodiscard]] json::Value describe_time(const vm::tensor::Program& program, const Profile& profile,
                                        const Length& length);
// As lines of text, each ending with '\n'.
[[nodiscard]] std::string describe_time_as_text(const vm::tensor::Program& program, const Profile& profile,
                                                const Length& length);

}  // namespace quern::compute::cost
