// Which hosts count as one. Keys are free for whoever makes them, addresses less so, networks least: limits on
// strangers are kept by host and by network. Pure functions of an address as text; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace quern::p2p::transport {

// One machine or household: the IPv4 address, /64 of IPv6; a name as it stands.
[[nodiscard]] std::string host_key(std::string_view host);
// One rented network: /24 of IPv4, /48 of IPv6; a name as it stands.
[[nodiscard]] std::string subnet_key(std::string_view host);
// One provider or region: /16 of IPv4, /32 of IPv6; "local" for loopback and private networks, "name" for host names.
[[nodiscard]] std::string network_group(std::string_view host);
[[nodiscard]] bool is_loopback(std::string_view host);
// A numeric address that strangers can be sent to: no loopback, private, link-local, documentation, multicast or
// reserved one, no name.
[[nodiscard]] bool is_routable(std::string_view host);

}  // namespace quern::p2p::transport
