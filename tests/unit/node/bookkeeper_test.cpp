// That the movements of each transaction sum to what it changed of everybody's balance and bonds, over whole lives of
// tasks; and what they are called.
#include "node/serve/bookkeeper.h"

#include <set>

#include "chain/market/storage.h"
#include "compute/core/state_piece.h"
#include "lifecycle_fixture.h"
#include "node/chain/activity_index.h"

namespace quern::node {
namespace {

namespace api = chain::api;
namespace exec = chain::exec;
namespace types = chain::types;
using namespace chain::exec::test;
using Sign = api::Movement::Sign;

class BookkeeperTest : public Lifecycle {
protected:
    BookkeeperTest() {
        world.before_transaction = [this] {
            for (const auto& who : watched_) before_[who] = held(who);
        };
        world.after_transaction = [this](const types::RecoveredTransaction& tx, const types::Receipt& receipt) {
            for (const auto& who : watched_) check(who, tx, receipt);
        };
    }
    [[nodiscard]] api::Holdings held(const types::Address& who) const { return *holdings_of(world.state(), who); }

    void check(const types::Address& who, const types::RecoveredTransaction& tx, const types::Receipt& receipt) {
        const api::Holdings& before = before_[who];
        const api::Holdings after = held(who);
        Bookkeeper books(who, before);
        api::Place place;
        const auto call = native_call_of(tx.tx);
        ASSERT_TRUE(call);
        place.kind = types::find_kind(static_cast<std::uint8_t>(call->kind))->name;
        books.add(tx, receipt, place);
        Uint256 had = before.balance;
        Uint256 has = after.balance;
        std::map<Role, std::pair<Uint256, Uint256>> bonds;
        for (const auto& bond : before.bonds) bonds[bond.role].first = bond.bonded + bond.unbonding;
        for (const auto& bond : after.bonds) bonds[bond.role].second = bond.bonded + bond.unbonding;
        for (const auto& movement : books.take()) {
            if (movement.balance == Sign::plus) had += movement.amount;
            if (movement.balance == Sign::minus) has += movement.amount;
            if (movement.bond == Sign::plus) bonds[movement.role.value()].first += movement.amount;
            if (movement.bond == Sign::minus) bonds[movement.role.value()].second += movement.amount;
            seen_[who].insert(std::string(movement.category) + ":" + movement.reason);
            all_.push_back(movement);
        }
        EXPECT_EQ(had, has) << place.kind << " of " << to_hex(who);
        EXPECT_EQ(locked_after(who, before, receipt), locked_of(after)) << place.kind << " of " << to_hex(who);
        for (const auto& [role, sides] : bonds) EXPECT_EQ(sides.first, sides.second) << place.kind;
    }
    using Locked = std::map<Role, Uint256>;
    static Locked locked_of(const api::Holdings& holdings) {
        Locked locked;
        for (const auto& bond : holdings.bonds)
            if (!bond.locked.is_zero()) locked[bond.role] = bond.locked;
        return locked;
    }
    // What the events say of it.
    static Locked locked_after(const types::Address& who, const api::Holdings& before, const types::Receipt& receipt) {
        Locked locked = locked_of(before);
        for (const auto& log : receipt.logs) {
            const auto event = read_market_event(log);
            if (!event) continue;
            if (const auto* more = std::get_if<events::BondLocked>(&*event); more != nullptr && more->account == who) {
                locked[more->role] += more->amount;
                EXPECT_EQ(locked[more->role], more->locked);
            }
            if (const auto* less = std::get_if<events::BondReleased>(&*event);
                less != nullptr && less->account == who) {
                locked[less->role] -= less->amount;
                EXPECT_EQ(locked[less->role], less->locked);
            }
            if (const auto* slash = std::get_if<events::Slashed>(&*event); slash != nullptr && slash->account == who)
                locked[slash->role] -= slash->amount;
        }
        std::erase_if(locked, [](const auto& entry) { return entry.second.is_zero(); });
        return locked;
    }
    [[nodiscard]] bool saw(const types::Address& who, const std::string& what) const {
        const auto found = seen_.find(who);
        return found != seen_.end() && found->second.contains(what);
    }

    static std::vector<types::Address> profilers() { return {address(60), address(61), address(62), address(63)}; }

