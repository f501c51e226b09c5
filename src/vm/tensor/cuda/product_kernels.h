// Products of matrices: of f32 words in blocks of 256 k, each one chain of fused multiply-adds, and of signed bytes in
// strips of 256 k with scales. Launched by launch.cu; see block.h. Definitions: doc/arithmetic.md.
//
// A block makes a tile of C, a thread 8 x 8 of its elements in registers. The tiles of A and B that the next steps read
// come from memory while this one's are multiplied: they wait in registers and go to the other half of the shared
// memory. The totals of the blocks before wait in shared memory too, each read by its own thread alone: so twice as
// many threads fit a processor as with totals in registers.
#pragma once

#include "vm/tensor/arith/scalar_ops.h"
#include "vm/tensor/cuda/block.h"

namespace quern::vm::tensor::cuda {

// Element (line, k) of a side is data[line * along_lines + k * along_k]; lines are rows of A, columns of B. Product p
// = outer * inner_products + inner of a batch begins `outer` and `inner` steps further.
struct ProductSide {
    const u32* data = nullptr;
    i64 line = 0;
    i64 along = 0;
    i64 outer = 0;
    i64 inner = 0;

    [[nodiscard]] QUERN_HD const u32* of(u64 product, u64 inner_products) const {
        return data + static_cast<i64>(product / inner_products) * outer +
               static_cast<i64>(product % inner_products) * inner;
    }
};

struct ProductShape {
    u32 m = 0;
    u32 n = 0;
    u32 k = 0;
    u32 ldc = 0;       // words from a row of C to the next; products of a batch follow each other
    u64 products = 1;  // of a batch
    u64 inner_products = 1;
};

inline constexpr u32 kProductBlock = 256;  // k of a block or strip
inline constexpr u32 kPad = 4;    // words: writes of neighbouring k meet other banks, reads of four words stay aligned
inline constexpr u32 kMicro = 8;  // a thread makes kMicro x kMicro elements, in four quarters

// Four words of shared memory at an address that is a multiple of 16.
QUERN_HD inline void take_four(const u32* from, u32* to) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#else
    for (u32 i = 0; i < 4; ++i) to[i] = from[i];
#endif
}

// What differs between the two kinds of products: `Word` as it lies in shared memory, `kPacked` steps of k in each.
struct FloatSteps {
    using Sum = float;
    static constexpr u32 kPacked = 1;
    static QUERN_HD u32 taken(u32 word) { return arith::soft_squash(word); }
    static QUERN_HD float step(u32 a, u32 b, float sum) {
        return arith::scalar::fused(arith::scalar::f(a), arith::scalar::f(b), sum);
    }
};
struct ByteSteps {
    using Sum = i32;
    static constexpr u32 kPacked = 4;
    static QUERN_HD u32 taken(u32 word) { return word & 0xffU; }
    static QUERN_HD i32 step(u32 a, u32 b, i32 sum) {
#if defined(__CUDA_ARCH__)
        return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#else
        for (u32 byte = 0; byte < 4; ++byte)
            sum += arith::signed_byte(a >> (8 * byte)) * arith::signed_byte(b >> (8 * byte));
        return sum;
#endif
    }
};

// How the threads of a block bring in a side's tile: neighbours read words that lie side by side, along k or along the
// lines. Of its i-th word a thread's line and place along k are those of the first plus i times a step.
template <class Steps, bool kAlongK, u32 kLines, u32 kDepth, unsigned kThreads>
struct Reading {
    static constexpr u32 kLoads = kLines * kDepth / kThreads;
    static constexpr u32 kLineStep = kAlongK ? kThreads / kDepth : 0;
    static constexpr u32 kDepthStep = kAlongK ? 0 : kThreads / kLines;
    static_assert(kLines * kDepth % kThreads == 0 && kLoads <= 32);
    static_assert(kThreads % (kAlongK ? kDepth : kLines) == 0);

    static QUERN_HD u32 line(unsigned thread) { return kAlongK ? thread / kDepth : thread % kLines; }
    static QUERN_HD u32 depth(unsigned thread) { return kAlongK ? thread % kDepth : thread / kLines; }

    i64 at;     // of the next step's first word
    u32 there;  // bit i: the line of word i is one of the matrix

    QUERN_HD void begin(const ProductSide& side, unsigned thread, u64 first_line, u64 lines) {
        at = static_cast<i64>(first_line + line(thread)) * side.line +
             static_cast<i64>(depth(thread) * Steps::kPacked) * side.along;
        there = 0;
        QUERN_UNROLL
        for (u32 i = 0; i < kLoads; ++i) there |= first_line + line(thread) + i * kLineStep < lines ? 1U << i : 0;
    }
    // `k`: how many there still are.
    QUERN_HD void load(const ProductSide& side, const u32* data, unsigned thread, u32 k, u32 (&to)[kLoads]) {
        const i64 step =
            static_cast<i64>(kLineStep) * side.line + static_cast<i64>(kDepthStep * Steps::kPacked) * side.along;
        i64 from = at;
        QUERN_UNROLL
        for (u32 i = 0; i < kLoads; ++i) {
            u32 word = 0;
            const u32 first_k = (depth(thread) + i * kDepthStep) * Steps::kPacked;
            QUERN_UNROLL
            for (u32 p = 0; p < Steps::kPacked; ++p)
                if ((there >> i & 1U) != 0 && first_k + p < k)
                    word |= Steps::taken(data[from + static_cast<i64>(p) * side.along]) << (8 * p);
            to[i] = word;
            from += step;
        }
        at += static_cast<i64>(kDepth * Steps::kPacked) * side.along;
    }
    static QUERN_HD void keep(unsigned thread, const u32 (&words)[kLoads], u32 (&to)[kDepth][kLines + kPad]) {
        QUERN_UNROLL
        for (u32 i = 0; i < kLoads; ++i) to[depth(thread) + i * kDepthStep][line(thread) + i * kLineStep] = words[i];
    }
};

