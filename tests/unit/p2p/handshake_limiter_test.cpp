#include "p2p/handshake_limiter.h"

#include <gtest/gtest.h>

#include "p2p/offence.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {
namespace {

using Verdict = HandshakeLimiter::Verdict;

std::size_t allowed(HandshakeLimiter& limiter, const std::string& host, std::size_t tries, std::uint64_t now_us) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < tries; ++i)
        count += limiter.allow_handshake(host, false, now_us) == Verdict::allow ? 1 : 0;
    return count;
}

TEST(HostGroup, counts_addresses_networks_and_providers) {
    using namespace transport;
    EXPECT_EQ(host_key("1.2.3.4"), host_key("::ffff:1.2.3.4"));
    EXPECT_NE(host_key("1.2.3.4"), host_key("1.2.3.5"));
    EXPECT_EQ(host_key("2001:db8:1:2::5"), host_key("2001:db8:1:2:ffff::"));
    EXPECT_NE(host_key("2001:db8:1:2::5"), host_key("2001:db8:1:3::5"));
    EXPECT_EQ(subnet_key("1.2.3.4"), subnet_key("1.2.3.250"));
    EXPECT_NE(subnet_key("1.2.3.4"), subnet_key("1.2.4.4"));
    EXPECT_EQ(subnet_key("2001:db8:1:2::"), subnet_key("2001:db8:1:ffff::"));
    EXPECT_NE(subnet_key("2001:db8:1::"), subnet_key("2001:db8:2::"));
    for (const std::string_view good : {"8.8.8.8", "2a00:1450::1", "::ffff:9.9.9.9"}) EXPECT_TRUE(is_routable(good));
    // Each just outside of what is not.
    for (const std::string_view good :
         {"9.255.255.255", "11.0.0.0",        "8.8.0.8",      "100.63.255.255", "100.128.0.0", "126.255.255.255",
          "128.0.0.0",     "169.253.255.255", "169.255.0.0",  "172.15.255.255", "172.32.0.0",  "192.0.1.0",
          "192.0.3.0",     "192.1.0.0",       "191.0.0.1",    "192.167.1.1",    "192.169.0.0", "198.17.255.255",
          "198.20.0.0",    "198.51.99.1",     "198.51.101.1", "198.50.100.1",   "203.0.112.1", "203.0.114.1",
          "203.1.113.1",   "223.255.255.255", "1.0.0.1",      "2000::1",        "2001:db7::1", "2001:db9::1",
          "2001:1::1",     "2003::1",         "3fff:ffff::1"})
        EXPECT_TRUE(is_routable(good)) << good;
    for (const std::string_view bad : {"127.0.0.1",
                                       "10.0.0.1",
                                       "192.168.1.1",
                                       "172.31.0.1",
                                       "169.254.1.1",
                                       "0.0.0.0",
                                       "224.0.0.1",
                                       "255.255.255.255",
                                       "100.64.0.1",
                                       "100.127.255.255",
                                       "192.0.0.1",
                                       "192.0.2.1",
                                       "198.18.0.1",
                                       "198.19.255.255",
                                       "198.51.100.1",
                                       "203.0.113.255",
                                       "239.255.255.255",
                                       "2001::1",
                                       "1fff::1",
                                       "4000::1",
                                       "::1",
                                       "::",
                                       "fe80::1",
                                       "fd00::1",
                                       "ff02::1",
                                       "2001:db8::1",
                                       "2002:7f00:1::",
                                       "::ffff:127.0.0.1",
                                       "node.example",
                                       "localhost",
                                       ""})
        EXPECT_FALSE(is_routable(bad)) << bad;
}

