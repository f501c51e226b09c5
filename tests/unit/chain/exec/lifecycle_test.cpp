// The life of a task, handler by handler: what each accepts, what it refuses and by which name.
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/draw.h"
#include "chain/market/shares.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

TEST_F(Lifecycle, honest_task_settles_and_pays_everybody) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto proven = world.claim(id);
    EXPECT_EQ(proven.state, ClaimState::challenge);
    EXPECT_EQ(proven.first_loss, truth.loss(kInterval));
    EXPECT_EQ(proven.loss, truth.loss(kSteps));
    const Uint256 before = world.globals().jackpot_vault;
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.state, TaskState::settled);
    EXPECT_EQ(task.escrow, task.deposit);
    // A step is paid with the hashing of its state, here of one tile.
    EXPECT_EQ(task.work_units, tiny().program.header.work_units);
    EXPECT_EQ(task.commit_work, vm::tensor::kTileHashWork);
    const Uint256 work = Uint256(kSteps) * Uint256(task.work_units + task.commit_work);
    ASSERT_EQ(task.payments.size(), 4U);
    EXPECT_EQ(task.payments[0].to, kSolver);
    EXPECT_EQ(task.payments[0].amount, Uint256(3) * work);
    EXPECT_EQ(task.payments[1].amount, Uint256(10) * work * Uint256(6) / Uint256(5));  // at the price cap
    EXPECT_EQ(task.payments[3].reason, "refund");
    EXPECT_GE(world.globals().jackpot_vault - before, Uint256(33));
    for (const auto& verifier : kVerifiers) EXPECT_TRUE(world.bond(Role::verifier, verifier).locked.is_zero());
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero());
    EXPECT_TRUE(task.slashes.empty());

    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    world.skip_until(task.since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    EXPECT_EQ(name(world.tick(id)), "task.unknown");
    EXPECT_TRUE(world.proof(id)) << "it stays";
}

TEST_F(Lifecycle, what_is_settled_leaves_a_proof_of_what_led_where) {
    const auto id = reach(ClaimState::challenge, truth);
    EXPECT_FALSE(world.proof(id));
    tick_when_due(id);
    const auto proof = world.proof(id).value();
    EXPECT_EQ(proof.task, id);
    EXPECT_EQ(proof.submitter, kSubmitter);
    EXPECT_EQ(proof.solver, kSolver);
    EXPECT_EQ(proof.submission, crypto::merkle_leaf(types::encode_record(spec)));
    EXPECT_EQ(proof.plan, crypto::merkle_leaf(spec.plan));
    EXPECT_EQ(proof.slot_root, vm::tensor::slot_root(tiny().program));
    EXPECT_EQ(proof.init_root, spec.init_root);
    EXPECT_EQ(proof.data_roots, spec.data_roots);
    EXPECT_EQ(proof.seed_beacon, world.claim(id).seed_beacon);
    EXPECT_EQ(proof.final_root, truth.roots.back());
    EXPECT_EQ(proof.steps, kSteps);
    EXPECT_EQ(proof.loss, truth.loss(kSteps));
    EXPECT_EQ(proof.passes, world.reports(id).size());
    EXPECT_EQ(proof.settled_at, world.height);
    EXPECT_EQ(proof.reason, "unchallenged");
}

// Whoever builds on it sees that nobody has looked.
TEST_F(Lifecycle, a_proof_that_nobody_verified_says_so) {
    const auto id = reach(ClaimState::custody, truth);
    for (int draw = 0; draw < 2; ++draw) {
        tick_when_due(id);
        tick_when_due(id);
    }
    while (!is_final(world.task(id).state)) tick_when_due(id);
    const auto proof = world.proof(id).value();
    EXPECT_EQ(proof.reason, "unverified");
    EXPECT_EQ(proof.passes, 0U);
}

TEST_F(Lifecycle, submit_names_what_is_wrong) {
    const auto refused = [&](const std::function<void(types::TaskSubmitPayload&)>& change) {
        auto spec = tiny_spec(kSteps, kInterval);
        change(spec);
        return name(world.one(kSubmitter, NativeKind::task_submit, spec));
    };
    EXPECT_EQ(refused([](auto& s) { s.work.interval = 3; }), "task.bad_interval");
    EXPECT_EQ(refused([](auto& s) { s.work.stride = 4; }), "task.bad_stride");
    EXPECT_EQ(refused([](auto& s) { s.windows.bid_s = 7; }), "task.bad_window");
    EXPECT_EQ(refused([](auto& s) { s.windows.challenge_s = 1'000'001; }), "task.bad_window");
    EXPECT_EQ(refused([](auto& s) { s.classes.bandwidth = 1; }), "task.window_too_short");
    EXPECT_EQ(refused([](auto& s) { s.classes.speed = 127; }), "task.bad_class");
    EXPECT_EQ(refused([](auto& s) { s.work.mode = types::TaskMode::tolerance; }), "task.bad_root");
    EXPECT_EQ(refused([](auto& s) { s.work.mode = static_cast<types::TaskMode>(2); }), "task.mode_not_supported");
    EXPECT_EQ(refused([](auto& s) { s.work.privacy = types::TaskPrivacy::encrypted; }), "task.privacy_not_supported");
    EXPECT_EQ(refused([](auto& s) { s.work.solvers = 2; }), "task.solvers_not_supported");
    EXPECT_EQ(refused([](auto& s) { s.work.verifiers = 17; }), "task.bad_verifiers");
    world.params.market.min_verifiers = 3;
    EXPECT_EQ(refused([](auto& s) { s.work.verifiers = 2; }), "task.bad_verifiers");
    world.params.market.min_verifiers = 1;
    EXPECT_EQ(refused([](auto& s) { s.money.price_cap = 0; }), "task.bad_price");
    EXPECT_EQ(refused([](auto& s) { s.header_paths[0].pop_back(); }), "task.bad_header_path");
    EXPECT_EQ(refused([](auto& s) { s.plan.clear(); }), "rlp.truncated");
    EXPECT_EQ(refused([](auto& s) { s.money.price_cap = Uint256(1) << 80; }), "account.insufficient_balance");
    EXPECT_EQ(world.globals().next_task, 1U);
}

