#include "chain/types/transaction.h"

#include <gtest/gtest.h>

#include "chain/types/transaction_rules.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

constexpr std::uint64_t kChain = 7878;

crypto::PrivateKey test_key() { return std::move(*crypto::PrivateKey::from_bytes(crypto::sha256(as_bytes("key")))); }

Transaction make(TxType type) {
    Transaction tx;
    tx.type = type;
    tx.chain_id = kChain;
    tx.nonce = 7;
    tx.max_fee_per_gas = Uint256(2'000'000'000);
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    tx.gas_limit = 100'000;
    tx.value = Uint256(5);
    tx.to = Address::copy_of(Bytes(20, 0x11));
    tx.data = {1, 0, 2};
    if (type == TxType::dynamic_fee || type == TxType::set_code || type == TxType::native)
        tx.max_priority_fee_per_gas = Uint256(1);
    if (type == TxType::access_list || type == TxType::dynamic_fee || type == TxType::set_code)
        tx.access_list = {{Address(), {Hash32(), Hash32()}}, {*tx.to, {}}};
    if (type == TxType::set_code) tx.authorization_list = {{Uint256(kChain), *tx.to, 3, 1, Uint256(4), Uint256(5)}};
    if (type == TxType::native) {
        tx.native_kind = 0x30;
        tx.to.reset();
        tx.value = {};
    }
    sign(tx, test_key());
    return tx;
}

std::vector<Transaction> one_of_each() {
    std::vector<Transaction> all;
    for (const auto type : {TxType::legacy, TxType::access_list, TxType::dynamic_fee, TxType::set_code, TxType::native})
        all.push_back(make(type));
    Transaction unprotected = make(TxType::legacy);
    unprotected.chain_id.reset();
    unprotected.to.reset();
    sign(unprotected, test_key());
    all.push_back(unprotected);
    return all;
}

std::string_view error_of(BytesView bytes) {
    const auto tx = decode_transaction(bytes);
    return tx ? std::string_view("accepted") : tx.error().name;
}

TEST(Transaction, every_type_round_trips_with_its_sender) {
    for (const auto& tx : one_of_each()) {
        const Bytes encoded = encode(tx);
        const auto recovered = recover(encoded);
        ASSERT_TRUE(recovered.has_value()) << recovered.error().to_string();
        EXPECT_EQ(recovered->tx, tx);
        EXPECT_EQ(recovered->sender, crypto::address20(test_key()));
        EXPECT_EQ(recovered->hash, crypto::keccak256(encoded));
        EXPECT_EQ(encode(recovered->tx), encoded);
        EXPECT_TRUE(check_form(recovered->tx, kChain).has_value());
    }
}

TEST(Transaction, truncations_and_appended_bytes_are_refused) {
    for (const auto& tx : one_of_each()) {
        Bytes encoded = encode(tx);
        for (std::size_t size = 0; size < encoded.size(); ++size)
            EXPECT_NE(error_of(BytesView(encoded).first(size)), "accepted");
        encoded.push_back(0);
        EXPECT_EQ(error_of(encoded), "rlp.trailing_bytes");
    }
}

TEST(Transaction, a_changed_byte_never_keeps_the_sender) {
    for (const auto& tx : one_of_each()) {
        const Bytes encoded = encode(tx);
        for (std::size_t i = 0; i < encoded.size(); ++i) {
            Bytes changed = encoded;
            changed[i] ^= 0x01;
            const auto recovered = recover(changed);
            EXPECT_TRUE(!recovered || recovered->sender != crypto::address20(test_key())) << i;
        }
    }
}

TEST(Transaction, refusals_are_named) {
    EXPECT_EQ(error_of({}), "tx.empty");
    EXPECT_EQ(error_of(Bytes{0x03, 0xc0}), "tx.blob_unsupported");
    EXPECT_EQ(error_of(Bytes{0x05, 0xc0}), "tx.unknown_type");
    EXPECT_EQ(error_of(Bytes{0x80}), "tx.unknown_type");
    EXPECT_EQ(error_of(Bytes(kMaxTransactionBytes + 1, 0xff)), "tx.too_large");
    Transaction tx = make(TxType::dynamic_fee);
    tx.nonce = ~0ULL;
    EXPECT_EQ(error_of(encode(tx)), "tx.nonce_overflow");
    tx = make(TxType::dynamic_fee);
    tx.r = {};
    EXPECT_EQ(error_of(encode(tx)), "tx.bad_signature_values");
    tx = make(TxType::dynamic_fee);
    tx.s = crypto::kCurveOrder;
    EXPECT_EQ(error_of(encode(tx)), "tx.bad_signature_values");
    tx = make(TxType::set_code);
    tx.to.reset();
    EXPECT_EQ(error_of(encode(tx)), "tx.bad_recipient");
}

TEST(Transaction, a_mirrored_signature_is_refused) {
    Transaction tx = make(TxType::dynamic_fee);
    tx.s = crypto::kCurveOrder - tx.s;
    tx.y_parity ^= 1;
    EXPECT_EQ(recover(encode(tx)).error().name, "tx.invalid_signature");
}

TEST(Transaction, gas_before_execution_follows_the_schedule) {
    Transaction tx = make(TxType::dynamic_fee);
    EXPECT_EQ(intrinsic_gas(tx), 21'000U + 2 * 16 + 4 + 2 * 2'400 + 2 * 1'900);
    EXPECT_EQ(floor_gas(tx), 21'000U + 10 * (2 * 4 + 1));
    tx = make(TxType::set_code);
    EXPECT_EQ(intrinsic_gas(tx), 21'000U + 2 * 16 + 4 + 2 * 2'400 + 2 * 1'900 + 25'000);
    tx = make(TxType::legacy);
    tx.to.reset();
    tx.data = Bytes(33, 1);
    EXPECT_EQ(intrinsic_gas(tx), 21'000U + 32'000 + 33 * 16 + 2 * 2);
    tx = make(TxType::legacy);
    tx.data = Bytes(1000, 1);
    tx.gas_limit = floor_gas(tx) - 1;
    EXPECT_GT(tx.gas_limit, intrinsic_gas(tx));
    EXPECT_EQ(check_gas_limit(tx).error().name, "tx.intrinsic_gas_too_low");
    ++tx.gas_limit;
    EXPECT_TRUE(check_gas_limit(tx).has_value());
}

TEST(Transaction, form_is_checked_without_state) {
    const auto error = [](const Transaction& tx) { return std::string(check_form(tx, kChain).error().name); };
    Transaction tx = make(TxType::dynamic_fee);
    tx.chain_id = 1;
    EXPECT_EQ(error(tx), "tx.wrong_chain_id");
    tx = make(TxType::dynamic_fee);
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas + Uint256(1);
    EXPECT_EQ(error(tx), "tx.priority_fee_above_max_fee");
    tx = make(TxType::dynamic_fee);
    tx.max_fee_per_gas = Uint256(1) << 250;
    EXPECT_EQ(error(tx), "tx.fee_overflow");
    tx = make(TxType::legacy);
    tx.to.reset();
    tx.data = Bytes(kMaxInitCodeBytes + 1);
    EXPECT_EQ(error(tx), "tx.init_code_too_large");
    tx = make(TxType::set_code);
    tx.authorization_list.clear();
    EXPECT_EQ(error(tx), "tx.empty_authorization_list");
}

TEST(Transaction, the_price_paid_is_capped) {
    Transaction tx = make(TxType::dynamic_fee);
    tx.max_fee_per_gas = Uint256(100);
    tx.max_priority_fee_per_gas = Uint256(3);
    EXPECT_EQ(effective_gas_price(tx, Uint256(50)), Uint256(53));
    EXPECT_EQ(effective_gas_price(tx, Uint256(99)), Uint256(100));
    EXPECT_EQ(effective_gas_price(tx, Uint256(~0ULL, ~0ULL, ~0ULL, ~0ULL)), Uint256(100));
}

TEST(Address, checksums_follow_eip_55) {
    for (const char* text :
         {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
          "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"}) {
        const auto address = parse_address(text);
        ASSERT_TRUE(address.has_value());
        EXPECT_EQ(to_checksum_address(*address), text);
        EXPECT_EQ(*parse_address(to_hex(*address)), *address);
    }
    EXPECT_EQ(parse_address("0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed").error().name, "address.bad_checksum");
    EXPECT_EQ(parse_address("0x5aaeb6").error().name, "address.bad_length");
    EXPECT_EQ(parse_address("0xzzaeb6053f3e94c9b9a09f33669435e7ef1beaed").error().name, "address.bad_hex");
    EXPECT_TRUE(parse_address("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED").has_value());
}

}  // namespace
}  // namespace quern::chain::types
