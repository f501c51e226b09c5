#include "crypto/content_shards.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quern::crypto {
namespace {

constexpr unsigned kLevel = 3;  // shards of 32 KiB
constexpr std::uint64_t kShard = content_shard_bytes(kLevel);

Bytes random_bytes(std::size_t count) {
    Bytes bytes(count);
    SeededRng rng(count);
    rng.fill(bytes);
    return bytes;
}

ContentShards shards_of(BytesView content, std::size_t piece) {
    ShardHasher hasher(kLevel);
    for (std::size_t at = 0; at < content.size(); at += piece)
        hasher.update(content.subspan(at, std::min(piece, content.size() - at)));
    return hasher.finish();
}

TEST(ContentShards, have_ids_of_their_own_and_fold_to_the_wholes) {
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{1}, kShard - 1, kShard, kShard + 1, 2 * kShard, 2 * kShard + 5'000,
          3 * kShard + kContentLeafBytes, 5 * kShard + 1, 9 * kShard - 1}) {
        const Bytes content = random_bytes(size);
        for (const std::size_t piece : {std::size_t{1'000}, std::size_t{40'000}}) {
            const ContentShards list = shards_of(content, piece);
            EXPECT_EQ(list.size, size);
            EXPECT_EQ(list.tops.size(), content_shard_count(size, kLevel));
            EXPECT_EQ(list.is_list(), size > kShard);
            EXPECT_EQ(list.id(), content_id_of(content)) << size;
            for (std::size_t i = 0; i < list.tops.size(); ++i)
                EXPECT_EQ(list.id_of(i), content_id_of(BytesView(content).subspan(i * kShard, list.bytes_of(i))));
        }
    }
}

TEST(ContentShards, are_a_list_of_tops_behind_the_size) {
    const Bytes content = random_bytes(2 * kShard + 7);
    const ContentShards list = shards_of(content, 4'096);
    const Bytes bytes = encode(list);
    EXPECT_EQ(bytes.size(), 8 + 3 * 32U);
    EXPECT_EQ(*decode_content_shards(bytes, kLevel), list);
    const auto refused = [](Bytes other) {
        const auto made = decode_content_shards(other, kLevel);
        return !made && made.error().name == "content.bad_shards";
    };
    EXPECT_TRUE(refused({}));
    EXPECT_TRUE(refused(to_bytes(BytesView(bytes).first(8))));
    EXPECT_TRUE(refused(to_bytes(BytesView(bytes).first(bytes.size() - 1))));
    EXPECT_TRUE(refused(to_bytes(BytesView(bytes).first(bytes.size() - 32)))) << "a top too few";
    EXPECT_TRUE(refused(encode(shards_of(random_bytes(kShard), 4'096)))) << "of one shard there is none";
    EXPECT_FALSE(decode_content_shards(bytes)) << "by the network's level it would be one";
    ContentShards huge{kShard * (kMaxContentShards + 1), std::vector<Hash32>(kMaxContentShards + 1), kLevel};
    EXPECT_TRUE(refused(encode(huge)));
    huge.size -= kShard;
    huge.tops.pop_back();
    EXPECT_EQ(encode(huge).size(), kMaxShardListBytes);
    EXPECT_TRUE(decode_content_shards(encode(huge), kLevel));
    Bytes wrapped = bytes;
    std::fill_n(wrapped.begin(), 8, 0xff);
    EXPECT_TRUE(refused(wrapped));
}

TEST(ContentShards, are_of_one_gibibyte) {
    EXPECT_EQ(kContentShardBytes, 1U << 30);
    EXPECT_EQ(content_shard_count(kContentShardBytes), 1U);
    EXPECT_EQ(content_shard_count(kContentShardBytes + 1), 2U);
    EXPECT_EQ(content_shard_count(~std::uint64_t{0}), std::uint64_t{1} << 34);
}

}  // namespace
}  // namespace quern::crypto