TEST_F(Lifecycle, cancel_only_by_the_submitter_and_without_bids) {
    const auto id = submit();
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_cancel, types::TaskIdPayload{id})), "task.not_its_submitter");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{99})), "task.unknown");
    world.bond_role(kSolver, Role::solver, 100'000);
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{id})), "task.has_bids");
    const auto other = submit();
    expect_ok(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{other}));
    EXPECT_EQ(world.task(other).state, TaskState::cancelled);
    EXPECT_EQ(world.task(other).escrow, world.task(other).deposit);
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{other})), "task.wrong_state");
}

TEST_F(Lifecycle, bids_need_a_bond_a_price_below_the_cap_and_the_window) {
    const auto id = submit();
    const auto bid = [&](const types::Address& who, std::uint64_t price) {
        return name(world.one(who, NativeKind::task_bid, types::TaskBidPayload{id, 0, price}));
    };
    EXPECT_EQ(bid(kSolver, 3), "bond.insufficient");
    world.bond_role(kSolver, Role::solver, 100'000);
    EXPECT_EQ(bid(kSolver, 11), "bid.above_cap");
    EXPECT_EQ(bid(kSolver, 0), "bid.zero_price");
    EXPECT_EQ(bid(kSubmitter, 3), "bid.by_submitter");
    world.skip_until(world.deadline(id));
    EXPECT_EQ(bid(kSolver, 3), "task.deadline_passed");
    const auto second = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{second, 0, 5}));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{second, 0, 5})), "bid.not_lower");
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{second, 0, 4}));
    ASSERT_EQ(world.task(second).bids.size(), 1U);
    EXPECT_EQ(world.task(second).bids[0].price, Uint256(4));
}

TEST_F(Lifecycle, bids_name_a_seat_and_promise_the_classes_that_the_task_asks_for) {
    bond_everybody();
    spec.classes.speed = 60;
    spec.classes.bandwidth = 50;
    spec.windows.bid_s = 30;
    const auto id = submit();
    const auto bid = [&](types::TaskBidPayload payload) {
        payload.task = id;
        return name(world.one(kSolver, NativeKind::task_bid, payload));
    };
    EXPECT_EQ(bid({0, 1, 3, 60, 50}), "bid.no_such_seat");
    EXPECT_EQ(bid({0, 0, 3, 59, 50}), "bid.below_class");
    EXPECT_EQ(bid({0, 0, 3, 60, 49}), "bid.below_class");
    EXPECT_EQ(bid({0, 0, 3, 0, 0}), "bid.below_class") << "no class promises nothing";
    EXPECT_EQ(bid({0, 0, 3, market::kMaxClass + 1, 50}), "bid.bad_class");
    EXPECT_EQ(bid({0, 0, 3, 60, market::kMaxClass + 1}), "bid.bad_class");
    EXPECT_TRUE(world.task(id).bids.empty());
    EXPECT_EQ(bid({0, 0, 3, 61, 50}), "ok");
    const types::TaskBid placed = world.task(id).bids.at(0);
    EXPECT_EQ(std::tuple(placed.bidder, placed.seat, placed.price, placed.speed_class, placed.bandwidth_class),
              std::tuple(kSolver, std::uint16_t{0}, Uint256(3), 61U, 50U));
}

TEST_F(Lifecycle, verifiers_below_the_tasks_classes_are_not_drawn) {
    bond_everybody();
    const auto declare = [&](const types::Address& who, std::uint32_t speed, std::uint32_t bandwidth) {
        expect_ok(world.one(who, NativeKind::declare_capacity,
                            types::DeclareCapacityPayload{Role::verifier, {0, speed, bandwidth, 0}}));
    };
    spec.classes.speed = 60;
    spec.classes.bandwidth = 50;
    declare(kVerifiers[0], 60, 50);
    declare(kVerifiers[1], 126, 49);  // the third has declared nothing, and is not left out
    const auto id = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3, 60, 50}));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::assigned);
    spec.work.verifiers = 3;
    const auto too_many = submit();
    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{too_many, 0, 3, 60, 50}));
    tick_when_due(too_many);
    EXPECT_EQ(world.task(too_many).reason, "no_verifiers");
}

