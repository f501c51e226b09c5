#include "compute/program/optimizer.h"

#include <utility>

#include "compute/program/attention.h"
#include "compute/program/autodiff.h"
#include "compute/program/composite.h"

namespace quern::compute::program {

std::vector<ParameterGradient> parameter_gradients(Builder& b, Value loss, std::span<const Parameter> parameters) {
    std::vector<Value> slots;
    for (const Parameter& parameter : parameters) slots.push_back(parameter.slot);
    const auto derivatives = gradients(b, loss, slots);
    std::vector<ParameterGradient> result;
    for (std::size_t i = 0; i < slots.size(); ++i)
        result.push_back({parameters[i].name, slots[i], derivatives[i], parameters[i].decay});
    return result;
}

namespace {

// share: 1 - x, what is left of the fall.
Value cosine_fall(Builder& b, const OptimizerConfig& config, Value share) {
    constexpr float kPi = 0x1.921fb6p+1F;
    const auto capped = b.min(share, b.constant(1.0F));
    const auto kept = b.max(capped, b.constant(0.0F));
    const auto gone = b.sub(b.constant(1.0F), kept);
    const auto wave = cosine(b, b.mul(gone, b.constant(kPi)));
    const auto high = b.add(wave, b.constant(1.0F));
    const auto range = b.constant((1.0F - config.final_rate) / 2);
    return b.fma(high, range, b.constant(config.final_rate));
}

}  // namespace

Value scheduled_rate(Builder& b, const OptimizerConfig& config, Value step) {
    const auto one = b.constant(1.0F);
    const auto now = b.to_f32(step);
    Value factor = one;
    if (config.warmup > 0) {
        const auto done = b.add(now, one);
        factor = b.min(b.div(done, b.constant(static_cast<float>(config.warmup))), one);
    }
    if (config.total_steps > config.warmup) {
        const auto left = b.sub(b.constant(static_cast<float>(config.total_steps)), now);
        const auto share = b.div(left, b.constant(static_cast<float>(config.total_steps - config.warmup)));
        factor = b.mul(factor, config.schedule == OptimizerConfig::Schedule::cosine
                                   ? cosine_fall(b, config, share)
                                   : b.min(b.max(share, b.constant(config.final_rate)), one));
    }
    return b.mul(factor, b.constant(config.learning_rate));
}

namespace {

std::vector<Value> clipped(Builder& b, float clip_norm, std::span<const ParameterGradient> parameters) {
    std::vector<Value> gradients;
    for (const ParameterGradient& parameter : parameters) gradients.push_back(parameter.gradient);
    if (!(clip_norm > 0) || gradients.empty()) return gradients;
    Value squares;
    for (const Value gradient : gradients) {
        const auto part = sum_all(b, b.mul(gradient, gradient));
        squares = squares.valid() ? b.add(squares, part) : part;
    }
    const auto limit = b.constant(clip_norm);
    const auto scale = b.div(limit, b.max(b.sqrt(squares), limit));
    for (Value& gradient : gradients) gradient = b.mul(gradient, scale);
    return gradients;
}

// Parameter after decoupled decay: p * (1 - rate * weight_decay).
Value decayed(Builder& b, const OptimizerConfig& config, const ParameterGradient& parameter, Value rate) {
    if (!parameter.decay || config.weight_decay == 0.0F) return parameter.slot;
    const auto decay = b.mul(rate, b.constant(config.weight_decay));
    const auto keep = b.sub(b.constant(1.0F), decay);
    return b.mul(parameter.slot, keep);
}

Value zero_slot(Builder& b, const std::string& name, Value like) {
    return b.slot(name, DType::f32, b.shape(like), Initializer::zeros());
}

// With Adam's decay in the gradient, or AdamW's beside it.
void append_adam(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                 const std::vector<Value>& gradients, Value rate) {
    const bool decoupled = config.type == OptimizerConfig::Type::adamw;
    const std::string prefix = decoupled ? "adamw." : "adam.";
    const auto one = b.constant(1.0F);
    const auto power = [&](const char* name, float beta) {
        const auto slot = b.slot(prefix + name, DType::f32, scalar_shape(), Initializer::constant(1.0F));
        const auto next = b.mul(slot, b.constant(beta));
        b.update(slot, next);
        return next;
    };
    const auto power1 = power("beta1_power", config.beta1);
    const auto power2 = power("beta2_power", config.beta2);
    const auto descent = b.neg(b.div(rate, b.sub(one, power1)));
    const auto correction = b.div(one, b.sub(one, power2));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ParameterGradient& parameter = parameters[i];
        Value g = gradients[i];
        if (!decoupled && parameter.decay && config.weight_decay != 0.0F)
            g = b.fma(parameter.slot, b.constant(config.weight_decay), g);
        const auto m = zero_slot(b, prefix + "m." + parameter.name, parameter.slot);
        const auto v = zero_slot(b, prefix + "v." + parameter.name, parameter.slot);
        const auto m_part = b.mul(g, b.constant(1.0F - config.beta1));
        const auto m_next = b.fma(m, b.constant(config.beta1), m_part);
        const auto v_rate = b.constant(1.0F - config.beta2);
        const auto v_part = b.mul(b.mul(g, g), v_rate);
        const auto v_next = b.fma(v, b.constant(config.beta2), v_part);
        b.update(m, m_next);
        b.update(v, v_next);
        const auto epsilon = b.constant(config.epsilon);
        const auto scale = b.add(b.sqrt(b.mul(v_next, correction)), epsilon);
        const auto kept = decoupled ? decayed(b, config, parameter, rate) : parameter.slot;
        b.update(parameter.slot, b.fma(b.div(m_next, scale), descent, kept));
    }
}

// 1, -1, and 0 of 0.
Value sign(Builder& b, Value x) {
    const auto zero = b.constant(0.0F);
    const auto above = b.lt(zero, x);
    const auto below = b.lt(x, zero);
    const auto up = b.to_f32(above);
    return b.sub(up, b.to_f32(below));
}

void append_lion(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                 const std::vector<Value>& gradients, Value rate) {
    const auto descent = b.neg(rate);
    // beta m + (1 - beta) g.
    const auto mixed = [&](Value m, Value g, float beta) {
        const auto part = b.mul(g, b.constant(1.0F - beta));
        return b.fma(m, b.constant(beta), part);
    };
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ParameterGradient& parameter = parameters[i];
        const auto m = zero_slot(b, "lion.m." + parameter.name, parameter.slot);
        const auto direction = sign(b, mixed(m, gradients[i], config.beta1));
        b.update(m, mixed(m, gradients[i], config.beta2));
        const auto kept = decayed(b, config, parameter, rate);
        b.update(parameter.slot, b.fma(direction, descent, kept));
    }
}

}  // namespace

void append_optimizer(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                      Value step) {
    if (b.failed()) return;
    const auto rate = scheduled_rate(b, config, step);
    const auto gradients = clipped(b, config.clip_norm, parameters);
    using Type = OptimizerConfig::Type;
    if (config.type == Type::adamw || config.type == Type::adam)
        return append_adam(b, config, parameters, gradients, rate);
    if (config.type == Type::lion) return append_lion(b, config, parameters, gradients, rate);
    const auto descent = b.neg(rate);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ParameterGradient& parameter = parameters[i];
        Value direction = gradients[i];
        if (config.type == Type::momentum) {
            const auto velocity = zero_slot(b, "momentum." + parameter.name, parameter.slot);
            direction = b.fma(velocity, b.constant(config.momentum), direction);
            b.update(velocity, direction);
        }
        b.update(parameter.slot, b.fma(direction, descent, decayed(b, config, parameter, rate)));
    }
}

}  // namespace quern::compute::program
