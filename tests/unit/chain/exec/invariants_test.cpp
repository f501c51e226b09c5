// Invariants must notice what handlers never do.
#include "chain/exec/invariants/invariants.h"

#include "chain/exec/handlers/context.h"
#include "market_world.h"

namespace quern::chain::exec::test {
namespace {

class Invariants : public ::testing::Test {
protected:
    Invariants() {
        give(world.state(), submitter, Uint256(1'000'000'000'000));
        give(world.state(), solver, Uint256(1'000'000'000'000));
        world.begin();
        EXPECT_TRUE(world.finish());
        world.bond_role(solver, Role::solver, 200'000);
        for (std::uint64_t i = 0; i < 2; ++i) {
            give(world.state(), address(3 + i), Uint256(1'000'000'000'000));
            world.bond_role(address(3 + i), Role::verifier, 200'000);
        }
        EXPECT_EQ(world.one(submitter, NativeKind::task_submit, tiny_spec(4, 2)).band, Band::ok);
        EXPECT_EQ(world.one(solver, NativeKind::task_bid, types::TaskBidPayload{1, 0, 2}).band, Band::ok);
        give(world.state(), address(0x71c), Uint256(1'000'000'000'000));
        for (int i = 0; i < 2; ++i) {  // closes the bidding, draws
            world.skip_until_due(1);
            EXPECT_EQ(world.tick(1).band, Band::ok);
        }
        EXPECT_EQ(world.task(1).state, TaskState::assigned);
        EXPECT_EQ(check(), "none");
    }
    std::string check() {
        const auto status = invariants::check_all(world.state(), world.params);
        return status ? "none" : status.error().detail.substr(0, status.error().detail.find(':'));
    }
    void change_task(const std::function<void(types::Task&)>& change) {
        auto task = world.task(1);
        change(task);
        handlers::store_task(world.state(), task);
    }

    void start_claim() {
        world.skip(1);
        EXPECT_EQ(world.one(solver, NativeKind::task_start, types::TaskIdPayload{1}).band, Band::ok);
        EXPECT_EQ(check(), "none");
    }
    void count_games(Role role, const types::Address& who, std::uint64_t games) {
        auto bond = *handlers::load_bond(world.state(), role, who);
        bond.games = games;
        handlers::store_bond(world.state(), bond);
    }
    void change_claim(const std::function<void(types::Claim&)>& change) {
        auto claim = world.claim(1);
        change(claim);
        world.state().store(types::key_of<types::Claim>(claim.id), claim);
    }

    World world;
    types::Address submitter = address(1);
    types::Address solver = address(2);
};

TEST_F(Invariants, notice_money_from_nowhere) {
    auto account = world.state().account_or_empty(solver);
    account.balance += Uint256(1);
    world.state().set_account(solver, account);
    EXPECT_EQ(check(), "invariant.supply");
}

TEST_F(Invariants, notice_lost_money_in_native_objects) {
    auto bond = world.bond(Role::solver, solver);
    bond.bonded -= Uint256(1);
    handlers::store_bond(world.state(), bond);
    EXPECT_EQ(check(), "invariant.supply");
}

TEST_F(Invariants, notice_objects_of_kinds_to_come) {
    world.state().set_native(Bytes{0x35, 1}, Bytes{0xc0});
    EXPECT_EQ(check(), "object.reserved_prefix");
    world.state().erase_native(Bytes{0x35, 1});
    EXPECT_EQ(check(), "none");
    world.state().set_native(Bytes{0x61, 1}, Bytes{0xc0});
    EXPECT_EQ(check(), "object.unknown_prefix");
}

TEST_F(Invariants, notice_locks_that_nothing_asks_for) {
    auto bond = world.bond(Role::solver, solver);
    bond.locked += Uint256(1);
    handlers::store_bond(world.state(), bond);
    EXPECT_EQ(check(), "invariant.lock_sum");
    bond.locked = bond.bonded + Uint256(1);
    handlers::store_bond(world.state(), bond);
    EXPECT_EQ(check(), "invariant.bond_locks");
}

TEST_F(Invariants, notice_what_is_held_or_asked_for_before_anything_is_owed) {
    change_task([](types::Task& task) { task.held = 1; });
    EXPECT_EQ(check(), "invariant.held");
    change_task([](types::Task& task) {
        task.held = 0;
        task.asked.push_back({0, 0, 0, task.deadline});
    });
    EXPECT_EQ(check(), "invariant.held");
    change_task([](types::Task& task) { task.asked.clear(); });
    EXPECT_EQ(check(), "none");
}

TEST_F(Invariants, notice_deposits_of_bids_that_no_bond_has_locked) {
    change_task([&](types::Task& task) { task.bids.push_back({solver, 0, 1, 0, 0, 1, 1, 1}); });
    EXPECT_EQ(check(), "invariant.lock_sum");
    auto bond = world.bond(Role::solver, solver);
    bond.locked += Uint256(1);
    handlers::store_bond(world.state(), bond);
    EXPECT_EQ(check(), "none");
}

TEST_F(Invariants, notice_locks_of_somebody_elses_bond) {
    change_task([&](types::Task& task) { task.seats[0].solver = submitter; });
    EXPECT_EQ(check(), "invariant.lock_sum") << "as much is locked, of whom nothing is asked";
}

TEST_F(Invariants, notice_an_escrow_that_does_not_cover_its_task) {
    change_task([](types::Task& task) { task.escrow -= Uint256(1); });
    auto account = world.state().account_or_empty(solver);
    account.balance += Uint256(1);  // stolen from the escrow: the supply is right
    world.state().set_account(solver, account);
    EXPECT_EQ(check(), "invariant.escrow");
}

TEST_F(Invariants, notice_tasks_without_an_exit) {
    change_task([](types::Task& task) { task.deadline = 0; });
    EXPECT_EQ(check(), "invariant.no_exit");
    change_task([](types::Task& task) { task.deadline = ~std::uint64_t{0}; });
    EXPECT_EQ(check(), "invariant.no_exit");
}

TEST_F(Invariants, notice_claims_without_an_exit) {
    start_claim();
    change_claim([](types::Claim& claim) { claim.deadline = 0; });
    EXPECT_EQ(check(), "invariant.no_exit");
}

TEST_F(Invariants, notice_a_task_that_runs_without_a_live_claim) {
    start_claim();
    change_claim([](types::Claim& claim) {
        claim.state = ClaimState::settled;
        claim.deadline = 0;
    });
    change_task([](types::Task& task) { task.since += 1; });
    EXPECT_EQ(check(), "invariant.no_exit");
}

TEST_F(Invariants, notice_reports_that_their_claim_does_not_count) {
    start_claim();
    const auto claim = world.claim(1);
    types::VerifierReport report;
    report.claim = claim.id;
    handlers::store_report(world.state(), report);
    EXPECT_EQ(check(), "invariant.report_counts") << "nobody was drawn";
    change_claim([](types::Claim& claim) { claim.drawn = claim.active = 1; });
    EXPECT_EQ(check(), "none");
    report.custody = 1;
    handlers::store_report(world.state(), report);
    EXPECT_EQ(check(), "invariant.report_counts");
    change_claim([](types::Claim& claim) { claim.received = 1; });
    EXPECT_EQ(check(), "none");
    report.slashed_at = 1;
    handlers::store_report(world.state(), report);
    EXPECT_EQ(check(), "invariant.report_counts") << "it is active no more";
    change_claim([](types::Claim& claim) {
        claim.drawn = 2;
        claim.active = 0;
    });
    EXPECT_EQ(check(), "invariant.report_counts") << "one of them is missing";
}

TEST_F(Invariants, notice_custodians_that_nobody_could_have_drawn) {
    start_claim();
    change_task([](types::Task& task) { task.custodians = 4; });
    change_claim([](types::Claim& claim) {
        claim.state = ClaimState::custody;
        claim.custody_content = Hash32::copy_of(Bytes(32, 1));
    });
    types::Custody custody;
    custody.claim = world.claim(1).id;
    custody.draws = 1;
    custody.custodians.resize(3);
    const auto with = [&](const std::function<void(types::Custody&)>& change) {
        auto changed = custody;
        change(changed);
        world.state().store(types::key_of<types::Custody>(changed.claim), changed);
        return check();
    };
    const auto as_it_is = [](types::Custody&) {};
    EXPECT_EQ(with(as_it_is), "none");
    EXPECT_EQ(with([](auto& c) { c.custodians.resize(2); }), "invariant.custody") << "no quorum";
    EXPECT_EQ(with([](auto& c) { c.custodians.resize(5); }), "invariant.custody") << "more than were wanted";
    EXPECT_EQ(with([](auto& c) { c.draws = 0; }), "invariant.custody");
    EXPECT_EQ(with([](auto& c) { c.draws = 3; }), "invariant.custody");
    const auto locks = [this](auto& c) {
        c.lock = 5;
        c.custodians.resize(3);
        for (auto& custodian : c.custodians) custodian = {address(3), 1};
    };
    EXPECT_EQ(with(locks), "none") << "all have answered";
    EXPECT_EQ(with([&](auto& c) { locks(c), c.custodians[0].receipt = 0; }), "invariant.lock_sum");
    EXPECT_EQ(with([&](auto& c) { locks(c), c.draw_at = 1; }), "invariant.custody") << "others are drawn";
    change_claim([](types::Claim& claim) { claim.state = ClaimState::committing; });
    EXPECT_EQ(with(locks), "invariant.custody") << "custody is over";
    EXPECT_EQ(with([](auto& c) { c.custodians[0].receipt = 1; }), "invariant.custody") << "one of three has it";
    EXPECT_EQ(with([](auto& c) { c.custodians[0].receipt = c.custodians[1].receipt = 1; }), "none");
    change_claim([](types::Claim& claim) { claim.custody_content = Hash32(); });
    EXPECT_EQ(check(), "invariant.custody") << "there is no manifest";
    custody.claim.stretch = 1;
    EXPECT_EQ(with(as_it_is), "invariant.custody") << "there is no such claim";
}

TEST_F(Invariants, notice_a_live_claim_that_is_not_its_tasks) {
    start_claim();
    auto other = world.claim(1);
    other.id.round = 1;
    other.locked = Uint256();
    world.state().store(types::key_of<types::Claim>(other.id), other);
    EXPECT_EQ(check(), "invariant.no_exit");
}

TEST_F(Invariants, notice_more_claims_than_a_task_has_stretches) {
    start_claim();
    change_task([](types::Task& task) { task.seats[0].stretches = 2; });
    EXPECT_EQ(check(), "invariant.no_exit");
}

TEST_F(Invariants, notice_a_stretch_that_is_settled_and_not_paid_for) {
    start_claim();
    change_task([](types::Task& task) { task.settled = 1; });
    EXPECT_EQ(check(), "invariant.escrow");
}

TEST_F(Invariants, notice_a_lock_that_left_its_claim) {
    start_claim();
    change_claim([](types::Claim& claim) { claim.locked -= Uint256(1); });
    EXPECT_EQ(check(), "invariant.lock_sum");
}

TEST_F(Invariants, notice_miscounted_disputes) {
    start_claim();
    change_claim([](types::Claim& claim) { claim.open_disputes = 1; });
    EXPECT_EQ(check(), "invariant.open_disputes");
}

TEST_F(Invariants, notice_games_that_a_party_does_not_count) {
    start_claim();
    types::Dispute dispute;
    dispute.id = 1;
    dispute.claim = world.claim(1).id;
    dispute.defender = solver;
    dispute.rival = submitter;
    dispute.deadline = world.market_ms() + 1;
    handlers::store_dispute(world.state(), dispute);
    change_claim([](types::Claim& claim) {
        claim.disputes = {1};
        claim.open_disputes = 1;
    });
    EXPECT_EQ(check(), "invariant.games");
    count_games(Role::solver, solver, 1);
    EXPECT_EQ(check(), "invariant.games") << "the rival";
    count_games(Role::verifier, submitter, 1);
    EXPECT_EQ(check(), "invariant.games") << "in another role";
    count_games(Role::verifier, submitter, 0);
    count_games(Role::whistleblower, submitter, 1);
    EXPECT_EQ(check(), "none");
    count_games(Role::solver, solver, 2);
    EXPECT_EQ(check(), "invariant.games") << "one more than there are";
}

TEST_F(Invariants, notice_games_that_do_not_go_on_one_by_one) {
    start_claim();
    for (std::uint64_t id = 1; id <= 2; ++id) {
        types::Dispute dispute;
        dispute.id = id;
        dispute.claim = world.claim(1).id;
        dispute.defender = solver;
        dispute.deadline = id == 1 ? world.market_ms() + 1 : 0;
        handlers::store_dispute(world.state(), dispute);
    }
    count_games(Role::solver, solver, 1);
    count_games(Role::whistleblower, {}, 1);
    change_claim([](types::Claim& claim) {
        claim.disputes = {1, 2};
        claim.open_disputes = 2;
    });
    EXPECT_EQ(check(), "none");
    const auto with_deadline = [&](std::uint64_t id, std::uint64_t deadline) {
        auto dispute = world.dispute(id);
        const std::uint64_t before = std::exchange(dispute.deadline, deadline);
        handlers::store_dispute(world.state(), dispute);
        const std::string result = check();
        dispute.deadline = before;
        handlers::store_dispute(world.state(), dispute);
        return result;
    };
    EXPECT_EQ(with_deadline(1, 0), "invariant.dispute_order") << "none goes on";
    EXPECT_EQ(with_deadline(2, world.market_ms() + 1), "invariant.dispute_order") << "both go on";
    EXPECT_EQ(with_deadline(1, ~std::uint64_t{0}), "invariant.no_exit");
    auto stray = world.dispute(1);
    stray.claim.round = 2;
    handlers::store_dispute(world.state(), stray);
    EXPECT_EQ(check(), "invariant.no_exit") << "of no claim";
}

TEST_F(Invariants, stop_the_block) {
    world.begin();
    auto account = world.state().account_or_empty(solver);
    account.balance += Uint256(1);
    world.state().set_account(solver, account);
    const auto status = world.finish();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().name, "exec.invariant_broken");
}

}  // namespace
}  // namespace quern::chain::exec::test
