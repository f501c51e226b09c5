// A block that the chain must have at a height. Validators that unbonded long ago can sign another history, and nothing
// that a node without recent state knows tells it from the true one (weak subjectivity): so a node that is new, or was
// away for longer than unbonding takes, is told one recent block by somebody it trusts. Pure.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace quern::node {

struct Checkpoint {
    std::uint64_t number = 0;
    Hash32 hash;
    bool operator==(const Checkpoint&) const = default;
};

// "HEIGHT:0xHASH". Error node.bad_checkpoint.
[[nodiscard]] Expected<Checkpoint> parse_checkpoint(std::string_view text);

// What releases know of public networks: a line for each, brought up to date with each release. There is none yet.
struct NetworkCheckpoint {
    Hash32 genesis;
    Checkpoint block;
};
inline constexpr std::array<NetworkCheckpoint, 0> kNetworkCheckpoints{};

[[nodiscard]] inline std::optional<Checkpoint> checkpoint_of(const Hash32& genesis) {
    for (const auto& known : kNetworkCheckpoints)
        if (known.genesis == genesis) return known.block;
    return std::nullopt;
}

}  // namespace quern::node
