// merkle_leaf of many whole tiles, kHashLanes at a time: what roots of tensors and ids of contents consist of. Belongs
// to one thread.
//
//   TileLeaves leaves(count);
//   for (...) std::memcpy(leaves.next(hashes[i]).data(), source, kMerkleTileBytes);
//   leaves.flush();
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "crypto/sha256_batch.h"

namespace quern::crypto {

inline constexpr std::size_t kMerkleTileBytes = 4096;

class TileLeaves {
public:
    // The bytes of a tile as words in memory, in the order in which they are hashed.
    using Words = std::array<std::uint32_t, kMerkleTileBytes / 4>;

    // Of `expected` tiles or so: memory for as many, but no more than kHashLanes.
    explicit TileLeaves(std::size_t expected);

    // Where the next tile is to be written, whole, before the next call. Its hash is in `hash` after flush().
    [[nodiscard]] Words& next(Hash32& hash);
    // Hashes what was written. More may follow.
    void flush();

private:
    // What is hashed of a tile lies in one piece: its bytes, then the domain.
    struct Message {
        Words words;
        std::uint8_t domain;
    };
    std::vector<Message> messages_;
    std::vector<Hash32*> hashes_;  // of the messages that wait
};

}  // namespace quern::crypto
