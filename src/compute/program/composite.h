// Model building blocks composed of builder ops. Used by model builders and tests. Pure functions on a Builder.
#pragma once

#include "compute/program/builder.h"

namespace quern::compute::program {

// What the canonical arithmetic gives of a number: constants of programs do not depend on the libm of who builds them.
// op: with one f32 operand and an f32 result.
[[nodiscard]] float canonical(ElementOp op, float x);

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
// Mean over rows of -log softmax(logits)[target]. logits [1,1,n,v], target i32 [1,1,n,1]. Uses the log-sum-exp form,
// shifted by the row's maximum, which is a constant to gradients(): of a target in [0,v) that changes nothing. A target
// outside contributes log(sum(exp(x - maximum))) alone, with the gradient softmax(x) / n.
[[nodiscard]] Value cross_entropy(Builder& b, Value logits, Value target);
[[nodiscard]] Value cross_entropy_of_rows(Builder& b, Value logits, Value target);  // [1,1,n,1], of each row
// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba, Kiros, Hinton, arXiv 1607.06450).
[[nodiscard]] Value layer_norm(Builder& b, Value x, Value gain, Value bias, float epsilon);
// The same over [n,g,h,w,channels of a group] with gain and bias [1,1,1,channels] by channel (Wu, He, arXiv
// 1803.08494): x [n,h,w,channels]. The builder's error: norm.bad_groups.
[[nodiscard]] Value group_norm(Builder& b, Value x, Value gain, Value bias, std::uint32_t groups, float epsilon);
// x / sqrt(mean of squares + epsilon) * gain over the last axis (Zhang, Sennrich, arXiv 1910.07467).
[[nodiscard]] Value rms_norm(Builder& b, Value x, Value gain, float epsilon);

// Batch normalisation (Ioffe, Szegedy, arXiv 1502.03167) of x [n,h,w,channels] over all but the channels, with the
// batch's own mean and variance [1,1,1,channels] (of the population, as it is used; running ones of PyTorch take n / (n
// - 1) of it): what a model keeps of them is its own affair.
struct BatchNormed {
    Value result;
    Value mean;
    Value variance;
};
[[nodiscard]] BatchNormed batch_norm(Builder& b, Value x, Value gain, Value bias, float epsilon);
// With a mean and a variance that are given: outside training.
[[nodiscard]] Value normalise(Builder& b, Value x, Value mean, Value variance, Value gain, Value bias, float epsilon);

// running + (now * factor - running) * share: how running statistics go on.
[[nodiscard]] Value moved_towards(Builder& b, Value running, Value now, float factor, float share);

// max(x, 0) with the gradient 0 at 0; x sigmoid(x).
[[nodiscard]] Value relu(Builder& b, Value x);
[[nodiscard]] Value silu(Builder& b, Value x);
// log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)).
[[nodiscard]] Value softplus(Builder& b, Value x);
// Each element +0 with probability `rate` in [0, 1), to the nearest 2^-31, else divided by 1 - rate. key_counter: as of
// philox, another one for each use of a step.
[[nodiscard]] Value dropout(Builder& b, Value x, Value key_counter, float rate);
// The key of dropout's use number `use` in a step, of i32 [1,1,1,4]: its last word counts them.
[[nodiscard]] Value key_of_use(Builder& b, Value key, std::uint32_t use);
// Mean of (x - target)^2.
[[nodiscard]] Value mean_squared_error(Builder& b, Value x, Value target);
// Mean of -target log sigmoid(x) - (1 - target) log(1 - sigmoid(x)), x the logits, as max(x, 0) - x target +
// log(1 + exp(-|x|)).
[[nodiscard]] Value binary_cross_entropy(Builder& b, Value logits, Value target);
[[nodiscard]] Value binary_cross_entropy_of_each(Builder& b, Value logits, Value target);  // of each element
// The tanh form of GELU (arXiv 1606.08415), 0.5 x (1 + tanh(u)), as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
[[nodiscard]] Value gelu(Builder& b, Value x);
// x [a,b,r,c] times weight [1,1,c,d] plus bias [1,1,1,d] (left out when invalid).
[[nodiscard]] Value linear(Builder& b, Value x, Value weight, Value bias);
// Rows of table [1,1,v,d] by i32 tokens [1,1,1,n]: [1,1,n,d].
[[nodiscard]] Value embedding(Builder& b, Value table, Value tokens);
// scores [a,b,t,t] where column <= row; -1e9 elsewhere, so that softmax gives +0 there.
[[nodiscard]] Value causal_mask(Builder& b, Value scores);

}  // namespace quern::compute::program
