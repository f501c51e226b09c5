// Contents of any size (crypto/content_id.h) by shard: the subtrees of one level of the tree of tiles, each of which is
// a content of its own. Who knows the shards' tops knows the whole's id, and each shard's. Used by content, p2p,
// workers and tools; pure, a ShardHasher belongs to one thread.
//
//   shard i = bytes [S i, S (i + 1)), S = 2^18 tiles: 1 GiB; the last may be shorter
//   list    = size of the whole (8, big endian) || top of each shard's tree (32 each), of a content of at least two
//   id      = bytes_id(size, the tops folded)
//
// The level is a parameter for tests; on a network it is kContentShardLevel.
#pragma once

#include <vector>

#include "base/expected.h"
#include "crypto/content_id.h"

namespace quern::crypto {

inline constexpr unsigned kContentShardLevel = 18;        // of the tree of tiles
inline constexpr std::size_t kMaxContentShards = 32'768;  // of a list: 32 TiB, and 1 MiB of tops

[[nodiscard]] constexpr std::uint64_t content_shard_bytes(unsigned level) {
    return std::uint64_t{kContentTileBytes} << level;
}
inline constexpr std::uint64_t kContentShardBytes = content_shard_bytes(kContentShardLevel);

struct ContentShards {
    std::uint64_t size = 0;
    std::vector<Hash32> tops;
    unsigned level = kContentShardLevel;

    bool operator==(const ContentShards&) const = default;
    [[nodiscard]] std::uint64_t shard_bytes() const { return content_shard_bytes(level); }
    // A content of one shard has no list: its shard is itself.
    [[nodiscard]] bool is_list() const { return tops.size() > 1; }
    [[nodiscard]] std::uint64_t bytes_of(std::size_t shard) const;
    [[nodiscard]] Hash32 id_of(std::size_t shard) const;
    [[nodiscard]] Hash32 id() const;  // of the whole
};

// What a content is stored as, its shards or, without a list, itself: put(id, first, size) of the bytes [first,
// first + size), one after the other, until one fails. A list goes behind them: where it is, the shards are.
template <class Put>
[[nodiscard]] Status put_each(const ContentShards& content, const Put& put) {
    if (!content.is_list()) return put(content.id(), std::uint64_t{0}, content.size);
    for (std::size_t i = 0; i < content.tops.size(); ++i)
        QUERN_CHECK(put(content.id_of(i), i * content.shard_bytes(), content.bytes_of(i)));
    return {};
}

// The bytes of the longest list.
inline constexpr std::size_t kMaxShardListBytes = 8 + Hash32::kSize * kMaxContentShards;
[[nodiscard]] constexpr std::uint64_t content_shard_count(std::uint64_t size, unsigned level = kContentShardLevel) {
    return size / content_shard_bytes(level) + (size % content_shard_bytes(level) != 0 ? 1 : 0);
}
[[nodiscard]] Bytes encode(const ContentShards& list);
// Error content.bad_shards: not as many tops as the size has shards, fewer than two, or more than kMaxContentShards.
// Whose list it is id() says.
[[nodiscard]] Expected<ContentShards> decode_content_shards(BytesView bytes, unsigned level = kContentShardLevel);

// The list, and by it the id, of bytes that arrive in pieces of any length; holds the leaves of one shard at a time.
class ShardHasher {
public:
    explicit ShardHasher(unsigned level = kContentShardLevel) { list_.level = level; }
    void update(BytesView more);
    // Call once, after the last update.
    [[nodiscard]] ContentShards finish();

private:
    void close_shard();
    ContentHasher open_;
    ContentShards list_;
};

}  // namespace quern::crypto
