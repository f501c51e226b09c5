#include <functional>

#include "chain/exec/invariants/invariants.h"
#include "chain/exec/outlay.h"
#include "staking_world.h"

namespace quern::chain::exec::test {
namespace {

using types::NativeKind;

class Staking : public ::testing::Test {
protected:
    Staking() : world(stake_genesis({1000, 1000, 1000, 1000})) {
        for (const auto& who : {alice, bob, carol}) give(world.overlay, who, kPurse);
    }
    types::CreateValidatorPayload creation(std::uint8_t seed, const types::Address& owner,
                                           const Uint256& amount) const {
        return {public_key(seed), types::sign_validator_proof(world.params.chain_id, owner, stake_key(seed)), amount};
    }
    std::string create(const types::Address& owner, const types::CreateValidatorPayload& data) {
        return world.name(world.call(owner, NativeKind::create_validator, data));
    }
    std::map<types::Address, Uint256> members(std::uint64_t epoch) const {
        std::map<types::Address, Uint256> result;
        const auto object = world.epoch(epoch);
        if (!object) return result;
        types::Address last;
        for (const auto& entry : object->members) {
            const auto address = crypto::address20(crypto::PublicKey{*FixedBytes<64>::from_view(entry.public_key)});
            EXPECT_LT(last, address) << "members are in the order of their addresses";
            last = address;
            result[address] = entry.weight;
        }
        return result;
    }

