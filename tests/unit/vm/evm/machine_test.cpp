#include "vm/evm/machine.h"

#include <gtest/gtest.h>

#include <thread>

#include "assemble.h"
#include "base/rng.h"
#include "map_world.h"

namespace quern::vm::evm {
namespace {

class Machines : public testing::Test {
protected:
    CallResult run(std::string_view text, std::int64_t gas = 1'000'000, Revision revision = Revision::osaka) {
        return run(assemble(text), gas, revision);
    }
    CallResult run(const Bytes& code, std::int64_t gas, Revision revision) {
        world.now.accounts[address(1)].code = code;
        world.begin_transaction();
        CallMessage message;
        message.sender = address(9);
        message.recipient = message.code_address = address(1);
        message.gas = gas;
        message.is_static = is_static;
        return machine.run(world, block, {}, revision, message);
    }
    // What the code, to which a RETURN of the top item is added, returns.
    Uint256 value_of(std::string_view text, Revision revision = Revision::osaka) {
        const CallResult result =
            run(std::string(text) + " PUSH1 00 MSTORE PUSH1 20 PUSH1 00 RETURN", 1'000'000, revision);
        EXPECT_EQ(result.halt, Halt::none) << text << ": " << halt_message(result.halt);
        return result.output.size() == 32 ? Uint256::from_be(result.output) : Uint256();
    }

