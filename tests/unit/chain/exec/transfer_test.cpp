#include "support.h"

#include "chain/exec/fees.h"
#include "chain/exec/result/refusals.h"

namespace quern::chain::exec::test {
namespace {

class Transfers : public ::testing::Test {
protected:
    Transfers() : overlay(empty) {
        give(overlay, alice, Uint256(1'000'000'000));
        execution.emplace(params, overlay, context);
        execution->begin();
    }
    Result apply(const types::Transaction& tx) { return execution->apply(from(alice, tx)); }

    EmptyState empty;
    state::Overlay overlay;
    params::ChainParams params;
    BlockContext context = block_context(1);
    types::Address alice = address(1);
    types::Address bob = address(2);
    std::optional<BlockExecution> execution;
};

TEST_F(Transfers, moves_value_and_charges_fees) {
    const auto result = apply(transfer(0, bob, 5000));
    EXPECT_EQ(result.band, Band::ok) << result.to_string();
    EXPECT_EQ(balance(overlay, bob), Uint256(5000));
    EXPECT_EQ(balance(overlay, alice), Uint256(1'000'000'000 - 5000 - 12 * 21'000));
    EXPECT_EQ(balance(overlay, context.beneficiary), Uint256(2 * 21'000));
    ASSERT_TRUE(execution->finish());
    ASSERT_EQ(execution->receipts().size(), 1U);
    EXPECT_TRUE(execution->receipts()[0].success);
    EXPECT_EQ(execution->receipts()[0].effective_gas_price, Uint256(12));
    EXPECT_EQ(execution->gas_used(), 21'000U);
    const auto globals =
        types::decode_record<types::Globals>(*overlay.native(types::object_key(types::ObjectPrefix::globals)));
    EXPECT_EQ(globals->burned, Uint256(105'000));
    EXPECT_EQ(globals->jackpot_vault, Uint256(105'000));
}

TEST_F(Transfers, refuses_what_cannot_be_in_the_block_without_any_change) {
    const auto before = overlay.changed_accounts();
    EXPECT_EQ(apply(transfer(1, bob, 1)).name, "nonce too high");
    EXPECT_EQ(apply(transfer(1, bob, 1)).band, Band::retry);
    EXPECT_EQ(apply(transfer(0, bob, 1'000'000'000)).name, kInsufficientFunds.text);
    auto tx = transfer(0, bob, 1);
    tx.gas_limit = 20'999;
    EXPECT_EQ(apply(tx).name, "intrinsic gas too low");
    tx = transfer(0, bob, 1);
    tx.max_fee_per_gas = 9;
    EXPECT_EQ(apply(tx).name, "max fee per gas less than block base fee");
    tx = transfer(0, bob, 1);
    tx.max_priority_fee_per_gas = 101;
    EXPECT_EQ(apply(tx).name, "max priority fee per gas higher than max fee per gas");
    tx = transfer(0, bob, 1);
    tx.chain_id = 1;
    EXPECT_EQ(apply(tx).name, "invalid chain id for signer");
    tx = transfer(0, bob, 1);
    tx.to.reset();
    tx.gas_limit = 100'000;
    EXPECT_EQ(apply(tx).name, "contract creation is not active yet");
    tx = transfer(0, bob, 1);
    tx.type = types::TxType::set_code;
    EXPECT_EQ(apply(tx).name, "set_code.not_active");
    tx = transfer(0, bob, 1);
    tx.gas_limit = params::ChainParams{}.block_gas_limit + 1;
    EXPECT_EQ(apply(tx).name, "exceeds block gas limit");
    EXPECT_EQ(overlay.changed_accounts(), before);
    EXPECT_TRUE(execution->receipts().empty());
    ASSERT_TRUE(apply(transfer(0, bob, 1)).in_block());
    EXPECT_EQ(apply(transfer(0, bob, 1)).name, "nonce too low");
}

TEST_F(Transfers, refuses_senders_with_code) {
    auto account = overlay.account_or_empty(alice);
    account.code_hash = crypto::keccak256(as_bytes("code"));
    overlay.set_account(alice, account);
    EXPECT_EQ(apply(transfer(0, bob, 1)).name, "sender not an eoa");
}

TEST_F(Transfers, leaves_no_room_past_the_blocks_gas_limit) {
    context.gas_limit = 30'000;
    execution.emplace(params, overlay, context);
    execution->begin();
    EXPECT_TRUE(apply(transfer(0, bob, 1)).in_block());
    const auto result = apply(transfer(1, bob, 1));
    EXPECT_EQ(result.name, "gas limit reached");
    EXPECT_EQ(result.band, Band::retry);
}

TEST_F(Transfers, charges_the_floor_price_for_call_data) {
    auto tx = transfer(0, bob, 1);
    tx.data = Bytes(100, 1);
    tx.gas_limit = 50'000;
    ASSERT_EQ(apply(tx).band, Band::ok);
    EXPECT_EQ(execution->gas_used(), 21'000U + 4'000U);
}

TEST_F(Transfers, mempool_check_accepts_a_future_nonce_only) {
    EXPECT_EQ(precheck(params, overlay, 1, from(alice, transfer(7, bob, 1)), 10).band, Band::ok);
    EXPECT_EQ(precheck(params, overlay, 1, from(alice, transfer(0, bob, 1)), 101).band, Band::retry);
    EXPECT_EQ(precheck(params, overlay, 1, from(bob, transfer(0, bob, 1)), 10).name, kInsufficientFunds.text);
    EXPECT_EQ(precheck(params, overlay, 1, from(alice, native(0, types::NativeKind::tick, Bytes{0x80})), 10).band,
              Band::malformed);
    auto unknown = native(0, types::NativeKind::tick, Bytes{0xc0});
    unknown.native_kind = 0xff;
    EXPECT_EQ(precheck(params, overlay, 1, from(alice, unknown), 10).name, "native.unknown_kind");
}

TEST_F(Transfers, simulation_returns_gas_and_revert_data) {
    CallRequest call;
    call.from = alice;
    call.to = bob;
    call.value = 7;
    auto result = simulate(params, overlay, context, call);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->success);
    EXPECT_EQ(result->gas_used, 21'000U);

    call.to = params::reserved_address(types::NativeKind::bond);
    result = simulate(params, overlay, context, call);
    ASSERT_TRUE(result);
    EXPECT_FALSE(result->success);
    EXPECT_EQ(result->failure, "native.value_not_zero");
    EXPECT_EQ(types::abi::decode_error(result->output), "native.value_not_zero");

    call.to.reset();
    EXPECT_EQ(simulate(params, overlay, context, call).error().name, "contract creation is not active yet");
}

TEST(BaseFee, follows_gas_used_as_in_eip_1559) {
    params::ChainParams params;
    params.min_base_fee = 7;
    EXPECT_EQ(next_base_fee(params, 15'000'000, 30'000'000, 1000), Uint256(1000));
    EXPECT_EQ(next_base_fee(params, 30'000'000, 30'000'000, 1000), Uint256(1125));
    EXPECT_EQ(next_base_fee(params, 0, 30'000'000, 1000), Uint256(875));
    EXPECT_EQ(next_base_fee(params, 15'000'001, 30'000'000, 7), Uint256(8));
    EXPECT_EQ(next_base_fee(params, 0, 30'000'000, 7), Uint256(7));
}

}  // namespace
}  // namespace quern::chain::exec::test
