// Canonical kernels against libtorch (and the BLAS library under it) with the same number of threads. Ours run as step
// programs of one op through the executor, as training does; torch's write into a tensor that is there.
#include "bench/cases.h"
#include "bench/one_op.h"
#include "compute/program/composite.h"
#include "compute/program/quantized.h"
#ifdef QUERN_WITH_TORCH
#include "bench/torch_reference.h"
#include "compute/torch/torch_executor.h"
#endif

namespace quern::bench {
namespace {

using compute::program::Builder;
using compute::program::Initializer;
using compute::program::matrix_shape;
using compute::program::Value;
using vm::tensor::DType;
using vm::tensor::Shape;
using vm::tensor::arith::Backend;
using vm::tensor::arith::ElementOp;

Value product(Builder& b, const std::vector<Value>& in) { return b.matmul(in[0], in[1]); }

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
    // The demo's own (its batch has 1,024 rows) and square ones.
    static constexpr MatmulSize kSizes[] = {{1024, 192, 64}, {1024, 64, 256},    {64, 256, 1024},   {256, 256, 256},
                                            {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}};
    for (const std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        set_torch_threads(threads);
        for (const auto& [m, n, k] : kSizes) {
            OneOp ours({matrix_shape(m, k), matrix_shape(k, n)}, product, vm::tensor::arith::best_backend(), &pool);
            std::vector<std::function<void()>> functions{[&] { ours.run(); }};
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
    std::vector<std::unique_ptr<OneOp>> backends;
    std::vector<std::function<void()>> functions;
    std::vector<std::string> names;
    for (const Backend backend : vm::tensor::arith::kBackends) {
        if (!vm::tensor::arith::available(backend)) continue;
        backends.push_back(
            std::make_unique<OneOp>(std::vector<Shape>(2, matrix_shape(128, 128)), product, backend, nullptr));
        names.emplace_back(vm::tensor::arith::name(backend));
    }
    for (const auto& ours : backends) functions.push_back([&ours] { ours->run(); });
    const auto timings = bench.time(functions);
    for (std::size_t i = 0; i < timings.size(); ++i)
        bench.add_time("matmul 128x128x128, " + names[i], timings[i], 1, names.back(), &timings.back());
}

void bench_imatmul(Bench& bench) {
    static constexpr MatmulSize kSizes[] = {{1024, 192, 64},   {1024, 64, 256},    {256, 256, 256},   {512, 512, 512},
                                            {1024, 512, 1024}, {1024, 1024, 1024}, {1024, 2048, 2048}};
    for (const auto& [m, n, k] : kSizes) {
        const std::vector<Shape> shapes{matrix_shape(m, k), matrix_shape(k, n)};
        const auto backend = vm::tensor::arith::best_backend();
        const auto of_bytes = [](Builder& b, const std::vector<Value>& in) {
            const auto operand = [&](Value x, std::size_t axis, const char* name) {
                const Shape scales = vm::tensor::strips_of(b.shape(x), axis);
                return Builder::Scaled{
                    b.slot(std::string("bytes_") + name, DType::i32, b.shape(x), Initializer::zeros()),
                    b.slot(std::string("scales_") + name, DType::f32, scales, Initializer::constant(1.0F))};
            };
            const auto left = operand(in[0], 3, "a");
            return b.imatmul(left, operand(in[1], 2, "b"));
        };
        const auto quantised = [](Builder& b, const std::vector<Value>& in) {
            return compute::program::ByteProducts({}).matmul(b, in[0], in[1]);
        };
        OneOp bytes(shapes, of_bytes, backend, nullptr);
        OneOp both(shapes, quantised, backend, nullptr);
        OneOp floats(shapes, product, backend, nullptr);
        const auto timings = bench.time({[&] { bytes.run(); }, [&] { both.run(); }, [&] { floats.run(); }});
        const std::string size = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        char note[64];
        std::snprintf(note, sizeof note, "%.1f GOP/s", 2e-9 * m * n * k / timings[0].median);
        bench.add_time("imatmul " + size, timings[0], 1, "matmul", &timings[2], 1, note);
        bench.add_time("imatmul " + size + ", quantised", timings[1], 1, "matmul", &timings[2]);
    }
}

void bench_elementwise(Bench& bench) {
    constexpr std::uint32_t kRows = 1024;
    constexpr std::uint32_t kColumns = 256;
    struct Entry {
        const char* name;
        OneOp::Op op;
        int torch;  // bench::Chain
    };
    const Entry entries[] = {
        {"exp", [](Builder& b, const std::vector<Value>& in) { return b.exp(in[0]); }, 0},
        {"tanh", [](Builder& b, const std::vector<Value>& in) { return b.tanh(in[0]); }, 1},
        {"sigmoid", [](Builder& b, const std::vector<Value>& in) { return b.sigmoid(in[0]); }, 2},
        {"add", [](Builder& b, const std::vector<Value>& in) { return b.add(in[0], in[1]); }, 3},
        {"softmax of rows",
         [](Builder& b, const std::vector<Value>& in) { return compute::program::softmax(b, in[0]); }, 4},
    };
    for (const std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        set_torch_threads(threads);
        for (const Entry& entry : entries) {
            OneOp ours({matrix_shape(kRows, kColumns), matrix_shape(kRows, kColumns)}, entry.op,
                       vm::tensor::arith::best_backend(), &pool);
            std::vector<std::function<void()>> functions{[&] { ours.run(); }};
#ifdef QUERN_WITH_TORCH
            TorchElementwise torch(static_cast<Chain>(entry.torch), kRows, kColumns);
            functions.push_back([&] { torch.run(); });
#endif
            const auto timings = bench.time(functions);
            bench.add_time(std::string(entry.name) + ", 1024x256, " + threads_text(threads), timings[0], 1, "torch",
                           timings.size() > 1 ? &timings[1] : nullptr);
        }
    }
}

void bench_row_sums(Bench& bench) {
    struct Size {
        std::uint32_t rows, columns, table;
    };
    // A bias's gradient and an embedding's in the demo, one of a larger model, and a column: nothing to share but
    // blocks.
    static constexpr Size kSizes[] = {{1024, 64, 98}, {4096, 1024, 8192}, {262144, 1, 256}};
    for (const std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        for (const auto& [rows, columns, table] : kSizes) {
            const std::vector<Shape> source{matrix_shape(rows, columns)};
            const auto sum_rows = [](Builder& b, const std::vector<Value>& in) { return b.sum_rows(in[0]); };
            const auto scatter = [rows = rows, table = table](Builder& b, const std::vector<Value>& in) {
                // Ids that repeat within a block and come in no order.
                const Value place =
                    b.elementwise(ElementOp::imul, {b.iota(matrix_shape(rows, 1), 2), b.constant_i32(-1640531527)});
                const Value id = b.elementwise(ElementOp::ishr, {place, b.constant_i32(8)});
                return b.scatter_add_rows(
                    in[0], b.elementwise(ElementOp::irem, {id, b.constant_i32(static_cast<std::int32_t>(table))}),
                    table);
            };
            const auto sum_last = [](Builder& b, const std::vector<Value>& in) { return b.sum_last(in[0]); };
            const Backend backend = vm::tensor::arith::best_backend();
            OneOp over_rows(source, sum_rows, backend, &pool);
            OneOp scattered(source, scatter, backend, &pool);
            OneOp along_rows({matrix_shape(columns, rows)}, sum_last, backend, &pool);
            const auto timings =
                bench.time({[&] { over_rows.run(); }, [&] { scattered.run(); }, [&] { along_rows.run(); }});
            const std::string size =
                std::to_string(rows) + "x" + std::to_string(columns) + ", " + threads_text(threads);
            bench.add_time("sum over rows " + size, timings[0], 1, "sum_last", &timings[2]);
            bench.add_time("scatter of rows " + size, timings[1], 1, "sum_last", &timings[2]);
        }
    }
}

}  // namespace quern::bench
