// What is known about one view: each member's votes, tallied by weight, and the certificates. Used by the core; at most
// one vote per member and type is kept, so its size is bounded by the committee. Pure; belongs to the core.
#pragma once

#include <array>
#include <optional>

#include "chain/consensus/sdbft/evidence.h"

namespace quern::chain::consensus::sdbft {

class ViewVotes {
public:
    struct Entry {
        Hash32 hash;
        Signature signature;
    };
    ViewVotes(std::uint64_t epoch, std::uint64_t view) : epoch_(epoch), view_(view) {}

    // The vote of this member that is kept, or null.
    [[nodiscard]] const Entry* of(VoteType type, std::size_t member) const;
    // Takes a vote whose signature was verified. Returns what it convicts the member of; of two different votes of one
    // type the first is kept.
    [[nodiscard]] std::optional<Evidence> add(const Committee& committee, const Vote& vote, std::size_t member,
                                              const Signature& signature);
    // Weight and number of the members that voted so.
    struct Tally {
        Uint256 weight;
        std::size_t members = 0;
    };
    [[nodiscard]] Tally tally(const Committee& committee, VoteType type, const Hash32& hash) const;
    [[nodiscard]] Certificate certificate(const Committee& committee, VoteType type, const Hash32& hash) const;

private:
    std::vector<std::optional<Entry>>& list(VoteType type) { return votes_[static_cast<std::size_t>(type) - 1]; }
    [[nodiscard]] const std::vector<std::optional<Entry>>& list(VoteType type) const {
        return votes_[static_cast<std::size_t>(type) - 1];
    }

    std::uint64_t epoch_;
    std::uint64_t view_;
    std::array<std::vector<std::optional<Entry>>, 4> votes_;  // by type, then member
};

}  // namespace quern::chain::consensus::sdbft
