// Addresses and code as tests of the machine write them. Functions without state.
#pragma once

#include <optional>

#include "vm/evm/opcodes.h"
#include "vm/evm/world.h"

namespace quern::vm::evm {

inline Address address(std::uint8_t number) {
    Address result;
    result.data[0] = 0xaa;
    result.data[19] = number;
    return result;
}

// Code as it is written: assemble("PUSH1 01 PUSH1 02 ADD").
inline Bytes assemble(std::string_view text) {
    Bytes code;
    while (!text.empty()) {
        const std::string_view token = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), token.size() + 1));
        std::optional<std::uint8_t> opcode;
        for (unsigned i = 0; i < 256; ++i)
            if (const auto& name = opcode_info(static_cast<std::uint8_t>(i)).name; !name.empty() && name == token)
                opcode = static_cast<std::uint8_t>(i);
        if (opcode)
            code.push_back(*opcode);
        else
            append(code, from_hex(token).value());
    }
    return code;
}

}  // namespace quern::vm::evm
