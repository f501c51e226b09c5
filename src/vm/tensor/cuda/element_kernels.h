// Kernels that make each word of their output on its own: elementwise operations over broadcast operands, groups of
// them, copies of strided views, random words. Launched by launch.cu; see block.h. Definitions: doc/arithmetic.md.
#pragma once

#include "vm/tensor/arith/scalar_ops.h"
#include "vm/tensor/cuda/block.h"

namespace quern::vm::tensor::cuda {

inline constexpr unsigned kElementThreads = 256;
inline constexpr unsigned kElementsPerThread = 4;
inline constexpr unsigned kElementsPerBlock = kElementThreads * kElementsPerThread;
inline constexpr unsigned kMaxArity = 3;
inline constexpr unsigned kDims = 4;

// Words of a view in row-major order of its dims; strides may be 0. At most 2^31 elements. `outermost` is the first dim
// that is not 1, or the last: elements need no division for it.
struct Layout {
    u32 dims[kDims] = {1, 1, 1, 1};
    i64 strides[kDims] = {0, 0, 0, 0};
    u32 outermost = 0;

    [[nodiscard]] QUERN_HD u32 elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
    // How far element i is from the first one.
    [[nodiscard]] QUERN_HD i64 offset(u32 i) const {
        i64 at = 0;
        for (u32 d = kDims - 1; d > outermost; --d) {
            const u32 rest = i / dims[d];
            at += static_cast<i64>(i - rest * dims[d]) * strides[d];
            i = rest;
        }
        return at + static_cast<i64>(i) * strides[outermost];
    }
};

// The same elements with as few dims as can be.
[[nodiscard]] inline Layout merged(const u32 (&dims)[kDims], const i64 (&strides)[kDims]) {
    Layout made;
    u32 at = kDims;  // dims from here on are made
    for (u32 d = kDims; d-- > 0;) {
        if (dims[d] == 1) continue;
        if (at < kDims && strides[d] == made.strides[at] * made.dims[at]) {
            made.dims[at] *= dims[d];
            continue;
        }
        --at;
        made.dims[at] = dims[d];
        made.strides[at] = strides[d];
    }
    made.outermost = at < kDims ? at : kDims - 1;
    return made;
}

// f(element) for those of the block's elements that there are.
template <class Block, class F>
QUERN_HD void each_element(Block& block, u64 count, const F& f) {
    block.alone([&](unsigned thread) {
        const u64 first = block.index() * kElementsPerBlock + thread;
        for (unsigned i = 0; i < kElementsPerThread; ++i) {
            const u64 at = first + u64{i} * kElementThreads;
            if (at < count) f(static_cast<u32>(at));
        }
    });
}

struct ElementKernel {
    static constexpr unsigned kThreads = kElementThreads;
    using Shared = NoShared;
};

struct Operand {
    const u32* data = nullptr;
    Layout layout;  // of as many elements as the output
};

// out[i] = op(operands). `out` may be an operand that is read element for element.
struct Elementwise : ElementKernel {
    arith::ElementOp op{};
    u32 arity = 0;
    u32 immediate = 0;
    u32 count = 0;
    Operand operands[kMaxArity];
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return divided_up(count, kElementsPerBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        each_element(block, count, [&](u32 element) {
            u32 words[kMaxArity] = {0, 0, 0};
            QUERN_UNROLL
            for (u32 o = 0; o < kMaxArity; ++o)
                if (o < arity) words[o] = operands[o].data[operands[o].layout.offset(element)];
            out[element] = arith::scalar::evaluate(op, words[0], words[1], words[2], immediate);
        });
    }
};

// One operation of a group.
struct GroupMember {
    static constexpr u32 kNoValue = 0xffffffffU;
    arith::ElementOp op{};
    u32 arity = 0;
    u32 immediate = 0;
    u32 value = kNoValue;               // where the result is kept for later members
    u32* out = nullptr;                 // and, unless null, written
    u32 values[kMaxArity] = {0, 0, 0};  // which one an operand without data is
    Operand operands[kMaxArity];
};

// Elementwise operations over one shape, all members one after the other for each element: what only members read never
// leaves the processor. A member that writes over a word that another one reads stands behind it.
template <u32 kValues>
struct Group : ElementKernel {
    static constexpr u32 kMaxValues = kValues;
    const GroupMember* members = nullptr;
    u32 member_count = 0;
    u32 count = 0;

