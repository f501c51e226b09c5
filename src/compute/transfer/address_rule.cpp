#include "compute/transfer/address_rule.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace quern::compute::transfer {
namespace {

struct Range4 {
    std::uint32_t first;
    unsigned bits;
};
constexpr bool within(std::uint32_t address, const Range4& range) {
    return (address ^ range.first) >> (32 - range.bits) == 0;
}
constexpr std::uint32_t ip4(unsigned a, unsigned b, unsigned c, unsigned d) { return a << 24 | b << 16 | c << 8 | d; }

constexpr Range4 kLoopback4{ip4(127, 0, 0, 0), 8};
// Nothing that a stream connects to, anywhere.
constexpr Range4 kNobody4[] = {{ip4(0, 0, 0, 0), 8}, {ip4(224, 0, 0, 0), 4}, {ip4(255, 255, 255, 255), 32}};
constexpr Range4 kSpecial4[] = {{ip4(10, 0, 0, 0), 8},     {ip4(100, 64, 0, 0), 10},   kLoopback4,
                                {ip4(169, 254, 0, 0), 16}, {ip4(172, 16, 0, 0), 12},   {ip4(192, 0, 0, 0), 24},
                                {ip4(192, 0, 2, 0), 24},   {ip4(192, 88, 99, 0), 24},  {ip4(192, 168, 0, 0), 16},
                                {ip4(198, 18, 0, 0), 15},  {ip4(198, 51, 100, 0), 24}, {ip4(203, 0, 113, 0), 24},
                                {ip4(240, 0, 0, 0), 4}};

bool in_any(std::uint32_t address, std::span<const Range4> ranges) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range4& each) { return within(address, each); });
}

bool is_allowed4(std::uint32_t address, AddressRule rule) {
    if (in_any(address, kNobody4)) return false;
    switch (rule) {
        case AddressRule::any:
            return true;
        case AddressRule::loopback:
            return within(address, kLoopback4);
        case AddressRule::open_internet:
            return !in_any(address, kSpecial4);
    }
    return false;
}

using Ip6 = std::array<std::uint8_t, 16>;
std::uint32_t word(const Ip6& address, std::size_t at) {
    return ip4(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

bool is_allowed6(const Ip6& address, AddressRule rule) {
    const bool low_zero = word(address, 0) == 0 && word(address, 4) == 0;
    if (low_zero && word(address, 8) == 0xffff) return is_allowed4(word(address, 12), rule);  // IPv4-mapped
    if (word(address, 0) == 0x64ff9b && word(address, 4) == 0 && word(address, 8) == 0)       // NAT64, RFC 6052
        return is_allowed4(word(address, 12), rule);
    const bool loopback = low_zero && word(address, 8) == 0 && word(address, 12) == 1;
    if (low_zero && word(address, 8) == 0 && !loopback) return false;  // unspecified, IPv4-compatible
    if (address[0] == 0xff) return false;                              // multicast
    switch (rule) {
        case AddressRule::any:
            return true;
        case AddressRule::loopback:
            return loopback;
        case AddressRule::open_internet:
            break;
    }
    if (word(address, 0) >> 16 == 0x2002)  // 6to4: the next four bytes are an IPv4 address
        return is_allowed4(ip4(address[2], address[3], address[4], address[5]), rule);
    if (word(address, 0) == 0x20010db8 || word(address, 0) >> 9 == 0x20010000 >> 9)
        return false;             // examples, 2001::/23
    return address[0] >> 5 == 1;  // 2000::/3
}

}  // namespace

bool is_allowed(BytesView address, AddressRule rule) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (address.size() < sizeof(v4)) return false;
    std::memcpy(&v4, address.data(), sizeof(v4));
    if (v4.sin_family == AF_INET) return is_allowed4(ntohl(v4.sin_addr.s_addr), rule);
    if (v4.sin_family != AF_INET6 || address.size() < sizeof(v6)) return false;
    std::memcpy(&v6, address.data(), sizeof(v6));
    Ip6 bytes{};
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return is_allowed6(bytes, rule);
}

}  // namespace quern::compute::transfer
