// Which connection is given up when the table is full and one more wants in: idle connections cost nobody anything, and
// no host shuts the others out. Used by the HTTP and WebSocket servers. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quern {
inline namespace base {

struct Occupant {
    std::string_view host;       // the client's address without its port
    bool idle = false;           // nothing was asked that is not answered
    std::uint64_t since_ms = 0;  // idle, or at work, since
};

// The place in `occupants` of the one that goes; nullopt: the newcomer does. An idle one goes first, of the host that
// has most connections, the longest idle. When nobody is idle a host that has fewer than another takes a place of the
// host that has most.
[[nodiscard]] std::optional<std::size_t> choose_victim(std::span<const Occupant> occupants, std::string_view newcomer);

}  // namespace base
}  // namespace quern