    types::Address alice = address(1);
    types::Address bob = address(2);
    types::Address carol = address(3);
    types::Address one = validator_of(1);
    types::Address two = validator_of(2);
    StakingWorld world;
};

TEST_F(Staking, committees_are_frozen_two_epochs_ahead_and_seeded_after_that) {
    ASSERT_EQ(members(0).size(), 4U);
    EXPECT_EQ(members(0), members(1));
    EXPECT_FALSE(world.epoch(2));
    EXPECT_FALSE(world.epoch(1)->seed.is_zero());
    world.run_to(1);
    ASSERT_EQ(world.name(world.delegate(alice, one, 500)), "ok");  // height 2, epoch 0
    EXPECT_EQ(world.epoch(1)->seed, block_context(2).beacon) << "two thirds into epoch 0";
    EXPECT_FALSE(world.epoch(2));
    world.run_to(3);
    ASSERT_TRUE(world.epoch(2));
    EXPECT_EQ(members(2)[one], Uint256(1500));
    EXPECT_EQ(members(1)[one], Uint256(1000));
    EXPECT_TRUE(world.epoch(2)->seed.is_zero());
    world.run_to(5);
    EXPECT_TRUE(world.epoch(2)->seed.is_zero());
    const auto frozen = members(2);
    world.delegate(alice, two, 700);  // height 6: the seed of epoch 2 comes when its weights cannot change any more
    EXPECT_EQ(world.epoch(2)->seed, block_context(6).beacon);
    EXPECT_EQ(members(2), frozen);
    world.run_to(7);
    EXPECT_EQ(members(3)[two], Uint256(1700));
}

TEST_F(Staking, stake_that_moves_in_an_epochs_last_block_still_counts) {
    world.run_to(2);
    world.delegate(alice, one, 500);  // height 3, the last of epoch 0
    EXPECT_EQ(members(2)[one], Uint256(1500));
}

TEST_F(Staking, what_leaves_the_senders_balance_is_what_the_mempool_counts) {
    const auto expect = [&](const StakingWorld::Call& call, std::uint64_t amount) {
        const auto balance = [&] { return world.overlay.account_or_empty(call.sender).balance; };
        EXPECT_EQ(outlay_of(world.params, call.tx), Uint256(amount));
        const Uint256 before = balance();
        EXPECT_EQ(world.name(world.block({call})[0]), "ok");
        const auto& receipt = world.receipts.back();
        EXPECT_EQ(before - balance() - receipt.effective_gas_price * Uint256(receipt.gas_used), Uint256(amount));
    };
    expect(world.make(alice, NativeKind::create_validator, creation(9, alice, 2000)), 2000);
    expect(world.make(alice, NativeKind::delegate, types::DelegatePayload{one, 500}), 500);
    expect(world.make(alice, NativeKind::undelegate, types::UndelegatePayload{one, 100}), 0);
}

TEST_F(Staking, epochs_are_forgotten_after_the_evidence_window) {
    const std::uint64_t last_of_epoch_1 = 7;
    world.run_to(last_of_epoch_1 + kUnbonding);
    EXPECT_TRUE(world.epoch(1)) << "votes of epoch 1 can be brought up to this height";
    EXPECT_FALSE(world.epoch(0));
    world.run_to(last_of_epoch_1 + kUnbonding + kEpochLength);
    EXPECT_FALSE(world.epoch(1));
    EXPECT_TRUE(world.epoch(2));
    EXPECT_TRUE(world.epoch(7));
    EXPECT_FALSE(world.epoch(8));
}

TEST_F(Staking, only_the_strongest_are_in_the_committee_and_ties_go_to_the_lower_address) {
    world.params.staking.max_validators = 2;
    ASSERT_EQ(create(alice, creation(9, alice, 1001)), "ok");
    world.run_to(3);
    const auto committee = members(2);
    ASSERT_EQ(committee.size(), 2U);
    EXPECT_TRUE(committee.contains(validator_of(9)));
    EXPECT_TRUE(committee.contains(std::min({one, two, validator_of(3), validator_of(4)})));
}

TEST_F(Staking, a_committee_is_never_empty) {
    for (std::uint8_t i = 1; i <= 4; ++i)
        ASSERT_EQ(world.name(world.undelegate(validator_of(i), validator_of(i), 1)), "ok");
    EXPECT_EQ(world.validator(one).stake, Uint256(999)) << "below the minimum";
    world.run_to(11);
    const std::map<types::Address, Uint256> last{{validator_of(4), 1000}};
    EXPECT_EQ(members(2), last) << "who left in height 4, after this was frozen";
    EXPECT_EQ(members(3), members(2));
    EXPECT_EQ(members(4), members(3));
}

TEST_F(Staking, create_validator_wants_a_proof_of_the_key_by_its_owner) {
    const auto good = creation(9, alice, 2000);
    auto bad = good;
    bad.proof[5] ^= 1;
    EXPECT_EQ(create(alice, bad), "validator.bad_proof");
    EXPECT_EQ(create(bob, good), "validator.bad_proof") << "the proof names its owner";
    bad = good;
    bad.public_key = public_key(8);
    EXPECT_EQ(create(alice, bad), "validator.bad_proof");
    bad = good;
    bad.proof = types::sign_validator_proof(1, alice, stake_key(9));
    EXPECT_EQ(create(alice, bad), "validator.bad_proof") << "of another chain";
    bad = good;
    bad.proof.pop_back();
    EXPECT_EQ(create(alice, bad), "validator.bad_proof");
    bad = good;
    bad.public_key.pop_back();
    EXPECT_EQ(create(alice, bad), "validator.bad_key");
    EXPECT_EQ(create(alice, creation(9, alice, 999)), "stake.below_minimum");
    EXPECT_EQ(create(alice, creation(9, alice, 0)), "stake.zero_amount");
    EXPECT_EQ(create(alice, creation(9, alice, Uint256(kPurse) * 2)), "account.insufficient_balance");
    EXPECT_EQ(create(alice, creation(1, alice, 2000)), "validator.exists");
    EXPECT_TRUE(world.validator(validator_of(9)).shares.is_zero());

    ASSERT_EQ(create(alice, good), "ok");
    EXPECT_EQ(world.validator(validator_of(9)).owner, alice);
    EXPECT_EQ(world.shares(validator_of(9), alice), Uint256(2000));
    EXPECT_EQ(create(alice, good), "validator.exists");
}

TEST_F(Staking, undelegated_stake_is_paid_after_the_window_of_the_last_epoch_it_counted_in) {
    ASSERT_EQ(world.name(world.delegate(alice, one, 500)), "ok");  // height 1
    const Uint256 before = balance(world.overlay, alice);
    ASSERT_EQ(world.name(world.undelegate(alice, one, 200)), "ok");  // height 2, epoch 0: counts to epoch 1, height 7
    const std::uint64_t due = 7 + kUnbonding + 1;
    ASSERT_EQ(world.unbonding(one, alice).size(), 1U);
    EXPECT_EQ(world.unbonding(one, alice)[0].matures_at, due);
    EXPECT_EQ(world.value(one, alice), Uint256(300));
    EXPECT_LE(balance(world.overlay, alice), before);
    world.run_to(due - 2);
    EXPECT_EQ(world.name(world.withdraw(alice, one, alice)), "stake.nothing_to_withdraw");  // at due - 1
    const Uint256 waiting = balance(world.overlay, alice);
    ASSERT_EQ(world.name(world.withdraw(carol, one, alice)), "ok") << "anybody may send it";
    EXPECT_EQ(balance(world.overlay, alice), waiting + Uint256(200));
    EXPECT_TRUE(world.unbonding(one, alice).empty());
    EXPECT_EQ(world.name(world.withdraw(alice, one, alice)), "stake.nothing_to_withdraw");
}

TEST_F(Staking, undelegations_of_one_epoch_are_one_entry_and_there_are_at_most_seven) {
    world.params.staking.unbonding_blocks = 1000;
    ASSERT_EQ(world.name(world.delegate(alice, one, 500)), "ok");
    for (std::uint64_t epoch = 0; epoch < 7; ++epoch) {
        world.run_to(epoch * kEpochLength + 1);
        ASSERT_EQ(world.name(world.undelegate(alice, one, 10)), "ok") << epoch;
        ASSERT_EQ(world.name(world.undelegate(alice, one, 5)), "ok") << "joins the epoch's entry";
        EXPECT_EQ(world.unbonding(one, alice).size(), epoch + 1);
    }
    EXPECT_EQ(world.unbonding(one, alice)[6].amount, Uint256(15));
    EXPECT_EQ(world.name(world.undelegate(alice, one, 5)), "stake.too_many_unbondings");  // height 28: an eighth epoch
    EXPECT_EQ(world.value(one, alice), Uint256(500 - 7 * 15));
    ASSERT_EQ(world.name(world.delegate(alice, two, 10)), "ok");
    EXPECT_EQ(world.name(world.undelegate(alice, two, 10)), "ok") << "another pair has its own queue";
}

TEST_F(Staking, refuses_what_is_not_there) {
    EXPECT_EQ(world.name(world.delegate(alice, address(77), 5)), "validator.unknown");
    EXPECT_EQ(world.name(world.delegate(alice, one, 0)), "stake.zero_amount");
    EXPECT_EQ(world.name(world.delegate(alice, one, Uint256(kPurse) * 9)), "account.insufficient_balance");
    EXPECT_EQ(world.name(world.undelegate(alice, one, 1)), "stake.insufficient");
    EXPECT_EQ(world.name(world.undelegate(alice, address(77), 1)), "validator.unknown");
    EXPECT_EQ(world.name(world.undelegate(one, one, 1001)), "stake.insufficient");
    EXPECT_EQ(world.name(world.undelegate(one, one, 0)), "stake.zero_amount");
    EXPECT_EQ(world.name(world.withdraw(alice, address(77), alice)), "stake.nothing_to_withdraw");
    EXPECT_EQ(world.validator(one).stake, Uint256(1000));
}

TEST_F(Staking, the_reserved_address_takes_the_same_kinds) {
    types::Transaction tx = transfer(world.nonce(alice), types::group_address(types::KindGroup::staking), 0);
    tx.gas_limit = 1'000'000;
    const auto payload = types::encode_record(types::DelegatePayload{one, 123});
    tx.data = *types::abi::encode_call(NativeKind::delegate, payload);
    EXPECT_EQ(world.name(world.block({{alice, tx}})[0]), "ok");
    EXPECT_EQ(world.value(one, alice), Uint256(123));
    ASSERT_EQ(world.receipts[0].logs.size(), 1U);
    EXPECT_EQ(world.receipts[0].logs[0].topics[0], crypto::keccak256(as_bytes("Delegated(address,address,uint256)")));
}

TEST_F(Staking, invariants_notice_shares_and_ranks_that_do_not_fit) {
    using types::ObjectPrefix;
    const auto check = [&](const std::function<void(state::Overlay&)>& change) {
        state::Overlay after(static_cast<const state::StateReader&>(world.overlay));
        change(after);
        const auto status = invariants::check_stakes(after, world.params.staking);
        return status ? std::string("none") : std::string(status.error().name);
    };
    const auto changed = [&](const std::function<void(types::ValidatorObject&)>& change) {
        auto validator = world.validator(one);
        change(validator);
        return validator;
    };
    const auto store = [&](state::Overlay& after, const std::function<void(types::ValidatorObject&)>& change) {
        after.store(types::object_key(ObjectPrefix::validator, one), changed(change));
    };
    const auto rank = [&](state::Overlay& after, const Uint256& stake, const types::Address& of, const Bytes& key) {
        after.store(types::rank_key(stake, of), types::CommitteeEntry{key, stake});
    };
    const auto delegate_one_share = [&](state::Overlay& after) {
        types::StakeDelegation delegation{one, alice, 1};
        after.store(types::key_of<types::StakeDelegation>(one, alice), delegation);
    };
    ASSERT_EQ(world.validator(one).stake, Uint256(1000));
    EXPECT_EQ(check([](state::Overlay&) {}), "none");
    EXPECT_EQ(check([&](auto& after) { store(after, [](auto& v) { v.shares += Uint256(1); }); }),
              "invariant.stake_shares");
    EXPECT_EQ(check(delegate_one_share), "invariant.stake_shares");
    EXPECT_EQ(check([&](auto& after) {
                  delegate_one_share(after);
                  store(after, [](auto& v) { v.shares += Uint256(1); });
              }),
              "none");
    EXPECT_EQ(check([&](auto& after) {  // its only delegator took all shares and left the stake
                  auto own = world.object<types::StakeDelegation>(types::key_of<types::StakeDelegation>(one, one));
                  own->shares = {};
                  after.store(types::key_of<types::StakeDelegation>(one, one), *own);
                  store(after, [](auto& v) { v.shares = {}; });
              }),
              "invariant.stake_shares");
    EXPECT_EQ(check([&](auto& after) { store(after, [](auto& v) { v.stake += Uint256(1); }); }),
              "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) { store(after, [](auto& v) { v.tombstoned = true; }); }), "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) {
                  after.erase_native(types::rank_key(1000, one));
                  store(after, [](auto& v) { v.tombstoned = true; });
              }),
              "none");
    EXPECT_EQ(check([&](auto& after) {
                  after.erase_native(types::rank_key(1000, one));
                  store(after, [](auto& v) { v.stake = 999; });
              }),
              "none")
        << "too little for a rank";
    EXPECT_EQ(check([&](auto& after) {
                  after.erase_native(types::rank_key(1000, one));
                  store(after, [](auto&) {});
              }),
              "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) { rank(after, 5000, one, public_key(1)); }), "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) { rank(after, 1000, address(77), public_key(1)); }), "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) { rank(after, 1000, one, public_key(2)); }), "invariant.stake_rank");
    EXPECT_EQ(check([&](auto& after) { rank(after, 1000, one, public_key(1)); }), "none");
}

