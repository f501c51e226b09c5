// Which connection is given up when the table is full and one more wants in, or when all together keep too much memory:
// idle connections cost nobody anything, and no host shuts the others out. Used by the HTTP and WebSocket servers.
// Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quern {
inline namespace base {

struct Occupant {
    std::string_view host;       // host_of() of the client's address
    bool idle = false;           // nothing was asked that is not answered
    std::uint64_t since_ms = 0;  // idle, or at work, since
};

// Who stands behind a numeric address: an IPv6 address is one of the 2^64 of its network, all in the hands of who has
// one of them, so the network ("2001:db8::/64") is the host. IPv4, mapped or not, stands for itself, as does other
// text.
[[nodiscard]] std::string host_of(std::string_view address);

// The place in `occupants` of the one that goes; nullopt: the newcomer does. An idle one goes first, of the host that
// has most connections, the longest idle. When nobody is idle a host that has fewer than another takes a place of the
// host that has most.
[[nodiscard]] std::optional<std::size_t> choose_victim(std::span<const Occupant> occupants, std::string_view newcomer);

struct Holder {
    std::string_view host;  // host_of() of the client's address
    std::size_t bytes = 0;  // that are kept for it
};

// The place in `holders` of the one that goes: of the host that holds most in all its connections the one that holds
// most, as by single connections a host with many of them would have everybody else's large requests closed first.
// nullopt: nobody holds anything.
[[nodiscard]] std::optional<std::size_t> choose_heaviest(std::span<const Holder> holders);

}  // namespace base
}  // namespace quern
