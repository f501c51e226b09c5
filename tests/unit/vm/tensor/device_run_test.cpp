// Steps on a device give the processor's bits: here on one that runs the kernels' bodies, thread after thread.
#include "vm/tensor/device_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/emulated_device.h"
#include "test_programs.h"
#include "vm/tensor/cuda/driver.h"

#if defined(QUERN_HAVE_CUDA)
extern "C" int cudaPeekAtLastError();  // of the CUDA runtime; 0: none
#endif

namespace quern::vm::tensor {
namespace {

using quern::test::EmulatedDevice;
using quern::test::kThreadOrders;
using quern::test::ThreadOrder;
using test::Fill;

// The program with a slot more for each of its nodes, which becomes that node's output.
Program with_probes(Program program) {
    const auto nodes = static_cast<std::uint32_t>(program.nodes.size());
    for (std::uint32_t node = 0; node < nodes; ++node) {
        program.slots.push_back({"probe" + std::to_string(node), program.nodes[node].dtype, program.nodes[node].shape});
        program.updates.push_back(node);
    }
    complete_header(program);
    return program;
}

struct Fixture {
    Program program;
    State state;
    MemoryData data;
    Tensor seed = test::test_seed();

    explicit Fixture(Program made, Fill fill = Fill::moderate) : program(std::move(made)) {
        state = test::random_state(program, 1, fill);
        if (!program.header.data.empty()) data = test::random_data(program, 2);
    }
    [[nodiscard]] State after(int steps) const {
        State result = state;
        Executor executor(program, arith::Backend::scalar, nullptr);
        for (int step = 0; step < steps; ++step) EXPECT_TRUE(executor.step(result, data, seed));
        return result;
    }
};

void expect_same(const State& found, const State& wanted, const Program& program, const std::string& where) {
    ASSERT_EQ(found.size(), wanted.size()) << where;
    for (std::size_t slot = 0; slot < found.size(); ++slot)
        ASSERT_EQ(found[slot], wanted[slot])
            << where << " slot " << program.slots[slot].name << " node " << program.updates[slot] << " op "
            << static_cast<int>(program.nodes[program.updates[slot]].op);
}

void expect_the_processors_bits(const Fixture& given, int steps, const std::string& where) {
    const State wanted = given.after(steps);
    for (const ThreadOrder order : kThreadOrders) {
        Executor executor(given.program, std::make_unique<EmulatedDevice>(order), nullptr);
        State state = given.state;
        for (int step = 0; step < steps; ++step) ASSERT_TRUE(executor.step(state, given.data, given.seed)) << where;
        ASSERT_EQ(executor.device_failure(), nullptr) << executor.device_failure()->to_string();
        expect_same(state, wanted, given.program, where);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(DeviceRun, every_node_of_every_op_has_the_processors_bits) {
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        const Fixture given(with_probes(test::every_op_program()), fill);
        ASSERT_TRUE(validate(given.program)) << validate(given.program).error().to_string();
        expect_the_processors_bits(given, 2, fill == Fill::special ? "special" : "moderate");
    }
}

TEST(DeviceRun, a_training_has_the_processors_bits) {
    expect_the_processors_bits(Fixture(test::training_program(40, 24, 72)), 2, "training");
    expect_the_processors_bits(Fixture(test::deep_program(6, 40)), 1, "deep");
}

TEST(DeviceRun, programs_that_write_over_what_they_read_have_the_processors_bits) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        Program program = test::tangled_program(seed);
        // As the header says; as if any memory would do; as if none were enough: buffers are then made one by one.
        for (const std::uint64_t peak : {program.header.sizes.peak_bytes, std::uint64_t{1} << 60, std::uint64_t{0}}) {
            program.header.sizes.peak_bytes = peak;
            expect_the_processors_bits(Fixture(program), 2,
                                       "seed " + std::to_string(seed) + " peak " + std::to_string(peak));
            if (HasFatalFailure()) return;
        }
    }
}

TEST(DeviceRun, rows_beyond_a_table_are_nothing) {
    test::Graph g;
    const std::uint32_t table = g.add_slot("table", DType::f32, {{1, 1, 3, 40}});
    const std::uint32_t index = g.add_slot("index", DType::i32, {{1, 1, 6, 1}});
    const std::uint32_t taken = g.gather(table, index);
    g.add_slot("taken", DType::f32, g.shape(taken));
    g.update(2, taken);
    g.add_slot("added", DType::f32, {{1, 1, 3, 40}});
    g.update(3, g.scatter_add(g.add_slot("source", DType::f32, {{1, 1, 6, 40}}), index, 3));
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    ASSERT_TRUE(validate(g.program)) << validate(g.program).error().to_string();
    Fixture given(g.program);
    given.state[1].words = {2, 3, 0, 0xffffffff, 2, 4};
    expect_the_processors_bits(given, 1, "rows");
    // Slots that no step changes are not written.
    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr);
    std::vector<std::size_t> told;
    executor.set_before_writing([&](std::size_t slot) { told.push_back(slot); });
    State state = given.state;
    ASSERT_TRUE(executor.step(state, given.data, given.seed));
    EXPECT_EQ(told, (std::vector<std::size_t>{2, 3}));
}

