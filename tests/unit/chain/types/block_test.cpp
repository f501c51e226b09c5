#include "chain/types/block.h"

#include <gtest/gtest.h>

#include "base/rlp.h"
#include "chain/types/native_objects.h"
#include "chain/types/receipt.h"
#include "crypto/hash.h"

namespace quern::chain::types {
namespace {

Hash32 hash(std::uint8_t fill) { return Hash32::copy_of(Bytes(32, fill)); }

Block make_block() {
    Block block;
    auto& header = block.header;
    header.parent_hash = hash(1);
    header.beneficiary = Address::copy_of(Bytes(20, 2));
    header.state_root = hash(3);
    header.transactions_root = hash(4);
    header.receipts_root = hash(5);
    header.logs_bloom.data[17] = 9;
    header.number = 300;
    header.gas_limit = 30'000'000;
    header.gas_used = 21'000;
    header.timestamp = 1'700'000'000;
    header.prev_randao = hash(6);
    header.base_fee_per_gas = Uint256(7);
    header.withdrawals_root = hash(8);
    header.consensus = {11, 12, hash(13), hash(14), hash(15), hash(16), hash(6), Bytes(81, 17), 1'700'000'000'123};
    Transaction tx;
    tx.gas_limit = 21'000;
    tx.r = tx.s = Uint256(1);
    block.transactions.push_back(encode(tx));
    tx.type = TxType::native;
    tx.chain_id = 1;
    block.transactions.push_back(encode(tx));
    block.withdrawals = {{1, 2, header.beneficiary, 3}};
    block.parent_certificate = {1, 2, 3};
    return block;
}

TEST(Block, constants_are_what_their_names_say) {
    rlp::Writer empty_list;
    empty_list.begin_list().end_list();
    EXPECT_EQ(kEmptyOmmersHash, crypto::keccak256(std::move(empty_list).finish()));
    EXPECT_EQ(kEmptyRequestsHash, crypto::sha256({}));
    EXPECT_EQ(kEmptyTrieRoot, crypto::keccak256(Bytes{0x80}));
}

TEST(Block, round_trips) {
    const Block block = make_block();
    const Bytes encoded = encode(block);
    const auto decoded = decode_block(encoded);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
    EXPECT_EQ(*decoded, block);
    EXPECT_EQ(encode(*decoded), encoded);
    EXPECT_EQ(decode_header(encode(block.header)).value(), block.header);
    EXPECT_EQ(hash_of(block.header), crypto::keccak256(encode(block.header)));
    EXPECT_EQ(decode_consensus_fields(encode(block.header.consensus)).value(), block.header.consensus);
}

TEST(Block, header_has_ethereums_21_fields_in_order) {
    const Bytes encoded = encode(make_block().header);
    auto in = rlp::decode_list(encoded).value();
    std::vector<rlp::Item> items;
    while (!in.at_end()) items.push_back(in.next().value());
    ASSERT_EQ(items.size(), 21U);
    EXPECT_EQ(items[8].payload.size(), 2U);                             // number 300
    EXPECT_EQ(Hash32::copy_of(items[13].payload), hash(6));             // mixHash
    EXPECT_EQ(items[14].payload.size(), 8U);                            // nonce
    EXPECT_EQ(Hash32::copy_of(items[20].payload), kEmptyRequestsHash);  // Prague
}

TEST(Block, truncated_or_extended_blocks_are_refused) {
    Bytes encoded = encode(make_block());
    for (std::size_t size = 0; size < encoded.size(); ++size)
        ASSERT_FALSE(decode_block(BytesView(encoded).first(size)).has_value()) << size;
    encoded.push_back(0x80);
    EXPECT_EQ(decode_block(encoded).error().name, "rlp.trailing_bytes");
    EXPECT_EQ(decode_block(Bytes(kMaxBlockBytes + 1)).error().name, "block.too_large");
}

TEST(Block, has_a_largest_number_of_transactions) {
    // Short ones take many times as much memory as they have bytes: the size alone would be no limit.
    Block block = make_block();
    block.transactions.assign(kMaxBlockTransactions, Bytes{1});
    EXPECT_TRUE(decode_block(encode(block)));
    block.transactions.push_back({1});
    const auto refused = decode_block(encode(block));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "block.too_many_transactions");
}

TEST(Block, any_changed_byte_is_an_error_or_another_block) {
    const Block block = make_block();
    const Bytes encoded = encode(block);
    for (std::size_t i = 0; i < encoded.size(); ++i) {
        Bytes changed = encoded;
        changed[i] ^= 0x80;
        const auto decoded = decode_block(changed);
        if (!decoded) continue;
        ASSERT_NE(*decoded, block) << i;
        ASSERT_EQ(encode(*decoded), changed) << i;
    }
}

TEST(Block, consensus_fields_are_bounded_and_versioned) {
    ConsensusFields fields;
    fields.vrf_proof = Bytes(kMaxVrfProofBytes + 1);
    EXPECT_EQ(decode_consensus_fields(encode(fields)).error().name, "header.vrf_proof_too_large");
    Bytes other_version = encode(ConsensusFields{});
    ASSERT_EQ(other_version[2], 1);  // after the list's two-byte prefix
    other_version[2] = 2;
    EXPECT_EQ(decode_consensus_fields(other_version).error().name, "header.unknown_consensus_version");
}

Receipt make_receipt() {
    Receipt receipt;
    receipt.type = TxType::native;
    receipt.success = true;
    receipt.cumulative_gas_used = 50'000;
    receipt.logs = {{Address::copy_of(Bytes(20, 1)), {hash(1), hash(2)}, Bytes(100, 3)}, {}};
    receipt.gas_used = 29'000;
    receipt.effective_gas_price = Uint256(77);
    receipt.failure = "task.not_open";
    return receipt;
}

TEST(Receipt, stored_form_round_trips) {
    const Receipt receipt = make_receipt();
    const Bytes encoded = encode_stored(receipt);
    EXPECT_EQ(decode_stored_receipt(encoded).value(), receipt);
    EXPECT_EQ(decode_stored_receipt(encode_stored(Receipt{})).value(), Receipt{});
    for (std::size_t size = 0; size < encoded.size(); ++size)
        EXPECT_FALSE(decode_stored_receipt(BytesView(encoded).first(size)).has_value());
}

TEST(Receipt, consensus_form_is_ethereums) {
    Receipt receipt;
    receipt.success = true;
    receipt.cumulative_gas_used = 21'000;
    const Bytes legacy = encode_consensus(receipt, bloom_of(receipt.logs));
    EXPECT_EQ(to_hex(BytesView(legacy).first(7)), "f9010801825208");
    receipt.type = TxType::dynamic_fee;
    EXPECT_EQ(encode_consensus(receipt, {}).front(), 2);
}

TEST(Receipt, bloom_sets_three_bits_counted_from_the_right) {
    // Yellow Paper, M3:2048: the low 11 bits of each of the first three byte pairs, counted from the right.
    Bloom bloom;
    bloom_add(bloom, as_bytes("testtest"));
    const Hash32 digest = crypto::keccak256(as_bytes("testtest"));
    std::size_t bits = 0;
    for (const auto byte : bloom.data) bits += static_cast<std::size_t>(__builtin_popcount(byte));
    EXPECT_LE(bits, 3U);
    for (std::size_t i = 0; i < 6; i += 2) {
        const unsigned bit = (digest.data[i] * 256U + digest.data[i + 1]) % 2048;
        EXPECT_NE(bloom.data[255 - bit / 8] & (1U << bit % 8), 0U);
    }
    EXPECT_TRUE(bloom_may_contain(bloom, as_bytes("testtest")));
    EXPECT_FALSE(bloom_may_contain(bloom, as_bytes("other")));
}

TEST(NativeObjects, keys_sort_by_id) {
    EXPECT_EQ(to_hex(object_key(ObjectPrefix::task, 258)), "300000000000000102");
    EXPECT_EQ(to_hex(object_key(ObjectPrefix::globals)), "01");
    EXPECT_LT(to_hex(object_key(ObjectPrefix::task, 9)), to_hex(object_key(ObjectPrefix::task, 10)));
}

TEST(NativeObjects, records_round_trip_and_refuse_damage) {
    Task task;
    task.id = 5;
    task.spec.contents.uris = {"http://x", ""};
    task.bids.resize(1);
    task.bids[0].price = Uint256(3);
    task.seats.resize(1);
    task.payments = {{Address(), Uint256(1), "refund"}};
    const Bytes encoded = encode_record(task);
    const auto decoded = decode_record<Task>(encoded);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(encode_record(*decoded), encoded);
    EXPECT_EQ(decoded->spec.contents.uris, task.spec.contents.uris);
    for (std::size_t size = 0; size < encoded.size(); ++size)
        ASSERT_FALSE(decode_record<Task>(BytesView(encoded).first(size)).has_value());
    EXPECT_STREQ(to_string(TaskState::running), "running");
    EXPECT_STREQ(to_string(static_cast<TaskState>(99)), "unknown");
    EXPECT_STREQ(to_string(ClaimState::disputed), "disputed");
    EXPECT_STREQ(to_string(ClaimState::voided), "void");
    EXPECT_STREQ(to_string(static_cast<ClaimState>(99)), "unknown");
}

TEST(NativeObjects, claims_round_trip_and_refuse_damage) {
    Claim claim;
    claim.id = {258, 3, 4, 5};
    claim.drawn = 2;
    claim.disputes = {1, 9};
    const Bytes encoded = encode_record(claim);
    const auto decoded = decode_record<Claim>(encoded);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->id, claim.id);
    EXPECT_EQ(encode_record(*decoded), encoded);
    for (std::size_t size = 0; size < encoded.size(); ++size)
        ASSERT_FALSE(decode_record<Claim>(BytesView(encoded).first(size)).has_value());
}

