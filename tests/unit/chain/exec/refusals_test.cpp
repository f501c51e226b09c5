// Refusals of the market's handlers that no story of a task comes by, each by its name and at its edge.
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Refusals : public Lifecycle {};

TEST_F(Refusals, of_a_second_or_senseless_reveal) {
    const auto id = reach(ClaimState::committing, truth);
    const auto reports = world.reports(id);
    ASSERT_GE(reports.size(), 2U);
    const auto honest = make_report(world.live(id), reports[0].verifier, truth, true, {}, 1);
    expect_ok(world.one(reports[0].verifier, NativeKind::verify_commit,
                        types::VerifyCommitPayload{id, 0, honest.sealed.commitment}));
    // It says that the result is wrong, and names that very result as the right one.
    const auto idle = make_report(world.live(id), reports[1].verifier, truth, false, world.claim(id).history_root, 1);
    expect_ok(world.one(reports[1].verifier, NativeKind::verify_commit,
                        types::VerifyCommitPayload{id, 0, idle.sealed.commitment}));
    ASSERT_EQ(world.claim(id).state, ClaimState::revealing);
    const auto reveal = core::make_reveal(honest.sealed, id, honest.sealed.true_index);
    expect_ok(world.one(reports[0].verifier, NativeKind::verify_reveal, reveal));
    EXPECT_EQ(name(world.one(reports[0].verifier, NativeKind::verify_reveal, reveal)), "verify.already_revealed");
    EXPECT_EQ(name(world.one(reports[1].verifier, NativeKind::verify_reveal,
                             core::make_reveal(idle.sealed, id, idle.sealed.true_index))),
              "verify.equal_claim");
}

TEST_F(Refusals, of_a_verifier_that_could_not_get_the_data) {
    const auto id = reach(ClaimState::custody, truth);
    const auto verifier = world.reports(id)[0].verifier;
    expect_ok(world.one(verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false}));
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_EQ(name(world.one(verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true})),
              "verify.not_active");
}

TEST_F(Refusals, of_what_is_nothing_to_tick) {
    bond_everybody();
    const auto id = submit();
    EXPECT_EQ(name(world.one(kSolver, NativeKind::tick, types::TickPayload{types::TickObject::task, 0})),
              "tick.unknown_object");
    EXPECT_EQ(name(world.one(kSolver, NativeKind::tick, types::TickPayload{static_cast<types::TickObject>(2), id})),
              "tick.unknown_object");
}

TEST_F(Refusals, of_challenges_without_form) {
    const auto id = reach(ClaimState::proved, truth);
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, {}})),
              "challenge.zero_commitment");
    types::ChallengeRevealPayload reveal{id, 0, 0, wrong.root, {}, Bytes(core::kMaxChallengeBytes + 1)};
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal)), "challenge.too_large");
    reveal.opening.pop_back();
    EXPECT_NE(name(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal)), "challenge.too_large");
}

TEST_F(Refusals, of_more_unbondings_than_are_kept) {
    world.bond_role(kSolver, Role::solver, 100'000);
    const types::UnbondPayload little{Role::solver, 1};
    for (std::size_t i = 0; i < params::kMaxRoleUnbondings; ++i)
        expect_ok(world.one(kSolver, NativeKind::unbond, little));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::unbond, little)), "bond.too_many_unbondings");
    world.skip(world.params.market.unbonding_blocks);
    expect_ok(world.one(kSolver, NativeKind::withdraw, types::WithdrawPayload{Role::solver}));
    expect_ok(world.one(kSolver, NativeKind::unbond, little));
}

}  // namespace
}  // namespace quern::chain::exec::test