// C = A B for each product of a batch: kRows x kColumns of C in a block, kDepth words of shared memory along k in a
// step. Scales (of bytes): of a line and a strip.
template <class Steps, u32 kRows, u32 kColumns, u32 kDepth, bool kAlongA, bool kAlongB>
struct Product {
    static constexpr u32 kThreadColumns = kColumns / kMicro;
    static constexpr unsigned kThreads = kRows / kMicro * kThreadColumns;
    static constexpr unsigned kBlocksAtOnce = 2;  // on a processor
    static constexpr u32 kStepK = kDepth * Steps::kPacked;
    static constexpr u32 kStepsPerBlock = kProductBlock / kStepK;
    static constexpr bool kScaled = Steps::kPacked != 1;
    static_assert(kProductBlock % kStepK == 0);
    // A warp is 4 x 8 threads, whose reads of a step are two runs of 64 bytes of A and two of 128 bytes of B.
    static constexpr u32 kWarpRows = 4;
    static constexpr u32 kWarpColumns = 8;
    static_assert(kRows / kMicro % kWarpRows == 0 && kThreadColumns % kWarpColumns == 0);
    using ReadingA = Reading<Steps, kAlongA, kRows, kDepth, kThreads>;
    using ReadingB = Reading<Steps, kAlongB, kColumns, kDepth, kThreads>;

    struct Shared {
        alignas(16) u32 a[2][kDepth][kRows + kPad];
        alignas(16) u32 b[2][kDepth][kColumns + kPad];
        alignas(16) float totals[kMicro * kMicro][kThreads];
    };
    // What a thread keeps.
    struct Mine {
        typename Steps::Sum sums[kMicro][kMicro];
        ReadingA reading_a;
        ReadingB reading_b;
        u32 a[ReadingA::kLoads];
        u32 b[ReadingB::kLoads];
    };

    ProductShape shape;
    ProductSide a;
    ProductSide b;
    ProductSide scale_a;  // `along`: from a strip to the next
    ProductSide scale_b;
    u32* c = nullptr;

    [[nodiscard]] QUERN_HD u64 tile_rows() const { return divided_up(shape.m, kRows); }
    [[nodiscard]] QUERN_HD u64 tile_columns() const { return divided_up(shape.n, kColumns); }
    [[nodiscard]] u64 blocks() const { return shape.products * tile_rows() * tile_columns(); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        const Place place = place_of(block.index());
        const u32* const left = a.of(place.product, shape.inner_products);
        const u32* const right = b.of(place.product, shape.inner_products);
        Shared& shared = block.template shared<Shared>();
        typename Block::template Private<Mine> all;
        const u32 steps = static_cast<u32>(divided_up(shape.k, kStepK));

        block.each([&](unsigned thread) {
            Mine& mine = all[thread];
            QUERN_UNROLL
            for (u32 i = 0; i < kMicro; ++i) {
                QUERN_UNROLL
                for (u32 j = 0; j < kMicro; ++j) mine.sums[i][j] = 0;
            }
            mine.reading_a.begin(a, thread, place.row, shape.m);
            mine.reading_b.begin(b, thread, place.column, shape.n);
            mine.reading_a.load(a, left, thread, shape.k, mine.a);
            mine.reading_b.load(b, right, thread, shape.k, mine.b);
            ReadingA::keep(thread, mine.a, shared.a[0]);
            ReadingB::keep(thread, mine.b, shared.b[0]);
        });
        for (u32 step = 0; step < steps; ++step) {
            const bool is_last = step + 1 == steps;
            const u32 k_left = shape.k - least(shape.k, (step + 1) * kStepK);
            block.each([&](unsigned thread) {
                Mine& mine = all[thread];
                if (!is_last) {
                    mine.reading_a.load(a, left, thread, k_left, mine.a);
                    mine.reading_b.load(b, right, thread, k_left, mine.b);
                }
                multiply(shared, step % 2, thread, mine.sums);
                if (is_last) return;
                ReadingA::keep(thread, mine.a, shared.a[(step + 1) % 2]);
                ReadingB::keep(thread, mine.b, shared.b[(step + 1) % 2]);
                // The end of a block of k; the last one's goes to C from the registers.
                if ((step + 1) % kStepsPerBlock == 0) add_up(shared, step / kStepsPerBlock, thread, place, mine.sums);
            });
        }
        block.alone([&](unsigned thread) { store(shared, steps, thread, place, all[thread].sums); });
    }

private:
    using Sums = typename Steps::Sum (&)[kMicro][kMicro];
    struct Place {
        u64 product;
        u64 row;  // of the tile's first element
        u64 column;
    };
    [[nodiscard]] QUERN_HD Place place_of(u64 block) const {
        const u64 tiles = tile_rows() * tile_columns();
        const u64 tile = block % tiles;
        return {block / tiles, tile / tile_columns() * kRows, tile % tile_columns() * kColumns};
    }

