// A chain with a few validators for the tests of staking: genesis from real keys, blocks of transactions on one overlay
// over nothing, so that the invariants look at the whole state after each block.
#pragma once

#include <map>
#include <set>

#include "chain/consensus/sdbft/evidence.h"
#include "chain/exec/genesis.h"
#include "chain/exec/handlers/stake_pool.h"
#include "chain/exec/invariants/invariants.h"
#include "chain/market/shares.h"
#include "chain/types/validator_proof.h"
#include "support.h"

namespace quern::chain::exec::test {

inline constexpr std::uint64_t kEpochLength = 4;
inline constexpr std::uint64_t kUnbonding = 12;
inline constexpr std::uint64_t kPurse = 1'000'000'000'000;  // what each account has besides stakes

inline crypto::PrivateKey stake_key(std::uint8_t seed) {
    Hash32 secret;
    secret.data[0] = 0x11;
    secret.data[31] = seed;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}
inline Bytes public_key(std::uint8_t seed) { return to_bytes(crypto::derive_public(stake_key(seed)).bytes.view()); }
inline types::Address validator_of(std::uint8_t seed) {
    return crypto::address20(crypto::derive_public(stake_key(seed)));
}

inline Genesis stake_genesis(const std::vector<Uint256>& stakes) {
    Genesis genesis;
    genesis.params.epoch_length = kEpochLength;
    genesis.params.staking.unbonding_blocks = kUnbonding;
    genesis.params.staking.min_validator_stake = 1000;
    genesis.params.market.storage_deposit_per_byte = 5;
    for (std::size_t i = 0; i < stakes.size(); ++i) {
        genesis.validators.push_back({public_key(static_cast<std::uint8_t>(i + 1)), stakes[i]});
        genesis.allocations.push_back({validator_of(static_cast<std::uint8_t>(i + 1)), Uint256(kPurse)});
    }
    return genesis;
}

class StakingWorld {
public:
    explicit StakingWorld(const Genesis& genesis) : overlay(empty), params(genesis.params) {
        EXPECT_TRUE(check_genesis(genesis));
        apply_genesis(genesis, overlay);
        params.genesis_hash = crypto::sha256(as_bytes("genesis of the staking tests"));
    }

    struct Call {
        types::Address sender;
        types::Transaction tx;
    };
    template <types::Record T>
    Call make(const types::Address& sender, types::NativeKind kind, const T& payload) {
        return {sender, native(nonce(sender), kind, payload)};
    }
    // Makes a block of these; fails the test when an invariant breaks.
    std::vector<Result> block(const std::vector<Call>& calls) {
        BlockExecution execution(params, overlay, block_context(++height));
        execution.begin();
        std::vector<Result> results;
        for (const auto& call : calls) results.push_back(execution.apply(from(call.sender, call.tx)));
        const auto status = execution.finish();
        EXPECT_TRUE(status) << status.error().to_string();
        receipts = execution.receipts();
        return results;
    }
    // A block with one transaction.
    template <types::Record T>
    Result call(const types::Address& sender, types::NativeKind kind, const T& payload) {
        return block({make(sender, kind, payload)})[0];
    }
    std::string name(const Result& result) { return std::string(result.band == Band::ok ? "ok" : result.name); }
    Result delegate(const types::Address& who, const types::Address& validator, const Uint256& amount) {
        return call(who, types::NativeKind::delegate, types::DelegatePayload{validator, amount});
    }
    Result undelegate(const types::Address& who, const types::Address& validator, const Uint256& amount) {
        return call(who, types::NativeKind::undelegate, types::UndelegatePayload{validator, amount});
    }
    Result withdraw(const types::Address& sender, const types::Address& validator, const types::Address& delegator) {
        return call(sender, types::NativeKind::withdraw_stake, types::WithdrawStakePayload{validator, delegator});
    }
    void run_to(std::uint64_t target) {
        while (height < target) block({});
    }

    std::uint64_t nonce(const types::Address& of) const { return overlay.account_or_empty(of).nonce; }
    template <types::Record T>
    std::optional<T> object(const Bytes& key) const {
        const auto bytes = overlay.native(key);
        if (!bytes) return std::nullopt;
        return *types::decode_record<T>(*bytes);
    }
    std::optional<types::EpochObject> epoch(std::uint64_t number) const {
        return object<types::EpochObject>(types::object_key(types::ObjectPrefix::epoch, number));
    }
    types::ValidatorObject validator(const types::Address& address) const {
        return object<types::ValidatorObject>(types::object_key(types::ObjectPrefix::validator, address))
            .value_or(types::ValidatorObject{});
    }
    Uint256 shares(const types::Address& of, const types::Address& who) const {
        const auto found = object<types::StakeDelegation>(types::key_of<types::StakeDelegation>(of, who));
        return found ? found->shares : Uint256();
    }
    Uint256 value(const types::Address& of, const types::Address& who) const {
        return market::value_of(validator(of), shares(of, who));
    }
    std::vector<types::StakeUnbondingEntry> unbonding(const types::Address& of, const types::Address& who) const {
        const auto found = object<types::StakeUnbonding>(types::key_of<types::StakeUnbonding>(of, who));
        return found ? found->entries : std::vector<types::StakeUnbondingEntry>();
    }
    types::Globals globals() const { return *object<types::Globals>(types::object_key(types::ObjectPrefix::globals)); }

    consensus::ChainIdentity identity() const { return {params.genesis_hash, params.chain_id}; }
    using Vote = consensus::Vote;
    consensus::sdbft::Evidence pair(std::uint8_t seed, const Vote& first, const Vote& second) const {
        const consensus::sdbft::KeySigner signer(stake_key(seed));
        return {signer.public_key(), first, signer.sign(consensus::vote_digest(identity(), first)), second,
                signer.sign(consensus::vote_digest(identity(), second))};
    }
    // Two NOTARIZE of one view.
    consensus::sdbft::Evidence double_vote(std::uint8_t seed, std::uint64_t at_epoch) const {
        return pair(seed, {consensus::VoteType::notarize, at_epoch, 3, crypto::sha256(as_bytes("one"))},
                    {consensus::VoteType::notarize, at_epoch, 3, crypto::sha256(as_bytes("other"))});
    }
    static types::EvidencePayload payload(const consensus::sdbft::Evidence& evidence) {
        return {consensus::sdbft::encode(evidence)};
    }
    Result commit(const types::Address& who, const Hash32& commitment) {
        return call(who, types::NativeKind::evidence_commit, types::EvidenceCommitPayload{commitment});
    }
    static Hash32 commitment_of(const types::Address& who, const consensus::sdbft::Evidence& evidence) {
        return consensus::sdbft::evidence_commitment(who, consensus::sdbft::encode(evidence));
    }
    std::optional<types::EvidenceCommitment> commitment(const types::Address& who) const {
        return object<types::EvidenceCommitment>(types::key_of<types::EvidenceCommitment>(who));
    }
    Result report(const types::Address& who, const consensus::sdbft::Evidence& evidence) {
        return call(who, types::NativeKind::evidence, payload(evidence));
    }

    EmptyState empty;
    state::Overlay overlay;
    params::ChainParams params;
    std::uint64_t height = 0;
    std::vector<types::Receipt> receipts;
};

}  // namespace quern::chain::exec::test