TEST(HandshakeLimiter, one_host_cannot_take_its_networks_allowance_nor_one_network_the_nodes) {
    SeededRng rng(1);
    HandshakeLimiter limiter(rng, false);
    EXPECT_EQ(allowed(limiter, "1.2.3.4", 1000, 1), kHandshakesPerHostBurst);
    std::size_t network = 0;
    for (int i = 5; i < 60; ++i) network += allowed(limiter, "1.2.3." + std::to_string(i), 1000, 1);
    EXPECT_EQ(network, kHandshakesPerSubnetBurst - kHandshakesPerHostBurst);
    EXPECT_EQ(allowed(limiter, "7.7.7.7", 1, 1), 1U);
    // Sockets alike: what is refused to one network is not taken from the node's allowance.
    std::size_t sockets = 0;
    for (int i = 0; i < 20'000; ++i) sockets += limiter.allow_socket("1.2.3." + std::to_string(i % 250), 0, 1) ? 1 : 0;
    EXPECT_EQ(sockets, kSocketsPerSubnetBurst);
    EXPECT_TRUE(limiter.allow_socket("7.7.7.7", 0, 1));
    EXPECT_FALSE(limiter.allow_socket("7.7.7.8", kMaxPendingPerGroup, 1));
}

TEST(HandshakeLimiter, a_cookie_does_not_make_the_work_free) {
    SeededRng rng(2);
    HandshakeLimiter limiter(rng, false);
    std::size_t done = 0;
    for (int i = 0; i < 1000; ++i) done += limiter.allow_handshake("1.2.3.4", true, 1) == Verdict::allow ? 1 : 0;
    EXPECT_EQ(done, kHandshakesPerHostBurst);
    // The whole internet together: without cookies up to a rate, with cookies up to another.
    const auto from_everywhere = [&](bool cookie, Verdict verdict) {
        std::size_t count = 0;
        for (int i = 0; i < 3'000; ++i) {
            const std::string host =
                std::to_string(11 + i / 250) + "." + std::to_string(i % 250) + "." + std::to_string(cookie) + ".9";
            count += limiter.allow_handshake(host, cookie, 1) == verdict ? 1 : 0;
        }
        return count;
    };
    EXPECT_LE(from_everywhere(false, Verdict::allow), kHandshakesPerSecond);
    EXPECT_GT(from_everywhere(false, Verdict::ask_cookie), 1'000U);
    EXPECT_LE(from_everywhere(true, Verdict::allow), kCookieHandshakesPerSecond);
}

TEST(HandshakeLimiter, hosts_of_fixed_peers_do_not_depend_on_what_strangers_leave) {
    SeededRng rng(3);
    HandshakeLimiter limiter(rng, false);
    limiter.set_known({transport::host_key("1.2.3.99")});
    for (int i = 5; i < 60; ++i) (void)allowed(limiter, "1.2.3." + std::to_string(i), 1000, 1);
    for (int i = 0; i < 2000; ++i)
        (void)allowed(limiter, std::to_string(11 + i / 250) + "." + std::to_string(i % 250) + ".1.9", 5, 1);
    EXPECT_EQ(allowed(limiter, "1.2.3.99", 3, 1), 3U);
    EXPECT_TRUE(limiter.allow_socket("1.2.3.99", 9'999, 1));
    limiter.penalize("1.2.3.99", 1'000, 1);
    EXPECT_FALSE(limiter.is_banned("1.2.3.99", 1));
}

TEST(HandshakeLimiter, hosts_that_send_rubbish_are_refused_for_a_while) {
    SeededRng rng(4);
    HandshakeLimiter limiter(rng, false);
    for (int i = 0; i < 4; ++i) limiter.penalize("1.2.3.4", kBrokenBytesPoints, 1'000);
    EXPECT_TRUE(limiter.allow_socket("1.2.3.4", 0, 1'000'000));
    limiter.penalize("1.2.3.4", kBrokenBytesPoints, 1'000);
    EXPECT_FALSE(limiter.allow_socket("1.2.3.4", 0, 1'000'000));
    EXPECT_TRUE(limiter.allow_socket("1.2.3.5", 0, 1'000'000));
    EXPECT_FALSE(limiter.is_banned("1.2.3.4", 1'000 + kBanMs));
    // Now and then is no ban.
    for (std::uint64_t i = 1; i < 20; ++i) limiter.penalize("5.5.5.5", kBrokenBytesPoints, i * 200'000);
    EXPECT_FALSE(limiter.is_banned("5.5.5.5", 4'000'000));
    for (std::uint32_t i = 0; i < 2 * kMaxScoredHosts; ++i)
        limiter.penalize("8." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + ".1", 1, 5'000'000);
    EXPECT_EQ(limiter.scored(), kMaxScoredHosts);
}

TEST(HandshakeLimiter, loopback_is_no_stranger_on_a_local_network_alone) {
    SeededRng rng(5);
    HandshakeLimiter local(rng, true);
    EXPECT_EQ(allowed(local, "127.0.0.1", 100, 1), 100U);
    local.penalize("127.0.0.1", 1'000, 1);
    EXPECT_FALSE(local.is_banned("127.0.0.1", 1));
    HandshakeLimiter public_one(rng, false);
    EXPECT_EQ(allowed(public_one, "127.0.0.1", 100, 1), kHandshakesPerHostBurst);
}

TEST(HandshakeLimiter, sockets_of_one_host_and_of_all_together_have_their_rates) {
    SeededRng rng(6);
    HandshakeLimiter limiter(rng, false);
    std::size_t taken = 0;
    for (int i = 0; i < 1'000; ++i) taken += limiter.allow_socket("1.2.3.4", 0, 1) ? 1 : 0;
    EXPECT_EQ(taken, kSocketsPerHostBurst);
    std::size_t all = taken;
    for (int i = 0; i < 6'000; ++i)
        all +=
            limiter.allow_socket(std::to_string(11 + i / 250) + "." + std::to_string(i % 250) + ".1.9", 0, 1) ? 1 : 0;
    EXPECT_EQ(all, kSocketsPerSecond);
}

TEST(HandshakeLimiter, bans_outlive_a_flood_of_other_hosts_and_known_ones_collect_nothing) {
    SeededRng rng(7);
    HandshakeLimiter limiter(rng, false);
    limiter.set_known({transport::host_key("9.9.9.9")});
    limiter.penalize("9.9.9.9", kBanPoints, 1'000);
    EXPECT_EQ(limiter.scored(), 0U);
    limiter.set_known({});
    EXPECT_FALSE(limiter.is_banned("9.9.9.9", 1'000));
    limiter.penalize("1.2.3.4", kBanPoints, 1'000);
    for (std::uint32_t i = 0; i < kMaxScoredHosts + 100; ++i)
        limiter.penalize("8." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + ".1", 1, 5'000);
    EXPECT_TRUE(limiter.is_banned("1.2.3.4", 5'000));
}

}  // namespace
}  // namespace quern::p2p
