// The stored list of a content's leaf hashes. Grammar in store.h. Pure; thread-safe.
#pragma once

#include <vector>

#include "crypto/content_id.h"

namespace quern::content {

struct Manifest {
    std::uint64_t size = 0;
    std::vector<Hash32> leaves;
    bool operator==(const Manifest&) const = default;
};

// Bytes of the encoded manifest of a content of `size` bytes.
[[nodiscard]] constexpr std::uint64_t manifest_bytes(std::uint64_t size) {
    return 16 + 32 * crypto::content_leaf_count(size);
}
[[nodiscard]] Bytes encode(const Manifest& manifest);
// Checks that it is the manifest of `id`. Error content.corrupt.
[[nodiscard]] Expected<Manifest> decode_manifest(BytesView bytes, const Hash32& id);

}  // namespace quern::content
