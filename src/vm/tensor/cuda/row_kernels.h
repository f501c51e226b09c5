// Rows of tables: taken by index, and added up by index in order. Launched by launch.cu; see block.h. Definitions:
// doc/arithmetic.md (scatter-add of rows), doc/program-format.md.
#pragma once

#include "vm/tensor/arith/scalar_ops.h"
#include "vm/tensor/cuda/block.h"

namespace quern::vm::tensor::cuda {

// Row r of out = row index[r] of the table; +0 where it has no such row.
struct GatherRows {
    static constexpr unsigned kThreads = 256;
    using Shared = NoShared;
    const u32* table = nullptr;
    u32 table_rows = 0;
    i64 stride = 0;  // words from a row of the table to the next
    const u32* index = nullptr;
    u64 count = 0;  // rows of out
    u32 columns = 0;
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return divided_up(count * columns, kThreads); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        block.alone([&](unsigned thread) {
            const u64 at = block.index() * kThreads + thread;
            if (at >= count * columns) return;
            const u32 row = index[at / columns];
            out[at] = row < table_rows ? table[static_cast<i64>(row) * stride + static_cast<i64>(at % columns)] : 0;
        });
    }
};

// Row t of the table += the rows r of x with index[r] = t. Positions r are taken 256 at a time: in each such block the
// rows with one target are a chain in order. Where `blocked`, the chain starts from +0 and is added to the table, which
// the definition's total is; else it goes on from the table's row, as one chain over all. A block of threads has 32
// columns; of the 32 rows of threads each takes chains of its own, so that the order of no sum depends on another one.
struct ScatterAddRows {
    static constexpr u32 kColumns = 32;
    static constexpr u32 kThreadRows = 16;
    static constexpr unsigned kThreads = kColumns * kThreadRows;
    static constexpr u32 kPositions = 256;
    static constexpr u32 kNone = 0xffffffffU;
    struct Shared {
        u32 target[kPositions];
        u32 next[kPositions];   // the next position with the same target; kNone: the last one
        u32 first[kPositions];  // 1: no position before has this target, and the table has such a row
    };
    const u32* x = nullptr;
    i64 stride = 0;
    const u32* index = nullptr;
    u32 rows = 0;  // of x
    u32 columns = 0;
    u32* table = nullptr;
    u32 table_rows = 0;
    i64 table_stride = 0;
    u32 blocked = 1;

    [[nodiscard]] u64 blocks() const { return divided_up(columns, kColumns); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        Shared& shared = block.template shared<Shared>();
        for (u64 start = 0; start < rows; start += kPositions) {
            const u32 count = static_cast<u32>(least<u64>(kPositions, rows - start));
            block.each([&](unsigned thread) {
                if (thread < count) shared.target[thread] = index[start + thread];
            });
            block.each([&](unsigned thread) {
                if (thread >= count) return;
                const u32 target = shared.target[thread];
                bool is_first = target < table_rows;
                for (u32 i = 0; i < thread; ++i) is_first = is_first && shared.target[i] != target;
                u32 next = kNone;
                for (u32 i = count; i-- > thread + 1;)
                    if (shared.target[i] == target) next = i;
                shared.first[thread] = is_first ? 1 : 0;
                shared.next[thread] = next;
            });
            block.each([&](unsigned thread) {
                const u64 column = block.index() * kColumns + thread % kColumns;
                if (column >= columns) return;
                for (u32 i = thread / kColumns; i < count; i += kThreadRows)
                    if (shared.first[i] != 0) add_chain(shared, start, i, column);
            });
        }
    }

private:
    QUERN_HD void add_chain(const Shared& shared, u64 start, u32 position, u64 column) const {
        using namespace arith::scalar;
        u32& total = table[static_cast<i64>(shared.target[position]) * table_stride + static_cast<i64>(column)];
        const float before = f(total);
        float chain = blocked != 0 ? 0 : before;
        for (u32 i = position; i != kNone; i = shared.next[i])
            chain = sum(chain, f(x[static_cast<i64>(start + i) * stride + static_cast<i64>(column)]));
        total = word(blocked != 0 ? sum(before, chain) : chain);
    }
};

}  // namespace quern::vm::tensor::cuda
