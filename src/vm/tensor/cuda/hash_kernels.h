// Hashes of tiles: SHA-256 of a tile's 4,096 bytes and the domain of a leaf (crypto/merkle.h), a thread a tile.
// Launched by launch.cu; see block.h. Definitions: doc/verification.md (Commitments), FIPS 180-4.
#pragma once

#include "vm/tensor/cuda/block.h"

namespace quern::vm::tensor::cuda {

struct TileHashes {
    static constexpr unsigned kThreads = 64;  // few, so that a tensor of few tiles is spread
    static constexpr u32 kTileSide = 32;
    static constexpr u32 kTileWords = kTileSide * kTileSide;
    static constexpr u32 kChunk = 16;  // words that a compression takes
    static constexpr u32 kHashWords = 8;
    static constexpr u32 kLeafDomain = 0;  // crypto::MerkleTag::leaf
    using Shared = NoShared;

    const u32* words = nullptr;  // of the tensor, in order
    u64 leading = 1;
    u32 rows = 1;
    u32 columns = 1;
    u32* hashes = nullptr;  // of each tile 32 bytes as they stand in memory of little endian order

    [[nodiscard]] QUERN_HD u32 height() const { return rows == 1 ? 1 : kTileSide; }
    [[nodiscard]] QUERN_HD u32 width() const { return rows == 1 ? kTileWords : kTileSide; }
    [[nodiscard]] QUERN_HD u64 tile_columns() const { return divided_up(columns, width()); }
    [[nodiscard]] QUERN_HD u64 tile_rows() const { return divided_up(rows, height()); }
    [[nodiscard]] QUERN_HD u64 tiles() const { return leading * tile_rows() * tile_columns(); }
    [[nodiscard]] u64 blocks() const { return divided_up(tiles(), kThreads); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        block.alone([&](unsigned thread) {
            const u64 tile = block.index() * kThreads + thread;
            if (tile < tiles()) hash(tile);
        });
    }

private:
    static QUERN_HD u32 turned(u32 x, u32 by) { return x >> by | x << (32 - by); }
    static QUERN_HD u32 swapped(u32 x) {
#if defined(__CUDA_ARCH__)
        return __byte_perm(x, 0, 0x0123);
#else
        return x >> 24 | (x >> 8 & 0xff00U) | (x << 8 & 0xff0000U) | x << 24;
#endif
    }

    static QUERN_HD void compress(u32 (&state)[kHashWords], u32 (&w)[kChunk]) {
        constexpr u32 kRound[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
            0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
            0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
            0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
            0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
            0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
            0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
            0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
        u32 a = state[0];
        u32 b = state[1];
        u32 c = state[2];
        u32 d = state[3];
        u32 e = state[4];
        u32 f = state[5];
        u32 g = state[6];
        u32 h = state[7];
        QUERN_UNROLL
        for (u32 r = 0; r < 64; ++r) {
            if (r >= kChunk) {
                const u32 early = w[(r + 1) % kChunk];
                const u32 late = w[(r + 14) % kChunk];
                w[r % kChunk] += (turned(early, 7) ^ turned(early, 18) ^ early >> 3) + w[(r + 9) % kChunk] +
                                 (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
            }
            const u32 first =
                h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + (g ^ (e & (f ^ g))) + kRound[r] + w[r % kChunk];
            const u32 second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) | (c & (a | b)));
            h = g;
            g = f;
            f = e;
            e = d + first;
            d = c;
            c = b;
            b = a;
            a = first + second;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }

    QUERN_HD void hash(u64 tile) const {
        const u64 column = tile % tile_columns() * width();
        const u64 row = tile / tile_columns() % tile_rows() * height();
        const u64 matrix = tile / tile_columns() / tile_rows();
        const u32* const first = words + (matrix * rows + row) * columns + column;
        u32 state[kHashWords] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        u32 w[kChunk];
        for (u32 chunk = 0; chunk < kTileWords; chunk += kChunk) {
            const u32 r = chunk / width();
            const u32 c = chunk % width();
            const u32* const from = first + u64{r} * columns + c;
            QUERN_UNROLL
            for (u32 i = 0; i < kChunk; ++i) w[i] = row + r < rows && column + c + i < columns ? swapped(from[i]) : 0;
            compress(state, w);
        }
        // The domain's byte, the bit behind it, and the length in bits.
        QUERN_UNROLL
        for (u32& word : w) word = 0;
        w[0] = kLeafDomain << 24 | 0x800000U;
        w[kChunk - 1] = (4 * kTileWords + 1) * 8;
        compress(state, w);
        for (u32 i = 0; i < kHashWords; ++i) hashes[tile * kHashWords + i] = swapped(state[i]);
    }
};

}  // namespace quern::vm::tensor::cuda