    const std::vector<types::Address> watched_{
        kSubmitter,     kSolver,        kSecond,        kVerifiers[0], kVerifiers[1], kVerifiers[2], kWhistleblower,
        address(0xcc0), address(0xcc1), address(0xcc2), address(60),   address(61),   address(62),   address(63)};
    std::map<types::Address, api::Holdings> before_;
    std::map<types::Address, std::set<std::string>> seen_;
    std::vector<api::Movement> all_;
};

TEST_F(BookkeeperTest, sums_to_what_a_settled_task_moves) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    ASSERT_EQ(world.task(id).state, TaskState::settled) << world.reason(id);
    world.skip_until(world.task(id).since + 1'000 * world.params.market.retention_s);
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    for (const char* what : {"escrow:task_submit", "deposit_paid:task_submit", "refund:refund",
                             "deposit_returned:storage_deposit", "gas:task_submit"})
        EXPECT_TRUE(saw(kSubmitter, what)) << what;
    EXPECT_TRUE(saw(kSolver, "reward:solver_reward"));
    EXPECT_TRUE(saw(kSolver, "gas:task_prove"));
    const auto paid = std::count_if(std::begin(kVerifiers), std::end(kVerifiers),
                                    [&](const auto& verifier) { return saw(verifier, "fee:verifier_fee"); });
    EXPECT_EQ(paid, spec.work.verifiers);
    for (const auto& movement : all_) {
        const bool of_submitter = movement.category == "escrow" || movement.category == "refund" ||
                                  movement.category == "deposit_paid" || movement.category == "deposit_returned";
        EXPECT_EQ(movement.submitter, of_submitter) << movement.category;
        if (movement.category != "gas" && movement.category != "bonded") {
            EXPECT_EQ(movement.task, id);
        }
    }
}

TEST_F(BookkeeperTest, sums_to_what_custodians_earn_and_lose) {
    world.params.market.custodians = 3;
    world.params.market.custody_fee_per_mib = 7;
    for (std::uint64_t i = 0; i < 3; ++i) give(world.state(), address(0xcc0 + i), Uint256(1'000'000'000'000));
    for (std::uint64_t i = 0; i < 3; ++i) world.bond_role(address(0xcc0 + i), Role::custodian, 1'000'000);
    const auto say = [&](std::uint64_t id, std::size_t place) {
        const auto who = world.custody(world.claim(id).id)->custodians.at(place).address;
        expect_ok(world.one(who, types::NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        return who;
    };
    const auto id = reach(ClaimState::custody, truth);
    const auto first = say(id, 0);
    world.skip_until(world.claim(id).deadline);
    expect_ok(world.tick(id));  // the two others have kept silent
    for (std::uint64_t i = 0; i < 3; ++i)
        EXPECT_EQ(saw(address(0xcc0 + i), "slashed:no_custody_receipt"), address(0xcc0 + i) != first);
    const auto another = reach(ClaimState::custody, truth);
    const auto kept = say(another, 0);
    (void)say(another, 1);
    pass_all(another);
    tick_when_due(another);
    ASSERT_EQ(world.task(another).state, TaskState::settled) << world.reason(another);
    EXPECT_TRUE(saw(kept, "fee:custodian_fee"));
}

TEST_F(BookkeeperTest, sums_to_what_profilers_earn_and_lose) {
    constexpr std::uint32_t kAsked = 4;
    for (const auto& who : profilers()) give(world.state(), who, Uint256(1'000'000'000'000'000));
    world.begin();
    ASSERT_TRUE(world.finish());
    for (const auto& who : profilers()) world.bond_role(who, Role::verifier, 100'000'000);
    world.skip(world.params.epoch_length);
    spec = profiled_spec(32, spec.work.interval, kAsked);
    const auto id = submit();
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    const auto profile = some_profile(1e-5F);
    const Bytes measures = core::encode_profile(profile);
    for (const auto& who : profilers())
        expect_ok(world.one(who, NativeKind::profile_commit,
                            types::ProfileCommitPayload{id, core::profile_commitment(who, measures, Hash32{{1}})}));
    for (const auto& who : profilers())
        if (who != profilers().front())
            expect_ok(
                world.one(who, NativeKind::profile_reveal, types::ProfileRevealPayload{id, measures, Hash32{{1}}}));
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    ASSERT_EQ(world.task(id).state, TaskState::open) << world.reason(id);
    for (const auto& who : profilers()) {
        const bool silent = who == profilers().front();
        EXPECT_EQ(saw(who, "fee:profiler_fee"), !silent);
        EXPECT_EQ(saw(who, "slashed:no_reveal"), silent);
    }
    EXPECT_TRUE(saw(kSubmitter, "refund:refund")) << "of the one that showed nothing";
}

TEST_F(BookkeeperTest, sums_to_what_a_held_share_moves) {
    world.params.market.held_percent = 20;
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    const types::DataChallengePayload question{id, 0, 3};
    expect_ok(world.one(kSubmitter, NativeKind::data_challenge, question));
    const tensor::Tensor& slot = truth.states.back()[0];
    const std::vector<Hash32> roots{tensor::tensor_root(slot)};
    const auto answer =
        core::make_piece(id, roots, 0, tensor::tile_hashes(slot), 3, tensor::tile_bytes(tensor::read_tile(slot, 0)));
    expect_ok(world.one(kSecond, NativeKind::data_answer, answer));
    EXPECT_TRUE(saw(kSubmitter, "data_challenge:data_challenge"));
    EXPECT_TRUE(saw(kSecond, "data_answer:data_answer"));
    expect_ok(world.one(kSubmitter, NativeKind::task_accept, types::TaskIdPayload{id}));
    EXPECT_TRUE(saw(kSolver, "reward:held_reward"));
}

TEST_F(BookkeeperTest, sums_to_what_a_forfeited_share_moves) {
    world.params.market.held_percent = 20;
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    expect_ok(world.one(kSubmitter, NativeKind::data_challenge, types::DataChallengePayload{id, 0, 0}));
    world.skip_until(world.task(id).asked.at(0).until);
    expect_ok(world.tick(id));
    EXPECT_TRUE(saw(kSubmitter, "refund:held_forfeited"));
    EXPECT_TRUE(saw(kSubmitter, "data_challenge:data_prepaid"));
    EXPECT_FALSE(saw(kSolver, "reward:held_reward"));
}

TEST_F(BookkeeperTest, sums_to_what_a_lost_dispute_moves) {
    const auto id = reach(ClaimState::proved, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    ASSERT_NE(dispute, 0U);
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_TRUE(saw(kSolver, "slashed:wrong_result"));
    EXPECT_TRUE(saw(kSubmitter, "slash_share:slash_share"));
    for (const char* what : {"deposit_paid:challenge_commit", "dispute_cost:dispute_cost", "bounty:bounty"})
        EXPECT_TRUE(saw(kWhistleblower, what)) << what;
    const auto slash =
        std::find_if(all_.begin(), all_.end(), [](const auto& each) { return each.category == "slashed"; });
    ASSERT_NE(slash, all_.end());
    EXPECT_EQ(slash->task, id);
    EXPECT_EQ(slash->role, Role::solver);
}

// Whose bond a challenge is staked in says in which role it is one.
TEST_F(BookkeeperTest, names_the_role_of_a_challenge) {
    const auto id = reach(ClaimState::challenge, truth);
    const types::Address verifier = world.reports(id)[0].verifier;
    for (const auto& [who, role] :
         {std::pair(kWhistleblower, Role::whistleblower), std::pair(verifier, Role::verifier)}) {
        expect_ok(world.one(who, NativeKind::challenge_commit,
                            types::ChallengeCommitPayload{id, 0, crypto::sha256(as_bytes("never told"))}));
        const auto paid = std::find_if(all_.rbegin(), all_.rend(), [](const auto& each) {
            return each.reason == "challenge_commit" && each.category != "gas";
        });
        ASSERT_NE(paid, all_.rend());
        EXPECT_EQ(paid->category, "deposit_paid");
        EXPECT_EQ(paid->role, role);
    }
    all_.clear();
    tick_when_due(id);
    std::set<Role> slashed;
    std::size_t returned = 0;
    for (const auto& movement : all_) {
        if (movement.category == "slashed") slashed.insert(movement.role.value());
        returned += movement.category == "deposit_returned";
        EXPECT_FALSE(movement.category == "deposit_returned" && movement.role) << "the chain does not say";
    }
    EXPECT_EQ(slashed, (std::set{Role::whistleblower, Role::verifier}));
    EXPECT_EQ(returned, 2U);
}

TEST_F(BookkeeperTest, sums_to_what_bonding_moves) {
    using types::BondPayload;
    expect_ok(world.one(kSolver, NativeKind::bond, BondPayload{Role::solver, 900'000}));
    world.begin();
    expect_ok(world.call(kSolver, NativeKind::unbond, types::UnbondPayload{Role::solver, 400'000}));
    ASSERT_TRUE(world.finish());
    world.skip(world.params.market.unbonding_blocks + 1);
    expect_ok(world.one(kSolver, NativeKind::withdraw, types::WithdrawPayload{Role::solver}));
    for (const char* what : {"bonded:bond", "unbonding:unbond", "withdrawn:withdraw"})
        EXPECT_TRUE(saw(kSolver, what)) << what;
    EXPECT_EQ(held(kSolver).bonds.at(0).bonded, Uint256(500'000));
}

TEST_F(BookkeeperTest, tells_the_deposit_of_evidence) {
    using types::EvidenceCommitPayload;
    expect_ok(world.one(kSecond, NativeKind::evidence_commit, EvidenceCommitPayload{crypto::sha256(as_bytes("a"))}));
    expect_ok(world.one(kSecond, NativeKind::evidence_commit, EvidenceCommitPayload{crypto::sha256(as_bytes("b"))}));
    expect_ok(world.one(kSecond, NativeKind::evidence_commit, EvidenceCommitPayload{}));
    EXPECT_EQ(seen_[kSecond], (std::set<std::string>{"deposit_paid:evidence_commit", "deposit_returned:evidence_commit",
                                                     "gas:evidence_commit"}));
    ASSERT_FALSE(all_.empty());
    EXPECT_EQ(all_[0].category, "deposit_paid") << "before the gas of what paid it";
    EXPECT_EQ(all_[0].amount, chain::market::evidence_deposit(world.params.market));
}

TEST_F(BookkeeperTest, lists_the_gas_of_what_failed) {
    expect_ok(world.one(kSolver, NativeKind::bond, types::BondPayload{Role::solver, 900'000}));
    const auto result = world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{99});
    EXPECT_EQ(name(result), "task.unknown");
    EXPECT_TRUE(saw(kSolver, "gas:task_start"));
    EXPECT_EQ(all_.back().task, 99U);
}

TEST_F(BookkeeperTest, a_bond_that_does_not_decode_is_a_fault) {
    world.state().set_native(types::key_of<types::RoleBond>(Role::solver, kSolver), Bytes{1});
    EXPECT_EQ(holdings_of(world.state(), kSolver).error().name, "state.corrupt_object");
}

TEST_F(BookkeeperTest, tells_a_bond_apart_from_a_slash_in_the_same_block) {
    api::Holdings before;
    before.bonds.push_back({Role::solver, 100, 0, 0});
    Bookkeeper books(kSolver, before);
    types::Receipt slashed;
    slashed.success = true;
    slashed.logs = {types::abi::event_log(types::group_address(types::KindGroup::roles),
                                          events::Slashed{kSolver, 7, Role::solver, 30, "no_start"})};
    books.add(from(kSecond, native(0, NativeKind::tick, types::TickPayload{types::TickObject::task, 7})), slashed, {});
    types::Receipt bonded;
    bonded.success = true;
    bonded.logs = {types::abi::event_log(types::group_address(types::KindGroup::roles),
                                         events::BondChanged{kSolver, Role::solver, 120, 0})};
    books.add(from(kSolver, native(0, NativeKind::bond, types::BondPayload{Role::solver, 50})), bonded, {});
    const auto movements = books.take();
    ASSERT_EQ(movements.size(), 2U);
    EXPECT_EQ(movements[0].amount, 30);
    EXPECT_EQ(movements[0].task, 7U);
    EXPECT_EQ(movements[1].amount, 50);
    EXPECT_EQ(movements[1].category, "bonded");
}

}  // namespace
}  // namespace quern::node
