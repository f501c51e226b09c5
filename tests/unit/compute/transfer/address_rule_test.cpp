#include "compute/transfer/address_rule.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace quern::compute::transfer {
namespace {

Bytes address(const std::string& text) {
    Bytes bytes;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        bytes.resize(sizeof(v4));
        std::memcpy(bytes.data(), &v4, sizeof(v4));
    } else if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        bytes.resize(sizeof(v6));
        std::memcpy(bytes.data(), &v6, sizeof(v6));
    }
    EXPECT_FALSE(bytes.empty()) << text;
    return bytes;
}

TEST(AddressRule, the_open_internet_is_neither_this_machine_nor_its_neighbours) {
    for (const char* text : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255",
                             "100.63.255.255", "100.128.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1",
                             "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:0101:0101::1", "2001:4860::8888"})
        EXPECT_TRUE(is_allowed(address(text), AddressRule::open_internet)) << text;
    for (const char* text : {"10.0.0.1",
                             "10.255.255.255",
                             "127.0.0.1",
                             "127.255.0.1",
                             "169.254.169.254",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.168.1.1",
                             "100.64.0.1",
                             "192.0.0.1",
                             "192.0.2.1",
                             "192.88.99.1",
                             "198.18.0.1",
                             "198.51.100.1",
                             "203.0.113.1",
                             "240.0.0.1",
                             "224.0.0.1",
                             "0.0.0.0",
                             "0.1.2.3",
                             "255.255.255.255",
                             "::1",
                             "::",
                             "::7f00:1",
                             "fe80::1",
                             "fc00::1",
                             "fd12::1",
                             "ff02::1",
                             "fec0::1",
                             "::ffff:127.0.0.1",
                             "::ffff:10.1.2.3",
                             "::ffff:169.254.169.254",
                             "64:ff9b::7f00:1",
                             "64:ff9b::a9fe:a9fe",
                             "64:ff9b:1::1",
                             "2002:7f00:0001::1",
                             "2002:c0a8:0101::1",
                             "2001::1",
                             "2001:db8::1",
                             "100::1",
                             "4000::1"})
        EXPECT_FALSE(is_allowed(address(text), AddressRule::open_internet)) << text;
}

TEST(AddressRule, other_rules) {
    for (const char* text : {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
        EXPECT_TRUE(is_allowed(address(text), AddressRule::loopback)) << text;
        EXPECT_TRUE(is_allowed(address(text), AddressRule::any)) << text;
    }
    for (const char* text : {"10.0.0.1", "fe80::1", "fc00::1", "192.168.0.1", "1.1.1.1", "2606::1"}) {
        EXPECT_FALSE(is_allowed(address(text), AddressRule::loopback)) << text;
        EXPECT_TRUE(is_allowed(address(text), AddressRule::any)) << text;
    }
    for (const char* text : {"0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"})
        EXPECT_FALSE(is_allowed(address(text), AddressRule::any)) << text;
    Bytes local(sizeof(sockaddr_in6));  // a socket of the file system
    local[0] = AF_UNIX;
    EXPECT_FALSE(is_allowed(local, AddressRule::any));
    EXPECT_FALSE(is_allowed(Bytes(3), AddressRule::any));
    Bytes cut = address("2606::1");
    cut.resize(sizeof(sockaddr_in));
    EXPECT_FALSE(is_allowed(cut, AddressRule::any));
}

}  // namespace
}  // namespace quern::compute::transfer
