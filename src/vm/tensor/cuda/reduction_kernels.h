// Reductions: sums and maxima over the last axis in 32 lanes, the k-th largest word, sums over rows in blocks of 256.
// Launched by launch.cu; see block.h. Definitions: doc/arithmetic.md, doc/program-format.md (kth_last).
#pragma once

#include "vm/tensor/arith/scalar_ops.h"
#include "vm/tensor/cuda/block.h"

namespace quern::vm::tensor::cuda {

// Rows of words that lie side by side: row r is row (r / inner % middle) ... of three dims.
struct Rows {
    const u32* data = nullptr;
    u32 dims[3] = {1, 1, 1};
    i64 strides[3] = {0, 0, 0};

    [[nodiscard]] QUERN_HD u64 count() const { return u64{dims[0]} * dims[1] * dims[2]; }
    [[nodiscard]] QUERN_HD const u32* row(u64 r) const {
        const u64 rest = r / dims[2];
        return data + static_cast<i64>(r % dims[2]) * strides[2] + static_cast<i64>(rest % dims[1]) * strides[1] +
               static_cast<i64>(rest / dims[1]) * strides[0];
    }
};

inline constexpr u32 kLanes = 32;

struct SumLane {
    static constexpr u32 kIdentity = 0;
    static QUERN_HD u32 of(u32 a, u32 b) {
        return arith::scalar::bits(arith::scalar::sum(arith::scalar::f(a), arith::scalar::f(b)));
    }
};
struct MaxLane {
    static constexpr u32 kIdentity = arith::constants::kMinusInfinity;
    static QUERN_HD u32 of(u32 a, u32 b) {
        return arith::scalar::bits(arith::scalar::larger(arith::scalar::f(a), arith::scalar::f(b)));
    }
};

// out[r] = the 32 lanes of row r, folded. A warp a row.
template <class Lane>
struct ReduceLast {
    static constexpr unsigned kThreads = 256;
    static constexpr u32 kRowsOfBlock = kThreads / kLanes;
    static constexpr u32 kAtOnce = 8;  // words that a lane has on their way
    struct Shared {
        u32 lanes[kRowsOfBlock][kLanes + 1];
    };
    Rows rows;
    u32 columns = 0;
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return divided_up(rows.count(), kRowsOfBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        Shared& shared = block.template shared<Shared>();
        const u64 first = block.index() * kRowsOfBlock;
        block.each([&](unsigned thread) {
            const u64 row = first + thread / kLanes;
            if (row >= rows.count()) return;
            const u32* const x = rows.row(row);
            u32 lane = Lane::kIdentity;
            u64 j = thread % kLanes;
            for (; j + u64{kAtOnce - 1} * kLanes < columns; j += u64{kAtOnce} * kLanes) {
                u32 words[kAtOnce];
                QUERN_UNROLL
                for (u32 i = 0; i < kAtOnce; ++i) words[i] = x[j + u64{i} * kLanes];
                QUERN_UNROLL
                for (u32 i = 0; i < kAtOnce; ++i) lane = Lane::of(lane, words[i]);
            }
            for (; j < columns; j += kLanes) lane = Lane::of(lane, x[j]);
            shared.lanes[thread / kLanes][thread % kLanes] = lane;
        });
        for (u32 width = kLanes / 2; width > 0; width /= 2) {
            block.each([&](unsigned thread) {
                const u32 lane = thread % kLanes;
                u32* const lanes = shared.lanes[thread / kLanes];
                if (lane < width) lanes[lane] = Lane::of(lanes[lane], lanes[lane + width]);
            });
        }
        block.alone([&](unsigned thread) {
            if (thread < kRowsOfBlock && first + thread < rows.count())
                out[first + thread] = arith::canonical(shared.lanes[thread][0]);
        });
    }
};
using SumLast = ReduceLast<SumLane>;
using MaxLast = ReduceLast<MaxLane>;

// out[r] = the k-th largest word of row r, unsigned; 1 <= k <= columns. A block a row: its bits from the highest, each
// by counting the words that are not below what it would be.
struct KthLast {
    static constexpr unsigned kThreads = 256;
    static constexpr u32 kGroups = 32;  // of threads, whose counts are added together first
    struct Shared {
        u32 counts[kThreads];
        u32 groups[kGroups];
    };
    Rows rows;
    u32 columns = 0;
    u32 k = 1;
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return rows.count(); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        Shared& shared = block.template shared<Shared>();
        const u32* const x = rows.row(block.index());
        typename Block::template Private<u32> found;  // every thread knows it
        block.alone([&](unsigned thread) { found[thread] = 0; });
        for (u32 bit = 32; bit-- > 0;) {
            block.each([&](unsigned thread) {
                const u32 trial = found[thread] | 1U << bit;
                u32 count = 0;
                for (u64 j = thread; j < columns; j += kThreads) count += x[j] >= trial ? 1 : 0;
                shared.counts[thread] = count;
            });
            block.each([&](unsigned thread) {
                if (thread >= kGroups) return;
                u32 sum = 0;
                for (u32 i = thread; i < kThreads; i += kGroups) sum += shared.counts[i];
                shared.groups[thread] = sum;
            });
            block.alone([&](unsigned thread) {
                u32 sum = 0;
                for (const u32 group : shared.groups) sum += group;
                if (sum >= k) found[thread] |= 1U << bit;
            });
        }
        block.alone([&](unsigned thread) {
            if (thread == 0) out[block.index()] = found[thread];
        });
    }
};

