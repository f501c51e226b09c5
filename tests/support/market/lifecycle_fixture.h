// A chain with a task, its solver, verifiers and a whistleblower, and the ways to bring it into each state. Used by the
// tests of the market's handlers.
#pragma once

#include "market_world.h"

namespace quern::chain::exec::test {

inline const types::Address kSubmitter = address(10);
inline const types::Address kSolver = address(20);
inline const types::Address kSecond = address(21);
inline const types::Address kVerifiers[] = {address(30), address(31), address(32)};
inline const types::Address kWhistleblower = address(40);
inline constexpr std::uint64_t kSteps = 4;
inline constexpr std::uint64_t kInterval = 2;

class Lifecycle : public ::testing::Test {
protected:
    explicit Lifecycle(std::uint64_t stride = 1)
        : truth(compute_history(kSteps, 0, 0, stride)), wrong(compute_history(kSteps, 3, 1U << 20, stride)) {
        spec.work.stride = stride;
        for (const auto& who : {kSubmitter, kSolver, kSecond, kVerifiers[0], kVerifiers[1], kVerifiers[2],
                                kWhistleblower, address(0x71c)})
            give(world.state(), who, Uint256(1'000'000'000'000'000));
        world.begin();
        EXPECT_TRUE(world.finish());
    }

    void bond_everybody() {
        world.bond_role(kSolver, Role::solver, 100'000);
        world.bond_role(kSecond, Role::solver, 100'000);
        for (const auto& verifier : kVerifiers) world.bond_role(verifier, Role::verifier, 1'000'000);
        world.bond_role(kWhistleblower, Role::whistleblower, 100'000);
    }
    // Of a solver of `spec`: 1,000 γ, or twice the reward at the price cap, or that of which 65 % pay γ and all fees.
    [[nodiscard]] Uint256 solver_lock() const {
        const auto plan = core::TaskPlan::decode(spec.plan)->planned(spec.work.interval, spec.work.stride);
        const Uint256 samples =
            std::min<std::uint64_t>(spec.work.samples + spec.work.largest, plan.steps / plan.interval);
        const Uint256 fee = spec.money.price_cap * plan.segment * samples * Uint256(6) / Uint256(5);
        const Uint256 found = (fee * Uint256(spec.work.verifiers) + Uint256(10)) * Uint256(100);
        return std::max(
            {Uint256(10'000), spec.money.price_cap * plan.total * Uint256(2), (found + Uint256(64)) / Uint256(65)});
    }
    std::uint64_t submit() { return submit(spec); }
    std::uint64_t submit(const types::TaskSubmitPayload& what) {
        const auto result = world.one(kSubmitter, NativeKind::task_submit, what);
        EXPECT_EQ(result.band, Band::ok) << result.to_string();
        return world.globals().next_task - 1;
    }
    void tick_when_due(std::uint64_t id) {
        const auto before = world.task(id);
        const auto claim = world.claim(id);
        world.skip_until_due(id);
        const auto result = world.tick(id);
        EXPECT_EQ(result.band, Band::ok) << result.to_string();
        // So does a pause of one that was put off.
        if (claim.state == ClaimState::proved && claim.draw_at == 0) tick_when_due(id);
        // The first one of an open task closes the bidding, the next one draws.
        if (before.state == TaskState::open && before.draw_at == 0 && world.task(id).draw_at != 0) tick_when_due(id);
    }
    void expect_ok(const Result& result) { EXPECT_EQ(result.band, Band::ok) << result.to_string(); }

    // Brings a task, or its claim, into a state on the straight way, with `history` as the solver's.
    std::uint64_t reach(TaskState state) {
        bond_everybody();
        const auto id = submit();
        if (state == TaskState::open) return id;
        const Uint256 price = std::min(Uint256(3), spec.money.price_cap);
        expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, price}));
        tick_when_due(id);
        return id;
    }
    std::uint64_t reach(ClaimState state, const History& history) {
        const auto id = reach(TaskState::assigned);
        world.skip_to(world.task(id).seats.at(0).assigned_at + 2);
        expect_ok(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id}));
        if (state == ClaimState::working) return id;
        for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval)
            expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), history, step)));
        expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), history)));
        if (state == ClaimState::proved) return id;
        tick_when_due(id);
        if (state == ClaimState::custody) return id;
        for (const auto& report : world.reports(id))
            expect_ok(
                world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        if (state == ClaimState::committing) return id;
        commit_to_pass(id, history);
        if (state == ClaimState::revealing) return id;
        reveal_pass(id, history);
        return id;
    }
    void commit_to_pass(std::uint64_t id, const History& history) {
        for (const auto& report : world.reports(id)) {
            const auto mine = make_report(world.live(id), report.verifier, history, true, {}, 1);
            expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                                types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
        }
    }
    void reveal_pass(std::uint64_t id, const History& history) {
        for (const auto& report : world.reports(id)) {
            const auto mine = make_report(world.live(id), report.verifier, history, true, {}, 1);
            expect_ok(world.one(report.verifier, NativeKind::verify_reveal,
                                core::make_reveal(mine.sealed, id, mine.sealed.true_index)));
        }
    }
    // From the draw to the challenge window: all who were drawn say PASS.
    void pass_all(std::uint64_t id) {
        for (const auto& report : world.reports(id))
            expect_ok(
                world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        commit_to_pass(id, truth);
        reveal_pass(id, truth);
    }
    std::string name(const Result& result) { return std::string(result.name); }
    // Both parties play their strategies until the dispute is closed.
    void play_out(std::uint64_t dispute_id, core::DisputeParty defender, core::DisputeParty rival) {
        core::DisputeStrategy strategies[] = {core::DisputeStrategy(std::move(defender)),
                                              core::DisputeStrategy(std::move(rival))};
        for (int round = 0; round < 60; ++round) {
            const auto dispute = world.dispute(dispute_id);
            if (dispute.closed_at != 0) return;
            const auto game = *types::decode_record<core::Game>(dispute.game);
            bool moved = false;
            for (const auto side : {core::Side::defender, core::Side::rival}) {
                if (!core::may_move(game, side)) continue;
                const auto move = strategies[static_cast<int>(side)].next_move(game, side, waiting_post(game));
                ASSERT_TRUE(move) << move.error().to_string();
                const auto who = side == core::Side::defender ? dispute.defender : dispute.rival;
                if (const auto* split = std::get_if<core::SplitMove>(&*move)) {
                    expect_ok(world.one(who, NativeKind::dispute_split,
                                        types::DisputeSplitPayload{dispute_id, types::encode_record(*split)}));
                    moved = true;
                } else if (const auto* leaf = std::get_if<core::LeafWitness>(&*move)) {
                    expect_ok(world.one(who, NativeKind::dispute_prove_leaf,
                                        types::DisputeProveLeafPayload{dispute_id, types::encode_record(*leaf)}));
                    moved = true;
                }
                if (moved) break;
            }
            if (!moved) world.skip(1);
        }
        FAIL() << "the game does not end";
    }
    // Commits to and reveals a challenge; the number of the dispute.
    std::uint64_t challenge(std::uint64_t id, const types::Address& who, std::uint32_t target, const Hash32& claim,
                            const Bytes& opening) {
        const Hash32 salt = crypto::sha256(as_bytes("salt"));
        expect_ok(world.one(who, NativeKind::challenge_commit,
                            types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim, salt)}));
        expect_ok(world.one(who, NativeKind::challenge_reveal,
                            types::ChallengeRevealPayload{id, 0, target, claim, salt, opening}));
        return world.claim(id).disputes.empty() ? 0 : world.claim(id).disputes.back();
    }

    World world;
    types::TaskSubmitPayload spec = tiny_spec(kSteps, kInterval);
    History truth;
    History wrong;
};

}  // namespace quern::chain::exec::test
