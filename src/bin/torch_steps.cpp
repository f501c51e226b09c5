// The module that programs load to train by libtorch (torch_module.h).
#include <exception>
#include <memory>
#include <string>
#include <tuple>

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

extern "C" __attribute__((visibility("default"))) const char* quern_torch_build() { return quern::kTorchBuild.data(); }

extern "C" __attribute__((visibility("default"))) quern::compute::worker::FastSteps* quern_make_torch_steps(
    const quern::vm::tensor::Program& program, int threads, std::string& why) {
    try {
        torch_backend::set_thread_count(threads);
        return std::make_unique<TorchSteps>(program).release();
    } catch (const std::exception& problem) {
        why = problem.what();
        return nullptr;
    }
}

extern "C" __attribute__((visibility("default"))) quern::TorchBackends* quern_make_torch_backends(
    const quern::vm::tensor::Program& program, const quern::vm::tensor::DataSource& data,
    const quern::vm::tensor::Tensor& seed, int threads, std::string& why) {
    using torch_backend::Products;
    try {
        auto made = std::make_unique<quern::TorchBackends>();
        for (const auto& [name, used, products] :
             {std::tuple{"f32, all threads", threads, Products::f32}, std::tuple{"f32, one thread", 1, Products::f32},
              std::tuple{"f64 products", threads, Products::f64}}) {
            const auto executor = std::make_shared<torch_backend::TorchExecutor>(program, products);
            made->push_back({name, [executor, count = used, &data, &seed](quern::vm::tensor::State& state) {
                                 torch_backend::set_thread_count(count);
                                 return executor->step(state, data, seed);
                             }});
        }
        return made.release();
    } catch (const std::exception& problem) {
        why = problem.what();
        return nullptr;
    }
}
