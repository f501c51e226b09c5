#include "chain/consensus/committee.h"

#include <algorithm>

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::consensus {

Expected<Committee> Committee::make(std::vector<CommitteeMember> members) {
    if (members.empty()) return fail("committee.empty");
    if (members.size() > kMaxCommittee) return fail("committee.too_large", std::to_string(members.size()));
    std::sort(members.begin(), members.end(), [](const CommitteeMember& a, const CommitteeMember& b) {
        return crypto::address20(a.key) < crypto::address20(b.key);
    });
    Committee committee;
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (members[i].weight.is_zero()) return fail("committee.zero_weight");
        if (i > 0 && members[i].key == members[i - 1].key) return fail("committee.duplicate_key");
        const auto total = checked_add(committee.total_, members[i].weight);
        // Quorums multiply weights by three.
        if (!total || !checked_mul(*total, 3)) return fail("committee.weight_overflow");
        committee.total_ = *total;
    }
    committee.members_ = std::move(members);
    return committee;
}

Expected<Committee> Committee::from_validators(const std::vector<types::ValidatorObject>& validators) {
    std::vector<CommitteeMember> members;
    for (const auto& validator : validators) {
        if (validator.stake.is_zero()) continue;
        auto key = FixedBytes<64>::from_view(validator.public_key);
        if (!key) return fail("committee.bad_key", to_hex0x(validator.address));
        members.push_back({crypto::PublicKey{*key}, validator.stake});
    }
    return make(std::move(members));
}

Expected<Committee> Committee::from_entries(const std::vector<types::CommitteeEntry>& entries) {
    std::vector<CommitteeMember> members;
    for (const auto& entry : entries) {
        auto key = FixedBytes<64>::from_view(entry.public_key);
        if (!key) return fail("committee.bad_key", to_hex0x(entry.public_key));
        members.push_back({crypto::PublicKey{*key}, entry.weight});
    }
    return make(std::move(members));
}

std::size_t Committee::index_of(const crypto::PublicKey& key) const {
    const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& m) { return m.key == key; });
    return static_cast<std::size_t>(found - members_.begin());
}

bool Committee::is_quorum(const Uint256& weight) const { return weight <= total_ && weight * 3 > total_ * 2; }

bool Committee::is_weak_quorum(const Uint256& weight) const { return weight <= total_ && weight * 3 >= total_; }

Hash32 Committee::hash() const {
    rlp::Writer writer;
    writer.begin_list();
    for (const auto& member : members_)
        writer.begin_list().bytes(member.key.bytes.view()).integer(member.weight).end_list();
    writer.end_list();
    return crypto::sha256(std::move(writer).finish());
}

}  // namespace quern::chain::consensus
