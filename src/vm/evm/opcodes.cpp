#include "vm/evm/opcodes.h"

namespace quern::vm::evm {
namespace {

using Gas = OpcodeInfo::Gas;

constexpr OpcodeInfo describe(std::string_view name, std::uint8_t taken, std::uint8_t left, Revision since,
                              std::initializer_list<Gas> prices) {
    OpcodeInfo info{name, taken, left, since, {}, 0};
    for (const Gas& price : prices) info.prices[info.price_count++] = price;
    info.prices[0].from = since;
    return info;
}

constexpr std::array<OpcodeInfo, 256> make_table() {
    std::array<OpcodeInfo, 256> table{};
#define QUERN_EVM_ROW(number, name, taken, left, since, ...) \
    table[number] = describe(#name, taken, left, Revision::since, {__VA_ARGS__});
    QUERN_EVM_OPCODES(QUERN_EVM_ROW)
#undef QUERN_EVM_ROW
    return table;
}

constexpr std::array<OpcodeInfo, 256> kTable = make_table();

}  // namespace

const OpcodeInfo& opcode_info(std::uint8_t opcode) { return kTable[opcode]; }

bool is_defined(std::uint8_t opcode, Revision revision) {
    return kTable[opcode].price_count != 0 && revision >= kTable[opcode].since;
}

std::uint32_t static_gas(std::uint8_t opcode, Revision revision) {
    const OpcodeInfo& info = kTable[opcode];
    std::uint32_t gas = 0;
    for (std::size_t i = 0; i < info.price_count; ++i)
        if (info.prices[i].from <= revision) gas = info.prices[i].gas;
    return gas;
}

}  // namespace quern::vm::evm