// Random words are written over the key that they are made of.
TEST(DeviceRun, random_words_may_be_written_over_their_key) {
    for (const Op op : {Op::philox, Op::philox_words}) {
        test::Graph g;
        const std::uint32_t key = g.add_slot("key", DType::i32, {{1, 1, 1, 4}});
        const std::uint32_t made =
            op == Op::philox ? g.philox(key, {{1, 1, 1, 4}}) : g.philox_words(key, {{1, 1, 1, 4}});
        g.update(0, made);
        g.add_slot("loss", DType::f32, {});
        g.finish({});
        const auto plan = make_plan(g.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
        ASSERT_EQ(plan.steps.size(), 1U) << "in place";
        expect_the_processors_bits(Fixture(g.program), 2, "key");
    }
}

// As many values as a group may have, so that it takes the larger of the two kernels.
TEST(DeviceRun, a_group_of_many_values_has_the_processors_bits) {
    test::Graph g;
    const Shape shape{{1, 1, 30, 50}};
    const std::uint32_t x = g.add_slot("x", DType::f32, shape);
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < 30; ++i)
        values.push_back(g.element(arith::ElementOp::mul, {x, g.full(DType::f32, {}, 0x3f800000U + i * 4321)}));
    std::uint32_t sum = values.back();
    while (values.size() > 1) {
        values.pop_back();
        sum = g.element(arith::ElementOp::add, {sum, values.back()});
    }
    g.update(0, sum);
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    const auto plan = make_plan(g.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    std::size_t most = 0;
    for (const Step& step : plan.steps)
        for (const Member& member : step.members)
            if (member.scratch != kNone) most = std::max(most, member.scratch);
    ASSERT_GE(most, cuda::SmallGroup::kMaxValues);
    expect_the_processors_bits(Fixture(g.program), 2, "group");
}

TEST(DeviceRun, tiles_hashed_on_the_device_have_the_states_roots) {
    for (const Fixture& given :
         {Fixture(test::every_op_program(), Fill::special), Fixture(test::training_program(70, 24, 72))}) {
        const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
        EmulatedDevice device(ThreadOrder::mixed);
        DeviceRun run(given.program, plan, device, nullptr, nullptr);
        ASSERT_TRUE(run.load(given.state));
        auto roots = run.slot_roots();
        ASSERT_TRUE(roots);
        EXPECT_EQ(*roots, slot_roots(given.state));
        const auto done = run.step(given.data, given.seed);
        ASSERT_TRUE(done && *done);
        roots = run.slot_roots();
        ASSERT_TRUE(roots);
        EXPECT_EQ(*roots, slot_roots(given.after(1)));
        EXPECT_NE(*roots, slot_roots(given.state));
    }
}

TEST(DeviceRun, a_device_that_fails_leaves_the_step_to_the_processor) {
    const Fixture given(test::training_program(40, 24, 72));
    const State wanted = given.after(2);
    for (const std::uint64_t kernels : {0U, 1U, 7U, 20U}) {
        auto device = std::make_unique<EmulatedDevice>(ThreadOrder::ascending);
        device->fail_after(kernels);
        Executor executor(given.program, std::move(device), nullptr);
        State state = given.state;
        for (int step = 0; step < 2; ++step) ASSERT_TRUE(executor.step(state, given.data, given.seed));
        expect_same(state, wanted, given.program, std::to_string(kernels) + " kernels");
        ASSERT_NE(executor.device_failure(), nullptr);
        EXPECT_EQ(executor.device_failure()->name, "cuda.failed");
        EXPECT_EQ(executor.device_failure()->detail, "emulated: an error was asked for");
        EXPECT_TRUE(executor.device_failure()->is_local_fault());
    }
    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending, 20'000), nullptr);
    State state = given.state;
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(executor.step(state, given.data, given.seed));
    expect_same(state, wanted, given.program, "too little memory");
    ASSERT_NE(executor.device_failure(), nullptr);
    EXPECT_EQ(executor.device_failure()->name, "cuda.too_little_memory");
}

TEST(DeviceRun, takes_the_memory_that_it_says_and_gives_it_back) {
    const Fixture given(test::training_program(40, 24, 72));
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    constexpr std::uint64_t kMemory = 64U << 20;
    EmulatedDevice device(ThreadOrder::ascending, kMemory);
    {
        DeviceRun run(given.program, plan, device, nullptr, nullptr);
        EXPECT_EQ(device.free_bytes(), kMemory) << "nothing before there is something to do";
        ASSERT_TRUE(run.load(given.state));
        const auto done = run.step(given.data, given.seed);
        ASSERT_TRUE(done && *done);
        EXPECT_EQ(kMemory - device.free_bytes(), run.bytes());
    }
    EXPECT_EQ(device.free_bytes(), kMemory);
}

TEST(DeviceRun, leaves_the_runtime_memory_of_its_own) {
    const Fixture given(test::training_program(40, 24, 72));
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    EmulatedDevice any(ThreadOrder::ascending);
    const std::uint64_t wanted =
        DeviceRun(given.program, plan, any, nullptr, nullptr).bytes() + DeviceRun::spare_bytes(any);
    EmulatedDevice enough(ThreadOrder::ascending, wanted);
    EXPECT_TRUE(DeviceRun(given.program, plan, enough, nullptr, nullptr).load(given.state));
    EmulatedDevice less(ThreadOrder::ascending, wanted - 1);
    const Status refused = DeviceRun(given.program, plan, less, nullptr, nullptr).load(given.state);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "cuda.too_little_memory");
}

