// The inner loop: each instruction jumps to the next one's code by its address (direct threading), with the top of the
// stack and the gas in registers. What asks the world is in world_operations.cpp.
#include "vm/evm/frame.h"
#include "vm/evm/operations.h"
#include "vm/evm/word.h"
#include "vm/evm/world_operations.h"

// Labels as values, which g++ and clang have and the standard has not.
#pragma GCC diagnostic ignored "-Wpedantic"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wdangling-pointer"  // labels stay where they are
#endif

namespace quern::vm::evm {
namespace {

constexpr std::size_t kRunners = static_cast<std::size_t>(Operation::COUNT);

void report(Run& run, const Frame& frame, const Instruction* at, const Uint256* top, std::int64_t gas, Memory& memory) {
    const auto place = static_cast<std::size_t>(at->number);
    const BytesView code = frame.code->bytes();
    const std::uint8_t opcode = place < code.size() ? code[place] : 0;  // behind the code's end is STOP
    run.tracer()->step({&frame.message,
                        place,
                        opcode,
                        gas,
                        frame.refund,
                        {frame.stack.get() + 1, static_cast<std::size_t>(top - frame.stack.get())},
                        {memory.data(), memory.size()},
                        frame.return_data});
}

// With a table it is filled with the places of all runners, and nothing runs.
Exit loop(Run* run_or_none, Frame* frame_or_none, const void** runners) {
    if (runners != nullptr) {
        for (std::size_t i = 0; i < kRunners; ++i) runners[i] = &&at_UNDEFINED;
#define QUERN_EVM_RUNNER(name) runners[static_cast<std::size_t>(Operation::name)] = &&at_##name;
        QUERN_EVM_OPERATIONS(QUERN_EVM_RUNNER)
#undef QUERN_EVM_RUNNER
        // PUSHn, LOGn, PC and JUMPDEST become operations, or nothing.
        const struct {
            std::uint8_t number;
            const void* runner;
        } opcodes[] = {
#define X(name) {static_cast<std::uint8_t>(Opcode::name), &&at_##name},
            X(STOP) X(ADD) X(MUL) X(SUB) X(DIV) X(SDIV) X(MOD) X(SMOD) X(ADDMOD) X(MULMOD) X(EXP) X(SIGNEXTEND) X(LT)
                X(GT) X(SLT) X(SGT) X(EQ) X(ISZERO) X(AND) X(OR) X(XOR) X(NOT) X(BYTE) X(SHL) X(SHR) X(SAR) X(CLZ)
                    X(KECCAK256) X(ADDRESS) X(BALANCE) X(ORIGIN) X(CALLER) X(CALLVALUE) X(CALLDATALOAD) X(CALLDATASIZE)
                        X(CALLDATACOPY) X(CODESIZE) X(CODECOPY) X(GASPRICE) X(EXTCODESIZE) X(EXTCODECOPY)
                            X(RETURNDATASIZE) X(RETURNDATACOPY) X(EXTCODEHASH) X(BLOCKHASH) X(COINBASE) X(TIMESTAMP)
                                X(NUMBER) X(PREVRANDAO) X(GASLIMIT) X(CHAINID) X(SELFBALANCE) X(BASEFEE) X(BLOBHASH)
                                    X(BLOBBASEFEE) X(POP) X(MLOAD) X(MSTORE) X(MSTORE8) X(SLOAD) X(SSTORE) X(JUMP)
                                        X(JUMPI) X(MSIZE) X(GAS) X(TLOAD) X(TSTORE) X(MCOPY) X(DUP1) X(DUP2) X(DUP3)
                                            X(DUP4) X(DUP5) X(DUP6) X(DUP7) X(DUP8) X(DUP9) X(DUP10) X(DUP11) X(DUP12)
                                                X(DUP13) X(DUP14) X(DUP15) X(DUP16) X(SWAP1) X(SWAP2) X(SWAP3) X(SWAP4)
                                                    X(SWAP5) X(SWAP6) X(SWAP7) X(SWAP8) X(SWAP9) X(SWAP10) X(SWAP11)
                                                        X(SWAP12) X(SWAP13) X(SWAP14) X(SWAP15) X(SWAP16) X(CREATE)
                                                            X(CALL) X(CALLCODE) X(RETURN) X(DELEGATECALL) X(CREATE2)
                                                                X(STATICCALL) X(REVERT) X(SELFDESTRUCT)
#undef X
        };
        for (const auto& [number, runner] : opcodes) runners[number] = runner;
        return Exit::done;
    }

    Run& run = *run_or_none;
    Frame& frame = *frame_or_none;
    Memory& memory = frame.memory;
    const Uint256* const bottom = frame.stack.get();
    const Instruction* at = frame.at;
    Uint256* top = frame.top;
    std::int64_t gas = frame.gas;
    run.halt = Halt::out_of_gas;

#define NEXT goto*(++at)->run
#define PUSH(value) (*++top = (value))
// An operand of two that stays: the result takes the lower one's place.
#define BINARY(name, value)         \
    at_##name : {                   \
        const Uint256& a = top[0];  \
        const Uint256& b = top[-1]; \
        top[-1] = (value);          \
        --top;                      \
    }                               \
    NEXT;
#define CONSTANT(name, value) \
    at_##name : PUSH(value);  \
    NEXT;
#define DUP(n)                         \
    at_DUP##n : top[1] = top[1 - (n)]; \
    ++top;                             \
    NEXT;
#define SWAP(n)                      \
    at_SWAP##n : {                   \
        const Uint256 item = top[0]; \
        top[0] = top[-(n)];          \
        top[-(n)] = item;            \
    }                                \
    NEXT;
#define WORLD(name, function, popped)                 \
    at_##name : gas = function(run, frame, top, gas); \
    if (gas < 0) goto halted;                         \
    top -= (popped);                                  \
    NEXT;
#define MAKES_CALL(name, function, popped)            \
    at_##name : gas = function(run, frame, top, gas); \
    if (gas < 0) goto halted;                         \
    top -= (popped);                                  \
    if (!run.has_pending) NEXT;                       \
    frame.at = at + 1;                                \
    frame.top = top;                                  \
    frame.gas = gas;                                  \
    return Exit::call;
// Makes sure of so many bytes of memory at `offset`.
#define REACH(offset, bytes)                                                               \
    if (const std::size_t there = memory.size();                                           \
        !(offset).fits_u64() || (bytes) > there || (offset).low_u64() > there - (bytes)) { \
        gas = reach(frame, (offset), (bytes), gas);                                        \
        if (gas < 0) goto halted;                                                          \
    }

