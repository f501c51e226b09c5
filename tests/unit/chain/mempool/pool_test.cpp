#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/evidence.h"
#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

class PoolTest : public PoolFixture {};

TEST_F(PoolTest, queues_by_nonce_and_holds_back_what_comes_after_a_gap) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
    EXPECT_EQ(pool.status().executable, 1U);
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 3U);
    ASSERT_EQ(executable(pool).size(), 3U);
    EXPECT_EQ(executable(pool)[2]->transaction.tx.nonce, 2U);
    EXPECT_EQ(pool.parked(), 0U);
    EXPECT_EQ(pool.next_nonce(test_address(2), 7), 7U);
}

TEST_F(PoolTest, refuses_with_the_messages_that_wallets_match_on) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "already known");
    fund(2, params::kGrainsPerQrn, 5);
    EXPECT_EQ(add(pool, 2, transfer(4, 1)), "nonce too low");
    EXPECT_EQ(add(pool, 2, transfer(5 + 1025, 1)), "nonce too high");
    fund(3, 1000);
    EXPECT_TRUE(add(pool, 3, transfer(0, 1)).starts_with("insufficient funds"));
    auto little_gas = transfer(0, 1);
    little_gas.gas_limit = 20'999;
    EXPECT_EQ(add(pool, 4, little_gas), "intrinsic gas too low");
    auto much_gas = transfer(0, 1);
    much_gas.gas_limit = params_.block_gas_limit + 1;
    EXPECT_EQ(add(pool, 4, much_gas), "exceeds block gas limit");
    auto other_chain = transfer(0, 1);
    other_chain.chain_id = 1;
    EXPECT_EQ(add(pool, 4, other_chain), "invalid chain id for signer");
}

TEST_F(PoolTest, counts_all_waiting_transactions_against_the_balance) {
    Pool pool(params_);
    fund(1, Uint256(21'000) * 100 * kGwei * 2 + 2);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_TRUE(add(pool, 1, transfer(2, 1)).starts_with("insufficient funds"));
}

TEST_F(PoolTest, replacement_needs_ten_percent_more_in_both_fees) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 10, 100)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(0, 20, 109)), "replacement transaction underpriced");
    EXPECT_EQ(add(pool, 1, transfer(0, 10, 200)), "replacement transaction underpriced");
    EXPECT_EQ(add(pool, 1, transfer(0, 11, 110)), "ok");
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(executable(pool)[0]->transaction.tx.max_fee_per_gas, Uint256(110) * kGwei);
    // With free transactions ten percent of nothing would be nothing.
    EXPECT_EQ(add(pool, 2, transfer(0, 0, 100)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 0, 200)), "replacement transaction underpriced");
}

TEST_F(PoolTest, limits_a_sender) {
    PoolLimits limits;
    limits.max_per_sender = 3;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(3, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(4, 1)), "account limit exceeded");
    EXPECT_EQ(add(pool, 1, transfer(1, 2, 200)), "ok");
    // The one that can be executed takes the place of the one that cannot.
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 3U);
    EXPECT_EQ(pool.parked(), 0U);
    EXPECT_EQ(add(pool, 1, transfer(3, 1)), "account limit exceeded");
}

