#include "chain/params/parameters.h"

#include <gtest/gtest.h>

#include <set>

#include "base/fs.h"

namespace quern::chain::params {
namespace {

// Sets the parameter of this place in the table.
void set(ChainParams& params, std::size_t index, const Uint256& value) {
    visit_parameters(params, [&](const Parameter& parameter, auto& target) {
        if (&parameter != &parameters()[index]) return;
        if constexpr (std::is_same_v<std::decay_t<decltype(target)>, Uint256>)
            target = value;
        else
            target = value.low_u64();
    });
}

std::string error_with(std::size_t index, const Uint256& value) {
    ChainParams params;
    params.epoch_length = 100;
    set(params, index, value);
    const auto status = check_parameters(params);
    return status ? "" : status.error().to_string();
}

TEST(Parameters, each_has_a_name_a_meaning_and_a_default_that_is_the_structs) {
    std::set<std::pair<std::string_view, std::string_view>> names;
    ChainParams params;
    visit_parameters(params, [&](const Parameter& parameter, const Uint256& value) {
        EXPECT_TRUE(names.insert({parameter.section, parameter.name}).second) << parameter.name;
        EXPECT_EQ(value, parameter.standard) << parameter.name;
        EXPECT_FALSE(parameter.doc.empty()) << parameter.name;
    });
    EXPECT_EQ(names.size(), parameters().size());
    EXPECT_EQ(names.size(), 46U);
    EXPECT_TRUE(check_parameters(params));
    EXPECT_EQ(params.block_gas_limit, 300'000'000U);
}

TEST(Parameters, limits_are_checked_on_both_sides_and_the_error_names_the_parameter) {
    for (std::size_t i = 0; i < parameters().size(); ++i) {
        const auto& each = parameters()[i];
        const auto names_it = [&](const std::string& error) {
            return error.find(kBadParameter) == 0 &&
                   error.find(std::string(each.section) + "." + std::string(each.name) + " is ") != std::string::npos;
        };
        if (!each.least.is_zero()) {
            EXPECT_TRUE(names_it(error_with(i, each.least - Uint256(1)))) << each.name;
        }
        if (each.most != Uint256(~std::uint64_t{0})) {
            EXPECT_TRUE(names_it(error_with(i, each.most + Uint256(1)))) << each.name;
        }
        // The limits themselves are allowed, or break a relation with another parameter: its message is another one.
        EXPECT_FALSE(names_it(error_with(i, each.least))) << each.name;
        EXPECT_FALSE(names_it(error_with(i, each.most))) << each.name;
    }
}

TEST(Parameters, must_fit_each_other) {
    const auto detail = [](const std::function<void(ChainParams&)>& change) {
        ChainParams params;
        change(params);
        const auto status = check_parameters(params);
        return status ? std::string() : status.error().detail;
    };
    EXPECT_EQ(detail([](ChainParams& p) { p.chain_id = 0; }), "chain_id must not be 0");
    EXPECT_EQ(detail([](ChainParams& p) { p.initial_base_fee = p.min_base_fee - 1; }),
              "block.base_fee must be min_base_fee at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.min_block_ms = 1001; }), "block.max_idle_ms must be min_block_ms at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.burn_percent = 90; }),
              "market.submitter_percent and burn_percent must leave something of a slash");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.max_window_s = 69, p.market.min_window_s = 70; }),
              "market.max_window_s must be min_window_s at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.min_window_s = 59; }),
              "market.min_window_s must be sixty times block.max_idle_ms at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.max_idle_ms = 1001; }),
              "market.min_window_s must be sixty times block.max_idle_ms at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.staking.unbonding_blocks = 149; }),
              "staking.unbonding_blocks must be three epochs at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.burn_percent = 96, p.market.submitter_percent = 0; }),
              "staking.reporter_percent and market.burn_percent exceed 100");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.burn_percent = 95, p.market.submitter_percent = 4; }), "");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.unbonding_blocks = p.epoch_length + kDrawReach - 1; }),
              "market.unbonding_blocks must be an epoch and 520 blocks at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.min_verifiers = 4, p.market.max_verifiers = 3; }),
              "market.max_verifiers must be min_verifiers at least");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.custodians = 2; }),
              "market.custodians must be three at least, or 0");
    EXPECT_EQ(detail([](ChainParams& p) { p.market.custodians = 3; }), "");
    EXPECT_EQ(detail([](ChainParams& p) { p.chain_id = kTestnetChainId, p.market.min_verifiers = 2; }),
              "market.min_verifiers must be three at least but on a devnet (chain_id 7878)");
    EXPECT_EQ(detail([](ChainParams& p) { p.chain_id = kTestnetChainId, p.market.min_verifiers = 3; }), "");
}

TEST(Parameters, page_is_up_to_date) {
    const auto page = fs::read_text_file(QUERN_PARAMETERS_PAGE, std::size_t{1} << 20);
    ASSERT_TRUE(page) << page.error().to_string();
    EXPECT_TRUE(*page == parameters_page()) << "write it anew: quern-genesis parameters > doc/parameters.md";
}

}  // namespace
}  // namespace quern::chain::params
