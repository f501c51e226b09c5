#include "chain/params/params.h"

#include "chain/types/native_kinds.h"

namespace quern::chain::params {

// Fixed parts follow what a kind does at worst: draws over all verifiers' bonds for ticks, hashing of Merkle paths for
// proofs, one executed tile element for a leaf. Payload bytes are hashed and, for disputes, stored in the game.
NativeGas native_gas(types::NativeKind kind) {
    using types::NativeKind;
    switch (kind) {
        case NativeKind::create_validator:
            return {60'000, 8};
        case NativeKind::delegate:
        case NativeKind::undelegate:
        case NativeKind::withdraw_stake:
            return {15'000, 8};
        case NativeKind::evidence:
            return {60'000, 8};
        case NativeKind::bond:
        case NativeKind::unbond:
        case NativeKind::withdraw:
        case NativeKind::declare_capacity:
            return {10'000, 8};
        case NativeKind::task_submit:
            return {100'000, 16};
        case NativeKind::task_cancel:
        case NativeKind::task_bid:
        case NativeKind::task_start:
        case NativeKind::task_abandon:
            return {20'000, 8};
        case NativeKind::task_checkpoint:
        case NativeKind::task_prove:
            return {30'000, 8};
        case NativeKind::custody_receipt:
        case NativeKind::verify_commit:
            return {15'000, 8};
        case NativeKind::verify_reveal:
            return {30'000, 8};
        case NativeKind::challenge_commit:
            return {20'000, 8};
        case NativeKind::challenge_reveal:
            return {60'000, 8};
        case NativeKind::dispute_split:
            return {40'000, 8};
        case NativeKind::dispute_prove_leaf:
            return {150'000, 8};
        case NativeKind::dispute_concede:
            return {40'000, 8};
        case NativeKind::tick:
            return {60'000, 8};
    }
    return {};
}

types::Address reserved_address(types::NativeKind kind) { return types::group_address(types::group_of(kind)); }

}  // namespace quern::chain::params
