// Custodians of a claim: who is drawn, what their receipts bring about, what they lock, lose and are paid.
#include <algorithm>
#include <map>
#include <set>

#include "chain/exec/handlers/events.h"
#include "chain/market/bonds.h"
#include "chain/market/custody.h"
#include "chain/market/escrow.h"
#include "chain/market/shares.h"
#include "chain/types/event_reader.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kWanted = 4;  // a quorum of three
constexpr std::uint64_t kFee = 1'000'003;
constexpr std::uint64_t kBond = 1'000'000;

class Custodians : public Lifecycle {
protected:
    Custodians() {
        world.params.market.custodians = kWanted;
        world.params.market.custody_fee_per_mib = kFee;
        for (std::uint64_t i = 0; i < 8; ++i) give(world.state(), keeper(i), Uint256(1'000'000'000'000));
        world.begin();
        EXPECT_TRUE(world.finish());
    }

    static types::Address keeper(std::uint64_t i) { return address(50 + i); }
    void bond_keepers(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) world.bond_role(keeper(i), Role::custodian, kBond);
    }
    // A claim that waits for receipts of `count` custodians.
    std::uint64_t reach_custody(std::uint64_t count = kWanted) {
        bond_keepers(count);
        return reach(ClaimState::custody, truth);
    }

    std::optional<types::Custody> custody(std::uint64_t id) { return world.custody(world.claim(id).id); }
    Result say(std::uint64_t id, const types::Address& who, bool data_ok) {
        return world.one(who, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, data_ok});
    }
    void verifiers_say_ok(std::uint64_t id) {
        for (const auto& report : world.reports(id)) expect_ok(say(id, report.verifier, true));
    }
    // The first custodians, in their order.
    void custodians_say(std::uint64_t id, std::initializer_list<bool> receipts) {
        std::size_t place = 0;
        for (const bool data_ok : receipts) expect_ok(say(id, custody(id)->custodians.at(place++).address, data_ok));
    }
    Result tick_at_deadline(std::uint64_t id) {
        world.skip_until(world.claim(id).deadline);
        return world.tick(id);
    }
    Uint256 locked(const types::Address& who) { return world.bond(Role::custodian, who).locked; }
    Uint256 locked_by_all() {
        Uint256 sum;
        for (std::uint64_t i = 0; i < 8; ++i) sum += locked(keeper(i));
        return sum;
    }
    Uint256 lock(std::uint64_t id) {
        return market::percent_of(market::verifier_bond(world.params.market, world.task(id)),
                                  world.params.market.custodian_bond_percent);
    }
    static std::size_t slashes(const std::vector<types::SlashRecord>& all, Role role, std::string_view reason) {
        return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const types::SlashRecord& each) {
            return each.role == role && each.reason == reason;
        }));
    }
    static std::vector<types::Payment> fees(const std::vector<types::Payment>& all) {
        std::vector<types::Payment> found;
        std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                     [](const types::Payment& each) { return each.reason == "custodian_fee"; });
        return found;
    }
    void settle(std::uint64_t id) {
        commit_to_pass(id, truth);
        reveal_pass(id, truth);
        tick_when_due(id);
        ASSERT_EQ(world.task(id).state, TaskState::settled);
    }
};

TEST_F(Custodians, are_drawn_with_the_verifiers_from_bonds_of_their_own) {
    const auto id = reach_custody(6);
    const auto drawn = custody(id);
    ASSERT_TRUE(drawn);
    EXPECT_EQ(drawn->claim, world.claim(id).id);
    EXPECT_EQ(drawn->draws, 1);
    EXPECT_EQ(drawn->draw_at, 0U);
    EXPECT_EQ(drawn->lock, lock(id));
    EXPECT_FALSE(drawn->lock.is_zero());
    ASSERT_EQ(drawn->custodians.size(), kWanted);
    std::set<types::Address> who;
    for (const auto& custodian : drawn->custodians) {
        EXPECT_EQ(custodian.receipt, 0);
        EXPECT_EQ(locked(custodian.address), drawn->lock);
        who.insert(custodian.address);
    }
    EXPECT_EQ(who.size(), kWanted);
    EXPECT_EQ(locked_by_all(), drawn->lock * Uint256(kWanted));
    std::size_t told = 0;
    for (const auto& log : world.last_receipt().logs)
        if (const auto event = types::read_event<events::CustodianDrawn>(log)) {
            EXPECT_EQ(event->place, told);
            EXPECT_EQ(event->custodian, drawn->custodians.at(told++).address);
        }
    EXPECT_EQ(told, kWanted);
}

