// The transformer as builder code: parameters and the logits of a batch of windows. Used by architecture.cpp.
#pragma once

#include <vector>

#include "compute/program/architecture.h"
#include "compute/program/builder.h"
#include "compute/program/optimizer.h"

namespace quern::compute::program {

struct TransformerOutputs {
    Value logits;
    Value balance;  // f32 scalar: the layers' balance losses, added (experts.h); invalid without experts
};

// Declares the model's parameters and computes the logits [1,1,batch*context,vocabulary] of tokens
// i32 [1,1,1,batch*context] (batch windows, one after another). Parameters are appended to `parameters`. The key of
// `pass` is for dropout and for the gradients of products in bytes; without one nothing is dropped.
[[nodiscard]] TransformerOutputs transformer(Builder& b, const TransformerSpec& spec, std::uint32_t batch, Value tokens,
                                             const LayersPass& pass, std::vector<Parameter>& parameters);

}  // namespace quern::compute::program