// A type 0x51 transaction and a call alike.
TEST_F(Lifecycle, payloads_of_another_version_and_reserved_kinds_are_refused_by_name) {
    const auto id = submit();
    const types::TaskIdPayload cancel{id};
    const Bytes known = types::encode_record(cancel);
    ASSERT_EQ(to_hex(known), "c20101");
    world.begin();
    const auto result = [&](unsigned kind, const Bytes& payload) {
        return name(world.send(kSubmitter, static_cast<NativeKind>(kind), payload));
    };
    EXPECT_EQ(result(0x31, *from_hex("c20201")), "record.unknown_version");
    EXPECT_EQ(result(0x31, *from_hex("c101")), "rlp.truncated");
    for (const unsigned kind : {0x39U, 0x3fU, 0x43U, 0x61U})
        EXPECT_EQ(result(kind, known), "native.reserved_kind") << kind;
    EXPECT_EQ(result(0x4a, known), "native.unknown_kind");
    auto call = world.call_transaction(kSubmitter, NativeKind::task_cancel, known);
    call.data[4 + 2 * 32 + 1] = 2;
    EXPECT_EQ(name(world.send_transaction(kSubmitter, call)), "record.unknown_version");
    EXPECT_TRUE(world.last_receipt().failure.starts_with("record.unknown_version"));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    expect_ok(world.call(kSubmitter, NativeKind::task_cancel, cancel));
    EXPECT_EQ(world.task(id).state, TaskState::cancelled);
    ASSERT_TRUE(world.finish());
}

TEST_F(Lifecycle, number_of_bids_is_limited) {
    world.params.market.max_bids = 1;
    bond_everybody();
    const auto id = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5}));
    EXPECT_EQ(name(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5})), "bid.too_many");
    expect_ok(
        world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4}));  // takes the place of the highest
    ASSERT_EQ(world.task(id).bids.size(), 1U);
    EXPECT_EQ(world.task(id).bids[0].bidder, kSecond);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4})), "bid.too_many");
}

TEST_F(Lifecycle, lowest_price_wins_and_a_task_without_bids_expires) {
    bond_everybody();
    const auto id = submit();
    const auto unwanted = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5}));
    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4}));
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).seats.at(0).solver, kSecond);
    EXPECT_EQ(world.task(id).seats.at(0).locked, solver_lock());
    EXPECT_EQ(world.bond(Role::solver, kSecond).locked, solver_lock());
    tick_when_due(unwanted);
    EXPECT_EQ(world.task(unwanted).state, TaskState::expired);
    EXPECT_EQ(world.reason(unwanted), "no_bids");
}

TEST_F(Lifecycle, winner_that_does_not_start_pays_and_the_next_bid_is_taken) {
    bond_everybody();
    const auto id = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5}));
    tick_when_due(id);
    EXPECT_EQ(name(world.one(kSecond, NativeKind::task_start, types::TaskIdPayload{id})), "task.not_its_solver");
    world.skip_until(world.deadline(id));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id})), "task.deadline_passed");
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.state, TaskState::assigned);
    EXPECT_EQ(task.seats.at(0).solver, kSecond);
    ASSERT_EQ(task.slashes.size(), 1U);
    EXPECT_EQ(task.slashes[0].amount, solver_lock() / Uint256(20));
    EXPECT_EQ(task.slashes[0].reason, "no_start");
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000) - solver_lock() / Uint256(20));
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero());
    tick_when_due(id);  // nobody left: a new round
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).round, 1U);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1})), "bid.barred");
}

// Else a solver that waits, or a friend of its that lets it have the task, would choose among orders.
TEST_F(Lifecycle, the_draw_of_the_solver_fixes_the_data_order_whoever_starts_and_when) {
    spec.windows.start_s = 10'000;
    bond_everybody();
    const auto id = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1}));
    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 2}));
    tick_when_due(id);
    const Hash32 seed =
        handlers::draw_hash("seed", block_context(market::draw_height(world.task(id).draw_at)).beacon, id, 0);
    EXPECT_EQ(world.task(id).seed_beacon, seed);
    world.skip(3 * params::kBeaconWindow);
    expect_ok(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id}));
    ASSERT_EQ(world.task(id).seats.at(0).solver, kSecond);
    world.skip(params::kBeaconWindow + 1);
    expect_ok(world.one(kSecond, NativeKind::task_start, types::TaskIdPayload{id}));
    EXPECT_EQ(world.claim(id).seed_beacon, seed);
    EXPECT_EQ(name(world.one(kSecond, NativeKind::task_start, types::TaskIdPayload{id})), "task.wrong_state");
}

TEST_F(Lifecycle, start_is_possible_at_once_and_only_once) {
    const auto id = reach(TaskState::assigned);
    expect_ok(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id}));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id})), "task.wrong_state");
}

TEST_F(Lifecycle, heartbeats_come_in_order_with_a_proven_loss) {
    const auto id = reach(ClaimState::working, truth);
    auto payload = checkpoint_of(world.task(id), truth, 4);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_checkpoint, payload)), "task.wrong_step");
    payload = checkpoint_of(world.task(id), truth, 2);
    payload.loss ^= 1;
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_checkpoint, payload)), "task.bad_loss_proof");
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth))), "task.wrong_step");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.reason(id), "no_heartbeat");
}

