// The rules of the EVM by fork, oldest first: what a later one has, those after it have. Quern's networks begin with
// Osaka; the older ones are for Ethereum's own tests. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern::vm::evm {

enum class Revision : std::uint8_t {
    frontier,
    homestead,
    tangerine_whistle,  // EIP-150
    spurious_dragon,    // EIP-158/161
    byzantium,
    constantinople,
    petersburg,  // without EIP-1283; fixtures say ConstantinopleFix
    istanbul,
    berlin,
    london,
    paris,  // proof of stake; fixtures say Merge, too
    shanghai,
    cancun,
    prague,
    osaka,
};
inline constexpr std::size_t kRevisions = static_cast<std::size_t>(Revision::osaka) + 1;

// The name that Ethereum's fixtures have for it ("EIP150", "ConstantinopleFix", "Osaka").
[[nodiscard]] std::string_view fixture_name(Revision revision);
// Names of forks that changed no rule of the EVM (glacier forks) are the one before's; "Merge" is Paris.
[[nodiscard]] std::optional<Revision> revision_of(std::string_view fixture_name);

}  // namespace quern::vm::evm
