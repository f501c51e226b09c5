// The programs of each further kind that are trained on libtorch (doc/torch.md), with their data and how near the
// canonical machine they come. Test code.
#pragma once

#include <variant>
#include <vector>

#include "compute/program/architecture.h"
#include "vm/tensor/data.h"

namespace quern::compute::torch_backend::test {

// The two may differ by so much at most: in the loss of any of 200 steps; in the parameters after one step and after
// 200, as parts of how far they went.
struct Bounds {
    double loss = 1e-5;
    double move = 1e-3;
    double way = 2e-5;
};

struct Row {
    const char* name;
    std::variant<program::TransformerSpec, program::LayersSpec> model;
    program::OptimizerConfig optimizer;
    Bounds bounds;
    double lowers_to;              // the mean loss of the last ten steps is below
    std::uint32_t accumulate = 0;  // batches for an update
};

[[nodiscard]] std::vector<Row> rows();
[[nodiscard]] program::Architecture architecture_of(const Row& row);
[[nodiscard]] vm::tensor::MemoryData data_of(const program::Architecture& architecture);

}  // namespace quern::compute::torch_backend::test
