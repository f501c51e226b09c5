// What native kinds cost: what they look at and what they change, each by its number and size.
#include "chain/exec/tx_executor.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

using params::kNativeGasPerRead;
using params::kNativeGasPerReadByte;

class NativeGas : public Lifecycle {
protected:
    NativeGas() { world.params.check_invariants = false; }  // bonds that nobody paid for
    static types::Address crowd(std::uint32_t number) {
        types::Address address;
        address.data[0] = 0xcc;
        for (std::size_t i = 0; i < 4; ++i) address.data[19 - i] = static_cast<std::uint8_t>(number >> (8 * i));
        return address;
    }
    // So many bonds of verifiers, each the same number of bytes.
    std::size_t bond_crowd(std::uint32_t from, std::uint32_t to) {
        types::RoleBond bond;
        bond.role = Role::verifier;
        bond.bonded = 1'000'000;
        for (std::uint32_t i = from; i < to; ++i) {
            bond.address = crowd(i);
            world.state().store(types::key_of<types::RoleBond>(bond.role, bond.address), bond);
        }
        return types::encode_record(bond).size();
    }
    // A task whose tick will assign it, which looks at the verifiers' bonds.
    std::uint64_t due_for_assignment() {
        const auto id = submit();
        expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        world.skip_until_due(id);
        return id;
    }
    std::uint64_t gas_of_tick(std::uint64_t id) {
        const auto result = world.tick(id);
        EXPECT_EQ(result.band, Band::ok) << result.to_string();
        return world.last_receipt().gas_used;
    }
    Result tick_with(std::uint64_t id, std::uint64_t gas) {
        world.begin();
        types::Transaction tx = world.call_transaction(
            kSubmitter, NativeKind::tick, types::encode_record(types::TickPayload{types::TickObject::task, id}));
        tx.gas_limit = gas;
        auto result = world.send_transaction(kSubmitter, tx);
        EXPECT_TRUE(world.finish());
        return result;
    }
};

