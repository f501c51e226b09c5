// The registry of native kinds: number, group (reserved address), payload, Solidity function name and gas of each. The
// ABI codec, execution's dispatch and RPC's JSON are generated from it; adding a kind is one line here and its handler.
// Numbers of kinds to come are reserved. Pure; thread-safe.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/ensure.h"
#include "base/expected.h"
#include "chain/types/native_tx.h"

namespace quern::chain::types {

// X(kind, group, payload, function, gas, gas per payload byte). The fixed gas follows what a kind does whatever the
// state is: hashing of Merkle paths for proofs, one executed tile element for a leaf. Payload bytes are hashed and, for
// disputes, stored in the game. Objects that are read or changed, accounts and events cost apart
// (params::kNativeGas...).
#define QUERN_NATIVE_KINDS(X)                                                            \
    X(create_validator, staking, CreateValidatorPayload, "createValidator", 60'000, 8)   \
    X(delegate, staking, DelegatePayload, "delegate", 15'000, 8)                         \
    X(undelegate, staking, UndelegatePayload, "undelegate", 15'000, 8)                   \
    X(withdraw_stake, staking, WithdrawStakePayload, "withdraw", 15'000, 8)              \
    X(evidence, staking, EvidencePayload, "evidence", 60'000, 8)                         \
    X(evidence_commit, staking, EvidenceCommitPayload, "evidenceCommit", 15'000, 8)      \
    X(bond, roles, BondPayload, "bond", 10'000, 8)                                       \
    X(unbond, roles, UnbondPayload, "unbond", 10'000, 8)                                 \
    X(withdraw, roles, WithdrawPayload, "withdraw", 10'000, 8)                           \
    X(declare_capacity, roles, DeclareCapacityPayload, "declareCapacity", 10'000, 8)     \
    X(task_submit, tasks, TaskSubmitPayload, "submit", 100'000, 16)                      \
    X(task_cancel, tasks, TaskIdPayload, "cancel", 20'000, 8)                            \
    X(task_accept, tasks, TaskIdPayload, "accept", 20'000, 8)                            \
    X(task_bid, tasks, TaskBidPayload, "bid", 20'000, 8)                                 \
    X(task_start, tasks, TaskIdPayload, "start", 20'000, 8)                              \
    X(task_checkpoint, tasks, TaskCheckpointPayload, "checkpoint", 30'000, 8)            \
    X(task_prove, tasks, TaskProvePayload, "prove", 30'000, 8)                           \
    X(task_abandon, tasks, TaskIdPayload, "abandon", 20'000, 8)                          \
    X(custody_receipt, verification, CustodyReceiptPayload, "custodyReceipt", 15'000, 8) \
    X(verify_commit, verification, VerifyCommitPayload, "verifyCommit", 15'000, 8)       \
    X(verify_reveal, verification, VerifyRevealPayload, "verifyReveal", 30'000, 8)       \
    X(watch_commit, verification, WatchCommitPayload, "watchCommit", 60'000, 8)          \
    X(watch_reveal, verification, WatchRevealPayload, "watchReveal", 15'000, 8)          \
    X(report_open, verification, ReportOpenPayload, "openReport", 40'000, 8)             \
    X(profile_commit, verification, ProfileCommitPayload, "profileCommit", 15'000, 8)    \
    X(profile_reveal, verification, ProfileRevealPayload, "profileReveal", 60'000, 8)    \
    X(challenge_commit, disputes, ChallengeCommitPayload, "challengeCommit", 20'000, 8)  \
    X(challenge_reveal, disputes, ChallengeRevealPayload, "challengeReveal", 60'000, 8)  \
    X(dispute_split, disputes, DisputeSplitPayload, "split", 40'000, 8)                  \
    X(dispute_prove_leaf, disputes, DisputeProveLeafPayload, "proveLeaf", 150'000, 8)    \
    X(dispute_concede, disputes, DisputeConcedePayload, "concede", 40'000, 8)            \
    X(data_challenge, disputes, DataChallengePayload, "dataChallenge", 20'000, 8)        \
    X(data_answer, disputes, DataAnswerPayload, "dataAnswer", 40'000, 8)                 \
    X(tick, market, TickPayload, "tick", 60'000, 8)

// Low byte of the group's reserved address 0x00…51xx.
enum class KindGroup : std::uint8_t { staking = 1, roles = 2, tasks = 3, verification = 4, disputes = 5, market = 6 };

struct NativeKindInfo {
    NativeKind kind;
    KindGroup group;
    std::string_view name;      // "task_submit"
    std::string_view function;  // "submit"
    std::uint64_t gas;
    std::uint64_t gas_per_byte;
};

[[nodiscard]] std::span<const NativeKindInfo> native_kinds();
// nullptr for a number that is no kind.
[[nodiscard]] const NativeKindInfo* find_kind(std::uint8_t number);
[[nodiscard]] const NativeKindInfo* find_kind(std::string_view name);
[[nodiscard]] KindGroup group_of(NativeKind kind);

// A number that no other kind than the named one will have. Names of those that belong together are the same.
struct ReservedKind {
    std::uint8_t number;
    std::string_view name;
};
[[nodiscard]] std::span<const ReservedKind> reserved_kinds();
// nullptr for a number that is not reserved.
[[nodiscard]] const ReservedKind* find_reserved_kind(std::uint8_t number);
// Errors: native.reserved_kind, native.unknown_kind.
[[nodiscard]] Expected<const NativeKindInfo*> active_kind(std::uint8_t number);

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
#define QUERN_VISIT(name, group, payload, function, gas, gas_per_byte) \
    case NativeKind::name:                                             \
        return visitor(std::integral_constant<NativeKind, NativeKind::name>{}, PayloadTag<payload>{});
        QUERN_NATIVE_KINDS(QUERN_VISIT)
#undef QUERN_VISIT
    }
    broken_invariant("the native kind is known", __FILE__, __LINE__);
}

}  // namespace quern::chain::types
