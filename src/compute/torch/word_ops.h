// The ops on 32-bit words that torch lacks or leaves undefined, made of ops that it has: for devices whose values
// cannot be read on the way. They give the bits of the definitions in vm/tensor/arith, in int64 where 32 bits do not
// do. On the processor the definitions themselves are faster. Internal to compute/torch, with torch's headers. Pure;
// thread-safe.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "vm/tensor/arith/element_op.h"

namespace quern::compute::torch_backend {

// i32 operands of f2i and bits aside, which have f32; shapes are broadcast. The result is i32, on the operands' device.
// None for ops of which there is no such form: permute_index, whose walk ends where the values say; and those that
// torch has itself.
[[nodiscard]] std::optional<at::Tensor> word_op(vm::tensor::arith::ElementOp op, const std::vector<at::Tensor>& in);

// `count` elements of Op::philox, or Op::philox_words, of i32 [1,1,1,4] {k0, k1, c1, c2}: i32 [count].
[[nodiscard]] at::Tensor philox_words(const at::Tensor& key_counter, std::int64_t count, bool four_of_a_call);

}  // namespace quern::compute::torch_backend
