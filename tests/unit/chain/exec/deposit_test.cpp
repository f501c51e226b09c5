// Deposits for bytes of the state: who pays them, who gets them back and when, and what might be tried to get others'.
#include "chain/exec/outlay.h"
#include "chain/market/storage.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Deposits : public Lifecycle {
protected:
    Uint256 balance_of(const types::Address& who) { return balance(world.state(), who); }
    Uint256 deposit() const { return market::challenge_deposit(world.params.market); }
    Uint256 fee() const {
        const auto& receipt = world.last_receipt();
        return receipt.effective_gas_price * Uint256(receipt.gas_used);
    }
    Hash32 commitment_of(const types::Address& who, const Hash32& claim) const {
        return core::challenge_commitment(who, claim, salt);
    }
    Result commit(std::uint64_t id, const types::Address& who, const Hash32& claim) {
        return world.one(who, NativeKind::challenge_commit,
                         types::ChallengeCommitPayload{id, 0, commitment_of(who, claim)});
    }
    Result reveal(std::uint64_t id, const types::Address& who, std::uint32_t target, const History& history) {
        return world.one(who, NativeKind::challenge_reveal,
                         types::ChallengeRevealPayload{id, 0, target, history.root, salt, history_opening(history)});
    }
    void expect_returned(const types::Address& who, const Uint256& before, const Uint256& amount) {
        EXPECT_EQ(balance_of(who), before + amount);
        EXPECT_TRUE(world.check_from_genesis());
    }
    // The task settles and is deleted, by somebody who has no part in it.
    void delete_task(std::uint64_t id) {
        while (world.task(id).state != TaskState::settled) tick_when_due(id);
        world.skip_until(world.task(id).since + market::in_ms(world.params.market.retention_s));
        expect_ok(world.tick(id));
        EXPECT_FALSE(world.exists(id));
    }

    Hash32 salt = crypto::sha256(as_bytes("salt"));
};

TEST_F(Deposits, a_task_pays_for_its_bytes_and_for_what_is_made_for_it) {
    const auto small = world.task(submit());
    const Uint256 per_byte = world.params.market.storage_deposit_per_byte;
    EXPECT_EQ(small.deposit,
              per_byte * Uint256(market::stored_bytes(world.params.market, spec, market::stretch_count(small))));
    auto larger = spec;
    larger.contents.uris = {std::string(500, 'u')};
    const auto large = world.task(submit(larger));
    const std::size_t more = types::encode_record(large.spec).size() - types::encode_record(small.spec).size();
    EXPECT_GT(more, 500U);
    EXPECT_EQ(large.deposit, small.deposit + per_byte * Uint256(more));
    EXPECT_EQ(large.escrow, small.escrow + per_byte * Uint256(more));
    auto others = spec;
    ++others.work.verifiers;
    EXPECT_GT(world.task(submit(others)).deposit, small.deposit + per_byte * Uint256(2 * market::kDisputeBytes));
}

TEST_F(Deposits, a_deleted_tasks_goes_back_to_its_submitter_whoever_deletes_it) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    const Uint256 deposit = world.task(id).deposit;
    const Uint256 before = balance_of(kSubmitter);
    ASSERT_EQ(world.task(id).state, TaskState::settled);
    delete_task(id);
    expect_returned(kSubmitter, before, deposit);
    EXPECT_EQ(name(world.tick(id)), "task.unknown");
    expect_returned(kSubmitter, before, deposit);
}

