// The most that a task may collect, and the gas that a worker gives a transaction: whatever ends a game, a claim or a
// task, it goes on by ticks that fit.
#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/draw_table.h"
#include "chain/market/custody.h"
#include "chain/market/storage.h"
#include "compute/worker/spending.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

using compute::worker::kMaxTransactionGas;

constexpr std::uint64_t kStake = 1'000;
constexpr std::uint64_t kDeposit = 7;

class WorstCase : public Lifecycle {
protected:
    WorstCase() {
        world.params.check_invariants = false;  // bonds and deposits that nobody paid for
        EXPECT_EQ(world.params.market.max_disputes, 64U) << "and no genesis allows more";
        EXPECT_EQ(world.params.market.max_commitments, 256U);
    }
    static types::Address rival(std::uint64_t number) { return address(10'000 + number); }
    // A whistleblower whose whole bond is locked.
    void lock_for(const types::Address& who, std::uint64_t games = 0) {
        types::RoleBond bond;
        bond.address = who;
        bond.role = Role::whistleblower;
        bond.bonded = bond.locked = kStake;
        bond.games = games;
        world.state().store(types::key_of<types::RoleBond>(bond.role, who), bond);
    }
    // As large as a dispute may be.
    static void fill(types::Dispute& dispute) {
        dispute.reason.clear();
        dispute.reason.resize(market::kDisputeBytes - types::encode_record(dispute).size() - 8, 'x');
    }
    std::uint64_t store_dispute(types::Dispute dispute) {
        auto globals = world.globals();
        dispute.id = globals.next_dispute++;
        dispute.rival = rival(dispute.id);
        dispute.rival_role = Role::whistleblower;
        dispute.rival_locked = kStake;
        dispute.deposit = kDeposit;
        fill(dispute);
        world.state().store(types::key_of<types::Globals>(), globals);
        world.state().store(types::key_of<types::Dispute>(dispute.id), dispute);
        return dispute.id;
    }
    void store(const types::Claim& claim) { world.state().store(types::key_of<types::Claim>(claim.id), claim); }
    template <types::Record T>
    std::uint64_t gas_of(const types::Address& who, NativeKind kind, const T& payload) {
        world.begin();
        auto tx = world.call_transaction(who, kind, types::encode_record(payload));
        tx.gas_limit = kMaxTransactionGas;
        const auto result = world.send_transaction(who, tx);
        EXPECT_EQ(result.band, Band::ok) << result.to_string();
        EXPECT_TRUE(world.finish());
        return world.last_receipt().gas_used;
    }
    std::uint64_t gas_of_tick(std::uint64_t id) {
        return gas_of(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::task, id});
    }
    // All that a claim's challenges and FAILs can be.
    [[nodiscard]] std::uint64_t all_disputes() const {
        return 2 * world.params.market.max_disputes + params::kMaxDraws * params::kMaxVerifiers;
    }
    // As many open games about a claim as there may be, beside `began`, which is one of them already where it is of
    // this claim. Those about its history are given back.
    std::vector<std::uint64_t> fill_disputes(types::Claim& claim, const types::Dispute& began,
                                             const std::vector<types::VerifierReport>& reports) {
        auto waiting = *types::decode_record<core::Game>(began.game);
        waiting.charged_to = core::kNotBegun;
        std::vector<std::uint64_t> about_history;
        const auto add = [&](std::uint32_t target, const types::Address& defender, bool begins) {
            types::Dispute dispute = began;
            dispute.claim = claim.id;
            dispute.target = target;
            dispute.defender = defender;
            if (!begins) {
                dispute.game = types::encode_record(waiting);
                dispute.deadline = 0;
            }
            claim.disputes.push_back(store_dispute(dispute));
            lock_for(rival(claim.disputes.back()), begins ? 1 : 0);
            if (begins) {
                auto bond = world.bond(target == 0 ? Role::solver : Role::verifier, defender);
                ++bond.games;
                world.state().store(types::key_of<types::RoleBond>(bond.role, defender), bond);
            }
            ++claim.open_disputes;
            if (target == 0) about_history.push_back(claim.disputes.back());
        };
        const std::uint64_t places = world.params.market.max_disputes;
        while (about_history.size() + (began.claim == claim.id ? 1 : 0) < places + params::kMaxVerifiers)
            add(0, claim.solver, !(began.claim == claim.id) && about_history.empty());
        for (std::uint64_t i = 0; i < places; ++i) {
            const auto& report = reports[i % reports.size()];
            add(core::kPassTarget + report.place, report.verifier, i < reports.size());
        }
        claim.rivals = claim.report_rivals = places;
        return about_history;
    }
    // Commitments of as many challengers, which could have been revealed.
    void fill_commitments(types::Claim& claim) {
        for (; claim.commitments < world.params.market.max_commitments; ++claim.commitments) {
            const auto who = rival(5'000 + 1'000 * claim.id.stretch + claim.commitments);
            lock_for(who);
            const types::ChallengeCommitment commitment{
                claim.id, who, crypto::sha256({who.view()}), claim.proved_since, Role::whistleblower, kStake, kDeposit};
            world.state().store(types::key_of<types::ChallengeCommitment>(claim.id, who, commitment.commitment),
                                commitment);
        }
    }
};

TEST_F(WorstCase, a_task_of_many_rounds_is_deleted_by_ticks_that_fit) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    auto task = world.task(id);
    ASSERT_EQ(task.state, TaskState::settled);
    const auto settled = world.claim(id);
    task.round = static_cast<std::uint32_t>(world.params.market.max_rounds);
    world.state().store(types::key_of<types::Task>(id), task);
    std::vector<types::Address> rivals;
    for (std::uint32_t round = 0; round <= task.round; ++round) {
        auto claim = settled;
        claim.id.round = round;
        claim.drawn = 0;
        for (std::uint64_t i = 0; i < all_disputes(); ++i) {
            types::Dispute dispute;
            dispute.claim = claim.id;
            dispute.closed_at = 1;
            claim.disputes.push_back(store_dispute(dispute));
            rivals.push_back(rival(claim.disputes.back()));
        }
        store(claim);
    }
    world.skip_until(task.since + market::in_ms(world.params.market.retention_s));
    const std::size_t objects = rivals.size() + task.round + 1;
    std::size_t ticks = 0;
    for (; world.exists(id) && ticks <= objects; ++ticks) EXPECT_LT(gas_of_tick(id), kMaxTransactionGas / 4);
    EXPECT_FALSE(world.exists(id));
    EXPECT_LE(ticks, objects / params::kMaxSwept + 1);
    for (const auto& who : rivals) EXPECT_EQ(balance(world.state(), who), Uint256(kDeposit));
    for (std::uint32_t round = 0; round <= task.round; ++round)
        EXPECT_FALSE(world.stored_claim({id, 0, 0, round}).has_value());
}

