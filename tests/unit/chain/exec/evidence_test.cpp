#include "chain/exec/handlers/events.h"
#include "chain/exec/outlay.h"
#include "chain/market/storage.h"
#include "chain/types/event_reader.h"
#include "staking_world.h"

namespace quern::chain::exec::test {
namespace {

using consensus::VoteType;
using types::NativeKind;

const Hash32 kOneBlock = crypto::sha256(as_bytes("one"));
const Hash32 kOtherBlock = crypto::sha256(as_bytes("other"));
constexpr std::uint64_t kDeposit = 5 * market::kEvidenceCommitmentBytes;

class EvidenceRules : public ::testing::Test {
protected:
    EvidenceRules() : world(stake_genesis({1000, 1000, 1000, 1000})) {
        for (const auto& who : {alice, bob, reporter}) give(world.overlay, who, kPurse);
    }
    std::string report(const consensus::sdbft::Evidence& evidence) {
        return world.name(world.report(reporter, evidence));
    }
    // In the next block.
    void commit(const types::Address& who, const consensus::sdbft::Evidence& evidence) {
        EXPECT_EQ(world.name(world.commit(who, StakingWorld::commitment_of(who, evidence))), "ok");
    }
    // Of what this sender has after the next block, how much it has by other ways than gas.
    template <class Action>
    Uint256 gain(const types::Address& who, const Action& action) {
        const Uint256 before = balance(world.overlay, who);
        EXPECT_EQ(world.name(action()), "ok");
        const auto& receipt = world.receipts.back();
        return balance(world.overlay, who) + receipt.effective_gas_price * Uint256(receipt.gas_used) - before;
    }
    // The event of the last transaction.
    template <class Event>
    std::optional<Event> told() {
        for (const auto& log : world.receipts.back().logs)
            if (auto event = types::read_event<Event>(log)) return std::move(*event);
        return std::nullopt;
    }
    void wait_until_old() { world.run_to(world.height + params::kEvidenceCommitBlocks - 1); }

