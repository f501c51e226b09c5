#include "vm/evm/step_log.h"

#include <gtest/gtest.h>

#include "assemble.h"
#include "map_world.h"

namespace quern::vm::evm {
namespace {

class StepLogs : public testing::Test {
protected:
    CallResult run(std::string_view code, std::int64_t gas = 1'000'000, Revision revision = Revision::osaka) {
        world.now.accounts[address(1)].code = assemble(code);
        world.now.accounts[address(1)].balance = 100;
        world.begin_transaction();
        steps.clear();
        StepLog log({.stack = true, .memory = true, .return_data = true},
                    [this](const LoggedStep& step) { steps.push_back(step); });
        machine.set_tracer(&log);
        CallMessage message;
        message.sender = address(9);
        message.recipient = message.code_address = address(1);
        message.gas = gas;
        return machine.run(world, block, {}, revision, message);
    }
    void put(std::uint8_t number, std::string_view code) { world.now.accounts[address(number)].code = assemble(code); }
    // Costs of all steps named so.
    std::vector<std::int64_t> costs_of(std::string_view name) const {
        std::vector<std::int64_t> costs;
        for (const LoggedStep& step : steps)
            if (step_name(step.opcode) == name) costs.push_back(step.cost);
        return costs;
    }

    MapWorld world;
    BlockContext block;
    Machine machine;
    std::vector<LoggedStep> steps;
};

using Costs = std::vector<std::int64_t>;

// CALL of address(n) with all gas but a 64th, without value.
std::string call_of(unsigned number) {
    return "PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH20 aa0000000000000000000000000000000000000" +
           std::to_string(number) + " GAS CALL";
}

TEST_F(StepLogs, costs_are_what_each_step_took) {
    const CallResult result = run("PUSH1 20 PUSH1 40 MSTORE PUSH1 01 PUSH1 00 SSTORE PUSH1 20 PUSH1 20 KECCAK256");
    EXPECT_EQ(costs_of("MSTORE"), Costs{3 + 9});
    EXPECT_EQ(costs_of("SSTORE"), Costs{20'000 + 2'100});
    EXPECT_EQ(costs_of("KECCAK256"), Costs{30 + 6});
    EXPECT_EQ(costs_of("STOP"), Costs{0});
    std::int64_t sum = 0;
    for (const LoggedStep& step : steps) sum += step.cost;
    EXPECT_EQ(sum, 1'000'000 - result.gas_left);
}

TEST_F(StepLogs, show_what_was_there_before_each_step) {
    (void)run("PUSH1 20 PUSH1 01 MSTORE PUSH9 010000000000000000");
    ASSERT_EQ(steps.size(), 5U);
    EXPECT_EQ(steps[2].stack, (std::vector<Uint256>{0x20, 1}));
    EXPECT_EQ(steps[2].memory_size, 0U);
    EXPECT_EQ(steps[3].stack, std::vector<Uint256>{});
    EXPECT_EQ(steps[3].memory_size, 64U);
    EXPECT_EQ(steps[3].memory[32], 0x20);
    EXPECT_EQ(steps[3].at, 5U);
    EXPECT_EQ(steps[4].at, 15U);  // behind the code's end
    EXPECT_EQ(steps[4].stack, std::vector<Uint256>{Uint256(1) << 64});
}

// What calls were given is counted twice: in the caller's step, and in the callee's.
TEST_F(StepLogs, costs_add_up_to_the_gas_used_over_calls_that_end_in_any_way) {
    class Given final : public Tracer {
    public:
        explicit Given(Tracer& inner) : inner_(inner) {}
        void step(const Step& step) override { inner_.step(step); }
        void pause(std::int64_t gas, Halt halt) override { inner_.pause(gas, halt); }
        void enter(const CallMessage& message) override {
            if (message.depth > 0) sum += message.gas;
            inner_.enter(message);
        }
        void leave(const CallMessage& message, const CallResult& result) override {
            halts.push_back(result.halt);
            inner_.leave(message, result);
        }
        std::int64_t sum = 0;
        std::vector<Halt> halts;

    private:
        Tracer& inner_;
    };
    put(2, "PUSH1 05 PUSH1 00 SSTORE");
    put(3, "PUSH1 05 PUSH1 00 SSTORE PUSH1 20 PUSH1 00 REVERT");
    put(4, "PUSH1 05 ADD");
    put(5, call_of(2) + " " + call_of(3) + " PUSH1 00 PUSH1 00 PUSH1 00 CREATE");
    world.now.accounts[address(1)].code = assemble(call_of(2) + " " + call_of(3) + " " + call_of(5) + " " + call_of(4));
    world.begin_transaction();
    std::int64_t sum = 0;
    std::vector<std::pair<std::string, Halt>> failed;
    StepLog log({}, [&](const LoggedStep& step) {
        sum += step.cost;
        if (step.halt != Halt::none) failed.emplace_back(step_name(step.opcode), step.halt);
    });
    Given given(log);
    machine.set_tracer(&given);
    CallMessage message;
    message.recipient = message.code_address = address(1);
    message.gas = 1'000'000;
    const CallResult result = machine.run(world, block, {}, Revision::osaka, message);
    EXPECT_EQ(result.halt, Halt::none);
    EXPECT_EQ(given.halts.size(), 8U);
    EXPECT_EQ(sum - given.sum, 1'000'000 - result.gas_left);
    EXPECT_EQ(failed, (std::vector<std::pair<std::string, Halt>>{
                          {"REVERT", Halt::revert}, {"REVERT", Halt::revert}, {"ADD", Halt::stack_underflow}}));
}

TEST_F(StepLogs, a_call_costs_what_it_hands_on_and_comes_before_what_it_calls) {
    put(2, "PUSH1 01");
    (void)run(
        "PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 07 PUSH20 aa00000000000000000000000000000000000002 "
        "PUSH2 1000 CALL PUSH1 00");
    ASSERT_EQ(steps.size(), 12U);
    EXPECT_EQ(steps[7].cost, 2'600 + 9'000 + 0x1000);
    EXPECT_EQ(steps[8].depth, 1);
    EXPECT_EQ(steps[8].gas, 0x1000 + 2'300);
    EXPECT_EQ(steps[9].opcode, 0x00);
    EXPECT_EQ(steps[10].depth, 0);
    EXPECT_EQ(steps[10].gas, steps[7].gas - steps[7].cost + 0x1000 + 2'300 - 3);
}

TEST_F(StepLogs, calls_that_never_begin_are_calls_to_a_tracer) {
    class Refused final : public Tracer {
    public:
        void step(const Step& /*step*/) override {}
        void enter(const CallMessage& message) override { kinds.push_back(message.kind); }
        void leave(const CallMessage& message, const CallResult& result) override {
            if (message.depth == 0) return;
            EXPECT_EQ(result.halt, Halt::insufficient_balance);
            EXPECT_EQ(result.gas_left, message.gas);
        }
        std::vector<CallKind> kinds;
    };
    world.now.accounts[address(1)].balance = 6;
    world.now.accounts[address(1)].code = assemble(
        "PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 07 PUSH1 02 PUSH2 1000 CALL "
        "PUSH1 00 PUSH1 00 PUSH1 07 CREATE ADD PUSH1 00 MSTORE PUSH1 20 PUSH1 00 RETURN");
    world.begin_transaction();
    Refused tracer;
    machine.set_tracer(&tracer);
    CallMessage message;
    message.recipient = message.code_address = address(1);
    message.gas = 1'000'000;
    const CallResult result = machine.run(world, block, {}, Revision::osaka, message);
    EXPECT_EQ(tracer.kinds, (std::vector<CallKind>{CallKind::call, CallKind::call, CallKind::create}));
    EXPECT_EQ(result.output, Bytes(32));  // both say that they failed
    EXPECT_EQ(world.nonce(address(1)), 0U);
}

TEST_F(StepLogs, refunds_are_of_all_calls_that_run) {
    put(2, "PUSH1 00 PUSH1 00 SSTORE PUSH1 01");
    world.now.accounts[address(1)].storage[0] = 5;
    world.now.accounts[address(2)].storage[0] = 5;
    (void)run("PUSH1 00 PUSH1 00 SSTORE " + call_of(2) + " PUSH1 02");
    std::map<std::size_t, std::int64_t> refunds;
    for (const LoggedStep& step : steps)
        if (step.stack.empty() || step.opcode == 0x00)
            refunds[static_cast<std::size_t>(1000 * step.depth) + step.at] = step.refund;
    EXPECT_EQ(refunds[0], 0);
    EXPECT_EQ(refunds[5], 4'800);
    EXPECT_EQ(refunds[1000], 4'800);
    EXPECT_EQ(refunds[1005], 9'600);
    EXPECT_EQ(steps.back().refund, 9'600);
}

TEST_F(StepLogs, what_failed_took_all_gas) {
    EXPECT_EQ(run("PUSH1 01 PUSH3 ffffff MSTORE", 5'000).halt, Halt::out_of_gas);
    EXPECT_EQ(steps.back().halt, Halt::out_of_gas);
    EXPECT_EQ(steps.back().cost, 5'000 - 6);
    (void)run("0c");
    EXPECT_EQ(steps.back().halt, Halt::invalid_opcode);
    EXPECT_EQ(step_name(steps.back().opcode), "opcode 0xc not defined");
}

}  // namespace
}  // namespace quern::vm::evm
