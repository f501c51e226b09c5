// Draws by lot, weighted by bond, from a beacon that nobody knew when the candidates were fixed. Pure functions.
#pragma once

#include <vector>

#include "base/uint256.h"
#include "chain/exec/handlers/context.h"

namespace quern::chain::exec::handlers {

using params::kMaxDrawCandidates;

struct Candidate {
    types::Address address;
    Uint256 weight;
};
// Index of the candidate that `randomness` falls on; candidates.size() when all weights are 0.
[[nodiscard]] std::size_t draw_one(const Hash32& randomness, const std::vector<Candidate>& candidates);
// `count` different candidates, one after the other without replacement; fewer when there are fewer.
[[nodiscard]] std::vector<types::Address> draw_many(const Hash32& randomness, std::vector<Candidate> candidates,
                                                    std::size_t count);

// SHA-256(purpose || beacon || id || counter).
[[nodiscard]] Hash32 draw_hash(std::string_view purpose, const Hash32& beacon, std::uint64_t id, std::uint64_t counter);
// SHA-256(purpose || beacon || the claim's key || counter).
[[nodiscard]] Hash32 draw_hash(std::string_view purpose, const Hash32& beacon, const types::ClaimId& id,
                               std::uint64_t counter);

// What a capacity must allow; see types::Capacity.
struct Demand {
    std::uint64_t step_work = 0;
    Uint256 work;                 // of the whole job ...
    std::uint64_t seconds = 0;    // ... which may take so many seconds
    Uint256 segment;              // of the segment that a dispute may ask for, and ...
    std::uint64_t segment_s = 0;  // ... the seconds that a task gives a segment
    types::TaskClasses classes;   // with the memory that is needed
};
[[nodiscard]] bool can_do(const types::Capacity& capacity, const Demand& demand);

// Bonds of the role with a free part of at least `needed`, not raised after height `anchor`, whose capacity at `anchor`
// was enough for `demand`, without `excluded`. At
// most kMaxDrawCandidates, from the address that `randomness` points at on, around the end: so that many small bonds at
// low addresses cannot hide the others.
[[nodiscard]] Expected<std::vector<Candidate>> find_candidates(const Context& context, types::Role role,
                                                               const Uint256& needed, const Demand& demand,
                                                               std::uint64_t anchor, const Hash32& randomness,
                                                               const std::vector<types::Address>& excluded);

}  // namespace quern::chain::exec::handlers
