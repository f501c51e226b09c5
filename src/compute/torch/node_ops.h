// What a node of a step program is in libtorch's ops. Internal to compute/torch, with torch's headers. Pure;
// thread-safe.
#pragma once

#include <vector>

#include "compute/torch/place.h"
#include "compute/torch/torch_executor.h"
#include "vm/tensor/graph.h"

namespace quern::compute::torch_backend {

// How the matrix products of an executor are computed: bf16 where the device has it, else of rounded operands.
struct ProductKind {
    Products products = Products::f32;
    bool has_bf16 = false;
};

// The output of a node that is neither given from outside nor a window, of inputs that lie at the place; there it is
// made. Undefined of a node of another kind. Throws what torch does.
[[nodiscard]] at::Tensor evaluate(const vm::tensor::Node& node, const std::vector<at::Tensor>& in, const Place& place,
                                  const ProductKind& products);

}  // namespace quern::compute::torch_backend