TEST_F(Lifecycle, proof_opens_both_ends_of_the_history) {
    const auto id = reach(ClaimState::working, truth);
    expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, 2)));
    auto payload = proof_of(world.task(id), truth);
    payload.initial_path[0].data[0] ^= 1;
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, payload)), "task.bad_initial_proof");
    payload = proof_of(world.task(id), truth);
    payload.final_root = truth.roots[3];
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, payload)), "task.bad_final_proof");
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)));  // last heartbeat left out
    EXPECT_EQ(world.claim(id).state, ClaimState::proved);
}

TEST_F(Lifecycle, proof_must_end_in_the_last_checkpoint) {
    const auto id = reach(ClaimState::working, truth);
    for (const std::uint64_t step : {2U, 4U})
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), wrong))),
              "task.final_root_differs");
}

TEST_F(Lifecycle, abandoning_costs_a_part_of_the_bond) {
    spec.money.price_cap = 3;
    const auto id = reach(ClaimState::working, truth);
    EXPECT_EQ(name(world.one(kSecond, NativeKind::task_abandon, types::TaskIdPayload{id})), "task.not_its_solver");
    expect_ok(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id}));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000) - solver_lock() / Uint256(20));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_abandon, types::TaskIdPayload{id})), "task.wrong_state");
}

TEST_F(Lifecycle, claims_of_void_rounds_stay_as_long_as_their_task) {
    world.params.market.max_rounds = 1;
    spec.money.price_cap = 1;
    const auto id = reach(ClaimState::working, truth);
    EXPECT_EQ(world.task(id).deadline, 0U) << "that of a running task is its claim's";
    EXPECT_TRUE(world.task(id).seats.at(0).locked.is_zero()) << "the claim has taken the lock over";
    EXPECT_EQ(world.claim(id).locked, Uint256(10'000));
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::none) << "the new round has none yet";
    const auto first = world.claim(id, 0);
    EXPECT_EQ(first.state, ClaimState::voided);
    EXPECT_EQ(first.reason, "no_heartbeat");
    EXPECT_EQ(first.solver, kSolver);
    EXPECT_TRUE(first.locked.is_zero());

    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1}));
    tick_when_due(id);
    world.skip_to(world.task(id).seats.at(0).assigned_at + 2);
    expect_ok(world.one(kSecond, NativeKind::task_start, types::TaskIdPayload{id}));
    EXPECT_EQ(world.claim(id).id, (types::ClaimId{id, 0, 0, 1}));
    EXPECT_EQ(world.claim(id).solver, kSecond);
    EXPECT_EQ(types::encode_record(world.claim(id, 0)), types::encode_record(first));
    tick_when_due(id);
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::failed);
    world.skip_until(task.since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(id));
    for (const std::uint32_t round : {0U, 1U})
        EXPECT_FALSE(world.state().native(types::key_of<types::Claim>(types::ClaimId{id, 0, 0, round})));
}

TEST_F(Lifecycle, task_fails_after_too_many_rounds) {
    world.params.market.max_rounds = 0;
    const auto id = reach(ClaimState::working, truth);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::failed);
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
}

