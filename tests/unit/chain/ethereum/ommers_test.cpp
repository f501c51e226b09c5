#include "chain/ethereum/ommers.h"

#include <gtest/gtest.h>

#include <deque>

#include "chain/ethereum/difficulty.h"
#include "chain/ethereum/header_rules.h"
#include "chain/ethereum/transactions.h"
#include "chain/statetest/pre_state.h"
#include "crypto/hash.h"

namespace quern::chain::ethereum {
namespace {

// A chain of Byzantium's rules, a block every ten seconds. Hashes are made up: nothing here looks at encodings.
class Ommers : public ::testing::Test {
protected:
    Ommers() {
        Ancestor& genesis = chain.emplace_back();
        genesis.header.difficulty = 1'000'000;
        genesis.header.gas_limit = 10'000'000;
        genesis.header.ommers_hash = types::kEmptyOmmersHash;
        genesis.header.hash = crypto::keccak256({});
        for (int i = 0; i < 10; ++i) {
            Ancestor next;
            next.header = child(chain.back(), 0);
            next.parent = &chain.back();
            chain.push_back(next);
        }
        block.header = child(chain.back(), 0);
    }
    Header child(const Ancestor& parent, std::uint8_t salt) const {
        Header header;
        header.parent_hash = parent.header.hash;
        header.number = parent.header.number + 1;
        header.timestamp = parent.header.timestamp + 10;
        header.gas_limit = parent.header.gas_limit;
        header.ommers_hash = types::kEmptyOmmersHash;
        header.difficulty = next_difficulty(network.last(), parent.header, header.timestamp);
        header.coinbase.data[0] = salt;
        Bytes named = to_bytes(parent.header.hash);
        named.push_back(salt);
        header.hash = crypto::keccak256(named);
        return header;
    }
    // Beside the block that lies so many below the new one.
    Header ommer(std::size_t generations, std::uint8_t salt = 1) const {
        return child(chain[chain.size() - 1 - generations], salt);
    }
    std::string check() {
        const Status status = check_ommers(network, block, chain.back());
        return status ? std::string() : std::string(status.error().name);
    }

    const Network network = Network::parse("Byzantium").value();
    std::deque<Ancestor> chain;
    Block block;
};

TEST_F(Ommers, reach_back_six_generations) {
    EXPECT_EQ(check(), "");
    block.ommers = {ommer(1), ommer(6)};
    EXPECT_EQ(check(), "");
    block.ommers = {ommer(7)};
    EXPECT_EQ(check(), "block.uncle_parent_incorrect");
    block.ommers = {ommer(0)};
    EXPECT_EQ(check(), "block.uncle_is_brother");
    block.ommers = {ommer(1, 1), ommer(1, 2), ommer(1, 3)};
    EXPECT_EQ(check(), "block.too_many_uncles");
    block.ommers = {chain[8].header};
    EXPECT_EQ(check(), "block.uncle_is_ancestor");
}

TEST_F(Ommers, are_named_once_and_follow_the_rules_of_headers) {
    block.ommers = {ommer(2), ommer(2)};
    EXPECT_EQ(check(), "block.uncle_in_chain");
    block.ommers = {ommer(2)};
    chain[chain.size() - 2].ommers = {ommer(2).hash};
    EXPECT_EQ(check(), "block.uncle_in_chain");
    chain[chain.size() - 2].ommers.clear();
    block.ommers[0].difficulty += 1;
    EXPECT_EQ(check(), "block.invalid_difficulty");
    block.ommers[0] = ommer(2);
    block.ommers[0].difficulty = 0;
    EXPECT_EQ(check(), "block.import_impossible_paris_wrong_pos");
}

TEST_F(Ommers, are_paid_by_their_age) {
    const auto empty = statetest::PreState::parse(json::Value::object()).value();
    state::Overlay overlay(empty);
    block.header.coinbase.data[0] = 9;
    block.ommers = {ommer(1, 1), ommer(6, 2)};
    pay_rewards(overlay, network.last(), block);
    const Uint256 reward = Uint256(3) * Uint256(1'000'000'000'000'000'000);
    const auto balance = [&](std::uint8_t name) {
        types::Address address;
        address.data[0] = name;
        return overlay.account_or_empty(address).balance;
    };
    EXPECT_EQ(balance(9), reward + reward / 16);
    EXPECT_EQ(balance(1), reward * 7 / 8);
    EXPECT_EQ(balance(2), reward * 2 / 8);
    state::Overlay later(empty);
    pay_rewards(later, Network::parse("Paris")->last(), block);
    EXPECT_TRUE(later.changed_accounts().empty());
}

TEST(HeaderRules, the_dao_fork_is_named_by_ten_blocks) {
    const Network network = Network::parse("HomesteadToDaoAt5").value();
    const auto check = [&](std::uint64_t number, std::string_view extra_data) -> std::string {
        Ancestor parent;
        parent.header.number = number - 1;
        parent.header.difficulty = 1'000'000;
        parent.header.gas_limit = 10'000'000;
        Header header;
        header.number = number;
        header.timestamp = 10;
        header.gas_limit = 10'000'000;
        header.ommers_hash = types::kEmptyOmmersHash;
        header.difficulty = next_difficulty(network.last(), parent.header, 10);
        header.extra_data = to_bytes(as_bytes(extra_data));
        const Status status = check_header(network, header, parent);
        return status ? std::string() : std::string(status.error().name);
    };
    EXPECT_EQ(check(4, ""), "");
    EXPECT_EQ(check(5, ""), "block.extra_data_invalid_dao");
    EXPECT_EQ(check(5, "dao-hard-fork"), "");
    EXPECT_EQ(check(14, "dao-hard-work"), "block.extra_data_invalid_dao");
    EXPECT_EQ(check(15, ""), "");
}

TEST(Transactions, types_and_signatures_are_the_forks) {
    EXPECT_EQ(decode_transaction(Bytes{}, Revision::osaka).error().name, "rlp.truncated");
    EXPECT_EQ(decode_transaction(Bytes{0x05, 0xc0}, Revision::osaka).error().name, "tx.type_not_supported");
    EXPECT_EQ(decode_transaction(Bytes{0x01, 0xc0}, Revision::istanbul).error().name, "tx.type_not_supported");
    EXPECT_EQ(decode_transaction(Bytes{0x01, 0xc0}, Revision::berlin).error().name, "rlp.truncated");
    EXPECT_EQ(decode_transaction(Bytes{0x03, 0xc1, 0xc0}, Revision::osaka).error().name,
              "tx.type_3_tx_with_full_blobs");
    // EIP-155's example: nonce 9, 20 Gwei, 1 ether, chain 1.
    const Bytes example =
        from_hex(
            "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd9"
            "39bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc6421"
            "4b297fb1966a3b6d83")
            .value();
    const auto tx = decode_transaction(example, Revision::spurious_dragon);
    ASSERT_TRUE(tx) << tx.error().to_string();
    EXPECT_EQ(to_hex0x(tx->sender), "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f");
    EXPECT_EQ(tx->chain_id, 1U);
    EXPECT_EQ(tx->nonce, 9U);
    EXPECT_EQ(decode_transaction(example, Revision::homestead).error().name, "tx.invalid_signature_vrs");
}

}  // namespace
}  // namespace quern::chain::ethereum
