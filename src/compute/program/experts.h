// Mixtures of experts, composed of builder ops: which experts a token goes to, the tokens gathered by expert, and what
// the experts give put together (Fedus et al., Switch, arXiv 2101.03961; with two choices Lepikhin et al., GShard,
// arXiv 2006.16668). Used by model builders and tests. Pure functions on a Builder.
//
// Windows are GShard's groups: each has `capacity` places of its own in every expert, and gives them away token by
// token. So what a token is given depends on the tokens before it in its window alone: on no later one, which a causal
// model may not know, and on no other window, so that evaluation and sampling compute what training does.
#pragma once

#include <vector>

#include "compute/program/builder.h"

namespace quern::compute::program {

// Of n = windows * t tokens.
struct Routing {
    std::vector<Value>
        rows;  // by choice: i32 [1,1,n,1], the token's row of dispatch(), out of range when it has no place
    std::vector<Value> gates;  // by choice: f32 [1,1,n,1]
    Value balance;  // f32 scalar: E sum_e f_e P_e of Switch (eq. 4 to 6), before its factor; 1 where all is even
    std::uint32_t experts = 0;
    std::uint32_t places = 0;  // of an expert: windows * capacity
};

// The `top` (1 or 2) experts of each token, those with the largest logits [1,windows,t,experts], of equal ones the
// lower number. The gate of one is its probability, of two each one's part of both (GShard; there is no drawing of the
// second). Of a window the first `capacity` tokens that chose an expert have places there. Gradients go through gates
// and balance, not through choices. f_e of the balance counts first choices, those without a place as well. A token
// whose logits are NaN goes nowhere. The builder's error: experts.bad_top, experts.bad_capacity (0).
[[nodiscard]] Routing route(Builder& b, Value logits, std::uint32_t top, std::uint32_t capacity);

// Rows of x [1,1,n,d] where their tokens go: [1,experts,places,d], window after window in each expert, +0 where no
// token is.
[[nodiscard]] Value dispatch(Builder& b, Value x, const Routing& routing);

// The tokens' rows of y [1,experts,places,d], each times its gate, added by choice: [1,1,n,d]; +0 without a place.
[[nodiscard]] Value combine(Builder& b, Value y, const Routing& routing);

// Row r: the sum of the rows before it, of f32 [a,1,n,c]; row 0 is +0. By products with triangles of 32 x 32, so exact
// for whole numbers whose sums stay below 2^24.
[[nodiscard]] Value sum_of_earlier_rows(Builder& b, Value x);

}  // namespace quern::compute::program
