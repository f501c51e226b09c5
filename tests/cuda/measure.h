// How fast the kernels of vm/tensor/cuda are on a device. See cuda_check.cpp.
#pragma once

#include "vm/tensor/cuda/device.h"

namespace quern::test {

// Prints one line for each measurement, and compares some elements of what was computed with the processor's.
void measure(vm::tensor::cuda::Device& device, unsigned& passed, unsigned& failed);

}  // namespace quern::test
