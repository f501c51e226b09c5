#include "cuda/measure.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/backends.h"

namespace quern::test {
namespace {

namespace cuda = vm::tensor::cuda;
namespace arith = vm::tensor::arith;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Array = std::vector<u32>;

constexpr double kFloatsPerClock = 2 * 128;  // of a multiprocessor: multiplications and additions of binary32
constexpr int kRounds = 9;
constexpr u64 kLargest = 8192;

class Measurement {
public:
    explicit Measurement(cuda::Device& device) : device_(device) {}
    ~Measurement() {
        for (u32* const each : taken_) device_.release(each);
    }
    Measurement(const Measurement&) = delete;
    Measurement& operator=(const Measurement&) = delete;

    u32* take(u64 words) {
        u32* data = nullptr;
        note(device_.allocate(words, data));
        if (data != nullptr) taken_.push_back(data);
        return data;
    }
    u32* take(const Array& words) {
        u32* const data = take(words.size());
        if (failure_ == nullptr) note(device_.upload(words.data(), data, words.size() * sizeof(u32)));
        return data;
    }
    Array fetch(const u32* from, u64 words) {
        Array made(words);
        if (failure_ == nullptr) note(device_.download(from, made.data(), words * sizeof(u32)));
        note(device_.wait());
        return made;
    }
    // The median of several runs, in seconds; 0 where it failed.
    double time(const std::vector<cuda::AnyKernel>& kernels) {
        std::vector<double> times;
        for (int round = -2; round < kRounds && failure_ == nullptr; ++round) {
            double seconds = 0;
            note(device_.start_clock());
            for (const cuda::AnyKernel& kernel : kernels) note(device_.run(kernel));
            note(device_.stop_clock(seconds));
            if (round >= 0) times.push_back(seconds);
        }
        if (failure_ != nullptr) return 0;
        std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
        return times[kRounds / 2];
    }
    [[nodiscard]] cuda::Failure failure() const { return failure_; }

private:
    void note(cuda::Failure failure) {
        if (failure_ == nullptr) failure_ = failure;
    }
    cuda::Device& device_;
    cuda::Failure failure_ = nullptr;
    std::vector<u32*> taken_;
};

// Rows and columns of a product that the processor computes as well.
bool same_elements(const Array& a, const Array& b, const Array* scale_a, const Array* scale_b, const Array& c,
                   u64 size) {
    const arith::Kernels& table = *arith::scalar_kernels();
    arith::test::Words words(7);
    const u64 strips = (size + cuda::kProductBlock - 1) / cuda::kProductBlock;
    const auto n = static_cast<std::ptrdiff_t>(size);
    for (int i = 0; i < 64; ++i) {
        const u64 row = words.below(static_cast<u32>(size));
        const u64 column = words.below(static_cast<u32>(size));
        u32 expected = 0;
        const arith::MatrixView left{a.data() + row * size, n, 1};
        const arith::MatrixView right{b.data() + column, n, 1};
        if (scale_a == nullptr)
            table.matmul(1, 1, size, left, right, &expected, 1);
        else
            table.imatmul(1, 1, size, left, {scale_a->data() + row * strips, 1, 1}, right,
                          {scale_b->data() + column, n, 1}, &expected, 1);
        if (expected != c[row * size + column]) return false;
    }
    return true;
}

}  // namespace

void measure(cuda::Device& device, unsigned& passed, unsigned& failed) {
    const double peak = device.multiprocessors() * device.clock_hz() * kFloatsPerClock;
    std::printf("card: %s, %u multiprocessors, %.0f MHz at most, f32 %.1f TFLOP/s at most, %.1f GiB free\n",
                device.name().c_str(), device.multiprocessors(), device.clock_hz() / 1e6, peak / 1e12,
                static_cast<double>(device.free_bytes()) / static_cast<double>(1ULL << 30));
    const auto report = [&](bool good, const std::string& what) {
        (good ? passed : failed) += 1;
        std::printf("%s %s\n", good ? "ok  " : "FAIL", what.c_str());
    };
    arith::test::Words words(5);
    char line[200];
    for (u64 size = 512; size <= kLargest; size *= 2) {
        Measurement here(device);
        const Array a = words.usual(size * size);
        const Array b = words.usual(size * size);
        const u64 strips = (size + cuda::kProductBlock - 1) / cuda::kProductBlock;
        const Array scales = words.usual(size * strips);
        const u32 n = static_cast<u32>(size);
        const auto stride = static_cast<cuda::i64>(size);
        cuda::ProductCall call{{n, n, n, n, 1, 1}, {}, {}, {}, {}, nullptr};
        u32* const left = here.take(a);
        u32* const right = here.take(b);
        call.scale_a = {here.take(scales), static_cast<cuda::i64>(strips), 1, 0, 0};
        call.scale_b = {here.take(scales), 1, stride, 0, 0};
        call.c = here.take(size * size);
        if (here.failure() != nullptr) return report(false, here.failure());
        const double operations =
            2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
        struct Way {
            const char* name;
            cuda::i64 a_line, a_along, b_line, b_along;
        };
        const Way ways[] = {
            {"A B", stride, 1, 1, stride}, {"A B^T", stride, 1, stride, 1}, {"A^T B", 1, stride, 1, stride}};
        for (const Way& way : ways) {
            call.a = {left, way.a_line, way.a_along, 0, 0};
            call.b = {right, way.b_line, way.b_along, 0, 0};
            const double seconds = here.time({cuda::matmul(call)});
            bool good = here.failure() == nullptr;
            if (good && &way == ways)
                good = same_elements(a, b, nullptr, nullptr, here.fetch(call.c, size * size), size);
            std::snprintf(line, sizeof line, "matmul %s of %" PRIu64 ": %.3f ms, %.2f TFLOP/s, %.1f %% of the peak",
                          way.name, size, 1e3 * seconds, operations / seconds / 1e12,
                          100 * operations / seconds / peak);
            report(good, good ? line : std::string(line) + ", wrong or failed");
        }
        call.a = {left, stride, 1, 0, 0};
        call.b = {right, 1, stride, 0, 0};
        const double seconds = here.time({cuda::imatmul(call)});
        const bool good =
            here.failure() == nullptr && same_elements(a, b, &scales, &scales, here.fetch(call.c, size * size), size);
        std::snprintf(line, sizeof line, "imatmul of %" PRIu64 ": %.3f ms, %.2f TOP/s", size, 1e3 * seconds,
                      operations / seconds / 1e12);
        report(good, good ? line : std::string(line) + ", wrong or failed");
    }
    Measurement here(device);
    const u32 side = 16384;
    const u64 count = u64{side} * side;
    const double bytes = static_cast<double>(count) * sizeof(u32);
    const Array piece = words.usual(count / 16);
    u32* const x = here.take(count);
    u32* const y = here.take(count);
    u32* const out = here.take(count);
    for (u64 i = 0; i < 16 && here.failure() == nullptr; ++i)
        for (u32* const to : {x, y})
            if (device.upload(piece.data(), to + i * piece.size(), piece.size() * sizeof(u32)) != nullptr)
                return report(false, "upload");
    const auto moved = [&](const char* what, double amount, const std::vector<cuda::AnyKernel>& kernels) {
        const double seconds = here.time(kernels);
        std::snprintf(line, sizeof line, "%s: %.3f ms, %.0f GB/s", what, 1e3 * seconds, amount / seconds / 1e9);
        report(here.failure() == nullptr, here.failure() == nullptr ? line : std::string(what) + ": " + here.failure());
    };
    cuda::Elementwise element;
    element.count = static_cast<u32>(count);
    element.operands[0] = {x, cuda::merged({1, 1, side, side}, {0, 0, side, 1})};
    element.operands[1] = {y, element.operands[0].layout};
    element.out = out;
    for (const arith::ElementOp op : {arith::ElementOp::add, arith::ElementOp::exp, arith::ElementOp::tanh}) {
        element.op = op;
        element.arity = arith::find_element_op(op)->arity;
        moved(std::string(arith::find_element_op(op)->name).c_str(), bytes * (op == arith::ElementOp::add ? 3 : 2),
              {element});
    }
    cuda::Copy copy;
    copy.from = x;
    copy.to = out;
    copy.source = cuda::merged({1, 1, side, side}, {0, 0, 1, side});
    copy.target = cuda::merged({1, 1, side, side}, {0, 0, side, 1});
    moved("transpose", 2 * bytes, {copy});
    cuda::SumLast last;
    last.rows.data = x;
    last.rows.dims[2] = side;
    last.rows.strides[2] = side;
    last.columns = side;
    last.out = out;
    moved("sum_last", bytes, {last});
    cuda::SumRowBlocks blocks;
    blocks.matrices.data = x;
    blocks.row_count = blocks.columns = side;
    blocks.stride = side;
    blocks.out = y;
    cuda::SumTotals totals;
    totals.sums = y;
    totals.matrices = 1;
    totals.row_blocks = blocks.row_blocks();
    totals.columns = side;
    totals.out = out;
    moved("sum_rows", bytes, {blocks, totals});
    cuda::TileHashes hashes;
    hashes.words = x;
    hashes.rows = hashes.columns = side;
    hashes.hashes = out;
    moved("tile hashes", bytes, {hashes});
}

}  // namespace quern::test