TEST(NativeObjects, claims_are_keyed_by_task_seat_stretch_and_round) {
    const ClaimId id{258, 3, 4, 5};
    EXPECT_EQ(to_hex(key_of<Claim>(id)), "32000000000000010200030000000400000005");
    EXPECT_EQ(to_hex(key_of<VerifierReport>(id, std::uint8_t{6})), "3300000000000001020003000000040000000506");
    EXPECT_EQ(to_hex(KeyOf<ChallengeCommitment>::all(id)), "31000000000000010200030000000400000005");
    EXPECT_EQ(key_of<ChallengeCommitment>(id, Address(), Hash32()).size(), 1U + 18 + 20 + 32);
}

TEST(NativeObjects, a_tasks_claim_is_the_first_unsettled_one_else_the_last) {
    Task task;
    task.id = 7;
    task.round = 2;
    EXPECT_FALSE(present_claim(task)) << "bidding";
    task.seats.resize(1);
    EXPECT_FALSE(present_claim(task)) << "assigned";
    task.seats[0].stretches = 1;
    EXPECT_EQ(present_claim(task), (ClaimId{7, 0, 0, 2}));
    EXPECT_FALSE(next_claim(task));
    task.settled = 1;
    EXPECT_FALSE(present_claim(task)) << "the next round has not begun";
    task.state = TaskState::settled;
    EXPECT_EQ(present_claim(task), (ClaimId{7, 0, 0, 2})) << "it has ended";
    task.state = TaskState::running;
    task.seats[0].stretches = 2;
    EXPECT_EQ(present_claim(task), (ClaimId{7, 0, 1, 2}));
    EXPECT_FALSE(next_claim(task));
    task.seats[0].stretches = 3;
    EXPECT_EQ(present_claim(task), (ClaimId{7, 0, 1, 2}));
    EXPECT_EQ(next_claim(task), (ClaimId{7, 0, 2, 2})) << "worked on while that is verified";
    task.seats[0].stretches = ~std::uint32_t{0};
    EXPECT_EQ(unsettled_claims(task).size(), kMaxUnsettled) << "whatever somebody says";
}

}  // namespace
}  // namespace quern::chain::types
