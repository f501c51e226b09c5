#include <gtest/gtest.h>

#include "base/rng.h"
#include "chain/market/bonds.h"
#include "chain/market/custody.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"
#include "chain/market/storage.h"
#include "chain/market/windows.h"

namespace quern::chain::market {
namespace {

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 40;  // compute/core/history.h
constexpr std::uint64_t kMostWork = ~std::uint64_t{0};        // of a step

// N steps of as many work units each, and a commitment each u of them; tranches of T steps.
PlannedWork even(std::uint64_t steps, std::uint64_t interval, std::uint64_t step, std::uint64_t commit = 0,
                 std::uint64_t stride = 1, std::uint64_t tranche = 0) {
    const auto work = [&](std::uint64_t count) {
        return Uint256(count) * Uint256(step) + Uint256(stride_count(count, stride)) * Uint256(commit);
    };
    return {steps,       interval, stride,
            step,        commit,   work(interval),
            work(steps), tranche,  work(tranche_steps(steps, tranche))};
}

void plan_as(types::Task& task, const PlannedWork& plan) {
    task.spec.work.interval = plan.interval;
    task.spec.work.stride = plan.stride;
    task.spec.work.tranche = plan.tranche;
    set_plan(task, plan);
}

types::Task sample_task() {
    types::Task task;
    task.spec.work.verifiers = 3;
    task.spec.work.samples = 4;
    task.spec.money.price_cap = 7;
    plan_as(task, even(300, 30, 9, 2));
    return task;
}

// Of the whole run.
types::Claim claim_of(const types::Task& task, const Uint256& price) {
    types::Claim claim;
    claim.price = price;
    claim.work = task.total_work;
    return claim;
}

TEST(Escrow, adds_up_by_the_equation) {
    const TaskWork work{even(300, 30, 9, 2), 3, 4};
    const auto escrow = escrow_of(work, 7, 1000, 50);
    ASSERT_TRUE(escrow.has_value());
    EXPECT_EQ(escrow->reward, Uint256(300 * 11 * 7));
    EXPECT_EQ(escrow->verifier_fee, Uint256(4 * 30 * 11 * 7 * 6 / 5));
    EXPECT_EQ(escrow->verifier_fees, Uint256(3 * (4 * 30 * 11 * 7 * 6 / 5)));
    EXPECT_EQ(escrow->total, escrow->reward + escrow->verifier_fees + Uint256(1050));
    // The largest segments count as samples do, those that move most as those that the beacon draws.
    types::Task task = sample_task();
    task.spec.work.largest = 3;
    EXPECT_EQ(sampled_segments(work_of(task)), 7U);
    EXPECT_EQ(verifier_fee(task, 0), Uint256(7 * 30 * 11 * 7 * 6 / 5));
    // More samples than segments cost as much as all segments.
    EXPECT_EQ(sampled_segments({even(300, 30, 9, 2), 3, 20}), 10U);
    EXPECT_EQ(*verifier_fee({even(300, 30, 9, 2), 3, 20}, 5), Uint256(300 * 11 * 6));
    EXPECT_EQ(*verifier_fee({even(1, 1, 1), 1, 1}, 1), Uint256(1));  // 6/5 rounds down
    EXPECT_EQ(segment_count(300, 0), 0U);
    EXPECT_EQ(segment_count(300, 7), 0U);
}

TEST(Escrow, a_commitment_is_paid_for_once_a_stride) {
    auto task = sample_task();
    plan_as(task, even(300, 30, 9, 2, 10));
    EXPECT_EQ(sampled_work(work_of(task)), Uint256(4 * (30 * 9 + 3 * 2)));
    EXPECT_EQ(largest_step(work_of(task).plan), 11U);
    EXPECT_EQ(solver_reward(claim_of(task, 5)), Uint256((300 * 9 + 30 * 2) * 5));
    EXPECT_EQ(verifier_fee(task, 0), Uint256(4 * (30 * 9 + 3 * 2) * 7 * 6 / 5));
}

// Records with the largest values that their fields can have; what has no bound of its own is left empty.
struct Largest {
    template <class T>
    void operator()(const char*, T& value) {
        if constexpr (types::Record<T>)
            value.fields(*this);
        else if constexpr (types::FixedBytesField<T>)
            std::fill(value.data.begin(), value.data.end(), std::uint8_t{0xff});
        else if constexpr (std::is_same_v<T, Uint256>)
            value = ~Uint256();
        else if constexpr (std::is_same_v<T, std::string>)
            value = "passed_wrong_result";  // the longest reason
        else if constexpr (std::is_enum_v<T>)
            value = static_cast<T>(std::numeric_limits<std::underlying_type_t<T>>::max());
        else if constexpr (std::is_same_v<T, bool>)
            value = true;
        else if constexpr (std::is_unsigned_v<T>)
            value = std::numeric_limits<T>::max();
    }
};
template <class T>
std::size_t largest() {
    T record;
    Largest make;
    record.fields(make);
    return types::encode_record(record).size();
}

TEST(Storage, deposits_count_at_least_what_the_largest_objects_take) {
    types::Task task;
    Largest make;
    task.fields(make);
    task.spec = {};
    task.seats.resize(1);
    make("", task.seats[0]);
    task.profiling.limits = Bytes(28, 0xff);
    EXPECT_LE(types::encode_record(task).size() - types::encode_record(task.spec).size(), kTaskBytes);
    EXPECT_LE(largest<types::TaskBid>(), kBidBytes);
    const std::size_t money = 2 * largest<types::Payment>() + largest<types::SlashRecord>();
    EXPECT_LE(largest<types::TaskProfiler>() + money, kProfilerBytes);
    // With the segments that it names, whose numbers are below 2^20.
    EXPECT_LE(largest<types::Claim>() + money + 2 + 16 * 4, kClaimBytes);
    EXPECT_LE(largest<types::VerifierReport>() + money, kReportBytes);
    EXPECT_LE(largest<types::ChallengeCommitment>(), kChallengeBytes);
    types::Custody custody;
    custody.fields(make);
    custody.custodians.resize(types::kMaxCustodians);
    for (auto& custodian : custody.custodians) custodian.fields(make);
    // Of each draw it may lose a part, of which the submitter is paid some.
    const std::size_t lost = 2 * (largest<types::Payment>() + largest<types::SlashRecord>());
    EXPECT_LE(types::encode_record(custody).size() + types::kMaxCustodians * lost,
              custody_bytes(types::kMaxCustodians));
    custody.custodians.resize(params::kLeastCustodians);
    EXPECT_LE(types::encode_record(custody).size() + params::kLeastCustodians * lost,
              custody_bytes(params::kLeastCustodians));
    EXPECT_LE(types::key_of<types::EvidenceCommitment>(types::Address{}).size() + largest<types::EvidenceCommitment>(),
              kEvidenceCommitmentBytes);
}

TEST(Storage, what_a_task_pays_for) {
    params::MarketParams market;
    market.max_rounds = 4;
    EXPECT_EQ(claims_kept(market, 1), 5U);
    EXPECT_EQ(claims_kept(market, 2), 1U + 9 + 5) << "a settled one, the rounds of two stretches, those of the second";
    EXPECT_EQ(claims_kept(market, 9), 2U + 9 + 5);
    market.max_rounds = 0;
    EXPECT_EQ(claims_kept(market, 9), 4U);
    types::TaskSubmitPayload spec;
    spec.work.verifiers = 3;
    market.max_bids = 7;
    const std::uint64_t claim = kClaimBytes + 2 * 3 * (kReportBytes + kDisputeBytes);
    EXPECT_EQ(stored_bytes(market, spec, 1), types::encode_record(spec).size() + kTaskBytes + 7 * kBidBytes + claim);
    market.custodians = 12;
    EXPECT_EQ(stored_bytes(market, spec, 1),
              types::encode_record(spec).size() + kTaskBytes + 7 * kBidBytes + claim + custody_bytes(12));
    market.custodians = 0;
    auto opened = spec;
    opened.imports.roots.resize(9);
    opened.imports.siblings.resize(9);
    EXPECT_EQ(stored_bytes(market, opened, 1), stored_bytes(market, spec, 1)) << "openings are not kept";
    market.storage_deposit_per_byte = 5;
    EXPECT_EQ(task_deposit(market, spec, even(300, 30, 9)), Uint256(5 * stored_bytes(market, spec, 1)));
    EXPECT_EQ(task_deposit(market, spec, even(300, 30, 9, 0, 1, 120)), Uint256(5 * stored_bytes(market, spec, 3)));
    EXPECT_EQ(challenge_deposit(market), Uint256(5 * kDisputeBytes));
    EXPECT_EQ(evidence_deposit(market), Uint256(5 * kEvidenceCommitmentBytes));
}

TEST(Stretches, cover_the_run_and_the_last_may_be_shorter) {
    EXPECT_EQ(stretch_count(300, 0), 1U);
    EXPECT_EQ(stretch_count(300, 300), 1U);
    EXPECT_EQ(stretch_count(300, 120), 3U);
    EXPECT_EQ(stretch_of(300, 0, 0).last(), 300U);
    EXPECT_EQ(stretch_of(300, 120, 0).last(), 120U);
    EXPECT_EQ(stretch_of(300, 120, 2).before, 240U);
    EXPECT_EQ(stretch_of(300, 120, 2).steps, 60U);
}

// 120 steps in four segments, of which three are sampled, twice; then 60 steps in two.
TEST(Stretches, are_paid_for_one_by_one_and_add_up) {
    const PlannedWork plan = even(300, 30, 9, 2, 1, 120);
    const TaskWork work{plan, 5, 3};
    const Uint256 fee = Uint256(3 * 30 * 11 * 7 * 6 / 5);
    const Uint256 last_fee = Uint256(2 * 30 * 11 * 7 * 6 / 5);
    EXPECT_EQ(*verifier_fee(work, 7), fee);
    EXPECT_EQ(*verifier_fee(work, 7, 60), last_fee);
    const auto escrow = escrow_of(work, 7, 1000, 50);
    EXPECT_EQ(escrow->reward, Uint256(300 * 11 * 7));
    EXPECT_EQ(escrow->verifier_fees, Uint256(5) * (fee + fee + last_fee));
    Uint256 left = escrow->total;
    const Uint256 costs[] = {Uint256(120 * 11 * 7) + Uint256(5) * fee, Uint256(120 * 11 * 7) + Uint256(5) * fee,
                             Uint256(60 * 11 * 7) + Uint256(5) * last_fee};
    for (std::uint32_t settled = 1; settled <= 3; ++settled) {
        left -= costs[settled - 1] + Uint256(settled == 3 ? 200 : 400);  // and its part of the tax
        const Uint256 done = Uint256(std::min<std::uint64_t>(settled * 120, 300) * 11);
        EXPECT_EQ(escrow_left(work, 7, 1000, 50, settled, done)->total, left) << settled;
    }
    EXPECT_EQ(left, Uint256(50)) << "the deposit";
}

// Three hundred steps by strides of two, a checkpoint each thirty: the stretch of 120 has 60 + 4 + 2 hashes.
TEST(Custody, is_paid_by_what_a_custodian_keeps_of_a_stretch) {
    PlannedWork plan = even(300, 30, 9, 2, 2, 120);
    plan.state = 4'000'000;
    const std::uint64_t bytes = 3 * 4'000'000 + 32 * 66;
    EXPECT_EQ(history_hashes(plan), Uint256(66));
    EXPECT_EQ(fragment_bytes(0, plan.state, plan), Uint256());
    EXPECT_EQ(fragment_bytes(3, plan.state, plan), Uint256(bytes));
    EXPECT_EQ(fragment_bytes(21, plan.state, plan), Uint256((bytes + 6) / 7)) << "rounded up";
    params::MarketParams market;
    market.custody_fee_per_mib = 1'000;
    market.custodians = 0;
    EXPECT_EQ(*custody_fee(market, plan), Uint256());
    market.custodians = 3;
    EXPECT_EQ(*custody_fee(market, plan), Uint256(12'000)) << "11.4 MiB";
    market.custodians = 36;
    EXPECT_EQ(*custody_fee(market, plan), Uint256(1'000)) << "0.95 MiB";
    market.custody_fee_per_mib = ~Uint256();
    EXPECT_TRUE(custody_fee(market, plan));
    market.custodians = 3;
    EXPECT_EQ(custody_fee(market, plan).error().name, "task.price_overflow");
}

TEST(Custody, needs_two_thirds_and_is_given_by_a_third) {
    EXPECT_EQ(custody_quorum(3), 2U);
    EXPECT_EQ(custody_quorum(4), 3U);
    EXPECT_EQ(custody_quorum(12), 8U);
    EXPECT_EQ(custody_quorum(48), 32U);
    EXPECT_EQ(custody_data(12), 4U);
    EXPECT_EQ(custody_data(5), 1U);
    types::Custody custody;
    custody.custodians.resize(4);
    custody.custodians[0].receipt = custody.custodians[1].receipt = 1;
    custody.custodians[2].receipt = 2;
    EXPECT_FALSE(is_kept(custody));
    custody.custodians[3].receipt = 1;
    EXPECT_TRUE(is_kept(custody));
    EXPECT_EQ(receipts_of(custody, 2), 1U);
}

// Of three stretches, the last a short one.
TEST(Custody, is_escrowed_for_each_stretch_that_is_left) {
    TaskWork work{even(300, 30, 9, 2, 1, 120), 5, 3};
    const auto without = [&](std::uint32_t settled) {
        work.custodians = 0;
        return escrow_left(work, 7, 1000, 50, settled, Uint256(settled * 120 * 11))->total;
    };
    for (std::uint32_t settled = 0; settled < 3; ++settled) {
        const Uint256 rest = without(settled);
        work.custodians = 12;
        work.custody_fee = 70;
        const auto escrow = escrow_left(work, 7, 1000, 50, settled, Uint256(settled * 120 * 11));
        EXPECT_EQ(escrow->custody_fee, Uint256(70));
        EXPECT_EQ(escrow->custody_fees, Uint256(70 * 12 * (3 - settled)));
        EXPECT_EQ(escrow->total, rest + escrow->custody_fees);
    }
    work.custody_fee = ~Uint256();
    EXPECT_EQ(escrow_of(work, 7, 1000, 50).error().name, "task.price_overflow");
    EXPECT_EQ(escrow_left(work, 7, 1000, 50, 3, Uint256(300 * 11))->custody_fees, Uint256());
}

TEST(Stretches, a_solver_answers_for_the_two_that_can_be_unsettled) {
    params::MarketParams market;
    market.dispute_cost = 1;
    market.solver_bond_gammas = 100;
    types::Task task;
    task.spec.money.price_cap = 7;
    task.spec.work.verifiers = task.spec.work.samples = 1;
    plan_as(task, even(300, 30, 9, 2, 1, 120));
    EXPECT_EQ(solver_bond(market, task), Uint256(2 * 7 * 120 * 11));
    EXPECT_EQ(seat_bond(market, task), Uint256(2 * 2 * 7 * 120 * 11));
    EXPECT_EQ(bid_deposit(market, task), Uint256(4 * 7 * 12 * 11)) << "a tenth of that";
    task.settled = 2;
    EXPECT_EQ(seat_bond(market, task), Uint256(2 * 7 * 120 * 11));
    plan_as(task, even(300, 30, 9, 2));
    task.settled = 0;
    EXPECT_EQ(seat_bond(market, task), Uint256(2 * 7 * 300 * 11)) << "of a single one";
}

TEST(Escrow, largest_task_does_not_overflow_and_more_is_refused) {
    const TaskWork largest{even(kMostSteps, 1, kMostWork, kMostWork), params::kMaxVerifiers, 4096};
    const Uint256 price = (Uint256(1) << params::kMaxPriceBits) - Uint256(1);
    EXPECT_TRUE(escrow_of(largest, price, price, 0).has_value());
    EXPECT_EQ(escrow_of(largest, Uint256(1) << 200, 0, 0).error().name, "task.price_overflow");
    EXPECT_EQ(escrow_of({even(1, 1, 1), 1, 1}, 1, ~Uint256(0), 0).error().name, "task.price_overflow");
    EXPECT_EQ(work_price(~Uint256(0), 2).error().name, "task.price_overflow");
}

TEST(Escrow, only_the_reward_follows_from_the_winning_bid) {
    auto task = sample_task();
    EXPECT_EQ(solver_reward(claim_of(task, 5)), Uint256(300 * 11 * 5));
    EXPECT_EQ(verifier_fee(task, 0), Uint256(4 * 30 * 11 * 7 * 6 / 5));
    EXPECT_EQ(price_at_cap(task, 10), Uint256(70));
    const params::MarketParams market;
    const auto bonds = [&] { return std::pair(solver_bond(market, task), verifier_bond(market, task)); };
    const auto before = bonds();
    task.seats.resize(1);
    task.seats[0].price = 1;
    EXPECT_EQ(bonds(), before);
}

// A claim that is lost takes the one behind it along, whose lock goes free: who sees that neither has a jackpot would
// save two stretches' tax for a lock that burns one's.
TEST(Bonds, burn_more_than_the_tax_of_all_claims_that_fall_together) {
    const params::MarketParams market;
    types::Task task;
    task.total_work = 1000;
    task.spec.money.tax = Uint256(1'000'000) * params::kGrainsPerQrn;
    for (const std::uint64_t stretch : {1U, 250U, 333U, 500U, 700U, 1000U}) {
        task.stretch_work = stretch;
        const Uint256 fallen = std::min(Uint256(1000), Uint256(2 * stretch));
        const Uint256 burned = percent_of(solver_bond(market, task), market.burn_percent);
        const Uint256 due = task.spec.money.tax * fallen / Uint256(1000);
        EXPECT_GT(burned, due + Uint256(1)) << stretch << ": what is due may be a grain more";
        EXPECT_LT(burned, due + Uint256(100)) << stretch << ": and no more than that";
    }
}

TEST(Bonds, are_the_larger_of_two_measures) {
    params::MarketParams market;
    market.dispute_cost = 10;
    market.solver_bond_gammas = 100;
    market.verifier_bond_gammas = 20;
    market.verifier_bond_fees = 5;
    market.min_bond_gammas = 3;
    market.challenge_stake_gammas = 4;
    EXPECT_EQ(*solver_bond(market, Uint256(500), 0, 0), Uint256(1000));
    EXPECT_EQ(*solver_bond(market, Uint256(501), 0, 0), Uint256(1002)) << "twice the reward";
    EXPECT_EQ(*verifier_bond(market, Uint256(40)), Uint256(200));
    EXPECT_EQ(*verifier_bond(market, Uint256(41)), Uint256(205));
    EXPECT_EQ(min_bond(market), Uint256(30));
    EXPECT_FALSE(solver_bond(market, ~Uint256(0), 0, 0));
    EXPECT_FALSE(solver_bond(market, 1, 16, ~Uint256(0) / Uint256(16))) << "with γ";
    EXPECT_FALSE(solver_bond(market, 1, 16, ~Uint256(0) / Uint256(1'599))) << "a hundredfold";
    EXPECT_FALSE(verifier_bond(market, ~Uint256(0)));
}

// What is left of a solver's lock pays the game that it loses and every FAIL, to the grain.
TEST(Bonds, a_solvers_lock_covers_whoever_may_find_it_wrong) {
    params::MarketParams market;
    market.dispute_cost = 7;
    market.solver_bond_gammas = 1;
    SeededRng rng(9);
    for (int i = 0; i < 200; ++i) {
        market.submitter_percent = rng.below(74);
        market.burn_percent = 25 + rng.below(75 - market.submitter_percent);
        const auto verifiers = static_cast<std::uint32_t>(1 + rng.below(16));
        const Uint256 fee = rng.below(1'000);
        const Uint256 lock = *solver_bond(market, 1, verifiers, fee);
        const auto split = split_slash(market, lock, {true, fee, verifiers, true, 0});
        EXPECT_EQ(split.dispute_cost, Uint256(7));
        EXPECT_EQ(split.fees, std::vector<Uint256>(verifiers, fee));
        if (lock == Uint256(7)) continue;  // γ
        const Uint256 left(100 - market.submitter_percent - market.burn_percent);
        EXPECT_LT((lock - Uint256(1)) * left, (fee * Uint256(verifiers) + Uint256(7)) * Uint256(100)) << "no more";
    }
}

// What closes a claim's places to others must cost as much as what the claim is about.
TEST(Bonds, a_challenge_stakes_a_share_of_the_lock_that_it_is_against) {
    params::MarketParams market;
    market.dispute_cost = 1;
    market.solver_bond_gammas = 100;
    market.verifier_bond_gammas = 1;
    market.verifier_bond_fees = 1;
    market.challenge_stake_gammas = 4;
    types::Task task;
    task.spec.money.price_cap = 7;
    task.spec.work.verifiers = task.spec.work.samples = 1;
    plan_as(task, even(300, 30, 9, 2));
    const Uint256 solver = solver_bond(market, task);
    ASSERT_EQ(solver, Uint256(2 * 7 * 300 * 11));
    ASSERT_LT(verifier_bond(market, task), solver);
    EXPECT_EQ(challenge_stake(market, task), solver / Uint256(10));
    market.challenge_stake_percent = 25;
    EXPECT_EQ(challenge_stake(market, task), solver / Uint256(4));
    market.verifier_bond_fees = 10'000;
    EXPECT_EQ(challenge_stake(market, task), verifier_bond(market, task) / Uint256(4));
    market.challenge_stake_gammas = 1'000'000'000;
    EXPECT_EQ(challenge_stake(market, task), Uint256(1'000'000'000)) << "the least";
}

TEST(Shares, a_slash_is_divided_without_a_rest) {
    params::MarketParams market;  // burned 25 %, submitter 10 %; bounty 30 %, or 150 % of the cost
    market.dispute_cost = 20;
    const auto sum = [](const SlashSplit& split) {
        Uint256 all = split.to_submitter + split.burned + split.dispute_cost + split.bounty + split.treasury;
        for (const auto& fee : split.fees) all += fee;
        return all;
    };
    const auto rich = split_slash(market, 1000, {true, 50, 2, true, 220});
    EXPECT_EQ(rich.to_submitter, Uint256(100));
    EXPECT_EQ(rich.burned, Uint256(250));
    EXPECT_EQ(rich.dispute_cost, Uint256(20));
    EXPECT_EQ(rich.fees, (std::vector<Uint256>{50, 50}));
    EXPECT_EQ(rich.bounty, Uint256(330));
    EXPECT_EQ(rich.treasury, Uint256(200));
    EXPECT_EQ(split_slash(market, 1000, {true, 50, 2, true, 199}).bounty, Uint256(300)) << "of the slash";
    // The game first, then the fees in order, then the bounty.
    const auto poor = split_slash(market, 1000, {true, 270, 2, true, 400});
    EXPECT_EQ(poor.fees, (std::vector<Uint256>{270, 270}));
    EXPECT_EQ(poor.bounty, Uint256(90));
    EXPECT_TRUE(poor.treasury.is_zero());
    EXPECT_EQ(split_slash(market, 1000, {true, 320, 2, true, 400}).fees, (std::vector<Uint256>{320, 310}));
    EXPECT_TRUE(split_slash(market, 1000, {true, 0, 0, false, 400}).bounty.is_zero());
    EXPECT_TRUE(split_slash(market, 1000, {false, 0, 0, true, 400}).dispute_cost.is_zero());
    SeededRng rng(5);
    for (int i = 0; i < 200; ++i) {
        const Uint256 amount = rng.below(1'000);
        const SlashClaims claims{rng.below(2) == 0, rng.below(100), rng.below(4), rng.below(2) == 0, rng.below(1'000)};
        EXPECT_EQ(sum(split_slash(market, amount, claims)), amount);
        const auto stake = split_stake_slash({}, amount);
        EXPECT_EQ(stake.reporter + stake.burned + stake.treasury, amount);
    }
}

TEST(Shares, base_fees_burn_the_odd_grain) {
    EXPECT_EQ(split_base_fee(7).burned, Uint256(4));
    EXPECT_EQ(split_base_fee(7).jackpot, Uint256(3));
}

TEST(Shares, a_third_convicted_together_loses_all) {
    const Uint256 unit = params::kShareUnit;
    EXPECT_EQ(share_of(1, 4), unit / Uint256(4));
    EXPECT_EQ(correlation_of(share_of(1, 4)), unit * Uint256(3) / Uint256(4));
    EXPECT_EQ(correlation_of(share_of(1, 2)), unit);
    types::ValidatorObject validator;
    validator.correlation = unit;
    EXPECT_EQ(slash_of({}, validator, 1000), Uint256(1000));
    validator.correlation = 0;
    EXPECT_EQ(slash_of({}, validator, 1000), Uint256(50));
}

TEST(Delays, a_draw_comes_after_its_anchor_and_old_beacons_have_one_successor) {
    EXPECT_EQ(draw_height(10), 18U);
    EXPECT_EQ(beacon_height(80, 80), 80U);
    EXPECT_EQ(beacon_height(80, 80 + params::kBeaconWindow - 1), 80U);
    EXPECT_EQ(beacon_height(80, 80 + params::kBeaconWindow), 80 + params::kBeaconWindow);
    EXPECT_EQ(beacon_height(80, 80 + 3 * params::kBeaconWindow - 1), 80 + 2 * params::kBeaconWindow);
}

TEST(Delays, a_block_adds_what_passed_and_five_idle_pauses_at_most) {
    EXPECT_EQ(market_step(1'000, 1), 1U);
    EXPECT_EQ(market_step(1'000, 5'000), 5'000U);
    EXPECT_EQ(market_step(1'000, 5'001), 5'000U);
    EXPECT_EQ(market_step(1'000, ~std::uint64_t{0}), 5'000U);
}

TEST(Delays, a_draw_that_comes_at_a_height_is_due_by_market_time_then) {
    EXPECT_EQ(draw_due(7'000), 7'008U) << "eight blocks later, of a millisecond at least";
    auto task = sample_task();
    types::Claim claim;
    claim.state = types::ClaimState::proved;
    EXPECT_FALSE(awaits_draw(claim)) << "it pauses";
    claim.draw_at = 9;
    EXPECT_TRUE(awaits_draw(claim));
    claim.state = types::ClaimState::custody;
    EXPECT_FALSE(awaits_draw(claim));
    task.state = types::TaskState::open;
    EXPECT_FALSE(awaits_draw(task)) << "bids come yet";
    task.draw_at = 9;
    EXPECT_TRUE(awaits_draw(task));
    task.state = types::TaskState::assigned;
    EXPECT_FALSE(awaits_draw(task));
}

TEST(Delays, follow_the_task_and_the_parameters) {
    params::MarketParams market;
    auto task = sample_task();
    task.since = 100;
    task.spec.windows.bid_s = 7;
    task.spec.windows.heartbeat_s = 9;
    EXPECT_EQ(bids_until(task), 7'100U);
    EXPECT_EQ(dispute_clock(market, task), 609'000U);
    // With strides the segment is run twice and one stride hashed step by step: (660 + 15 * 2) / (330 + 2 * 2)
    // segments.
    plan_as(task, even(300, 30, 11, 2, 15));
    EXPECT_EQ(dispute_clock(market, task), 1000 * (600 + 3 * 9U));
    plan_as(task, even(300, 30, 1, 410, 15));  // (60 + 15 * 410) / (30 + 2 * 410)
    EXPECT_EQ(dispute_clock(market, task), 1000 * (600 + 8 * 9U));
    task.trace_work = 851;  // one more than a segment
    EXPECT_EQ(dispute_clock(market, task), 1000 * (600 + 9 * 9U));
    plan_as(task, even(300, 30, 11, 2));
    task.trace_work = 851;
    EXPECT_EQ(dispute_clock(market, task), 1000 * (600 + 4 * 9U)) << "a segment, and 851 / 390 times as much";
    plan_as(task, even(300, 30, 1, 410, 15, 90));  // a solver answers for two claims at once
    EXPECT_EQ(dispute_clock(market, task), 1000 * (600 + 2 * 8 * 9U));
    EXPECT_EQ(reveal_expected(market, 50), 60'050U);
    EXPECT_EQ(latest_deadline(market, 50), 50 + 8 + std::uint64_t{1000} * (32 * (1'000'000 + 600) + 60));
    const std::uint64_t alone = dispute_clock(market, task);
    EXPECT_EQ(dispute_clock(market, task, 0), alone);
    EXPECT_EQ(dispute_clock(market, task, 1), 2 * alone);
    EXPECT_EQ(dispute_clock(market, task, 31), 32 * alone);
    EXPECT_EQ(dispute_clock(market, task, ~std::uint64_t{0} - 1), 32 * alone) << "no more are counted";
}

// A plan of 2^40 steps that ends with one which costs as much as all others, and whose trace is 64 times that.
TEST(Delays, a_clock_that_no_window_is_long_enough_for_does_not_come_out_short) {
    types::TaskSubmitPayload spec;
    spec.windows.heartbeat_s = std::uint64_t{1} << 19;
    PlannedWork plan = even(kMostSteps, 1, 1 << 13, 0, 1, 1 << 20);
    plan.step = std::uint64_t{1} << 53;
    plan.segment = Uint256(plan.step);
    plan.total = Uint256(1) << 55;
    plan.trace = (std::uint64_t{1} << 59) - (1 << 15);
    EXPECT_GT(dispute_replay_s(spec, plan), params::kMaxWindowSeconds);
}

// --- Windows ---------------------------------------------------------------------------------------------------------

TEST(Windows, classes_are_half_octaves_rounded_down) {
    EXPECT_EQ(class_of_rate(0), 0U);
    EXPECT_EQ(class_of_rate(1), 0U);
    EXPECT_EQ(class_of_rate(2), 2U);
    EXPECT_EQ(class_of_rate(3), 3U);
    EXPECT_EQ(class_of_rate(1'250'000), 40U) << "10 Mbit/s";
    EXPECT_EQ(rate_of_class(40), 1'048'576U);
    EXPECT_EQ(rate_of_class(41), 1'482'910U);
    EXPECT_EQ(class_of_rate(~std::uint64_t{0}), kMaxClass);
    EXPECT_EQ(rate_of_class(kMaxClass), std::uint64_t{1} << 63);
    for (std::uint32_t c = 2; c <= kMaxClass; ++c) {
        const Uint256 rate = rate_of_class(c);
        EXPECT_LE(rate * rate, Uint256(1) << c) << c;
        EXPECT_GT((rate + Uint256(1)) * (rate + Uint256(1)), Uint256(1) << c) << c;
        EXPECT_EQ(class_of_rate(rate_of_class(c)), c % 2 == 0 ? c : c - 1)
            << "what an odd one stands for is rounded down";
    }
}

TEST(Windows, are_twice_what_one_uplink_and_one_replay_take) {
    types::TaskSubmitPayload spec;
    spec.work.verifiers = 2;
    spec.work.samples = 20;
    const TaskWork work = task_work(spec, even(4, 2, 6'588'349));
    TaskBytes bytes{51'245'056, 74'188};
    const auto least = [&] { return least_windows(spec, work, bytes); };
    EXPECT_EQ(least().verify_s, Uint256(1)) << "nothing is promised";
    spec.classes.bandwidth = 40;
    EXPECT_EQ(least().verify_s, Uint256((6 * (5 * 51'245'056 + 74'188 + 8'388'608 + 8 * 32) + 1'048'575) / 1'048'576));
    EXPECT_EQ(least().heartbeat_s, Uint256(1));
    bytes.programs = 3;
    EXPECT_EQ(least().verify_s,
              Uint256((6 * (5 * 51'245'056 + 74'188 + 3 * 8'388'608 + 8 * 32) + 1'048'575) / 1'048'576));
    bytes.custodians = 12;  // fragments of three states and of what the history names, of a fourth each
    EXPECT_EQ(least().verify_s, Uint256((6 * (5 * 51'245'056 + 74'188 + 3 * 8'388'608 + 8 * 32) +
                                         2 * 12 * ((3ULL * 51'245'056 + 8 * 32) / 4) + 1'048'575) /
                                        1'048'576));
    bytes.custodians = 0;
    spec.classes.speed = 28;  // 16,384 work units a second
    EXPECT_EQ(least().heartbeat_s, Uint256((2 * 2 * 6'588'349 + 16'383) / 16'384));
    EXPECT_EQ(least().verify_s, Uint256((2 * 4 * 6'588'349 + 16'383) / 16'384)) << "the longer of the two";
    spec.windows.verify_s = least().verify_s.low_u64();
    spec.windows.heartbeat_s = least().heartbeat_s.low_u64();
    EXPECT_TRUE(check_windows(spec, work, bytes));
    --spec.windows.verify_s;
    EXPECT_EQ(check_windows(spec, work, bytes).error().name, "task.window_too_short");
    ++spec.windows.verify_s;
    --spec.windows.heartbeat_s;
    EXPECT_EQ(check_windows(spec, work, bytes).error().name, "task.window_too_short");
}

TEST(Windows, of_profilers_are_for_what_they_fetch_and_then_compute) {
    types::TaskSubmitPayload spec;
    spec.profiling.profilers = 5;
    spec.profiling.segments = 9;
    const PlannedWork plan = even(40, 4, 70'000);
    const TaskBytes bytes{51'245'056, 1'074'188, 2, 0, 1'000'000};
    EXPECT_EQ(least_windows(spec, task_work(spec, plan), bytes).profile_s, Uint256(2)) << "nothing is promised";
    spec.classes.bandwidth = 40;
    const std::uint64_t fetching = (2 * 5 * (51'245'056ULL + 74'188 + 2 * 8'388'608) + 1'048'575) / 1'048'576;
    EXPECT_EQ(least_windows(spec, task_work(spec, plan), bytes).profile_s, Uint256(fetching + 1));
    spec.classes.speed = 28;
    const std::uint64_t computing = (2 * 2 * 9 * 4 * 70'000ULL + 16'383) / 16'384;
    EXPECT_EQ(least_windows(spec, task_work(spec, plan), bytes).profile_s, Uint256(fetching + computing));
}

TEST(Windows, follow_the_largest_segment_and_not_the_largest_step) {
    types::TaskSubmitPayload spec;
    spec.work.verifiers = spec.work.samples = 1;
    spec.classes.speed = 32;
    const PlannedWork plan{6,         3,         1, 1'000'000, 0,
                           1'200'000, 2'400'000, 0, 2'400'000};  // two steps of 100,000, then one of 1,000,000
    const LeastWindows least = least_windows(spec, task_work(spec, plan), {});
    EXPECT_EQ(least.heartbeat_s, Uint256((2 * 1'200'000 + 65'535) / 65'536));
    EXPECT_EQ(least.verify_s, least.heartbeat_s);
}

TEST(Windows, a_history_by_strides_is_shorter_and_its_commitments_are_work) {
    types::TaskSubmitPayload spec;
    spec.work.verifiers = spec.work.samples = 1;
    spec.classes.bandwidth = 24;  // 4,096 bytes a second
    const TaskBytes bytes{0, 0, 0};
    const auto of = [&](std::uint64_t stride) {
        return least_windows(spec, task_work(spec, even(1'000'000, 10'000, 3, 410, stride)), bytes);
    };
    EXPECT_EQ(of(1).verify_s, Uint256((4 * 32 * (1'000'000 + 100 + 2) + 4'095) / 4'096));
    EXPECT_EQ(of(100).verify_s, Uint256((4 * 32 * (10'000 + 100 + 2) + 4'095) / 4'096));
    spec.classes.speed = 24;
    EXPECT_EQ(of(100).heartbeat_s, Uint256((2 * (10'000 * 3 + 100 * 410) + 4'095) / 4'096));
}

TEST(Windows, the_largest_task_does_not_overflow) {
    types::TaskSubmitPayload spec;
    spec.work.verifiers = params::kMaxVerifiers;
    spec.work.samples = 4096;
    spec.classes.speed = spec.classes.bandwidth = 1;
    spec.windows.verify_s = spec.windows.heartbeat_s = params::kMaxWindowSeconds;
    const auto checked = check_windows(spec, task_work(spec, even(kMostSteps, 1, kMostWork, kMostWork)),
                                       {~std::uint64_t{0}, ~std::uint64_t{0}, 8});
    EXPECT_EQ(checked.error().name, "task.window_too_short");
}

}  // namespace
}  // namespace quern::chain::market
