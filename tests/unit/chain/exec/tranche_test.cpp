// Tasks whose run is verified and paid for in tranches: claims one after the other, two at once, what each is paid,
// what falls with what, and how another solver goes on.
#include "compute/core/state_piece.h"
#include "compute/core/task_imports.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kAll = 6;      // steps
constexpr std::uint64_t kTranche = 2;  // so there are three stretches
constexpr std::uint64_t kPrice = 3;

class Tranches : public Lifecycle {
protected:
    Tranches() {
        spec = tiny_spec(kAll, 1);
        spec.work.tranche = kTranche;
        spec.work.samples = 1;
        spec.windows.heartbeat_s = spec.windows.prove_s = 400;
        spec.windows.verify_s = 60;  // two are verified one transaction a block, one after the other
        spec.windows.challenge_s = 100;
    }

    // The task assigned to a solver that has started.
    std::uint64_t begin() {
        bond_everybody();
        const auto id = submit();
        assign(id, kSolver);
        return id;
    }
    void assign(std::uint64_t id, const types::Address& solver) {
        expect_ok(world.one(solver, NativeKind::task_bid, types::TaskBidPayload{id, 0, kPrice}));
        tick_when_due(id);
        world.skip_to(world.task(id).seats.at(0).assigned_at + 2);
        expect_ok(world.one(solver, NativeKind::task_start, types::TaskIdPayload{id}));
    }
    types::Claim claim_of(std::uint64_t id, std::uint32_t stretch, std::uint32_t round = 0) const {
        return world.stored_claim({id, 0, stretch, round}).value();
    }
    bool has_claim(std::uint64_t id, std::uint32_t stretch, std::uint32_t round = 0) const {
        return world.stored_claim({id, 0, stretch, round}).has_value();
    }
    void prove(std::uint64_t id, std::uint32_t stretch, const History& history) {
        const auto task = world.task(id);
        const auto steps = market::stretch_of(task, stretch);
        const auto& solver = task.seats.at(0).solver;
        for (std::uint64_t step = steps.before + 1; step <= steps.last(); ++step)
            expect_ok(world.one(solver, NativeKind::task_checkpoint, checkpoint_of(task, history, step)));
        expect_ok(world.one(solver, NativeKind::task_prove, proof_of(task, history, stretch)));
    }
    void draw(std::uint64_t id, std::uint32_t stretch) {
        world.skip_to(market::draw_height(world.live_stretch(id, stretch).claim.draw_at));
        // A tick moves one claim on, the earliest that is due.
        expect_ok(world.tick(id));
        if (world.live_stretch(id, stretch).claim.state == ClaimState::proved) expect_ok(world.tick(id));
        ASSERT_EQ(world.live_stretch(id, stretch).claim.state, ClaimState::custody);
    }
    // Two stretches proved, the verifiers of both drawn.
    std::uint64_t begin_two(const History& first, const History& second) {
        const auto id = begin();
        prove(id, 0, first);
        prove(id, 1, second);
        draw(id, 0);
        draw(id, 1);
        return id;
    }
    // From the draw to the reveals: make(verifier, its place) is what each says; of a FAIL, `rival` is the true
    // history.
    template <class Make>
    std::vector<ReportData> report(std::uint64_t id, std::uint32_t stretch, Make&& make,
                                   const History* rival = nullptr) {
        const auto verifiers = world.live_stretch(id, stretch).reports;
        std::vector<ReportData> reports;
        for (std::size_t i = 0; i < verifiers.size(); ++i) {
            reports.push_back(make(verifiers[i].verifier, i));
            expect_ok(world.one(verifiers[i].verifier, NativeKind::custody_receipt,
                                types::CustodyReceiptPayload{id, stretch, true}));
        }
        for (std::size_t i = 0; i < verifiers.size(); ++i)
            expect_ok(world.one(verifiers[i].verifier, NativeKind::verify_commit,
                                types::VerifyCommitPayload{id, stretch, reports[i].sealed.commitment}));
        for (std::size_t i = 0; i < verifiers.size(); ++i) {
            auto reveal = core::make_reveal(reports[i].sealed, id, reports[i].sealed.true_index, stretch);
            if (rival != nullptr)
                reveal.initial_path =
                    core::history_path(rival->roots_of(market::stretch_of(world.task(id), stretch)), 0);
            expect_ok(world.one(verifiers[i].verifier, NativeKind::verify_reveal, reveal));
        }
        return reports;
    }
    // From the draw to the challenge window: all PASS.
    void pass(std::uint64_t id, std::uint32_t stretch, const History& history) {
        const auto live = world.live_stretch(id, stretch);
        report(id, stretch, [&](const auto& who, std::size_t) { return make_report(live, who, history, true, {}, 1); });
        ASSERT_EQ(world.live_stretch(id, stretch).claim.state, ClaimState::challenge);
    }
    void verify(std::uint64_t id, std::uint32_t stretch, const History& history) {
        draw(id, stretch);
        pass(id, stretch, history);
    }
    // When its challenge window is over.
    void settle(std::uint64_t id, std::uint32_t stretch) {
        world.skip_until(world.live_stretch(id, stretch).claim.deadline);
        expect_ok(world.tick(id));
    }
    std::uint64_t challenge_stretch(std::uint64_t id, std::uint32_t stretch, std::uint32_t target, const Hash32& root,
                                    const Bytes& opening) {
        const Hash32 salt = crypto::sha256(as_bytes("salt"));
        expect_ok(world.one(
            kWhistleblower, NativeKind::challenge_commit,
            types::ChallengeCommitPayload{id, stretch, core::challenge_commitment(kWhistleblower, root, salt)}));
        expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal,
                            types::ChallengeRevealPayload{id, stretch, target, root, salt, opening}));
        return world.live_stretch(id, stretch).claim.disputes.back();
    }
    std::uint64_t accuse(std::uint64_t id, std::uint32_t stretch, const History& rival) {
        const auto steps = market::stretch_of(world.task(id), stretch);
        return challenge_stretch(id, stretch, 0, rival.root_of(steps), history_opening(rival, steps));
    }
    core::Game game(std::uint64_t dispute) const {
        return *types::decode_record<core::Game>(world.dispute(dispute).game);
    }
    Uint256 locked(const types::Address& solver) const { return world.bond(Role::solver, solver).locked; }
    // Of a solver for one stretch: each costs the same here.
    Uint256 lock() const { return std::max(Uint256(10'000), Uint256(10) * work() * Uint256(2)); }
    Uint256 work(std::uint64_t steps = kTranche) const {
        return Uint256(steps) * Uint256(tiny().program.header.work_units + vm::tensor::kTileHashWork);
    }
    Uint256 fee() const { return Uint256(10) * work(1) * Uint256(6) / Uint256(5); }
    static Uint256 paid(const std::vector<types::Payment>& payments, const types::Address& to,
                        std::string_view reason) {
        Uint256 sum;
        for (const auto& payment : payments)
            if (payment.to == to && payment.reason == reason) sum += payment.amount;
        return sum;
    }

    const History all = compute_history(kAll);
    const History wrong_first = compute_history(kAll, 2, 1U << 20);
    const History wrong_second = compute_history(kAll, 3, 1U << 20);
};

TEST_F(Tranches, are_paid_for_one_by_one_while_the_training_goes_on) {
    const auto id = begin();
    EXPECT_EQ(locked(kSolver), lock() * Uint256(2));
    EXPECT_EQ(claim_of(id, 0).locked, lock());
    const Uint256 escrow = world.task(id).escrow;
    prove(id, 0, all);
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::working);
    EXPECT_EQ(claim_of(id, 1).start_root, all.step_roots[2]);
    EXPECT_EQ(claim_of(id, 1).seed_beacon, claim_of(id, 0).seed_beacon);
    EXPECT_EQ(claim_of(id, 1).step, 2U);
    verify(id, 0, all);
    settle(id, 0);
    auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::running);
    EXPECT_EQ(task.settled, 1U);
    EXPECT_TRUE(task.payments.empty()) << "they are the claim's";
    const auto first = claim_of(id, 0);
    EXPECT_EQ(first.state, ClaimState::settled);
    EXPECT_EQ(paid(first.payments, kSolver, "solver_reward"), Uint256(kPrice) * work());
    EXPECT_EQ(paid(first.payments, world.live_stretch(id, 0).reports[0].verifier, "verifier_fee"), fee());
    EXPECT_EQ(paid(first.payments, kSubmitter, "refund"), Uint256(10 - kPrice) * work());
    EXPECT_EQ(escrow - task.escrow, Uint256(10) * work() + Uint256(2) * fee() + Uint256(33 / 3))
        << "a third of the tax";
    EXPECT_EQ(locked(kSolver), lock() * Uint256(2)) << "a claim, and what the next one will take";
    for (std::uint32_t stretch = 1; stretch < 3; ++stretch) {
        prove(id, stretch, all);
        verify(id, stretch, all);
        settle(id, stretch);
        EXPECT_EQ(locked(kSolver), stretch == 1 ? lock() : Uint256());
    }
    task = world.task(id);
    EXPECT_EQ(task.state, TaskState::settled);
    EXPECT_EQ(task.escrow, task.deposit);
    EXPECT_TRUE(locked(kSolver).is_zero());
    EXPECT_EQ(paid(task.payments, kSolver, "solver_reward"), Uint256(kPrice) * work());
    const auto proof = world.proof(id).value();
    EXPECT_EQ(proof.final_root, all.roots.back());
    EXPECT_EQ(proof.init_root, spec.init_root);
    EXPECT_EQ(proof.passes, 2U);
    EXPECT_EQ(proof.reason, "unchallenged");
}

