// Runs step programs on libtorch's tensors, of the processor or of a graphics processor: the same graph, any order of
// arithmetic, so values agree with the canonical executor to rounding only. Used where speed matters and bits do not
// (tolerance mode), and by tests and benchmarks that compare the two. No torch header is included here; torch's
// exceptions become errors. One thread at a time uses an executor; the thread counts are the process's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/torch/device.h"
#include "vm/tensor/executor.h"

namespace quern::compute::torch_backend {

// Sets the thread counts of torch's own loops (OpenMP) and of the BLAS library, for the whole process: they are two
// settings, and a BLAS with threads of its own beside OpenMP's runs several times slower.
void set_thread_count(int threads);

// Whether the BLAS library that torch runs on is OpenBLAS built for OpenMP. Error torch.slow_blas, which names the
// library: the reference BLAS is about 25 times slower, OpenBLAS with its own threads fights OpenMP's. A warning, not
// a fault: results stay right.
[[nodiscard]] Status check_blas();

// "1.13.0"
[[nodiscard]] std::string torch_version();

// How matrix products are computed. bf16: as mixed precision (autocast) does, operands and results of 8 bits of
// mantissa, all else in f32. f64: in double precision, the result rounded to f32.
enum class Products : std::uint8_t { f32, bf16, f64 };

struct ExecutorOptions {
    Products products = Products::f32;
    Device device = Device::cpu;
};

class TorchExecutor {
public:
    // `program` must be valid and outlive the executor. A device that check_device() refuses is the error of each call;
    // for cuda, f32 products are of f32 in the whole process from here on, and not of TF32.
    explicit TorchExecutor(const vm::tensor::Program& program, const ExecutorOptions& options = {});
    ~TorchExecutor();
    TorchExecutor(TorchExecutor&&) noexcept;

    // state := the state after the step. state, data and seed are the program's (checked by the caller, the
    // state with check_state). NaN results are stored as 0x7fc00000. Error torch.failed with torch's message, for
    // instance when memory runs out or data are missing; the state is then unchanged. Of another device than the
    // processor the state goes there and comes back with each step; Device::meta gives a state of zeros.
    [[nodiscard]] Status step(vm::tensor::State& state, const vm::tensor::DataSource& data,
                              const vm::tensor::Tensor& seed);

    // The outputs of the given nodes of one step. Error torch.failed.
    [[nodiscard]] Expected<std::vector<vm::tensor::Tensor>> run_nodes(const vm::tensor::State& state,
                                                                      const vm::tensor::DataSource& data,
                                                                      const vm::tensor::Tensor& seed,
                                                                      std::span<const std::uint32_t> nodes);

    // d loss_node / d slot for each of the given f32 slots by torch's own autograd through the forward nodes: a check
    // of compute/program's autodiff that shares no code with it. loss_node is an f32 scalar. Error torch.failed.
    [[nodiscard]] Expected<std::vector<vm::tensor::Tensor>> autograd(const vm::tensor::State& state,
                                                                     const vm::tensor::DataSource& data,
                                                                     const vm::tensor::Tensor& seed,
                                                                     std::uint32_t loss_node,
                                                                     std::span<const std::uint32_t> slots);

private:
    struct Plan;
    std::unique_ptr<Plan> plan_;
};

}  // namespace quern::compute::torch_backend
