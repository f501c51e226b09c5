#include "base/eviction.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace quern {
inline namespace base {

std::string host_of(std::string_view address) {
    const std::string text(address.substr(0, address.find('%')));  // without its zone
    std::array<std::uint8_t, 16> bytes{};
    if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return text;
    static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::array<char, INET6_ADDRSTRLEN> out{};
    if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin()))
        return ::inet_ntop(AF_INET, bytes.data() + kMapped.size(), out.data(), out.size());
    std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
    return std::string(::inet_ntop(AF_INET6, bytes.data(), out.data(), out.size())) + "/64";
}

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

std::optional<std::size_t> choose_heaviest(std::span<const Holder> holders) {
    std::map<std::string_view, std::size_t> sum;
    for (const Holder& holder : holders) sum[holder.host] += holder.bytes;
    const auto rank = [&](const Holder& holder) { return std::tuple(sum[holder.host], holder.host, holder.bytes); };
    std::optional<std::size_t> heaviest;
    for (std::size_t i = 0; i < holders.size(); ++i)
        if (holders[i].bytes != 0 && (!heaviest || rank(holders[i]) > rank(holders[*heaviest]))) heaviest = i;
    return heaviest;
}

}  // namespace base
}  // namespace quern