TEST_F(PoolTest, makes_room_by_dropping_the_cheapest_tail) {
    PoolLimits limits;
    limits.max_transactions = 3;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 1, transfer(0, 1, 10)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1, 50)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1, 30)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 30)), "txpool is full");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 31)), "ok");  // pushes out sender 2
    EXPECT_EQ(pool.next_nonce(test_address(2), 0), 0U);
    EXPECT_EQ(add(pool, 4, transfer(0, 1, 60)), "ok");  // pushes out sender 3; sender 1's cheap head is no tail
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 2U);
    EXPECT_EQ(add(pool, 5, transfer(0, 1, 70)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
    EXPECT_EQ(pool.status().transactions, 3U);
}

TEST_F(PoolTest, bounds_its_memory) {
    PoolLimits limits;
    limits.max_bytes = 5'000;
    Pool pool(params_, limits);
    std::uint8_t seed = 1;
    while (add(pool, seed, transfer(0, 1)) == "ok") ++seed;
    EXPECT_GT(seed, 2U);
    EXPECT_LT(seed, 6U);
    EXPECT_LE(pool.status().bytes, limits.max_bytes);
    // A replacement that grows does not break the limit, and what it would have replaced stays.
    auto big = transfer(0, 2, 200);
    big.data = Bytes(4'000, 1);
    big.gas_limit = 200'000;
    EXPECT_EQ(add(pool, 1, big), "txpool is full");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
}

TEST_F(PoolTest, a_newcomer_that_does_not_fit_pushes_nobody_out) {
    PoolLimits limits;
    limits.max_bytes = 6'000;
    Pool pool(params_, limits);
    std::uint8_t seed = 1;
    while (add(pool, seed, transfer(0, seed, 100 + seed)) == "ok") ++seed;
    const auto before = pool.status();
    ASSERT_GT(before.transactions, 2U);
    // Dearer than the first of them, but the room of one is not enough, and its own would have to go.
    auto big = transfer(1, 100, 101 + seed);
    big.data = Bytes(5'000, 1);
    big.gas_limit = 300'000;
    EXPECT_EQ(add(pool, static_cast<std::uint8_t>(seed - 2), big), "txpool is full");
    EXPECT_EQ(pool.status().transactions, before.transactions);
}

TEST_F(PoolTest, a_block_removes_what_it_holds_and_what_became_stale) {
    Pool pool(params_);
    const auto first = signed_by(1, transfer(0, 1));
    EXPECT_EQ(add(pool, first), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    // Another transaction with nonce 1 came into the block.
    fund(1, Uint256(100) * params::kGrainsPerQrn, 2);
    block(pool, {test_address(1)}, 1);
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(pool.find(first.hash), nullptr);
    EXPECT_EQ(pool.next_nonce(test_address(1), 2), 3U);
    EXPECT_TRUE(pool.has_executable(1));
}

TEST_F(PoolTest, refuses_an_outdated_state_so_that_no_used_nonce_gets_in) {
    Pool pool(params_);
    pool.on_block({}, state_, 7);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "mempool.stale_state");
    height_ = 7;
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    height_ = 8;  // a snapshot may be published before the pool hears of its block
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
}

TEST_F(PoolTest, an_older_view_of_an_account_does_not_undo_a_newer_one) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    // The snapshot after the next block is out already.
    fund(1, Uint256(100) * params::kGrainsPerQrn, 1);
    height_ = 1;
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    EXPECT_EQ(pool.status().transactions, 2U);
    fund(1, Uint256(100) * params::kGrainsPerQrn, 0);
    height_ = 0;
    EXPECT_EQ(add(pool, 1, transfer(3, 1)), "ok");
    EXPECT_EQ(pool.status().executable, 3U);
}

TEST_F(PoolTest, what_cannot_pay_the_base_fee_does_not_call_for_a_block) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1, 10)), "ok");
    EXPECT_TRUE(pool.has_executable(Uint256(10) * kGwei));
    EXPECT_FALSE(pool.has_executable(Uint256(11) * kGwei));
    EXPECT_EQ(add(pool, 2, transfer(1, 1, 90)), "ok");  // behind a gap
    EXPECT_FALSE(pool.has_executable(Uint256(11) * kGwei));
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 11)), "ok");
    EXPECT_TRUE(pool.has_executable(Uint256(11) * kGwei));
}

TEST_F(PoolTest, dropping_one_holds_back_the_later_ones) {
    Pool pool(params_);
    const auto first = signed_by(1, transfer(0, 1));
    EXPECT_EQ(add(pool, first), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    pool.drop({first.hash, Hash32{}});
    EXPECT_FALSE(pool.has_executable(1));
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(pool.parked(), 1U);
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 0U);
    EXPECT_EQ(add(pool, first), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 2U);
}

TEST_F(PoolTest, finds_by_hash_by_its_first_bytes_and_many_at_once) {
    Pool pool(params_);
    const auto first = signed_by(1, transfer(0, 1));
    auto twin = as_of(7, transfer(0, 1));
    twin.hash = first.hash;
    twin.hash.data[31] ^= 1;  // the same first eight bytes
    fund_number(7, Uint256(100) * params::kGrainsPerQrn);
    EXPECT_EQ(add(pool, first), "ok");
    EXPECT_EQ(add(pool, twin), "ok");
    EXPECT_EQ(pool.find(first.hash)->transaction.sender, first.sender);
    EXPECT_EQ(pool.find(twin.hash)->transaction.sender, twin.sender);
    EXPECT_NE(pool.find_short(FixedBytes<8>::copy_of(first.hash.view().first(8))), nullptr);
    const std::vector<Hash32> hashes{twin.hash, Hash32{}, first.hash};
    const auto found = pool.find(hashes);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0]->transaction.sender, twin.sender);
    EXPECT_EQ(found[1], nullptr);
    EXPECT_EQ(found[2]->transaction.sender, first.sender);
    pool.drop({first.hash});
    EXPECT_EQ(pool.find(first.hash), nullptr);
    EXPECT_NE(pool.find(twin.hash), nullptr);
}