    types::Address alice = address(1);
    types::Address bob = address(2);
    types::Address reporter = address(3);
    types::Address culprit = validator_of(1);
    StakingWorld world;
};

TEST_F(EvidenceRules, convicts_slashes_and_pays_to_the_grain) {
    commit(reporter, world.double_vote(1, 0));
    wait_until_old();
    const auto before = world.globals();
    const Uint256 had = balance(world.overlay, reporter);
    const auto result = world.report(reporter, world.double_vote(1, 0));
    ASSERT_EQ(result.band, Band::ok) << result.to_string();
    const auto validator = world.validator(culprit);
    EXPECT_TRUE(validator.tombstoned);
    EXPECT_EQ(validator.convicted_epoch, 0U);
    EXPECT_EQ(validator.convicted_at, 9U);
    EXPECT_EQ(validator.reporter, reporter);
    // 5 % of 1000 is 50; a quarter of the committee makes three quarters of the other 950, which is 712.5.
    EXPECT_EQ(validator.stake, Uint256(1000 - 50 - 712));
    EXPECT_EQ(validator.shares, Uint256(1000));
    const auto after = world.globals();
    const Uint256 fee_burned =
        Uint256(world.receipts[0].gas_used) * Uint256(10) - (after.jackpot_vault - before.jackpot_vault);
    EXPECT_EQ(after.burned - before.burned - fee_burned, Uint256(190));                // 25 % of 762
    EXPECT_EQ(after.treasury_vault - before.treasury_vault, Uint256(762 - 190 - 38));  // the reporter's 5 % are 38
    EXPECT_EQ(balance(world.overlay, reporter),
              had - Uint256(world.receipts[0].gas_used) * 12 + Uint256(38 + kDeposit));
}

// A proposer sees the report in the mempool. Whatever it puts before it, in blocks that it cannot keep the report out
// of, the report's share is not its own.
TEST_F(EvidenceRules, a_copy_of_a_report_is_not_paid) {
    const auto& proposer = bob;
    const auto evidence = world.double_vote(1, 0);
    commit(reporter, evidence);
    wait_until_old();
    auto commitment = world.make(proposer, NativeKind::evidence_commit,
                                 types::EvidenceCommitPayload{StakingWorld::commitment_of(proposer, evidence)});
    auto copy = world.make(proposer, NativeKind::evidence, StakingWorld::payload(evidence));
    ++copy.tx.nonce;
    const auto before = world.globals();
    const Uint256 had = balance(world.overlay, proposer);
    const auto results =
        world.block({commitment, copy, world.make(reporter, NativeKind::evidence, StakingWorld::payload(evidence))});
    EXPECT_EQ(world.name(results[0]), "ok");
    EXPECT_EQ(world.name(results[1]), "ok") << "the culprit is convicted either way";
    EXPECT_EQ(world.name(results[2]), "evidence.already_convicted");
    EXPECT_TRUE(world.validator(culprit).tombstoned);
    EXPECT_TRUE(world.validator(culprit).reporter.is_zero());
    Uint256 gas;
    for (const auto& receipt : {world.receipts[0], world.receipts[1]})
        gas += receipt.effective_gas_price * Uint256(receipt.gas_used);
    EXPECT_EQ(balance(world.overlay, proposer), had - gas);
    EXPECT_EQ(world.globals().treasury_vault - before.treasury_vault, Uint256(762 - 190)) << "all that is not burned";
    EXPECT_FALSE(world.commitment(proposer)) << "its deposit came back";
    EXPECT_TRUE(world.commitment(reporter)) << "its is still there to be had";
}

TEST_F(EvidenceRules, a_commitment_is_paid_from_its_eighth_block_on) {
    const auto early = world.double_vote(1, 0);
    const auto late = world.double_vote(2, 0);
    world.block({world.make(bob, NativeKind::evidence_commit,
                            types::EvidenceCommitPayload{StakingWorld::commitment_of(bob, early)}),
                 world.make(alice, NativeKind::evidence_commit,
                            types::EvidenceCommitPayload{StakingWorld::commitment_of(alice, late)})});
    world.run_to(world.height + 6);
    EXPECT_EQ(gain(bob, [&] { return world.report(bob, early); }), Uint256(kDeposit));
    EXPECT_TRUE(world.validator(validator_of(1)).reporter.is_zero());
    EXPECT_EQ(gain(alice, [&] { return world.report(alice, late); }), Uint256(kDeposit + 50));  // 5 % of 1000
    EXPECT_EQ(world.validator(validator_of(2)).reporter, alice);
}

TEST_F(EvidenceRules, a_commitment_is_its_senders_and_to_these_bytes_alone) {
    const auto evidence = world.double_vote(1, 0);
    commit(reporter, evidence);
    // Who copies the commitment has none to what it will see later.
    EXPECT_EQ(world.name(world.commit(bob, StakingWorld::commitment_of(reporter, evidence))), "ok");
    const auto other = world.double_vote(2, 0);
    commit(alice, other);
    wait_until_old();
    EXPECT_EQ(gain(bob, [&] { return world.report(bob, evidence); }), Uint256());
    // Nor is a commitment to one encoding of an offence one to another, here with the votes the other way round.
    auto swapped = other;
    std::swap(swapped.first, swapped.second);
    std::swap(swapped.first_signature, swapped.second_signature);
    EXPECT_EQ(gain(alice, [&] { return world.report(alice, swapped); }), Uint256());
    EXPECT_TRUE(world.validator(validator_of(1)).reporter.is_zero());
    EXPECT_TRUE(world.validator(validator_of(2)).reporter.is_zero());
    // They wait for the evidence that they are to.
    EXPECT_TRUE(world.commitment(bob));
    EXPECT_TRUE(world.commitment(alice));
}

TEST_F(EvidenceRules, a_commitment_pays_once) {
    const auto evidence = world.double_vote(1, 0);
    commit(reporter, evidence);
    wait_until_old();
    ASSERT_EQ(report(evidence), "ok");
    EXPECT_FALSE(world.commitment(reporter));
    EXPECT_EQ(report(evidence), "evidence.already_convicted");
    EXPECT_EQ(gain(reporter, [&] { return world.report(reporter, world.double_vote(2, 0)); }), Uint256())
        << "the next offence needs a commitment of its own";
}

TEST_F(EvidenceRules, a_commitment_holds_a_deposit_until_it_goes) {
    const auto commit_to = [&](const Hash32& commitment) { return world.commit(reporter, commitment); };
    const Hash32 none;
    EXPECT_EQ(world.name(commit_to(none)), "evidence.no_commitment");
    EXPECT_EQ(gain(reporter, [&] { return commit_to(kOneBlock); }), Uint256() - Uint256(kDeposit));
    EXPECT_EQ(told<events::EvidenceCommitted>().value().deposit, Uint256(kDeposit));
    const auto first = world.commitment(reporter);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->reporter, reporter);
    EXPECT_EQ(first->commitment, kOneBlock);
    EXPECT_EQ(first->height, 2U);
    EXPECT_EQ(first->deposit, Uint256(kDeposit));
    world.run_to(5);
    EXPECT_EQ(gain(reporter, [&] { return commit_to(kOtherBlock); }), Uint256()) << "in the place of the first";
    EXPECT_EQ(told<events::EvidenceCommitted>().value().deposit, Uint256());
    EXPECT_EQ(world.commitment(reporter)->commitment, kOtherBlock);
    EXPECT_EQ(world.commitment(reporter)->height, 6U) << "no older than what it says";
    EXPECT_EQ(gain(reporter, [&] { return commit_to(none); }), Uint256(kDeposit));
    EXPECT_EQ(told<events::EvidenceReleased>().value().deposit, Uint256(kDeposit));
    EXPECT_FALSE(world.commitment(reporter));
    EXPECT_EQ(world.name(commit_to(none)), "evidence.no_commitment");