// What a failed call has queued may still be copying from or to memory of the caller's.
TEST(DeviceRun, a_failure_is_told_when_nothing_is_on_its_way_any_more) {
    const Fixture given(test::training_program(40, 24, 72));
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    EmulatedDevice device(ThreadOrder::ascending);
    {
        DeviceRun run(given.program, plan, device, nullptr, nullptr);
        ASSERT_TRUE(run.load(given.state));
        device.fail_after(3);
        EXPECT_FALSE(run.step(given.data, given.seed));
        EXPECT_EQ(device.outstanding(), 0U) << "step";
        device.fail_after(1);
        ASSERT_TRUE(run.load(given.state));
        EXPECT_FALSE(run.slot_roots());
        EXPECT_EQ(device.outstanding(), 0U) << "slot_roots";
        device.fail_after_copies(2);
        EXPECT_FALSE(run.load(given.state));
        EXPECT_EQ(device.outstanding(), 0U) << "load";
        device.fail_after_copies(given.state.size() + 2);
        ASSERT_TRUE(run.load(given.state));
        State state = given.state;
        EXPECT_FALSE(run.store(state, nullptr));
        EXPECT_EQ(device.outstanding(), 0U) << "store";
        ASSERT_EQ(device.upload(given.seed.words.data(), state[0].words.data(), 0), "an error was asked for");
        device.fail_after_copies(1);
        ASSERT_EQ(device.upload(given.seed.words.data(), state[0].words.data(), 0), nullptr);
        EXPECT_EQ(device.outstanding(), 1U);
    }
    EXPECT_EQ(device.outstanding(), 0U) << "the end";
}

