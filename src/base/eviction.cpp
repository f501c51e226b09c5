#include "base/eviction.h"

#include <map>

namespace quern {
inline namespace base {

std::optional<std::size_t> choose_victim(std::span<const Occupant> occupants, std::string_view newcomer) {
    std::map<std::string_view, std::size_t> count;
    for (const Occupant& occupant : occupants) ++count[occupant.host];
    std::optional<std::size_t> victim;
    const auto goes_before = [&](const Occupant& a, const Occupant& b) {
        if (a.idle != b.idle) return a.idle;
        if (count[a.host] != count[b.host]) return count[a.host] > count[b.host];
        return a.since_ms < b.since_ms;
    };
    for (std::size_t i = 0; i < occupants.size(); ++i)
        if (!victim || goes_before(occupants[i], occupants[*victim])) victim = i;
    if (!victim) return std::nullopt;
    const Occupant& chosen = occupants[*victim];
    // One more of the newcomer's must leave it with no more than the host that gives way.
    if (!chosen.idle && count[newcomer] + 1 >= count[chosen.host]) return std::nullopt;
    return victim;
}

}  // namespace base
}  // namespace quern
