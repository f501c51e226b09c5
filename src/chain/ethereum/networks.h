// Ethereum's forks as the rules of blocks see them, and the networks of official blockchain tests: one fork throughout,
// or another from a block, a time or a total difficulty on. Nothing of it is a rule of Quern's own networks. Plain
// values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "base/uint256.h"
#include "vm/evm/revision.h"

namespace quern::chain::ethereum {

using vm::evm::Revision;

// EIP-7840. From Cancun on.
struct BlobSchedule {
    std::uint64_t target = 0;  // blobs of a block
    std::uint64_t max = 0;
    Uint256 base_fee_update_fraction;
};

struct Fork {
    std::string_view name;  // as fixtures have it
    Revision revision = Revision::frontier;
    std::uint64_t bomb_delay = 0;  // blocks by which the difficulty bomb is late
    BlobSchedule blobs;
};

class Network {
public:
    // "Berlin", "BerlinToLondonAt5", "ParisToShanghaiAtTime15k", "ArrowGlacierToParisAtDiffC0000", "HomesteadToDaoAt5".
    // Error: ethereum.unknown_network.
    [[nodiscard]] static Expected<Network> parse(std::string_view name);

    // `fork` has this schedule here. One that is not of this network is ignored.
    void set_blob_schedule(std::string_view fork, const BlobSchedule& schedule);

    // Of a block; the total difficulty is that of its parent.
    [[nodiscard]] const Fork& fork_of(std::uint64_t number, std::uint64_t timestamp,
                                      const Uint256& parent_total_difficulty) const;
    // The fork that it ends with.
    [[nodiscard]] const Fork& last() const { return after_; }
    // The block that moves the DAO's balances (EIP-779), if there is one.
    [[nodiscard]] std::optional<std::uint64_t> dao_block() const;

private:
    enum class Trigger : std::uint8_t { never, number, timestamp, total_difficulty };

    Fork before_;
    Fork after_;
    Trigger trigger_ = Trigger::never;
    Uint256 threshold_;
};

}  // namespace quern::chain::ethereum
