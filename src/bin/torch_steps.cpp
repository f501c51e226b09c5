// The module that programs load to train by libtorch (torch_module.h).
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bin/torch_module.h"
#include "compute/torch/torch_executor.h"

namespace {

namespace torch_backend = quern::compute::torch_backend;
using torch_backend::Device;
using torch_backend::Products;

class TorchSteps final : public quern::compute::worker::FastSteps {
public:
    TorchSteps(const quern::vm::tensor::Program& program, const torch_backend::ExecutorOptions& options)
        : executor_(program, options) {}
    quern::Status step(quern::vm::tensor::State& state, const quern::vm::tensor::DataSource& data,
                       const quern::vm::tensor::Tensor& seed) override {
        return executor_.step(state, data, seed);
    }

private:
    torch_backend::TorchExecutor executor_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* quern_torch_build() { return quern::kTorchBuild.data(); }

extern "C" __attribute__((visibility("default"))) void quern_check_torch_device(const std::string& device,
                                                                                quern::Status& found) {
    const auto known = torch_backend::find_device(device);
    found = known ? quern::Status() : quern::Status(quern::fail(known.error()));
}

extern "C" __attribute__((visibility("default"))) quern::compute::worker::FastSteps* quern_make_torch_steps(
    const quern::vm::tensor::Program& program, int threads, const quern::TorchChoice& choice, std::string& why) {
    try {
        const auto found = torch_backend::find_device(choice.device);
        if (!found) {
            why = found.error().to_string();
            return nullptr;
        }
        torch_backend::set_thread_count(threads);
        const bool mixed = choice.products == quern::TorchProducts::bf16;
        if (mixed && !torch_backend::has_bf16_products(*found)) why = "bf16 saves no time on this processor";
        const Products products = mixed ? Products::bf16 : Products::f32;
        return std::make_unique<TorchSteps>(program, torch_backend::ExecutorOptions{products, *found}).release();
    } catch (const std::exception& problem) {
        why = problem.what();
        return nullptr;
    }
}

extern "C" __attribute__((visibility("default"))) quern::TorchBackends* quern_make_torch_backends(
    const quern::vm::tensor::Program& program, const quern::vm::tensor::DataSource& data,
    const quern::vm::tensor::Tensor& seed, int threads, const quern::TorchChoice& choice, std::string& why) {
    try {
        const auto found = torch_backend::find_device(choice.device);
        if (!found) {
            why = found.error().to_string();
            return nullptr;
        }
        using Backend = std::tuple<const char*, int, Products, Device>;
        const bool mixed = choice.products == quern::TorchProducts::bf16;
        std::vector<Backend> backends;
        if (*found != Device::cpu && mixed)
            backends.push_back({"bf16 products, cuda", threads, Products::bf16, *found});
        if (*found != Device::cpu && !mixed) backends.push_back({"f32, cuda", threads, Products::f32, *found});
        if (mixed) {
            backends.push_back({"bf16 products, all threads", threads, Products::bf16, Device::cpu});
            backends.push_back({"bf16 products, one thread", 1, Products::bf16, Device::cpu});
        }
        backends.push_back({"f32, all threads", threads, Products::f32, Device::cpu});
        if (!mixed) {
            backends.push_back({"f32, one thread", 1, Products::f32, Device::cpu});
            backends.push_back({"f64 products", threads, Products::f64, Device::cpu});
        }
        auto made = std::make_unique<quern::TorchBackends>();
        for (const auto& [name, used, products, where] : backends) {
            const auto executor = std::make_shared<torch_backend::TorchExecutor>(
                program, torch_backend::ExecutorOptions{products, where});
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
