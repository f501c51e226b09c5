// What a reveal shows of a report and the state does not keep: a log that whistleblowers look up when a result root is
// not the one they have computed. Plain value.
#pragma once

#include "chain/types/native_objects.h"

namespace quern::chain::types {

struct ProbesRevealed {  // verification; in the block VerifierReport::revealed_at
    static constexpr const char* kEvent = "ProbesRevealed";
    static constexpr std::size_t kIndexed = 2;
    std::uint64_t task = 0;
    Address verifier;
    std::uint32_t stretch = 0;
    Hash32 result_root;
    std::vector<Hash32> probes;  // hashes of the probe tiles: the leaves after the verdict
    QUERN_FIELDS(v("task", task), v("verifier", verifier), v("stretch", stretch), v("resultRoot", result_root),
                 v("probes", probes))
};

}  // namespace quern::chain::types
