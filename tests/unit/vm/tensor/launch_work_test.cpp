// How long launches may take, by shapes alone.
#include "vm/tensor/cuda/launch_work.h"

#include <gtest/gtest.h>

namespace quern::vm::tensor::cuda {
namespace {

constexpr u64 kMost = u64{1} << 31;  // elements of a tensor
constexpr u32 kMultiprocessors = 132;

template <class Kernel>
Kernel over_rows(u32 rows, u32 columns) {
    Kernel kernel;
    kernel.rows.dims[2] = rows;
    kernel.columns = columns;
    return kernel;
}
ProductCall product_call(u32 m, u32 n, u32 k) {
    ProductCall call;
    call.shape = {m, n, k, n, 1, 1};
    return call;
}
ScatterAddRows scatter(u32 rows, u32 columns) {
    ScatterAddRows kernel;
    kernel.rows = rows;
    kernel.columns = columns;
    return kernel;
}

struct Case {
    const char* name;
    AnyKernel kernel;
    u64 steps;
    u64 blocks;
    bool is_suitable;
};

TEST(LaunchWork, long_chains_in_few_blocks_are_not_for_a_card) {
    SumTotals totals;
    totals.matrices = 1;
    totals.row_blocks = kMost / 256;
    totals.columns = 1;
    SumRowBlocks sums;
    sums.row_count = 1U << 31;
    sums.columns = 1;
    SmallGroup group;
    group.member_count = 60;
    group.count = 1U << 31;
    Copy copied;
    copied.source.dims[3] = 3000;
    TileHashes hashes;
    hashes.rows = hashes.columns = 32768;
    ProductCall batch = product_call(1, 1, 1U << 16);
    batch.shape.products = u64{1} << 30;
    const Case cases[] = {
        {"a dot product", matmul(product_call(1, 1, 1U << 31)), kMost, 1, false},
        {"a dot product of bytes", imatmul(product_call(1, 1, 1U << 31)), kMost, 1, false},
        {"a long one of 65 x 64", matmul(product_call(65, 64, 1U << 21)), u64{1} << 21, 2, false},
        {"a training's", matmul(product_call(4096, 4096, 4096)), 4096, 1024, true},
        {"a weight's gradient of many tokens", matmul(product_call(8, 4096, 1U << 18)), u64{1} << 18, 64, true},
        {"many dot products", matmul(batch), u64{1} << 16, u64{1} << 30, true},
        {"the k-th of one row", over_rows<KthLast>(1, 1U << 31), 32 * kMost / 256, 1, false},
        {"the k-th of each token's row", over_rows<KthLast>(4096, 131072), 32 * 512, 4096, true},
        {"the sum of one row", over_rows<SumLast>(1, 1U << 31), kMost / 256, 1, false},
        {"the norm of a large model", over_rows<SumLast>(1, 1U << 28), u64{1} << 20, 1, true},
        {"the maxima of few rows", over_rows<MaxLast>(256, 1U << 23), u64{1} << 15, 32, true},
        {"rows added in one column", scatter(1U << 31, 1), 2 * kMost, 1, false},
        {"a table's gradient", scatter(65536, 4096), 131072, 128, true},
        {"sums of 256 rows", sums, 32, 32768, true},
        {"their totals in one column", totals, kMost / 256, 1, false},
        {"a group", group, 240, kMost / 1024, true},
        {"a copy", copied, 4, 3, true},
        {"hashes", hashes, 1024, 16384, true},
    };
    const LaunchLimits limits;
    for (const Case& each : cases) {
        EXPECT_EQ(serial_steps(each.kernel), each.steps) << each.name;
        EXPECT_EQ(blocks_of(each.kernel), each.blocks) << each.name;
        EXPECT_EQ(limits.is_suitable(each.steps, each.blocks), each.is_suitable) << each.name;
        if (!each.is_suitable) continue;
        const LaunchPieces pieces(each.steps, kMultiprocessors, limits);
        EXPECT_GE(pieces.blocks, 2 * kMultiprocessors) << each.name << ": a piece keeps the card busy";
        EXPECT_LE(pieces.steps_of(pieces.blocks), limits.in_flight + kLaunchSteps) << each.name;
    }
}

TEST(LaunchWork, long_chains_in_many_blocks_run_one_after_the_other) {
    const LaunchLimits limits;
    EXPECT_FALSE(limits.is_suitable(limits.serial_of_few + 1, limits.few_blocks - 1));
    EXPECT_TRUE(limits.is_suitable(limits.serial_of_few + 1, limits.few_blocks));
    EXPECT_TRUE(limits.is_suitable(limits.serial, limits.few_blocks));
    EXPECT_FALSE(limits.is_suitable(limits.serial + 1, kMost));
    const LaunchPieces one(limits.serial, kMultiprocessors, limits);
    EXPECT_EQ(one.blocks, 2 * kMultiprocessors);
    EXPECT_EQ(one.steps_of(one.blocks), limits.serial + kLaunchSteps);
    const LaunchPieces many(limits.in_flight / 8, kMultiprocessors, limits);
    EXPECT_EQ(many.blocks, 8 * 2 * kMultiprocessors);
    EXPECT_EQ(many.steps_of(many.blocks), limits.in_flight + kLaunchSteps);
    EXPECT_EQ(LaunchPieces(0, 0, limits).blocks, 2U) << "a device that does not say";
}

}  // namespace
}  // namespace quern::vm::tensor::cuda
