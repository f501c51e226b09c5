// Optimizers as nodes of the step program: SGD, SGD with momentum (Polyak's heavy ball), Adam (Kingma and Ba, arXiv
// 1412.6980), AdamW (Loshchilov and Hutter, arXiv 1711.05101) and Lion (Chen et al., arXiv 2302.06675). Used by model
// builders. Plain values and functions on a Builder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compute/program/builder.h"

namespace quern::compute::program {

struct OptimizerConfig {
    enum class Type : std::uint8_t { sgd, momentum, adam, adamw, lion };
    enum class Schedule : std::uint8_t { linear, cosine };
    Type type = Type::adamw;
    float learning_rate = 1e-3F;
    float momentum = 0.9F;
    float beta1 = 0.9F;
    float beta2 = 0.999F;
    float epsilon = 1e-8F;
    // On parameters with `decay` only; decoupled, of Adam as L2 regularisation: added to the gradient.
    float weight_decay = 0.0F;
    float clip_norm = 0.0F;         // > 0: gradients are scaled so that their global L2 norm is at most this
    std::uint32_t warmup = 0;       // steps in which the rate rises linearly to learning_rate
    std::uint32_t total_steps = 0;  // > 0: after the warm-up the rate falls up to here
    float final_rate = 0.1F;        // it falls no lower, as a fraction of learning_rate
    Schedule schedule = Schedule::linear;
};

// What a model is trained by: a state slot and its name ("model.h.0.attn.w_qkv").
struct Parameter {
    std::string name;
    Value slot;
    bool decay = false;  // a matrix of weights: weight decay applies
};
// The same with its gradient (of the slot's shape).
struct ParameterGradient {
    std::string name;
    Value slot;
    Value gradient;
    bool decay = false;
};
// d loss / d parameter of each, in their order. Errors are the builder's, as of gradients().
[[nodiscard]] std::vector<ParameterGradient> parameter_gradients(Builder& b, Value loss,
                                                                 std::span<const Parameter> parameters);

// Learning rate of the step, f32 scalar; `step` is the i32 scalar number of the step, from 0:
//   rate = learning_rate * min((step + 1) / warmup, 1) * fall, where x = (step - warmup) / (total - warmup) in [0, 1]
//   and fall = max(final_rate, 1 - x), or (cosine; arXiv 1608.03983 without restarts)
//   fall = final_rate + (1 - final_rate) (1 + cos(pi x)) / 2.
// Computed in f32 from the step, so steps above 2^24 round.
[[nodiscard]] Value scheduled_rate(Builder& b, const OptimizerConfig& config, Value step);

// Updates the parameters' slots and adds the optimizer's own: "momentum.<name>", "lion.m.<name>", or "adamw.m.<name>",
// "adamw.v.<name>" (of Adam "adam…"), and "adamw.beta1_power", "adamw.beta2_power" which carry beta^t as products (no
// pow in the op set).
void append_optimizer(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                      Value step);

}  // namespace quern::compute::program
