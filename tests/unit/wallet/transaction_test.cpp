#include "wallet/transaction.h"

#include <gtest/gtest.h>

#include "chain/consensus/sdbft/evidence.h"
#include "chain/types/abi.h"
#include "crypto/hash.h"
#include "wallet/amount.h"
#include "wallet/keys.h"
#include "wallet/stake.h"

namespace quern::wallet {
namespace {

namespace types = chain::types;
using types::NativeKind;
using types::Role;
using types::TxType;

const std::string kBob = "0x00000000000000000000000000000000000000b0";
const TxFields kFields{.chain_id = 7878, .nonce = 7};

json::Value parsed(std::string_view text) { return *json::parse(text); }

TEST(amount, is_written_in_grains_or_with_a_unit) {
    EXPECT_EQ(parse_amount("1.5qrn")->to_decimal(), "1500000000000000000");
    EXPECT_EQ(parse_amount("2gwei")->to_decimal(), "2000000000");
    EXPECT_EQ(parse_amount("0x3e8")->to_decimal(), "1000");
    EXPECT_EQ(parse_amount("1.5").error().name, "amount.too_many_decimals");
    EXPECT_NE(parse_amount("1.5").error().detail.find("1.5qrn"), std::string::npos) << "what was meant?";
    EXPECT_EQ(parse_amount("1.qrn").error().name, "amount.too_many_decimals");
    EXPECT_EQ(parse_amount("0.0000000000000000001qrn").error().name, "amount.too_many_decimals");
    EXPECT_FALSE(parse_amount(""));
    EXPECT_FALSE(parse_amount("-1"));
    EXPECT_FALSE(parse_amount("1 qrn"));
    EXPECT_EQ(in_qrn(*parse_amount("1.50qrn")), "1.5");
    EXPECT_EQ(in_qrn(*parse_amount("1")), "0.000000000000000001");
    EXPECT_EQ(in_qrn(Uint256()), "0");
}

TEST(amount, errors_name_the_option_and_what_it_said) {
    const auto address = address_of_option("--to", "0xAA");
    ASSERT_FALSE(address);
    EXPECT_EQ(address.error().name, "address.bad_length");
    EXPECT_TRUE(address.error().detail.starts_with("--to 0xAA")) << address.error().detail;
    const auto amount = amount_of_option("--amount", "much");
    ASSERT_FALSE(amount);
    EXPECT_TRUE(amount.error().detail.starts_with("--amount much")) << amount.error().detail;
}

TEST(transaction, transfers_of_each_type_are_signed_by_their_sender) {
    const auto key = *key_from_seed("x");
    for (const int type : {0, 1, 2}) {
        const auto tx = make_transfer(kFields, type, kBob, "0.25qrn");
        ASSERT_TRUE(tx) << tx.error().to_string();
        const auto done = sign(*tx, key);
        ASSERT_TRUE(done) << done.error().to_string();
        EXPECT_EQ(done->sender, crypto::address20(key));
        EXPECT_EQ(done->tx.type, static_cast<TxType>(type));
        EXPECT_EQ(done->tx.nonce, 7U);
        EXPECT_EQ(done->tx.gas_limit, kTransferGas);
        EXPECT_EQ(done->tx.value, *parse_amount("0.25qrn"));
        EXPECT_EQ(done->tx.max_priority_fee_per_gas, type == 2 ? *parse_amount("1gwei") : *parse_amount("10gwei"));
    }
    EXPECT_EQ(make_transfer(kFields, 3, kBob, "1").error().name, "wallet.bad_type");
    EXPECT_EQ(make_transfer(kFields, 2, "0x12", "1").error().name, "address.bad_length");
    TxFields dear = kFields;
    dear.tip = "20gwei";
    EXPECT_FALSE(sign(*make_transfer(dear, 2, kBob, "1"), key)) << "a tip above the whole fee";
    TxFields short_of_gas = kFields;
    short_of_gas.gas = 20'000;
    EXPECT_EQ(sign(*make_transfer(short_of_gas, 2, kBob, "1"), key).error().name, "tx.intrinsic_gas_too_low");
    dear.max_fee = "x";
    EXPECT_TRUE(make_transfer(dear, 2, kBob, "1").error().detail.starts_with("--max-fee x"));
}

TEST(transaction, a_native_kind_says_the_same_both_ways) {
    const auto payload = bond_payload("verifier", "2qrn");
    ASSERT_TRUE(payload);
    const auto native = make_native(kFields, NativeKind::bond, *payload, false);
    const auto call = make_native(kFields, NativeKind::bond, *payload, true);
    ASSERT_TRUE(native && call);
    EXPECT_EQ(native->type, TxType::native);
    EXPECT_EQ(native->data, *payload);
    EXPECT_EQ(call->type, TxType::dynamic_fee);
    EXPECT_EQ(call->to, types::group_address(types::group_of(NativeKind::bond)));
    EXPECT_EQ(call->data, *types::abi::encode_call(NativeKind::bond, *payload));
    EXPECT_TRUE(sign(*native, *key_from_seed("x")));
    EXPECT_EQ(bond_payload("king", "1").error().name, "wallet.unknown_role");
    EXPECT_EQ(bond_payload("relay", "1").error().name, "wallet.unknown_role") << "it would earn nothing";
    for (const Role role : {Role::solver, Role::verifier, Role::whistleblower, Role::custodian}) {
        const auto bond = bond_payload(types::to_string(role), "1");
        ASSERT_TRUE(bond) << types::to_string(role);
        EXPECT_EQ(types::decode_record<types::BondPayload>(*bond)->role, role);
    }
    EXPECT_TRUE(bond_payload("solver", "x").error().detail.starts_with("--amount x"));
}

TEST(transaction, payloads_come_from_json_without_misspelled_fields) {
    EXPECT_EQ(*kind_named("task_bid"), NativeKind::task_bid);
    EXPECT_EQ(kind_named("no_kind").error().name, "wallet.unknown_kind");
    EXPECT_TRUE(
        payload_from_json(NativeKind::task_bid,
                          parsed(R"({"task": 1, "seat": 0, "price": "0x2", "speedClass": 40, "bandwidthClass": 0})")));
    EXPECT_EQ(payload_from_json(NativeKind::task_bid, parsed(R"({"task": 1})")).error().name, "json.missing_field");
    EXPECT_EQ(
        payload_from_json(NativeKind::task_bid,
                          parsed(R"({"task": 1, "seat": 0, "price": 1, "speedClass": 0, "bandwidthClass": 0, "x": 2})"))
            .error()
            .name,
        "json.unknown_field");
}

TEST(transaction, json_as_libraries_build_it_is_understood) {
    const auto tx = transaction_from_json(
        parsed(R"({"to": ")" + kBob + R"(", "value": 5, "gas": 21000, "maxFeePerGas": "10000000000",
                   "maxPriorityFeePerGas": 1, "nonce": 3, "accessList": [{"address": ")" +
               kBob + R"(", "storageKeys": []}]})"),
        7878);
    ASSERT_TRUE(tx) << tx.error().to_string();
    EXPECT_EQ(tx->type, TxType::dynamic_fee);
    EXPECT_EQ(tx->chain_id, 7878U);
    EXPECT_EQ(tx->access_list.size(), 1U);
    EXPECT_EQ(transaction_from_json(parsed(R"({"chainId": 1})"), 7878)->chain_id, 1U);
    const auto native =
        transaction_from_json(parsed(R"({"type": "0x51", "kind": "task_cancel", "payload": {"task": 1}})"), 7878);
    ASSERT_TRUE(native) << native.error().to_string();
    EXPECT_EQ(native->native_kind, static_cast<std::uint8_t>(NativeKind::task_cancel));
    EXPECT_EQ(transaction_from_json(parsed(R"({"gass": 1})"), 1).error().name, "json.unknown_field");
    EXPECT_EQ(transaction_from_json(parsed(R"({"type": 4})"), 1).error().name, "wallet.bad_type");
    EXPECT_EQ(transaction_from_json(parsed(R"({"type": "0x51", "kind": "x", "payload": {}})"), 1).error().name,
              "wallet.unknown_kind");
    EXPECT_EQ(transaction_from_json(parsed("[]"), 1).error().name, "json.wrong_type");
    EXPECT_EQ(transaction_from_json(parsed(R"({"accessList": 5})"), 1).error().name, "json.wrong_type");
    const auto bad = transaction_from_json(parsed(R"({"to": "0x12"})"), 1);
    ASSERT_FALSE(bad);
    EXPECT_TRUE(bad.error().detail.starts_with("to")) << bad.error().detail;
}

TEST(transaction, stakes_name_the_option_that_is_wrong) {
    const auto key = *key_from_seed("x");
    StakeOptions options;
    options.validator = "0x1";
    options.amount = "1qrn";
    EXPECT_TRUE(stake_payload(NativeKind::delegate, options, 7878, key).error().detail.starts_with("--validator 0x1"));
    options.validator = kBob;
    EXPECT_TRUE(stake_payload(NativeKind::delegate, options, 7878, key));
    options.amount = "many";
    EXPECT_TRUE(stake_payload(NativeKind::undelegate, options, 7878, key).error().detail.starts_with("--amount many"));
    options.delegator = "0xzz";
    EXPECT_TRUE(
        stake_payload(NativeKind::withdraw_stake, options, 7878, key).error().detail.starts_with("--delegator 0xzz"));
    options.evidence = "0xc0";
    for (const auto kind : {NativeKind::evidence, NativeKind::evidence_commit})
        EXPECT_TRUE(stake_payload(kind, options, 7878, key).error().name.starts_with("rlp."));
}

TEST(transaction, a_commitment_is_to_the_evidence_that_follows_and_the_keys_own) {
    namespace sdbft = chain::consensus::sdbft;
    const auto key = *key_from_seed("x");
    const sdbft::KeySigner culprit(*key_from_seed("y"));
    const chain::consensus::Vote first{chain::consensus::VoteType::finalize, 0, 5, crypto::sha256(as_bytes("block"))};
    const chain::consensus::Vote second{chain::consensus::VoteType::nullify, 0, 5, {}};
    StakeOptions options;
    options.evidence = to_hex0x(sdbft::encode(sdbft::Evidence{culprit.public_key(), first, {}, second, {}})) + "\n";
    const auto commitment = stake_payload(NativeKind::evidence_commit, options, 7878, key);
    const auto evidence = stake_payload(NativeKind::evidence, options, 7878, key);
    ASSERT_TRUE(commitment && evidence);
    const auto shown = chain::types::decode_record<chain::types::EvidencePayload>(*evidence);
    ASSERT_TRUE(shown);
    EXPECT_EQ(chain::types::decode_record<chain::types::EvidenceCommitPayload>(*commitment)->commitment,
              sdbft::evidence_commitment(crypto::address20(key), shown->evidence));
    const auto others = stake_payload(NativeKind::evidence_commit, options, 7878, *key_from_seed("z"));
    EXPECT_NE(*commitment, *others);
    options.evidence = to_hex0x(sdbft::encode(sdbft::Evidence{culprit.public_key(), second, {}, second, {}}));
    EXPECT_EQ(stake_payload(NativeKind::evidence_commit, options, 7878, key).error().name, "evidence.not_slashable");
}

}  // namespace
}  // namespace quern::wallet