    goto * at->run;

at_BEGIN_BLOCK : {
    const Block& block = at->block;
    gas -= block.gas;
    if (gas < 0) goto halted;
    const auto items = static_cast<std::size_t>(top - bottom);
    if (items < block.taken) goto stack_underflow;
    if (items + block.grown > kStackItems) goto stack_overflow;
}
    NEXT;
at_TRACE:
    report(run, frame, at, top, gas, memory);
    NEXT;
at_UNDEFINED:
    run.halt = Halt::invalid_opcode;
    goto halted;

at_STOP:
    frame.output = frame.output_size = 0;
    frame.gas = gas;
    return Exit::done;
    BINARY(ADD, word::add(a, b))
    BINARY(MUL, word::mul(a, b))
    BINARY(SUB, word::sub(a, b))
    BINARY(DIV, word::div(a, b))
    BINARY(SDIV, word::signed_div(a, b))
    BINARY(MOD, word::mod(a, b))
    BINARY(SMOD, word::signed_mod(a, b))
at_ADDMOD:
    top[-2] = word::add_mod(top[0], top[-1], top[-2]);
    top -= 2;
    NEXT;
at_MULMOD:
    top[-2] = word::mul_mod(top[0], top[-1], top[-2]);
    top -= 2;
    NEXT;
    WORLD(EXP, exp, 1)
    BINARY(SIGNEXTEND, word::sign_extend(a, b))
    BINARY(LT, std::uint64_t{word::less(a, b)})
    BINARY(GT, std::uint64_t{word::less(b, a)})
    BINARY(SLT, std::uint64_t{word::signed_less(a, b)})
    BINARY(SGT, std::uint64_t{word::signed_less(b, a)})
    BINARY(EQ, std::uint64_t{word::same(a, b)})
at_ISZERO:
    *top = std::uint64_t{top->is_zero()};
    NEXT;
    BINARY(AND, a & b)
    BINARY(OR, a | b)
    BINARY(XOR, a ^ b)
at_NOT:
    *top = ~*top;
    NEXT;
    BINARY(BYTE,
           a.fits_u64() && a.low_u64() < 32
               ? std::uint64_t{static_cast<std::uint8_t>(b.limb[3 - a.low_u64() / 8] >> (56 - 8 * (a.low_u64() % 8)))}
               : std::uint64_t{0})
    BINARY(SHL, a.fits_u64() && a.low_u64() < 256 ? word::shift_left(b, static_cast<unsigned>(a.low_u64())) : Uint256())
    BINARY(SHR,
           a.fits_u64() && a.low_u64() < 256 ? word::shift_right(b, static_cast<unsigned>(a.low_u64())) : Uint256())
at_SAR : {
    const Uint256& by = top[0];
    const std::uint64_t fill = word::is_negative(top[-1]) ? ~std::uint64_t{0} : 0;
    top[-1] = by.fits_u64() && by.low_u64() < 256
                  ? word::shift_right(top[-1], static_cast<unsigned>(by.low_u64()), fill)
                  : Uint256(fill, fill, fill, fill);
    --top;
}
    NEXT;
at_CLZ:
    *top = std::uint64_t{256 - top->bit_length()};
    NEXT;
    WORLD(KECCAK256, keccak256, 1)
    CONSTANT(ADDRESS, word::from_address(frame.message.recipient))
    WORLD(BALANCE, balance, 0)
    CONSTANT(ORIGIN, word::from_address(run.transaction.origin))
    CONSTANT(CALLER, word::from_address(frame.message.sender))
    CONSTANT(CALLVALUE, frame.message.value)
at_CALLDATALOAD : {
    const BytesView input = frame.message.input;
    if (!top->fits_u64() || top->low_u64() >= input.size()) {
        *top = {};
    } else if (const auto rest = input.subspan(static_cast<std::size_t>(top->low_u64())); rest.size() >= 32) {
        *top = word::load(rest.data());
    } else {
        std::uint8_t padded[32] = {};
        std::memcpy(padded, rest.data(), rest.size());
        *top = word::load(padded);
    }
}
    NEXT;
    CONSTANT(CALLDATASIZE, frame.message.input.size())
    WORLD(CALLDATACOPY, calldatacopy, 3)
    CONSTANT(CODESIZE, frame.code->bytes().size())
    WORLD(CODECOPY, codecopy, 3)
    CONSTANT(GASPRICE, run.transaction.gas_price)
    WORLD(EXTCODESIZE, extcodesize, 0)
    WORLD(EXTCODECOPY, extcodecopy, 4)
    CONSTANT(RETURNDATASIZE, frame.return_data.size())
    WORLD(RETURNDATACOPY, returndatacopy, 3)
    WORLD(EXTCODEHASH, extcodehash, 0)
    WORLD(BLOCKHASH, blockhash, 0)
    CONSTANT(COINBASE, word::from_address(run.block.coinbase))
    CONSTANT(TIMESTAMP, run.block.timestamp)
    CONSTANT(NUMBER, run.block.number)
    CONSTANT(PREVRANDAO, run.has(Revision::paris) ? word::from_hash(run.block.prev_randao) : run.block.difficulty)
    CONSTANT(GASLIMIT, run.block.gas_limit)
    CONSTANT(CHAINID, run.block.chain_id)
    CONSTANT(SELFBALANCE, run.world.balance(frame.message.recipient))
    CONSTANT(BASEFEE, run.block.base_fee)
    WORLD(BLOBHASH, blobhash, 0)
    CONSTANT(BLOBBASEFEE, run.block.blob_base_fee)

at_POP:
    --top;
    NEXT;
at_MLOAD:
    REACH(*top, 32)
    *top = word::load(memory.data() + top->low_u64());
    NEXT;
at_MSTORE:
    REACH(*top, 32)
    word::store(memory.data() + top->low_u64(), top[-1]);
    top -= 2;
    NEXT;
at_MSTORE8:
    REACH(*top, 1)
    memory.data()[top->low_u64()] = static_cast<std::uint8_t>(top[-1].low_u64());
    top -= 2;
    NEXT;
    WORLD(SLOAD, sload, 0)
    WORLD(SSTORE, sstore, 2)
    WORLD(TLOAD, tload, 0)
    WORLD(TSTORE, tstore, 2)
    WORLD(MCOPY, mcopy, 3)
    CONSTANT(MSIZE, memory.size())
    CONSTANT(GAS, static_cast<std::uint64_t>(gas))

at_JUMP:
    if (run.is_stopped()) goto stopped;
    {
        const auto& places = frame.program->places;
        if (!top->fits_u64() || top->low_u64() >= places.size() || places[top->low_u64()] == 0) goto invalid_jump;
        at = &frame.program->instructions[places[top->low_u64()]];
    }
    --top;
    goto * at->run;
at_JUMPI:
    if (run.is_stopped()) goto stopped;
    if (top[-1].is_zero()) {
        top -= 2;
        NEXT;
    }
    {
        const auto& places = frame.program->places;
        if (!top->fits_u64() || top->low_u64() >= places.size() || places[top->low_u64()] == 0) goto invalid_jump;
        at = &frame.program->instructions[places[top->low_u64()]];
    }
    top -= 2;
    goto * at->run;
at_JUMP_TO:
    if (run.is_stopped()) goto stopped;
    at = at->target;
    goto * at->run;
at_JUMP_TO_IF:
    if (run.is_stopped()) goto stopped;
    --top;
    if (top[1].is_zero()) NEXT;
    at = at->target;
    goto * at->run;
at_JUMP_TO_UNLESS:
    if (run.is_stopped()) goto stopped;
    --top;
    if (!top[1].is_zero()) NEXT;
    at = at->target;
    goto * at->run;
at_JUMP_NOWHERE:
    goto invalid_jump;
at_JUMP_NOWHERE_IF:
    --top;
    if (top[1].is_zero()) NEXT;
    goto invalid_jump;
at_JUMP_NOWHERE_UNLESS:
    --top;
    if (!top[1].is_zero()) NEXT;
    goto invalid_jump;

at_PUSH_NUMBER:
    PUSH(at->number);
    NEXT;
at_PUSH_WORD:
    PUSH(*at->word);
    NEXT;
    // clang-format off
    DUP(1) DUP(2) DUP(3) DUP(4) DUP(5) DUP(6) DUP(7) DUP(8)
    DUP(9) DUP(10) DUP(11) DUP(12) DUP(13) DUP(14) DUP(15) DUP(16)
    SWAP(1) SWAP(2) SWAP(3) SWAP(4) SWAP(5) SWAP(6) SWAP(7) SWAP(8)
    SWAP(9) SWAP(10) SWAP(11) SWAP(12) SWAP(13) SWAP(14) SWAP(15) SWAP(16)
        // clang-format on

