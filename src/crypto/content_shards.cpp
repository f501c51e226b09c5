#include "crypto/content_shards.h"

#include <algorithm>

#include "base/big_endian.h"

namespace quern::crypto {
namespace {
constexpr std::size_t kSizeBytes = 8;
}  // namespace

std::uint64_t ContentShards::bytes_of(std::size_t shard) const {
    return std::min(shard_bytes(), size - shard * shard_bytes());
}

Hash32 ContentShards::id_of(std::size_t shard) const { return bytes_id(bytes_of(shard), tops[shard]); }

// The tops are the nodes of one level: the last shard's, however small it is, moves up to it unchanged.
Hash32 ContentShards::id() const { return bytes_id(size, merkle_top(tops)); }

Bytes encode(const ContentShards& list) {
    Bytes out;
    append_big_endian(out, list.size, kSizeBytes);
    for (const Hash32& top : list.tops) append(out, top);
    return out;
}

Expected<ContentShards> decode_content_shards(BytesView bytes, unsigned level) {
    if (bytes.size() < kSizeBytes || bytes.size() > kMaxShardListBytes) return fail("content.bad_shards", "its length");
    ContentShards list;
    list.level = level;
    list.size = from_big_endian(bytes.first(kSizeBytes));
    const BytesView tops = bytes.subspan(kSizeBytes);
    if (tops.size() % Hash32::kSize != 0 || tops.size() / Hash32::kSize != content_shard_count(list.size, level) ||
        tops.size() < 2 * Hash32::kSize)
        return fail("content.bad_shards", "not a top for each of two or more shards");
    list.tops.reserve(tops.size() / Hash32::kSize);
    for (std::size_t at = 0; at < tops.size(); at += Hash32::kSize)
        list.tops.push_back(Hash32::copy_of(tops.subspan(at, Hash32::kSize)));
    return list;
}

void ShardHasher::close_shard() {
    (void)open_.finish();
    list_.tops.push_back(merkle_top(open_.leaves()));
    open_ = ContentHasher();
}

void ShardHasher::update(BytesView more) {
    list_.size += more.size();
    while (!more.empty()) {
        const auto part =
            static_cast<std::size_t>(std::min<std::uint64_t>(more.size(), list_.shard_bytes() - open_.size()));
        open_.update(more.first(part));
        more = more.subspan(part);
        if (open_.size() == list_.shard_bytes()) close_shard();
    }
}

ContentShards ShardHasher::finish() {
    if (open_.size() != 0) close_shard();
    return std::move(list_);
}

}  // namespace quern::crypto