TEST_F(Lifecycle, bonds_made_after_the_proof_are_not_drawn) {
    const auto id = reach(ClaimState::proved, truth);
    std::vector<types::Address> late;
    for (std::uint64_t i = 0; i < 3; ++i) {
        late.push_back(address(7'000 + i));
        give(world.state(), late.back(), Uint256(1'000'000'000'000'000));
        world.bond_role(late.back(), Role::verifier, 1'000'000'000'000);
    }
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    for (const auto& report : world.reports(id))
        EXPECT_EQ(std::count(late.begin(), late.end(), report.verifier), 0) << "a million times the others' bonds";
}

// Versions of the anchor's table are gone by then: table and beacon are those of 512 blocks later.
TEST_F(Lifecycle, a_draw_that_nobody_ticked_for_long_still_finds_verifiers) {
    const auto id = reach(ClaimState::proved, truth);
    const std::uint64_t until = world.height + params::kBeaconWindow + params::kDrawReach;
    while (world.height < until) {
        world.bond_role(kVerifiers[1], Role::verifier, 1);
        world.skip(world.params.epoch_length - 1);
    }
    expect_ok(world.tick(id));
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_EQ(world.reports(id).size(), 2U);
}

TEST_F(Lifecycle, verification_steps_name_what_is_wrong) {
    const auto id = reach(ClaimState::custody, truth);
    const auto verifier = world.reports(id)[0].verifier;
    const types::CustodyReceiptPayload receipt{id, 0, true};
    EXPECT_EQ(name(world.one(kSolver, NativeKind::custody_receipt, receipt)), "verify.not_drawn");
    EXPECT_EQ(name(world.one(verifier, NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, truth.root})),
              "task.wrong_state");
    expect_ok(world.one(verifier, NativeKind::custody_receipt, receipt));
    EXPECT_EQ(name(world.one(verifier, NativeKind::custody_receipt, receipt)), "verify.already_received");
    expect_ok(world.one(world.reports(id)[1].verifier, NativeKind::custody_receipt, receipt));
    ASSERT_EQ(world.claim(id).state, ClaimState::committing);
    EXPECT_EQ(name(world.one(verifier, NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, {}})),
              "verify.zero_commitment");
    auto mine = make_report(world.live(id), verifier, truth, true, {}, 1);
    const types::VerifyCommitPayload commit{id, 0, mine.sealed.commitment};
    expect_ok(world.one(verifier, NativeKind::verify_commit, commit));
    EXPECT_EQ(name(world.one(verifier, NativeKind::verify_commit, commit)), "verify.already_committed");
    tick_when_due(id);  // the other kept silent
    ASSERT_EQ(world.claim(id).state, ClaimState::revealing);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "no_commitment");
    EXPECT_EQ(name(world.one(world.reports(id)[1].verifier, NativeKind::verify_commit, commit)), "task.wrong_state");
    auto reveal = core::make_reveal(mine.sealed, id, mine.sealed.true_index);
    reveal.blind.data[0] ^= 1;
    EXPECT_EQ(name(world.one(verifier, NativeKind::verify_reveal, reveal)), "verify.bad_commitment");
    reveal = core::make_reveal(mine.sealed, id, mine.sealed.true_index);
    expect_ok(world.one(verifier, NativeKind::verify_reveal, reveal));
    ASSERT_EQ(world.claim(id).state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    std::size_t fees = 0;
    for (const auto& payment : world.task(id).payments) fees += payment.reason == "verifier_fee" ? 1 : 0;
    EXPECT_EQ(fees, 1U);
}

// Others' receipts end the custody window, and what only a replay reads may be withheld: neither costs who meets it.
TEST_F(Lifecycle, data_that_is_missing_after_custody_costs_no_verifier) {
    const auto id = reach(ClaimState::committing, truth);
    const auto first = world.reports(id)[0].verifier;
    const auto second = world.reports(id)[1].verifier;
    const types::CustodyReceiptPayload lacks{id, 0, false};
    EXPECT_EQ(name(world.one(first, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true})),
              "task.wrong_state");
    expect_ok(world.one(second, NativeKind::custody_receipt, lacks));
    EXPECT_TRUE(world.bond(Role::verifier, second).locked.is_zero());
    EXPECT_EQ(world.claim(id).received, 1U);
    EXPECT_EQ(world.claim(id).missing, 1U);
    EXPECT_EQ(world.claim(id).state, ClaimState::committing) << "one of two";
    EXPECT_EQ(name(world.one(second, NativeKind::custody_receipt, lacks)), "verify.not_active");
    auto mine = make_report(world.live(id), first, truth, true, {}, 1);
    expect_ok(world.one(first, NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
    EXPECT_EQ(world.claim(id).state, ClaimState::revealing) << "all who are left";
    EXPECT_EQ(name(world.one(first, NativeKind::custody_receipt, lacks)), "task.wrong_state");
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(Lifecycle, who_has_committed_does_not_lack_the_data) {
    const auto id = reach(ClaimState::committing, truth);
    const auto first = world.reports(id)[0].verifier;
    auto mine = make_report(world.live(id), first, truth, true, {}, 1);
    expect_ok(world.one(first, NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
    EXPECT_EQ(name(world.one(first, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false})),
              "verify.already_committed");
}

TEST_F(Lifecycle, a_majority_that_meets_missing_data_in_its_replay_voids_the_claim) {
    const auto id = reach(ClaimState::committing, truth);
    for (const auto& report : world.reports(id))
        expect_ok(world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false}));
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(world.reason(id), "data_missing");
    EXPECT_EQ(task.barred, std::vector{kSolver});
    ASSERT_EQ(task.slashes.size(), 1U);
    EXPECT_EQ(task.slashes[0].reason, "data_missing");
    for (const auto& verifier : kVerifiers) EXPECT_TRUE(world.bond(Role::verifier, verifier).locked.is_zero());
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero());
}

TEST(Bar, keeps_out_the_newest_who_lost) {
    types::Task task;
    for (std::uint32_t i = 0; i <= types::kMaxBarred; ++i) handlers::bar(task, address(i));
    handlers::bar(task, address(types::kMaxBarred));
    EXPECT_EQ(task.barred.size(), types::kMaxBarred);
    EXPECT_EQ(task.barred.front(), address(1));
    EXPECT_EQ(task.barred.back(), address(types::kMaxBarred));
}

TEST_F(Lifecycle, missing_data_reopens_the_task_unpaid) {
    const auto id = reach(ClaimState::custody, truth);
    for (const auto& report : world.reports(id))
        expect_ok(world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false}));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.reason(id), "data_missing");
    ASSERT_EQ(world.task(id).slashes.size(), 1U);
    EXPECT_EQ(world.task(id).slashes[0].address, kSolver);
    EXPECT_EQ(world.task(id).slashes[0].amount, market::percent_of(solver_lock(), 8));
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero()) << "nobody has said anything against the history";
    EXPECT_EQ(world.task(id).barred.size(), 1U);
    for (const auto& verifier : kVerifiers) {
        EXPECT_EQ(world.bond(Role::verifier, verifier).bonded, Uint256(1'000'000));
        EXPECT_TRUE(world.bond(Role::verifier, verifier).locked.is_zero());
    }
}

