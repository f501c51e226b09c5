#include "compute/program/stepper.h"

#include <memory>

namespace quern::compute::program {

namespace tensor = vm::tensor;

Hash32 beacon_of_seed(std::uint64_t seed) {
    Hash32 beacon;
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    for (std::size_t i = 0; i < kWord; ++i)  // of the first 16 bytes, which are used, the last eight
        beacon.data[kWord + i] = static_cast<std::uint8_t>(seed >> (8 * (kWord - 1 - i)));
    return beacon;
}

Stepper canonical_stepper(ThreadPool* pool) {
    return [pool](const tensor::Program& program, const tensor::DataSource& data,
                  const tensor::Tensor& seed) -> Expected<StepFunction> {
        const auto executor = std::make_shared<tensor::Executor>(program, tensor::arith::best_backend(), pool);
        return [executor, &data, &seed](tensor::State& state) -> Status {
            return executor->step(state, data, seed) ? Status() : fail("step.no_data");
        };
    };
}

}  // namespace quern::compute::program
