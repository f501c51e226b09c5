// Random calls of those kernels of vm/tensor/cuda that no array kernel of the processor is like: batches, groups,
// views, rows, hashes. Two devices must leave the same words everywhere. Made of a seed and a number alone. Pure;
// thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "vm/tensor/cuda/device.h"

namespace quern::test {

struct Scenario {
    using Words = std::vector<std::uint32_t>;
    std::string what;
    std::vector<Words> arrays;  // what lies on the device, outputs too
    // What is made of the places of the others and lies in array `described`, which is not compared; null: nothing is.
    std::function<Words(const std::vector<std::uint32_t*>&)> description;
    std::size_t described = 0;
    // Kernels in order, for arrays that lie there.
    std::function<std::vector<vm::tensor::cuda::AnyKernel>(const std::vector<std::uint32_t*>&)> kernels;
};

inline constexpr unsigned kScenarioKinds = 10;
[[nodiscard]] Scenario scenario_of(std::uint64_t seed, std::uint64_t number);

// The arrays after it; empty where the device failed, and `why` says it.
[[nodiscard]] std::vector<Scenario::Words> outcome(const Scenario& scenario, vm::tensor::cuda::Device& device,
                                                   std::string& why);

}  // namespace quern::test
