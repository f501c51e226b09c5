// The module that programs load to train by libtorch (torch_module.h).
#include <array>
#include <exception>
#include <memory>
#include <string>
#include <tuple>

#include "bin/torch_module.h"
#include "compute/torch/torch_executor.h"

namespace {

namespace torch_backend = quern::compute::torch_backend;
using torch_backend::Products;

class TorchSteps final : public quern::compute::worker::FastSteps {
public:
    TorchSteps(const quern::vm::tensor::Program& program, torch_backend::Products products)
        : executor_(program, products) {}
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
    const quern::vm::tensor::Program& program, int threads, quern::TorchProducts products, std::string& why) {
    try {
        torch_backend::set_thread_count(threads);
        const bool mixed = products == quern::TorchProducts::bf16;
        if (mixed && !torch_backend::has_bf16_products()) why = "bf16 saves no time on this processor";
        return std::make_unique<TorchSteps>(program, mixed ? Products::bf16 : Products::f32).release();
    } catch (const std::exception& problem) {
        why = problem.what();
        return nullptr;
    }
}

extern "C" __attribute__((visibility("default"))) quern::TorchBackends* quern_make_torch_backends(
    const quern::vm::tensor::Program& program, const quern::vm::tensor::DataSource& data,
    const quern::vm::tensor::Tensor& seed, int threads, quern::TorchProducts of, std::string& why) {
    try {
        auto made = std::make_unique<quern::TorchBackends>();
        using Backend = std::tuple<const char*, int, Products>;
        const std::array<Backend, 3> plain{{{"f32, all threads", threads, Products::f32},
                                            {"f32, one thread", 1, Products::f32},
                                            {"f64 products", threads, Products::f64}}};
        const std::array<Backend, 3> mixed{{{"bf16 products, all threads", threads, Products::bf16},
                                            {"bf16 products, one thread", 1, Products::bf16},
                                            {"f32, all threads", threads, Products::f32}}};
        for (const auto& [name, used, products] : of == quern::TorchProducts::bf16 ? mixed : plain) {
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
