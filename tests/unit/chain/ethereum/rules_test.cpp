// The rules of blocks that are numbers, against values of the chain or of the EIPs.
#include <gtest/gtest.h>

#include "chain/ethereum/difficulty.h"
#include "chain/ethereum/fees.h"
#include "chain/ethereum/requests.h"
#include "crypto/hash.h"

namespace quern::chain::ethereum {
namespace {

Fork fork(std::string_view name) { return Network::parse(name).value().last(); }

Header parent(std::uint64_t number, std::uint64_t timestamp, std::uint64_t difficulty) {
    Header header;
    header.number = number;
    header.timestamp = timestamp;
    header.difficulty = difficulty;
    header.ommers_hash = types::kEmptyOmmersHash;
    return header;
}

TEST(Difficulty, is_that_of_the_chain) {
    // Blocks 1 and 2 of Ethereum.
    EXPECT_EQ(next_difficulty(fork("Frontier"), parent(0, 0, 17'179'869'184), 1'438'269'988), Uint256(17'171'480'576));
    EXPECT_EQ(next_difficulty(fork("Frontier"), parent(1, 1'438'269'988, 17'171'480'576), 1'438'270'017),
              Uint256(17'163'096'064));
}

TEST(Difficulty, follows_time_ommers_and_the_bomb) {
    constexpr std::uint64_t kBase = 2'048'000;
    const auto after = [](std::string_view name, std::uint64_t seconds, std::uint64_t number = 10,
                          bool has_ommers = false) {
        Header header = parent(number - 1, 1'000, kBase);
        if (has_ommers) header.ommers_hash = Hash32();
        return next_difficulty(fork(name), header, 1'000 + seconds);
    };
    EXPECT_EQ(after("Frontier", 12), Uint256(kBase + 1'000));
    EXPECT_EQ(after("Frontier", 13), Uint256(kBase - 1'000));
    EXPECT_EQ(after("Homestead", 9), Uint256(kBase + 1'000));
    EXPECT_EQ(after("Homestead", 10), Uint256(kBase));
    EXPECT_EQ(after("Homestead", 9'000), Uint256(kBase - 99'000));
    EXPECT_EQ(after("Byzantium", 9), Uint256(kBase));
    EXPECT_EQ(after("Byzantium", 9, 10, true), Uint256(kBase + 1'000));
    EXPECT_EQ(after("Homestead", 10, 199'999), Uint256(kBase));
    EXPECT_EQ(after("Homestead", 10, 200'000), Uint256(kBase + 1));
    EXPECT_EQ(after("Homestead", 10, 1'000'000), Uint256(kBase + 256));
    EXPECT_EQ(after("Byzantium", 9, 3'200'000), Uint256(kBase + 1));
    EXPECT_EQ(after("GrayGlacier", 9, 11'599'999), Uint256(kBase));
    EXPECT_EQ(after("GrayGlacier", 9, 11'600'000), Uint256(kBase + 1));
    EXPECT_EQ(next_difficulty(fork("Homestead"), parent(9, 0, 131'072), 10'000), Uint256(131'072));
}

TEST(Fees, base_fee_moves_by_an_eighth_at_most) {
    const auto after = [](std::uint64_t base_fee, std::uint64_t gas_used, std::uint64_t gas_limit = 30'000'000) {
        Header header;
        header.base_fee = base_fee;
        header.gas_used = gas_used;
        header.gas_limit = gas_limit;
        return next_base_fee(header);
    };
    EXPECT_EQ(next_base_fee(Header()), Uint256(1'000'000'000));
    EXPECT_EQ(after(1'000'000'000, 15'000'000), Uint256(1'000'000'000));
    EXPECT_EQ(after(1'000'000'000, 30'000'000), Uint256(1'125'000'000));
    EXPECT_EQ(after(1'000'000'000, 0), Uint256(875'000'000));
    EXPECT_EQ(after(1, 15'000'001), Uint256(2));
    EXPECT_EQ(after(7, 0), Uint256(7));
}

TEST(Fees, blob_gas_follows_what_is_used) {
    // EIP-4844's own examples of fake_exponential, by factor 1.
    EXPECT_EQ(blob_base_fee(0, 3'338'477), Uint256(1));
    EXPECT_EQ(blob_base_fee(2'314'057, 3'338'477), Uint256(1));
    EXPECT_EQ(blob_base_fee(2'314'058, 3'338'477), Uint256(2));
    EXPECT_EQ(blob_base_fee(10 * 1024 * 1024, 3'338'477), Uint256(23));

    const auto after = [](std::string_view name, std::uint64_t excess, std::uint64_t blobs, std::uint64_t base_fee) {
        Header header;
        header.excess_blob_gas = excess;
        header.blob_gas_used = blobs * kBlobGas;
        header.base_fee = base_fee;
        return next_excess_blob_gas(fork(name), header);
    };
    EXPECT_EQ(next_excess_blob_gas(fork("Cancun"), Header()), 0U);
    EXPECT_EQ(after("Cancun", 0, 2, 7), 0U);
    EXPECT_EQ(after("Cancun", 2 * kBlobGas, 4, 7), 3 * kBlobGas);
    EXPECT_EQ(after("Prague", 2 * kBlobGas, 9, 7), 5 * kBlobGas);
    // EIP-7918: blobs cost less than their share of execution gas, so that the target is not taken off.
    EXPECT_EQ(after("Osaka", 2 * kBlobGas, 9, 16), 5 * kBlobGas);
    EXPECT_EQ(after("Osaka", 2 * kBlobGas, 9, 17), 5 * kBlobGas);
    EXPECT_EQ(after("Osaka", 6 * kBlobGas, 9, 17), 9 * kBlobGas);
    EXPECT_EQ(after("Prague", 6 * kBlobGas, 9, 17), 9 * kBlobGas);
    EXPECT_EQ(after("Osaka", 6 * kBlobGas, 3, 17), 7 * kBlobGas);
    EXPECT_EQ(after("Prague", 6 * kBlobGas, 3, 17), 3 * kBlobGas);
}

types::Log deposit_log() {
    types::Log log;
    log.address = fixed_from_hex<20>("0x00000000219ab540356cbb839cbe05303d7705fa").value();
    log.topics = {crypto::keccak256(as_bytes("DepositEvent(bytes,bytes,bytes,bytes,bytes)"))};
    const std::array<std::size_t, 5> sizes{48, 32, 8, 96, 8};
    std::size_t offset = 160;
    for (const std::size_t size : sizes) {
        append(log.data, Uint256(offset).to_be32());
        offset += 32 + (size + 31) / 32 * 32;
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        append(log.data, Uint256(sizes[i]).to_be32());
        Bytes field(sizes[i], static_cast<std::uint8_t>(i + 1));
        field.resize((sizes[i] + 31) / 32 * 32);
        append(log.data, field);
    }
    return log;
}

TEST(Requests, deposits_are_what_the_logs_of_the_contract_say) {
    Bytes expected;
    for (const auto& [size, value] :
         std::vector<std::pair<std::size_t, std::uint8_t>>{{48, 1}, {32, 2}, {8, 3}, {96, 4}, {8, 5}})
        append(expected, Bytes(size, value));
    types::Log other_event = deposit_log();
    other_event.topics[0] = Hash32();
    types::Log other_contract = deposit_log();
    other_contract.address = types::Address();
    Bytes deposits;
    ASSERT_TRUE(add_deposits(std::vector{other_event, deposit_log(), other_contract}, deposits));
    EXPECT_EQ(deposits, expected);
    for (const std::size_t at : {31U, 159U, 190U, 191U}) {
        types::Log bad = deposit_log();
        bad.data[at] ^= 1;
        EXPECT_EQ(add_deposits(std::vector{bad}, deposits).error().name, "block.invalid_deposit_event_layout") << at;
    }
    types::Log longer = deposit_log();
    longer.data.push_back(0);
    EXPECT_EQ(add_deposits(std::vector{longer}, deposits).error().name, "block.invalid_deposit_event_layout");
}

TEST(Requests, are_hashed_by_type_where_there_are_any) {
    EXPECT_EQ(hash_of({}), types::kEmptyRequestsHash);
    const std::array<Requests, 3> requests{
        {{RequestType::deposit, {}}, {RequestType::withdrawal, {7}}, {RequestType::consolidation, {8, 9}}}};
    Bytes hashes;
    append(hashes, crypto::sha256(Bytes{1, 7}));
    append(hashes, crypto::sha256(Bytes{2, 8, 9}));
    EXPECT_EQ(hash_of(requests), crypto::sha256(hashes));
}

}  // namespace
}  // namespace quern::chain::ethereum