TEST_F(Custodians, solver_submitter_and_verifiers_are_not_drawn) {
    spec.work.verifiers = 3;
    for (const auto& party : {kSubmitter, kSolver, kVerifiers[0], kVerifiers[1], kVerifiers[2]})
        world.bond_role(party, Role::custodian, 900 * kBond);
    const auto id = reach_custody();
    const auto only_keepers = [&] {
        const auto drawn = custody(id);
        return drawn && drawn->custodians.size() == kWanted &&
               std::all_of(drawn->custodians.begin(), drawn->custodians.end(), [](const auto& custodian) {
                   return custodian.address >= keeper(0) && custodian.address <= keeper(kWanted - 1);
               });
    };
    EXPECT_TRUE(only_keepers());
    custodians_say(id, {false, false});
    tick_when_due(id);
    EXPECT_EQ(custody(id)->draws, 2);
    EXPECT_TRUE(only_keepers()) << "nor in the second draw";
}

TEST_F(Custodians, a_quorum_is_enough_for_a_draw) {
    const auto id = reach_custody(3);
    EXPECT_EQ(custody(id)->custodians.size(), 3U);
    verifiers_say_ok(id);
    custodians_say(id, {true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing) << "two thirds of those who were drawn";
}

TEST_F(Custodians, too_few_put_the_draw_off_and_then_the_claim_goes_on_without) {
    bond_keepers(2);
    const auto id = reach(ClaimState::proved, truth);
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::proved);
    EXPECT_EQ(world.claim(id).reason, "waiting_for_custodians");
    EXPECT_EQ(world.claim(id).draws, 0U);
    while (world.claim(id).state == ClaimState::proved) tick_when_due(id);
    EXPECT_GE(world.market_ms(), world.claim(id).proved_since + market::in_ms(spec.windows.verify_s));
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_FALSE(custody(id));
    EXPECT_TRUE(locked_by_all().is_zero());
    verifiers_say_ok(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    settle(id);
    EXPECT_TRUE(fees(world.task(id).payments).empty());
}

TEST_F(Custodians, who_comes_while_the_draw_is_put_off_is_drawn) {
    bond_keepers(2);
    const auto id = reach(ClaimState::proved, truth);
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).reason, "waiting_for_custodians");
    world.bond_role(keeper(2), Role::custodian, kBond);
    world.skip(world.params.epoch_length);
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_EQ(custody(id)->custodians.size(), 3U);
}

