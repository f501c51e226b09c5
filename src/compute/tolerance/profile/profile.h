// Profilers of a training on this machine: how far fast backends, each given as its steps, are from the canonical
// replay of the first segments, which limits are derived from (doc/tolerance.md, "Limits"). Used by submitters and by
// what measures tolerance mode. One thread, and a pool.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "compute/program/measured_run.h"
#include "compute/tolerance/distance/distance_program.h"
#include "compute/tolerance/limits.h"
#include "vm/tensor/executor.h"

namespace quern::compute::tolerance::profile {

// The verifier's side: replays and distances. What is given outlives it.
class Meter {
public:
    // `segment`: of `training`. `data` has all that is asked for.
    Meter(const vm::tensor::Program& training, const distance::SegmentPrograms& segment,
          const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed, ThreadPool* pool,
          const Cancellation* cancellation = nullptr,
          vm::tensor::arith::Backend backend = vm::tensor::arith::best_backend());

    // Errors: tolerance.no_replay (cancelled, or data that cannot be had); of measure executor.bad_state, too.
    [[nodiscard]] Status replay(vm::tensor::State& state, std::uint64_t steps);
    [[nodiscard]] Expected<Measured> measure(const vm::tensor::State& previous, const vm::tensor::State& replayed,
                                             const vm::tensor::State& claimed);

private:
    const distance::SegmentPrograms& segment_;
    const vm::tensor::DataSource& data_;
    const vm::tensor::Tensor& seed_;
    vm::tensor::Executor replayer_;
    vm::tensor::Executor measurer_;
};

// A backend: state := the state after the next step. It is called again and again, each time with a state of its own.
struct Profiler {
    std::string name;
    program::StepFunction step;
};
// Backends of this machine for a program; program, data and seed outlive what is made. As many as limits are derived of
// at least, the fastest first. Errors: those of what they are made of.
using MakeProfilers = std::function<Expected<std::vector<Profiler>>(
    const vm::tensor::Program& program, const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed,
    std::size_t threads)>;
// A segment that a profiler has measured; `done` of `all` are then.
using Told =
    std::function<void(const Profiler& profiler, const Measured& measured, std::uint64_t done, std::uint64_t all)>;

// A segment of k steps that begins with `state`, which becomes where its canonical replay ends, of each profiler. After
// an error the state is as it was. Errors: those of Meter and of the profilers' steps.
[[nodiscard]] Expected<std::vector<Measured>> profile_segment(
    Meter& meter, std::span<const Profiler> profilers, vm::tensor::State& state, std::uint64_t k,
    const std::function<void(const Profiler&, const Measured&)>& told = {});

// The first `segments` segments of k steps each from `state` on, of each profiler: each segment begins where the
// canonical replay of the one before ended. Errors: those of profile_segment.
[[nodiscard]] Expected<std::vector<Profile>> profile_segments(Meter& meter, std::span<const Profiler> profilers,
                                                              vm::tensor::State state, std::uint64_t k,
                                                              std::uint64_t segments, const Told& told = {});

// Terms as people write them.
struct TermNumbers {
    float cap = 1e-2F;      // l2 of a segment
    float history_cap = 0;  // of all segments together; 0: the cap of each
    float range = 16;
    float l2 = 0, linf = 0, moments = 0, rest = 0;  // allowances

    [[nodiscard]] Terms of(std::uint64_t segments) const;
};

}  // namespace quern::compute::tolerance::profile