TEST_F(PoolTest, gives_what_arrived_in_order_and_in_pieces) {
    Pool pool(params_);
    for (std::uint8_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, 6U - seed)), "ok");
    const auto first = pool.arrived_after(0, 2);
    ASSERT_EQ(first.size(), 2U);
    EXPECT_EQ(first[0]->transaction.sender, test_address(1));
    const auto rest = pool.arrived_after(first[1]->arrival, 100);
    ASSERT_EQ(rest.size(), 3U);
    EXPECT_EQ(rest[2]->transaction.sender, test_address(5));
    EXPECT_EQ(rest[2]->arrival, pool.last_arrival());
}

class FreeEvidence : public PoolTest {
protected:
    FreeEvidence() {
        types::EpochObject epoch;
        for (std::uint8_t seed = 101; seed <= 103; ++seed) {
            const auto key = to_bytes(crypto::derive_public(test_key(seed)).bytes.view());
            epoch.members.push_back({key, 10});
            store(seed, false);
        }
        state_.store(types::object_key(types::ObjectPrefix::epoch, 0), epoch);
    }
    void store(std::uint8_t seed, bool tombstoned) {
        types::ValidatorObject validator;
        validator.address = test_address(seed);
        validator.public_key = to_bytes(crypto::derive_public(test_key(seed)).bytes.view());
        validator.tombstoned = tombstoned;
        state_.store(types::object_key(types::ObjectPrefix::validator, validator.address), validator);
    }
    types::Transaction evidence_against(std::uint8_t seed, std::uint64_t nonce = 0, std::uint64_t view = 1) const {
        using namespace consensus;
        const sdbft::KeySigner signer(test_key(seed));
        const Vote a{VoteType::finalize, 0, view, params_.genesis_hash};
        const Vote b{VoteType::nullify, 0, view, {}};
        const ChainIdentity chain{params_.genesis_hash, params_.chain_id};
        const sdbft::Evidence evidence{signer.public_key(), a, signer.sign(vote_digest(chain, a)), b,
                                       signer.sign(vote_digest(chain, b))};
        types::Transaction tx;
        tx.type = types::TxType::native;
        tx.chain_id = params_.chain_id;
        tx.nonce = nonce;
        tx.gas_limit = 1'000'000;
        tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::evidence);
        tx.data = types::encode_record(types::EvidencePayload{sdbft::encode(evidence)});
        return tx;
    }
};

TEST_F(FreeEvidence, needs_no_money_but_a_conviction_and_the_next_nonce) {
    Pool pool(params_);
    fund(50, 0);
    EXPECT_EQ(add(pool, 50, evidence_against(104)), "evidence.not_in_committee");
    EXPECT_EQ(add(pool, 50, evidence_against(101, 1)), "nonce too high");
    EXPECT_EQ(add(pool, 50, evidence_against(101)), "ok");
    EXPECT_TRUE(pool.has_executable(Uint256(1000) * kGwei));
}

TEST_F(FreeEvidence, without_the_gas_to_convict_has_no_place) {
    Pool pool(params_);
    auto tx = evidence_against(101);
    // The least that is well formed pays for nothing that execution does.
    tx.gas_limit = 21'000;
    while (add(pool, 50, tx) == "intrinsic gas too low") tx.gas_limit += 100;
    EXPECT_EQ(add(pool, 50, tx), "out of gas");
    tx.gas_limit += 30'000;
    EXPECT_EQ(add(pool, 50, tx), "ok");
}

TEST_F(FreeEvidence, of_an_epoch_that_is_too_long_ago_has_no_place) {
    PoolLimits limits;
    limits.max_free = 1;
    Pool pool(params_, limits);
    // The last block in which it convicts.
    const std::uint64_t last =
        consensus::sdbft::EpochHeights(params_.epoch_length).last(0) + params_.staking.unbonding_blocks;
    block(pool, {}, last - 2);
    EXPECT_EQ(add(pool, 50, evidence_against(101)), "ok");
    block(pool, {}, last - 1);
    EXPECT_EQ(pool.status().transactions, 1U);
    block(pool, {}, last);
    EXPECT_EQ(pool.status().transactions, 0U);
    EXPECT_EQ(add(pool, 51, evidence_against(102)), "evidence.too_old");
}

