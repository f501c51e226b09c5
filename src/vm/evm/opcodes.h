// The EVM's opcodes as data: number, name, what they take from and leave on the stack, the fork that brought them, and
// the gas that is due whatever their operands are, with the forks that changed it (Yellow Paper, appendix H; EIPs 7,
// 140, 145, 150, 211, 214, 1014, 1052, 1344, 1884, 2929, 3198, 3855, 4844, 5656, 1153, 7516, 7939). What depends on
// operands is in interpreter.cpp. Pure; thread-safe.
#pragma once

#include <span>

#include "vm/evm/revision.h"

// clang-format off
// X(number, NAME, taken, left, since, gas[, {fork, gas}]...)
#define QUERN_EVM_OPCODES(X) \
    X(0x00, STOP, 0, 0, frontier, 0) \
    X(0x01, ADD, 2, 1, frontier, 3) \
    X(0x02, MUL, 2, 1, frontier, 5) \
    X(0x03, SUB, 2, 1, frontier, 3) \
    X(0x04, DIV, 2, 1, frontier, 5) \
    X(0x05, SDIV, 2, 1, frontier, 5) \
    X(0x06, MOD, 2, 1, frontier, 5) \
    X(0x07, SMOD, 2, 1, frontier, 5) \
    X(0x08, ADDMOD, 3, 1, frontier, 8) \
    X(0x09, MULMOD, 3, 1, frontier, 8) \
    X(0x0a, EXP, 2, 1, frontier, 10) \
    X(0x0b, SIGNEXTEND, 2, 1, frontier, 5) \
    X(0x10, LT, 2, 1, frontier, 3) \
    X(0x11, GT, 2, 1, frontier, 3) \
    X(0x12, SLT, 2, 1, frontier, 3) \
    X(0x13, SGT, 2, 1, frontier, 3) \
    X(0x14, EQ, 2, 1, frontier, 3) \
    X(0x15, ISZERO, 1, 1, frontier, 3) \
    X(0x16, AND, 2, 1, frontier, 3) \
    X(0x17, OR, 2, 1, frontier, 3) \
    X(0x18, XOR, 2, 1, frontier, 3) \
    X(0x19, NOT, 1, 1, frontier, 3) \
    X(0x1a, BYTE, 2, 1, frontier, 3) \
    X(0x1b, SHL, 2, 1, constantinople, 3) \
    X(0x1c, SHR, 2, 1, constantinople, 3) \
    X(0x1d, SAR, 2, 1, constantinople, 3) \
    X(0x1e, CLZ, 1, 1, osaka, 5) \
    X(0x20, KECCAK256, 2, 1, frontier, 30) \
    X(0x30, ADDRESS, 0, 1, frontier, 2) \
    X(0x31, BALANCE, 1, 1, frontier, 20, {Revision::tangerine_whistle, 400}, {Revision::istanbul, 700}, {Revision::berlin, 100}) \
    X(0x32, ORIGIN, 0, 1, frontier, 2) \
    X(0x33, CALLER, 0, 1, frontier, 2) \
    X(0x34, CALLVALUE, 0, 1, frontier, 2) \
    X(0x35, CALLDATALOAD, 1, 1, frontier, 3) \
    X(0x36, CALLDATASIZE, 0, 1, frontier, 2) \
    X(0x37, CALLDATACOPY, 3, 0, frontier, 3) \
    X(0x38, CODESIZE, 0, 1, frontier, 2) \
    X(0x39, CODECOPY, 3, 0, frontier, 3) \
    X(0x3a, GASPRICE, 0, 1, frontier, 2) \
    X(0x3b, EXTCODESIZE, 1, 1, frontier, 20, {Revision::tangerine_whistle, 700}, {Revision::berlin, 100}) \
    X(0x3c, EXTCODECOPY, 4, 0, frontier, 20, {Revision::tangerine_whistle, 700}, {Revision::berlin, 100}) \
    X(0x3d, RETURNDATASIZE, 0, 1, byzantium, 2) \
    X(0x3e, RETURNDATACOPY, 3, 0, byzantium, 3) \
    X(0x3f, EXTCODEHASH, 1, 1, constantinople, 400, {Revision::istanbul, 700}, {Revision::berlin, 100}) \
    X(0x40, BLOCKHASH, 1, 1, frontier, 20) \
    X(0x41, COINBASE, 0, 1, frontier, 2) \
    X(0x42, TIMESTAMP, 0, 1, frontier, 2) \
    X(0x43, NUMBER, 0, 1, frontier, 2) \
    X(0x44, PREVRANDAO, 0, 1, frontier, 2) \
    X(0x45, GASLIMIT, 0, 1, frontier, 2) \
    X(0x46, CHAINID, 0, 1, istanbul, 2) \
    X(0x47, SELFBALANCE, 0, 1, istanbul, 5) \
    X(0x48, BASEFEE, 0, 1, london, 2) \
    X(0x49, BLOBHASH, 1, 1, cancun, 3) \
    X(0x4a, BLOBBASEFEE, 0, 1, cancun, 2) \
    X(0x50, POP, 1, 0, frontier, 2) \
    X(0x51, MLOAD, 1, 1, frontier, 3) \
    X(0x52, MSTORE, 2, 0, frontier, 3) \
    X(0x53, MSTORE8, 2, 0, frontier, 3) \
    X(0x54, SLOAD, 1, 1, frontier, 50, {Revision::tangerine_whistle, 200}, {Revision::istanbul, 800}, {Revision::berlin, 100}) \
    X(0x55, SSTORE, 2, 0, frontier, 0) \
    X(0x56, JUMP, 1, 0, frontier, 8) \
    X(0x57, JUMPI, 2, 0, frontier, 10) \
    X(0x58, PC, 0, 1, frontier, 2) \
    X(0x59, MSIZE, 0, 1, frontier, 2) \
    X(0x5a, GAS, 0, 1, frontier, 2) \
    X(0x5b, JUMPDEST, 0, 0, frontier, 1) \
    X(0x5c, TLOAD, 1, 1, cancun, 100) \
    X(0x5d, TSTORE, 2, 0, cancun, 100) \
    X(0x5e, MCOPY, 3, 0, cancun, 3) \
    X(0x5f, PUSH0, 0, 1, shanghai, 2) \
    X(0x60, PUSH1, 0, 1, frontier, 3) \
    X(0x61, PUSH2, 0, 1, frontier, 3) \
    X(0x62, PUSH3, 0, 1, frontier, 3) \
    X(0x63, PUSH4, 0, 1, frontier, 3) \
    X(0x64, PUSH5, 0, 1, frontier, 3) \
    X(0x65, PUSH6, 0, 1, frontier, 3) \
    X(0x66, PUSH7, 0, 1, frontier, 3) \
    X(0x67, PUSH8, 0, 1, frontier, 3) \
    X(0x68, PUSH9, 0, 1, frontier, 3) \
    X(0x69, PUSH10, 0, 1, frontier, 3) \
    X(0x6a, PUSH11, 0, 1, frontier, 3) \
    X(0x6b, PUSH12, 0, 1, frontier, 3) \
    X(0x6c, PUSH13, 0, 1, frontier, 3) \
    X(0x6d, PUSH14, 0, 1, frontier, 3) \
    X(0x6e, PUSH15, 0, 1, frontier, 3) \
    X(0x6f, PUSH16, 0, 1, frontier, 3) \
    X(0x70, PUSH17, 0, 1, frontier, 3) \
    X(0x71, PUSH18, 0, 1, frontier, 3) \
    X(0x72, PUSH19, 0, 1, frontier, 3) \
    X(0x73, PUSH20, 0, 1, frontier, 3) \
    X(0x74, PUSH21, 0, 1, frontier, 3) \
    X(0x75, PUSH22, 0, 1, frontier, 3) \
    X(0x76, PUSH23, 0, 1, frontier, 3) \
    X(0x77, PUSH24, 0, 1, frontier, 3) \
    X(0x78, PUSH25, 0, 1, frontier, 3) \
    X(0x79, PUSH26, 0, 1, frontier, 3) \
    X(0x7a, PUSH27, 0, 1, frontier, 3) \
    X(0x7b, PUSH28, 0, 1, frontier, 3) \
    X(0x7c, PUSH29, 0, 1, frontier, 3) \
    X(0x7d, PUSH30, 0, 1, frontier, 3) \
    X(0x7e, PUSH31, 0, 1, frontier, 3) \
    X(0x7f, PUSH32, 0, 1, frontier, 3) \
    X(0x80, DUP1, 1, 2, frontier, 3) \
    X(0x81, DUP2, 2, 3, frontier, 3) \
    X(0x82, DUP3, 3, 4, frontier, 3) \
    X(0x83, DUP4, 4, 5, frontier, 3) \
    X(0x84, DUP5, 5, 6, frontier, 3) \
    X(0x85, DUP6, 6, 7, frontier, 3) \
    X(0x86, DUP7, 7, 8, frontier, 3) \
    X(0x87, DUP8, 8, 9, frontier, 3) \
    X(0x88, DUP9, 9, 10, frontier, 3) \
    X(0x89, DUP10, 10, 11, frontier, 3) \
    X(0x8a, DUP11, 11, 12, frontier, 3) \
    X(0x8b, DUP12, 12, 13, frontier, 3) \
    X(0x8c, DUP13, 13, 14, frontier, 3) \
    X(0x8d, DUP14, 14, 15, frontier, 3) \
    X(0x8e, DUP15, 15, 16, frontier, 3) \
    X(0x8f, DUP16, 16, 17, frontier, 3) \
    X(0x90, SWAP1, 2, 2, frontier, 3) \
    X(0x91, SWAP2, 3, 3, frontier, 3) \
    X(0x92, SWAP3, 4, 4, frontier, 3) \
    X(0x93, SWAP4, 5, 5, frontier, 3) \
    X(0x94, SWAP5, 6, 6, frontier, 3) \
    X(0x95, SWAP6, 7, 7, frontier, 3) \
    X(0x96, SWAP7, 8, 8, frontier, 3) \
    X(0x97, SWAP8, 9, 9, frontier, 3) \
    X(0x98, SWAP9, 10, 10, frontier, 3) \
    X(0x99, SWAP10, 11, 11, frontier, 3) \
    X(0x9a, SWAP11, 12, 12, frontier, 3) \
    X(0x9b, SWAP12, 13, 13, frontier, 3) \
    X(0x9c, SWAP13, 14, 14, frontier, 3) \
    X(0x9d, SWAP14, 15, 15, frontier, 3) \
    X(0x9e, SWAP15, 16, 16, frontier, 3) \
    X(0x9f, SWAP16, 17, 17, frontier, 3) \
    X(0xa0, LOG0, 2, 0, frontier, 375) \
    X(0xa1, LOG1, 3, 0, frontier, 750) \
    X(0xa2, LOG2, 4, 0, frontier, 1125) \
    X(0xa3, LOG3, 5, 0, frontier, 1500) \
    X(0xa4, LOG4, 6, 0, frontier, 1875) \
    X(0xf0, CREATE, 3, 1, frontier, 32000) \
    X(0xf1, CALL, 7, 1, frontier, 40, {Revision::tangerine_whistle, 700}, {Revision::berlin, 100}) \
    X(0xf2, CALLCODE, 7, 1, frontier, 40, {Revision::tangerine_whistle, 700}, {Revision::berlin, 100}) \
    X(0xf3, RETURN, 2, 0, frontier, 0) \
    X(0xf4, DELEGATECALL, 6, 1, homestead, 40, {Revision::tangerine_whistle, 700}, {Revision::berlin, 100}) \
    X(0xf5, CREATE2, 4, 1, constantinople, 32000) \
    X(0xfa, STATICCALL, 6, 1, byzantium, 700, {Revision::berlin, 100}) \
    X(0xfd, REVERT, 2, 0, byzantium, 0) \
    X(0xfe, INVALID, 0, 0, frontier, 0) \
    X(0xff, SELFDESTRUCT, 1, 0, frontier, 0, {Revision::tangerine_whistle, 5000})
