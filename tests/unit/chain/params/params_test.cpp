#include "chain/params/params.h"

#include <gtest/gtest.h>

#include <set>

#include "chain/types/abi.h"

namespace quern::chain::params {
namespace {

TEST(ReservedAddresses, are_one_for_each_group) {
    EXPECT_EQ(to_hex(reserved_address(types::NativeKind::bond)), "0000000000000000000000000000000000005102");
    EXPECT_EQ(to_hex(reserved_address(types::NativeKind::task_submit)), "0000000000000000000000000000000000005103");
    EXPECT_EQ(to_hex(reserved_address(types::NativeKind::verify_reveal)), "0000000000000000000000000000000000005104");
    EXPECT_EQ(to_hex(reserved_address(types::NativeKind::dispute_split)), "0000000000000000000000000000000000005105");
    EXPECT_EQ(to_hex(reserved_address(types::NativeKind::tick)), "0000000000000000000000000000000000005106");
    EXPECT_EQ(types::group_at(types::group_address(types::KindGroup::staking)), types::KindGroup::staking);
    types::Address next = reserved_address(types::NativeKind::tick);
    next.data[19] = 7;
    EXPECT_FALSE(types::group_at(next));
    next.data[19] = 0;
    EXPECT_FALSE(types::group_at(next));
    next = reserved_address(types::NativeKind::tick);
    next.data[0] = 1;
    EXPECT_FALSE(types::group_at(next));
    EXPECT_FALSE(types::group_at({}));
}

TEST(NativeGas, prices_every_kind_and_the_largest_move_fits_a_block) {
    const ChainParams params;
    for (const auto& info : types::native_kinds()) {
        const auto gas = native_gas(info.kind);
        EXPECT_GT(gas.fixed, 0U) << info.name;
        EXPECT_GT(gas.per_byte, 0U) << info.name;
        // Call data at EIP-7623's floor of 40 gas a byte, 64 KiB of move, a dozen objects.
        EXPECT_LT(21'000 + gas.fixed + (40 + gas.per_byte) * (64ULL << 10) + 12 * kNativeGasPerObject,
                  params.block_gas_limit / 2)
            << info.name;
    }
}

TEST(NativeKinds, names_numbers_and_selectors_are_unique) {
    std::set<std::uint8_t> numbers;
    std::set<std::string_view> names;
    std::set<std::pair<types::KindGroup, types::abi::Selector>> selectors;
    for (const auto& info : types::native_kinds()) {
        EXPECT_TRUE(numbers.insert(static_cast<std::uint8_t>(info.kind)).second);
        EXPECT_TRUE(names.insert(info.name).second);
        EXPECT_TRUE(selectors.insert({info.group, types::abi::selector(info.kind)}).second);
        EXPECT_EQ(types::find_kind(info.name), &info);
        EXPECT_EQ(types::find_kind(static_cast<std::uint8_t>(info.kind)), &info);
    }
    EXPECT_EQ(types::find_kind(0xff), nullptr);
    EXPECT_EQ(types::find_kind("mint"), nullptr);
}

TEST(NativeKinds, signatures_are_what_wallets_compute) {
    EXPECT_EQ(types::abi::function_signature(types::NativeKind::bond), "bond(uint8,uint256)");
    EXPECT_EQ(types::abi::function_signature(types::NativeKind::task_bid), "bid(bytes)");
    EXPECT_EQ(types::abi::function_signature(types::NativeKind::delegate), "delegate(address,uint256)");
    EXPECT_EQ(types::abi::function_signature(types::NativeKind::tick), "tick(uint8,uint64)");
    // The hash behind selectors and topics, against values known from ERC-20.
    EXPECT_EQ(to_hex(types::abi::signature_hash("transfer(address,uint256)").view().first(4)), "a9059cbb");
    EXPECT_EQ(to_hex(types::abi::signature_hash("Transfer(address,address,uint256)")),
              "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
}

}  // namespace
}  // namespace quern::chain::params
