// Each rule of a block alone: the block that fits, then the same with one thing changed.
#include "chain/exec/block_validation.h"

#include <gtest/gtest.h>

#include <functional>

#include "chain/consensus/certificate.h"
#include "chain/state/trie.h"
#include "chain/types/transaction_rules.h"

namespace quern::chain::exec::test {
namespace {

using types::Block;
using types::BlockHeader;

template <class T>
std::string name_of(const T& status) {
    return status ? "fits" : std::string(status.error().name);
}
Hash32 filled(std::uint8_t byte) {
    Hash32 hash;
    hash.data.fill(byte);
    return hash;
}

struct HeaderOnParent : ::testing::Test {
    HeaderOnParent() {
        parent.number = 6;
        parent.gas_limit = params.block_gas_limit;
        parent.gas_used = params.block_gas_limit;
        parent.base_fee_per_gas = 1'000'000;
        parent.consensus.timestamp_ms = 10'500;
        header.number = 7;
        header.gas_limit = params.block_gas_limit;
        header.base_fee_per_gas = base_fee_on(params, parent);
        header.consensus.timestamp_ms = 10'501;
        header.timestamp = 10;
        header.consensus.beacon = filled(3);
        header.prev_randao = filled(3);
    }
    std::string with(const std::function<void(BlockHeader&)>& change) const {
        BlockHeader changed = header;
        change(changed);
        return name_of(check_header(params, parent, changed));
    }
    params::ChainParams params;
    BlockHeader parent;
    BlockHeader header;
};

TEST_F(HeaderOnParent, fits_or_is_refused_by_name) {
    EXPECT_EQ(with([](BlockHeader&) {}), "fits");
    EXPECT_GT(header.base_fee_per_gas, parent.base_fee_per_gas) << "the parent was full";
    EXPECT_EQ(with([](BlockHeader& h) { h.number = 6; }), "header.wrong_number");
    EXPECT_EQ(with([](BlockHeader& h) { h.number = 8; }), "header.wrong_number");
    EXPECT_EQ(with([](BlockHeader& h) { h.consensus.timestamp_ms = 10'500; }), "header.wrong_timestamp");
    EXPECT_EQ(with([](BlockHeader& h) { h.consensus.timestamp_ms = 10'499; }), "header.wrong_timestamp");
    EXPECT_EQ(with([](BlockHeader& h) { h.timestamp = 11; }), "header.wrong_timestamp");
    EXPECT_EQ(with([](BlockHeader& h) { h.consensus.timestamp_ms = 11'000; }), "header.wrong_timestamp");
    EXPECT_EQ(with([](BlockHeader& h) {
                  h.consensus.timestamp_ms = 11'999;
                  h.timestamp = 11;
              }),
              "fits");
    EXPECT_EQ(with([](BlockHeader& h) { h.prev_randao = filled(4); }), "header.wrong_beacon");
    EXPECT_EQ(with([](BlockHeader& h) { h.gas_limit += 1; }), "header.wrong_gas_limit");
    EXPECT_EQ(with([](BlockHeader& h) { h.gas_limit -= 1; }), "header.wrong_gas_limit");
    EXPECT_EQ(with([](BlockHeader& h) { h.parent_beacon_block_root = filled(1); }), "header.wrong_constant");
    EXPECT_EQ(with([](BlockHeader& h) { h.base_fee_per_gas += Uint256(1); }), "block.wrong_base_fee");
    EXPECT_EQ(with([this](BlockHeader& h) { h.base_fee_per_gas = parent.base_fee_per_gas; }), "block.wrong_base_fee");
}

TEST_F(HeaderOnParent, says_to_the_transactions_what_it_says) {
    header.beneficiary.data.fill(9);
    const BlockContext context = context_of(parent, header);
    EXPECT_EQ(context.number, 7U);
    EXPECT_EQ(context.timestamp_ms, 10'501U);
    EXPECT_EQ(context.elapsed_ms, header.consensus.timestamp_ms - parent.consensus.timestamp_ms);
    EXPECT_GT(context.elapsed_ms, 0U);
    EXPECT_EQ(context.gas_limit, params.block_gas_limit);
    EXPECT_EQ(context.base_fee, header.base_fee_per_gas);
    EXPECT_EQ(context.beneficiary, header.beneficiary);
    EXPECT_EQ(context.beacon, filled(3));
}

Block block_of(std::size_t transactions) {
    Block block;
    for (std::size_t i = 0; i < transactions; ++i)
        block.transactions.push_back(Bytes{2, 1, static_cast<std::uint8_t>(i)});
    block.parent_certificate = Bytes(40, 7);
    block.header.gas_limit = 2 * types::kTxBaseGas + types::kTxBaseGas / 2;
    block.header.gas_used = transactions * types::kTxBaseGas;
    block.header.consensus.parent_certificate_hash = consensus::certificate_hash(block.parent_certificate);
    block.header.transactions_root = state::ordered_trie_root(block.transactions);
    block.header.withdrawals_root = types::kEmptyTrieRoot;
    return block;
}

TEST(Body, fits_its_header_or_is_refused_by_name) {
    EXPECT_EQ(name_of(check_body(block_of(0))), "fits");
    EXPECT_EQ(name_of(check_body(block_of(2))), "fits");
    EXPECT_EQ(name_of(check_body(block_of(3))), "block.too_many_transactions");
    Block block = block_of(1);
    block.withdrawals.emplace_back();
    EXPECT_EQ(name_of(check_body(block)), "block.unexpected_withdrawals");
    block = block_of(1);
    block.parent_certificate.back() ^= 1;
    EXPECT_EQ(name_of(check_body(block)), "block.wrong_certificate");
}

TEST(Body, matches_the_roots_of_its_header_alone) {
    const Block good = block_of(2);
    EXPECT_TRUE(body_matches(encode(good)));
    EXPECT_TRUE(body_matches(encode(block_of(0))));
    const auto with = [&](const std::function<void(Block&)>& change) {
        Block changed = good;
        change(changed);
        return body_matches(encode(changed));
    };
    EXPECT_FALSE(with([](Block& b) { b.transactions[1].back() ^= 1; }));
    EXPECT_FALSE(with([](Block& b) { std::swap(b.transactions[0], b.transactions[1]); }));
    EXPECT_FALSE(with([](Block& b) { b.transactions.pop_back(); }));
    EXPECT_FALSE(with([](Block& b) { b.withdrawals.emplace_back(); }));
    EXPECT_FALSE(with([](Block& b) { b.header.withdrawals_root = filled(1); }));
    // More than its gas can have paid for: said before their root is reckoned.
    EXPECT_FALSE(with([](Block& b) { --b.header.gas_used; }));
    EXPECT_FALSE(with([](Block& b) { b.header.transactions_root = filled(1); }));
    Bytes cut = encode(good);
    cut.pop_back();
    EXPECT_FALSE(body_matches(cut));
}

TEST(Results, that_a_header_claims_are_those_of_the_execution) {
    BlockHeader actual;
    actual.gas_used = 21'000;
    const auto with = [&](const std::function<void(BlockHeader&)>& change) {
        BlockHeader claimed = actual;
        change(claimed);
        const Status status = check_results(claimed, actual);
        return status ? "fits" : std::string(status.error().name) + ": " + std::string(status.error().detail);
    };
    EXPECT_EQ(with([](BlockHeader&) {}), "fits");
    EXPECT_EQ(with([](BlockHeader& h) { h.gas_used += 1; }), "block.wrong_gas: 21000");
    EXPECT_EQ(with([](BlockHeader& h) { h.transactions_root = filled(1); }), "block.wrong_root: transactions");
    EXPECT_EQ(with([](BlockHeader& h) { h.receipts_root = filled(1); }), "block.wrong_root: receipts");
    EXPECT_EQ(with([](BlockHeader& h) { h.logs_bloom.data[255] ^= 1; }), "block.wrong_root: logs bloom");
    EXPECT_EQ(with([](BlockHeader& h) { h.state_root = filled(1); }), "block.wrong_root: state");
    EXPECT_EQ(with([](BlockHeader& h) { h.consensus.native_root = filled(1); }), "block.wrong_root: native objects");
    EXPECT_EQ(with([](BlockHeader& h) { h.withdrawals_root = filled(1); }), "block.wrong_root: withdrawals");
    EXPECT_EQ(with([](BlockHeader& h) { h.number = 1; }), "block.wrong_header: ");
}

}  // namespace
}  // namespace quern::chain::exec::test
