// Whole markets of parties that do what decide() says and nothing else: right work is paid, wrong work is beaten,
// acting in the very last block is in time, and nothing is executed twice, whoever forgets everything in between.
#include <list>
#include <map>
#include <set>

#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

constexpr std::uint64_t kMostBlocks = 400;

struct Strides {
    std::uint64_t stride = 1;
    std::uint64_t tranche = 0;
};

class MarketRun : public Lifecycle, public ::testing::WithParamInterface<Strides> {
protected:
    MarketRun() : Lifecycle(GetParam().stride) {
        spec.work.tranche = GetParam().tranche;
        bond_everybody();
        spec.windows.verify_s = spec.windows.challenge_s = 12;  // a commitment and its reveal take two blocks
    }

    Actor& add(const Address& who, const History& claim) { return actors_.emplace_back(who, claim); }
    void add_everybody(const History& solved) {
        add(kSolver, solved).me.solver = true;
        for (const auto& verifier : kVerifiers) add(verifier, truth).me.verifier = true;
        Actor& whistleblower = add(kWhistleblower, truth);
        whistleblower.me.whistleblower = true;
        whistleblower.published = &solved;
        add(address(0x71c), truth).me.ticks = true;
    }

    // Everybody decides on the state before the block. `lazily`: whatever would still be offered for the block after
    // this one waits.
    void block(std::uint64_t id, bool lazily) {
        std::vector<std::pair<const Actor*, Send>> sends;
        for (const Actor& actor : actors_) {
            for (const auto& each : world.shared_claims(id)) {
                const TaskClaim& live = *each;
                const auto later = attempts_of(decide(actor.me, actor.view(world, live, world.height + 1)));
                for (const Action& action : decide(actor.me, actor.view(world, live)))
                    if (const auto* send = std::get_if<Send>(&action); send && !(lazily && offers(later, *send)))
                        sends.emplace_back(&actor, *send);
            }
        }
        world.begin();
        for (const auto& [actor, send] : sends) execute(*actor, send);
        const Status finished = world.finish();
        EXPECT_TRUE(finished) << finished.error().to_string();
    }
    static bool offers(const std::vector<Attempt>& later, const Send& send) {
        return std::any_of(later.begin(), later.end(), [&](const Attempt& attempt) {
            // How long a challenge's reveal has time does not show in the task, and clocks are not reset by a move.
            return attempt.kind < NativeKind::challenge_reveal && attempt.purpose == send.attempts.back().purpose;
        });
    }
    void execute(const Actor& actor, const Send& send) {
        for (std::size_t i = 0; i < send.attempts.size(); ++i) {
            const Attempt& attempt = send.attempts[i];
            const chain::exec::Result result = world.send(actor.me.address, attempt.kind, attempt.payload);
            if (overtaken.contains(result.name)) return;
            if (result.band != chain::exec::Band::ok) {
                EXPECT_LT(i + 1, send.attempts.size())
                    << attempt.purpose << " at height " << world.height << ": " << result.to_string();
                continue;
            }
            if (attempt.kind == NativeKind::tick && !counts_ticks) return;
            int& times = executed_[{to_hex(actor.me.address), attempt.purpose}];
            EXPECT_EQ(++times, 1) << attempt.purpose;
            return;
        }
    }
    // Until the task has ended.
    void run(std::uint64_t id, bool lazily = false) {
        for (std::uint64_t i = 0; i < kMostBlocks && !chain::types::is_final(world.task(id).state); ++i)
            block(id, lazily);
        EXPECT_TRUE(chain::types::is_final(world.task(id).state)) << chain::types::to_string(world.task(id).state);
    }
    [[nodiscard]] std::set<std::string> slashed(std::uint64_t id) const {
        std::set<std::string> reasons;
        const auto task = world.task(id);
        for (const auto& slash : task.slashes) reasons.insert(slash.reason);
        for (std::uint32_t stretch = 0; stretch < task.settled; ++stretch)
            for (std::uint32_t round = 0; round <= task.round; ++round)
                if (const auto claim = world.stored_claim({id, 0, stretch, round}))
                    for (const auto& slash : claim->slashes) reasons.insert(slash.reason);
        return reasons;
    }

    // One that another due claim asked for in this block has moved this one too.
    std::set<std::string, std::less<>> overtaken{"tick.too_early"};
    bool counts_ticks = true;  // a tick of one claim may move another one that is due as well, and is asked for again
    std::list<Actor> actors_;
    std::map<std::pair<std::string, std::string>, int> executed_;
};

TEST_P(MarketRun, right_work_is_paid_and_nobody_slashed) {
    add_everybody(truth);
    const auto id = submit();
    run(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.task(id).round, 0U);
    EXPECT_EQ(slashed(id), std::set<std::string>{});
    EXPECT_TRUE(world.claim(id).disputes.empty());
}

TEST_P(MarketRun, acting_in_the_last_block_that_is_offered_is_always_in_time) {
    add_everybody(truth);
    const auto id = submit();
    run(id, true);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.task(id).round, 0U);
    EXPECT_EQ(slashed(id), std::set<std::string>{});
}

