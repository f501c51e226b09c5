// Whole steps of a program on a card: bit for bit the processor's, and how long they take.
//
//     quern-cuda-step PROGRAM [--steps N] [--emulated] [--no-compare]
//
// PROGRAM is a file of quern-compile's; state and data are random. One step is compared with the processor's, unless
// --no-compare; then N steps are timed one by one (10 without --steps), the state staying on the card, and the hashing
// of the state there. Ends with "N passed, N failed[, N skipped]".
#include <algorithm>
#include <bit>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/fs.h"
#include "support/emulated_device.h"
#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/device_run.h"

namespace {

using namespace quern;
using namespace quern::vm::tensor;

constexpr double kFloatsPerClock = 2 * 128;  // of a multiprocessor
constexpr std::uint64_t kMaxDataBytes = 1ULL << 32;

using Clock = std::chrono::steady_clock;
double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

// Small numbers, as parameters and moments are: squares are not negative.
State random_state(const Program& program) {
    arith::test::Words words(3);
    State state;
    for (const Slot& slot : program.slots) {
        Tensor tensor{slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())};
        const bool is_moment = slot.name.find(".v.") != std::string::npos;
        for (std::uint32_t& word : tensor.words)
            if (slot.dtype == DType::f32)
                word = words.real_word(is_moment ? 1e-4F : 0.05F) & (is_moment ? 0x7fffffffU : ~0U);
        state.push_back(std::move(tensor));
    }
    return state;
}

Expected<MemoryData> random_data(const Program& program) {
    arith::test::Words words(4);
    std::vector<Bytes> sets;
    for (const DataSet& set : program.header.data) {
        if (data_bytes(set) > kMaxDataBytes) return fail("step.too_much_data", "a data tensor has more than 4 GiB");
        Bytes bytes(data_bytes(set));
        for (std::size_t i = 0; i < bytes.size(); ++i)  // of integers the lowest byte alone: tokens of any vocabulary
            bytes[i] = i % element_bytes(set.type) == 0 ? static_cast<std::uint8_t>(words.bits()) : 0;
        sets.push_back(std::move(bytes));
    }
    return MemoryData(std::move(sets));
}

// Multiplications and additions of its f32 products.
double product_operations(const Program& program) {
    double sum = 0;
    for (const Node& node : program.nodes) {
        if (node.op != Op::matmul) continue;
        const Shape& left = program.nodes[node.inputs[0]].shape;
        sum += 2.0 * static_cast<double>(node.shape.elements()) * left.dims[node.attributes[0] != 0 ? 2 : 3];
    }
    return sum;
}

struct Options {
    std::string program;
    std::uint64_t steps = 10;
    bool emulated = false;
    bool compare = true;
};

Status run(const Options& options, cuda::Device& device) {
    QUERN_TRY(const Bytes file, fs::read_file(options.program, kMaxProgramBytes));
    QUERN_TRY(const Program program, decode_program(file));
    QUERN_TRY(const MemoryData data, random_data(program));
    const State before = random_state(program);
    const Tensor seed = seed_tensor(Hash32{});
    ThreadPool pool(std::max(1U, std::thread::hardware_concurrency()));
    const ExecutionPlan plan = make_plan(program, &arith::kernels(arith::best_backend()), PlanMode::step);
    DeviceRun device_run(program, plan, device, &pool, nullptr);
    std::printf("card: %s, step of %zu nodes in %zu parts, %.2f GiB of %.2f\n", device.name().c_str(),
                program.nodes.size(), plan.steps.size(), static_cast<double>(device_run.bytes()) / (1ULL << 30),
                static_cast<double>(device.free_bytes()) / (1ULL << 30));
    QUERN_CHECK(device_run.load(before));
    QUERN_TRY(const bool is_complete, device_run.step(data, seed));
    if (!is_complete) return fail("step.incomplete", "the step did not end");
    if (options.compare) {
        State found = before;
        QUERN_CHECK(device_run.store(found, {}));
        State wanted = before;
        const auto start = Clock::now();
        Executor(program, arith::best_backend(), &pool).step(wanted, data, seed);
        std::printf("processor: %.1f ms, %s, %zu threads\n", milliseconds(Clock::now() - start),
                    std::string(arith::name(arith::best_backend())).c_str(), pool.size());
        for (std::size_t slot = 0; slot < wanted.size(); ++slot)
            if (found[slot] != wanted[slot]) return fail("step.differs", "slot " + program.slots[slot].name);
        QUERN_TRY(const std::vector<Hash32> roots, device_run.slot_roots());
        if (roots != slot_roots(wanted, &pool)) return fail("step.differs", "roots of the state");
    }
    std::vector<double> times;
    for (std::uint64_t step = 0; step < options.steps; ++step) {
        const auto start = Clock::now();
        QUERN_TRY(const bool done, device_run.step(data, seed));
        if (!done) return fail("step.incomplete", "a step did not end");
        times.push_back(milliseconds(Clock::now() - start));
    }
    if (times.empty()) return {};
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    const double time = times[times.size() / 2];
    const auto start = Clock::now();
    QUERN_TRY(const std::vector<Hash32> roots, device_run.slot_roots());
    const double hashing = milliseconds(Clock::now() - start);
    const double rate = product_operations(program) / time * 1e3;
    const double peak = device.multiprocessors() * device.clock_hz() * kFloatsPerClock;
    std::printf("step: %.2f ms, %.2f TFLOP/s in its products, %.1f %% of the peak\n", time, rate / 1e12,
                peak == 0 ? 0 : 100 * rate / peak);
    std::printf("roots of %zu slots: %.2f ms, %.1f %% of the step\n", roots.size(), hashing, 100 * hashing / time);
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--emulated") {
            options.emulated = true;
        } else if (option == "--no-compare") {
            options.compare = false;
        } else if (option == "--steps" && i + 1 < argc) {
            options.steps = std::strtoull(argv[++i], nullptr, 10);
        } else if (option.substr(0, 1) != "-" && options.program.empty()) {
            options.program = option;
        } else {
            std::fprintf(stderr, "quern-cuda-step: %s: unknown, or without its value\n", argv[i]);
            return 2;
        }
    }
    if (options.program.empty()) {
        std::fprintf(stderr, "quern-cuda-step: give a program's file\n");
        return 2;
    }
    std::string why;
    std::unique_ptr<cuda::Device> device;
    if (options.emulated)
        device = std::make_unique<quern::test::EmulatedDevice>(quern::test::ThreadOrder::ascending);
    else
        device = cuda::open_device(why);
    if (device == nullptr) {
        std::printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", why.c_str());
        return 0;
    }
    const Status status = run(options, *device);
    if (!status) std::printf("FAIL %s\n", status.error().to_string().c_str());
    std::printf("%d passed, %d failed\n", status ? 1 : 0, status ? 0 : 1);
    return status ? 0 : 1;
}
