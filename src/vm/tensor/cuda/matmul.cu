#include "vm/tensor/cuda/launch.cuh"

namespace quern::vm::tensor::cuda {

cudaError_t launch_product(const Ways<LargeMatmul>& kernel, BlockRange range, cudaStream_t stream) {
    return std::visit([&](const auto& each) { return launch(each, range, stream); }, kernel);
}
cudaError_t launch_product(const Ways<SmallMatmul>& kernel, BlockRange range, cudaStream_t stream) {
    return std::visit([&](const auto& each) { return launch(each, range, stream); }, kernel);
}

}  // namespace quern::vm::tensor::cuda