TEST_P(MarketRun, wrong_work_is_beaten_and_done_again_by_another) {
    add_everybody(wrong);
    actors_.front().me.bid_price = 2;
    add(kSecond, truth).me.solver = true;
    const auto id = submit();
    std::uint64_t blocks = 0;
    while (world.task(id).round == 0 && ++blocks < kMostBlocks) block(id, false);
    EXPECT_TRUE(slashed(id).contains("wrong_result"));
    for (Actor& actor : actors_)
        if (actor.me.whistleblower) actor.published = &truth;  // the next solver's
    run(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.claim(id).solver, kSecond);
    EXPECT_EQ(slashed(id), std::set<std::string>{"wrong_result"});
    if (GetParam().tranche == 0) return;
    EXPECT_EQ(world.stored_claim({id, 0, 0, 0})->solver, kSolver) << "its first tranche was right, and is paid";
    EXPECT_EQ(world.stored_claim({id, 0, 0, 0})->state, ClaimState::settled);
    EXPECT_EQ(world.claim(id).start_root, truth.step_roots[kInterval]);
}

TEST_P(MarketRun, a_lazy_whistleblower_alone_beats_wrong_work) {
    add_everybody(wrong);
    for (Actor& actor : actors_)
        if (actor.me.verifier)
            actor = [&] {
                Actor liar(actor.me.address, wrong);
                liar.me.verifier = true;
                return liar;
            }();
    const auto id = submit();
    std::uint64_t blocks = 0;
    while (world.task(id).round == 0 && !chain::types::is_final(world.task(id).state) && ++blocks < kMostBlocks)
        block(id, true);
    EXPECT_TRUE(slashed(id).contains("wrong_result"));
    EXPECT_FALSE(slashed(id).contains("false_accusation"));
}

TEST_P(MarketRun, without_anybody_who_works_the_task_ends_by_ticks) {
    add(address(0x71c), truth).me.ticks = true;
    const auto id = submit();
    run(id);
    EXPECT_EQ(world.task(id).state, TaskState::expired);
}

class KeptMarketRun : public MarketRun {
protected:
    KeptMarketRun() {
        world.params.market.custodians = 3;
        for (std::uint64_t i = 0; i < 6; ++i) {
            Actor& custodian = add(address(0xcc0 + i), truth);
            custodian.me.custodian = true;
            custodian.kept.data_checked = true;
            custodians_.push_back(&custodian);
        }
        add_everybody(truth);
    }
    void bond_custodians() {
        for (const Actor* custodian : custodians_) {
            give(world.state(), custodian->me.address, Uint256(1'000'000'000'000));
            world.bond_role(custodian->me.address, chain::types::Role::custodian, 1'000'000);
        }
    }
    std::size_t paid(std::uint64_t id) {
        const auto task = world.task(id);
        std::size_t count = std::count_if(task.payments.begin(), task.payments.end(), is_fee);
        for (std::uint32_t stretch = 0; stretch < task.settled; ++stretch)
            if (const auto claim = world.stored_claim({id, 0, stretch, 0}))
                count += std::count_if(claim->payments.begin(), claim->payments.end(), is_fee);
        return count;
    }
    static bool is_fee(const chain::types::Payment& each) { return each.reason == "custodian_fee"; }

    std::vector<Actor*> custodians_;
};

TEST_P(KeptMarketRun, right_work_is_kept_and_custodians_paid) {
    world.params.market.custody_fee_per_mib = 5;
    bond_custodians();
    const auto id = submit();
    run(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(slashed(id), std::set<std::string>{});
    EXPECT_GE(paid(id), 2 * world.task(id).settled);
}

TEST_P(KeptMarketRun, without_custodians_a_network_goes_on) {
    counts_ticks = false;
    const auto id = submit();
    run(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(slashed(id), std::set<std::string>{});
    EXPECT_EQ(paid(id), 0U);
}

TEST_P(KeptMarketRun, acting_in_the_last_block_that_is_offered_is_always_in_time) {
    bond_custodians();
    const auto id = submit();
    run(id, true);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(slashed(id), std::set<std::string>{});
}

// The ticks of both draws are decided on by their beacons: none comes too early.
TEST_P(KeptMarketRun, what_custodians_do_not_get_is_asked_of_others_and_then_void) {
    bond_custodians();
    for (Actor* custodian : custodians_) custodian->kept = {.data_awaited = true};
    overtaken.insert({"verify.not_active", "task.wrong_state"});  // by the receipt that ends the draw
    const auto id = submit();
    std::uint64_t blocks = 0;
    while (world.task(id).round == 0 && ++blocks < kMostBlocks) block(id, false);
    EXPECT_EQ(world.task(id).round, 1U);
    EXPECT_EQ(slashed(id), std::set<std::string>{"data_missing"});
    EXPECT_EQ(world.custody({id, 0, 0, 0})->draws, 2U);
}

INSTANTIATE_TEST_SUITE_P(strides, KeptMarketRun, ::testing::Values(Strides{1, 0}, Strides{kInterval, kInterval}));

INSTANTIATE_TEST_SUITE_P(strides, MarketRun,
                         ::testing::Values(Strides{1, 0}, Strides{kInterval, 0}, Strides{1, kInterval},
                                           Strides{kInterval, kInterval}));

}  // namespace
}  // namespace quern::compute::worker::test
