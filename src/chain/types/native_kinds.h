// The registry of native kinds: number, group (reserved address), payload and Solidity function name of each. The ABI
// codec, execution's dispatch and RPC's JSON are generated from it; adding a kind is one line here and its handler.
// Pure; thread-safe.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "chain/types/native_tx.h"

namespace quern::chain::types {

// X(kind, group, payload, function)
#define QUERN_NATIVE_KINDS(X)                                                 \
    X(create_validator, staking, CreateValidatorPayload, "createValidator")   \
    X(delegate, staking, DelegatePayload, "delegate")                         \
    X(undelegate, staking, UndelegatePayload, "undelegate")                   \
    X(withdraw_stake, staking, WithdrawStakePayload, "withdraw")              \
    X(evidence, staking, EvidencePayload, "evidence")                         \
    X(bond, roles, BondPayload, "bond")                                       \
    X(unbond, roles, UnbondPayload, "unbond")                                 \
    X(withdraw, roles, WithdrawPayload, "withdraw")                           \
    X(declare_capacity, roles, DeclareCapacityPayload, "declareCapacity")     \
    X(task_submit, tasks, TaskSubmitPayload, "submit")                        \
    X(task_cancel, tasks, TaskIdPayload, "cancel")                            \
    X(task_bid, tasks, TaskBidPayload, "bid")                                 \
    X(task_start, tasks, TaskIdPayload, "start")                              \
    X(task_checkpoint, tasks, TaskCheckpointPayload, "checkpoint")            \
    X(task_prove, tasks, TaskProvePayload, "prove")                           \
    X(task_abandon, tasks, TaskIdPayload, "abandon")                          \
    X(custody_receipt, verification, CustodyReceiptPayload, "custodyReceipt") \
    X(verify_commit, verification, VerifyCommitPayload, "verifyCommit")       \
    X(verify_reveal, verification, VerifyRevealPayload, "verifyReveal")       \
    X(challenge_commit, disputes, ChallengeCommitPayload, "challengeCommit")  \
    X(challenge_reveal, disputes, ChallengeRevealPayload, "challengeReveal")  \
    X(dispute_split, disputes, DisputeSplitPayload, "split")                  \
    X(dispute_prove_leaf, disputes, DisputeProveLeafPayload, "proveLeaf")     \
    X(dispute_concede, disputes, DisputeConcedePayload, "concede")            \
    X(tick, market, TickPayload, "tick")

// Low byte of the group's reserved address 0x00…51xx.
enum class KindGroup : std::uint8_t { staking = 1, roles = 2, tasks = 3, verification = 4, disputes = 5, market = 6 };

struct NativeKindInfo {
    NativeKind kind;
    KindGroup group;
    std::string_view name;      // "task_submit"
    std::string_view function;  // "submit"
};

[[nodiscard]] std::span<const NativeKindInfo> native_kinds();
// nullptr for a number that is no kind.
[[nodiscard]] const NativeKindInfo* find_kind(std::uint8_t number);
[[nodiscard]] const NativeKindInfo* find_kind(std::string_view name);
[[nodiscard]] KindGroup group_of(NativeKind kind);
[[nodiscard]] Address group_address(KindGroup group);
// The group whose reserved address this is.
[[nodiscard]] std::optional<KindGroup> group_at(const Address& address);

template <class T>
struct PayloadTag {
    using Payload = T;
};
// Calls visitor(std::integral_constant<NativeKind, kind>, PayloadTag<payload of kind>); the kind is known.
template <class Visitor>
decltype(auto) visit_kind(NativeKind kind, Visitor&& visitor) {
    switch (kind) {
#define QUERN_VISIT(name, group, payload, function) \
    case NativeKind::name:                          \
        return visitor(std::integral_constant<NativeKind, NativeKind::name>{}, PayloadTag<payload>{});
        QUERN_NATIVE_KINDS(QUERN_VISIT)
#undef QUERN_VISIT
    }
    return visitor(std::integral_constant<NativeKind, NativeKind::tick>{}, PayloadTag<TickPayload>{});
}

}  // namespace quern::chain::types
