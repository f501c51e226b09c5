#include "chain/ethereum/requests.h"

#include <array>

#include "crypto/hash.h"

namespace quern::chain::ethereum {
namespace {

const types::Address kDepositContract = fixed_from_hex<20>("0x00000000219ab540356cbb839cbe05303d7705fa").value();
// keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)")
const Hash32 kDepositEvent =
    fixed_from_hex<32>("0x649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5").value();

// The event's five byte strings, as Solidity's ABI has them: where each begins, and how long it is.
struct Field {
    std::uint64_t offset;
    std::uint64_t bytes;
};
constexpr std::array<Field, 5> kDepositFields{{{160, 48}, {256, 32}, {320, 8}, {384, 96}, {512, 8}}};
constexpr std::size_t kDepositEventBytes = 576;
constexpr std::size_t kWord = 32;

bool has_number(BytesView data, std::uint64_t at, std::uint64_t wanted) {
    return Uint256::from_be(data.subspan(at, kWord)) == Uint256(wanted);
}

Status add_deposit(BytesView data, Bytes& deposits) {
    if (data.size() != kDepositEventBytes) return fail("block.invalid_deposit_event_layout", "length");
    for (std::size_t i = 0; i < kDepositFields.size(); ++i)
        if (!has_number(data, kWord * i, kDepositFields[i].offset) ||
            !has_number(data, kDepositFields[i].offset, kDepositFields[i].bytes))
            return fail("block.invalid_deposit_event_layout", "field " + std::to_string(i));
    for (const Field& field : kDepositFields) append(deposits, data.subspan(field.offset + kWord, field.bytes));
    return {};
}

}  // namespace

Status add_deposits(std::span<const types::Log> logs, Bytes& deposits) {
    for (const types::Log& log : logs)
        if (log.address == kDepositContract && !log.topics.empty() && log.topics[0] == kDepositEvent)
            QUERN_CHECK(add_deposit(log.data, deposits));
    return {};
}

Hash32 hash_of(std::span<const Requests> requests) {
    Bytes hashes;
    for (const Requests& each : requests) {
        if (each.data.empty()) continue;
        const std::array<std::uint8_t, 1> type{static_cast<std::uint8_t>(each.type)};
        append(hashes, crypto::sha256({type, each.data}));
    }
    return crypto::sha256(hashes);
}

}  // namespace quern::chain::ethereum
