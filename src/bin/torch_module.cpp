#include "bin/torch_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "base/child_process.h"
#include "base/log.h"

namespace quern {
namespace {

MakeTorchSteps load_module() {
    const std::string path = own_folder() + "/" + kTorchModule;
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // for as long as the process runs
    void* const made = module == nullptr ? nullptr : ::dlsym(module, kTorchModuleSymbol);
    if (made == nullptr)
        log::warning(log::Category::solver, "no libtorch, tolerance tasks are trained canonically reason={}",
                     ::dlerror());
    return reinterpret_cast<MakeTorchSteps>(made);
}

}  // namespace

compute::worker::MakeFastSteps steps_by_torch(std::size_t threads) {
    const std::size_t wanted = threads == 0 ? std::thread::hardware_concurrency() : threads;
    return [count = static_cast<int>(std::clamp<std::size_t>(wanted, 1, 256))](
               const vm::tensor::Program& program) -> std::unique_ptr<compute::worker::FastSteps> {
        static const MakeTorchSteps make = load_module();
        return make == nullptr ? nullptr : std::unique_ptr<compute::worker::FastSteps>(make(program, count));
    };
}

}  // namespace quern
