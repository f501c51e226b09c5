#include "crypto/sha256_batch.h"

#include <gtest/gtest.h>

#include <thread>

#include "crypto/content_id.h"
#include "crypto/tile_leaves.h"

namespace quern::crypto {
namespace {

Bytes noise(std::size_t size, std::uint32_t seed) {
    Bytes bytes(size);
    for (auto& byte : bytes) {
        seed = seed * 1664525U + 1013904223U;
        byte = static_cast<std::uint8_t>(seed >> 24);
    }
    return bytes;
}

void expect_same(const std::vector<Bytes>& messages) {
    const std::vector<BytesView> views(messages.begin(), messages.end());
    std::vector<Hash32> hashes(messages.size());
    sha256_batch(views, hashes);
    for (std::size_t i = 0; i < messages.size(); ++i)
        ASSERT_EQ(hashes[i], sha256(messages[i])) << i << " of " << messages.size() << ", " << messages[i].size();
}

// Around each border of a block and of its padding, in batches that fill the lanes and that do not.
TEST(Sha256Batch, equals_one_by_one) {
    SCOPED_TRACE(std::string(sha256_batch_engine()));
    for (const std::size_t count : {0U, 1U, 2U, 11U, 12U, 13U, 16U, 31U, 32U, 33U, 70U, 300U}) {
        for (const std::size_t size : {1U, 55U, 56U, 63U, 64U, 65U, 4097U}) {
            std::vector<Bytes> messages;
            for (std::size_t i = 0; i < count; ++i) messages.push_back(noise(size, static_cast<std::uint32_t>(i)));
            expect_same(messages);
        }
    }
}

TEST(Sha256Batch, messages_of_every_length_in_one_batch) {
    std::vector<Bytes> messages;
    for (std::size_t i = 0; i < 400; ++i) messages.push_back(noise(i * 7 % 400, static_cast<std::uint32_t>(i)));
    expect_same(messages);
}

TEST(Sha256Batch, threads_do_not_meet) {
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t)
        threads.emplace_back([t] {
            std::vector<Bytes> messages;
            for (std::uint32_t i = 0; i < 64; ++i) messages.push_back(noise(4097, 1000 * t + i));
            for (int round = 0; round < 5; ++round) expect_same(messages);
        });
    for (auto& thread : threads) thread.join();
}

TEST(TileLeaves, are_merkle_leaves_of_the_tiles) {
    for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 100U}) {
        std::vector<Hash32> hashes(count);
        TileLeaves leaves(count);
        for (std::size_t i = 0; i < count; ++i) {
            const Bytes tile = noise(kMerkleTileBytes, static_cast<std::uint32_t>(i));
            std::memcpy(leaves.next(hashes[i]).data(), tile.data(), tile.size());
        }
        leaves.flush();
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(hashes[i], merkle_leaf(noise(kMerkleTileBytes, static_cast<std::uint32_t>(i)))) << i;
    }
}

// Many leaves at once are those that are made one by one, whatever the pieces that arrive.
TEST(ContentLeaves, do_not_depend_on_pieces) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, kContentTileBytes, kContentLeafBytes - 1, kContentLeafBytes,
          kContentLeafBytes + 1, 9 * kContentLeafBytes + 5'000, (std::size_t{3} << 20) + 17}) {
        const Bytes content = noise(size, 7);
        std::vector<Hash32> expected;
        for (std::size_t at = 0; at < size; at += kContentLeafBytes)
            expected.push_back(content_leaf(BytesView(content).subspan(at, std::min(kContentLeafBytes, size - at))));
        EXPECT_EQ(content_leaves(content), expected) << size;
        const Hash32 id = content_id_of_leaves(expected, size);
        for (const std::size_t piece : {std::size_t{1000}, kContentLeafBytes, std::size_t{100'000}, size + 1}) {
            ContentHasher hasher;
            for (std::size_t at = 0; at < size; at += piece)
                hasher.update(BytesView(content).subspan(at, std::min(piece, size - at)));
            EXPECT_EQ(hasher.finish(), id) << size << " in pieces of " << piece;
            EXPECT_EQ(hasher.leaves(), expected);
        }
    }
}

}  // namespace
}  // namespace quern::crypto
