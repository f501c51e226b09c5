// The two sides of an executor, the processor and its device, and the only ways for a tensor from one to the other.
// Internal to compute/torch, with torch's headers. Thread-safe.
#pragma once

#include <ATen/ATen.h>

#include "compute/torch/device.h"
#include "vm/tensor/tensor.h"

namespace quern::compute::torch_backend {

// Where ops run and make their tensors.
struct Place {
    at::Device device = at::kCPU;
    // Ops that torch lacks are computed element by element from the definitions; elsewhere, where values cannot be read
    // but by waiting for them, by other ops of torch (word_ops.h).
    bool by_loops = true;

    [[nodiscard]] at::TensorOptions of(at::ScalarType type) const { return at::TensorOptions(device).dtype(type); }
};
inline const Place kProcessor{};
// For cpu it is kProcessor.
[[nodiscard]] Place place_of(Device device);

// Always a copy, so that what it was made of may go. Waits for what the device has to do before.
[[nodiscard]] at::Tensor to_place(const at::Tensor& value, const Place& place);
// Of a device's tensor a copy, for which it waits; of meta's, zeros.
[[nodiscard]] at::Tensor to_processor(const at::Tensor& value);

[[nodiscard]] at::ScalarType type_of(vm::tensor::DType dtype);
[[nodiscard]] std::vector<std::int64_t> sizes_of(const vm::tensor::Shape& shape);

// A view of the tensor's words on the processor; torch only reads it.
[[nodiscard]] at::Tensor view_of(const vm::tensor::Tensor& tensor);
// From wherever the value lies, which has as many elements as the shape. NaN becomes 0x7fc00000.
[[nodiscard]] vm::tensor::Tensor words_of(const at::Tensor& value, vm::tensor::DType dtype,
                                          const vm::tensor::Shape& shape);
// Of a tensor of the processor.
[[nodiscard]] std::uint32_t word_at(const at::Tensor& contiguous, std::int64_t i);

}  // namespace quern::compute::torch_backend
