// Thousands of random staking operations on one chain. After every block the invariants look at the whole state; here
// committees are compared with a plain model, and what accounts get out with what they put in.
#include <algorithm>

#include "base/rng.h"
#include "staking_world.h"

namespace quern::chain::exec::test {
namespace {

using types::NativeKind;

constexpr std::uint64_t kBlocks = 700;
constexpr std::uint8_t kKeys = 14;
constexpr std::uint64_t kActors = 9;

class RandomStaking {
public:
    explicit RandomStaking(std::uint64_t seed) : rng_(seed), world(stake_genesis({1000, 7000, 2500, 1000, 1300})) {
        world.params.staking.max_validators = 6;
        for (std::uint64_t i = 0; i < kActors; ++i) give(world.overlay, actor(i), kPurse);
        for (const auto& who : {late_reporter_, patient_reporter_}) give(world.overlay, who, kPurse);
    }

    void run() {
        for (std::uint64_t i = 0; i < kBlocks; ++i) {
            std::vector<StakingWorld::Call> calls;
            std::set<types::Address> senders;  // one transaction of each, so that nonces are known
            for (std::uint64_t k = rng_.below(8); k > 0; --k) {
                auto call = random_call();
                if (senders.insert(call.sender).second) calls.push_back(std::move(call));
            }
            // Several often see the same offence.
            const auto evidence = std::find_if(calls.begin(), calls.end(), [](const auto& call) {
                return call.tx.native_kind == static_cast<std::uint8_t>(NativeKind::evidence);
            });
            if (evidence != calls.end() && senders.insert(late_reporter_).second) {
                auto again = *evidence;
                again.sender = late_reporter_;
                again.tx.nonce = world.nonce(late_reporter_);
                calls.push_back(std::move(again));
            }
            for (const auto& result : world.block(calls)) ++outcomes[world.name(result)];
            if (::testing::Test::HasFailure()) return;
            check_pools();
            count_paid_reports();
            if (world.height % kEpochLength == kEpochLength - 1) check_committee(world.height / kEpochLength + 2);
        }
    }

    std::map<std::string, std::uint64_t> outcomes;

private:
    static types::Address actor(std::uint64_t i) { return address(1 + i); }
    types::Address random_sender() {
        const std::uint64_t i = rng_.below(kActors + 5);
        return i < kActors ? actor(i) : validator_of(static_cast<std::uint8_t>(i - kActors + 1));
    }
    types::EvidencePayload random_evidence() {
        const auto seed = static_cast<std::uint8_t>(1 + rng_.below(kKeys));
        const std::uint64_t now = world.height / kEpochLength;
        return StakingWorld::payload(world.double_vote(seed, now - std::min(now, rng_.below(6))));
    }
    types::Address random_validator() { return validator_of(static_cast<std::uint8_t>(1 + rng_.below(kKeys))); }

    StakingWorld::Call random_call() {
        const auto sender = random_sender();
        const auto validator = random_validator();
        switch (rng_.below(20)) {
            case 0: {
                const auto seed = static_cast<std::uint8_t>(1 + rng_.below(kKeys));
                return world.make(
                    sender, NativeKind::create_validator,
                    types::CreateValidatorPayload{
                        public_key(seed), types::sign_validator_proof(world.params.chain_id, sender, stake_key(seed)),
                        Uint256(900 + rng_.below(3000))});
            }
            case 1: {
                if (rng_.below(6) != 0) break;
                return world.make(sender, NativeKind::evidence, random_evidence());
            }
            case 11: {
                if (world.commitment(patient_reporter_) && rng_.below(3) != 0)
                    return world.make(patient_reporter_, NativeKind::evidence, planned_);
                planned_ = random_evidence();
                types::EvidenceCommitPayload data;
                if (rng_.below(6) != 0)
                    data.commitment = consensus::sdbft::evidence_commitment(patient_reporter_, planned_.evidence);
                return world.make(patient_reporter_, NativeKind::evidence_commit, data);
            }
            case 2:
            case 3:
            case 4:
            case 5:
            case 6:
            case 7: {
                const Uint256 value = world.value(validator, sender);
                Uint256 amount = value;
                if (rng_.below(3) != 0) amount = Uint256(1 + rng_.below(value.low_u64() + 2));
                return world.make(sender, NativeKind::undelegate, types::UndelegatePayload{validator, amount});
            }
            case 8:
            case 9:
            case 10:
                return world.make(sender, NativeKind::withdraw_stake,
                                  types::WithdrawStakePayload{validator, random_sender()});
            default:
                break;
        }
        return world.make(sender, NativeKind::delegate,
                          types::DelegatePayload{validator, Uint256(1 + rng_.below(rng_.below(2) != 0 ? 20 : 3000))});
    }

