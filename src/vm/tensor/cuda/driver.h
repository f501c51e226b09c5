// What is wrong with a machine's driver, in words. Pure; thread-safe.
#pragma once

#include <string>

namespace quern::vm::tensor::cuda {

// Of a runtime that finds its driver too old. Versions as CUDA gives them: 1000 * major + 10 * minor; `driver`: the
// newest that it knows, 0 where there is none.
[[nodiscard]] inline std::string driver_problem(int driver, int built_with) {
    const auto text = [](int version) {
        return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    };
    if (driver == 0) return "no Nvidia driver";
    return "driver for CUDA " + text(driver) + ", built with CUDA " + text(built_with);
}

}  // namespace quern::vm::tensor::cuda
