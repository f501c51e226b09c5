#include "crypto/content_id.h"

#include <algorithm>
#include <cstring>

namespace quern::crypto {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // whose tiles' hashes are held at a time

}  // namespace

Hash32 content_leaf(BytesView bytes) {
    std::array<Hash32, kTilesPerContentLeaf> tiles;
    std::size_t count = 0;
    for (; !bytes.empty() && count < tiles.size(); ++count) {
        const BytesView tile = bytes.first(std::min(bytes.size(), kContentTileBytes));
        tiles[count] = merkle_leaf(tile);
        bytes = bytes.subspan(tile.size());
    }
    return merkle_fold(std::span(tiles).first(count), kContentLeafLevel);
}

std::vector<Hash32> content_leaves(BytesView bytes) {
    const std::size_t whole = bytes.size() / kContentTileBytes;
    std::vector<Hash32> tiles(whole);
    TileLeaves leaves(whole);
    for (Hash32& tile : tiles) {
        std::memcpy(leaves.next(tile).data(), bytes.data(), kContentTileBytes);
        bytes = bytes.subspan(kContentTileBytes);
    }
    leaves.flush();
    if (!bytes.empty()) tiles.push_back(merkle_leaf(bytes));
    return merkle_level(tiles, kContentLeafLevel);
}

// The leaves are the nodes of one level, so the tree above them has the tiles' top.
Hash32 content_id_of_leaves(std::span<const Hash32> leaves, std::uint64_t size) {
    return bytes_id(size, merkle_top(leaves));
}

Hash32 content_id_of(BytesView content) {
    ContentHasher hasher;
    hasher.update(content);
    return hasher.finish();
}

Hash32 content_id_of_tiles(std::span<const Hash32> tiles) {
    return bytes_id(tiles.size() * kContentTileBytes, merkle_top(tiles));
}

Status check_tile_path(const Hash32& id, const Hash32& tile, std::uint64_t index, std::uint64_t tiles,
                       std::span<const Hash32> path) {
    QUERN_TRY(const Hash32 top, merkle_top_from_path(tile, index, tiles, path));
    if (bytes_id(tiles * kContentTileBytes, top) != id) return fail("merkle.proof_mismatch");
    return {};
}

void ContentHasher::close_tile() {
    constexpr std::array<std::uint8_t, 1> kDomain{static_cast<std::uint8_t>(MerkleTag::leaf)};
    tiles_.push_back(tile_.update(kDomain).finish());
    in_tile_ = 0;
    if (tiles_.size() == kTilesPerContentLeaf) close_leaf();
}

void ContentHasher::close_leaf() {
    leaves_.push_back(merkle_fold(tiles_, kContentLeafLevel));
    tiles_.clear();
}

void ContentHasher::update(BytesView more) {
    size_ += more.size();
    while (!more.empty()) {
        const std::size_t whole = std::min(more.size(), kPieceBytes) / kContentLeafBytes * kContentLeafBytes;
        if (whole != 0 && in_tile_ == 0 && tiles_.empty()) {  // many leaves at once
            const std::vector<Hash32> leaves = content_leaves(more.first(whole));
            leaves_.insert(leaves_.end(), leaves.begin(), leaves.end());
            more = more.subspan(whole);
            continue;
        }
        const std::size_t part = std::min(more.size(), kContentTileBytes - in_tile_);
        tile_.update(more.first(part));
        in_tile_ += part;
        more = more.subspan(part);
        if (in_tile_ == kContentTileBytes) close_tile();
    }
}

Hash32 ContentHasher::finish() {
    if (in_tile_ != 0) close_tile();
    if (!tiles_.empty()) close_leaf();
    return content_id_of_leaves(leaves_, size_);
}

}  // namespace quern::crypto
