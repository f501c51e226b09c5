// The validators of an epoch with their weights, in a fixed order that bitmaps refer to. Plain values; thread-safe.
#pragma once

#include <vector>

#include "base/uint256.h"
#include "chain/types/native_objects.h"
#include "crypto/signature.h"

namespace quern::chain::consensus {

using types::kMaxCommittee;

struct CommitteeMember {
    crypto::PublicKey key;
    Uint256 weight;
    bool operator==(const CommitteeMember&) const = default;
};

class Committee {
public:
    // Members in ascending order of their addresses. Errors: committee.empty, committee.too_large,
    // committee.zero_weight, committee.duplicate_key, committee.weight_overflow.
    [[nodiscard]] static Expected<Committee> make(std::vector<CommitteeMember> members);
    // From the state's validator records; those without stake have no vote. Errors as make, committee.bad_key.
    [[nodiscard]] static Expected<Committee> from_validators(const std::vector<types::ValidatorObject>& validators);
    // As the state froze it for an epoch (types::EpochObject). Errors as make, committee.bad_key.
    [[nodiscard]] static Expected<Committee> from_entries(const std::vector<types::CommitteeEntry>& entries);

    [[nodiscard]] const std::vector<CommitteeMember>& members() const { return members_; }
    [[nodiscard]] const Uint256& total_weight() const { return total_; }
    // Index of the key, or members().size().
    [[nodiscard]] std::size_t index_of(const crypto::PublicKey& key) const;
    [[nodiscard]] bool is_quorum(const Uint256& weight) const;  // 3 w > 2 W
    // 3 w >= W: at least one honest member, as long as less than a third of the weight is not.
    [[nodiscard]] bool is_weak_quorum(const Uint256& weight) const;
    // SHA-256 of rlp([[public key, weight]...]): the header's committee_hash.
    [[nodiscard]] Hash32 hash() const;

private:
    std::vector<CommitteeMember> members_;
    Uint256 total_;
};

}  // namespace quern::chain::consensus
