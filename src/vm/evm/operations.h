// What the interpreter runs beside the opcodes: blocks' beginnings, constants, and pairs of opcodes that translation
// joins. Between translate.cpp and interpreter.cpp alone.
#pragma once

#include <cstdint>

#include "vm/evm/opcodes.h"

// clang-format off
#define QUERN_EVM_OPERATIONS(X) \
    X(BEGIN_BLOCK)     /* block */ \
    X(TRACE)           /* number: where in the code */ \
    X(UNDEFINED) \
    X(PUSH_NUMBER)     /* number */ \
    X(PUSH_WORD)       /* word */ \
    X(JUMP_TO)         /* target */ \
    X(JUMP_NOWHERE) \
    X(JUMP_TO_IF)      /* target; takes the condition */ \
    X(JUMP_TO_UNLESS)  /* target; takes the condition */ \
    X(JUMP_NOWHERE_IF) /* takes the condition */ \
    X(JUMP_NOWHERE_UNLESS) \
    X(ADD_NUMBER)      /* number */ \
    X(SUB_FROM_NUMBER) /* number */ \
    X(MUL_NUMBER)      /* number */ \
    X(AND_NUMBER)      /* number */ \
    X(AND_WORD)        /* word */ \
    X(EQ_NUMBER)       /* number */ \
    X(LT_NUMBER)       /* number: whether it is less than the item */ \
    X(GT_NUMBER)       /* number: whether it is greater than the item */ \
    X(SHL_NUMBER)      /* number */ \
    X(SHR_NUMBER)      /* number */ \
    X(BYTE_NUMBER)     /* number */ \
    X(MLOAD_NUMBER)    /* number */ \
    X(MSTORE_NUMBER)   /* number */ \
    X(SWAP1_POP) \
    X(SWAP2_POP) \
    X(POP2) \
    X(SWAP1_SUB) \
    X(DUP2_ADD) \
    X(DUP1_PUSH)       /* number */ \
    X(LOG)             /* number: how many topics */
// clang-format on

namespace quern::vm::evm {

#define QUERN_EVM_OPERATION(name) name,
enum class Operation : std::uint16_t { FIRST = 255, QUERN_EVM_OPERATIONS(QUERN_EVM_OPERATION) COUNT };
#undef QUERN_EVM_OPERATION

// Where the interpreter runs it: an opcode's number, or an Operation.
[[nodiscard]] const void* runner_of(std::uint16_t operation);

}  // namespace quern::vm::evm