TEST_F(Lifecycle, silent_verifiers_are_replaced_once) {
    const auto id = reach(ClaimState::custody, truth);
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::proved);
    EXPECT_EQ(world.task(id).slashes.size(), 2U);
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    EXPECT_EQ(world.reason(id), "verifiers_silent");
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000));
}

TEST_F(Lifecycle, wrong_solver_loses_to_a_whistleblower_at_the_leaf) {
    spec.money.price_cap = 1;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root,
                                   core::encode(core::HistoryChallenge{core::history_path(truth.roots, 0)}));
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
    const auto before = balance(world.state(), kWhistleblower);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    play_out(dispute, party_of(live, wrong), party_of(live, truth));
    const auto closed = world.dispute(dispute);
    EXPECT_EQ(closed.winner, types::DisputeWinner::rival);
    EXPECT_EQ(closed.reason, "leaf");
    EXPECT_TRUE(closed.leaf_executed);
    EXPECT_EQ(closed.leaf_op, static_cast<std::uint32_t>(tensor::Op::elementwise));
    EXPECT_GT(closed.rounds, 4U);
    EXPECT_GT(closed.bytes, 4096U);
    const auto after = world.task(id);
    EXPECT_EQ(after.state, TaskState::open);
    EXPECT_EQ(after.round, 1U);
    ASSERT_EQ(after.slashes.size(), 1U);  // those who passed it answer in games of their own
    EXPECT_EQ(after.slashes[0].address, kSolver);
    EXPECT_EQ(after.slashes[0].amount, Uint256(10'000));
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(90'000));
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    const Uint256 cost = spec.money.price_cap * Uint256(kSteps) * Uint256(task.work_units + task.commit_work);
    const Uint256 bounty = std::max(cost * Uint256(3) / Uint256(2), Uint256(3'000));
    for (const auto& payment : after.payments) EXPECT_TRUE(payment.reason != "bounty" || payment.amount == bounty);
    EXPECT_LT(balance(world.state(), kWhistleblower), before + bounty);  // gas
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1})), "bid.barred");
}

TEST_F(Lifecycle, false_accuser_loses_its_stake_and_the_task_settles) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root,
                                   core::encode(core::HistoryChallenge{core::history_path(wrong.roots, 0)}));
    play_out(dispute, party_of(world.live(id), truth), party_of(world.live(id), wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "false_accusation");
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(99'000));
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
}

TEST_F(Lifecycle, failing_report_defends_itself_against_the_solver) {
    spec.money.price_cap = 1;
    const auto id = reach(ClaimState::committing, wrong);
    const auto live = world.live(id);
    const auto& drawn = live.reports;
    std::vector<ReportData> reports;
    for (const auto& report : drawn) {
        reports.push_back(make_report(live, report.verifier, truth, false, truth.root, 2));
        expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 0, reports.back().sealed.commitment}));
    }
    auto reveal = core::make_reveal(reports[0].sealed, id, reports[0].sealed.true_index);
    reveal.initial_path = core::history_path(wrong.roots, 0);
    EXPECT_EQ(name(world.one(drawn[0].verifier, NativeKind::verify_reveal, reveal)), "verify.bad_initial_path");
    for (std::size_t i = 0; i < 2; ++i) {
        reveal = core::make_reveal(reports[i].sealed, id, reports[i].sealed.true_index);
        reveal.initial_path = core::history_path(truth.roots, 0);
        expect_ok(world.one(drawn[i].verifier, NativeKind::verify_reveal, reveal));
    }
    ASSERT_EQ(world.claim(id).state, ClaimState::disputed);
    ASSERT_EQ(world.claim(id).open_disputes, 2U);
    const auto first = world.claim(id).disputes[0];
    EXPECT_EQ(name(world.one(kSecond, NativeKind::dispute_concede, types::DisputeConcedePayload{first})),
              "dispute.not_a_party");
    expect_ok(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{first}));
    EXPECT_EQ(world.dispute(first).reason, "conceded");
    EXPECT_EQ(world.dispute(world.claim(id, 0).disputes[1]).reason, "moot");
    EXPECT_EQ(world.claim(id, 0).state, ClaimState::voided);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    std::size_t fees = 0;
    for (const auto& payment : world.task(id).payments) fees += payment.reason == "verifier_fee" ? 1 : 0;
    EXPECT_EQ(fees, 2U);  // out of the slash, the winner's too
    EXPECT_EQ(name(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{first})),
              "dispute.closed");
    EXPECT_EQ(name(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{77})),
              "dispute.unknown");
}

