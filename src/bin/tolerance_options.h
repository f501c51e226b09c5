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

// What a submitter asks for, as people write it; 0 of history_cap: as much as all segments may have at the cap.
struct ToleranceTerms {
    float cap = 1e-2F;
    float history_cap = 0;
    float range = 16;
    float l2 = 0, linf = 0, moments = 0, rest = 0;  // allowances

    [[nodiscard]] compute::tolerance::Terms of(std::uint64_t segments) const {
        const auto word = [](float x) { return __builtin_bit_cast(std::uint32_t, x); };
        const float all = history_cap > 0 ? history_cap : cap * static_cast<float>(segments);
        return {word(cap), word(all), segments, word(range), {word(l2), word(linf), word(moments), word(rest)}};
    }
};

inline void add_tolerance_terms(CLI::App& app, ToleranceTerms& terms, CLI::Option* mode) {
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

// One thread, all threads, products in double precision. Empty where the program was built without libtorch. They refer
// to what is given.
inline std::vector<compute::tolerance::profile::Profiler> torch_profilers(const vm::tensor::Program& program,
                                                                          const vm::tensor::DataSource& data,
                                                                          const vm::tensor::Tensor& seed,
                                                                          std::size_t threads) {
    std::vector<compute::tolerance::profile::Profiler> profilers;
#ifdef QUERN_WITH_TORCH
    namespace torch = compute::torch_backend;
    const int all = static_cast<int>(std::max<std::size_t>(1, threads));
    for (const auto& [name, used, products] : {std::tuple{"f32, one thread", 1, torch::Products::f32},
                                               std::tuple{"f32, all threads", all, torch::Products::f32},
                                               std::tuple{"f64 products", 1, torch::Products::f64}}) {
        const auto executor = std::make_shared<torch::TorchExecutor>(program, products);
        profilers.push_back({name, [executor, used = used, &data, &seed](vm::tensor::State& state) {
                                 torch::set_thread_count(used);
                                 return executor->step(state, data, seed);
                             }});
    }
#else
    (void)program, (void)data, (void)seed, (void)threads;
#endif
    return profilers;
}

}  // namespace quern
