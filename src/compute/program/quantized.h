// Matrix products in bytes as builder code: f32 operands are quantised strip by strip, multiplied by imatmul, and given
// gradients that are products in bytes too. Used by model builders. Functions and values on a Builder; thread-safe.
//
// Weights and activations are rounded to nearest, gradients stochastically: to nearest they lose up to two percent of
// what a model learns. Definitions: doc/arithmetic.md, "Products of bytes".
#pragma once

#include <memory>

#include "compute/program/builder.h"
#include "compute/program/precision.h"

namespace quern::compute::program {

// x (f32) in strips of 256 along `axis`, 2 or 3, each with its scale 2^e: bytes -127 to 127 in x's shape, scales with a
// strip's one in place of its elements. Stochastic where there is a key: i32 [1,1,1,4], another one for each use; to
// nearest otherwise. No function of x to gradients(). The builder's error: quantized.bad_axis.
[[nodiscard]] Builder::Scaled to_bytes(Builder& b, Value x, std::uint32_t axis, Value key = {});

class ByteProducts {
public:
    // key: i32 [1,1,1,4], another one each step, of which each use makes its own, numbered from `uses` + 1 on. Needed
    // where gradients are taken.
    explicit ByteProducts(Value key, std::uint32_t uses = 0)
        : key_(key), uses_(std::make_shared<std::uint32_t>(uses)) {}

    // As Builder::matmul, in bytes. gradients() of it: each gradient a product in bytes of the other operand, to
    // nearest, and the result's gradient, stochastic. The builder's error: quantized.no_key, where there is no key
    // then.
    [[nodiscard]] Value matmul(Builder& b, Value left, Value right, bool transpose_left = false,
                               bool transpose_right = false) const;
    // In bytes or as Builder::matmul does it.
    [[nodiscard]] Value matmul(Builder& b, Precision precision, Value left, Value right, bool transpose_left = false,
                               bool transpose_right = false) const {
        return precision == Precision::int8 ? matmul(b, left, right, transpose_left, transpose_right)
                                            : b.matmul(left, right, transpose_left, transpose_right);
    }

private:
    [[nodiscard]] Value next_key(Builder& b) const;

    Value key_;
    std::shared_ptr<std::uint32_t> uses_;  // the products of a model are made forward, their gradients later
};

}  // namespace quern::compute::program