TEST_F(Deposits, a_challenger_pays_for_its_dispute_until_that_is_deleted) {
    const auto id = reach(ClaimState::challenge, truth);
    const Uint256 before = balance_of(kWhistleblower);
    expect_ok(commit(id, kWhistleblower, wrong.root));
    EXPECT_EQ(balance_of(kWhistleblower), before - fee() - deposit());
    const Uint256 committed = balance_of(kWhistleblower);
    expect_ok(reveal(id, kWhistleblower, 0, wrong));
    EXPECT_EQ(balance_of(kWhistleblower), committed - fee()) << "the commitment's is the dispute's";
    const auto dispute = world.claim(id).disputes.back();
    EXPECT_EQ(world.dispute(dispute).deposit, deposit());
    expect_ok(world.one(kWhistleblower, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    EXPECT_NE(world.dispute(dispute).closed_at, 0U);
    const Uint256 conceded = balance_of(kWhistleblower);
    tick_when_due(id);
    EXPECT_EQ(balance_of(kWhistleblower), conceded) << "it is still in the state";
    delete_task(id);
    expect_returned(kWhistleblower, conceded, deposit());
    EXPECT_FALSE(world.state().native(types::key_of<types::Dispute>(dispute)));
}

TEST_F(Deposits, a_commitment_that_is_not_revealed_loses_of_its_stake_and_not_its_deposit) {
    const auto id = reach(ClaimState::challenge, truth);
    expect_ok(commit(id, kWhistleblower, wrong.root));
    const Uint256 before = balance_of(kWhistleblower);
    tick_when_due(id);
    ASSERT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "no_challenge_reveal");
    expect_returned(kWhistleblower, before, deposit());
    delete_task(id);
    expect_returned(kWhistleblower, before, deposit());
}

TEST_F(Deposits, who_takes_anothers_place_does_not_take_its_deposit) {
    world.params.market.max_commitments = 1;
    spec.windows.challenge_s = 40;
    world.bond_role(kSecond, Role::whistleblower, 100'000);
    const auto id = reach(ClaimState::challenge, truth);
    expect_ok(commit(id, kWhistleblower, wrong.root));
    const Uint256 first = balance_of(kWhistleblower);
    world.skip_until(world.market_ms() + market::in_ms(world.params.market.min_window_s));
    const Uint256 second = balance_of(kSecond);
    expect_ok(commit(id, kSecond, wrong.root));
    EXPECT_EQ(balance_of(kSecond), second - fee() - deposit());
    expect_returned(kWhistleblower, first, deposit());
}

TEST_F(Deposits, what_finds_nothing_to_accuse_any_more_is_returned_once) {
    world.bond_role(kSecond, Role::whistleblower, 100'000);
    const auto id = reach(ClaimState::challenge, wrong);
    expect_ok(commit(id, kSecond, truth.root));
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    expect_ok(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    ASSERT_TRUE(world.claim(id).voided);
    const Uint256 before = balance_of(kSecond);
    expect_ok(reveal(id, kSecond, 0, truth));
    expect_returned(kSecond, before - fee(), deposit());
    const Uint256 returned = balance_of(kSecond);
    EXPECT_EQ(name(reveal(id, kSecond, 0, truth)), "task.wrong_state") << "the round is over";
    EXPECT_EQ(balance_of(kSecond), returned - fee());
}

TEST_F(Deposits, a_submitter_that_blows_the_whistle_pays_both_and_gets_both) {
    world.bond_role(kSubmitter, Role::whistleblower, 100'000);
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kSubmitter, 0, wrong.root, history_opening(wrong));
    expect_ok(world.one(kSubmitter, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    tick_when_due(id);
    const Uint256 both = world.task(id).deposit + deposit();
    const Uint256 before = balance_of(kSubmitter);
    delete_task(id);
    expect_returned(kSubmitter, before, both);
}

TEST_F(Deposits, a_game_of_a_fail_is_paid_for_by_the_task) {
    const auto id = reach(ClaimState::committing, wrong);
    const auto live = world.live(id);
    std::vector<ReportData> mine;
    for (const auto& report : live.reports) {
        mine.push_back(make_report(live, report.verifier, truth, false, truth.root, 1));
        expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 0, mine.back().sealed.commitment}));
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
        auto revealed = core::make_reveal(mine[i].sealed, id, mine[i].sealed.true_index);
        revealed.initial_path = core::history_path(truth.roots, 0);
        const auto& who = live.reports[i].verifier;
        const Uint256 before = balance_of(who);
        expect_ok(world.one(who, NativeKind::verify_reveal, revealed));
        EXPECT_EQ(balance_of(who), before - fee());
    }
    ASSERT_EQ(world.claim(id).disputes.size(), live.reports.size());
    for (const std::uint64_t dispute : world.claim(id).disputes) EXPECT_TRUE(world.dispute(dispute).deposit.is_zero());
}

TEST_F(Deposits, nobody_commits_without_money_for_them) {
    const auto id = reach(ClaimState::challenge, truth);
    world.params.market.storage_deposit_per_byte = Uint256(1) << 60;
    EXPECT_EQ(name(commit(id, kWhistleblower, wrong.root)), "account.insufficient_balance");
    EXPECT_EQ(world.claim(id).commitments, 0U);
    const types::ChallengeCommitPayload payload{id, 0, commitment_of(kWhistleblower, wrong.root)};
    const auto tx = world.call_transaction(kWhistleblower, NativeKind::challenge_commit, types::encode_record(payload));
    EXPECT_EQ(outlay_of(world.params, tx), deposit()) << "the mempool knows it";
}

// An account that holds nothing any more is none: it is made again.
TEST_F(Deposits, a_payer_that_has_nothing_left_is_paid) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    expect_ok(world.one(kWhistleblower, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    auto account = world.state().account_or_empty(kWhistleblower);
    auto other = world.state().account_or_empty(kSecond);
    other.balance += account.balance;
    account.balance = Uint256();
    account.nonce = 0;
    world.state().set_account(kWhistleblower, account);
    world.state().set_account(kSecond, other);
    tick_when_due(id);
    delete_task(id);
    expect_returned(kWhistleblower, Uint256(), deposit());
}

// What is in the state is never more than what was paid for.
TEST_F(Deposits, cover_what_a_task_and_its_challenges_store) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto paid_for = [&] {
        const auto task = world.task(id);
        return market::stored_bytes(world.params.market, task.spec, market::stretch_count(task));
    };
    EXPECT_LE(world.bytes_of(id), paid_for());
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    EXPECT_LE(world.bytes_of(id), paid_for());
    tick_when_due(id);  // another solver is looked for, and the first round's claim stays
    EXPECT_LE(world.bytes_of(id), paid_for());
}

}  // namespace
}  // namespace quern::chain::exec::test
