// The contracts that a fork has built in, at addresses 0x01 to 0x11 and 0x0100: what they cost and what they give. Used
// by the machine (machine.h); the arithmetic behind them is in crypto. Pure; thread-safe.
#pragma once

#include <limits>

#include "base/bytes.h"
#include "vm/evm/revision.h"

namespace quern::vm::evm {

struct Precompile {
    std::string_view name;  // as execution-specs names it: "ECRECOVER", "BN254_PAIRING", ...
    // What a call with this input costs in this fork; kUnaffordable when it does not fit 64 bits.
    std::uint64_t (*gas)(BytesView input, Revision revision);
    // Replaces `output`. False: the call fails and all its gas is gone. An input that the contract answers with nothing
    // (a signature that does not recover) is no failure.
    bool (*run)(BytesView input, Revision revision, Bytes& output);
};
inline constexpr std::uint64_t kUnaffordable = std::numeric_limits<std::uint64_t>::max();

// Null when nothing is built in at that address in this fork.
[[nodiscard]] const Precompile* find_precompile(const Bytes20& address, Revision revision);
// The addresses that hold one, ascending: those that each transaction finds warm (EIP-2929).
[[nodiscard]] std::span<const Bytes20> precompile_addresses(Revision revision);

}  // namespace quern::vm::evm
