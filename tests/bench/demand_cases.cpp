// What a task asks of who works for it, on one machine: memory by the plans, and how fast a state is committed to.
#include <thread>

#include "bench/cases.h"
#include "bench/market_task.h"
#include "compute/core/dispute_strategy.h"
#include "crypto/hash.h"

namespace quern::bench {
namespace {

using vm::tensor::Program;

constexpr double kParameter = 4;  // bytes of a word

Program program_of(const ModelSize& size) {
    return must(compute::program::build_training_program(architecture_of(size)), "training program").program;
}

std::uint64_t bytes_of(const vm::tensor::Shape& shape) { return shape.elements() * sizeof(std::uint32_t); }

void add_memory(Bench& bench, const ModelSize& size) {
    const Program program = program_of(size);
    std::uint64_t parameters = 0;
    std::uint64_t state = 0;
    for (const auto& slot : program.slots) {
        state += bytes_of(slot.shape);
        if ((slot.flags & vm::tensor::kSlotParameter) != 0) parameters += slot.shape.elements();
    }
    const auto a_parameter = [&](std::uint64_t bytes) {
        return static_cast<double>(bytes) / static_cast<double>(parameters);
    };
    const double solver = a_parameter(state + vm::tensor::step_bytes(program));
    const double sixteen = 4 * kParameter;  // parameter, two moments, gradient
    const std::string what = std::string(", ") + size.name;
    bench.add({"solver, bytes a parameter" + what,
               solver,
               "bytes",
               0,
               0,
               Reference{"parameter, moments, gradient", sixteen},
               solver / sixteen,
               {}});
    const double allowed = a_parameter(program.header.sizes.peak_bytes);
    bench.add({"solver, bytes a parameter" + what,
               solver,
               "bytes",
               0,
               0,
               Reference{"peak bytes of the header", allowed},
               solver / allowed,
               {}});
    const double disputant = a_parameter(state + compute::core::dispute_bytes(program, 1));
    bench.add({"disputant, bytes a parameter" + what,
               disputant,
               "bytes",
               0,
               0,
               Reference{"solver", solver},
               disputant / solver,
               {}});
}

}  // namespace

void bench_demand(Bench& bench) {
    for (const ModelSize& size : kModels) add_memory(bench, size);
    const Program program = program_of(kModels[0]);
    vm::tensor::State state;
    std::size_t bytes = 0;
    for (const auto& slot : program.slots) {
        state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements(), 0x3c000000)});
        bytes += bytes_of(slot.shape);
    }
    // Raw: as many bytes through SHA-256 on one thread.
    const Bytes raw(bytes, 7);
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t threads = 1; threads <= cores; threads *= 2) {
        ThreadPool pool(threads);
        const auto timings =
            bench.time({[&] { keep(vm::tensor::slot_roots(state, &pool)); }, [&] { keep(crypto::sha256(raw)); }});
        const double giga = static_cast<double>(bytes) / 1e9;
        const double commit = giga / timings[0].median;
        const double reference = giga / timings[1].median * static_cast<double>(threads);
        bench.add({"commitment, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
                   commit,
                   "GB/s",
                   giga / timings[0].high,
                   giga / timings[0].low,
                   Reference{"SHA-256 of one core times threads", reference},
                   commit / reference,
                   {}});
    }
}

}  // namespace quern::bench