    // The patient one is the only one to be paid.
    void count_paid_reports() {
        for (std::uint8_t seed = 1; seed <= kKeys; ++seed) {
            const auto validator = world.validator(validator_of(seed));
            if (!validator.tombstoned || validator.convicted_at != world.height) continue;
            ++outcomes[validator.reporter.is_zero() ? "unpaid report" : "paid report"];
            ASSERT_TRUE(validator.reporter.is_zero() || validator.reporter == patient_reporter_);
        }
    }

    // Nobody's part is more than the pool; together they are all of it but for the dust.
    void check_pools() {
        std::map<types::Address, std::pair<Uint256, std::uint64_t>> parts;
        for (const auto& [key, value] :
             world.overlay.native_range(types::object_key(types::ObjectPrefix::stake_delegation), {}, 10'000)) {
            const auto delegation = *types::decode_record<types::StakeDelegation>(value);
            auto& [sum, holders] = parts[delegation.validator];
            sum += market::value_of(world.validator(delegation.validator), delegation.shares);
            ++holders;
        }
        for (const auto& [validator, part] : parts) {
            const Uint256 stake = world.validator(validator).stake;
            ASSERT_LE(part.first, stake);
            ASSERT_LE(stake - part.first, Uint256(part.second)) << "less than a grain for each holder";
        }
        for (const auto& [key, value] :
             world.overlay.native_range(types::object_key(types::ObjectPrefix::stake_unbonding), {}, 10'000)) {
            const auto unbonding = *types::decode_record<types::StakeUnbonding>(value);
            ASSERT_LE(unbonding.entries.size(), world.params.staking.max_unbonding_entries);
            for (std::size_t i = 1; i < unbonding.entries.size(); ++i)
                ASSERT_LE(unbonding.entries[i - 1].matures_at, unbonding.entries[i].matures_at);
        }
    }

    // The same committee, found by sorting all validators.
    void check_committee(std::uint64_t epoch) {
        std::vector<types::ValidatorObject> all;
        for (const auto& [key, value] :
             world.overlay.native_range(types::object_key(types::ObjectPrefix::validator), {}, 1000)) {
            auto validator = *types::decode_record<types::ValidatorObject>(value);
            if (!validator.tombstoned && validator.stake >= world.params.staking.min_validator_stake)
                all.push_back(std::move(validator));
        }
        std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.stake > b.stake; });
        if (all.size() > world.params.staking.max_validators) all.resize(world.params.staking.max_validators);
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
        const auto object = world.epoch(epoch);
        ASSERT_TRUE(object);
        if (all.empty()) {
            ASSERT_EQ(types::encode_record(types::EpochObject{object->members, {}}),
                      types::encode_record(types::EpochObject{world.epoch(epoch - 1)->members, {}}));
            ++outcomes["kept committee"];
            return;
        }
        ASSERT_EQ(object->members.size(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            ASSERT_EQ(object->members[i].public_key, all[i].public_key);
            ASSERT_EQ(object->members[i].weight, all[i].stake);
        }
    }

    SeededRng rng_;
    const types::Address late_reporter_ = address(500);
    const types::Address patient_reporter_ = address(501);  // commits first
    types::EvidencePayload planned_;

public:
    StakingWorld world;
};

TEST(RandomStakingOperations, keep_supply_shares_and_committees_right) {
    std::map<std::string, std::uint64_t> outcomes;
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomStaking chain(seed);
        chain.run();
        if (HasFailure()) return;
        for (const auto& [name, count] : chain.outcomes) outcomes[name] += count;
    }
    // The operations do reach what is to be tested.
    EXPECT_GT(outcomes["ok"], 2000U);
    for (const char* name : {"stake.insufficient", "stake.nothing_to_withdraw", "validator.unknown", "validator.exists",
                             "validator.tombstoned", "evidence.already_convicted", "evidence.not_in_committee",
                             "stake.below_minimum", "evidence.no_commitment", "paid report", "unpaid report"})
        EXPECT_GT(outcomes[name], 0U) << name;
}

TEST(RandomStakingOperations, give_the_same_state_whenever_they_run) {
    RandomStaking first(11);
    RandomStaking second(11);
    first.run();
    second.run();
    EXPECT_EQ(first.world.overlay.changed_native(), second.world.overlay.changed_native());
}

}  // namespace
}  // namespace quern::chain::exec::test