TEST_F(Tranches, no_more_than_two_are_unsettled) {
    const auto id = begin();
    prove(id, 0, all);
    prove(id, 1, all);
    EXPECT_FALSE(has_claim(id, 2)) << "the solver waits";
    verify(id, 0, all);
    settle(id, 0);
    EXPECT_EQ(claim_of(id, 2).state, ClaimState::working);
    EXPECT_EQ(claim_of(id, 2).start_root, all.step_roots[4]);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id})), "task.wrong_state");
}

TEST_F(Tranches, settle_in_order_however_long_the_first_takes) {
    const auto id = begin_two(all, all);
    pass(id, 0, all);
    pass(id, 1, all);
    const auto dispute = accuse(id, 0, wrong_first);
    world.skip_until(claim_of(id, 1).deadline);
    EXPECT_EQ(name(world.tick(id)), "tick.too_early") << "its windows are over, those of the one before it are not";
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::challenge);
    play_out(dispute, party_of(world.live_stretch(id, 0), all), party_of(world.live_stretch(id, 0), wrong_first));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::challenge);
    settle(id, 0);
    EXPECT_EQ(claim_of(id, 0).state, ClaimState::settled);
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::challenge) << "a tick moves one on";
    expect_ok(world.tick(id));
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::settled) << "it was due, too";
}

