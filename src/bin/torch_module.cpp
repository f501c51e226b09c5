#include "bin/torch_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "base/child_process.h"
#include "base/log.h"

namespace quern {
namespace {

// nullptr: there is no such function. The module stays for as long as the process runs.
void* find_in_module(const char* symbol) {
    const std::string path = own_folder() + "/" + kTorchModule;
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const made = module == nullptr ? nullptr : ::dlsym(module, symbol);
    if (made == nullptr)
        log::warning(log::Category::solver, "no libtorch, tolerance tasks are trained canonically reason={}",
                     ::dlerror());
    return made;
}

int clamped(std::size_t threads) {
    const std::size_t wanted = threads == 0 ? std::thread::hardware_concurrency() : threads;
    return static_cast<int>(std::clamp<std::size_t>(wanted, 1, 256));
}

}  // namespace

compute::worker::MakeFastSteps steps_by_torch(std::size_t threads) {
    return
        [count = clamped(threads)](const vm::tensor::Program& program) -> std::unique_ptr<compute::worker::FastSteps> {
            static const auto make = reinterpret_cast<MakeTorchSteps>(find_in_module(kTorchModuleSymbol));
            return make == nullptr ? nullptr : std::unique_ptr<compute::worker::FastSteps>(make(program, count));
        };
}

compute::tolerance::profile::MakeProfilers backends_by_torch() {
    return [](const vm::tensor::Program& program, const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed,
              std::size_t threads) -> TorchBackends {
        static const auto make = reinterpret_cast<MakeTorchBackends>(find_in_module(kTorchBackendsSymbol));
        if (make == nullptr) return {};
        const std::unique_ptr<TorchBackends> made(make(program, data, seed, clamped(threads)));
        return made == nullptr ? TorchBackends() : std::move(*made);
    };
}

}  // namespace quern
