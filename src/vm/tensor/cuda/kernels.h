// All kernels of this folder as one type, so that whoever orders work (vm/tensor's executor) does not know what runs
// it: a card (device.h) or, in tests, the processor (tests/support/emulated_block.h). Plain values; thread-safe.
#pragma once

#include <variant>

#include "vm/tensor/cuda/element_kernels.h"
#include "vm/tensor/cuda/hash_kernels.h"
#include "vm/tensor/cuda/product_kernels.h"
#include "vm/tensor/cuda/reduction_kernels.h"
#include "vm/tensor/cuda/row_kernels.h"

namespace quern::vm::tensor::cuda {

// Of each kind of product four: each side is read along k or along its lines.
template <template <bool, bool> class Kind>
using Ways = std::variant<Kind<false, false>, Kind<false, true>, Kind<true, false>, Kind<true, true>>;

using AnyKernel = std::variant<Elementwise, SmallGroup, LargeGroup, Copy, Iota, Philox, Ways<LargeMatmul>,
                               Ways<SmallMatmul>, Ways<ByteProduct>, SumLast, MaxLast, KthLast, SumRowBlocks, SumTotals,
                               GatherRows, ScatterAddRows, TileHashes>;

// f(the kernel itself).
template <class F>
void visit_kernel(const AnyKernel& kernel, const F& f) {
    std::visit(
        [&](const auto& each) {
            if constexpr (requires { each.blocks(); })
                f(each);
            else
                std::visit(f, each);
        },
        kernel);
}

[[nodiscard]] inline u64 blocks_of(const AnyKernel& kernel) {
    u64 blocks = 0;
    visit_kernel(kernel, [&](const auto& each) { blocks = each.blocks(); });
    return blocks;
}

struct ProductCall {
    ProductShape shape;
    ProductSide a;
    ProductSide b;
    ProductSide scale_a;  // of bytes
    ProductSide scale_b;
    u32* c = nullptr;
};

template <template <bool, bool> class Kind>
[[nodiscard]] Ways<Kind> product(const ProductCall& call) {
    const auto filled = [&](auto made) -> Ways<Kind> {
        made.shape = call.shape;
        made.a = call.a;
        made.b = call.b;
        made.scale_a = call.scale_a;
        made.scale_b = call.scale_b;
        made.c = call.c;
        return made;
    };
    if (call.a.along == 1) return call.b.along == 1 ? filled(Kind<true, true>{}) : filled(Kind<true, false>{});
    return call.b.along == 1 ? filled(Kind<false, true>{}) : filled(Kind<false, false>{});
}

// A large tile does more with what it reads; small ones give more processors something to do, and less of them lies
// beside a matrix of few rows or columns.
[[nodiscard]] inline AnyKernel matmul(const ProductCall& call) {
    constexpr u64 kEnoughTiles = 128;
    const auto tiles = [&](u64 side) {
        return call.shape.products * divided_up(call.shape.m, side) * divided_up(call.shape.n, side);
    };
    if (tiles(128) >= kEnoughTiles && 7 * tiles(128) <= 2 * tiles(64)) return product<LargeMatmul>(call);
    return product<SmallMatmul>(call);
}
[[nodiscard]] inline AnyKernel imatmul(const ProductCall& call) { return product<ByteProduct>(call); }

}  // namespace quern::vm::tensor::cuda
