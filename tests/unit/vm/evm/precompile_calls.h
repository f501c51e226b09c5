// Calls of built-in contracts in hex, for tests.
#pragma once

#include "base/uint256.h"
#include "vm/evm/precompiles.h"

namespace quern::vm::evm {

inline Bytes20 address_of(std::uint64_t number) {
    return Bytes20::copy_of(Uint256(number).to_be32().view().subspan(12));
}
// What the contract gives, or "fails".
inline std::string call(std::uint64_t number, const std::string& input, Revision revision = Revision::osaka) {
    Bytes output{0xcc};  // which a contract must not leave
    const Bytes bytes = *from_hex(input);
    if (!find_precompile(address_of(number), revision)->run(bytes, revision, output)) return "fails";
    return to_hex(output);
}
inline std::uint64_t gas(std::uint64_t number, const std::string& input, Revision revision = Revision::osaka) {
    return find_precompile(address_of(number), revision)->gas(*from_hex(input), revision);
}

}  // namespace quern::vm::evm
