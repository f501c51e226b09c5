// Which addresses a transfer may connect to. A stranger names the host, and its name may mean this machine or its
// neighbours; what counts is the address that is about to be connected. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace quern::compute::transfer {

enum class AddressRule : std::uint8_t {
    open_internet,  // what is routed there, of IPv4 and IPv6 (IANA's special-purpose registries, RFC 6890)
    loopback,       // this machine alone
    any,            // also private networks, this machine, link-local; never multicast, broadcast, unspecified
};

// `address` is a sockaddr_in or a sockaddr_in6; others are refused.
[[nodiscard]] bool is_allowed(BytesView address, AddressRule rule);

}  // namespace quern::compute::transfer
