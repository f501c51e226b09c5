#include "compute/program/optimizer.h"

#include <utility>

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
        factor = b.mul(factor, b.min(b.max(share, b.constant(config.final_rate)), one));
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

void append_adamw(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                  const std::vector<Value>& gradients, Value rate) {
    const auto one = b.constant(1.0F);
    const auto power = [&](const char* name, float beta) {
        const auto slot = b.slot(name, DType::f32, scalar_shape(), Initializer::constant(1.0F));
        const auto next = b.mul(slot, b.constant(beta));
        b.update(slot, next);
        return next;
    };
    const auto power1 = power("adamw.beta1_power", config.beta1);
    const auto power2 = power("adamw.beta2_power", config.beta2);
    const auto descent = b.neg(b.div(rate, b.sub(one, power1)));
    const auto correction = b.div(one, b.sub(one, power2));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ParameterGradient& parameter = parameters[i];
        const Value g = gradients[i];
        const auto m = zero_slot(b, "adamw.m." + parameter.name, parameter.slot);
        const auto v = zero_slot(b, "adamw.v." + parameter.name, parameter.slot);
        const auto m_part = b.mul(g, b.constant(1.0F - config.beta1));
        const auto m_next = b.fma(m, b.constant(config.beta1), m_part);
        const auto v_rate = b.constant(1.0F - config.beta2);
        const auto v_part = b.mul(b.mul(g, g), v_rate);
        const auto v_next = b.fma(v, b.constant(config.beta2), v_part);
        b.update(m, m_next);
        b.update(v, v_next);
        const auto epsilon = b.constant(config.epsilon);
        const auto scale = b.add(b.sqrt(b.mul(v_next, correction)), epsilon);
        const auto kept = decayed(b, config, parameter, rate);
        b.update(parameter.slot, b.fma(b.div(m_next, scale), descent, kept));
    }
}

}  // namespace

void append_optimizer(Builder& b, const OptimizerConfig& config, std::span<const ParameterGradient> parameters,
                      Value step) {
    if (b.failed()) return;
    const auto rate = scheduled_rate(b, config, step);
    const auto gradients = clipped(b, config.clip_norm, parameters);
    if (config.type == OptimizerConfig::Type::adamw) return append_adamw(b, config, parameters, gradients, rate);
    const auto descent = b.neg(rate);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ParameterGradient& parameter = parameters[i];
        Value direction = gradients[i];
        if (config.type == OptimizerConfig::Type::momentum) {
            const auto velocity = zero_slot(b, "momentum." + parameter.name, parameter.slot);
            direction = b.fma(velocity, b.constant(config.momentum), direction);
            b.update(velocity, direction);
        }
        b.update(parameter.slot, b.fma(direction, descent, decayed(b, config, parameter, rate)));
    }
}

}  // namespace quern::compute::program
