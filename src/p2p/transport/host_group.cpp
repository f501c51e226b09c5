#include "p2p/transport/host_group.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/bytes.h"

namespace quern::p2p::transport {
namespace {

// 4 or 16 bytes; mapped IPv4 is IPv4.
std::optional<Bytes> parse(std::string_view host) {
    const std::string text(host);
    std::uint8_t bytes[16];
    if (::inet_pton(AF_INET, text.c_str(), bytes) == 1) return Bytes(bytes, bytes + 4);
    if (::inet_pton(AF_INET6, text.c_str(), bytes) != 1) return std::nullopt;
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::equal(kMapped, kMapped + 12, bytes)) return Bytes(bytes + 12, bytes + 16);
    return Bytes(bytes, bytes + 16);
}

std::string prefix(std::string_view host, std::size_t of_v4, std::size_t of_v6) {
    const auto bytes = parse(host);
    if (!bytes) return std::string(host);
    const bool v4 = bytes->size() == 4;
    return (v4 ? "4:" : "6:") + to_hex(BytesView(*bytes).first(v4 ? of_v4 : of_v6));
}

bool is_loopback(const Bytes& b) {
    if (b.size() == 4) return b[0] == 127;
    return std::all_of(b.begin(), b.end() - 1, [](std::uint8_t x) { return x == 0; }) && b[15] == 1;
}

bool is_private(const Bytes& b) {
    if (b.size() == 16) return (b[0] & 0xfe) == 0xfc || (b[0] == 0xfe && (b[1] & 0xc0) == 0x80);
    return b[0] == 10 || (b[0] == 192 && b[1] == 168) || (b[0] == 172 && (b[1] & 0xf0) == 16) ||
           (b[0] == 169 && b[1] == 254);
}

}  // namespace

std::string host_key(std::string_view host) { return prefix(host, 4, 8); }
std::string subnet_key(std::string_view host) { return prefix(host, 3, 6); }

std::string network_group(std::string_view host) {
    const auto bytes = parse(host);
    if (!bytes) return "name";
    if (is_loopback(*bytes) || is_private(*bytes)) return "local";
    return prefix(host, 2, 4);
}

bool is_loopback(std::string_view host) {
    const auto bytes = parse(host);
    return bytes && is_loopback(*bytes);
}

bool is_routable(std::string_view host) {
    const auto parsed = parse(host);
    if (!parsed || is_loopback(*parsed) || is_private(*parsed)) return false;
    const Bytes& b = *parsed;
    if (b.size() == 16) {
        if ((b[0] & 0xe0) != 0x20) return false;                                         // global unicast is 2000::/3
        if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0d && b[3] == 0xb8) return false;  // documentation
        // 6to4 and Teredo carry an IPv4 address of anybody's choice.
        return !(b[0] == 0x20 && b[1] == 0x02) && !(b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0);
    }
    if (b[0] == 0 || b[0] >= 224) return false;               // "this" network, multicast, reserved, broadcast
    if (b[0] == 100 && (b[1] & 0xc0) == 64) return false;     // carrier-grade NAT, RFC 6598
    if (b[0] == 192 && b[1] == 0 && b[2] == 0) return false;  // RFC 6890
    if (b[0] == 198 && (b[1] & 0xfe) == 18) return false;     // benchmarks, RFC 2544
    return !((b[0] == 192 && b[1] == 0 && b[2] == 2) || (b[0] == 198 && b[1] == 51 && b[2] == 100) ||
             (b[0] == 203 && b[1] == 0 && b[2] == 113));  // documentation, RFC 5737
}

}  // namespace quern::p2p::transport
