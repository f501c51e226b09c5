#include "vm/evm/opcodes.h"

#include <gtest/gtest.h>

namespace quern::vm::evm {
namespace {

std::uint32_t gas(Opcode opcode, Revision revision) { return static_gas(static_cast<std::uint8_t>(opcode), revision); }
bool defined(Opcode opcode, Revision revision) { return is_defined(static_cast<std::uint8_t>(opcode), revision); }

TEST(Opcodes, cost_what_their_fork_says) {
    EXPECT_EQ(gas(Opcode::SLOAD, Revision::frontier), 50U);
    EXPECT_EQ(gas(Opcode::SLOAD, Revision::tangerine_whistle), 200U);
    EXPECT_EQ(gas(Opcode::SLOAD, Revision::petersburg), 200U);
    EXPECT_EQ(gas(Opcode::SLOAD, Revision::istanbul), 800U);
    EXPECT_EQ(gas(Opcode::SLOAD, Revision::osaka), 100U);
    EXPECT_EQ(gas(Opcode::CALL, Revision::homestead), 40U);
    EXPECT_EQ(gas(Opcode::CALL, Revision::istanbul), 700U);
    EXPECT_EQ(gas(Opcode::SELFDESTRUCT, Revision::homestead), 0U);
    EXPECT_EQ(gas(Opcode::SELFDESTRUCT, Revision::osaka), 5000U);
    EXPECT_EQ(gas(Opcode::EXTCODEHASH, Revision::constantinople), 400U);
    EXPECT_EQ(gas(Opcode::EXTCODEHASH, Revision::istanbul), 700U);
    EXPECT_EQ(gas(Opcode::BALANCE, Revision::frontier), 20U);
    EXPECT_EQ(gas(Opcode::BALANCE, Revision::tangerine_whistle), 400U);
    EXPECT_EQ(gas(Opcode::LOG4, Revision::frontier), 5 * 375U);
    EXPECT_EQ(gas(Opcode::CLZ, Revision::osaka), 5U);
}

TEST(Opcodes, exist_from_their_fork_on) {
    EXPECT_FALSE(defined(Opcode::DELEGATECALL, Revision::frontier));
    EXPECT_TRUE(defined(Opcode::DELEGATECALL, Revision::homestead));
    EXPECT_FALSE(defined(Opcode::PUSH0, Revision::paris));
    EXPECT_TRUE(defined(Opcode::PUSH0, Revision::shanghai));
    EXPECT_FALSE(defined(Opcode::CLZ, Revision::prague));
    EXPECT_TRUE(defined(Opcode::CLZ, Revision::osaka));
    EXPECT_FALSE(is_defined(0x0c, Revision::osaka));
    EXPECT_FALSE(is_defined(0xef, Revision::osaka));
}

TEST(Opcodes, have_names_and_stack_effects) {
    std::size_t named = 0;
    for (unsigned number = 0; number < 256; ++number)
        named += is_defined(static_cast<std::uint8_t>(number), Revision::osaka) ? 1 : 0;
    EXPECT_EQ(named, 150U);  // execution-specs' Ops of Osaka
    EXPECT_EQ(opcode_info(0x60).name, "PUSH1");
    EXPECT_EQ(opcode_info(0x9f).name, "SWAP16");
    EXPECT_EQ(opcode_info(0x9f).taken, 17);
    EXPECT_EQ(opcode_info(0x9f).left, 17);
    EXPECT_EQ(opcode_info(0xf1).taken, 7);
    EXPECT_EQ(operand_bytes(0x60), 1U);
    EXPECT_EQ(operand_bytes(0x7f), 32U);
    EXPECT_EQ(operand_bytes(0x5f), 0U);
    EXPECT_EQ(operand_bytes(0x80), 0U);
}

TEST(Revisions, are_found_by_the_names_of_fixtures) {
    for (std::size_t i = 0; i < kRevisions; ++i) {
        const auto revision = static_cast<Revision>(i);
        EXPECT_EQ(revision_of(fixture_name(revision)), revision);
    }
    EXPECT_EQ(revision_of("Merge"), Revision::paris);
    EXPECT_EQ(revision_of("MuirGlacier"), Revision::istanbul);
    EXPECT_EQ(revision_of("Amsterdam"), std::nullopt);
}

}  // namespace
}  // namespace quern::vm::evm
