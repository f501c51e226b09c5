// Native payloads and objects in their three forms: RLP, Solidity ABI and JSON.
#include "chain/types/abi.h"
#include "chain/types/json_codec.h"
#include "chain/types/native_objects.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"

namespace quern::fuzz {
namespace {

using namespace chain::types;

// The JSON form leads back to the record, in memory and through text. Texts that are no UTF-8 (JSON has no other) are
// compared in memory only.
template <Record T>
void check_json(const T& record, BytesView encoded) {
    const json::Value value = to_json(record);
    const auto again = record_from_json<T>(value, ExtraMembers::refuse);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(equal(encode_record(*again), encoded));
    const auto parsed = json::parse(value.dump());
    QUERN_ACCEPTED(parsed);
    QUERN_ACCEPTED(record_from_json<T>(*parsed, ExtraMembers::refuse));
}

// Input: kind, then the payload's RLP.
bool run_payload(BytesView input) {
    if (input.empty()) return false;
    const NativeKindInfo* info = find_kind(input[0]);
    if (info == nullptr) return false;
    const BytesView payload = input.subspan(1);
    return visit_kind(info->kind, [&]<class Kind, class Tag>(Kind, Tag) {
        const auto record = decode_record<typename Tag::Payload>(payload);
        const auto call = abi::encode_call(info->kind, payload);
        QUERN_PROPERTY(record.has_value() == call.has_value());
        if (!record) return false;
        QUERN_PROPERTY(equal(encode_record(*record), payload));
        const auto back = abi::decode_call(info->group, *call);
        QUERN_ACCEPTED(back);
        QUERN_PROPERTY(back->kind == info->kind && equal(back->payload, payload));
        check_json(*record, payload);
        return true;
    });
}

// Input: group, then call data.
bool run_abi(BytesView input) {
    if (input.empty()) return false;
    const auto group = static_cast<KindGroup>(input[0]);
    const BytesView call_data = input.subspan(1);
    const auto call = abi::decode_call(group, call_data);
    (void)abi::decode_error(call_data);
    if (!call) return false;
    QUERN_PROPERTY(group_of(call->kind) == group);
    const auto again = abi::encode_call(call->kind, call->payload);
    if (!again) return false;  // a payload that is the argument itself is decoded by who runs it
    QUERN_PROPERTY(equal(*again, call_data));
    return true;
}

std::vector<Seed> seeds_payload() {
    std::vector<Seed> seeds;
    for (const NativeKindInfo& info : native_kinds())
        visit_kind(info.kind, [&]<class Kind, class Tag>(Kind, Tag) {
            const auto record = filled_record<typename Tag::Payload>(static_cast<std::uint64_t>(info.kind));
            Bytes bytes{static_cast<std::uint8_t>(info.kind)};
            append(bytes, encode_record(record));
            seeds.push_back({std::string(info.name), std::move(bytes)});
        });
    return seeds;
}

std::vector<Seed> seeds_abi() {
    std::vector<Seed> seeds;
    for (const Seed& seed : seeds_payload()) {
        const auto kind = static_cast<NativeKind>(seed.bytes[0]);
        const auto call = abi::encode_call(kind, BytesView(seed.bytes).subspan(1));
        QUERN_ACCEPTED(call);
        Bytes bytes{static_cast<std::uint8_t>(group_of(kind))};
        append(bytes, *call);
        seeds.push_back({seed.name, std::move(bytes)});
    }
    return seeds;
}

// --- Objects ---------------------------------------------------------------------------------------------------------
template <Record T>
bool run_object_as(BytesView encoded) {
    const auto record = decode_record<T>(encoded);
    if (!record) return false;
    QUERN_PROPERTY(equal(encode_record(*record), encoded));
    check_json(*record, encoded);
    return true;
}

// Input: prefix of the object's key, then its RLP.
bool run_object(BytesView input) {
    if (input.empty()) return false;
    const BytesView encoded = input.subspan(1);
    switch (static_cast<ObjectPrefix>(input[0])) {
        case ObjectPrefix::globals:
            return run_object_as<Globals>(encoded);
        case ObjectPrefix::beacon:
            return run_object_as<BeaconObject>(encoded);
        case ObjectPrefix::epoch:
            return run_object_as<EpochObject>(encoded);
        case ObjectPrefix::validator:
            return run_object_as<ValidatorObject>(encoded);
        case ObjectPrefix::validator_rank:
            return run_object_as<CommitteeEntry>(encoded);
        case ObjectPrefix::stake_delegation:
            return run_object_as<StakeDelegation>(encoded);
        case ObjectPrefix::stake_unbonding:
            return run_object_as<StakeUnbonding>(encoded);
        case ObjectPrefix::conviction:
            return run_object_as<Conviction>(encoded);
        case ObjectPrefix::evidence_commitment:
            return run_object_as<EvidenceCommitment>(encoded);
        case ObjectPrefix::role_bond:
            return run_object_as<RoleBond>(encoded);
        case ObjectPrefix::draw_node:
            return run_object_as<DrawNode>(encoded);
        case ObjectPrefix::draw_table:
            return run_object_as<DrawTable>(encoded);
        case ObjectPrefix::task:
            return run_object_as<Task>(encoded);
        case ObjectPrefix::claim:
            return run_object_as<Claim>(encoded);
        case ObjectPrefix::report:
            return run_object_as<VerifierReport>(encoded);
        case ObjectPrefix::custody:
            return run_object_as<Custody>(encoded);
        case ObjectPrefix::proof:
            return run_object_as<ProofRecord>(encoded);
        case ObjectPrefix::challenge:
            return run_object_as<ChallengeCommitment>(encoded);
        case ObjectPrefix::dispute:
            return run_object_as<Dispute>(encoded);
        case ObjectPrefix::watch:
            return run_object_as<Watch>(encoded);
    }
    return false;
}

template <Record T>
void add_object(std::vector<Seed>& seeds, const char* name, ObjectPrefix prefix) {
    for (const std::size_t items : {0U, 2U}) {
        Bytes bytes{static_cast<std::uint8_t>(prefix)};
        append(bytes, encode_record(filled_record<T>(items + static_cast<std::uint64_t>(prefix), items)));
        seeds.push_back({std::string(name) + "_" + std::to_string(items), std::move(bytes)});
    }
}

std::vector<Seed> seeds_object() {
    std::vector<Seed> seeds;
    add_object<Globals>(seeds, "globals", ObjectPrefix::globals);
    add_object<BeaconObject>(seeds, "beacon", ObjectPrefix::beacon);
    add_object<EpochObject>(seeds, "epoch", ObjectPrefix::epoch);
    add_object<ValidatorObject>(seeds, "validator", ObjectPrefix::validator);
    add_object<CommitteeEntry>(seeds, "validator_rank", ObjectPrefix::validator_rank);
    add_object<StakeDelegation>(seeds, "stake_delegation", ObjectPrefix::stake_delegation);
    add_object<StakeUnbonding>(seeds, "stake_unbonding", ObjectPrefix::stake_unbonding);
    add_object<Conviction>(seeds, "conviction", ObjectPrefix::conviction);
    add_object<EvidenceCommitment>(seeds, "evidence_commitment", ObjectPrefix::evidence_commitment);
    add_object<RoleBond>(seeds, "role_bond", ObjectPrefix::role_bond);
    add_object<Task>(seeds, "task", ObjectPrefix::task);
    add_object<Claim>(seeds, "claim", ObjectPrefix::claim);
    add_object<VerifierReport>(seeds, "report", ObjectPrefix::report);
    add_object<Custody>(seeds, "custody", ObjectPrefix::custody);
    add_object<ProofRecord>(seeds, "proof", ObjectPrefix::proof);
    add_object<ChallengeCommitment>(seeds, "challenge", ObjectPrefix::challenge);
    add_object<Dispute>(seeds, "dispute", ObjectPrefix::dispute);
    add_object<Watch>(seeds, "watch", ObjectPrefix::watch);
    return seeds;
}

}  // namespace

std::span<const Target> native_targets() {
    static constexpr Target kTargets[] = {
        {"native_payload", run_payload, seeds_payload},
        {"native_abi", run_abi, seeds_abi},
        {"native_object", run_object, seeds_object},
    };
    return kTargets;
}

}  // namespace quern::fuzz