TEST_F(Custodians, custody_ends_with_a_quorum_and_the_verifiers_rule) {
    const auto id = reach_custody();
    const auto drawn = *custody(id);
    verifiers_say_ok(id);
    custodians_say(id, {true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_TRUE(locked(drawn.custodians[0].address).is_zero()) << "it has answered";
    EXPECT_EQ(locked(drawn.custodians[2].address), drawn.lock);
    expect_ok(say(id, drawn.custodians[2].address, true));
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    EXPECT_EQ(world.claim(id).reason, "data_available");
    EXPECT_TRUE(locked_by_all().is_zero()) << "nobody waits for the last one";
    EXPECT_TRUE(custody(id)->lock.is_zero());
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(Custodians, a_quorum_waits_for_the_verifiers) {
    const auto id = reach_custody();
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    expect_ok(say(id, custody(id)->custodians[3].address, true));  // and the last one may still answer
    verifiers_say_ok(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
}

TEST_F(Custodians, who_can_be_no_quorum_any_more_is_replaced_at_once) {
    const auto id = reach_custody(7);
    const auto first = *custody(id);
    verifiers_say_ok(id);
    custodians_say(id, {true, false});
    EXPECT_EQ(world.claim(id).reason, "verifiers_drawn") << "three may still have it";
    EXPECT_TRUE(locked(first.custodians[1].address).is_zero()) << "that it is missing is an answer, too";
    expect_ok(say(id, first.custodians[2].address, false));
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_EQ(world.claim(id).reason, "custodians_redrawn");
    EXPECT_EQ(custody(id)->draw_at, world.height);
    EXPECT_TRUE(locked_by_all().is_zero());
    EXPECT_TRUE(world.task(id).slashes.empty()) << "the fourth had time yet";
    EXPECT_EQ(name(say(id, first.custodians[3].address, true)), "verify.not_active");
    EXPECT_EQ(name(world.tick(id)), "tick.too_early") << "the beacon is not there";

    tick_when_due(id);
    const auto second = *custody(id);
    EXPECT_EQ(second.draws, 2);
    EXPECT_EQ(second.draw_at, 0U);
    EXPECT_EQ(second.custodians.size(), kWanted);
    EXPECT_EQ(world.claim(id).reason, "custodians_drawn");
    EXPECT_EQ(world.claim(id).deadline, world.market_ms() + market::in_ms(spec.windows.verify_s));
    EXPECT_EQ(locked_by_all(), second.lock * Uint256(kWanted));
    EXPECT_EQ(second.lock, first.lock);
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
}

TEST_F(Custodians, verifiers_may_answer_while_custodians_are_drawn_again) {
    const auto id = reach_custody();
    custodians_say(id, {false, false});
    ASSERT_EQ(world.claim(id).reason, "custodians_redrawn");
    world.skip_until(world.claim(id).deadline);
    verifiers_say_ok(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    tick_when_due(id);
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
}

TEST_F(Custodians, silent_ones_pay_and_a_second_draw_decides) {
    const auto id = reach_custody();
    const auto first = *custody(id);
    verifiers_say_ok(id);
    custodians_say(id, {true, true});
    expect_ok(tick_at_deadline(id));
    EXPECT_EQ(world.claim(id).reason, "custodians_redrawn");
    const Uint256 lost = market::percent_of(first.lock, world.params.market.no_reveal_slash_percent);
    EXPECT_FALSE(lost.is_zero());
    for (std::size_t place = 0; place < kWanted; ++place)
        EXPECT_EQ(world.bond(Role::custodian, first.custodians[place].address).bonded,
                  Uint256(kBond) - (place < 2 ? Uint256() : lost))
            << place;
    EXPECT_TRUE(locked_by_all().is_zero());
    EXPECT_EQ(slashes(world.task(id).slashes, Role::custodian, "no_custody_receipt"), 2U);

    const Uint256 answers = world.claim(id).locked;
    tick_when_due(id);
    ASSERT_EQ(custody(id)->draws, 2);
    custodians_say(id, {true, true});
    expect_ok(tick_at_deadline(id));
    const auto ended = world.claim(id, 0);
    EXPECT_EQ(ended.state, ClaimState::voided);
    EXPECT_EQ(ended.reason, "data_missing");
    EXPECT_EQ(world.task(id).state, TaskState::open) << "as where verifiers miss it";
    EXPECT_TRUE(locked_by_all().is_zero());
    EXPECT_EQ(slashes(world.task(id).slashes, Role::custodian, "no_custody_receipt"), 4U);
    const auto all = world.task(id).slashes;
    const auto missing =
        std::find_if(all.begin(), all.end(), [](const auto& each) { return each.reason == "data_missing"; });
    ASSERT_NE(missing, all.end());
    EXPECT_EQ(missing->amount, market::percent_of(answers, world.params.market.data_missing_slash_percent));
    EXPECT_TRUE(fees(world.task(id).payments).empty()) << "nobody is paid of what is void";
}

TEST_F(Custodians, a_second_draw_that_finds_too_few_leaves_the_first_ones_word) {
    const auto id = reach_custody();
    verifiers_say_ok(id);
    custodians_say(id, {false, false});
    ASSERT_EQ(world.claim(id).reason, "custodians_redrawn");
    world.params.market.custodian_bond_percent = 100;  // no bond covers it
    world.params.market.verifier_bond_gammas = 1'000'000;
    tick_when_due(id);
    EXPECT_EQ(world.claim(id, 0).state, ClaimState::voided);
    EXPECT_EQ(world.claim(id, 0).reason, "data_missing");
    EXPECT_TRUE(locked_by_all().is_zero());
}

TEST_F(Custodians, after_silence_a_claim_goes_on_without_where_there_are_too_few_others) {
    const auto id = reach_custody();
    verifiers_say_ok(id);
    custodians_say(id, {true, true});
    world.skip_until(world.claim(id).deadline);
    expect_ok(world.tick(id));
    ASSERT_EQ(world.claim(id).reason, "custodians_redrawn");
    world.params.market.custodian_bond_percent = 100;  // no bond covers it
    world.params.market.verifier_bond_gammas = 1'000'000;
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    EXPECT_FALSE(custody(id)) << "who reads it sees that nobody keeps it";
    EXPECT_EQ(slashes(world.task(id).slashes, Role::solver, "data_missing"), 0U);
    EXPECT_TRUE(locked_by_all().is_zero());
    settle(id);
    EXPECT_TRUE(fees(world.task(id).payments).empty());
}

TEST_F(Custodians, silent_verifiers_pay_once) {
    const auto id = reach_custody();
    const auto reports = world.reports(id);
    for (std::size_t place = 0; place + 1 < reports.size(); ++place) expect_ok(say(id, reports[place].verifier, true));
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    expect_ok(tick_at_deadline(id));  // of verifiers and custodians alike
    EXPECT_EQ(slashes(world.task(id).slashes, Role::verifier, "no_custody_receipt"), 1U);
    tick_when_due(id);
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    EXPECT_EQ(slashes(world.task(id).slashes, Role::verifier, "no_custody_receipt"), 1U);
    EXPECT_EQ(world.claim(id).active, reports.size() - 1);
}

TEST_F(Custodians, verifiers_who_are_all_silent_are_replaced_once_it_is_kept) {
    const auto id = reach_custody();
    expect_ok(tick_at_deadline(id));
    EXPECT_EQ(world.claim(id).reason, "custodians_redrawn") << "first what they would read";
    tick_when_due(id);
    custodians_say(id, {true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    expect_ok(say(id, custody(id)->custodians[2].address, true));
    EXPECT_EQ(world.claim(id).state, ClaimState::proved);
    EXPECT_EQ(world.claim(id).reason, "verifiers_silent");
    EXPECT_TRUE(locked_by_all().is_zero());
    EXPECT_TRUE(market::is_kept(*custody(id)));
}

TEST_F(Custodians, stay_when_verifiers_are_drawn_again) {
    const auto id = reach_custody(7);
    verifiers_say_ok(id);
    custodians_say(id, {true, true, true});
    ASSERT_EQ(world.claim(id).state, ClaimState::committing);
    const auto kept = *custody(id);
    expect_ok(tick_at_deadline(id));  // nobody has committed
    ASSERT_EQ(world.claim(id).reason, "verifiers_silent");
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_EQ(world.claim(id).draws, 2U);
    EXPECT_EQ(types::encode_record(*custody(id)), types::encode_record(kept));
    EXPECT_TRUE(locked_by_all().is_zero());
    verifiers_say_ok(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
}

TEST_F(Custodians, a_majority_of_verifiers_that_misses_the_data_frees_them) {
    const auto id = reach_custody();
    const auto reports = world.reports(id);
    for (std::size_t place = 0; 2 * place <= reports.size() && world.claim(id, 0).state == ClaimState::custody; ++place)
        expect_ok(say(id, reports[place].verifier, false));
    EXPECT_EQ(world.claim(id, 0).state, ClaimState::voided);
    EXPECT_TRUE(locked_by_all().is_zero());
    EXPECT_EQ(slashes(world.task(id).slashes, Role::custodian, "no_custody_receipt"), 0U);
}

TEST_F(Custodians, are_paid_to_the_grain_for_what_they_keep) {
    bond_keepers(kWanted);
    const auto id = reach(ClaimState::custody, truth);
    const auto task = world.task(id);
    EXPECT_EQ(task.custodians, kWanted);
    EXPECT_EQ(task.custody_fee, Uint256(kFee)) << "of a MiB at least";
    auto without = task;
    without.custodians = 0;
    EXPECT_EQ(task.escrow, market::escrow_left(without) + Uint256(kWanted * kFee));
    const auto drawn = *custody(id);
    verifiers_say_ok(id);
    custodians_say(id, {true, false, true});
    expect_ok(say(id, drawn.custodians[3].address, true));
    std::map<types::Address, Uint256> after;
    for (const auto& custodian : drawn.custodians)
        after[custodian.address] = world.state().account_or_empty(custodian.address).balance;
    settle(id);
    const auto paid = fees(world.task(id).payments);
    ASSERT_EQ(paid.size(), 3U);
    for (std::size_t place = 0; place < kWanted; ++place) {
        const auto& who = drawn.custodians[place].address;
        const Uint256 fee = place == 1 ? Uint256() : Uint256(kFee);
        EXPECT_EQ(world.state().account_or_empty(who).balance, after[who] + fee) << place;
    }
    const auto& payments = world.task(id).payments;
    EXPECT_EQ(payments.back().reason, "refund");
    EXPECT_EQ(world.task(id).escrow, world.task(id).deposit) << "what was not earned is the submitter's again";
}

TEST_F(Custodians, leave_the_state_with_their_claim) {
    const auto id = reach_custody();
    const auto key = types::key_of<types::Custody>(world.claim(id).id);
    verifiers_say_ok(id);
    custodians_say(id, {true, true, true});
    settle(id);
    EXPECT_EQ(fees(world.task(id).payments).size(), 3U) << "the fourth has said nothing";
    EXPECT_TRUE(world.state().native(key));
    world.skip_until(world.task(id).since + market::in_ms(world.params.market.retention_s));
    while (world.exists(id)) expect_ok(world.tick(id));
    EXPECT_FALSE(world.state().native(key));
}

TEST_F(Custodians, answer_once_in_custody_and_in_time) {
    const auto id = reach_custody();
    const auto drawn = *custody(id);
    EXPECT_EQ(name(say(id, keeper(7), true)), "verify.not_drawn");
    EXPECT_EQ(name(say(id, kWhistleblower, true)), "verify.not_drawn");
    expect_ok(say(id, drawn.custodians[0].address, false));
    EXPECT_EQ(name(say(id, drawn.custodians[0].address, true)), "verify.already_received");
    EXPECT_EQ(custody(id)->custodians[0].receipt, 2);
    world.skip_until(world.claim(id).deadline);
    EXPECT_EQ(name(say(id, drawn.custodians[1].address, true)), "task.deadline_passed");
}

TEST_F(Custodians, who_has_it_when_custody_is_over_is_paid_until_the_verifiers_have_committed) {
    const auto id = reach_custody();
    verifiers_say_ok(id);
    custodians_say(id, {true, true, true});
    ASSERT_EQ(world.claim(id).state, ClaimState::committing);
    const auto last = custody(id)->custodians[3].address;
    EXPECT_EQ(name(say(id, last, false)), "task.wrong_state") << "to say so later is for those who replay";
    expect_ok(say(id, last, true));
    EXPECT_EQ(name(say(id, last, true)), "verify.already_received");
    EXPECT_TRUE(locked_by_all().is_zero()) << "it was free before";
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    settle(id);
    EXPECT_EQ(fees(world.task(id).payments).size(), 4U);
    EXPECT_FALSE(world.task(id).start_custody.is_zero());
    EXPECT_EQ(world.task(id).start_custody, world.claim(id).custody_content) << "for who goes on";
}

TEST_F(Custodians, do_not_answer_when_the_verifiers_have_committed) {
    const auto id = reach_custody();
    verifiers_say_ok(id);
    custodians_say(id, {true, true, true});
    commit_to_pass(id, truth);
    ASSERT_EQ(world.claim(id).state, ClaimState::revealing);
    EXPECT_EQ(name(say(id, custody(id)->custodians[3].address, true)), "task.wrong_state");
}

// A game about the history that was begun in custody goes on when the data are missing.
TEST_F(Custodians, answer_for_nothing_in_the_games_of_a_claim_that_is_void) {
    const auto id = reach_custody();
    challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    custodians_say(id, {true});
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    for (const auto& report : world.reports(id))
        if (!world.claim(id).voided) expect_ok(say(id, report.verifier, false));
    ASSERT_EQ(world.claim(id).state, ClaimState::disputed);
    ASSERT_TRUE(world.claim(id).voided);
    EXPECT_EQ(name(say(id, custody(id)->custodians[1].address, true)), "task.wrong_state");
    EXPECT_TRUE(locked_by_all().is_zero()) << "nobody waits for receipts that nobody can send";
    EXPECT_TRUE(custody(id)->lock.is_zero());
}

// Who keeps bonds busy with a task of its own could otherwise decide, once the beacon is known, whether those who were
// drawn to verify somebody else's claim do so, or others by another beacon.
TEST_F(Custodians, that_are_busy_do_not_let_drawn_verifiers_go) {
    constexpr std::uint64_t kBusy = 20;
    constexpr std::uint64_t kLock = 200'000;
    constexpr std::uint64_t kLarge = 4 * kLock;
    const auto mine = [](std::uint64_t i) { return address(900 + i); };
    spec.windows.verify_s = 300;
    world.params.market.custodian_bond_percent = 100;
    world.params.market.verifier_bond_gammas = kLarge / 10;
    world.params.market.custodians = kBusy;
    for (std::uint64_t i = 0; i < kBusy; ++i) {
        give(world.state(), mine(i), Uint256(1'000'000'000'000));
        world.bond_role(mine(i), Role::custodian, kLarge + kLock / 2);  // for one claim each
    }
    world.skip(world.params.epoch_length);
    const auto own = reach(ClaimState::custody, truth);
    ASSERT_EQ(custody(own)->custodians.size(), kBusy);
    ASSERT_EQ(custody(own)->lock, Uint256(kLarge));

    world.params.market.verifier_bond_gammas = kLock / 10;
    world.params.market.custodians = kWanted;
    for (std::uint64_t i = 0; i < kWanted; ++i) world.bond_role(keeper(i), Role::custodian, kLock);
    const auto other = reach(ClaimState::proved, truth);
    ASSERT_LT(world.market_ms(), world.claim(own).deadline);
    tick_when_due(other);
    EXPECT_EQ(world.claim(other).state, ClaimState::custody) << world.claim(other).reason;
    EXPECT_EQ(custody(other)->custodians.size(), kWanted);
}

// Verifiers of a second draw are not looked for among fewer because of custodians: there might be nobody else.
TEST_F(Custodians, of_whom_some_are_drawn_to_verify_later_answer_as_verifiers) {
    const auto id = reach_custody();
    const auto drawn = custody(id)->custodians;
    for (const auto& custodian : drawn) world.bond_role(custodian.address, Role::verifier, 1'000'000'000);
    verifiers_say_ok(id);
    custodians_say(id, {true, true, true});
    world.skip(world.params.epoch_length);
    expect_ok(tick_at_deadline(id));  // nobody has committed
    ASSERT_EQ(world.claim(id).reason, "verifiers_silent");
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    std::size_t both = 0;
    for (const auto& report : world.reports(id)) {
        if (report.verifier < keeper(0) || report.verifier > keeper(kWanted - 1)) continue;
        ++both;
        const auto before = types::encode_record(*custody(id));
        expect_ok(say(id, report.verifier, false));
        EXPECT_EQ(types::encode_record(*custody(id)), before) << "what it keeps it has said already, or is not asked";
        break;
    }
    EXPECT_EQ(both, 1U);
    EXPECT_TRUE(locked_by_all().is_zero());
}

TEST_F(Custodians, who_leave_after_the_table_is_frozen_pay_for_silence_out_of_what_leaves) {
    bond_keepers(3);  // just a quorum: each of them is drawn
    const auto id = reach(ClaimState::proved, truth);
    for (std::uint64_t i = 0; i < 3; ++i)
        expect_ok(world.one(keeper(i), NativeKind::unbond, types::UnbondPayload{Role::custodian, kBond}));
    tick_when_due(id);
    ASSERT_EQ(custody(id)->custodians.size(), 3U);
    EXPECT_EQ(locked(keeper(0)), lock(id));
    world.skip(world.params.market.unbonding_blocks);
    const auto withdrawn = world.one(keeper(0), NativeKind::withdraw, types::WithdrawPayload{Role::custodian});
    expect_ok(withdrawn);
    EXPECT_EQ(market::whole_bond(world.bond(Role::custodian, keeper(0))), lock(id)) << "all but what answers";
    const Uint256 lost = market::percent_of(lock(id), world.params.market.no_reveal_slash_percent);
    expect_ok(tick_at_deadline(id));
    EXPECT_EQ(slashes(world.task(id).slashes, Role::custodian, "no_custody_receipt"), 3U);
    EXPECT_EQ(market::whole_bond(world.bond(Role::custodian, keeper(0))), lock(id) - lost);
    EXPECT_TRUE(locked_by_all().is_zero());
}

TEST_F(Custodians, a_claim_whose_second_draw_nobody_ticks_for_long_still_has_one) {
    const auto id = reach_custody(7);
    verifiers_say_ok(id);
    custodians_say(id, {false, false});
    world.skip(params::kDrawReach + 100);  // the beacon that was named is forgotten
    expect_ok(world.tick(id));
    EXPECT_EQ(world.claim(id).reason, "custodians_drawn");
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
}

TEST_F(Custodians, a_solver_that_loses_while_others_are_drawn_leaves_nothing_to_draw) {
    const auto id = reach_custody(7);
    const auto game = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    custodians_say(id, {false, false});
    ASSERT_EQ(world.claim(id).reason, "custodians_redrawn");
    expect_ok(world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{game}));
    while (world.task(id).state == TaskState::running) tick_when_due(id);
    EXPECT_EQ(world.claim(id, 0).state, ClaimState::voided);
    EXPECT_EQ(world.claim(id, 0).reason, "solver_slashed");
    EXPECT_TRUE(locked_by_all().is_zero());
}

TEST_F(Custodians, that_lock_nothing_end_as_others_do) {
    world.params.market.custodian_bond_percent = 0;
    const auto id = reach_custody(7);
    EXPECT_TRUE(custody(id)->lock.is_zero());
    verifiers_say_ok(id);
    expect_ok(tick_at_deadline(id));
    EXPECT_EQ(world.claim(id).reason, "custodians_redrawn");
    tick_when_due(id);
    custodians_say(id, {true, true, true});
    EXPECT_EQ(world.claim(id).state, ClaimState::committing);
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(Custodians, a_proof_names_a_manifest_for_them) {
    const auto id = reach(ClaimState::working, truth);
    for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval)
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    auto proof = proof_of(world.task(id), truth);
    const auto manifest = std::exchange(proof.custody_content, Hash32());
    EXPECT_FALSE(manifest.is_zero());
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof)), "prove.custody_content");
    proof.custody_content = manifest;
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof));
    EXPECT_EQ(world.claim(id).custody_content, manifest);
}

TEST_F(Lifecycle, a_network_without_custodians_knows_no_manifest) {
    const auto id = reach(ClaimState::working, truth);
    for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval)
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    auto proof = proof_of(world.task(id), truth);
    EXPECT_TRUE(proof.custody_content.is_zero());
    proof.custody_content = crypto::sha256(as_bytes("manifest"));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof)), "prove.custody_content");
    proof.custody_content = Hash32();
    world.bond_role(address(10), Role::custodian, kBond);
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof));
    tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    EXPECT_FALSE(world.custody(world.claim(id).id));
    EXPECT_EQ(world.task(id).custodians, 0);
}

}  // namespace
}  // namespace quern::chain::exec::test
