#include "base/eviction.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

TEST(Eviction, an_ipv6_network_is_one_host) {
    EXPECT_EQ(host_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    EXPECT_EQ(host_of("2001:db8:1:2::1"), host_of("2001:db8:1:2:ffff::9"));
    EXPECT_NE(host_of("2001:db8:1:2::1"), host_of("2001:db8:1:3::1"));
    EXPECT_EQ(host_of("fe80::1%eth0"), "fe80::/64");
    EXPECT_EQ(host_of("192.0.2.7"), "192.0.2.7");
    EXPECT_EQ(host_of("::ffff:192.0.2.7"), "192.0.2.7");
    EXPECT_EQ(host_of(""), "");
}

TEST(Eviction, who_has_a_whole_ipv6_network_does_not_shut_others_out) {
    std::vector<std::string> hosts;
    for (int i = 0; i < 100; ++i) hosts.push_back(host_of("2001:db8::" + std::to_string(i + 1)));
    std::vector<Occupant> occupants;
    for (int i = 0; i < 100; ++i) occupants.push_back({hosts[i], false, static_cast<std::uint64_t>(1000 - i)});
    // All of them are at work, as one says who sends a byte now and then.
    EXPECT_EQ(choose_victim(occupants, host_of("192.0.2.7")), 99U);
    EXPECT_EQ(choose_victim(occupants, host_of("2001:db8::ffff")), std::nullopt);
}

TEST(Eviction, of_the_host_that_holds_most_the_largest_connection_goes) {
    const std::vector<Holder> holders = {{"a", 5}, {"b", 2}, {"b", 3}, {"c", 4}, {"b", 1}, {"c", 0}};
    EXPECT_EQ(choose_heaviest(holders), 2U) << "b holds 6, though each of its connections is small";
    EXPECT_EQ(choose_heaviest(std::vector<Holder>{{"a", 0}, {"b", 0}}), std::nullopt);
    EXPECT_EQ(choose_heaviest({}), std::nullopt);
    // Of two that hold as much one goes, and it is the larger connection of its host.
    EXPECT_EQ(choose_heaviest(std::vector<Holder>{{"b", 1}, {"a", 2}, {"b", 1}}), 0U);
}

}  // namespace
}  // namespace quern
