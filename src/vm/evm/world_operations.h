// The opcodes that ask or change the world, and those that move many bytes. Each gets the top of the stack, where its
// operands lie, leaves its result, if any, in the lowest of their places, and says what gas is left; negative: the run
// halted, and run.halt says why. Internal to the folder.
#pragma once

#include "vm/evm/frame.h"

namespace quern::vm::evm {

using WorldOperation = std::int64_t(Run& run, Frame& frame, Uint256* top, std::int64_t gas);

WorldOperation exp, keccak256, balance, calldatacopy, codecopy, extcodesize, extcodecopy, returndatacopy, extcodehash,
    blockhash, blobhash, sload, sstore, tload, tstore, mcopy, create, create2, call, callcode, delegatecall, staticcall,
    selfdestruct;
[[nodiscard]] std::int64_t log(Run& run, Frame& frame, Uint256* top, std::int64_t gas, std::size_t topics);

}  // namespace quern::vm::evm
