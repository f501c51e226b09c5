// One wrong field in what is otherwise good, and the name of the refusal.
#include <gtest/gtest.h>

#include "chain/types/block.h"
#include "chain/types/receipt.h"
#include "chain/types/transaction_rules.h"
#include "crypto/hash.h"
#include "support/rlp_edit.h"

namespace quern::chain::types {
namespace {

const Uint256 kBeyond64 = Uint256::from_be(Hash32::copy_of([] {
    Bytes bytes(32);
    bytes[23] = 1;
    return bytes;
}()));

Transaction signed_transaction(TxType type) {
    Transaction tx;
    tx.type = type;
    tx.chain_id = 1;
    tx.gas_limit = 100'000;
    if (type == TxType::native)
        tx.native_kind = 0x30;
    else
        tx.to = Address{};
    if (type == TxType::set_code) tx.authorization_list = {{Uint256(1), Address{}, 3, 1, Uint256(4), Uint256(5)}};
    sign(tx, std::move(*crypto::PrivateKey::from_bytes(crypto::sha256(as_bytes("key")))));
    return tx;
}

TEST(Refusals, of_a_transaction_name_the_field) {
    struct Case {
        TxType type;
        std::vector<std::size_t> path;
        Uint256 value;
        std::string_view name;
    };
    for (const Case& each : {
             Case{TxType::legacy, {6}, Uint256(26), "tx.bad_v"},
             Case{TxType::legacy, {6}, Uint256(29), "tx.bad_v"},
             Case{TxType::legacy, {6}, Uint256(34), "tx.bad_v"},
             Case{TxType::legacy, {6}, kBeyond64, "tx.bad_v"},
             Case{TxType::dynamic_fee, {9}, Uint256(2), "tx.bad_v"},
             Case{TxType::native, {7}, Uint256(2), "tx.bad_v"},
             Case{TxType::native, {5}, Uint256(0x100), "tx.bad_native_kind"},
             Case{TxType::set_code, {9, 0, 3}, Uint256(0x100), "tx.bad_authorization"},
         }) {
        const Bytes good = encode(signed_transaction(each.type));
        ASSERT_TRUE(decode_transaction(good));
        const bool typed = each.type != TxType::legacy;
        Bytes bad = with_item(BytesView(good).subspan(typed), each.path, rlp_integer(each.value));
        if (typed) bad.insert(bad.begin(), static_cast<std::uint8_t>(each.type));
        const auto refused = decode_transaction(bad);
        ASSERT_FALSE(refused) << each.name << " at " << each.path.front();
        EXPECT_EQ(refused.error().name, each.name) << each.path.front();
        EXPECT_EQ(refused.error().kind, ErrorKind::input);
    }
    Transaction creation = signed_transaction(TxType::set_code);
    creation.to.reset();
    EXPECT_EQ(check_form(creation, 1).error().name, "tx.missing_recipient");
}

TEST(Refusals, of_a_block_name_what_sdbft_has_not) {
    Block block;
    const Bytes good = encode(block);
    ASSERT_TRUE(decode_block(good));
    const auto error_of = [&](std::vector<std::size_t> path, BytesView item) {
        const auto decoded = decode_block(with_item(good, std::move(path), item));
        return decoded ? std::string("taken") : std::string(decoded.error().name);
    };
    EXPECT_EQ(error_of({0, 1}, rlp_bytes(Bytes(32))), "header.bad_ommers_hash");
    EXPECT_EQ(error_of({0, 7}, rlp_integer(Uint256(1))), "header.bad_difficulty");
    EXPECT_EQ(error_of({0, 14}, rlp_bytes(Bytes{0, 0, 0, 0, 0, 0, 0, 1})), "header.bad_nonce");
    EXPECT_EQ(error_of({2}, rlp_zeros(1, 1)), "block.has_ommers");
}

TEST(Refusals, of_a_stored_receipt_name_the_field) {
    Receipt receipt;
    receipt.logs = {{Address{}, {}, {}}};
    const Bytes good = encode_stored(receipt);
    ASSERT_TRUE(decode_stored_receipt(good));
    const auto error_of = [&](std::vector<std::size_t> path, BytesView item) {
        const auto decoded = decode_stored_receipt(with_item(good, std::move(path), item));
        return decoded ? std::string("taken") : std::string(decoded.error().name);
    };
    EXPECT_EQ(error_of({0}, rlp_integer(Uint256(0x7f))), "receipt.unknown_type");
    EXPECT_EQ(error_of({3, 0, 1}, rlp_zeros(4, 32)), "taken");
    EXPECT_EQ(error_of({3, 0, 1}, rlp_zeros(5, 32)), "receipt.too_many_topics");
}

}  // namespace
}  // namespace quern::chain::types
