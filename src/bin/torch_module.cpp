#include "bin/torch_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/child_process.h"
#include "base/log.h"

namespace quern {
namespace {

tl::unexpected<Error> other_build(const std::string& path, const std::string& found) {
    return fail("torch.other_build", path + " is of " + found + ", this program of " + std::string(kTorchBuild) +
                                         ": install both of one build");
}

// It stays for as long as the process runs.
Expected<void*> load_module() {
    const std::string path = own_folder() + "/" + kTorchModule;
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
        const char* const why = ::dlerror();
        return fail("torch.no_module",
                    std::string(why == nullptr ? path : why) +
                        "; contrib/install-deps.sh and contrib/build.sh without --programs bring it");
    }
    const auto build = reinterpret_cast<TorchBuild>(::dlsym(module, kTorchBuildSymbol));
    if (build == nullptr) return other_build(path, "a build that says nothing of itself");
    if (kTorchBuild != build()) return other_build(path, build());
    return module;
}

template <class Function>
Expected<Function> find_in_module(const char* symbol) {
    static const Expected<void*> module = load_module();
    if (!module) return fail(module.error());
    void* const found = ::dlsym(*module, symbol);
    if (found == nullptr)
        return other_build(own_folder() + "/" + kTorchModule, std::string("a build without ") + symbol);
    return reinterpret_cast<Function>(found);
}

int clamped(std::size_t threads) {
    const std::size_t wanted = threads == 0 ? std::thread::hardware_concurrency() : threads;
    return static_cast<int>(std::clamp<std::size_t>(wanted, 1, 256));
}

// `remark` is what the module says of steps that it makes.
Expected<std::unique_ptr<compute::worker::FastSteps>> steps_of(MakeTorchSteps make, const vm::tensor::Program& program,
                                                               int threads, const TorchChoice& choice,
                                                               std::string& remark) {
    std::string why;
    std::unique_ptr<compute::worker::FastSteps> made(make(program, threads, choice, why));
    if (made == nullptr) return fail("torch.failed", why);
    remark = std::move(why);
    return made;
}

}  // namespace

Status check_torch_device(const std::string& device) {
    QUERN_TRY(const auto check, find_in_module<CheckTorchDevice>(kTorchDeviceSymbol));
    Status found;
    check(device, found);
    return found;
}

compute::worker::MakeFastSteps steps_by_torch(std::size_t threads, TorchChoice choice) {
    return [count = clamped(threads), choice = std::move(choice)](
               const vm::tensor::Program& program) -> std::unique_ptr<compute::worker::FastSteps> {
        static const auto make = [] {
            auto found = find_in_module<MakeTorchSteps>(kTorchModuleSymbol);
            if (!found)
                log::warning(log::Category::solver, "no libtorch, tolerance tasks are trained canonically reason={}",
                             found.error().to_string());
            return found;
        }();
        if (!make) return nullptr;
        std::string remark;
        auto made = steps_of(*make, program, count, choice, remark);
        if (!made) {
            log::warning(log::Category::solver, "libtorch cannot run a program, which is trained canonically reason={}",
                         made.error().detail);
            return nullptr;
        }
        if (!remark.empty()) log::warning(log::Category::solver, "libtorch runs a program remark={}", remark);
        return std::move(*made);
    };
}

compute::program::Stepper torch_stepper(std::size_t threads) {
    return [count = clamped(threads)](const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                      const vm::tensor::Tensor& seed) -> Expected<compute::program::StepFunction> {
        QUERN_TRY(const auto make, find_in_module<MakeTorchSteps>(kTorchModuleSymbol));
        std::string remark;
        QUERN_TRY(auto made, steps_of(make, program, count, {}, remark));
        return [steps = std::shared_ptr(std::move(made)), &data, &seed](vm::tensor::State& state) {
            return steps->step(state, data, seed);
        };
    };
}

compute::tolerance::profile::MakeProfilers backends_by_torch(TorchChoice choice) {
    return
        [choice = std::move(choice)](const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                     const vm::tensor::Tensor& seed, std::size_t threads) -> Expected<TorchBackends> {
            QUERN_CHECK(check_torch_device(choice.device));
            QUERN_TRY(const auto make, find_in_module<MakeTorchBackends>(kTorchBackendsSymbol));
            std::string why;
            const std::unique_ptr<TorchBackends> made(make(program, data, seed, clamped(threads), choice, why));
            if (made == nullptr) return fail("torch.failed", why);
            return std::move(*made);
        };
}

}  // namespace quern