        at_ADD_NUMBER : * top = word::add(*top, at->number);
    NEXT;
at_SUB_FROM_NUMBER:
    *top = word::sub(at->number, *top);
    NEXT;
at_MUL_NUMBER:
    *top = word::mul(*top, at->number);
    NEXT;
at_AND_NUMBER:
    *top = top->limb[0] & at->number;
    NEXT;
at_AND_WORD:
    *top = *top & *at->word;
    NEXT;
at_EQ_NUMBER:
    *top = std::uint64_t{word::same(*top, at->number)};
    NEXT;
at_LT_NUMBER:
    *top = std::uint64_t{word::less(at->number, *top)};
    NEXT;
at_GT_NUMBER:
    *top = std::uint64_t{word::less(*top, at->number)};
    NEXT;
at_SHL_NUMBER:
    *top = at->number < 256 ? word::shift_left(*top, static_cast<unsigned>(at->number)) : Uint256();
    NEXT;
at_SHR_NUMBER:
    *top = at->number < 256 ? word::shift_right(*top, static_cast<unsigned>(at->number)) : Uint256();
    NEXT;
at_BYTE_NUMBER:
    *top = at->number < 32
               ? std::uint64_t{static_cast<std::uint8_t>(top->limb[3 - at->number / 8] >> (56 - 8 * (at->number % 8)))}
               : std::uint64_t{0};
    NEXT;
at_MLOAD_NUMBER : {
    const Uint256 offset(at->number);
    REACH(offset, 32)
    PUSH(word::load(memory.data() + at->number));
}
    NEXT;
at_MSTORE_NUMBER : {
    const Uint256 offset(at->number);
    REACH(offset, 32)
    word::store(memory.data() + at->number, *top);
    --top;
}
    NEXT;
at_SWAP1_POP:
    top[-1] = top[0];
    --top;
    NEXT;
at_SWAP2_POP:
    top[-2] = top[0];
    --top;
    NEXT;
at_POP2:
    top -= 2;
    NEXT;
at_SWAP1_SUB:
    top[-1] = word::sub(top[-1], top[0]);
    --top;
    NEXT;
at_DUP2_ADD:
    top[0] = word::add(top[-1], top[0]);
    NEXT;
at_DUP1_PUSH:
    top[1] = top[0];
    top[2] = at->number;
    top += 2;
    NEXT;
at_LOG:
    gas = log(run, frame, top, gas, static_cast<std::size_t>(at->number));
    if (gas < 0) goto halted;
    top -= 2 + at->number;
    NEXT;

