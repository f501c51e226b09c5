// Attention and positions of transformers, composed of builder ops. Used by model builders and tests. Pure functions on
// a Builder. Heads are [n, heads, t, size].
#pragma once

#include "compute/program/builder.h"

namespace quern::compute::program {

// sin and cos of f32 x, |x| below 2^22: the quarter of a turn nearest to x is taken out with pi/2 in three parts (Cody,
// Waite), of the rest there are polynomials. Within 2^-22 of the true value below 2^14. No gradient: of constants.
[[nodiscard]] Value sine(Builder& b, Value x);
[[nodiscard]] Value cosine(Builder& b, Value x);

// Rotary positions (Su et al., arXiv 2104.09864) of x [n,heads,t,size]: the pair of elements (i, i + size / 2), as
// GPT-NeoX and Llama pair them, is turned by row * base^(-2 i / size). The builder's error: attention.odd_size.
[[nodiscard]] Value rotary(Builder& b, Value x, float base);

// softmax(query key' / sqrt(size)) value, rows of query [n,heads,t,size] over those of key and value [n,groups,u,size]:
// `groups` divides heads, and heads / groups of them in a row read the same (Ainslie et al., arXiv 2305.13245). Causal:
// row i reads rows 0 to i, t = u. The builder's error: attention.bad_groups, attention.not_square.
[[nodiscard]] Value attention(Builder& b, Value query, Value key, Value value, bool causal);

}  // namespace quern::compute::program
