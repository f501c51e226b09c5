// Model building blocks composed of builder ops. Used by model builders and tests. Pure functions on a Builder.
#pragma once

#include "compute/program/builder.h"

namespace quern::compute::program {

// Every dim of x 1 or the shape's; the result has the shape, elements unchanged.
[[nodiscard]] Value broadcast_to(Builder& b, Value x, const Shape& shape);
// Sum of all elements, f32 scalar: rows by sum_last, then the row sums by sum_last.
[[nodiscard]] Value sum_all(Builder& b, Value x);
// Sums over the dims in which `shape` is 1 and x is not; the result has `shape`. The adjoint of broadcasting.
[[nodiscard]] Value sum_to(Builder& b, Value x, const Shape& shape);
// Arithmetic mean of all elements / over the last axis ([a,b,r,c] -> [a,b,r,1]).
[[nodiscard]] Value mean_all(Builder& b, Value x);
[[nodiscard]] Value mean_last(Builder& b, Value x);

// softmax over the last axis, shifted by the row's maximum.
[[nodiscard]] Value softmax(Builder& b, Value x);
// Mean over rows of -log softmax(logits)[target]. logits [1,1,n,v], target i32 [1,1,n,1]; a target outside [0,v)
// contributes the log of the sum alone. Uses the log-sum-exp form.
[[nodiscard]] Value cross_entropy(Builder& b, Value logits, Value target);
// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba, Kiros, Hinton, arXiv 1607.06450).
[[nodiscard]] Value layer_norm(Builder& b, Value x, Value gain, Value bias, float epsilon);
// The tanh form of GELU (arXiv 1606.08415), 0.5 x (1 + tanh(u)), as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
[[nodiscard]] Value gelu(Builder& b, Value x);
// x [a,b,r,c] times weight [1,1,c,d] plus bias [1,1,1,d] (left out when invalid).
[[nodiscard]] Value linear(Builder& b, Value x, Value weight, Value bias);
// Rows of table [1,1,v,d] by i32 tokens [1,1,1,n]: [1,1,n,d].
[[nodiscard]] Value embedding(Builder& b, Value table, Value tokens);
// scores [a,b,t,t] where column <= row; -1e9 elsewhere, so that softmax gives +0 there.
[[nodiscard]] Value causal_mask(Builder& b, Value scores);

}  // namespace quern::compute::program
