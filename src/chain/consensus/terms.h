// Words that the consensus core, its driver and the executor share. Plain values; thread-safe.
#pragma once

#include "chain/types/block.h"

namespace quern::chain::consensus {

// A block as far as consensus needs to know it: the newest committed one, or the parent of a proposal.
struct Tip {
    std::uint64_t number = 0;
    Hash32 hash;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::uint64_t timestamp_ms = 0;
    Hash32 beacon;
    bool operator==(const Tip&) const = default;
};
[[nodiscard]] Tip tip_of(const types::BlockHeader& header);

struct Time {
    std::uint64_t wall_ms = 0;       // since 1970 UTC; may jump
    std::uint64_t monotonic_ms = 0;  // for pacing
};

struct BuiltBlock {
    Hash32 hash;
    Bytes block;  // encoded
};

}  // namespace quern::chain::consensus
