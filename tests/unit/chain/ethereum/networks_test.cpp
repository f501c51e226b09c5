#include "chain/ethereum/networks.h"

#include <gtest/gtest.h>

namespace quern::chain::ethereum {
namespace {

std::string_view fork(std::string_view network, std::uint64_t number, std::uint64_t timestamp = 0,
                      const Uint256& total_difficulty = {}) {
    const auto parsed = Network::parse(network);
    EXPECT_TRUE(parsed) << network;
    // The names are the table's, which outlives the network.
    return parsed ? parsed->fork_of(number, timestamp, total_difficulty).name : "";
}

TEST(Networks, have_one_fork_or_another_from_somewhere_on) {
    EXPECT_EQ(fork("Frontier", 1'000'000), "Frontier");
    EXPECT_EQ(fork("BerlinToLondonAt5", 4, 99'000), "Berlin");
    EXPECT_EQ(fork("BerlinToLondonAt5", 5), "London");
    EXPECT_EQ(fork("ParisToShanghaiAtTime15k", 9, 14'999), "Paris");
    EXPECT_EQ(fork("ParisToShanghaiAtTime15k", 1, 15'000), "Shanghai");
    EXPECT_EQ(fork("ArrowGlacierToParisAtDiffC0000", 9, 0, 0xbffff), "ArrowGlacier");
    EXPECT_EQ(fork("ArrowGlacierToParisAtDiffC0000", 9, 0, 0xc0000), "Paris");
    EXPECT_EQ(fork("BPO1ToBPO2AtTime15k", 1, 15'000), "BPO2");
    EXPECT_EQ(Network::parse("HomesteadToDaoAt5")->dao_block(), 5U);
    EXPECT_EQ(Network::parse("HomesteadToEIP150At5")->dao_block(), std::nullopt);
    EXPECT_EQ(Network::parse("HomesteadToDaoAt5")->fork_of(9, 0, {}).revision, Revision::homestead);
    for (const char* name : {"", "Byantium", "BerlinAt5", "BerlinToLondon", "BerlinToLondonAt", "BerlinToLondonAt5x",
                             "ParisToShanghaiAtTime", "ParisToShanghaiAtTime99999999999999999k", "ToAt",
                             "ArrowGlacierToParisAtDiffxyz", "BerlinToLondonAt-1"})
        EXPECT_EQ(Network::parse(name).error().name, "ethereum.unknown_network") << name;
}

TEST(Networks, schedules_of_blobs_are_those_of_the_forks_or_of_the_fixture) {
    Network network = Network::parse("CancunToPragueAtTime15k").value();
    EXPECT_EQ(network.fork_of(1, 0, {}).blobs.max, 6U);
    EXPECT_EQ(network.fork_of(1, 15'000, {}).blobs.target, 6U);
    network.set_blob_schedule("Prague", {7, 8, 9});
    network.set_blob_schedule("Osaka", {1, 2, 3});
    EXPECT_EQ(network.fork_of(1, 0, {}).blobs.max, 6U);
    EXPECT_EQ(network.fork_of(1, 15'000, {}).blobs.max, 8U);
    EXPECT_EQ(network.last().blobs.base_fee_update_fraction, Uint256(9));
}

}  // namespace
}  // namespace quern::chain::ethereum
