// Canonical kernels against libtorch (and the BLAS library under it) with the same number of threads.
#include "base/rng.h"
#include "bench/cases.h"
#include "vm/tensor/executor.h"
#ifdef QUERN_WITH_TORCH
#include "bench/torch_reference.h"
#include "compute/torch/torch_executor.h"
#endif

namespace quern::bench {
namespace {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::Tensor;
using vm::tensor::arith::Backend;
using vm::tensor::arith::ElementOp;

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
    SeededRng rng(seed);
    Tensor tensor{DType::f32, shape, {}};
    for (std::uint64_t i = 0; i < shape.elements(); ++i) {
        const float value = static_cast<float>(rng.below(1U << 24)) * 0x1p-22F - 2.0F;
        tensor.words.push_back(__builtin_bit_cast(std::uint32_t, value));
    }
    return tensor;
}

// A node of the program on slots of these shapes, through the executor's own step: what training runs.
struct OneOp {
    Program program;
    std::vector<Tensor> inputs;

    explicit OneOp(const std::vector<Shape>& shapes) {
        for (const Shape& shape : shapes) {
            const auto index = static_cast<std::uint32_t>(program.nodes.size());
            program.nodes.push_back({Op::slot, {}, DType::f32, shape, {}, 0, {index}});
            inputs.push_back(random_tensor(shape, index + 1));
        }
    }
    std::uint32_t add(Node node) {
        program.nodes.push_back(std::move(node));
        return static_cast<std::uint32_t>(program.nodes.size() - 1);
    }
};

void set_torch_threads([[maybe_unused]] std::size_t threads) {
#ifdef QUERN_WITH_TORCH
    compute::torch_backend::set_thread_count(static_cast<int>(threads));
#endif
}

constexpr std::size_t kThreadCounts[] = {1, 2};

std::string threads_text(std::size_t threads) {
    return threads == 1 ? "1 thread" : std::to_string(threads) + " threads";
}

struct MatmulSize {
    std::uint32_t m, n, k;
};

}  // namespace

void bench_matmul(Bench& bench) {
    // The demo's own (rows 1,024) and square ones.
    static constexpr MatmulSize kSizes[] = {{1024, 192, 64}, {1024, 64, 256}, {64, 256, 1024},
                                            {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}};
    for (const std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        set_torch_threads(threads);
        for (const auto& [m, n, k] : kSizes) {
            OneOp op({Shape{{1, 1, m, k}}, Shape{{1, 1, k, n}}});
            const auto node = op.add({Op::matmul, {}, DType::f32, Shape{{1, 1, m, n}}, {0, 1}, 0, {0, 0}});
            const Tensor* const inputs[] = {&op.inputs[0], &op.inputs[1]};
            std::vector<std::function<void()>> functions{[&] {
                keep(vm::tensor::execute_node(op.program, node, inputs, vm::tensor::arith::best_backend(), &pool));
            }};
#ifdef QUERN_WITH_TORCH
            TorchMatmul torch(m, n, k);
            functions.push_back([&] { torch.run(); });
#endif
            const auto timings = bench.time(functions);
            const std::string name = "matmul " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                                     ", " + threads_text(threads);
            char note[64];
            std::snprintf(note, sizeof note, "%.1f GFLOP/s", 2e-9 * m * n * k / timings[0].median);
            bench.add_time(name, timings[0], 1, "torch", timings.size() > 1 ? &timings[1] : nullptr, 1, note);
        }
    }
    // The same product on each backend: what the reference and the chain's own arithmetic cost.
    OneOp op({Shape{{1, 1, 128, 128}}, Shape{{1, 1, 128, 128}}});
    const auto node = op.add({Op::matmul, {}, DType::f32, Shape{{1, 1, 128, 128}}, {0, 1}, 0, {0, 0}});
    const Tensor* const inputs[] = {&op.inputs[0], &op.inputs[1]};
    for (const Backend backend : vm::tensor::arith::kBackends) {
        if (!vm::tensor::arith::available(backend)) continue;
        const auto timings =
            bench.time({[&] { keep(vm::tensor::execute_node(op.program, node, inputs, backend, nullptr)); }});
        bench.add_time("matmul 128x128x128, " + std::string(vm::tensor::arith::name(backend)), timings[0], 1);
    }
}

void bench_elementwise(Bench& bench) {
    constexpr std::uint32_t kRows = 1024;
    constexpr std::uint32_t kColumns = 256;
    const Shape shape{{1, 1, kRows, kColumns}};
    const Shape row{{1, 1, kRows, 1}};
    struct Entry {
        const char* name;
        ElementOp op;
        int torch;
    };
    static constexpr Entry kEntries[] = {{"exp", ElementOp::exp, 0},
                                         {"tanh", ElementOp::tanh, 1},
                                         {"sigmoid", ElementOp::sigmoid, 2},
                                         {"add", ElementOp::add, 3},
                                         {"softmax", ElementOp::exp, 4}};
    for (const std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        set_torch_threads(threads);
        for (const Entry& entry : kEntries) {
            const Backend backend = vm::tensor::arith::best_backend();
            OneOp op({shape, shape, row, row});
            const bool binary = entry.op == ElementOp::add;
            const auto node = op.add({Op::elementwise,
                                      entry.op,
                                      DType::f32,
                                      shape,
                                      binary ? std::vector<std::uint32_t>{0, 1} : std::vector<std::uint32_t>{0},
                                      0,
                                      {}});
            const auto highest = op.add({Op::max_last, {}, DType::f32, row, {0}, 0, {}});
            const auto shifted = op.add({Op::elementwise, ElementOp::sub, DType::f32, shape, {0, 2}, 0, {}});
            const auto sum = op.add({Op::sum_last, {}, DType::f32, row, {0}, 0, {}});
            const auto divided = op.add({Op::elementwise, ElementOp::div, DType::f32, shape, {0, 2}, 0, {}});
            const auto run = [&](std::uint32_t n, std::initializer_list<const Tensor*> inputs) {
                const std::vector<const Tensor*> list(inputs);
                return vm::tensor::execute_node(op.program, n, list, backend, &pool);
            };
            const Tensor& x = op.inputs[0];
            std::vector<std::function<void()>> functions;
            if (entry.torch != 4) {
                functions.push_back([&] { keep(binary ? run(node, {&x, &op.inputs[1]}) : run(node, {&x})); });
            } else {
                functions.push_back([&] {  // node by node, without the executor's fusion
                    const Tensor top = run(highest, {&x});
                    const Tensor low = run(shifted, {&x, &top});
                    const Tensor weights = run(node, {&low});
                    const Tensor total = run(sum, {&weights});
                    keep(run(divided, {&weights, &total}));
                });
            }
#ifdef QUERN_WITH_TORCH
            TorchElementwise torch(static_cast<Chain>(entry.torch), kRows, kColumns);
            functions.push_back([&] { torch.run(); });
#endif
            const auto timings = bench.time(functions);
            bench.add_time(std::string(entry.name) + " of 262,144 elements, " + threads_text(threads), timings[0], 1,
                           "torch", timings.size() > 1 ? &timings[1] : nullptr);
        }
    }
}

}  // namespace quern::bench
