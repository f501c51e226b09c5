// Content ids: the name of a byte string in the content store and in task specifications. The id is the root of a
// Merkle tree over 16 KiB leaves, so that a reader can check each leaf alone. Used by content, workers and tools; pure,
// a ContentHasher belongs to one thread.
//
//   leaf i = merkle_leaf(bytes [16384 i, 16384 (i + 1)))       the last leaf may be shorter; no bytes, no leaves
//   id     = merkle_root(MerkleTag::content, leaves, context = size as 8 bytes big endian)
#pragma once

#include <span>
#include <vector>

#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::crypto {

inline constexpr std::size_t kContentLeafBytes = 16U << 10;

// Leaves of a content of `size` bytes.
[[nodiscard]] constexpr std::uint64_t content_leaf_count(std::uint64_t size) {
    return size / kContentLeafBytes + (size % kContentLeafBytes != 0 ? 1 : 0);
}
[[nodiscard]] Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size);
[[nodiscard]] Hash32 content_id_of(BytesView content);

// The id of bytes that arrive in pieces of any length.
class ContentHasher {
public:
    ContentHasher();
    void update(BytesView more);
    [[nodiscard]] std::uint64_t size() const { return size_; }
    // Closes the last leaf and gives the id. Call once, after the last update.
    [[nodiscard]] Hash32 finish();
    // All leaves; complete after finish().
    [[nodiscard]] const std::vector<Hash32>& leaves() const { return leaves_; }

private:
    void close_leaf();
    Sha256 leaf_;
    std::size_t in_leaf_ = 0;
    std::uint64_t size_ = 0;
    std::vector<Hash32> leaves_;
};

}  // namespace quern::crypto
