// Marks functions that a graphics processor runs too: those of the arithmetic whose code is shared with the kernels of
// vm/tensor/cuda. Nothing at all for another compiler than nvcc.
#pragma once

#if defined(__CUDACC__)
#define QUERN_HD __host__ __device__
#else
#define QUERN_HD
#endif