    const types::Address poor = address(99);
    auto call = world.make(poor, NativeKind::evidence_commit, types::EvidenceCommitPayload{kOneBlock});
    EXPECT_EQ(outlay_of(world.params, call.tx), Uint256(kDeposit)) << "the mempool counts it";
    call.tx.max_fee_per_gas = 12;
    give(world.overlay, poor, Uint256(12) * Uint256(call.tx.gas_limit) + Uint256(kDeposit - 1));
    EXPECT_EQ(world.name(world.block({call})[0]), "account.insufficient_balance");
    EXPECT_FALSE(world.commitment(poor));
    const auto erasing = world.make(reporter, NativeKind::evidence_commit, types::EvidenceCommitPayload{none});
    EXPECT_TRUE(outlay_of(world.params, erasing.tx).is_zero());
}

TEST_F(EvidenceRules, a_commitment_has_32_bytes_and_nothing_behind) {
    const auto sent = [&](const Bytes& payload) {
        return world.block({{reporter, native(world.nonce(reporter), NativeKind::evidence_commit, payload)}})[0];
    };
    const Bytes good = types::encode_record(types::EvidenceCommitPayload{kOneBlock});
    Bytes shorter{0xe0, 0x9f};
    append(shorter, Bytes(31, 1));
    Bytes longer = good;
    longer[0] = 0xe2;
    longer.push_back(1);
    for (const auto& bad : {shorter, longer, Bytes{0xc0}, Bytes{}, Bytes(good.begin(), good.end() - 1)}) {
        const auto refused = sent(bad);
        EXPECT_TRUE(refused.name.starts_with("rlp.")) << to_hex(bad) << ": " << refused.to_string();
    }
    EXPECT_FALSE(world.commitment(reporter));
    EXPECT_EQ(world.name(sent(good)), "ok");

    types::Transaction called =
        transfer(world.nonce(alice), types::group_address(types::KindGroup::staking), Uint256());
    called.gas_limit = 1'000'000;
    called.data = *types::abi::encode_call(NativeKind::evidence_commit, good);
    EXPECT_EQ(called.data.size(), 4U + 32);
    EXPECT_EQ(to_hex(BytesView(called.data).first(4)),
              to_hex(crypto::keccak256(as_bytes("evidenceCommit(bytes32)")).view().first(4)));
    EXPECT_EQ(world.name(world.block({{alice, called}})[0]), "ok");
    ASSERT_TRUE(world.commitment(alice));
    EXPECT_EQ(world.commitment(alice)->commitment, kOneBlock);
}

TEST_F(EvidenceRules, delegators_are_hit_in_proportion_and_can_leave_with_the_rest) {
    world.delegate(alice, culprit, 301);
    world.delegate(bob, culprit, 700);
    ASSERT_EQ(report(world.double_vote(1, 0)), "ok");
    // 2001: 100, then three quarters of 1901 rounded down.
    EXPECT_EQ(world.validator(culprit).stake, Uint256(2001 - 100 - 1425));
    EXPECT_EQ(world.value(culprit, alice), Uint256(71));
    EXPECT_EQ(world.value(culprit, bob), Uint256(166));
    EXPECT_EQ(world.value(culprit, culprit), Uint256(237));
    EXPECT_EQ(world.name(world.delegate(alice, culprit, 5)), "validator.tombstoned");
    ASSERT_EQ(world.name(world.undelegate(alice, culprit, 71)), "ok");
    ASSERT_EQ(world.name(world.undelegate(bob, culprit, 166)), "ok");
    EXPECT_EQ(world.value(culprit, culprit), Uint256(239)) << "the dust is the last one's";
    EXPECT_EQ(world.name(world.undelegate(culprit, culprit, 240)), "stake.insufficient");
    ASSERT_EQ(world.name(world.undelegate(culprit, culprit, 239)), "ok");
    EXPECT_TRUE(world.validator(culprit).stake.is_zero());
    EXPECT_TRUE(world.validator(culprit).shares.is_zero());
    // What left after the slash is not slashed again.
    const Uint256 had = balance(world.overlay, alice);
    world.run_to(40);
    ASSERT_EQ(world.name(world.withdraw(bob, culprit, alice)), "ok");
    EXPECT_EQ(balance(world.overlay, alice), had + Uint256(71));
}

TEST_F(EvidenceRules, unbonding_stake_answers_for_the_epochs_it_counted_in) {
    world.delegate(alice, culprit, 400);    // height 1
    world.undelegate(alice, culprit, 100);  // epoch 0: counts in epochs up to 1
    commit(reporter, world.double_vote(1, 2));
    world.run_to(4);
    world.undelegate(alice, culprit, 300);  // height 5, epoch 1: counts in epochs up to 2
    world.run_to(10);
    ASSERT_EQ(report(world.double_vote(1, 2)), "ok");
    // Epoch 2's committee: 1300 of 4300. Three times that share of what 5 % leave.
    const auto cut = [](std::uint64_t amount) {
        const Uint256 first = Uint256(amount) * 50 / Uint256(1000);
        const Uint256 correlation = Uint256(1300) * Uint256(params::kShareUnit) / Uint256(4300) * Uint256(3);
        return first + (Uint256(amount) - first) * correlation / Uint256(params::kShareUnit);
    };
    EXPECT_EQ(world.validator(culprit).stake, Uint256(1000) - cut(1000));
    EXPECT_EQ(world.unbonding(culprit, alice).size(), 2U) << "the cut comes with the withdrawal";
    world.run_to(40);
    const Uint256 had = balance(world.overlay, alice);
    const Uint256 reporter_had = balance(world.overlay, reporter);
    ASSERT_EQ(world.name(world.withdraw(bob, culprit, alice)), "ok");
    EXPECT_EQ(balance(world.overlay, alice), had + Uint256(100) + Uint256(300) - cut(300));
    EXPECT_EQ(balance(world.overlay, reporter), reporter_had + cut(300) * 5 / Uint256(100));
    const auto rewarded = told<events::EvidenceRewarded>();
    ASSERT_TRUE(rewarded);
    EXPECT_EQ(rewarded->reporter, reporter);
    EXPECT_EQ(rewarded->amount, cut(300) * 5 / Uint256(100));
}

TEST_F(EvidenceRules, what_is_cut_later_goes_to_the_treasury_when_nobody_was_to_be_paid) {
    world.undelegate(culprit, culprit, 400);
    ASSERT_EQ(report(world.double_vote(1, 0)), "ok");
    world.run_to(40);
    const Uint256 had = balance(world.overlay, reporter);
    const auto before = world.globals();
    ASSERT_EQ(world.name(world.withdraw(bob, culprit, culprit)), "ok");
    // 400: 20, then three quarters of 380; a quarter of that is burned.
    EXPECT_EQ(world.globals().treasury_vault - before.treasury_vault, Uint256(305 - 76));
    EXPECT_EQ(balance(world.overlay, reporter), had);
    EXPECT_TRUE(balance(world.overlay, types::Address()).is_zero()) << "whom nobody is";
}

TEST_F(EvidenceRules, those_convicted_together_lose_more) {
    ASSERT_EQ(report(world.double_vote(1, 0)), "ok");
    ASSERT_EQ(report(world.double_vote(2, 0)), "ok");
    EXPECT_EQ(world.validator(validator_of(1)).stake, Uint256(238));
    EXPECT_TRUE(world.validator(validator_of(2)).stake.is_zero()) << "half the committee together: all";
    EXPECT_EQ(world.value(validator_of(2), validator_of(2)), Uint256());
    EXPECT_EQ(world.name(world.undelegate(validator_of(2), validator_of(2), 1)), "stake.insufficient");
}

TEST_F(EvidenceRules, what_was_convicted_long_ago_does_not_add_up) {
    ASSERT_EQ(report(world.double_vote(1, 0)), "ok");  // height 1
    world.run_to(4 + kUnbonding);
    ASSERT_EQ(report(world.double_vote(2, 4)), "ok");
    // A third of a committee of three alone takes everything but the last rounding.
    EXPECT_EQ(world.validator(validator_of(2)).correlation, Uint256(999'999'999'999'999'999));
    EXPECT_EQ(world.overlay.native_range(types::object_key(types::ObjectPrefix::conviction), {}, 10).size(), 1U);
}

TEST_F(EvidenceRules, the_tombstone_is_for_good) {
    ASSERT_EQ(report(world.double_vote(1, 0)), "ok");
    EXPECT_EQ(report(world.double_vote(1, 0)), "evidence.already_convicted");
    EXPECT_EQ(report(world.double_vote(1, 1)), "evidence.already_convicted") << "another offence of the same key too";
    const types::CreateValidatorPayload again{
        public_key(1), types::sign_validator_proof(world.params.chain_id, alice, stake_key(1)), 5000};
    EXPECT_EQ(world.name(world.call(alice, NativeKind::create_validator, again)), "validator.exists");
    world.run_to(30);
    for (std::uint64_t epoch = 4; epoch <= 8; ++epoch) {
        const auto object = world.epoch(epoch);
        ASSERT_TRUE(object) << epoch;
        EXPECT_EQ(object->members.size(), 3U) << epoch;
        for (const auto& member : object->members) EXPECT_NE(member.public_key, public_key(1));
    }
}

TEST_F(EvidenceRules, refuses_what_does_not_convict) {
    const auto good = world.double_vote(1, 0);
    auto bad = good;
    bad.second_signature.data[3] ^= 1;
    EXPECT_EQ(report(bad), "evidence.bad_signature");
    bad = good;
    std::swap(bad.first_signature, bad.second_signature);
    EXPECT_EQ(report(bad), "evidence.bad_signature");
    bad = good;
    bad.signer = crypto::derive_public(stake_key(2));
    EXPECT_EQ(report(bad), "evidence.bad_signature") << "another member's name on it";
    EXPECT_EQ(report(world.double_vote(9, 0)), "evidence.not_in_committee");
    EXPECT_EQ(report(world.double_vote(1, 50)), "evidence.unknown_epoch");
    const auto legal = world.pair(1, {VoteType::notarize, 0, 3, kOneBlock}, {VoteType::nullify, 0, 3, {}});
    EXPECT_EQ(report(legal), "evidence.not_slashable");
    const auto views = world.pair(1, {VoteType::notarize, 0, 3, kOneBlock}, {VoteType::notarize, 0, 3, kOneBlock});
    EXPECT_EQ(report(views), "evidence.not_slashable");
    EXPECT_EQ(world.name(world.call(reporter, NativeKind::evidence, types::EvidencePayload{Bytes(513, 0)})),
              "evidence.too_large");
    EXPECT_TRUE(world.name(world.call(reporter, NativeKind::evidence, types::EvidencePayload{Bytes{0x80}}))
                    .starts_with("rlp."));
    const auto genesis_hash = world.params.genesis_hash;
    world.params.genesis_hash.data[0] ^= 1;
    EXPECT_EQ(report(good), "evidence.bad_signature") << "votes of a chain that was before this one";
    world.params.genesis_hash = genesis_hash;
    EXPECT_FALSE(world.validator(culprit).tombstoned);
    EXPECT_EQ(world.validator(culprit).stake, Uint256(1000));
}

TEST_F(EvidenceRules, every_slashable_pair_convicts) {
    const std::vector<std::pair<StakingWorld::Vote, StakingWorld::Vote>> pairs{
        {{VoteType::propose, 0, 3, kOneBlock}, {VoteType::propose, 0, 3, kOtherBlock}},
        {{VoteType::finalize, 0, 3, kOneBlock}, {VoteType::finalize, 0, 3, kOtherBlock}},
        {{VoteType::finalize, 0, 3, kOneBlock}, {VoteType::notarize, 0, 3, kOtherBlock}},
        {{VoteType::nullify, 0, 3, {}}, {VoteType::finalize, 0, 3, kOneBlock}},
    };
    for (std::uint8_t i = 0; i < 4; ++i)
        EXPECT_EQ(report(world.pair(static_cast<std::uint8_t>(i + 1), pairs[i].first, pairs[i].second)), "ok")
            << int(i);
}

TEST_F(EvidenceRules, the_window_ends_with_unbonding) {
    const auto evidence = world.double_vote(1, 0);  // epoch 0 ends with height 3
    const auto other = world.double_vote(2, 0);
    world.run_to(3 + kUnbonding - 1);
    EXPECT_EQ(report(evidence), "ok");
    EXPECT_EQ(report(other), "evidence.too_old");
    world.run_to(5 * kEpochLength - 1);
    EXPECT_EQ(report(other), "evidence.unknown_epoch") << "its committee is forgotten";
}

TEST_F(EvidenceRules, evidence_may_travel_without_a_fee_but_only_when_it_convicts) {
    const types::Address poor = address(99);
    const auto free = [&](const consensus::sdbft::Evidence& evidence) {
        auto call = world.make(poor, NativeKind::evidence, StakingWorld::payload(evidence));
        call.tx.max_fee_per_gas = 0;
        call.tx.max_priority_fee_per_gas = 0;
        return call;
    };
    const auto refused = world.block({free(world.double_vote(9, 0))})[0];
    EXPECT_EQ(refused.name, "evidence.not_in_committee");
    EXPECT_EQ(refused.band, Band::refused);
    EXPECT_EQ(world.nonce(poor), 0U) << "no trace in the state";
    EXPECT_TRUE(world.receipts.empty());
    const auto precheck_of = [&](const StakingWorld::Call& call) {
        return precheck(world.params, world.overlay, world.height + 1, from(call.sender, call.tx), 7).name;
    };
    EXPECT_EQ(precheck_of(free(world.double_vote(9, 0))), "evidence.not_in_committee");

    const auto call = free(world.double_vote(1, 0));
    EXPECT_TRUE(precheck(world.params, world.overlay, world.height + 1, from(call.sender, call.tx), 7).in_block());
    const auto result = world.block({call})[0];
    EXPECT_EQ(result.band, Band::ok) << result.to_string();
    EXPECT_EQ(world.nonce(poor), 1U);
    EXPECT_TRUE(balance(world.overlay, poor).is_zero()) << "nothing was committed to";
    EXPECT_EQ(world.receipts[0].effective_gas_price, Uint256());
    EXPECT_EQ(precheck_of(free(world.double_vote(1, 0))), "evidence.already_convicted");
    // Other kinds pay as ever.
    auto delegate = world.make(poor, NativeKind::delegate, types::DelegatePayload{culprit, 1});
    delegate.tx.max_fee_per_gas = 0;
    delegate.tx.max_priority_fee_per_gas = 0;
    EXPECT_EQ(world.block({delegate})[0].band, Band::retry);
}

}  // namespace
}  // namespace quern::chain::exec::test