TEST_F(Tranches, of_a_wrong_one_all_later_ones_fall_and_nothing_of_them_is_paid) {
    const auto id = begin();
    prove(id, 0, wrong_first);
    prove(id, 1, wrong_first);
    draw(id, 1);
    const auto dispute = accuse(id, 0, all);
    play_out(dispute, party_of(world.live_stretch(id, 0), wrong_first), party_of(world.live_stretch(id, 0), all));
    EXPECT_EQ(claim_of(id, 0).reason, "solver_slashed");
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::voided);
    EXPECT_EQ(claim_of(id, 1).reason, "earlier_void");
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(task.round, 1U);
    EXPECT_EQ(task.settled, 0U);
    EXPECT_EQ(task.start_root, spec.init_root);
    ASSERT_EQ(task.slashes.size(), 1U);
    EXPECT_EQ(task.slashes[0].amount, lock()) << "of the claim that was wrong";
    EXPECT_TRUE(locked(kSolver).is_zero());
    for (const auto& verifier : kVerifiers) EXPECT_TRUE(world.bond(Role::verifier, verifier).locked.is_zero());
}

// The next solver begins where the last one was paid for, with its data order; what was settled stays paid.
TEST_F(Tranches, are_gone_on_with_by_another_solver) {
    world.params.market.held_percent = 30;
    const auto id = begin();
    prove(id, 0, all);
    verify(id, 0, all);
    world.skip_until(claim_of(id, 1).deadline);  // the solver stalls
    while (world.task(id).state == TaskState::running) expect_ok(world.tick(id));
    EXPECT_EQ(claim_of(id, 0).state, ClaimState::settled);
    EXPECT_EQ(claim_of(id, 1).reason, "no_heartbeat");
    auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(task.round, 1U);
    EXPECT_EQ(task.start_root, all.step_roots[2]);
    EXPECT_EQ(task.start_history, claim_of(id, 0).history_content);
    EXPECT_TRUE(locked(kSolver).is_zero());
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1})), "bid.barred");
    assign(id, kSecond);
    EXPECT_EQ(claim_of(id, 1, 1).start_root, all.step_roots[2]);
    EXPECT_EQ(claim_of(id, 1, 1).seed_beacon, claim_of(id, 0).seed_beacon);
    EXPECT_EQ(locked(kSecond), lock() * Uint256(2));
    for (std::uint32_t stretch = 1; stretch < 3; ++stretch) {
        prove(id, stretch, all);
        verify(id, stretch, all);
        settle(id, stretch);
    }
    task = world.task(id);
    EXPECT_EQ(task.state, TaskState::settled);
    EXPECT_EQ(world.proof(id)->solver, kSecond);
    EXPECT_EQ(world.proof(id)->final_root, all.roots.back());
    // What is held is of the last stretch, owed to its solver, and answered for with the last state of all.
    const Uint256 share = Uint256(kPrice) * work(kTranche) * Uint256(30) / Uint256(100);
    EXPECT_EQ(task.held, share);
    EXPECT_EQ(paid(claim_of(id, 1, 1).payments, kSecond, "solver_reward"), Uint256(kPrice) * work(kTranche));
    EXPECT_EQ(paid(task.payments, kSecond, "solver_reward"), Uint256(kPrice) * work(kTranche) - share);
    expect_ok(world.one(kSubmitter, NativeKind::data_challenge, types::DataChallengePayload{id, 0, 0}));
    const auto answer = [&](const History& history, std::size_t step) {
        const tensor::Tensor& slot = history.states[step][0];
        const std::vector<Hash32> roots{tensor::tensor_root(slot)};
        return core::make_piece(id, roots, 0, tensor::tile_hashes(slot), 0,
                                tensor::tile_bytes(tensor::read_tile(slot, 0)));
    };
    EXPECT_EQ(name(world.one(kSecond, NativeKind::data_answer, answer(all, kAll - kTranche))), "data.bad_answer");
    expect_ok(world.one(kSecond, NativeKind::data_answer, answer(all, kAll)));
    const Uint256 before = balance(world.state(), kSecond);
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, types::TaskIdPayload{id}));
    EXPECT_EQ(balance(world.state(), kSecond), before + share);
}