TEST(Validators, a_rank_is_written_of_those_who_have_one) {
    EmptyState empty;
    state::Overlay overlay(empty);
    params::StakingParams staking;
    staking.min_validator_stake = 1000;
    types::ValidatorObject validator;
    validator.address = validator_of(1);
    validator.public_key = public_key(1);
    const auto objects = [&](std::uint64_t stake, bool tombstoned) {
        const auto point = overlay.snapshot();
        validator.stake = stake;
        validator.tombstoned = tombstoned;
        EXPECT_TRUE(system::store_validator(staking, overlay, validator));
        return overlay.written_since(point).objects;
    };
    EXPECT_EQ(objects(1, false), 1U);
    EXPECT_EQ(objects(2, false), 1U) << "it had none that could be taken away, and pays for none";
    EXPECT_EQ(objects(1'000, false), 2U);
    EXPECT_EQ(objects(2'000, false), 3U) << "its old place, and its new one";
    EXPECT_EQ(objects(2'000, true), 2U);
    EXPECT_EQ(objects(1'900, true), 1U);
}

TEST(StakePool, rounding_is_never_in_favour_of_who_moves) {
    types::ValidatorObject pool;
    for (const std::uint64_t shares : {7U, 100U, 1000U, 2001U})
        for (const std::uint64_t stake : {1U, 3U, 99U, 100U, 476U}) {
            if (stake > shares) continue;
            pool.shares = shares;
            pool.stake = stake;
            for (std::uint64_t owned = 0; owned <= shares; owned += 1 + shares / 50) {
                const Uint256 value = market::value_of(pool, owned);
                for (Uint256 amount = 1; amount <= value; amount += Uint256(1 + stake / 20)) {
                    const Uint256 taken = market::shares_to_take(pool, owned, amount);
                    EXPECT_LE(taken, Uint256(owned));
                    EXPECT_GE(taken * pool.stake, amount * pool.shares) << "paid for in full";
                }
                // Giving and taking back at once gains nothing.
                const Uint256 got = market::shares_for(pool, owned);
                auto after = pool;
                after.shares += got;
                after.stake += Uint256(owned);
                EXPECT_LE(market::value_of(after, got), Uint256(owned));
            }
        }
}

TEST(StakePool, is_emptied_by_the_last_share) {
    types::ValidatorObject pool;
    pool.shares = 10;
    pool.stake = 7;
    EXPECT_EQ(market::shares_to_take(pool, 10, 7), Uint256(10));
    EXPECT_EQ(market::shares_to_take(pool, 10, 6), Uint256(9));
    EXPECT_EQ(market::shares_to_take(pool, 3, 2), Uint256(3)) << "what is left would be worth nothing";
    pool.stake = 0;
    EXPECT_TRUE(market::shares_for(pool, 1000).is_zero());
    EXPECT_TRUE(market::value_of(pool, 10).is_zero());
}

}  // namespace
}  // namespace quern::chain::exec::test