TEST_F(FreeEvidence, has_its_own_limit_and_is_not_pushed_out) {
    PoolLimits limits;
    limits.max_free = 2;
    limits.max_transactions = 3;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 50, evidence_against(101)), "ok");
    EXPECT_EQ(add(pool, 51, evidence_against(102)), "ok");
    EXPECT_EQ(add(pool, 52, evidence_against(103)), "txpool is full");
    EXPECT_EQ(add(pool, 1, transfer(0, 10)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 20, 200)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 1)), "txpool is full");
    EXPECT_EQ(pool.next_nonce(test_address(50), 0), 1U);
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 0U);
}

TEST_F(FreeEvidence, goes_when_somebody_else_brought_it) {
    PoolLimits limits;
    limits.max_free = 1;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 50, evidence_against(101)), "ok");
    block(pool, {}, 1);
    EXPECT_EQ(pool.status().transactions, 1U);
    store(101, true);
    block(pool, {}, 2);
    EXPECT_EQ(pool.status().transactions, 0U);
    EXPECT_EQ(add(pool, 50, evidence_against(102)), "ok") << "its place is free again";
}

TEST_F(PoolTest, names_the_latest_first_within_a_number_and_a_size) {
    Pool pool(params_);
    for (std::uint8_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    const auto senders = [&](std::size_t limit, std::size_t bytes) {
        std::vector<types::Address> result;
        for (const auto& pooled : pool.latest(limit, bytes)) result.push_back(pooled->transaction.sender);
        return result;
    };
    const std::size_t size = pool.latest(1, 1'000)[0]->transaction.encoded.size();
    EXPECT_EQ(senders(3, 1'000), (std::vector{test_address(4), test_address(3), test_address(2)}));
    EXPECT_EQ(senders(9, 1'000).size(), 4U);
    EXPECT_EQ(senders(9, 2 * size + size / 2), (std::vector{test_address(4), test_address(3)}));
    EXPECT_EQ(pool.arrived_after(0, 9, 2 * size + size / 2).size(), 2U);
    EXPECT_EQ(pool.arrived_after(0, 9, 1).size(), 1U);  // or nobody would ever come past a large one
    EXPECT_EQ(pool.arrived_after(0, 3).size(), 3U);
}

// Else the money would stand for transactions that nobody can execute once it is bonded, and theirs would be the places
// of others.
TEST_F(PoolTest, what_a_native_transaction_takes_counts_as_value) {
    const Uint256 qrn(params::kGrainsPerQrn);
    const auto bond = [&](std::uint64_t nonce, const Uint256& amount, bool call) {
        const Bytes payload = types::encode_record(types::BondPayload{types::Role::solver, amount});
        auto tx = transfer(nonce, 5);
        tx.gas_limit = 200'000;
        tx.value = 0;
        if (call) {
            tx.to = types::group_address(types::KindGroup::roles);
            tx.data = *types::abi::encode_call(types::NativeKind::bond, payload);
        } else {
            tx.type = types::TxType::native;
            tx.to = std::nullopt;
            tx.native_kind = static_cast<std::uint8_t>(types::NativeKind::bond);
            tx.data = payload;
        }
        return tx;
    };
    Pool pool(params_);
    for (const bool call : {false, true}) {
        const std::uint8_t seed = call ? 2 : 1;
        EXPECT_EQ(add(pool, seed, bond(0, Uint256(100) * qrn, call)), exec::kInsufficientFunds.text) << call;
        EXPECT_EQ(add(pool, seed, bond(0, ~Uint256(), call)), exec::kInsufficientFunds.text) << call;
        EXPECT_EQ(add(pool, seed, bond(0, Uint256(60) * qrn, call)), "ok") << call;
        auto paid = transfer(1, 5);
        paid.value = Uint256(60) * qrn;
        EXPECT_EQ(add(pool, seed, paid), exec::kInsufficientFunds.text) << call;
        EXPECT_EQ(add(pool, seed, bond(1, Uint256(30) * qrn, call)), "ok") << call;
    }
    EXPECT_EQ(pool.parked(), 0U);
}

}  // namespace
}  // namespace quern::chain::mempool