// clang-format on

namespace quern::vm::evm {

#define QUERN_EVM_OPCODE(number, name, ...) name = number,
enum class Opcode : std::uint8_t { QUERN_EVM_OPCODES(QUERN_EVM_OPCODE) };
#undef QUERN_EVM_OPCODE

struct OpcodeInfo {
    struct Gas {
        constexpr Gas() = default;
        constexpr Gas(std::uint32_t amount) : gas(amount) {}  // NOLINT: from the fork that brought it
        constexpr Gas(Revision since, std::uint32_t amount) : from(since), gas(amount) {}
        Revision from = Revision::frontier;
        std::uint32_t gas = 0;
    };
    std::string_view name;  // empty: no opcode in any fork
    std::uint8_t taken = 0;
    std::uint8_t left = 0;
    Revision since = Revision::frontier;
    std::array<Gas, 4> prices{};  // ascending; unused ones repeat none
    std::uint8_t price_count = 0;
};

[[nodiscard]] const OpcodeInfo& opcode_info(std::uint8_t opcode);
[[nodiscard]] bool is_defined(std::uint8_t opcode, Revision revision);
// Of a defined one.
[[nodiscard]] std::uint32_t static_gas(std::uint8_t opcode, Revision revision);

// Bytes of the code behind PUSHn that are its operand; 0 for all others.
[[nodiscard]] constexpr std::size_t operand_bytes(std::uint8_t opcode) {
    return opcode >= 0x60 && opcode <= 0x7f ? std::size_t{opcode} - 0x5f : 0;
}

}  // namespace quern::vm::evm
