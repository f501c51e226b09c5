// How well a trained model does on data, in the canonical arithmetic. Used by quern-compile. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "compute/program/architecture.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

struct Evaluation {
    std::uint64_t examples = 0;
    double loss = 0;  // the mean of examples', as the model's loss has it
    // Of classes and tokens: the part of targets whose own output is the largest, the first of equal ones.
    std::optional<double> accuracy;
    std::vector<std::uint32_t> predicted;  // by target; as many as there are classes where an output is NaN
};

// Of all examples of `data`, the architecture's data tensors (others than it was trained on, with their own sizes).
// `trained` is a state of `training_program`, which was built for such an architecture. Errors:
// evaluate.missing_slot, evaluate.no_data (the source lacks some), memory.too_little, executor.*, arch.*.
[[nodiscard]] Expected<Evaluation> evaluate(const Architecture& architecture,
                                            const vm::tensor::Program& training_program,
                                            const vm::tensor::State& trained, const vm::tensor::DataSource& data,
                                            ThreadPool* pool);

}  // namespace quern::compute::program
