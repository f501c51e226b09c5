// Profiling of tasks in tolerance mode: who is drawn, what sealed and shown profiles bring about, who is paid and who
// loses, what becomes of the limits.
#include <algorithm>
#include <bit>
#include <map>
#include <random>

#include "chain/exec/handlers/events.h"
#include "chain/market/bonds.h"
#include "chain/market/escrow.h"
#include "chain/market/shares.h"
#include "chain/market/storage.h"
#include "compute/core/profiling.h"
#include "crypto/content_id.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

namespace tolerance = compute::tolerance;
using tolerance::Measure;
using tolerance::Measured;

constexpr std::uint64_t kTaskSteps = 32;
constexpr std::uint32_t kAsked = 5;
constexpr std::uint32_t kSegments = core::kMinProfiledSegments;

std::uint32_t word(float x) { return std::bit_cast<std::uint32_t>(x); }

class Profiling : public Lifecycle {
protected:
    Profiling() {
        for (std::uint64_t i = 0; i < 8; ++i) give(world.state(), measurer(i), Uint256(1'000'000'000'000'000));
        world.begin();
        EXPECT_TRUE(world.finish());
        spec = profiled_spec(kTaskSteps, kInterval, kAsked);
    }
    static types::Address measurer(std::uint64_t i) { return address(60 + i); }
    void bond_measurers(std::uint64_t count = 7) {
        world.bond_role(kSolver, Role::solver, 10'000'000);
        for (std::uint64_t i = 0; i < count; ++i) world.bond_role(measurer(i), Role::verifier, 100'000'000);
        world.skip(world.params.epoch_length);  // tables of draws stand still while an epoch lasts
    }
    std::uint64_t drawn(std::uint64_t bonds = 7) {
        bond_measurers(bonds);
        const auto id = submit();
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        return id;
    }
    [[nodiscard]] std::vector<types::TaskProfiler> profilers(std::uint64_t id) const {
        return world.task(id).profiling.profilers;
    }
    [[nodiscard]] std::vector<types::Address> addresses(std::uint64_t id) const {
        std::vector<types::Address> all;
        for (const auto& each : profilers(id)) all.push_back(each.address);
        return all;
    }
    static Hash32 salt_of(const types::Address& who) { return crypto::sha256(who); }
    Result commit(std::uint64_t id, const types::Address& who, const tolerance::Profile& profile) {
        const Hash32 commitment = core::profile_commitment(who, core::encode_profile(profile), salt_of(who));
        return world.one(who, NativeKind::profile_commit, types::ProfileCommitPayload{id, commitment});
    }
    Result reveal(std::uint64_t id, const types::Address& who, const tolerance::Profile& profile) {
        return world.one(who, NativeKind::profile_reveal,
                         types::ProfileRevealPayload{id, core::encode_profile(profile), salt_of(who)});
    }
    // All that were drawn, each with its own profile.
    std::vector<types::Address> play(std::uint64_t id, const std::vector<tolerance::Profile>& profiles) {
        const auto who = addresses(id);
        for (std::size_t i = 0; i < who.size(); ++i) expect_ok(commit(id, who[i], profiles[i % profiles.size()]));
        for (std::size_t i = 0; i < who.size(); ++i) expect_ok(reveal(id, who[i], profiles[i % profiles.size()]));
        return who;
    }
    [[nodiscard]] Uint256 money(const types::Address& who) const { return balance(world.state(), who); }
    [[nodiscard]] Uint256 locked(const types::Address& who) const { return world.bond(Role::verifier, who).locked; }
    // What `who` was paid as the task has it.
    [[nodiscard]] Uint256 paid(std::uint64_t id, const types::Address& who, std::string_view reason) const {
        Uint256 sum;
        for (const auto& payment : world.task(id).payments)
            if (payment.to == who && payment.reason == reason) sum += payment.amount;
        return sum;
    }
    [[nodiscard]] Uint256 fee() const {
        const auto plan = core::TaskPlan::decode(spec.plan)->planned(spec.work.interval, spec.work.stride);
        return spec.money.price_cap * plan.segment * Uint256(2 * kSegments) * Uint256(6) / Uint256(5);
    }
    void expect_expired(std::uint64_t id, std::string_view reason) {
        EXPECT_EQ(world.task(id).state, TaskState::expired);
        EXPECT_EQ(world.task(id).reason, reason);
        EXPECT_TRUE(profilers(id).empty());
        for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(locked(measurer(i)).is_zero()) << i;
        EXPECT_TRUE(world.check_from_genesis());
    }
};

TEST_F(Profiling, terms_have_bounds) {
    const auto refused = [&](auto change) {
        auto other = spec;
        change(other);
        return name(world.one(kSubmitter, NativeKind::task_submit, other));
    };
    bond_measurers();
    EXPECT_EQ(refused([](auto& s) { s.profiling.profilers = 2; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.profiling.profilers = core::kMaxProfilers + 1; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.profiling.segments = 7; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.profiling.segments = 17; }), "task.bad_profiling") << "there are 16";
    EXPECT_EQ(refused([](auto& s) { s.profiling.window_s = 0; }), "task.bad_window");
    EXPECT_EQ(refused([](auto& s) { s.profiling.cap = 0; }), "tolerance.bad_terms");
    EXPECT_EQ(refused([](auto& s) { s.profiling.history_cap = 0x7fc00000; }), "tolerance.bad_terms");
    EXPECT_EQ(refused([](auto& s) { s.profiling.range = word(0.5F); }), "tolerance.bad_terms");
    EXPECT_EQ(refused([](auto& s) { s.profiling.allow_rest = 0x80000000; }), "tolerance.bad_terms");
    EXPECT_EQ(refused([](auto& s) { s.data_roots[1] = Hash32{{1}}; }), "task.bad_root");
    EXPECT_EQ(refused([](auto& s) { s.data_roots[0] = {}; }), "task.bad_root");
    EXPECT_EQ(refused([](auto& s) { s.profiling = {}; }), "task.bad_root") << "without profilers limits are named";
    EXPECT_EQ(refused([](auto& s) {
                  s.profiling.profilers = 0;
                  s.data_roots[1] = Hash32{{1}};
              }),
              "task.bad_profiling")
        << "terms, and nobody whom they are for";
    EXPECT_EQ(refused([](auto& s) {
                  s.work.mode = types::TaskMode::exact;
                  s.data_roots[1] = s.data_roots[2] = Hash32{{1}};
              }),
              "task.bad_profiling");
    // A class of speed that says how long the segments take.
    EXPECT_EQ(refused([](auto& s) { s.classes.speed = 2; }), "task.window_too_short");
    expect_ok(world.one(kSubmitter, NativeKind::task_submit, spec));
}

TEST_F(Profiling, limits_are_the_data_before_the_last) {
    auto other = spec;
    tensor::Program program = tiny().program;
    program.header.data = {{tensor::DataType::i32, 1}, {tensor::DataType::f32, 8}, {tensor::DataType::f32, 1'024}};
    tensor::complete_header(program);
    const auto programs = *core::TaskPrograms::make({program}, core::plain_body(kTaskSteps));
    other.plan = programs.plan.bytes();
    other.header_paths = {core::ProgramProver(program).header_path()};
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, other)), "task.bad_profiling");
}

TEST_F(Profiling, finds_limits_and_opens_the_task) {
    const Uint256 before = money(kSubmitter);
    const auto id = drawn();
    ASSERT_EQ(profilers(id).size(), kAsked);
    EXPECT_EQ(world.task(id).state, TaskState::profiling);
    EXPECT_FALSE(world.task(id).profiling.beacon.is_zero());
    const Uint256 lock = market::profiler_bond(world.params.market, world.task(id));
    EXPECT_FALSE(lock.is_zero());
    for (const auto& each : addresses(id)) {
        EXPECT_NE(each, kSubmitter);
        EXPECT_TRUE(locked(each).is_zero()) << "nobody has asked it";
    }
    const Uint256 escrow = world.task(id).escrow;
    const auto who = addresses(id);
    const auto profile = [](std::size_t i) { return some_profile(1e-6F * static_cast<float>(1 + i % 3)); };
    for (std::size_t i = 0; i < who.size(); ++i) {
        expect_ok(commit(id, who[i], profile(i)));
        EXPECT_EQ(locked(who[i]), lock);
    }
    for (std::size_t i = 0; i < who.size(); ++i) expect_ok(reveal(id, who[i], profile(i)));
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(task.reason, "profiled");
    EXPECT_TRUE(task.profiling.profilers.empty());
    for (const auto& each : who) {
        EXPECT_TRUE(locked(each).is_zero());
        EXPECT_EQ(paid(id, each, "profiler_fee"), fee());
    }
    EXPECT_EQ(task.escrow, escrow - fee() * Uint256(kAsked));
    EXPECT_LT(money(kSubmitter), before - task.escrow);

    std::vector<tolerance::Profile> all;
    for (std::size_t i = 0; i < who.size(); ++i) all.push_back(profile(i));
    const auto limits = tolerance::derive_limits(all, core::terms_of(spec.profiling, kTaskSteps / kInterval));
    ASSERT_TRUE(limits);
    EXPECT_EQ(task.profiling.limits, tolerance::encode_limits(*limits));
    EXPECT_EQ(task.spec.data_roots[1], crypto::content_id_of(task.profiling.limits));
    EXPECT_TRUE(task.spec.data_roots[2].is_zero());
    EXPECT_TRUE(world.check_from_genesis());

    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::assigned);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, another_replay_is_not_believed_nor_paid) {
    const auto id = drawn();
    const auto other = some_profile(1e-6F, 2.0F);
    const auto who = play(id, {some_profile(1e-6F), some_profile(1e-6F), some_profile(1e-6F), other, other});
    const auto task = world.task(id);
    ASSERT_EQ(task.state, TaskState::open);
    EXPECT_EQ(paid(id, who[0], "profiler_fee"), fee());
    EXPECT_TRUE(paid(id, who[3], "profiler_fee").is_zero());
    EXPECT_EQ(paid(id, kSubmitter, "refund"), fee() * Uint256(2));
    EXPECT_TRUE(locked(who[4]).is_zero());
    const std::vector<tolerance::Profile> same(3, some_profile(1e-6F));
    const auto limits = tolerance::derive_limits(same, core::terms_of(spec.profiling, kTaskSteps / kInterval));
    EXPECT_EQ(task.profiling.limits, tolerance::encode_limits(*limits)) << "the others have no say";
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, needs_more_than_half_that_agree) {
    const auto id = drawn();
    const auto other = some_profile(1e-6F, 2.0F);
    const Uint256 before = money(kSubmitter);
    const Uint256 escrow = world.task(id).escrow - world.task(id).deposit;
    play(id, {some_profile(1e-6F), some_profile(1e-6F), other, other, some_profile(1e-6F, 1.0F)});
    EXPECT_EQ(money(kSubmitter), before + escrow) << "nobody is paid";
    expect_expired(id, "profiles_differ");
}