TEST_F(Lifecycle, silent_party_loses_by_the_clock_through_task_ticks) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root,
                                   core::encode(core::HistoryChallenge{core::history_path(truth.roots, 0)}));
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    EXPECT_EQ(name(world.one(kSecond, NativeKind::tick, types::TickPayload{types::TickObject::dispute, dispute})),
              "tick.too_early");
    core::DisputeStrategy solver(party_of(world.live(id), wrong));
    core::DisputeStrategy rival(party_of(world.live(id), truth));
    const auto split_of = [&](core::DisputeStrategy& strategy, core::Side side) {
        const auto game = *types::decode_record<core::Game>(world.dispute(dispute).game);
        const auto move = strategy.next_move(game, side, waiting_post(game));
        return types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(*move))};
    };
    const auto post = split_of(solver, core::Side::defender);
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::dispute_split, post)), "dispute.no_post");
    expect_ok(world.one(kSolver, NativeKind::dispute_split, post));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::dispute_split, post)), "dispute.already_posted");
    // The state keeps a hash and a height; who answers finds the post in that block's log.
    const auto posted = world.dispute(dispute);
    EXPECT_EQ(posted.posted_at, world.height - 1);
    EXPECT_EQ(types::decode_record<core::Game>(posted.game)->post, crypto::sha256(post.move));
    expect_ok(world.one(kWhistleblower, NativeKind::dispute_split, split_of(rival, core::Side::rival)));
    EXPECT_EQ(world.dispute(dispute).posted_at, 0U);
    EXPECT_EQ(name(world.one(kSolver, NativeKind::dispute_prove_leaf, types::DisputeProveLeafPayload{dispute, {}})),
              "rlp.truncated");
    EXPECT_EQ(world.deadline(id), world.dispute(dispute).deadline);
    tick_when_due(id);
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.dispute(dispute).reason, "clock");
    // Silence of the solver proves nothing against those who passed it.
    EXPECT_EQ(world.task(id).slashes.size(), 1U);
}

TEST_F(Lifecycle, wrong_probe_costs_the_verifier_and_the_others_settle) {
    const auto id = reach(ClaimState::committing, truth);
    const auto live = world.live(id);
    const auto& drawn = live.reports;
    std::vector<ReportData> reports;
    for (std::size_t i = 0; i < 2; ++i) {
        reports.push_back(make_report(live, drawn[i].verifier, truth, true, {}, i, i == 0 ? 4 : 0));
        expect_ok(world.one(drawn[i].verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 0, reports[i].sealed.commitment}));
    }
    for (std::size_t i = 0; i < 2; ++i)
        expect_ok(world.one(drawn[i].verifier, NativeKind::verify_reveal,
                            core::make_reveal(reports[i].sealed, id, reports[i].sealed.true_index)));
    ASSERT_EQ(world.claim(id).state, ClaimState::challenge);

    const auto& probe = reports[0].probes[0];
    const auto opening = open_probe(reports[0], *tiny().prover);
    const auto honest = make_report(live, drawn[0].verifier, truth, true, {}, 0);
    const Hash32 true_hash = core::opened_leaves(honest.sealed, honest.sealed.true_index)[1];
    const auto dispute = challenge(id, kWhistleblower, 1, true_hash, core::encode(opening));
    ASSERT_NE(dispute, 0U);
    play_out(dispute, party_of(live, truth, probe.step, probe.node, 4), party_of(live, truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.task(id).slashes.at(0).address, drawn[0].verifier);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "wrong_probe");
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    for (const auto& payment : world.task(id).payments) EXPECT_NE(payment.to, drawn[0].verifier);
}

TEST_F(Lifecycle, challenges_are_committed_first_and_must_be_revealed) {
    const auto id = reach(ClaimState::challenge, truth);
    const Hash32 salt = crypto::sha256(as_bytes("salt"));
    const auto commitment = core::challenge_commitment(kWhistleblower, wrong.root, salt);
    types::ChallengeRevealPayload reveal{
        id, 0, 0, wrong.root, salt, core::encode(core::HistoryChallenge{core::history_path(wrong.roots, 0)})};
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal)), "challenge.not_committed");
    EXPECT_EQ(name(world.one(kSecond, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, commitment})),
              "bond.insufficient");
    EXPECT_EQ(name(world.one(kSolver, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, commitment})),
              "challenge.own_claim");
    world.begin();
    expect_ok(
        world.send(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, commitment}));
    EXPECT_EQ(name(world.send(kWhistleblower, NativeKind::challenge_reveal, reveal)), "challenge.too_early");
    EXPECT_EQ(name(world.send(kWhistleblower, NativeKind::challenge_commit,
                              types::ChallengeCommitPayload{id, 0, commitment})),
              "challenge.already_committed");
    expect_ok(
        world.send(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, truth.root}));
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).locked, Uint256(2'000));  // 100 γ each
    auto bad = reveal;
    bad.opening = core::encode(core::HistoryChallenge{core::history_path(truth.roots, 1)});
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, bad)), "challenge.bad_initial_path");
    bad = reveal;
    bad.target = 9;
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, bad)), "challenge.no_such_report");
    // Neither is revealed: the task settles, half of both stakes is lost.
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(99'000));
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal)), "task.wrong_state");
}