TEST_F(Tranches, that_stall_cost_the_solver_while_what_it_proved_is_still_verified) {
    const auto id = begin();
    prove(id, 0, all);
    draw(id, 0);
    pass(id, 0, all);
    const auto dispute = accuse(id, 0, wrong_first);
    expect_ok(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id}));
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::voided);
    EXPECT_EQ(world.task(id).state, TaskState::running) << "the first one is not decided";
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id})), "task.wrong_state");
    play_out(dispute, party_of(world.live_stretch(id, 0), all), party_of(world.live_stretch(id, 0), wrong_first));
    settle(id, 0);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).settled, 1U);
    EXPECT_EQ(paid(claim_of(id, 0).payments, kSolver, "solver_reward"), Uint256(kPrice) * work());
}

TEST_F(Tranches, that_are_left_are_refunded_when_the_submitter_gives_up) {
    const auto id = begin();
    prove(id, 0, all);
    verify(id, 0, all);
    settle(id, 0);
    expect_ok(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id}));
    expect_ok(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{id}));
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::cancelled);
    EXPECT_EQ(task.escrow, task.deposit);
    EXPECT_EQ(paid(task.payments, kSubmitter, "refund"), Uint256(10) * work(4) + Uint256(2 * 2) * fee() + Uint256(22))
        << "what is left of the tax, and all that was not begun";
    EXPECT_FALSE(world.proof(id));
}

TEST_F(Tranches, a_later_one_is_disputed_about_its_own_steps) {
    const auto id = begin();
    prove(id, 0, wrong_second);
    prove(id, 1, wrong_second);
    const auto dispute = accuse(id, 1, all);
    EXPECT_EQ(game(dispute).context.before, 2U);
    EXPECT_EQ(game(dispute).context.history_leaves, 3U);
    play_out(dispute, party_of(world.live_stretch(id, 1), wrong_second), party_of(world.live_stretch(id, 1), all));
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    EXPECT_EQ(game(dispute).step, 3U);
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::voided);
    EXPECT_EQ(claim_of(id, 0).state, ClaimState::proved) << "which is not said to be wrong";
    // Who says that the first is wrong, too, takes what answers for that one.
    const auto second = accuse(id, 0, wrong_first);
    play_out(second, party_of(world.live_stretch(id, 0), wrong_second),
             party_of(world.live_stretch(id, 0), wrong_first));
    EXPECT_EQ(world.dispute(second).winner, types::DisputeWinner::defender);
    draw(id, 0);
    pass(id, 0, wrong_second);
    settle(id, 0);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).settled, 1U);
}

TEST_F(Tranches, each_answers_with_a_lock_of_its_own) {
    const auto id = begin();
    const History both = compute_history(tiny().programs(kAll), 3, 1U << 20, 1, &wrong_first, 2);
    prove(id, 0, both);
    prove(id, 1, both);
    const History after = compute_history(tiny().programs(kAll), 0, 0, 1, &wrong_first, 2);
    const auto later = accuse(id, 1, after);
    play_out(later, party_of(world.live_stretch(id, 1), both), party_of(world.live_stretch(id, 1), after));
    const auto first = accuse(id, 0, all);
    play_out(first, party_of(world.live_stretch(id, 0), wrong_first), party_of(world.live_stretch(id, 0), all));
    const auto task = world.task(id);
    ASSERT_EQ(task.slashes.size(), 2U);
    EXPECT_EQ(task.slashes[0].amount, lock());
    EXPECT_EQ(task.slashes[1].amount, lock());
    EXPECT_EQ(task.state, TaskState::open);
}