    [[nodiscard]] u64 blocks() const { return divided_up(count, kElementsPerBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        block.alone([&](unsigned thread) {
            u32 values[kValues][kElementsPerThread];
            const u64 first = block.index() * kElementsPerBlock + thread;
            for (u32 m = 0; m < member_count; ++m) {
                const GroupMember& member = members[m];
                u32 words[kMaxArity][kElementsPerThread] = {};
                QUERN_UNROLL
                for (u32 o = 0; o < kMaxArity; ++o) {
                    if (o >= member.arity) continue;
                    const Operand& operand = member.operands[o];
                    QUERN_UNROLL
                    for (unsigned i = 0; i < kElementsPerThread; ++i) {
                        const u64 at = first + u64{i} * kElementThreads;
                        if (operand.data == nullptr)
                            words[o][i] = values[member.values[o]][i];
                        else if (at < count)
                            words[o][i] = operand.data[operand.layout.offset(static_cast<u32>(at))];
                    }
                }
                QUERN_UNROLL
                for (unsigned i = 0; i < kElementsPerThread; ++i) {
                    const u64 at = first + u64{i} * kElementThreads;
                    if (at >= count) continue;
                    const u32 result =
                        arith::scalar::evaluate(member.op, words[0][i], words[1][i], words[2][i], member.immediate);
                    if (member.value != GroupMember::kNoValue) values[member.value][i] = result;
                    if (member.out != nullptr) member.out[at] = result;
                }
            }
        });
    }
};
using SmallGroup = Group<16>;
using LargeGroup = Group<64>;

// to's element i = from's element i; both have the same dims.
struct Copy : ElementKernel {
    const u32* from = nullptr;
    Layout source;
    u32* to = nullptr;
    Layout target;

    [[nodiscard]] u64 blocks() const { return divided_up(source.elements(), kElementsPerBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        each_element(block, source.elements(), [&](u32 i) { to[target.offset(i)] = from[source.offset(i)]; });
    }
};

// Words of `out`: the coordinate along the axis whose elements are `inner` apart and `length` many; all the same word
// where length is 0.
struct Iota : ElementKernel {
    u32* out = nullptr;
    u32 count = 0;
    u32 inner = 1;
    u32 length = 0;
    u32 word = 0;

    [[nodiscard]] u64 blocks() const { return divided_up(count, kElementsPerBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        each_element(block, count, [&](u32 i) { out[i] = length == 0 ? word : i / inner % length; });
    }
};

// Calls of Philox4x32-10 with the counters (first + i, counter) and the key, one after the other: all four words of a
// call where `whole`, else the first. The keys lie on the device: parameters[0..1] the key, [2..4] the counter's rest;
// of two words only where `parameters` has no more, and `domain` is the last.
struct Philox : ElementKernel {
    const u32* parameters = nullptr;  // key 0, key 1, counter 1, counter 2
    u32 domain = 0;                   // counter 3
    u32 first = 0;
    u32 whole = 0;
    u64 count = 0;  // words
    u32* out = nullptr;

    [[nodiscard]] u64 blocks() const { return divided_up(divided_up(count, whole != 0 ? 4 : 1), kElementsPerBlock); }

    template <class Block>
    QUERN_HD void operator()(Block& block) const {
        const u64 calls = divided_up(count, whole != 0 ? 4 : 1);
        each_element(block, calls, [&](u32 i) {
            const auto words =
                arith::philox4x32_10({first + i, parameters[2], parameters[3], domain}, {parameters[0], parameters[1]});
            if (whole == 0) {
                out[i] = words[0];
                return;
            }
            for (unsigned w = 0; w < 4; ++w)
                if (4 * u64{i} + w < count) out[4 * u64{i} + w] = words[w];
        });
    }
};

}  // namespace quern::vm::tensor::cuda