TEST_F(WorstCase, a_claim_with_all_commitments_settles_by_ticks_that_fit) {
    const auto id = reach(ClaimState::challenge, truth);
    auto claim = world.claim(id);
    fill_commitments(claim);
    store(claim);
    world.skip_until_due(id);
    std::size_t ticks = 0;
    for (; world.task(id).state == TaskState::running && ticks < 100; ++ticks)
        EXPECT_LT(gas_of_tick(id), kMaxTransactionGas / 4);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(ticks, world.params.market.max_commitments / params::kMaxSwept);
    const auto first = rival(5'000);
    EXPECT_EQ(world.bond(Role::whistleblower, first).bonded, Uint256(kStake / 2)) << "it could have been revealed";
    EXPECT_TRUE(world.bond(Role::whistleblower, first).locked.is_zero());
    EXPECT_EQ(balance(world.state(), first), Uint256(kDeposit));
    EXPECT_EQ(world.task(id).slashes.size(), types::kMaxKeptRecords);
}

// A solver in as many games as there may be, its verifiers in as many others, and nobody has revealed anything else.
TEST_F(WorstCase, a_lie_that_all_accuse_is_void_by_transactions_that_fit) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto first = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    auto claim = world.claim(id);
    const auto moot = fill_disputes(claim, world.dispute(first), world.reports(id));
    fill_commitments(claim);
    store(claim);

    std::uint64_t most = gas_of(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{first});
    EXPECT_TRUE(world.claim(id).voided);
    EXPECT_EQ(world.dispute(first).winner, types::DisputeWinner::rival);
    std::size_t ticks = 0;
    for (; world.claim(id).state == ClaimState::disputed && ticks < 500; ++ticks) {
        world.skip_until_due(id);
        most = std::max(most, gas_of_tick(id));
        if (world.task(id).state != TaskState::running) break;
    }
    EXPECT_LT(most, kMaxTransactionGas);
    EXPECT_EQ(world.task(id).state, TaskState::open) << ticks;
    EXPECT_EQ(world.stored_claim(claim.id).value().state, ClaimState::voided);
    for (const std::uint64_t dispute : moot) {
        EXPECT_EQ(world.dispute(dispute).reason, "moot");
        EXPECT_EQ(world.bond(Role::whistleblower, rival(dispute)).bonded, Uint256(kStake));
        EXPECT_TRUE(world.bond(Role::whistleblower, rival(dispute)).locked.is_zero());
    }
    EXPECT_TRUE(world.bond(Role::whistleblower, rival(5'000)).locked.is_zero());
    EXPECT_EQ(world.bond(Role::whistleblower, rival(5'000)).bonded, Uint256(kStake)) << "nothing was left to reveal";
}

// And the stretch after it, about which there are as many.
TEST_F(WorstCase, a_lie_that_takes_a_later_claim_with_it_is_void_by_transactions_that_fit) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto first = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    auto task = world.task(id);
    task.spec.work.tranche = task.steps / 2;
    task.seats.at(0).stretches = 2;
    world.state().store(types::key_of<types::Task>(id), task);
    auto claim = world.claim(id);
    auto later = claim;
    later.id.stretch = 1;
    later.disputes.clear();
    later.open_disputes = 0;
    for (auto* each : {&claim, &later}) {
        fill_disputes(*each, world.dispute(first), world.reports(id));
        fill_commitments(*each);
        store(*each);
    }
    const auto lock_more = [&](Role role, const types::Address& who, const Uint256& amount) {
        auto bond = world.bond(role, who);
        bond.bonded += amount;
        bond.locked += amount;
        world.state().store(types::key_of<types::RoleBond>(role, who), bond);
    };
    lock_more(Role::solver, later.solver, later.locked);
    for (auto report : world.reports(id)) {
        lock_more(Role::verifier, report.verifier, report.locked);
        report.claim = later.id;
        world.state().store(types::key_of<types::VerifierReport>(later.id, report.place), report);
    }
    std::uint64_t most = gas_of(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{first});
    EXPECT_TRUE(world.claim(id).voided);
    std::size_t ticks = 0;
    for (; world.task(id).state == TaskState::running && ticks < 500; ++ticks) {
        world.skip_until_due(id);
        most = std::max(most, gas_of_tick(id));
    }
    EXPECT_LT(most, kMaxTransactionGas) << ticks;
    EXPECT_EQ(world.task(id).state, TaskState::open) << ticks;
    for (const auto& each : {claim.id, later.id}) EXPECT_EQ(world.stored_claim(each).value().state, ClaimState::voided);
}

// Until a tick closes it a moot game goes on, and nobody loses it.
TEST_F(WorstCase, a_moot_game_that_waits_to_be_closed_has_no_loser) {
    world.params.market.dispute_clock_s = 1'000;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto first = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    auto claim = world.claim(id);
    const auto began = world.dispute(first);
    auto waiting = *types::decode_record<core::Game>(began.game);
    waiting.charged_to = core::kNotBegun;
    for (std::uint64_t i = 0; i < 2 * params::kMaxSwept; ++i) {
        types::Dispute dispute = began;
        dispute.game = types::encode_record(waiting);
        dispute.deadline = 0;
        claim.disputes.push_back(store_dispute(dispute));
        lock_for(rival(claim.disputes.back()));
        give(world.state(), rival(claim.disputes.back()), Uint256(1'000'000'000'000'000));
        ++claim.open_disputes;
    }
    store(claim);
    gas_of(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{first});
    claim = world.claim(id);
    EXPECT_EQ(claim.open_disputes, params::kMaxSwept);
    const std::uint64_t oldest = claim.disputes[1];
    EXPECT_NE(world.dispute(oldest).deadline, 0U) << "of each defender one goes on";
    gas_of(rival(oldest), NativeKind::dispute_concede, types::DisputeConcedePayload{oldest});
    EXPECT_EQ(world.dispute(oldest).reason, "moot");
    EXPECT_EQ(world.dispute(oldest).winner, types::DisputeWinner::none);
    EXPECT_EQ(world.bond(Role::whistleblower, rival(oldest)).bonded, Uint256(kStake));
    gas_of_tick(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
}

// As many bids as a genesis may allow, of which none is covered or none is needed.
TEST_F(WorstCase, a_full_list_of_bids_is_lost_or_freed_by_transactions_that_fit) {
    world.params.market.max_bids = 256;
    const auto fill_bids = [&](std::uint64_t id) {
        auto task = world.task(id);
        while (task.bids.size() < world.params.market.max_bids) {
            types::RoleBond bond;
            bond.address = rival(task.bids.size());
            bond.bonded = bond.locked = kStake;
            world.state().store(types::key_of<types::RoleBond>(bond.role, bond.address), bond);
            task.bids.push_back({bond.address, 0, 1 + task.bids.size(), 0, 0, 1, kStake, kStake});
        }
        world.state().store(types::key_of<types::Task>(id), task);
    };
    const auto lost = reach(TaskState::open);
    fill_bids(lost);
    for (int ticks = 0; ticks < 2; ++ticks) {
        world.skip_until_due(lost);
        EXPECT_LT(gas_of_tick(lost), kMaxTransactionGas / 2);
    }
    EXPECT_EQ(world.task(lost).reason, "bid_not_covered");
    EXPECT_TRUE(world.task(lost).bids.empty());
    EXPECT_TRUE(world.bond(Role::solver, rival(0)).bonded.is_zero());

    const auto begun = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{begun, 0, 3}));
    tick_when_due(begun);
    fill_bids(begun);
    EXPECT_LT(gas_of(kSolver, NativeKind::task_start, types::TaskIdPayload{begun}), kMaxTransactionGas / 2);
    EXPECT_EQ(world.bond(Role::solver, rival(255)).bonded, Uint256(kStake));
    EXPECT_TRUE(world.bond(Role::solver, rival(255)).locked.is_zero());
}

TEST_F(WorstCase, who_drives_commitments_out_for_ever_lengthens_nothing) {
    world.params.market.max_commitments = 1;
    world.bond_role(kSecond, Role::whistleblower, 10'000'000);
    spec.windows.challenge_s = 100'000;
    const auto id = reach(ClaimState::challenge, truth);
    std::size_t longest = 0;
    for (std::uint64_t i = 0; i < types::kMaxKeptRecords + 20; ++i) {
        const Hash32 commitment = handlers::draw_hash("commitment", {}, i, 0);
        expect_ok(world.one(kSecond, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, commitment}));
        world.skip(world.params.market.min_window_s);
        longest = std::max({longest, world.task(id).slashes.size(), world.task(id).payments.size()});
    }
    EXPECT_EQ(longest, types::kMaxKeptRecords);
}

// As many verifiers and custodians as may be, from tables whose nodes keep all the versions that a draw may ask for.
class WorstDraw : public WorstCase {
protected:
    static constexpr std::uint64_t kBonds = 256;
    static constexpr std::uint64_t kEpoch = 50;

    WorstDraw() {
        world.params.epoch_length = kEpoch;
        world.params.market.custodians = types::kMaxCustodians;
        world.params.market.custody_fee_per_mib = 1'000;
        spec.work.verifiers = params::kMaxVerifiers;
        spec.windows.verify_s = 400;  // one receipt a block
    }
    static types::Address member(Role role, std::uint64_t number) {
        return address(100'000 * static_cast<std::uint64_t>(role) + number);
    }
    void fill_table(Role role, std::uint64_t epoch) {
        for (std::uint64_t i = 0; i < kBonds; ++i) {
            const auto who = member(role, i);
            auto bond = world.bond(role, who);
            bond.address = who;
            bond.role = role;
            bond.bonded = 1'000'000'000 + 1'000 * epoch + i;
            // Leaving, as often as may be.
            bond.unbonding.resize(params::kMaxRoleUnbondings, {1'000, 1'000'000});
            ASSERT_TRUE(handlers::update_table(world.state(), bond, epoch, 0));
            world.state().store(types::key_of<types::RoleBond>(role, who), bond);
        }
    }
    std::uint64_t reach_draw() {
        for (std::uint64_t epoch = 0; epoch <= params::kDrawReach / world.params.epoch_length + 1; ++epoch)
            for (const auto role : {Role::verifier, Role::custodian}) fill_table(role, epoch);
        world.skip_to(world.params.epoch_length * (params::kDrawReach / world.params.epoch_length + 2));
        for (std::uint64_t i = 0; i < kBonds; ++i)
            for (const auto role : {Role::verifier, Role::custodian})
                give(world.state(), member(role, i), Uint256(1'000'000'000'000'000));
        world.bond_role(kSolver, Role::solver, 1'000'000'000);
        const auto id = submit();
        expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
        tick_when_due(id);
        expect_ok(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id}));
        for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval)
            expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
        expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)));
        return id;
    }
    std::uint64_t gas_of_due_tick(std::uint64_t id) {
        world.skip_until_due(id);
        return gas_of_tick(id);
    }
    std::uint64_t gas_of_missing(std::uint64_t id, std::size_t place) {
        const auto who = world.custody(world.claim(id).id)->custodians.at(place).address;
        return gas_of(who, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false});
    }
};

TEST_F(WorstDraw, all_who_were_drawn_and_keep_silent_pay_by_ticks_that_fit) {
    const auto id = reach_draw();
    EXPECT_LT(gas_of_due_tick(id), kMaxTransactionGas / 4);
    ASSERT_EQ(world.claim(id).drawn, params::kMaxVerifiers);
    ASSERT_EQ(world.custody(world.claim(id).id)->custodians.size(), types::kMaxCustodians);
    EXPECT_LT(gas_of_due_tick(id), kMaxTransactionGas / 4);
    EXPECT_EQ(world.claim(id).reason, "custodians_redrawn");
    EXPECT_LT(gas_of_due_tick(id), kMaxTransactionGas / 4);
    EXPECT_LT(gas_of_due_tick(id), kMaxTransactionGas / 4);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_LE(Uint256(world.bytes_of(id)) * world.params.market.storage_deposit_per_byte, world.task(id).deposit);
}

// Whoever estimates before others have answered may be the one that ends custody.
TEST_F(WorstDraw, a_receipt_that_ends_more_than_its_sender_knew_has_gas_for_it) {
    const auto id = reach_draw();
    constexpr std::size_t kEnough = types::kMaxCustodians - market::custody_quorum(types::kMaxCustodians);
    for (std::uint8_t draw = 1; draw <= params::kMaxDraws; ++draw) {
        gas_of_due_tick(id);
        ASSERT_EQ(world.custody(world.claim(id).id)->draws, draw);
        const auto limit = compute::worker::gas_limit_of(NativeKind::custody_receipt, gas_of_missing(id, 0));
        for (std::size_t place = 1; place < kEnough; ++place) gas_of_missing(id, place);
        EXPECT_LE(gas_of_missing(id, kEnough), limit) << int{draw};
    }
    EXPECT_EQ(world.task(id).state, TaskState::open);
}

}  // namespace
}  // namespace quern::chain::exec::test