TEST_F(Tranches, a_wrong_tile_of_a_later_one_costs_its_verifier) {
    const auto id = begin_two(all, all);
    const auto live = world.live_stretch(id, 1);
    const auto reports = report(id, 1, [&](const auto& who, std::size_t place) {
        return make_report(live, who, all, true, {}, place, place == 0 ? 4 : 0);
    });
    const auto honest = make_report(live, live.reports[0].verifier, all, true, {}, 0);
    const auto& probe = reports[0].probes[0];
    EXPECT_GT(probe.step, 2U);
    EXPECT_LE(probe.step, 4U);
    const auto opening = open_probe(reports[0], *tiny().prover);
    const auto tile = core::opened_leaves(honest.sealed, honest.sealed.true_index)[1];
    const auto dispute = challenge_stretch(id, 1, 1, tile, core::encode(opening));
    play_out(dispute, party_of(live, all, probe.step, probe.node, 4), party_of(live, all));
    EXPECT_EQ(game(dispute).step, probe.step);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "wrong_probe");
}

// A FAIL of a verifier, and a PASS of what was not sampled, in a later tranche.
TEST_F(Tranches, segments_are_counted_from_where_a_tranche_begins) {
    const auto id = begin_two(all, wrong_second);
    pass(id, 1, wrong_second);
    const auto claim = claim_of(id, 1);
    const auto drawn =
        core::draw_segments(claim.verify_beacon, world.live_stretch(id, 1).reports[0].verifier, 2, 1).front();
    const auto steps = market::stretch_of(world.task(id), 1);
    const auto dispute = challenge_stretch(id, 1, core::kPassTarget, all.root_of(steps), history_opening(all, steps));
    play_out(dispute, party_of(world.live_stretch(id, 1), wrong_second), party_of(world.live_stretch(id, 1), all));
    EXPECT_EQ(world.dispute(dispute).reason, drawn == 0 ? "leaf" : "not_sampled") << "step 3 is in segment 0";
}

TEST_F(Tranches, are_named_by_who_acts_on_them) {
    const auto id = begin();
    const auto receipt = [&](std::uint32_t stretch) {
        return name(
            world.one(kVerifiers[0], NativeKind::custody_receipt, types::CustodyReceiptPayload{id, stretch, true}));
    };
    EXPECT_EQ(receipt(1), "task.no_such_claim") << "nobody has begun it";
    prove(id, 0, all);
    EXPECT_EQ(receipt(1), "task.wrong_state") << "it is worked on";
    verify(id, 0, all);
    settle(id, 0);
    EXPECT_EQ(receipt(0), "task.no_such_claim") << "it is settled";
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_commit,
                             types::ChallengeCommitPayload{id, 0, crypto::sha256(as_bytes("late"))})),
              "task.no_such_claim");
}

TEST_F(Tranches, are_whole_numbers_of_checkpoints) {
    bond_everybody();
    const auto submitted = [&](std::uint64_t interval, std::uint64_t tranche) {
        auto other = spec;
        other.work.interval = interval;
        other.work.tranche = tranche;
        return name(world.one(kSubmitter, NativeKind::task_submit, other));
    };
    EXPECT_EQ(submitted(2, 3), "task.bad_tranche");
    EXPECT_EQ(submitted(2, 8), "task.bad_tranche");
    EXPECT_EQ(submitted(2, 4), "ok") << "the last one is shorter";
    EXPECT_EQ(submitted(2, 6), "ok") << "the whole run";
}

TEST_F(Tranches, the_last_may_be_shorter_and_costs_less) {
    spec.work.interval = 2;
    spec.work.tranche = 4;
    spec.work.samples = 2;
    world.bond_role(kSolver, Role::solver, 100'000);
    const auto id = begin();
    const Uint256 segment_fee = Uint256(10) * work(2) * Uint256(6) / Uint256(5);
    EXPECT_EQ(world.task(id).escrow,
              Uint256(10) * work(6) + Uint256(2) * (Uint256(3) * segment_fee) + Uint256(33) + world.task(id).deposit);
    for (std::uint32_t stretch = 0; stretch < 2; ++stretch) {
        const auto task = world.task(id);
        const auto steps = market::stretch_of(task, stretch);
        for (std::uint64_t step = steps.before + 2; step <= steps.last(); step += 2)
            expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(task, all, step)));
        expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(task, all, stretch)));
        verify(id, stretch, all);
        settle(id, stretch);
    }
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::settled);
    const types::Address verifier = world.live_stretch(id, 1).reports[0].verifier;
    EXPECT_EQ(paid(task.payments, verifier, "verifier_fee"), segment_fee);
    EXPECT_EQ(paid(claim_of(id, 0).payments, world.live_stretch(id, 0).reports[0].verifier, "verifier_fee"),
              segment_fee + segment_fee);
    EXPECT_EQ(paid(task.payments, kSolver, "solver_reward"), Uint256(kPrice) * work(2));
}

