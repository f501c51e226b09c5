#include "crypto/tile_leaves.h"

#include <algorithm>
#include <cstddef>

#include "crypto/merkle.h"

namespace quern::crypto {

TileLeaves::TileLeaves(std::size_t expected) : messages_(std::clamp<std::size_t>(expected, 1, kHashLanes)) {
    static_assert(offsetof(Message, domain) == kMerkleTileBytes);
    for (Message& message : messages_) message.domain = static_cast<std::uint8_t>(MerkleTag::leaf);
    hashes_.reserve(messages_.size());
}

TileLeaves::Words& TileLeaves::next(Hash32& hash) {
    if (hashes_.size() == messages_.size()) flush();
    hashes_.push_back(&hash);
    return messages_[hashes_.size() - 1].words;
}

void TileLeaves::flush() {
    std::array<BytesView, kHashLanes> views;
    std::array<Hash32, kHashLanes> made;
    const std::size_t count = hashes_.size();
    for (std::size_t i = 0; i < count; ++i)
        views[i] = BytesView(reinterpret_cast<const std::uint8_t*>(&messages_[i]), kMerkleTileBytes + 1);
    sha256_batch(std::span(views).first(count), std::span(made).first(count));
    for (std::size_t i = 0; i < count; ++i) *hashes_[i] = made[i];
    hashes_.clear();
}

}  // namespace quern::crypto
