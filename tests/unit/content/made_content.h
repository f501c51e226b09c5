// A content of random bytes with its manifest, for tests of the store.
#pragma once

#include <algorithm>
#include <memory>

#include "base/rng.h"
#include "content/store.h"

namespace quern::content {

inline constexpr std::uint64_t kLeaf = crypto::kContentLeafBytes;

struct Content {
    Bytes bytes;
    std::shared_ptr<const Manifest> manifest;
    Hash32 id;
    explicit Content(std::size_t size, std::uint64_t seed = 1) : bytes(size) {
        SeededRng(seed).fill(bytes);
        crypto::ContentHasher hasher;
        hasher.update(bytes);
        id = hasher.finish();
        manifest = std::make_shared<const Manifest>(Manifest{size, hasher.leaves()});
    }
    [[nodiscard]] BytesView leaves(std::uint64_t first, std::uint64_t count) const {
        const std::uint64_t from = first * kLeaf;
        return BytesView(bytes).subspan(from, std::min<std::uint64_t>(count * kLeaf, bytes.size() - from));
    }
};

}  // namespace quern::content
