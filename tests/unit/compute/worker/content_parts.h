// What a node tells of a content in parts.
#pragma once

#include "compute/worker/node_view.h"
#include "crypto/content_id.h"

namespace quern::compute::worker::test {

[[nodiscard]] inline ContentLeaves leaves_of(BytesView content) {
    crypto::ContentHasher hasher;
    hasher.update(content);
    (void)hasher.finish();
    return {content.size(), hasher.leaves()};
}

[[nodiscard]] inline Expected<Bytes> part_of(BytesView content, std::uint64_t first, std::uint64_t length) {
    if (first > content.size() || length > content.size() - first) return busy(kBadAnswer);
    return to_bytes(content.subspan(first, length));
}

}  // namespace quern::compute::worker::test
