// Of builds without CUDA.
#include "vm/tensor/cuda/device.h"

#if !defined(QUERN_HAVE_CUDA)

namespace quern::vm::tensor::cuda {

bool is_built() { return false; }

std::unique_ptr<Device> open_device(std::string& why) {
    why = "built without CUDA";
    return nullptr;
}

}  // namespace quern::vm::tensor::cuda

#endif
