// What a defender posts in a dispute and the state does not keep: a log in which its rival finds what it is to answer.
// Plain value.
#pragma once

#include "chain/types/native_objects.h"

namespace quern::chain::types {

struct DisputePosted {  // disputes; in the block Dispute::posted_at
    static constexpr const char* kEvent = "DisputePosted";
    static constexpr std::size_t kIndexed = 1;
    std::uint64_t dispute = 0;
    Bytes post;  // RLP of compute::core::SplitMove
    QUERN_FIELDS(v("dispute", dispute), v("post", post))
};

}  // namespace quern::chain::types
