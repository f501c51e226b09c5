// Content ids: how programs, data sets and checkpoints are named in transport. id = seal(content, leaves, size, top) over
// leaves of 16 KiB (the last may be short), size as 8 bytes big endian. Used by the content store and by workers, who
// check what they fetch. A hasher belongs to one thread.
#pragma once

#include <vector>

#include "crypto/merkle.h"

namespace quern::crypto {

inline constexpr std::size_t kContentLeafBytes = 16U << 10;

// The id of a content whose leaves' hashes (merkle_leaf of each 16 KiB) and size are known.
[[nodiscard]] Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size);
[[nodiscard]] Hash32 content_id_of(BytesView content);

class ContentHasher {
public:
    void update(BytesView more);
    // Ends the last leaf. Call once; then leaves() and size() tell the manifest.
    [[nodiscard]] Hash32 finish();
    [[nodiscard]] const std::vector<Hash32>& leaves() const { return leaves_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }

private:
    Bytes pending_;
    std::vector<Hash32> leaves_;
    std::uint64_t size_ = 0;
};

}  // namespace quern::crypto
