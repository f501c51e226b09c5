// One training step of the demo's transformer, what committing to its result costs, and what a verifier's probed step
// and a dispute's take besides.
#include "bench/architectures.h"
#include "bench/cases.h"
#include "compute/core/dispute_strategy.h"
#include "support/training_game.h"
#include "vm/tensor/executor.h"
#ifdef QUERN_WITH_TORCH
#include "bench/torch_reference.h"
#include "compute/torch/torch_executor.h"
#endif

namespace quern::bench {
namespace {

constexpr std::uint32_t kWindows = 4'736;

const test::Training& demo_training() {
    static const test::Training training = test::train(test::demo_architecture(kWindows), 0);
    return training;
}

[[maybe_unused]] double loss_in(const test::Training& training, const vm::tensor::State& state) {
    return static_cast<double>(__builtin_bit_cast(float, state[training.program().header.loss_slot].words[0]));
}

std::uint64_t bytes_of(const vm::tensor::Shape& shape) { return shape.elements() * sizeof(std::uint32_t); }

// Run, and the state that it begins with, by the plans alone: no memory is taken.
void add_memory(Bench& bench, const std::string& model, const vm::tensor::Program& program) {
    std::uint64_t state = 0;
    for (const auto& slot : program.slots) state += bytes_of(slot.shape);
    std::uint64_t outputs = 0;
    for (const auto& node : program.nodes) outputs += bytes_of(node.shape);
    const auto megabytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    const Reference step{"training step", megabytes(state + vm::tensor::step_bytes(program))};
    const auto add = [&](const char* what, std::uint64_t bytes) {
        bench.add({what + model, megabytes(state + bytes), "MB", 0, 0, step, 0, {}});
    };
    add("memory of a probed step, ", vm::tensor::tapped_bytes(program));
    add("memory of a dispute's run, ", compute::core::dispute_bytes(program, 1));
    add("memory of all outputs, ", outputs);
}

}  // namespace

namespace {

#ifdef QUERN_WITH_TORCH
// The three must be the same training, or the comparison means nothing.
template <class Hand>
void check_losses(const test::Training& training, vm::tensor::Executor& executor, Hand hand_written) {
    vm::tensor::State check = training.states[0];
    for (int step = 0; step < 3; ++step) {
        executor.step(check, training.data, training.seed);
        const double difference = loss_in(training, check) - hand_written.step();
        if (!(difference < 1e-3 && difference > -1e-3))
            give_up("the hand-written model's loss differs by " + std::to_string(difference));
    }
}
#endif

// A step of it beside the same in torch, on one thread and on two. `hand_written(training)` makes torch's side.
template <class HandWritten>
void time_steps(Bench& bench, const std::string& name, const test::Training& training,
                [[maybe_unused]] const HandWritten& hand_written) {
    for (const std::size_t threads : {1U, 2U}) {
        ThreadPool pool(threads);
        const std::string suffix = threads == 1 ? ", 1 thread" : ", 2 threads";
        vm::tensor::Executor executor(training.program(), vm::tensor::arith::best_backend(), &pool);
        vm::tensor::State ours = training.states[0];
        std::vector<std::function<void()>> functions{[&] { executor.step(ours, training.data, training.seed); }};
#ifdef QUERN_WITH_TORCH
        compute::torch_backend::set_thread_count(static_cast<int>(threads));
        check_losses(training, executor, hand_written(training));
        using compute::torch_backend::Products;
        compute::torch_backend::TorchExecutor same_program(training.program());
        compute::torch_backend::TorchExecutor mixed(training.program(), {.products = Products::bf16});
        vm::tensor::State theirs = training.states[0];
        vm::tensor::State mixed_state = training.states[0];
        auto by_hand = hand_written(training);
        functions.push_back([&] { must(same_program.step(theirs, training.data, training.seed), "torch step"); });
        functions.push_back([&] { keep(by_hand.step()); });
        functions.push_back([&] { must(mixed.step(mixed_state, training.data, training.seed), "torch step"); });
#endif
        const auto timings = bench.time(functions);
        if (timings.size() == 1) {
            bench.add_time(name + suffix, timings[0], 1);
            continue;
        }
        bench.add_time(name + suffix, timings[0], 1, "torch, hand-written", &timings[2]);
        bench.add_time(name + suffix, timings[0], 1, "torch, same program", &timings[1]);
        bench.add_time(name + suffix, timings[0], 1, "torch, same program, bf16 products", &timings[3]);
    }
}

#ifdef QUERN_WITH_TORCH
auto torch_transformer(const compute::program::Architecture& architecture) {
    return [architecture](const test::Training& training) { return TorchTransformer(architecture, training); };
}
auto torch_convolution(const compute::program::Architecture& architecture) {
    return [architecture](const test::Training& training) { return TorchConvolution(architecture, training); };
}
#else
int torch_transformer(const compute::program::Architecture&) { return 0; }
int torch_convolution(const compute::program::Architecture&) { return 0; }
#endif

compute::program::Architecture convolution_architecture() {
    compute::program::Architecture architecture = image_network({32, 64, 128}, false);
    architecture.optimizer.weight_decay = 0;
    return architecture;
}

}  // namespace

void bench_training(Bench& bench) {
    time_steps(bench, "training step, canonical", demo_training(),
               torch_transformer(test::demo_architecture(kWindows)));
}

void bench_reference_transformer(Bench& bench) {
    const auto architecture = reference_transformer();
    time_steps(bench, "step of the reference transformer", test::train(architecture, 0),
               torch_transformer(architecture));
}

void bench_bytes(Bench& bench) {
    auto architecture = reference_transformer();
    const test::Training floats = test::train(architecture, 0);
    architecture.transformer().precision = architecture.transformer().head_precision =
        compute::program::TransformerSpec::Precision::int8;
    const test::Training bytes = test::train(architecture, 0);
    for (const std::size_t threads : {1U, 2U}) {
        ThreadPool pool(threads);
        const auto backend = vm::tensor::arith::best_backend();
        vm::tensor::Executor with_bytes(bytes.program(), backend, &pool);
        vm::tensor::Executor with_floats(floats.program(), backend, &pool);
        vm::tensor::State of_bytes = bytes.states[0];
        vm::tensor::State of_floats = floats.states[0];
        const auto timings = bench.time({[&] { with_bytes.step(of_bytes, bytes.data, bytes.seed); },
                                         [&] { with_floats.step(of_floats, floats.data, floats.seed); }});
        bench.add_time(
            "step of the reference transformer in bytes" + std::string(threads == 1 ? ", 1 thread" : ", 2 threads"),
            timings[0], 1, "in f32", &timings[1]);
    }
}

void bench_convolution(Bench& bench) {
    const auto architecture = convolution_architecture();
    time_steps(bench, "step of a convolutional network", test::train(architecture, 0), torch_convolution(architecture));
}

void bench_commitment(Bench& bench) {
    const test::Training reference = test::train(reference_transformer(), 0);
    const auto measure = [&](const std::string& name, const test::Training& training, const char* step) {
        for (const std::size_t threads : {1U, 2U}) {
            ThreadPool pool(threads);
            vm::tensor::Executor executor(training.program(), vm::tensor::arith::best_backend(), &pool);
            vm::tensor::State state = training.states[0];
            const auto timings = bench.time({[&] { keep(vm::tensor::state_root(state, &pool)); },
                                             [&] { executor.step(state, training.data, training.seed); }});
            bench.add_time(name + (threads == 1 ? ", 1 thread" : ", 2 threads"), timings[0], 1, step, &timings[1]);
        }
    };
    const test::Training& training = demo_training();
    measure("state commitment", training, "training step");
    measure("commitment of the reference transformer", reference, "its step");
    std::uint64_t bytes = 0;
    for (const auto& tensor : training.states[0]) bytes += bytes_of(tensor.shape);
    bench.add_count("state size", static_cast<double>(bytes), "bytes");
}

void bench_tapped(Bench& bench) {
    const test::Training& training = demo_training();
    const auto probed = static_cast<std::uint32_t>(training.program().nodes.size() / 2);
    for (const std::size_t threads : {1U, 2U}) {
        ThreadPool pool(threads);
        const std::string suffix = threads == 1 ? ", 1 thread" : ", 2 threads";
        vm::tensor::Executor executor(training.program(), vm::tensor::arith::best_backend(), &pool);
        vm::tensor::State plain = training.states[0];
        vm::tensor::State tapped = training.states[0];
        const auto timings = bench.time(
            {[&] { executor.step(plain, training.data, training.seed); },
             [&] {
                 executor.step_tapped(tapped, training.data, training.seed, [&](const auto& node) {
                     if (node.number == probed) keep(vm::tensor::read_tile(node.output, 0));
                 });
             },
             [&] {
                 executor.run_tapped(training.states[0], training.data, training.seed,
                                     [&](const auto& node) { keep(vm::tensor::tensor_root(node.output, &pool)); });
             }});
        bench.add_time("probed step" + suffix, timings[1], 1, "training step", &timings[0]);
        bench.add_time("a dispute's run, all outputs hashed" + suffix, timings[2], 1, "training step", &timings[0]);
    }
    add_memory(bench, "the demo's", training.program());
    compute::program::Architecture gpt2 = test::demo_architecture(16);  // 1,024 tokens and one more
    gpt2.model = compute::program::TransformerSpec{12, 768, 12, 1024, 4, 50257};
    gpt2.batch = 8;
    add_memory(bench, "GPT-2's on 8 x 1,024 tokens",
               must(compute::program::build_training_program(gpt2), "training program").program);
}

}  // namespace quern::bench
