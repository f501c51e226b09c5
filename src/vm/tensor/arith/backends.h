// The backends' tables, for kernels.cpp; null where this build does not have the backend. Internal to vm/tensor/arith.
#pragma once

#include "vm/tensor/arith/kernel_table.h"

namespace quern::vm::tensor::arith {

[[nodiscard]] const Kernels* soft_kernels();
[[nodiscard]] const Kernels* scalar_kernels();
[[nodiscard]] const Kernels* avx2_kernels();
[[nodiscard]] const Kernels* avx512_kernels();
[[nodiscard]] const Kernels* neon_kernels();
// The one kernel that needs VNNI beside AVX-512; null as above.
using ImatmulKernel = decltype(Kernels::imatmul);
[[nodiscard]] ImatmulKernel vnni_imatmul();

}  // namespace quern::vm::tensor::arith