TEST(DeviceRun, a_queue_that_is_waited_for_often_has_the_processors_bits) {
    const Fixture given(with_probes(test::every_op_program()), Fill::special);
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    const State wanted = given.after(1);
    cuda::LaunchLimits each;  // no two launches at once, and of each no more blocks than run at once
    each.in_flight = 1;
    std::uint64_t launches = 0;
    for (const cuda::LaunchLimits& limits : {cuda::LaunchLimits{}, each}) {
        EmulatedDevice device(ThreadOrder::mixed);
        DeviceRun run(given.program, plan, device, nullptr, nullptr, limits);
        ASSERT_TRUE(run.load(given.state));
        const auto done = run.step(given.data, given.seed);
        ASSERT_TRUE(done && *done);
        State state = given.state;
        ASSERT_TRUE(run.store(state, nullptr));
        expect_same(state, wanted, given.program, std::to_string(limits.in_flight));
        if (limits.in_flight == 1)
            EXPECT_EQ(device.most_queued(), 1U);
        else
            EXPECT_GT(device.most_queued(), 1U);
        EXPECT_GE(device.launches(), launches);
        launches = device.launches();
    }
}

// One node whose launch is of 10 blocks: the cancellation is seen between two pieces of it.
TEST(DeviceRun, a_cancellation_ends_a_step_between_launches) {
    test::Graph g;
    const std::uint32_t x = g.add_slot("x", DType::f32, {{1, 1, 100, 100}});
    g.update(0, g.element(arith::ElementOp::mul, {x, x}));
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    const Fixture given(g.program);
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    ASSERT_EQ(plan.steps.size(), 1U);
    cuda::LaunchLimits limits;
    limits.in_flight = 1;
    EmulatedDevice device(ThreadOrder::ascending);
    State state = given.state;
    {
        std::uint64_t asked = 0;
        const Cancellation cancellation([&] { return ++asked > 2; });
        DeviceRun run(given.program, plan, device, nullptr, &cancellation, limits);
        ASSERT_TRUE(run.load(state));
        const auto done = run.step(given.data, given.seed);
        ASSERT_TRUE(done);
        EXPECT_FALSE(*done);
        EXPECT_EQ(device.launches(), 2U);
        EXPECT_EQ(device.outstanding(), 0U);
        EXPECT_EQ(state, given.state);
    }
    DeviceRun run(given.program, plan, device, nullptr, nullptr, limits);
    ASSERT_TRUE(run.load(state));
    const auto done = run.step(given.data, given.seed);
    ASSERT_TRUE(done && *done);
    EXPECT_EQ(device.launches(), 2U + 5U);
    ASSERT_TRUE(run.store(state, nullptr));
    expect_same(state, given.after(1), given.program, "after a cancelled step");
}

TEST(DeviceRun, one_long_chain_is_left_to_the_processor) {
    const auto k = static_cast<std::uint32_t>(cuda::LaunchLimits{}.serial_of_few + 1);
    test::Graph g;
    const std::uint32_t row = g.add_slot("row", DType::f32, {{1, 1, 1, k}});
    const std::uint32_t column = g.add_slot("column", DType::f32, {{1, 1, k, 1}});
    g.add_slot("loss", DType::f32, {});
    g.update(2, g.matmul(row, column));
    g.finish({});
    ASSERT_TRUE(validate(g.program)) << validate(g.program).error().to_string();
    const Fixture given(g.program);
    const auto plan = make_plan(given.program, &arith::kernels(arith::Backend::scalar), PlanMode::step);
    EmulatedDevice device(ThreadOrder::ascending);
    DeviceRun run(given.program, plan, device, nullptr, nullptr);
    ASSERT_TRUE(run.load(given.state));
    const auto refused = run.step(given.data, given.seed);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "cuda.unsuitable");
    EXPECT_EQ(refused.error().detail, "emulated: 1048577 steps one after the other in 1 blocks");
    EXPECT_TRUE(refused.error().is_local_fault());
    EXPECT_EQ(device.launches(), 0U);
    EXPECT_EQ(device.outstanding(), 0U);

    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr);
    State state = given.state;
    ASSERT_TRUE(executor.step(state, given.data, given.seed));
    expect_same(state, given.after(1), given.program, "a long chain");
    ASSERT_NE(executor.device_failure(), nullptr);
    EXPECT_EQ(executor.device_failure()->name, "cuda.unsuitable");
}