TEST_F(Lifecycle, a_commitment_in_the_proofs_own_block_that_nobody_reveals_pays) {
    const auto id = reach(ClaimState::working, truth);
    for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval)
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    world.begin();
    expect_ok(world.send(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)));
    expect_ok(
        world.send(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, truth.root}));
    ASSERT_TRUE(world.finish());
    tick_when_due(id);
    pass_all(id);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(99'500));
}

TEST_F(Lifecycle, a_commitment_in_the_block_of_a_redraw_is_given_back) {
    const auto id = reach(ClaimState::custody, truth);
    world.skip_until_due(id);
    world.begin();
    expect_ok(
        world.send(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, truth.root}));
    expect_ok(world.send(kSecond, NativeKind::tick, types::TickPayload{types::TickObject::task, id}));
    ASSERT_TRUE(world.finish());
    ASSERT_EQ(world.reason(id), "verifiers_silent");
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    pass_all(id);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(100'000));
}

TEST_F(Lifecycle, late_challenge_commitment_holds_the_settlement) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto until = world.claim(id).challenge_until;
    world.skip_until(until - 1'000);
    expect_ok(
        world.one(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, truth.root}));
    EXPECT_EQ(world.deadline(id), market::reveal_expected(world.params.market, world.market_ms()));
    EXPECT_EQ(
        name(world.one(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, wrong.root})),
        "challenge.window_closed");
}

TEST_F(Lifecycle, bonds_unbond_and_withdraw_by_abi_calls) {
    world.begin();
    expect_ok(world.call(kSolver, NativeKind::bond, types::BondPayload{Role::relay, 2'500}));
    ASSERT_EQ(world.last_receipt().logs.size(), 1U);
    EXPECT_EQ(world.last_receipt().logs[0].address, params::reserved_address(NativeKind::bond));
    EXPECT_EQ(world.last_receipt().logs[0].topics[0],
              types::abi::signature_hash("BondChanged(address,uint8,uint256,uint256)"));
    expect_ok(world.call(kSolver, NativeKind::unbond, types::UnbondPayload{Role::relay, 200}));
    EXPECT_EQ(name(world.call(kSolver, NativeKind::unbond, types::UnbondPayload{Role::relay, 2'301})),
              "bond.insufficient");
    EXPECT_FALSE(world.last_receipt().success);
    EXPECT_EQ(world.last_receipt().failure.substr(0, 17), "bond.insufficient");
    EXPECT_EQ(name(world.call(kSolver, NativeKind::withdraw, types::WithdrawPayload{Role::relay})),
              "bond.nothing_to_withdraw");
    EXPECT_EQ(name(world.call(kSolver, NativeKind::bond, types::BondPayload{static_cast<Role>(9), 1})),
              "bond.unknown_role");
    EXPECT_EQ(name(world.call(kSolver, NativeKind::bond, types::BondPayload{Role::relay, 0})), "bond.zero_amount");
    ASSERT_TRUE(world.finish());
    world.skip(world.params.market.unbonding_blocks);
    expect_ok(world.one(kSolver, NativeKind::withdraw, types::WithdrawPayload{Role::relay}));
    EXPECT_EQ(world.bond(Role::relay, kSolver).bonded, Uint256(2'300));
    EXPECT_TRUE(world.bond(Role::relay, kSolver).unbonding.empty());
}

TEST_F(Lifecycle, call_and_native_transaction_do_the_same) {
    bond_everybody();
    const auto id = submit();
    world.begin();
    expect_ok(world.call(kSubmitter, NativeKind::task_submit, tiny_spec(kSteps, kInterval)));
    ASSERT_TRUE(world.finish());
    auto first = world.task(id);
    auto second = world.task(id + 1);
    second.id = first.id;
    second.since = first.since;
    second.deadline = first.deadline;
    EXPECT_EQ(types::encode_record(first), types::encode_record(second));
}

TEST_F(Lifecycle, reserved_addresses_refuse_malformed_calls) {
    world.begin();
    auto tx =
        world.call_transaction(kSolver, NativeKind::bond, types::encode_record(types::BondPayload{Role::solver, 5}));
    tx.value = 1;
    EXPECT_EQ(name(world.send_transaction(kSolver, tx)), "native.value_not_zero");
    tx = world.call_transaction(kSolver, NativeKind::bond, types::encode_record(types::BondPayload{Role::solver, 5}));
    tx.data[0] ^= 1;
    EXPECT_EQ(name(world.send_transaction(kSolver, tx)), "abi.unknown_function");
    tx = world.call_transaction(kSolver, NativeKind::bond, types::encode_record(types::BondPayload{Role::solver, 5}));
    tx.data.pop_back();
    EXPECT_EQ(name(world.send_transaction(kSolver, tx)), "abi.truncated");
    tx = world.call_transaction(kSolver, NativeKind::bond, types::encode_record(types::BondPayload{Role::solver, 5}));
    tx.gas_limit = 30'000;
    EXPECT_EQ(name(world.send_transaction(kSolver, tx)), "out of gas");
    EXPECT_EQ(world.last_receipt().gas_used, 30'000U);
    ASSERT_TRUE(world.finish());
    EXPECT_TRUE(world.bond(Role::solver, kSolver).bonded.is_zero());
}

}  // namespace
}  // namespace quern::chain::exec::test