    // The tile's row (column) that is a thread's i-th: runs of four, kWarp... * 4 apart.
    static QUERN_HD u32 row_of(unsigned thread, u32 i) {
        const u32 warp = thread / 32 / (kThreadColumns / kWarpColumns);
        return warp * kWarpRows * kMicro + i / 4 * (kWarpRows * 4) + thread % 32 / kWarpColumns * 4 + i % 4;
    }
    static QUERN_HD u32 column_of(unsigned thread, u32 j) {
        const u32 warp = thread / 32 % (kThreadColumns / kWarpColumns);
        return warp * kWarpColumns * kMicro + j / 4 * (kWarpColumns * 4) + thread % kWarpColumns * 4 + j % 4;
    }

    static QUERN_HD void multiply(const Shared& shared, u32 half, unsigned thread, Sums sums) {
        QUERN_UNROLL
        for (u32 depth = 0; depth < kDepth; ++depth) {
            u32 left[kMicro];
            u32 right[kMicro];
            QUERN_UNROLL
            for (u32 i = 0; i < kMicro; i += 4) {
                take_four(&shared.a[half][depth][row_of(thread, i)], left + i);
                take_four(&shared.b[half][depth][column_of(thread, i)], right + i);
            }
            QUERN_UNROLL
            for (u32 i = 0; i < kMicro; ++i) {
                QUERN_UNROLL
                for (u32 j = 0; j < kMicro; ++j) sums[i][j] = Steps::step(left[i], right[j], sums[i][j]);
            }
        }
    }

    // total + the sum of block `number`.
    QUERN_HD float added(float total, u32 number, typename Steps::Sum sum, const Place& place, u64 row,
                         u64 column) const {
        if constexpr (kScaled) {
            const auto strip = static_cast<i64>(number);
            const u32 left = scale_a.of(
                place.product, shape.inner_products)[static_cast<i64>(row) * scale_a.line + strip * scale_a.along];
            const u32 right = scale_b.of(
                place.product, shape.inner_products)[static_cast<i64>(column) * scale_b.line + strip * scale_b.along];
            using namespace arith::scalar;
            const float scale = product(f(arith::strip_scale(left)), f(arith::strip_scale(right)));
            return arith::scalar::sum(total, product(from_i32(sum), scale));
        } else {
            return number == 0 ? sum : arith::scalar::sum(total, sum);
        }
    }

    QUERN_HD void add_up(Shared& shared, u32 number, unsigned thread, const Place& place, Sums sums) const {
        QUERN_UNROLL
        for (u32 i = 0; i < kMicro; ++i) {
            const u64 row = place.row + row_of(thread, i);
            QUERN_UNROLL
            for (u32 j = 0; j < kMicro; ++j) {
                const u64 column = place.column + column_of(thread, j);
                float& total = shared.totals[i * kMicro + j][thread];
                // Beside the matrix there are no scales, and nobody reads what stands there.
                if (!kScaled || (row < shape.m && column < shape.n))
                    total = added(number == 0 ? 0 : total, number, sums[i][j], place, row, column);
                sums[i][j] = 0;
            }
        }
    }

    QUERN_HD void store(const Shared& shared, u32 steps, unsigned thread, const Place& place, Sums sums) const {
        const u32 before = steps == 0 ? 0 : (steps - 1) / kStepsPerBlock;  // blocks whose total is there
        u32* const to = c + place.product * shape.m * shape.n;
        QUERN_UNROLL
        for (u32 i = 0; i < kMicro; ++i) {
            const u64 row = place.row + row_of(thread, i);
            QUERN_UNROLL
            for (u32 j = 0; j < kMicro; ++j) {
                const u64 column = place.column + column_of(thread, j);
                if (row >= shape.m || column >= shape.n) continue;
                float total = before == 0 ? 0 : shared.totals[i * kMicro + j][thread];
                if (steps != 0) total = added(total, before, sums[i][j], place, row, column);
                to[row * shape.ldc + column] = arith::scalar::word(total);
            }
        }
    }
};

template <bool kAlongA, bool kAlongB>
using LargeMatmul = Product<FloatSteps, 128, 128, 8, kAlongA, kAlongB>;
template <bool kAlongA, bool kAlongB>
using SmallMatmul = Product<FloatSteps, 64, 64, 8, kAlongA, kAlongB>;
template <bool kAlongA, bool kAlongB>
using ByteProduct = Product<ByteSteps, 128, 128, 4, kAlongA, kAlongB>;

}  // namespace quern::vm::tensor::cuda