TEST_F(NativeGas, a_tick_pays_for_each_bond_that_its_draw_looks_at) {
    bond_everybody();
    world.bond_role(kSolver, Role::solver, 100'000);  // for two tasks
    bond_crowd(0, 100);
    const auto few = due_for_assignment();
    const std::uint64_t gas_of_few = gas_of_tick(few);
    const std::size_t bytes = bond_crowd(100, 1'000);
    const auto many = due_for_assignment();
    const std::uint64_t gas_of_many = gas_of_tick(many);
    const std::uint64_t expected = 900 * (kNativeGasPerRead + kNativeGasPerReadByte * bytes);
    // Around the end of the range at most a page of 64 is read twice.
    EXPECT_NEAR(static_cast<double>(gas_of_many - gas_of_few), static_cast<double>(expected),
                64.0 * static_cast<double>(kNativeGasPerRead + kNativeGasPerReadByte * bytes));
}

TEST_F(NativeGas, the_worst_draw_is_paid_for_and_fits_a_block) {
    bond_everybody();
    bond_crowd(0, params::kMaxDrawCandidates + 100);
    const std::uint64_t gas = gas_of_tick(due_for_assignment());
    EXPECT_GT(gas, params::kMaxDrawCandidates * kNativeGasPerRead);
    EXPECT_LT(gas, 30'000'000U / 4) << "the smallest gas limit that a genesis may set";
}

TEST_F(NativeGas, a_tick_without_the_gas_for_its_draw_stops_looking_and_changes_nothing) {
    bond_everybody();
    bond_crowd(0, 2'000);
    const auto id = due_for_assignment();
    const auto result = tick_with(id, 200'000);
    EXPECT_EQ(result.band, Band::failed);
    EXPECT_EQ(result.name, "out of gas");
    EXPECT_EQ(world.last_receipt().gas_used, 200'000U);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).bids.size(), 1U);
    EXPECT_EQ(gas_of_tick(id) / 1'000'000, 1U);
}

TEST_F(NativeGas, what_fails_pays_for_what_it_looked_at) {
    bond_everybody();
    const auto id = submit();
    const auto early = world.tick(id);
    EXPECT_EQ(early.name, "tick.too_early");
    const std::uint64_t small = world.last_receipt().gas_used;
    auto task = world.task(id);
    for (int i = 0; i < 1'000; ++i) task.barred.push_back(crowd(1));
    world.state().store(types::key_of<types::Task>(id), task);
    EXPECT_EQ(world.tick(id).name, "tick.too_early");
    EXPECT_GT(world.last_receipt().gas_used, small + 20'000);
}

TEST_F(NativeGas, a_larger_object_costs_more_to_change) {
    bond_everybody();
    const auto small = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{small, 0, 3}));
    const std::uint64_t gas_of_small = world.last_receipt().gas_used;
    const auto large = submit();
    auto task = world.task(large);
    for (int i = 0; i < 1'000; ++i) task.barred.push_back(crowd(1));
    world.state().store(types::key_of<types::Task>(large), task);
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{large, 0, 3}));
    const std::uint64_t more = 21'000 * (kNativeGasPerReadByte + params::kNativeGasPerWrittenByte);
    EXPECT_NEAR(static_cast<double>(world.last_receipt().gas_used - gas_of_small), static_cast<double>(more), 100);
}

TEST_F(NativeGas, accounts_and_events_are_paid_for) {
    // What a bond needs: its own object twice, the sender's account, one event.
    world.bond_role(kSolver, Role::solver, 100'000);
    const auto& receipt = world.last_receipt();
    ASSERT_EQ(receipt.logs.size(), 1U);
    const auto bond = types::encode_record(world.bond(Role::solver, kSolver)).size();
    const auto payload = types::encode_record(types::BondPayload{Role::solver, 100'000});
    const auto& log = receipt.logs[0];
    types::Transaction tx;
    tx.type = types::TxType::native;
    tx.native_kind = static_cast<std::uint8_t>(NativeKind::bond);
    tx.data = payload;
    const std::uint64_t gas = due_gas(tx) + kNativeGasPerRead + params::kNativeGasPerObject +
                              params::kNativeGasPerWrittenByte * bond + params::kNativeGasPerAccount + params::kLogGas +
                              params::kLogTopicGas * log.topics.size() + params::kLogByteGas * log.data.size();
    EXPECT_EQ(receipt.gas_used, gas + params::kNativeGasPerStoredByte * bond);
    // The same again: what is there already is read and written, and not paid for as new.
    world.bond_role(kSolver, Role::solver, 100'000);
    ASSERT_EQ(types::encode_record(world.bond(Role::solver, kSolver)).size(), bond);
    EXPECT_EQ(world.last_receipt().gas_used, gas + kNativeGasPerReadByte * bond);
}

// What is kept must cost more than what is sent, and that more than what is looked at.
static_assert(params::kNativeGasPerStoredByte > 16 && params::kNativeGasPerWrittenByte > kNativeGasPerReadByte);

TEST_F(NativeGas, disputes_of_earlier_rounds_cost_nothing_more) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto first = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    const auto before = world.last_receipt().gas_used;
    // The same with a thousand closed ones before it.
    auto dispute = world.dispute(first);
    auto claim = world.claim(id);
    dispute.closed_at = 1;
    dispute.deadline = 0;
    std::vector<std::uint64_t> closed;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
        dispute.id = 1'000'000 + i;
        world.state().store(types::key_of<types::Dispute>(dispute.id), dispute);
        closed.push_back(dispute.id);
    }
    claim.disputes.insert(claim.disputes.begin(), closed.begin(), closed.end());
    world.state().store(types::key_of<types::Claim>(claim.id), claim);
    const Hash32 salt = crypto::sha256(as_bytes("other"));
    world.bond_role(kSecond, Role::whistleblower, 1'000'000);
    expect_ok(world.one(kSecond, NativeKind::challenge_commit,
                        types::ChallengeCommitPayload{id, 0, core::challenge_commitment(kSecond, truth.root, salt)}));
    expect_ok(world.one(kSecond, NativeKind::challenge_reveal,
                        types::ChallengeRevealPayload{id, 0, 0, truth.root, salt, history_opening(truth)}));
    // Their numbers in the task are what remains, read and written.
    EXPECT_LT(world.last_receipt().gas_used, before + 1'000 * 5 * 3 + 20'000);
}

}  // namespace
}  // namespace quern::chain::exec::test
