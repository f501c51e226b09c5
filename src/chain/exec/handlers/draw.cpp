#include "chain/exec/handlers/draw.h"

#include <algorithm>

#include "chain/market/windows.h"
#include "crypto/hash.h"

namespace quern::chain::exec::handlers {

namespace {

constexpr std::size_t kDrawPage = 64;  // bonds; at most so many are read twice

}  // namespace

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

std::vector<types::Address> draw_many(const Hash32& randomness, std::vector<Candidate> candidates, std::size_t count) {
    std::vector<types::Address> drawn;
    while (drawn.size() < count) {
        const std::size_t index = draw_one(draw_hash("draw", randomness, drawn.size(), 0), candidates);
        if (index >= candidates.size()) break;
        drawn.push_back(candidates[index].address);
        candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(index));
    }
    return drawn;
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

Expected<std::vector<Candidate>> find_candidates(const Context& context, types::Role role, const Uint256& needed,
                                                 const Demand& demand, std::uint64_t anchor, const Hash32& randomness,
                                                 const std::vector<types::Address>& excluded) {
    const Bytes prefix = types::KeyOf<types::RoleBond>::all(role);
    Bytes start = prefix;
    append(start, randomness.view().first(types::Address::kSize));
    auto entries = context.state.native_range(prefix, start, kMaxDrawCandidates);
    // Around the end, in pages: what lies from `start` on was read.
    Bytes next = prefix;
    for (bool more = true; more && entries.size() < kMaxDrawCandidates;) {
        const std::size_t limit = std::min(kDrawPage, kMaxDrawCandidates - entries.size());
        auto page = context.state.native_range(prefix, next, limit);
        more = page.size() == limit && as_text(page.back().first) < as_text(start);
        for (auto& entry : page) {
            if (as_text(entry.first) >= as_text(start)) break;
            next = entry.first;
            entries.push_back(std::move(entry));
        }
        next.push_back(0);
    }
    std::vector<Candidate> candidates;
    for (const auto& [key, value] : entries) {
        auto bond = types::decode_record<types::RoleBond>(value);
        if (!bond) return fault("state.corrupt_object", bond.error().to_string());
        if (free_part(*bond) < needed || bond->bonded.is_zero() || bond->since > anchor) continue;
        if (!can_do(bond->capacity_since > anchor ? bond->former_capacity : bond->capacity, demand)) continue;
        if (std::find(excluded.begin(), excluded.end(), bond->address) != excluded.end()) continue;
        candidates.push_back({bond->address, bond->bonded});
    }
    return candidates;
}

}  // namespace quern::chain::exec::handlers
