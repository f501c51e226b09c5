#include "vm/tensor/cuda/launch.cuh"

namespace quern::vm::tensor::cuda {

cudaError_t launch_product(const Ways<LargeMatmul>& kernel, cudaStream_t stream) {
    return std::visit([&](const auto& each) { return launch(each, stream); }, kernel);
}
cudaError_t launch_product(const Ways<SmallMatmul>& kernel, cudaStream_t stream) {
    return std::visit([&](const auto& each) { return launch(each, stream); }, kernel);
}

}  // namespace quern::vm::tensor::cuda
