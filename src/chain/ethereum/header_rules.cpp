#include "chain/ethereum/header_rules.h"

#include <string_view>

#include "chain/ethereum/difficulty.h"
#include "chain/ethereum/fees.h"

namespace quern::chain::ethereum {
namespace {

constexpr std::size_t kMaxExtraDataBytes = 32;
constexpr std::uint64_t kGasLimitBoundDivisor = 1'024;
constexpr std::uint64_t kMinGasLimit = 5'000;
constexpr std::uint64_t kMaxGasLimit = (std::uint64_t{1} << 63) - 1;  // EIP-1985, as clients have it
constexpr std::uint64_t kLondonElasticity = 2;
constexpr std::uint64_t kDaoExtraDataBlocks = 10;
constexpr std::string_view kDaoExtraData = "dao-hard-fork";

Status check_fields(const Fork& fork, const Header& header) {
    const auto must_be = [&fork](Revision since, bool is_there) { return is_there == (fork.revision >= since); };
    if (!must_be(Revision::london, header.base_fee.has_value()) ||
        !must_be(Revision::shanghai, header.withdrawals_root.has_value()) ||
        !must_be(Revision::cancun, header.blob_gas_used.has_value()) ||
        !must_be(Revision::cancun, header.excess_blob_gas.has_value()) ||
        !must_be(Revision::cancun, header.parent_beacon_block_root.has_value()) ||
        !must_be(Revision::prague, header.requests_hash.has_value()))
        return fail("block.incorrect_block_format", "fields of a fork other than " + std::string(fork.name));
    return {};
}

Status check_extra_data(const Network& network, const Header& header) {
    if (header.extra_data.size() > kMaxExtraDataBytes) return fail("block.extra_data_too_big");
    const auto dao = network.dao_block();
    if (!dao || header.number < *dao || header.number >= *dao + kDaoExtraDataBlocks) return {};
    if (!equal(header.extra_data, as_bytes(kDaoExtraData))) return fail("block.extra_data_invalid_dao");
    return {};
}

Status check_gas(const Fork& fork, const Header& header, const Header& parent) {
    if (header.gas_limit > kMaxGasLimit) return fail("block.gaslimit_too_big");
    const bool is_first_of_london = fork.revision >= Revision::london && !parent.base_fee;
    const std::uint64_t before = parent.gas_limit * (is_first_of_london ? kLondonElasticity : 1);
    const std::uint64_t distance = header.gas_limit > before ? header.gas_limit - before : before - header.gas_limit;
    if (distance >= before / kGasLimitBoundDivisor || header.gas_limit < kMinGasLimit)
        return fail("block.invalid_gaslimit", std::to_string(header.gas_limit));
    if (header.gas_used > header.gas_limit) return fail("block.gas_used_overflow");
    return {};
}

Status check_base_fee(const Header& header, const Header& parent) {
    if (header.base_fee && *header.base_fee != next_base_fee(parent))
        return fail("block.invalid_basefee_per_gas", next_base_fee(parent).to_decimal());
    return {};
}

Status check_blob_gas(const Fork& fork, const Header& header, const Header& parent) {
    if (!header.blob_gas_used) return {};
    if (*header.excess_blob_gas != next_excess_blob_gas(fork, parent))
        return fail("block.incorrect_excess_blob_gas", std::to_string(next_excess_blob_gas(fork, parent)));
    return {};
}

// EIP-3675.
Status check_seal(const Fork& fork, const Header& header, const Header& parent) {
    if (fork.revision >= Revision::paris) {
        if (!header.difficulty.is_zero()) return fail("block.import_impossible_difficulty_over_paris");
        if (header.ommers_hash != types::kEmptyOmmersHash) return fail("block.import_impossible_uncles_over_paris");
        if (!header.nonce.is_zero()) return fail("block.invalid_difficulty", "a nonce without work");
        return {};
    }
    if (header.difficulty.is_zero()) return fail("block.import_impossible_paris_wrong_pos");
    const Uint256 wanted = next_difficulty(fork, parent, header.timestamp);
    if (header.difficulty != wanted) return fail("block.invalid_difficulty", "wanted " + wanted.to_decimal());
    return {};
}

}  // namespace

Status check_header(const Network& network, const Header& header, const Ancestor& parent) {
    const Fork& fork = network.fork_of(header.number, header.timestamp, parent.total_difficulty);
    if (header.number != parent.header.number + 1) return fail("block.invalid_block_number");
    if (header.timestamp <= parent.header.timestamp) return fail("block.invalid_block_timestamp_older_than_parent");
    QUERN_CHECK(check_seal(fork, header, parent.header));
    QUERN_CHECK(check_extra_data(network, header));
    QUERN_CHECK(check_gas(fork, header, parent.header));
    QUERN_CHECK(check_fields(fork, header));
    QUERN_CHECK(check_base_fee(header, parent.header));
    return check_blob_gas(fork, header, parent.header);
}

}  // namespace quern::chain::ethereum
