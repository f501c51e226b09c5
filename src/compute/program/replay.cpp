#include "compute/program/replay.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace quern::compute::program {

namespace tensor = vm::tensor;

std::uint64_t replay_bytes(const core::TaskPrograms& programs) {
    std::uint64_t bytes = programs.any().header.sizes.state_bytes;
    for (const tensor::Program& program : programs.programs) bytes += tensor::step_bytes(program);
    return bytes;
}

Status replay(const core::TaskPrograms& programs, tensor::State& state, const tensor::DataSource& data,
              const tensor::Tensor& seed, std::uint64_t first, std::uint64_t last, ThreadPool* pool,
              std::uint64_t memory) {
    if (first == 0 || first > last || last > programs.plan.steps())
        return fail("replay.bad_range", std::to_string(first) + " to " + std::to_string(last) + " of " +
                                            std::to_string(programs.plan.steps()) + " steps");
    QUERN_CHECK(tensor::check_state(programs.any(), state));
    QUERN_CHECK(check_memory(replay_bytes(programs), memory));
    std::deque<tensor::Executor> executors;
    for (const tensor::Program& program : programs.programs)
        executors.emplace_back(program, tensor::arith::best_backend(), pool);
    for (std::uint64_t step = first; step <= last; ++step)
        if (!executors[programs.plan.program_of(step)].step(state, data, seed))
            return fail("replay.no_data", "step " + std::to_string(step));
    return {};
}

std::optional<Difference> difference(const tensor::Program& program, const tensor::State& a, const tensor::State& b) {
    std::optional<Difference> found;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if (a[s].words == b[s].words) continue;
        if (found) {
            ++found->slots;
            continue;
        }
        found = Difference{program.slots[s].name, 0, std::nullopt, 1};
        double largest = 0;
        bool are_numbers = a[s].dtype == tensor::DType::f32;
        for (std::size_t i = 0; i < a[s].words.size(); ++i) {
            if (a[s].words[i] == b[s].words[i]) continue;
            ++found->elements;
            const double gap = std::fabs(static_cast<double>(__builtin_bit_cast(float, a[s].words[i])) -
                                         static_cast<double>(__builtin_bit_cast(float, b[s].words[i])));
            are_numbers = are_numbers && std::isfinite(gap);
            largest = std::max(largest, gap);
        }
        if (are_numbers) found->largest = largest;
    }
    return found;
}

}  // namespace quern::compute::program