// However many tranches there are, few claims are in the state, and none when the task is gone.
TEST_F(Tranches, leave_the_state_after_those_that_follow) {
    spec.work.interval = spec.work.tranche = 1;
    const auto id = begin();
    for (std::uint32_t stretch = 0; stretch < kAll; ++stretch) {
        prove(id, stretch, all);
        verify(id, stretch, all);
        if (stretch == 1) {
            const auto dispute = accuse(id, stretch, compute_history(kAll, 2, 1U << 20));
            expect_ok(world.one(kWhistleblower, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
        }
        settle(id, stretch);
        for (std::uint32_t past = 0; past <= stretch; ++past)
            EXPECT_EQ(has_claim(id, past), past + 2 > stretch) << past;
    }
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    world.skip_until(world.task(id).since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(id));
    for (const auto prefix : {types::ObjectPrefix::claim, types::ObjectPrefix::report, types::ObjectPrefix::dispute,
                              types::ObjectPrefix::challenge})
        EXPECT_TRUE(world.state().native_range(types::object_key(prefix), {}, 1).empty());
}

TEST_F(Tranches, keep_void_claims_until_their_stretch_is_settled_the_last_ones_with_the_task) {
    const auto id = begin();
    prove(id, 0, all);
    verify(id, 0, all);
    const auto give_up = [&](const types::Address& solver) {
        expect_ok(world.one(solver, NativeKind::task_abandon, types::TaskIdPayload{id}));
        while (world.task(id).state == TaskState::running) expect_ok(world.tick(id));
    };
    settle(id, 0);
    give_up(kSolver);
    assign(id, kSecond);
    EXPECT_TRUE(has_claim(id, 1));
    for (std::uint32_t stretch = 1; stretch < 3; ++stretch) {
        prove(id, stretch, all);
        verify(id, stretch, all);
        EXPECT_EQ(has_claim(id, 1), stretch == 1);
        settle(id, stretch);
        EXPECT_FALSE(has_claim(id, 1)) << "others follow";
    }

    const auto second = submit();
    assign(second, kSolver);
    const auto prove_all = [&](std::uint32_t stretches) {
        for (std::uint32_t stretch = world.task(second).settled; stretch < stretches; ++stretch) {
            prove(second, stretch, all);
            verify(second, stretch, all);
            settle(second, stretch);
        }
    };
    prove_all(2);
    expect_ok(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{second}));
    assign(second, kSecond);
    prove_all(3);
    EXPECT_EQ(world.task(second).state, TaskState::settled);
    EXPECT_EQ(claim_of(second, 2).state, ClaimState::voided) << "whoever lost may still want to know why";
    EXPECT_EQ(claim_of(second, 2, 1).state, ClaimState::settled);
    world.skip_until(world.task(second).since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(second));
    for (const std::uint32_t round : {0U, 1U}) EXPECT_FALSE(has_claim(second, 2, round));
}

TEST_F(Tranches, that_nobody_verified_are_told_apart_in_the_proof) {
    const auto id = begin();
    prove(id, 0, all);
    draw(id, 0);
    while (world.task(id).settled == 0) {  // both draws keep silent
        world.skip_until_due(id);
        expect_ok(world.tick(id));
    }
    EXPECT_EQ(claim_of(id, 0).reason, "unverified");
    for (std::uint32_t stretch = 1; stretch < 3; ++stretch) {
        prove(id, stretch, all);
        verify(id, stretch, all);
        settle(id, stretch);
    }
    EXPECT_EQ(world.proof(id)->passes, 0U);
    EXPECT_EQ(world.proof(id)->reason, "unverified");
}

// The verifiers of a stretch are bound until it is settled, so that nobody is left for the next one: which cannot be
// settled sooner, and so can wait for them.
TEST_F(Tranches, are_verified_by_those_who_are_free_when_the_one_before_is_settled) {
    world.bond_role(kSolver, Role::solver, 100'000);
    for (std::size_t i = 0; i < 2; ++i) world.bond_role(kVerifiers[i], Role::verifier, 60'000);
    const auto id = submit();
    assign(id, kSolver);
    prove(id, 0, wrong_second);
    draw(id, 0);
    prove(id, 1, wrong_second);
    pass(id, 0, wrong_second);
    for (int ticks = 0; ticks < 1'000 && world.task(id).settled < 2; ++ticks) {
        const auto later = claim_of(id, 1);
        if (later.state == ClaimState::custody) break;
        world.skip(1);
        world.begin();
        (void)world.send(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::task, id});
        ASSERT_TRUE(world.finish());
    }
    EXPECT_GE(world.task(id).settled, 1U);
    EXPECT_EQ(claim_of(id, 1).state, ClaimState::custody);
    EXPECT_EQ(world.live_stretch(id, 1).reports.size(), 2U) << claim_of(id, 1).reason;
    EXPECT_EQ(world.task(id).settled, 1U) << "a lie that nobody was asked to look at was paid for";
}

// Who is caught in a later stretch and withholds the data of the one before it, which costs nothing.
TEST_F(Tranches, a_wrong_one_costs_its_lock_though_the_one_before_falls_for_want_of_data) {
    const auto id = begin_two(wrong_second, wrong_second);
    const auto steps = market::stretch_of(world.task(id), 1);
    const auto live = world.live_stretch(id, 1);
    report(
        id, 1, [&](const auto& who, std::size_t) { return make_report(live, who, all, false, all.root_of(steps), 1); },
        &all);
    ASSERT_EQ(claim_of(id, 1).state, ClaimState::disputed);
    const auto dispute = claim_of(id, 1).disputes.front();
    for (const auto& report : world.live_stretch(id, 0).reports)
        if (claim_of(id, 0).state == ClaimState::custody)
            expect_ok(
                world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false}));
    EXPECT_EQ(claim_of(id, 0).reason, "data_missing");
    EXPECT_EQ(world.dispute(dispute).closed_at, 0U) << world.dispute(dispute).reason;
    EXPECT_EQ(locked(kSolver), lock()) << "two verifiers have shown that it lied, and it keeps its bond";
}

