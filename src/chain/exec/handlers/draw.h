// Draws by lot, weighted by bond, from a beacon that nobody knew when the candidates were fixed: of the bids in a list,
// and of the bonds in a table (draw_table.h). Used by one thread.
#pragma once

#include <vector>

#include "base/uint256.h"
#include "chain/exec/handlers/context.h"

namespace quern::chain::exec::handlers {

struct Candidate {
    types::Address address;
    Uint256 weight;
};
// Index of the candidate that `randomness` falls on; candidates.size() when all weights are 0.
[[nodiscard]] std::size_t draw_one(const Hash32& randomness, const std::vector<Candidate>& candidates);

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
// Of who replays so much of the task in so many seconds: its steps, its classes, its memory, and a dispute's segment.
[[nodiscard]] Demand replay_demand(const types::Task& task, const Uint256& work, std::uint64_t seconds);

// What a bond must have to be drawn.
struct DrawTerms {
    std::uint64_t anchor = 0;              // height: the table is that of its epoch, capacities what was declared then
    Uint256 lock;                          // weight in the table, and of this what does not answer for something else
    Demand demand;                         // of its capacity
    std::vector<types::Address> excluded;  // are not drawn
};
// The first `count` members of the sequence of table and randomness that meet the terms; fewer when it ends, after
// kMaxDrawTries, or once `patience` members were passed over that have the weight and answer for something else.
[[nodiscard]] Expected<std::vector<types::Address>> draw_bonds(const Context& context, types::Role role,
                                                               const DrawTerms& terms, const Hash32& randomness,
                                                               std::size_t count, std::size_t patience);

}  // namespace quern::chain::exec::handlers
