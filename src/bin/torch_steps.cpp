// The module that programs load to train by libtorch (torch_module.h).
#include <exception>
#include <memory>

#include "bin/torch_module.h"
#include "compute/torch/torch_executor.h"

namespace {

namespace torch_backend = quern::compute::torch_backend;

class TorchSteps final : public quern::compute::worker::FastSteps {
public:
    explicit TorchSteps(const quern::vm::tensor::Program& program) : executor_(program) {}
    quern::Status step(quern::vm::tensor::State& state, const quern::vm::tensor::DataSource& data,
                       const quern::vm::tensor::Tensor& seed) override {
        return executor_.step(state, data, seed);
    }

private:
    torch_backend::TorchExecutor executor_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) quern::compute::worker::FastSteps* quern_make_torch_steps(
    const quern::vm::tensor::Program& program, int threads) {
    try {
        torch_backend::set_thread_count(threads);
        return std::make_unique<TorchSteps>(program).release();
    } catch (const std::exception&) {
        return nullptr;
    }
}
