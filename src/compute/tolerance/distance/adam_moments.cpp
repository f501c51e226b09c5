#include "compute/tolerance/distance/adam_moments.h"

#include <map>
#include <optional>

namespace quern::compute::tolerance::distance {
namespace {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::arith::ElementOp;

// A bound beyond this bounds nothing, and sqrt(v) times its root might be infinite.
constexpr float kLargestBound = 0x1p120F;

bool is(const Node& node, ElementOp op) { return node.op == Op::elementwise && node.element == op; }

std::optional<double> constant_of(const Node& node) {
    if (node.op != Op::full || node.dtype != DType::f32 || node.shape.elements() != 1) return std::nullopt;
    const auto value = double{__builtin_bit_cast(float, node.immediate)};
    if (!(value > 0 && value < 1)) return std::nullopt;
    return value;
}

// slot' = keep * slot + rate * of.
struct Average {
    double keep = 0;
    double rate = 0;
    std::uint32_t of = 0;  // node
};

// The other factor of a product with a constant between 0 and 1, either way round.
struct Scaled {
    double by = 0;
    std::uint32_t node = 0;
};
std::optional<Scaled> scaled(const Program& training, std::uint32_t product) {
    const Node& node = training.nodes[product];
    if (!is(node, ElementOp::mul)) return std::nullopt;
    for (const std::size_t side : {0U, 1U})
        if (const auto by = constant_of(training.nodes[node.inputs[side]])) return Scaled{*by, node.inputs[1 - side]};
    return std::nullopt;
}

// As the optimizers of this project write it (program/optimizer.h): fma(slot, keep, product with the rate).
std::optional<Average> average_of(const Program& training, std::uint32_t slot) {
    const Node& update = training.nodes[training.updates[slot]];
    if (!is(update, ElementOp::fma) || update.shape != training.slots[slot].shape) return std::nullopt;
    const Node& before = training.nodes[update.inputs[0]];
    const auto keep = constant_of(training.nodes[update.inputs[1]]);
    if (before.op != Op::slot || before.attributes[0] != slot || !keep) return std::nullopt;
    const auto part = scaled(training, update.inputs[2]);
    if (!part) return std::nullopt;
    return Average{*keep, part->by, part->node};
}

}  // namespace

std::vector<MomentPair> find_moment_pairs(const Program& training) {
    struct Second {
        std::uint32_t slot = 0;
        Average average;
    };
    std::map<std::uint32_t, Second> seconds;  // by the node that is squared
    std::vector<std::optional<Average>> averages(training.slots.size());
    for (std::uint32_t s = 0; s < training.slots.size(); ++s) {
        averages[s] = average_of(training, s);
        if (!averages[s]) continue;
        const Node& node = training.nodes[averages[s]->of];
        if (is(node, ElementOp::mul) && node.inputs[0] == node.inputs[1])
            seconds.emplace(node.inputs[0], Second{s, *averages[s]});
    }
    std::vector<MomentPair> pairs;
    for (std::uint32_t s = 0; s < training.slots.size(); ++s) {
        if (!averages[s]) continue;
        const auto second = seconds.find(averages[s]->of);
        if (second == seconds.end() || training.slots[second->second.slot].shape != training.slots[s].shape) continue;
        const Average& m = *averages[s];
        const Average& v = second->second.average;
        const double rest =
            1 - m.keep * m.keep / v.keep;  // without a bound at or below 0, so is the quotient, or infinite
        const auto bound = static_cast<float>(kMomentSlack * m.rate * m.rate / (v.rate * rest));
        if (bound > 0 && bound < kLargestBound) pairs.push_back({s, second->second.slot, bound});
    }
    return pairs;
}

}  // namespace quern::compute::tolerance::distance