    MapWorld world;
    BlockContext block;
    Machine machine;
    bool is_static = false;
};

TEST_F(Machines, compute) {
    EXPECT_EQ(value_of("PUSH1 05 PUSH1 03 SUB"), Uint256(3) - Uint256(5));
    EXPECT_EQ(value_of("PUSH1 05 PUSH1 03 ADD"), Uint256(8));
    EXPECT_EQ(value_of("PUSH1 03 PUSH1 05 SWAP1 SUB"), Uint256(3) - Uint256(5));
    EXPECT_EQ(value_of("PUSH1 01 PUSH1 04 SHL"), Uint256(16));
    EXPECT_EQ(value_of("PUSH1 ff PUSH2 0100 SHL"), Uint256());
    EXPECT_EQ(value_of("PUSH1 05 PUSH1 03 LT"), Uint256(1));
    EXPECT_EQ(value_of("PUSH1 05 PUSH1 03 GT"), Uint256());
    EXPECT_EQ(value_of("PUSH1 00 CLZ"), Uint256(256));
    EXPECT_EQ(value_of("PUSH2 1234 PUSH1 1f BYTE"), Uint256(0x34));
    EXPECT_EQ(value_of("PUSH1 07 PUSH1 08 PUSH1 09 SWAP2 POP"), Uint256(8));
    EXPECT_EQ(value_of("PC PC"), Uint256(1));
    EXPECT_EQ(value_of("PUSH1 00 MLOAD MSIZE"), Uint256(32));
}

TEST_F(Machines, jump_only_to_jumpdests) {
    EXPECT_EQ(run("PUSH1 03 JUMP JUMPDEST STOP").halt, Halt::none);
    EXPECT_EQ(run("PUSH1 04 JUMP JUMPDEST STOP").halt, Halt::invalid_jump);
    EXPECT_EQ(run("PUSH1 04 JUMP PUSH1 5b STOP").halt, Halt::invalid_jump);                   // data of a PUSH
    EXPECT_EQ(run("PUSH1 04 PUSH1 00 MSTORE PUSH1 00 MLOAD JUMP").halt, Halt::invalid_jump);  // computed
    EXPECT_EQ(run("PUSH9 010000000000000000 JUMP").halt, Halt::invalid_jump);
    EXPECT_EQ(run("PUSH1 00 PUSH1 ff JUMPI STOP").halt, Halt::none);
    EXPECT_EQ(run("PUSH1 01 PUSH1 ff JUMPI STOP").halt, Halt::invalid_jump);
    EXPECT_EQ(run("PUSH1 01 ISZERO PUSH1 ff JUMPI STOP").halt, Halt::none);
    EXPECT_EQ(run("PUSH1 00 ISZERO PUSH1 ff JUMPI STOP").halt, Halt::invalid_jump);
    EXPECT_EQ(run("PUSH1 00 ISZERO PUSH1 07 JUMPI INVALID JUMPDEST STOP").halt, Halt::none);
}

TEST_F(Machines, take_exactly_the_gas_that_is_due) {
    const std::string_view loop = "PUSH1 05 JUMPDEST PUSH1 01 SWAP1 SUB DUP1 PUSH1 02 JUMPI";
    const std::int64_t due = 3 + 5 * (1 + 3 + 3 + 3 + 3 + 3 + 10);
    EXPECT_EQ(run(loop, due).gas_left, 0);
    EXPECT_EQ(run(loop, due).halt, Halt::none);
    EXPECT_EQ(run(loop, due - 1).halt, Halt::out_of_gas);
    // GAS in the middle of straight code sees what is left there.
    EXPECT_EQ(value_of("PUSH1 01 POP GAS PUSH1 02 POP"), Uint256(1'000'000 - 3 - 2 - 2));
    // Memory: 3 a word and the square of words over 512.
    EXPECT_EQ(run("PUSH2 8000 MLOAD", 1'000'000).gas_left, 1'000'000 - 3 - 3 - (3 * 1025 + 1025 * 1025 / 512));
    EXPECT_EQ(run("PUSH9 010000000000000000 MLOAD").halt, Halt::out_of_gas);
    EXPECT_EQ(run("PUSH8 ffffffffffffffe1 MLOAD").halt, Halt::out_of_gas);
}

TEST_F(Machines, keep_the_stack_within_its_limits) {
    EXPECT_EQ(run("ADD").halt, Halt::stack_underflow);
    EXPECT_EQ(run("PUSH1 01 SWAP1").halt, Halt::stack_underflow);
    Bytes code;
    for (int i = 0; i < 1024; ++i) append(code, assemble("PUSH1 01"));
    EXPECT_EQ(run(code, 1'000'000, Revision::osaka).halt, Halt::none);
    append(code, assemble("PUSH1 01"));
    EXPECT_EQ(run(code, 1'000'000, Revision::osaka).halt, Halt::stack_overflow);
    // By a loop that pushes one item a round.
    EXPECT_EQ(run("JUMPDEST PUSH1 01 PUSH1 00 JUMP").halt, Halt::stack_overflow);
}

TEST_F(Machines, undo_what_a_failed_call_did) {
    // Stores 1 at 0, then reverts with 32 bytes.
    world.now.accounts[address(2)].code = assemble("PUSH1 01 PUSH1 00 SSTORE PUSH1 20 PUSH1 00 REVERT");
    const std::string call = "PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH20 " + to_hex(address(2)) + " GAS CALL";
    EXPECT_EQ(value_of(call), Uint256());
    EXPECT_TRUE(world.now.accounts[address(2)].storage.empty());
    EXPECT_EQ(value_of(call + " POP RETURNDATASIZE"), Uint256(32));
    world.now.accounts[address(2)].code = assemble("PUSH1 01 PUSH1 00 SSTORE");
    EXPECT_EQ(value_of(call), Uint256(1));
    EXPECT_EQ(world.now.accounts[address(2)].storage[0], Uint256(1));
}

TEST_F(Machines, change_nothing_in_static_calls) {
    is_static = true;
    for (const auto* text :
         {"PUSH1 01 PUSH1 00 SSTORE", "PUSH1 00 PUSH1 00 LOG0", "PUSH1 00 SELFDESTRUCT", "PUSH1 01 PUSH1 00 TSTORE",
          "PUSH1 00 PUSH1 00 PUSH1 00 CREATE", "PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 01 PUSH1 02 GAS CALL"})
        EXPECT_EQ(run(text).halt, Halt::static_violation) << text;
    EXPECT_EQ(run("PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 ee GAS CALL").halt, Halt::none);
}

// EIP-1014's examples.
TEST(CreatedAddress, is_that_of_the_specification) {
    const Address zero;
    EXPECT_EQ(to_hex(created_address(zero, Uint256(), Bytes{0})), "4d1a2e2bb4f88f0250f26ffff098b0b30b26bf38");
    const auto maker = fixed_from_hex<20>("deadbeef00000000000000000000000000000000").value();
    EXPECT_EQ(to_hex(created_address(maker, Uint256(), Bytes{0})), "b928f69bb1d91cd65274e3c79d8986362984fda3");
    EXPECT_EQ(to_hex(created_address(zero, Uint256(), from_hex("deadbeef").value())),
              "70f2b2914a2a4b783faefb75f459a580616fcb5e");
    // Of the first contract that the well-known maker deployed.
    const auto known = fixed_from_hex<20>("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0").value();
    EXPECT_EQ(to_hex(created_address(known, 0)), "cd234a471b72ba2f1ccf0a70fcaba648a5eecd8d");
    EXPECT_EQ(to_hex(created_address(known, 1)), "343c43a37d37dff08ae8c4a11544c718abb4fcf8");
}

TEST_F(Machines, call_themselves_to_the_limit_of_depth) {
    // Before EIP-150 all gas goes along, so that the depth is what ends it: counts the calls in slot 0.
    const std::string code =
        "PUSH1 00 SLOAD PUSH1 01 ADD PUSH1 00 SSTORE PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 PUSH1 00 ADDRESS PUSH3 "
        "000100 GAS SUB CALL";
    const CallResult result = run(code, 100'000'000, Revision::homestead);
    EXPECT_EQ(result.halt, Halt::none);
    EXPECT_EQ(world.now.accounts[address(1)].storage[0], Uint256(1025));
}

TEST_F(Machines, make_contracts_that_keep_their_code) {
    // Init code that returns one byte, STOP.
    const Bytes init = assemble("PUSH1 01 PUSH1 00 RETURN");
    const std::string code = "PUSH5 " + to_hex(init) + " PUSH1 00 MSTORE PUSH1 05 PUSH1 1b PUSH1 00 CREATE";
    const Uint256 made = value_of(code);
    const Address expected = created_address(address(1), 0);
    EXPECT_EQ(Address::copy_of(BytesView(made.to_be32()).subspan(12)), expected);
    EXPECT_EQ(world.now.accounts[expected].code, Bytes{0});
    EXPECT_EQ(world.now.accounts[expected].nonce, 1U);
    EXPECT_EQ(world.now.accounts[address(1)].nonce, 1U);
}

TEST_F(Machines, end_when_they_are_told_to) {
    std::thread other([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        machine.stop();
    });
    const CallResult result = run("JUMPDEST PUSH1 00 JUMP", std::int64_t{1} << 62);
    other.join();
    EXPECT_EQ(result.halt, Halt::stopped);
    EXPECT_EQ(run("STOP").halt, Halt::stopped);
}

class CountingTracer final : public Tracer {
public:
    void step(const Step& step) override {
        ++steps;
        last = step.opcode;
    }
    void enter(const CallMessage& /*message*/) override { ++calls; }
    void leave(const CallMessage& /*message*/, const CallResult& /*result*/) override { --calls; }
    std::size_t steps = 0;
    int calls = 0;
    std::uint8_t last = 0;
};

TEST_F(Machines, report_each_step_to_a_tracer) {
    CountingTracer tracer;
    machine.set_tracer(&tracer);
    EXPECT_EQ(run("PUSH1 05 JUMPDEST PUSH1 01 SWAP1 SUB DUP1 PUSH1 02 JUMPI").halt, Halt::none);
    EXPECT_EQ(tracer.steps, 1 + 5 * 7 + 1U);  // the STOP behind the code's end, too
    EXPECT_EQ(tracer.calls, 0);
    EXPECT_EQ(run("PUSH1 01 ADD").halt, Halt::stack_underflow);
    EXPECT_EQ(tracer.last, 0x01);
}

// Random code, mostly of what translation joins, with joined and checked-by-block instructions against one by one.
TEST_F(Machines, do_the_same_traced_and_not) {
    SeededRng rng(3);
    CountingTracer tracer;
    const std::string_view common[] = {"PUSH1", "PUSH2", "PUSH9",    "DUP1", "DUP2",  "SWAP1",  "SWAP2",
                                       "POP",   "ADD",   "SUB",      "MUL",  "AND",   "EQ",     "LT",
                                       "GT",    "SHL",   "SHR",      "BYTE", "MLOAD", "MSTORE", "ISZERO",
                                       "JUMP",  "JUMPI", "JUMPDEST", "GAS",  "PC",    "MSIZE"};
    std::vector<std::uint8_t> opcodes;
    for (const auto name : common) opcodes.push_back(assemble(name)[0]);
    std::size_t succeeded = 0;
    for (int i = 0; i < 20'000; ++i) {
        Bytes code = assemble("PUSH1 01 PUSH1 02 PUSH1 03 PUSH1 04 PUSH1 05 PUSH1 06");
        const auto length = 5 + rng.below(60);
        while (code.size() < length + 12) {
            const std::uint8_t opcode =
                rng.below(20) == 0 ? static_cast<std::uint8_t>(rng.below(256)) : opcodes[rng.below(opcodes.size())];
            code.push_back(opcode);
            for (std::size_t k = 0; k < operand_bytes(opcode) && k < 9; ++k)
                code.push_back(static_cast<std::uint8_t>(rng.below(k == 0 ? 80 : 3)));
            for (std::size_t k = 9; k < operand_bytes(opcode); ++k) code.push_back(0);
        }
        append(code, assemble("PUSH1 00 MSTORE PUSH1 00 MSTORE PUSH1 40 PUSH1 00 RETURN"));
        const std::int64_t gas = 200 + static_cast<std::int64_t>(rng.below(3000));
        machine.set_tracer(nullptr);
        const CallResult plain = run(code, gas, Revision::osaka);
        machine.set_tracer(&tracer);
        const CallResult traced = run(code, gas, Revision::osaka);
        // Which of several reasons a block fails for depends on what is looked at first; that it fails does not.
        const auto kind = [](Halt halt) {
            return halt == Halt::none || halt == Halt::revert ? halt : Halt::out_of_gas;
        };
        ASSERT_EQ(kind(plain.halt), kind(traced.halt)) << to_hex(code) << " gas " << gas;
        ASSERT_EQ(plain.gas_left, traced.gas_left) << to_hex(code);
        ASSERT_EQ(plain.output, traced.output) << to_hex(code);
        succeeded += plain.halt == Halt::none ? 1 : 0;
    }
    EXPECT_GT(succeeded, 1'000U);
}

}  // namespace
}  // namespace quern::vm::evm
