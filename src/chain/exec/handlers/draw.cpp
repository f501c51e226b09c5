#include "chain/exec/handlers/draw.h"

#include <algorithm>

#include "chain/consensus/sdbft/epoch.h"
#include "chain/exec/handlers/draw_table.h"
#include "chain/market/windows.h"
#include "crypto/hash.h"

namespace quern::chain::exec::handlers {

std::size_t draw_one(const Hash32& randomness, const std::vector<Candidate>& candidates) {
    Uint256 total;
    for (const auto& candidate : candidates) total += candidate.weight;
    if (total.is_zero()) return candidates.size();
    Uint256 point = Uint256::from_be(randomness) % total;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (point < candidates[i].weight) return i;
        point -= candidates[i].weight;
    }
    return candidates.size();
}

namespace {

Hash32 draw_hash(std::string_view purpose, const Hash32& beacon, BytesView key, std::uint64_t counter) {
    const Hash32 counter_word = Uint256(counter).to_be32();
    return crypto::sha256({as_bytes(purpose), beacon, key, counter_word.view().last(8)});
}

}  // namespace

Hash32 draw_hash(std::string_view purpose, const Hash32& beacon, std::uint64_t id, std::uint64_t counter) {
    const Hash32 id_word = Uint256(id).to_be32();
    return draw_hash(purpose, beacon, id_word.view().last(8), counter);
}

Hash32 draw_hash(std::string_view purpose, const Hash32& beacon, const types::ClaimId& id, std::uint64_t counter) {
    return draw_hash(purpose, beacon, BytesView(types::key_of<types::Claim>(id)), counter);
}

bool can_do(const types::Capacity& capacity, const Demand& demand) {
    const auto is_below = [](std::uint64_t declared, std::uint64_t needed) {
        return declared != 0 && declared < needed;
    };
    if (is_below(capacity.step_work, demand.step_work) || is_below(capacity.speed_class, demand.classes.speed) ||
        is_below(capacity.bandwidth_class, demand.classes.bandwidth) ||
        is_below(capacity.memory_mib, demand.classes.memory_mib))
        return false;
    if (!market::has_time_for(capacity.speed_class, demand.segment, demand.segment_s)) return false;
    return capacity.speed_class == 0 ||
           demand.work <= Uint256(market::rate_of_class(capacity.speed_class)) * Uint256(demand.seconds);
}

Demand replay_demand(const types::Task& task, const Uint256& work, std::uint64_t seconds) {
    Demand demand{market::largest_step(market::work_of(task).plan),
                  work,
                  seconds,
                  task.segment_work,
                  task.spec.windows.heartbeat_s,
                  task.spec.classes};
    demand.classes.memory_mib = market::memory_mib(task.spec);
    return demand;
}

namespace {

// What of a bond that had this weight when the table was frozen answers for nothing yet. What is leaving answers for
// the draws of the tables that it is in; what came after them does not make room.
Uint256 unused_part(const types::RoleBond& bond, const Uint256& weight) {
    return checked_sub(std::min(market::whole_bond(bond), weight), bond.locked).value_or(Uint256());
}

const types::Capacity& capacity_at(const types::RoleBond& bond, std::uint64_t height) {
    return bond.capacity_since > height ? bond.former_capacity : bond.capacity;
}

}  // namespace

Expected<std::vector<types::Address>> draw_bonds(const Context& context, types::Role role, const DrawTerms& terms,
                                                 const Hash32& randomness, std::size_t count, std::size_t patience) {
    const std::uint64_t epoch = consensus::sdbft::EpochHeights(context.params.epoch_length).epoch_of(terms.anchor);
    DrawSequence sequence(context.state, role, epoch, randomness);
    std::vector<types::Address> drawn;
    std::size_t busy = 0;
    for (std::size_t tries = 0; tries < params::kMaxDrawTries && drawn.size() < count && busy < patience; ++tries) {
        QUERN_TRY(const auto member, sequence.next());
        if (!member) break;
        if (member->weight < terms.lock) continue;
        if (std::find(terms.excluded.begin(), terms.excluded.end(), member->address) != terms.excluded.end()) continue;
        QUERN_TRY(const auto bond, load_bond(context.state, role, member->address));
        if (!can_do(capacity_at(bond, terms.anchor), terms.demand)) continue;
        if (unused_part(bond, member->weight) < terms.lock)
            ++busy;
        else
            drawn.push_back(member->address);
    }
    return drawn;
}

}  // namespace quern::chain::exec::handlers
