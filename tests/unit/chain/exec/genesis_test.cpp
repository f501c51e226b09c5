#include "chain/exec/genesis.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "chain/exec/invariants/invariants.h"
#include "crypto/signature.h"
#include "support.h"

namespace quern::chain::exec::test {
namespace {

Genesis sample() {
    SeededRng rng(7);
    const auto key = crypto::PrivateKey::generate(rng);
    Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'123;
    genesis.allocations = {{address(1), Uint256(5000)}, {address(2), Uint256(7)}};
    genesis.validators = {{to_bytes(crypto::derive_public(key).bytes), Uint256(100) * params::kGrainsPerQrn}};
    genesis.bonds = {{address(1), types::Role::solver, Uint256(50) * params::kGrainsPerQrn},
                     {address(1), types::Role::verifier, Uint256(60) * params::kGrainsPerQrn}};
    return genesis;
}

std::string text_with(const std::function<void(json::Value&)>& change) {
    auto root = to_json(sample());
    change(root);
    return root.dump();
}

TEST(GenesisFile, round_trips) {
    const auto text = to_json(sample()).dump_pretty();
    const auto parsed = parse_genesis(text);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(to_json(*parsed), to_json(sample()));
}

TEST(GenesisFile, defaults_fill_what_is_left_out) {
    const auto parsed = parse_genesis(text_with([](json::Value& root) {
        root.erase("block");
        root.set("market", json::Value::object({{"max_rounds", 2}, {"dispute_cost", "1000"}}));
    }));
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->params.market.max_rounds, 2U);
    EXPECT_EQ(parsed->params.market.dispute_cost, Uint256(1000));
    EXPECT_EQ(parsed->params.market.burn_percent, 25U);
    EXPECT_EQ(parsed->params.block_gas_limit, 300'000'000U);
}

TEST(GenesisFile, names_what_is_wrong) {
    const auto error_of = [](const std::function<void(json::Value&)>& change) {
        const auto parsed = parse_genesis(text_with(change));
        return parsed ? std::string("none") : std::string(parsed.error().name);
    };
    EXPECT_EQ(error_of([](auto&) {}), "none");
    EXPECT_EQ(error_of([](auto& r) { r.set("extra", 1); }), "genesis.unknown_field");
    EXPECT_EQ(error_of([](auto& r) { r.set("market", json::Value::object({{"gama", 1}})); }), "genesis.unknown_field");
    EXPECT_EQ(error_of([](auto& r) { r.set("format", "quern-genesis-2"); }), "genesis.bad_format");
    EXPECT_EQ(error_of([](auto& r) { r.erase("chain_id"); }), "genesis.missing_field");
    EXPECT_EQ(error_of([](auto& r) { r.set("chain_id", "x"); }), "genesis.bad_value");
    EXPECT_EQ(error_of([](auto& r) { r.set("chain_id", 0); }), "genesis.bad_parameter");
    EXPECT_EQ(error_of([](auto& r) { r.set("market", 3); }), "genesis.bad_value");
    EXPECT_EQ(error_of([](auto& r) {
                  r.set("market", json::Value::object({{"burn_percent", 24}}));
              }),
              "genesis.bad_parameter");
    EXPECT_EQ(error_of([](auto& r) {
                  r.set("market", json::Value::object({{"submitter_percent", 80}}));
              }),
              "genesis.bad_parameter");
    EXPECT_EQ(error_of([](auto& r) { r.set("validators", json::Value::array()); }), "genesis.no_validators");
    EXPECT_EQ(
        error_of([](auto& r) {
            r.set("validators", json::Value::array({json::Value::object({{"public_key", "0x00"}, {"stake", 1}})}));
        }),
        "genesis.bad_validator_key");
    const auto allocation = [](const char* address, const char* balance) {
        return json::Value::object({{"address", address}, {"balance", balance}});
    };
    const char* one = "0x00000000000000000000000000000000000000a1";
    EXPECT_EQ(error_of([&](auto& r) { r.set("allocations", json::Value::array({allocation(one, "0")})); }),
              "genesis.zero_amount");
    EXPECT_EQ(error_of([&](auto& r) { r.set("allocations", json::Value::array({allocation(one, "1e3")})); }),
              "genesis.bad_value");
    EXPECT_EQ(error_of([&](auto& r) { r.set("allocations", json::Value::array({allocation("0x12", "1")})); }),
              "genesis.bad_value");
    EXPECT_EQ(error_of([&](auto& r) {
                  r.set("allocations", json::Value::array({allocation(one, "1"), allocation(one, "2")}));
              }),
              "genesis.duplicate_address");
    EXPECT_EQ(error_of([&](auto& r) {
                  r.set("allocations",
                        json::Value::array({allocation("0x0000000000000000000000000000000000005103", "1")}));
              }),
              "genesis.reserved_address");
    const std::string huge = "1" + std::string(60, '0');
    EXPECT_EQ(error_of([&](auto& r) { r.set("allocations", json::Value::array({allocation(one, huge.c_str())})); }),
              "genesis.supply_overflow");
    const auto set = [](const char* section, const char* name, json::Value value) {
        return [=](json::Value& r) {
            auto values = *r.find(section);
            values.set(name, value);
            r.set(section, values);
        };
    };
    EXPECT_EQ(error_of(set("block", "epoch_length", 3)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("block", "epoch_length", 4)), "none");
    EXPECT_EQ(error_of(set("block", "delta_ms", 0)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "unbonding_blocks", 149)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("market", "min_window_s", 59)), "genesis.bad_parameter") << "sixty idle pauses of a second";
    EXPECT_EQ(error_of(set("market", "min_window_s", 60)), "none");
    EXPECT_EQ(error_of(set("block", "max_idle_ms", 0)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "unbonding_blocks", 150)), "none") << "three epochs of 50";
    EXPECT_EQ(error_of(set("staking", "max_validators", 0)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "max_validators", 101)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "double_sign_slash_per_mille", 0)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "double_sign_slash_per_mille", 1001)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "reporter_percent", 26)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "max_unbonding_entries", 0)), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "min_validator_stake", "0")), "genesis.bad_parameter");
    EXPECT_EQ(error_of(set("staking", "min_validator_stake", "100000000000000000001")), "genesis.stake_too_small");
    EXPECT_EQ(error_of(set("market", "min_bond_gammas", 5'000)), "none") << "50 QRN";
    EXPECT_EQ(error_of(set("market", "min_bond_gammas", 5'001)), "genesis.bond_too_small");
    EXPECT_EQ(error_of(set("staking", "commission", 1)), "genesis.unknown_field");
    EXPECT_FALSE(parse_genesis("{"));
    EXPECT_FALSE(parse_genesis("[]"));
}

TEST(GenesisState, holds_what_was_minted) {
    EmptyState empty;
    state::Overlay overlay(empty);
    apply_genesis(sample(), overlay);
    EXPECT_TRUE(invariants::check_holdings(overlay));
    EXPECT_EQ(balance(overlay, address(1)), Uint256(5000));
    const auto tasks = overlay.account(params::reserved_address(types::NativeKind::task_submit));
    ASSERT_TRUE(tasks);
    EXPECT_EQ(to_hex(overlay.code(tasks->code_hash)), "60006000fd");
}

// The file's text with every default, and what a network is told apart by.
TEST(GenesisState, the_same_file_gives_the_same_hash) {
    auto genesis = sample();
    genesis.params.network = "pinned";
    EXPECT_EQ(to_hex(genesis_beacon(genesis)), "d0e2525034ca55b7d1c6ba936d203cf204d012206c9ba6f11144e349fadfad66");
    EXPECT_EQ(to_hex(types::hash_of(genesis_header(genesis, {}, {}, {}))),
              "63e2d85996f5ac41be636a068dcc2eec2153aa0ee2df015c51603fc929e1c1e7");
}

TEST(GenesisState, header_tells_parameters_apart) {
    auto genesis = sample();
    const auto first = genesis_header(genesis, {}, {}, {});
    genesis.params.market.max_rounds = 9;
    EXPECT_NE(types::hash_of(first), types::hash_of(genesis_header(genesis, {}, {}, {})));
    EXPECT_EQ(first.number, 0U);
    EXPECT_EQ(first.timestamp, 1'700'000'000U);
}

}  // namespace
}  // namespace quern::chain::exec::test
