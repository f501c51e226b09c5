// One of the newest states, read from the store as it is at a later block (or at the same): what the blocks in between
// changed is read as it was before the first of them. A proof is made from the stored trie of the account's part, which
// may be of an earlier or a later block, by putting into it what the state has. Costs grow with what the blocks in
// between changed in one part, a 256th of all.
#pragma once

#include "chain/state/state_at.h"
#include "chain/state/state_layout.h"

namespace quern::chain::state {

// Changes of one part that a proof puts back, at most: what a question may cost.
inline constexpr std::size_t kMaxChangesForProof = 100'000;

class PastState final : public StateAt {
public:
    // `newest` reads the store as of block `newest_number`, whose oldest_state() is not above `number`; it outlives
    // this.
    PastState(const store::Reader& newest, std::uint64_t newest_number, std::uint64_t number)
        : newest_(newest), newest_number_(newest_number), number_(number) {}

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override;
    // Of the tables of the state only native objects can be visited. Error state.not_ordered for the others.
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;

private:
    [[nodiscard]] Expected<std::vector<Bytes>> prove_account(const Hash32& state_root,
                                                             const types::Address& address) const override;
    [[nodiscard]] Expected<std::vector<std::vector<Bytes>>> prove_slots(const Hash32& storage_root,
                                                                        const types::Address& address,
                                                                        std::span<const Hash32> slots) const override;
    // The keys of a part with this prefix that changed since, with what they were; one more than `limit` at most.
    using Before = std::map<Bytes, std::optional<Bytes>, BytesLess>;
    [[nodiscard]] Expected<Before> changed_since(std::size_t part, BytesView prefix, std::size_t limit) const;

    const store::Reader& newest_;
    std::uint64_t newest_number_;
    std::uint64_t number_;
};

}  // namespace quern::chain::state