// A submitter that has one of the profilers would have what the others measured for nothing, as often as it likes.
TEST_F(Profiling, one_that_differs_or_is_silent_does_not_make_others_work_for_nothing) {
    spec.profiling.profilers = 3;
    bond_measurers();
    for (const bool is_silent : {false, true}) {
        const auto id = submit();
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        const Uint256 before = money(kSubmitter);
        const Uint256 escrow = world.task(id).escrow - world.task(id).deposit;
        const auto who = addresses(id);
        ASSERT_EQ(who.size(), 3U);
        const auto lie = some_profile(1e-6F, 2.0F);
        expect_ok(commit(id, who[0], lie));
        for (std::size_t i = 1; i < 3; ++i) expect_ok(commit(id, who[i], some_profile(1e-6F)));
        if (!is_silent) expect_ok(reveal(id, who[0], lie));
        for (std::size_t i = 1; i < 3; ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
        if (is_silent) {
            world.skip_until_due(id);
            expect_ok(world.tick(id));
        }
        expect_expired(id, is_silent ? "profilers_silent" : "profiles_differ");
        EXPECT_TRUE(paid(id, who[0], "profiler_fee").is_zero());
        EXPECT_EQ(paid(id, who[1], "profiler_fee"), fee());
        EXPECT_EQ(paid(id, who[2], "profiler_fee"), fee());
        EXPECT_EQ(money(kSubmitter), before + escrow - fee() * Uint256(2) + paid(id, kSubmitter, "slash_share"));
        EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
    }
}

// As where the submitter has given its data to these alone.
TEST_F(Profiling, too_few_for_limits_are_paid_for_what_they_measured) {
    const auto id = drawn();
    const auto who = addresses(id);
    for (std::size_t i = 0; i < 2; ++i) expect_ok(commit(id, who[i], some_profile(1e-6F)));
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    ASSERT_TRUE(world.task(id).profiling.revealing);
    for (std::size_t i = 0; i < 2; ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(paid(id, who[i], "profiler_fee"), fee());
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
    expect_expired(id, "profilers_silent");
}

TEST_F(Profiling, a_replay_that_nobody_else_has_is_not_paid) {
    const auto id = drawn();
    const auto who = addresses(id);
    for (const auto& each : who) expect_ok(commit(id, each, some_profile(1e-6F)));
    expect_ok(reveal(id, who[0], some_profile(1e-6F)));
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_TRUE(paid(id, who[0], "profiler_fee").is_zero());
    expect_expired(id, "profilers_silent");
    // Nor one of two that say different things.
    const auto other = submit();
    world.skip_until_due(other);
    expect_ok(world.tick(other));
    const auto two = addresses(other);
    for (std::size_t i = 0; i < two.size(); ++i)
        expect_ok(commit(other, two[i], some_profile(1e-6F, i == 0 ? 2.0F : 3.0F)));
    expect_ok(reveal(other, two[0], some_profile(1e-6F, 2.0F)));
    expect_ok(reveal(other, two[1], some_profile(1e-6F, 3.0F)));
    world.skip_until_due(other);
    expect_ok(world.tick(other));
    for (const auto& each : two) EXPECT_TRUE(paid(other, each, "profiler_fee").is_zero());
    expect_expired(other, "profilers_silent");
}

TEST_F(Profiling, who_leaves_is_paid_and_loses_like_who_stays) {
    const auto id = drawn();
    const auto who = addresses(id);
    const Uint256 lock = market::profiler_bond(world.params.market, world.task(id));
    const auto leave = [&](const types::Address& one, const Uint256& amount) {
        return name(world.one(one, NativeKind::unbond, types::UnbondPayload{Role::verifier, amount}));
    };
    for (const auto& each : who) expect_ok(commit(id, each, some_profile(1e-6F)));
    EXPECT_EQ(leave(who[0], Uint256(100'000'000)), "bond.insufficient") << "its lock stays";
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(leave(who[i], Uint256(100'000'000) - lock), "ok");
    for (std::size_t i = 1; i < who.size(); ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.bond(Role::verifier, who[0]).bonded,
              lock - market::percent_of(lock, world.params.market.no_reveal_slash_percent));
    EXPECT_EQ(paid(id, who[1], "profiler_fee"), fee());
    for (const auto& each : who) EXPECT_TRUE(locked(each).is_zero());
    EXPECT_EQ(name(reveal(id, who[0], some_profile(1e-6F))), "task.wrong_state");
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, who_shows_nothing_loses_and_the_others_go_on) {
    const auto id = drawn();
    const auto who = addresses(id);
    const Uint256 lock = market::profiler_bond(world.params.market, world.task(id));
    for (std::size_t i = 0; i < 4; ++i) expect_ok(commit(id, who[i], some_profile(1e-6F)));
    EXPECT_EQ(name(reveal(id, who[0], some_profile(1e-6F))), "task.wrong_state");
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_TRUE(world.task(id).profiling.revealing);
    EXPECT_EQ(world.bond(Role::verifier, who[4]).bonded, Uint256(100'000'000)) << "it has promised nothing";
    EXPECT_EQ(name(commit(id, who[4], some_profile(1e-6F))), "task.wrong_state");
    EXPECT_EQ(name(reveal(id, who[4], some_profile(1e-6F))), "profile.not_drawn");
    for (std::size_t i = 0; i < 3; ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
    EXPECT_EQ(world.task(id).state, TaskState::profiling);
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.bond(Role::verifier, who[3]).bonded,
              Uint256(100'000'000) - market::percent_of(lock, world.params.market.no_reveal_slash_percent));
    EXPECT_TRUE(locked(who[3]).is_zero());
    EXPECT_TRUE(paid(id, who[3], "profiler_fee").is_zero());
    EXPECT_EQ(paid(id, who[2], "profiler_fee"), fee());
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, too_few_that_commit_or_show_end_the_task) {
    for (const bool reveals : {false, true}) {
        const auto id = reveals ? submit() : drawn();
        if (reveals) {
            world.skip_until_due(id);
            expect_ok(world.tick(id));
        }
        const auto who = addresses(id);
        ASSERT_EQ(who.size(), kAsked);
        for (std::size_t i = 0; i < (reveals ? 5U : 1U); ++i) expect_ok(commit(id, who[i], some_profile(1e-6F)));
        for (std::size_t i = 0; i < (reveals ? 2U : 0U); ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        expect_expired(id, "profilers_silent");
    }
}

TEST_F(Profiling, without_enough_profilers_nothing_begins) {
    const auto id = drawn(2);
    expect_expired(id, "no_profilers");
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit);
}

TEST_F(Profiling, fewer_than_asked_for_are_enough_where_they_are_more_than_half) {
    const auto id = drawn(3);
    ASSERT_EQ(profilers(id).size(), 3U);
    play(id, {some_profile(1e-6F)});
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(paid(id, kSubmitter, "refund"), fee() * Uint256(2));
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, what_cannot_be_reproduced_ends_the_task_and_is_paid) {
    const auto id = drawn();
    auto infinite = some_profile(1e-6F);
    for (auto& each : infinite) each[Measure::linf] = 0x7fc00000;
    const auto who = play(id, {infinite});
    EXPECT_EQ(paid(id, who[0], "profiler_fee"), fee());
    expect_expired(id, "tolerance.not_reproducible");
    spec.profiling.cap = word(1e-8F);
    const auto capped = submit();
    world.skip_until_due(capped);
    expect_ok(world.tick(capped));
    play(capped, {some_profile(1e-6F)});
    expect_expired(capped, "tolerance.cap_too_low");
}

TEST_F(Profiling, a_profile_is_sealed_by_its_own_profiler_and_shown_once) {
    const auto id = drawn();
    const auto who = addresses(id);
    const auto profile = some_profile(1e-6F);
    EXPECT_EQ(name(world.one(who[0], NativeKind::profile_commit, types::ProfileCommitPayload{id, {}})),
              "profile.zero_commitment");
    EXPECT_EQ(name(commit(id, kSolver, profile)), "profile.not_drawn");
    EXPECT_EQ(name(commit(id + 1, who[0], profile)), "task.unknown");
    expect_ok(commit(id, who[0], profile));
    EXPECT_EQ(name(commit(id, who[0], profile)), "profile.already_committed");
    // A copy of another one's.
    const Hash32 copied = profilers(id)[0].commitment;
    expect_ok(world.one(who[1], NativeKind::profile_commit, types::ProfileCommitPayload{id, copied}));
    for (std::size_t i = 2; i < who.size(); ++i) expect_ok(commit(id, who[i], profile));
    expect_ok(reveal(id, who[0], profile));
    EXPECT_EQ(name(reveal(id, who[0], profile)), "profile.already_revealed");
    EXPECT_EQ(name(world.one(who[1], NativeKind::profile_reveal,
                             types::ProfileRevealPayload{id, core::encode_profile(profile), salt_of(who[0])})),
              "profile.wrong_opening");
    EXPECT_EQ(name(reveal(id, who[2], some_profile(2e-6F))), "profile.wrong_opening");
    auto longer = profile;
    longer.resize(kSegments + 1);
    EXPECT_EQ(name(reveal(id, who[2], longer)), "profile.bad_measures");
    world.skip_until_due(id);
    EXPECT_EQ(name(reveal(id, who[2], profile)), "task.deadline_passed");
}

TEST_F(Profiling, who_answers_for_other_things_cannot_commit) {
    const auto id = drawn();
    const auto who = addresses(id)[0];
    const Uint256 lock = market::profiler_bond(world.params.market, world.task(id));
    expect_ok(world.one(who, NativeKind::unbond,
                        types::UnbondPayload{Role::verifier, Uint256(100'000'000) - lock + Uint256(1)}));
    EXPECT_EQ(name(commit(id, who, some_profile(1e-6F))), "bond.insufficient");
    expect_ok(world.one(who, NativeKind::bond, types::BondPayload{Role::verifier, 100'000'000}));
    expect_ok(commit(id, who, some_profile(1e-6F)));
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Profiling, of_many_more_than_half_must_agree) {
    spec.profiling.profilers = 6;
    const auto common = some_profile(1e-6F);
    const auto other = some_profile(1e-6F, 2.0F);
    const auto id = drawn(8);
    ASSERT_EQ(profilers(id).size(), 6U);
    play(id, {common, common, common, other, other, other});
    expect_expired(id, "profiles_differ");
    const auto next = submit();
    world.skip_until_due(next);
    expect_ok(world.tick(next));
    const auto who = play(next, {common, common, other, common, common, other});
    EXPECT_EQ(world.task(next).state, TaskState::open);
    EXPECT_EQ(paid(next, who[3], "profiler_fee"), fee());
    EXPECT_TRUE(paid(next, who[5], "profiler_fee").is_zero());
}

TEST_F(Profiling, all_that_are_asked_for_may_be_the_most) {
    spec.profiling.profilers = core::kMaxProfilers;
    const auto id = drawn(8);
    expect_expired(id, "no_profilers");
}

TEST_F(Profiling, only_who_can_do_it_is_drawn) {
    bond_measurers();
    const auto plan = core::TaskPlan::decode(spec.plan)->planned(spec.work.interval, spec.work.stride);
    spec.classes.speed = spec.classes.bandwidth = 60;
    spec.classes.memory_mib = 64;
    spec.work.samples = 1;
    spec.windows.verify_s = spec.windows.heartbeat_s = 10'000;
    spec.profiling.window_s = 10'000;
    const std::uint64_t step = plan.step + plan.commit;
    const types::Capacity able{step, market::kMaxClass, market::kMaxClass, 64};
    std::vector<types::Capacity> unable(4, able);
    --unable[0].step_work;
    unable[1].bandwidth_class = 59;
    unable[2].memory_mib = 63;
    unable[3].speed_class = 59;
    for (std::size_t i = 0; i < unable.size(); ++i)
        expect_ok(world.one(measurer(i), NativeKind::declare_capacity,
                            types::DeclareCapacityPayload{Role::verifier, unable[i]}));
    for (std::uint64_t i = unable.size(); i < 7; ++i)
        expect_ok(
            world.one(measurer(i), NativeKind::declare_capacity, types::DeclareCapacityPayload{Role::verifier, able}));
    world.skip(1);
    const auto id = submit();
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    auto who = addresses(id);
    std::sort(who.begin(), who.end());
    EXPECT_EQ(who, (std::vector<types::Address>{measurer(4), measurer(5), measurer(6)}));
}

TEST_F(Profiling, only_who_could_lose_enough_is_drawn) {
    bond_measurers(3);
    const auto before = submit();
    const Uint256 lock = market::profiler_bond(world.params.market, world.task(before));
    world.bond_role(measurer(3), Role::verifier, (lock - Uint256(1)).low_u64());
    world.bond_role(measurer(4), Role::verifier, lock.low_u64());
    world.skip(world.params.epoch_length);
    const auto id = submit();
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    const auto who = addresses(id);
    EXPECT_EQ(who.size(), 4U);
    EXPECT_EQ(std::count(who.begin(), who.end(), measurer(3)), 0);
    EXPECT_EQ(std::count(who.begin(), who.end(), measurer(4)), 1);
}

TEST_F(Profiling, each_phase_has_its_window_and_the_seed_is_the_draws) {
    const auto id = drawn();
    const auto due = [&] { return world.task(id).deadline - world.market_ms(); };
    EXPECT_EQ(due(), spec.profiling.window_s * 1'000);
    const Hash32 seed = world.task(id).profiling.beacon;
    EXPECT_FALSE(seed.is_zero());
    for (const auto& each : addresses(id)) expect_ok(commit(id, each, some_profile(1e-6F)));
    ASSERT_TRUE(world.task(id).profiling.revealing);
    ASSERT_NE(spec.windows.verify_s, spec.profiling.window_s);
    EXPECT_EQ(due(), spec.windows.verify_s * 1'000);
    EXPECT_EQ(world.task(id).profiling.beacon, seed);
}

TEST_F(Profiling, nothing_is_said_before_the_draw_or_after_the_limits) {
    bond_measurers();
    const auto id = submit();
    EXPECT_EQ(name(commit(id, measurer(0), some_profile(1e-6F))), "task.wrong_state");
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    const auto who = play(id, {some_profile(1e-6F)});
    ASSERT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(name(commit(id, who[0], some_profile(1e-6F))), "task.wrong_state");
    EXPECT_EQ(name(reveal(id, who[0], some_profile(1e-6F))), "task.wrong_state");
}

TEST_F(Profiling, windows_have_room_for_what_is_fetched_and_computed) {
    bond_measurers();
    spec.classes.speed = spec.classes.bandwidth = 30;
    spec.windows.verify_s = spec.windows.heartbeat_s = 10'000;
    const auto programs = tiny().tolerant(kTaskSteps);
    const auto plan = programs.plan.planned(spec.work.interval, spec.work.stride);
    const auto bytes = core::task_bytes(programs.plan, spec.work.mode, 0);
    const Uint256 rate(market::rate_of_class(30));
    const auto seconds = [&](const Uint256& amount) { return (Uint256(2) * amount + rate - Uint256(1)) / rate; };
    const auto all = tensor::data_bytes(programs.plan.header().data.back());
    EXPECT_EQ(bytes.claimed, all);
    const Uint256 fetched = Uint256(bytes.state + bytes.data - all) + Uint256(programs.programs.size() << 23);
    const std::uint64_t least =
        (seconds(fetched * Uint256(kAsked)) + seconds(plan.segment * Uint256(2 * kSegments))).low_u64();
    spec.profiling.window_s = static_cast<std::uint32_t>(least - 1);
    const auto refused = world.one(kSubmitter, NativeKind::task_submit, spec);
    EXPECT_EQ(name(refused), "task.window_too_short");
    EXPECT_EQ(refused.detail.substr(0, 18), "profiling.window_s") << refused.detail;
    spec.profiling.window_s = static_cast<std::uint32_t>(least);
    expect_ok(world.one(kSubmitter, NativeKind::task_submit, spec));
}

TEST_F(Profiling, nobody_bids_before_the_limits_are_there) {
    const auto id = drawn();
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3})), "task.wrong_state");
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{id})), "task.wrong_state");
}

