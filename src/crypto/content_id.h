// Content ids: the name of a byte string in the content store and in task specifications, and the root of a tensor,
// whose bytes are its tiles' in order. The id is over a Merkle tree of 4,096-byte tiles; what is fetched and stored
// goes by transport leaves of 16 KiB, the nodes of the tree's level 2, so that a reader can check each of them alone.
// Used by content, p2p, vm/tensor, workers and tools; pure, a ContentHasher belongs to one thread.
//
//   tile i = merkle_leaf(bytes [4096 i, 4096 (i + 1)))             the last tile may be shorter; no bytes, no tiles
//   leaf i = tiles 4 i to 4 i + 3, as many as there are, folded
//   id     = bytes_id(size, top)
#pragma once

#include <span>
#include <vector>

#include "crypto/hash.h"
#include "crypto/merkle.h"
#include "crypto/tile_leaves.h"

namespace quern::crypto {

inline constexpr std::size_t kContentTileBytes = kMerkleTileBytes;
inline constexpr unsigned kContentLeafLevel = 2;  // of the tree of tiles
inline constexpr std::size_t kTilesPerContentLeaf = std::size_t{1} << kContentLeafLevel;
inline constexpr std::size_t kContentLeafBytes = kContentTileBytes * kTilesPerContentLeaf;  // 16 KiB

// Leaves of a content of `size` bytes.
[[nodiscard]] constexpr std::uint64_t content_leaf_count(std::uint64_t size) {
    return size / kContentLeafBytes + (size % kContentLeafBytes != 0 ? 1 : 0);
}
// The leaf over these bytes: 1 to kContentLeafBytes of them.
[[nodiscard]] Hash32 content_leaf(BytesView bytes);
// All leaves over these bytes, which begin with one; the last may be shorter.
[[nodiscard]] std::vector<Hash32> content_leaves(BytesView bytes);
[[nodiscard]] Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size);
[[nodiscard]] Hash32 content_id_of(BytesView content);

// The id of `tiles.size()` whole tiles, and whether a whole tile is number `index` of the `tiles` of the content `id`.
// Error merkle.proof_mismatch when the path does not lead to it, and merkle_top_from_path's.
[[nodiscard]] Hash32 content_id_of_tiles(std::span<const Hash32> tiles);
[[nodiscard]] Status check_tile_path(const Hash32& id, const Hash32& tile, std::uint64_t index, std::uint64_t tiles,
                                     std::span<const Hash32> path);

// The id of bytes that arrive in pieces of any length.
class ContentHasher {
public:
    void update(BytesView more);
    [[nodiscard]] std::uint64_t size() const { return size_; }
    // Closes the last leaf and gives the id. Call once, after the last update.
    [[nodiscard]] Hash32 finish();
    // All leaves; complete after finish().
    [[nodiscard]] const std::vector<Hash32>& leaves() const { return leaves_; }

private:
    void close_tile();
    void close_leaf();
    Sha256 tile_;
    std::size_t in_tile_ = 0;
    std::vector<Hash32> tiles_;  // of the open leaf
    std::uint64_t size_ = 0;
    std::vector<Hash32> leaves_;
};

}  // namespace quern::crypto