    MAKES_CALL(CREATE, create, 2)
    MAKES_CALL(CREATE2, create2, 3)
    MAKES_CALL(CALL, call, 6)
    MAKES_CALL(CALLCODE, callcode, 6)
    MAKES_CALL(DELEGATECALL, delegatecall, 5)
    MAKES_CALL(STATICCALL, staticcall, 5)

at_RETURN:
    gas = reach(frame, top[0], top[-1], gas);
    if (gas < 0) goto halted;
    frame.output = static_cast<std::size_t>(top[0].low_u64());
    frame.output_size = static_cast<std::size_t>(top[-1].low_u64());
    frame.gas = gas;
    return Exit::done;
at_REVERT:
    gas = reach(frame, top[0], top[-1], gas);
    if (gas < 0) goto halted;
    frame.output = static_cast<std::size_t>(top[0].low_u64());
    frame.output_size = static_cast<std::size_t>(top[-1].low_u64());
    frame.gas = gas;
    return Exit::reverted;
at_SELFDESTRUCT:
    gas = selfdestruct(run, frame, top, gas);
    if (gas < 0) goto halted;
    frame.output = frame.output_size = 0;
    frame.gas = gas;
    return Exit::done;

stack_underflow:
    run.halt = Halt::stack_underflow;
    goto halted;
stack_overflow:
    run.halt = Halt::stack_overflow;
    goto halted;
invalid_jump:
    run.halt = Halt::invalid_jump;
    goto halted;
stopped:
    run.halt = Halt::stopped;
halted:
    return Exit::halted;
}

}  // namespace

Exit interpret(Run& run, Frame& frame) { return loop(&run, &frame, nullptr); }

const void* runner_of(std::uint16_t operation) {
    static const std::array<const void*, kRunners> kTable = [] {
        std::array<const void*, kRunners> table{};
        (void)loop(nullptr, nullptr, table.data());
        return table;
    }();
    return kTable[operation];
}

}  // namespace quern::vm::evm