TEST_F(Profiling, profilers_are_drawn_by_a_beacon_that_nobody_knew) {
    bond_measurers();
    const auto id = submit();
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    EXPECT_TRUE(profilers(id).empty());
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    const auto first = addresses(id);
    auto sorted = first;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::size_t others = 0;
    for (int i = 0; i < 4; ++i) {
        const auto next = submit();
        world.skip_until_due(next);
        expect_ok(world.tick(next));
        others += addresses(next) != first;
    }
    EXPECT_GT(others, 0U);
}

TEST_F(Profiling, the_submitter_is_not_its_own_profiler) {
    bond_measurers(3);
    world.bond_role(kSubmitter, Role::verifier, 100'000'000);
    spec.profiling.profilers = 4;
    for (int i = 0; i < 4; ++i) {
        const auto id = submit();
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        const auto who = addresses(id);
        EXPECT_EQ(who.size(), 3U);
        EXPECT_EQ(std::count(who.begin(), who.end(), kSubmitter), 0);
    }
}

TEST_F(Profiling, deposits_hold_what_profilers_take) {
    const auto id = drawn();
    const auto who = addresses(id);
    for (const auto& each : who) expect_ok(commit(id, each, some_profile(1e-6F)));
    for (std::size_t i = 0; i < 4; ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
    EXPECT_LE(world.bytes_of(id), market::stored_bytes(world.params.market, spec, 1));
    auto alone = spec;
    alone.profiling.profilers = 1;
    EXPECT_EQ(market::stored_bytes(world.params.market, spec, 1),
              market::stored_bytes(world.params.market, alone, 1) + std::uint64_t{kAsked - 1} * market::kProfilerBytes);
    // The largest profiler, and what the task keeps of it when it is paid or slashed.
    auto task = world.task(id);
    const auto bare = types::encode_record(task).size();
    auto& each = task.profiling.profilers.emplace_back(task.profiling.profilers[0]);
    each.locked = ~Uint256();
    constexpr std::uint32_t kMost = 0xffffffff;
    each.bounds = {kMost, kMost, kMost, kMost, kMost, kMost, kMost};
    task.payments.push_back({each.address, ~Uint256(), "profiler_fee"});
    task.slashes.push_back({each.address, Role::verifier, ~Uint256(), "no_reveal"});
    EXPECT_LE(types::encode_record(task).size() - bare, market::kProfilerBytes);
}

// Whatever words a majority shows: limits that a judge can read, or a named end.
TEST_F(Profiling, hostile_words_end_in_limits_or_in_a_name) {
    std::mt19937_64 random(7);
    const auto ordinary_word = [&] { return word(1e-6F * static_cast<float>(1 + (random() >> 40))); };
    const auto any_word = [&]() -> std::uint32_t {
        constexpr std::uint32_t kOdd[] = {0,          1,          0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000,
                                          0x7fc00000, 0x7f800001, 0xffffffff, 0x80000000, 0xbf800000, 0x36800000};
        const std::uint64_t draw = random();
        if (draw % 4 == 0) return static_cast<std::uint32_t>(draw >> 32);
        if (draw % 4 == 1) return kOdd[(draw >> 8) % std::size(kOdd)];
        return ordinary_word();
    };
    std::map<std::string, std::size_t> ends;
    for (int round = 0; round < 20'000; ++round) {
        tolerance::Terms terms = core::terms_of(spec.profiling, 1 + random() % 64);
        if (round % 2 == 0) terms.cap = terms.history_cap = 0x7f7fffff;
        if (round % 3 == 0) terms.range = 0x7f7fffff;
        if (round % 5 == 0) terms.allowance = {any_word(), any_word(), any_word(), any_word()};
        if (!tolerance::check_terms(terms)) continue;
        std::vector<types::TaskProfiler> shown(core::kMinProfilers + random() % 14);
        for (auto& each : shown) {
            tolerance::Profile profile(core::kMinProfiledSegments);
            const bool is_ordinary = random() % 2 == 0;  // one odd word of a profile is enough for all of it
            for (auto& measured : profile)
                for (auto& value : measured.words) value = is_ordinary ? ordinary_word() : any_word();
            each.bounds = core::bounds_of(*core::decode_profile(core::encode_profile(profile), kSegments));
        }
        const auto limits = core::limits_from(shown, terms);
        if (!limits) {
            ++ends[std::string(limits.error().name)];
            continue;
        }
        ++ends["limits"];
        ASSERT_TRUE(tolerance::decode_limits(*limits));
    }
    EXPECT_EQ(ends.size(), 3U) << "limits, tolerance.not_reproducible, tolerance.cap_too_low";
    for (const auto& [end, times] : ends) EXPECT_GT(times, 20U) << end;
}

// As many as there may be, each paid, slashed, or both sorts at once.
TEST_F(Profiling, deposits_hold_as_many_profilers_as_there_may_be) {
    constexpr std::uint32_t kMost = core::kMaxProfilers;
    for (std::uint64_t i = 8; i < kMost; ++i) give(world.state(), measurer(i), Uint256(1'000'000'000'000'000));
    world.begin();
    ASSERT_TRUE(world.finish());
    spec.profiling.profilers = kMost;
    const auto id = drawn(kMost);
    const auto who = addresses(id);
    ASSERT_EQ(who.size(), kMost);
    const auto fits = [&] { return world.bytes_of(id) <= market::stored_bytes(world.params.market, spec, 1); };
    for (const auto& each : who) expect_ok(commit(id, each, some_profile(1e-6F)));
    for (std::size_t i = 0; i < 9; ++i) expect_ok(reveal(id, who[i], some_profile(1e-6F)));
    EXPECT_TRUE(fits());
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_TRUE(fits());
    EXPECT_TRUE(world.check_from_genesis());
}

}  // namespace
}  // namespace quern::chain::exec::test