// Sums of the columns of each block of 256 rows of each matrix; rows of a matrix are `stride` words apart.
// out[(matrix * row_blocks + row block) * columns + column].
struct SumRowBlocks {
    static constexpr unsigned kThreads = 256;
    static constexpr u32 kRowsOfBlock = 256;
    static constexpr u32 kAtOnce = 8;
    using Shared = NoShared;
    Rows matrices;  // the first row of each; dims[2] is 1
    u32 row_count = 0;
    u32 columns = 0;
    i64 stride = 0;
    u32* out = nullptr;

    [[nodiscard]] QUERN_HD u64 row_blocks() const { return divided_up(row_count, kRowsOfBlock); }
    [[nodiscard]] QUERN_HD u64 sums() const { return matrices.count() * row_blocks() * columns; }
    [[nodiscard]] u64 blocks() const { return divided_up(sums(), kThreads); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        block.alone([&](unsigned thread) {
            const u64 at = block.index() * kThreads + thread;
            if (at >= sums()) return;
            const u64 column = at % columns;
            const u64 row_block = at / columns % row_blocks();
            const u64 first = row_block * kRowsOfBlock;
            const u32 count = static_cast<u32>(least<u64>(kRowsOfBlock, row_count - first));
            const u32* x = matrices.row(at / columns / row_blocks()) + static_cast<i64>(first) * stride + column;
            u32 sum = 0;
            u32 r = 0;
            for (; r + kAtOnce <= count; r += kAtOnce) {
                u32 words[kAtOnce];
                QUERN_UNROLL
                for (u32 i = 0; i < kAtOnce; ++i) words[i] = x[static_cast<i64>(i) * stride];
                QUERN_UNROLL
                for (u32 i = 0; i < kAtOnce; ++i) sum = SumLane::of(sum, words[i]);
                x += static_cast<i64>(kAtOnce) * stride;
            }
            for (; r < count; ++r, x += stride) sum = SumLane::of(sum, *x);
            out[at] = arith::canonical(sum);
        });
    }
};

// out[matrix * columns + column] = the sums of its row blocks, added in order from +0.
struct SumTotals {
    static constexpr unsigned kThreads = 256;
    using Shared = NoShared;
    const u32* sums = nullptr;
    u64 matrices = 0;
    u64 row_blocks = 0;
    u32 columns = 0;
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return divided_up(matrices * columns, kThreads); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        block.alone([&](unsigned thread) {
            const u64 at = block.index() * kThreads + thread;
            if (at >= matrices * columns) return;
            const u32* x = sums + at / columns * row_blocks * columns + at % columns;
            u32 total = 0;
            for (u64 b = 0; b < row_blocks; ++b) total = SumLane::of(total, x[b * columns]);
            out[at] = arith::canonical(total);
        });
    }
};

}  // namespace quern::vm::tensor::cuda