TEST(DeviceRun, a_cancelled_step_and_one_without_its_data_leave_the_state_as_it_was) {
    const Fixture given(test::training_program(40, 24, 72));
    std::uint64_t asked = 0;
    const Cancellation cancellation([&] { return ++asked > 9; });
    Executor cancelled(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr, &cancellation);
    State state = given.state;
    EXPECT_FALSE(cancelled.step(state, given.data, given.seed));
    EXPECT_EQ(state, given.state);
    EXPECT_EQ(cancelled.device_failure(), nullptr);

    class NoData final : public DataSource {
    public:
        [[nodiscard]] bool read(std::size_t, std::uint64_t, std::span<std::uint8_t>) const override { return false; }
        [[nodiscard]] std::optional<std::vector<Hash32>> tile_path(std::size_t, std::uint64_t) const override {
            return std::nullopt;
        }
    };
    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr);
    EXPECT_FALSE(executor.step(state, NoData{}, given.seed));
    EXPECT_EQ(state, given.state);
    EXPECT_EQ(executor.device_failure(), nullptr);
    EXPECT_TRUE(executor.step(state, given.data, given.seed)) << "it can go on";
    expect_same(state, given.after(1), given.program, "after data were missing");
}

TEST(DeviceRun, what_is_told_before_a_slot_is_written_finds_the_old_words) {
    const Fixture given(test::training_program(40, 24, 72));
    State state = given.state;
    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr);
    std::vector<std::size_t> told;
    executor.set_before_writing([&](std::size_t slot) {
        EXPECT_EQ(state[slot], given.state[slot]);
        told.push_back(slot);
    });
    ASSERT_TRUE(executor.step(state, given.data, given.seed));
    EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(DeviceRun, tapped_runs_are_the_processors) {
    const Fixture given(test::training_program(40, 24, 72));
    Executor executor(given.program, std::make_unique<EmulatedDevice>(ThreadOrder::ascending), nullptr);
    State state = given.state;
    std::size_t nodes = 0;
    ASSERT_TRUE(executor.step_tapped(state, given.data, given.seed, [&](const TappedNode&) { ++nodes; }));
    EXPECT_EQ(nodes, given.program.nodes.size());
    expect_same(state, given.after(1), given.program, "tapped");
}

TEST(DeviceRun, a_driver_that_is_too_old_is_told_by_its_version) {
    EXPECT_EQ(cuda::driver_problem(0, 13000), "no Nvidia driver");
    EXPECT_EQ(cuda::driver_problem(12040, 13000), "driver for CUDA 12.4, built with CUDA 13.0");
}

#if defined(QUERN_HAVE_CUDA)
// The next launch asks the runtime for an error, and must not find another call's.
TEST(DeviceRun, a_failed_call_leaves_no_error_behind) {
    std::string why;
    const auto card = cuda::open_device(why);
    if (card == nullptr) GTEST_SKIP() << why;  // without a driver each call fails, this one too
    EXPECT_EQ(cudaPeekAtLastError(), 0);
    std::uint32_t* data = nullptr;
    EXPECT_NE(card->allocate(std::uint64_t{1} << 60, data), nullptr);
    EXPECT_EQ(cudaPeekAtLastError(), 0);
}
#endif

TEST(DeviceRun, a_backend_says_by_name_why_it_is_not_there) {
    EXPECT_TRUE(check_backend(arith::Backend::scalar));
    const Status neon = check_backend(arith::Backend::neon);
    if (!arith::available(arith::Backend::neon)) {
        EXPECT_EQ(neon.error().name, "executor.backend_unavailable");
    }
    const Status there = check_backend(arith::Backend::cuda);
    if (there) return;
    EXPECT_EQ(there.error().name, cuda::is_built() ? "cuda.no_card" : "cuda.not_built");
    if (cuda::is_built() && !std::filesystem::exists("/proc/driver/nvidia")) {
        EXPECT_EQ(there.error().detail, "no Nvidia driver");
    }
    // Steps run all the same.
    const Fixture given(test::training_program(40, 24, 72));
    Executor executor(given.program, arith::Backend::cuda, nullptr);
    EXPECT_EQ(executor.device_failure(), nullptr);
    State state = given.state;
    ASSERT_TRUE(executor.step(state, given.data, given.seed));
    expect_same(state, given.after(1), given.program, "without a card");
    ASSERT_NE(executor.device_failure(), nullptr);
    EXPECT_EQ(executor.device_failure()->name, there.error().name);
    EXPECT_EQ(arith::find_backend("cuda"), arith::Backend::cuda);
    EXPECT_FALSE(arith::available(arith::Backend::cuda));
    EXPECT_EQ(arith::find_backend("gpu"), std::nullopt);
}

}  // namespace
}  // namespace quern::vm::tensor