// The stretch before a lie is right, and its solver gives it to a friend when the first FAIL about the lie is shown.
TEST_F(Tranches, a_wrong_one_costs_its_lock_though_the_one_before_is_given_to_a_friend) {
    const auto id = begin_two(wrong_second, wrong_second);
    const auto steps = market::stretch_of(world.task(id), 1);
    const auto live = world.live_stretch(id, 1);
    std::vector<ReportData> reports;
    for (const auto& each : live.reports) {
        reports.push_back(make_report(live, each.verifier, all, false, all.root_of(steps), 1));
        expect_ok(world.one(each.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 1, true}));
    }
    for (std::size_t i = 0; i < reports.size(); ++i)
        expect_ok(world.one(live.reports[i].verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 1, reports[i].sealed.commitment}));
    const auto given = accuse(id, 0, wrong_first);
    auto reveal = core::make_reveal(reports[0].sealed, id, reports[0].sealed.true_index, 1);
    reveal.initial_path = core::history_path(all.roots_of(steps), 0);
    expect_ok(world.one(live.reports[0].verifier, NativeKind::verify_reveal, reveal));
    ASSERT_EQ(claim_of(id, 1).state, ClaimState::revealing);
    expect_ok(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{given}));
    EXPECT_TRUE(claim_of(id, 1).voided);
    ASSERT_EQ(claim_of(id, 1).state, ClaimState::disputed);
    ASSERT_EQ(claim_of(id, 1).disputes.size(), 1U);
    EXPECT_EQ(locked(kSolver), lock()) << "of the second, for what was found there";
    expect_ok(world.one(kSolver, NativeKind::dispute_concede,
                        types::DisputeConcedePayload{claim_of(id, 1).disputes.front()}));
    const auto task = world.task(id);
    ASSERT_EQ(task.slashes.size(), 2U);
    EXPECT_EQ(task.slashes[1].amount, lock());
    for (const auto& each : live.reports)
        EXPECT_EQ(paid(task.payments, each.verifier, "verifier_fee"), fee()) << "whoever may have found it";
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(locked(kSolver), Uint256());
}

// A clock has the time of one game; a solver answers for two claims at once.
TEST_F(Tranches, have_the_time_for_a_game_about_each_of_two_claims) {
    spec.windows.heartbeat_s = 60;
    const auto id = begin();
    prove(id, 0, all);
    prove(id, 1, all);
    std::vector<std::uint64_t> games{accuse(id, 0, wrong_first), accuse(id, 1, wrong_second)};
    const History* rivals[] = {&wrong_first, &wrong_second};
    // All that needs no replay is posted at once.
    for (std::uint32_t i = 0; i < 2; ++i) {
        const auto live = world.live_stretch(id, i);
        core::DisputeStrategy strategies[] = {core::DisputeStrategy(party_of(live, all)),
                                              core::DisputeStrategy(party_of(live, *rivals[i]))};
        for (const auto side : {core::Side::defender, core::Side::rival}) {
            const auto now = game(games[i]);
            const auto move = strategies[static_cast<int>(side)].next_move(now, side, waiting_post(now));
            ASSERT_TRUE(move && std::holds_alternative<core::SplitMove>(*move));
            const auto current = world.dispute(games[i]);
            expect_ok(world.one(
                side == core::Side::defender ? current.defender : current.rival, NativeKind::dispute_split,
                types::DisputeSplitPayload{games[i], types::encode_record(std::get<core::SplitMove>(*move))}));
        }
        ASSERT_EQ(game(games[i]).phase, core::Phase::state);
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
        world.skip_until(world.market_ms() + market::in_ms(spec.windows.heartbeat_s));  // the segment, on one machine
        world.begin();
        (void)world.send(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::dispute, games[i]});
        ASSERT_TRUE(world.finish());
        if (world.dispute(games[i]).closed_at == 0)
            play_out(games[i], party_of(world.live_stretch(id, i), all),
                     party_of(world.live_stretch(id, i), *rivals[i]));
        EXPECT_EQ(world.dispute(games[i]).winner, types::DisputeWinner::defender) << world.dispute(games[i]).reason;
    }
    EXPECT_TRUE(world.bond(Role::solver, kSolver).faults == 0) << "an honest solver was slashed";
}

