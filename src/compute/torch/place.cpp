#include "compute/torch/place.h"

#include <cstring>

namespace quern::compute::torch_backend {

using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::Tensor;

Place place_of(Device device) {
    switch (device) {
        case Device::cpu:
            return kProcessor;
        case Device::cuda:
            return {at::kCUDA, false};
        case Device::emulated:
            return {at::kCPU, false};
        case Device::meta:
            return {at::kMeta, false};
    }
    return kProcessor;
}

at::Tensor to_place(const at::Tensor& value, const Place& place) {
    return value.to(place.of(value.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor to_processor(const at::Tensor& value) {
    const at::TensorOptions here = at::TensorOptions(at::kCPU).dtype(value.scalar_type());
    return value.is_meta() ? at::zeros_like(value, here) : value.to(here);
}

at::ScalarType type_of(DType dtype) { return dtype == DType::f32 ? at::kFloat : at::kInt; }

std::vector<std::int64_t> sizes_of(const Shape& shape) { return {shape.dims.begin(), shape.dims.end()}; }

at::Tensor view_of(const Tensor& tensor) {
    return at::from_blob(const_cast<std::uint32_t*>(tensor.words.data()), sizes_of(tensor.shape),
                         kProcessor.of(type_of(tensor.dtype)));
}

Tensor words_of(const at::Tensor& value, DType dtype, const Shape& shape) {
    const at::Tensor contiguous = to_processor(value.detach()).contiguous();
    Tensor result{dtype, shape, {}};
    result.words.resize(shape.elements());
    TORCH_CHECK(contiguous.numel() == static_cast<std::int64_t>(result.words.size()), "a value of another shape");
    std::memcpy(result.words.data(), contiguous.data_ptr(), result.words.size() * 4);
    if (dtype == DType::f32)
        for (std::uint32_t& word : result.words)
            if ((word & 0x7fffffffU) > 0x7f800000U) word = 0x7fc00000;
    return result;
}

std::uint32_t word_at(const at::Tensor& contiguous, std::int64_t i) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(contiguous.data_ptr()) + i * 4, 4);
    return word;
}

}  // namespace quern::compute::torch_backend
