// Options of whoever profiles a training for a tolerance task, and the backends that profile it: three of libtorch
// (doc/tolerance.md, "Limits"). Used by src/bin only.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <tuple>

#include "compute/tolerance/limits.h"
#include "compute/tolerance/profile/profile.h"
#ifdef QUERN_WITH_TORCH
#include "compute/torch/torch_executor.h"
#endif

namespace quern {

inline void add_tolerance_terms(CLI::App& app, compute::tolerance::profile::TermNumbers& terms, CLI::Option* mode) {
    for (const auto& [name, target, text] :
         {std::tuple{"--cap", &terms.cap, "the most that a segment may be off by, of its movement"},
          std::tuple{"--history-cap", &terms.history_cap, "the same of all segments together; 0: the cap of each"},
          std::tuple{"--range", &terms.range, "by what factor a movement may leave the profiled one, up and down"},
          std::tuple{"--allow-l2", &terms.l2, "the least limit of l2, whatever was profiled"},
          std::tuple{"--allow-linf", &terms.linf, "of linf"},
          std::tuple{"--allow-moments", &terms.moments, "of moments"},
          std::tuple{"--allow-rest", &terms.rest, "of the loss and of running statistics"}}) {
        CLI::Option* option = app.add_option(name, *target, text)->check(CLI::NonNegativeNumber)->capture_default_str();
        if (mode != nullptr) option->needs(mode);
    }
}

// One thread, all threads, products in double precision; none where the program was built without libtorch. What they
// make refers to what it is given.
inline compute::tolerance::profile::MakeProfilers torch_backends() {
#ifdef QUERN_WITH_TORCH
    namespace torch = compute::torch_backend;
    return [](const vm::tensor::Program& program, const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed,
              std::size_t threads) {
        const int all = static_cast<int>(std::max<std::size_t>(1, threads));
        std::vector<compute::tolerance::profile::Profiler> profilers;
        for (const auto& [name, used, products] : {std::tuple{"f32, all threads", all, torch::Products::f32},
                                                   std::tuple{"f32, one thread", 1, torch::Products::f32},
                                                   std::tuple{"f64 products", all, torch::Products::f64}}) {
            const auto executor = std::make_shared<torch::TorchExecutor>(program, products);
            profilers.push_back({name, [executor, used = used, &data, &seed](vm::tensor::State& state) {
                                     torch::set_thread_count(used);
                                     return executor->step(state, data, seed);
                                 }});
        }
        return profilers;
    };
#else
    return {};
#endif
}

}  // namespace quern