// Five solvers who each bring a long task on and leave: what counts is how often one is in vain.
TEST_F(Tranches, go_on_however_many_solvers_have_brought_the_task_on) {
    spec.work.interval = spec.work.tranche = 1;
    bond_everybody();
    const auto id = submit();
    for (std::uint32_t stretch = 0; stretch <= world.params.market.max_rounds; ++stretch) {
        const auto solver = address(800 + stretch);
        give(world.state(), solver, Uint256(1'000'000'000'000'000));
        world.bond_role(solver, Role::solver, 100'000);
        assign(id, solver);
        prove(id, stretch, all);
        verify(id, stretch, all);
        settle(id, stretch);
        expect_ok(world.one(solver, NativeKind::task_abandon, types::TaskIdPayload{id}));
        EXPECT_EQ(world.task(id).state, TaskState::open) << stretch;
    }
    EXPECT_EQ(world.task(id).settled, 5U);
}

// Whoever sends the ticks pays for them: a claim that waits for verifiers must not ask for one each second block.
TEST_F(Tranches, that_wait_for_verifiers_ask_for_few_ticks) {
    world.bond_role(kSolver, Role::solver, 100'000);
    for (std::size_t i = 0; i < 2; ++i) world.bond_role(kVerifiers[i], Role::verifier, 60'000);
    spec.windows.verify_s = 200;
    const auto id = submit();
    assign(id, kSolver);
    expect_ok(world.one(kVerifiers[0], NativeKind::unbond, types::UnbondPayload{Role::verifier, 60'000}));
    prove(id, 0, all);
    const auto since = world.market_ms();
    std::uint64_t ticks = 0;
    while (claim_of(id, 0).state == ClaimState::proved &&
           world.market_ms() < since + market::in_ms(2 * spec.windows.verify_s)) {
        world.begin();
        ticks += world.send(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::task, id}).band ==
                         Band::ok
                     ? 1
                     : 0;
        ASSERT_TRUE(world.finish());
    }
    EXPECT_EQ(claim_of(id, 0).state, ClaimState::custody);
    EXPECT_LE(ticks, spec.windows.verify_s / world.params.market.min_window_s + 2);
}

TEST_F(Tranches, of_one_task_begin_where_all_of_another_ended) {
    const auto settle_from = [&](std::uint64_t id, std::uint32_t stretch, const History& history) {
        for (; stretch < 3; ++stretch) {
            prove(id, stretch, history);
            verify(id, stretch, history);
            settle(id, stretch);
        }
    };
    const auto first = begin();
    prove(first, 0, all);
    verify(first, 0, all);
    settle(first, 0);
    auto next = spec;
    next.init_root = all.roots.back();
    const std::vector<Hash32> slots = tensor::slot_roots(all.states.back());
    core::set_imports(next, std::vector{core::ImportSource{first, 0, slots, {{0, 0, 1}}}}, slots);
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, next)), "task.unknown_proof") << "one has settled";
    settle_from(first, 1, all);

    const auto second = submit(next);
    assign(second, kSolver);
    const History further = compute_history_from(all.states.back(), tiny().programs(kAll));
    EXPECT_EQ(claim_of(second, 0).start_root, all.roots.back());
    settle_from(second, 0, further);
    const auto proof = world.proof(second).value();
    EXPECT_EQ(proof.init_root, world.proof(first)->final_root);
    EXPECT_EQ(proof.final_root, further.roots.back());
    EXPECT_EQ(proof.imports, (std::vector<types::TaskImport>{{first, 0, 1, {{0, 0, 1}}}}));
    EXPECT_EQ(proof.submission, crypto::merkle_leaf(types::encode_record(world.task(second).spec)));
}

}  // namespace
}  // namespace quern::chain::exec::test
