#include "unit/compute/program/plain_transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace quern::compute::program::test {
namespace {

using Positions = TransformerSpec::Positions;
using Activation = TransformerSpec::Activation;

constexpr double kEpsilon = 1e-5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// x by the matrix of so many columns.
Doubles times(const Doubles& x, const double* matrix, std::size_t columns) {
    Doubles result(columns, 0);
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t c = 0; c < columns; ++c) result[c] += x[i] * matrix[i * columns + c];
    return result;
}
Doubles times(const Doubles& x, const Doubles& matrix) { return times(x, matrix.data(), matrix.size() / x.size()); }

void add_to(Doubles& sum, const Doubles& x) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

// The pair (i, i + size / 2) of the head at `x` by its angle in row `place`.
void turn(double* x, std::size_t size, std::size_t place) {
    for (std::size_t i = 0; i < size / 2; ++i) {
        const double angle =
            static_cast<double>(place) * std::pow(10'000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
        const double first = x[i];
        const double second = x[i + size / 2];
        x[i] = first * std::cos(angle) - second * std::sin(angle);
        x[i + size / 2] = first * std::sin(angle) + second * std::cos(angle);
    }
}

}  // namespace

PlainTransformer::PlainTransformer(const TransformerSpec& spec, const Program& program,
                                   const quern::test::DoubleState& state)
    : spec_(spec) {
    for (std::size_t s = 0; s < state.size(); ++s)
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) != 0) parameters_[program.slots[s].name] = state[s];
}

const Doubles& PlainTransformer::parameter(const std::string& name) const {
    static const Doubles kNone;
    const auto found = parameters_.find("model." + name);
    EXPECT_NE(found, parameters_.end()) << name;
    return found == parameters_.end() ? kNone : found->second;
}

Doubles PlainTransformer::normed(const std::string& name, const Doubles& x) const {
    const auto size = static_cast<double>(x.size());
    const bool centres = spec_.norm == TransformerSpec::Norm::layer;
    double mean = 0;
    if (centres)
        for (const double each : x) mean += each / size;
    double variance = 0;
    for (const double each : x) variance += (each - mean) * (each - mean) / size;
    Doubles result;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double scaled = (x[i] - mean) / std::sqrt(variance + kEpsilon) * parameter(name + ".gain")[i];
        result.push_back(scaled + (centres ? parameter(name + ".bias")[i] : 0.0));
    }
    return result;
}

std::vector<Doubles> PlainTransformer::attended(const std::string& layer, const std::vector<Doubles>& x) const {
    const std::size_t width = spec_.width;
    const std::size_t size = width / spec_.heads;
    const std::size_t groups = spec_.key_heads();
    const std::size_t keys = width;  // where keys begin, and values
    const std::size_t values = width + groups * size;
    std::vector<Doubles> qkv;
    for (std::size_t t = 0; t < x.size(); ++t) {
        Doubles row = times(x[t], parameter(layer + "attn.w_qkv"));
        for (std::size_t i = 0; i < width; ++i) row[i] += parameter(layer + "attn.b_q")[i];
        for (std::size_t i = 0; i < groups * size; ++i) row[values + i] += parameter(layer + "attn.b_v")[i];
        if (spec_.positions == Positions::rotary)
            for (std::size_t head = 0; head < spec_.heads + groups; ++head) turn(&row[head * size], size, t);
        qkv.push_back(std::move(row));
    }
    std::vector<Doubles> result;
    for (std::size_t t = 0; t < x.size(); ++t) {
        Doubles mixed(width, 0);
        for (std::size_t head = 0; head < spec_.heads; ++head) {
            const std::size_t group = head / (spec_.heads / groups);
            Doubles weights;
            double sum = 0;
            for (std::size_t u = 0; u <= t; ++u) {
                double score = 0;
                for (std::size_t i = 0; i < size; ++i)
                    score += qkv[t][head * size + i] * qkv[u][keys + group * size + i];
                weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
                sum += weights.back();
            }
            for (std::size_t u = 0; u <= t; ++u)
                for (std::size_t i = 0; i < size; ++i)
                    mixed[head * size + i] += weights[u] / sum * qkv[u][values + group * size + i];
        }
        Doubles output = times(mixed, parameter(layer + "attn.w_o"));
        add_to(output, parameter(layer + "attn.b_o"));
        result.push_back(std::move(output));
    }
    return result;
}

double PlainTransformer::activated(double x) const {
    switch (spec_.activation) {
        case Activation::gelu:
            return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case Activation::relu:
            return x > 0 ? x : 0;
        case Activation::silu:
        case Activation::swiglu:
            return x * sigmoid(x);
    }
    return 0;
}

Doubles PlainTransformer::mlp(const std::string& name, std::size_t index, std::size_t count, const Doubles& x) const {
    const auto part = [&](const char* of) {
        const Doubles& all = parameter(name + of);
        const auto size = static_cast<std::ptrdiff_t>(all.size() / count);
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index) * size;
        return Doubles(begin, begin + size);
    };
    Doubles h = times(x, part(".w_in"));
    if (spec_.activation == Activation::swiglu) {
        const Doubles gate = times(x, part(".w_gate"));
        for (std::size_t i = 0; i < h.size(); ++i) h[i] *= activated(gate[i]);
        return times(h, part(".w_out"));
    }
    add_to(h, part(".b_in"));
    for (double& each : h) each = activated(each);
    Doubles output = times(h, part(".w_out"));
    add_to(output, part(".b_out"));
    return output;
}

double ExpertLoad::balance() const {
    double sum = 0;
    for (std::size_t e = 0; e < chosen.size(); ++e)
        sum += chosen[e] / static_cast<double>(tokens) * probabilities[e] / static_cast<double>(tokens);
    return sum * static_cast<double>(chosen.size());
}

std::vector<Doubles> PlainTransformer::mixture(const std::string& layer, const std::vector<Doubles>& x,
                                               ExpertLoad& load) const {
    const std::size_t experts = spec_.experts.count;
    load.chosen.resize(experts);
    load.probabilities.resize(experts);
    std::vector<std::size_t> asked(experts, 0);  // by the tokens so far
    std::vector<std::size_t> given(experts, 0);
    std::vector<Doubles> result;
    for (const Doubles& row : x) {
        Doubles chances = times(row, parameter(layer + "experts.w_router"));
        double sum = 0;
        for (double& each : chances) sum += each = std::exp(each);
        for (double& each : chances) each /= sum;
        std::vector<std::size_t> order(experts);
        for (std::size_t e = 0; e < experts; ++e) order[e] = e;
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t c) { return chances[a] > chances[c]; });
        order.resize(spec_.experts.top);
        double both = 0;
        for (const std::size_t e : order) both += chances[e];
        Doubles output(row.size(), 0);
        for (const std::size_t e : order) {
            if (asked[e]++ >= spec_.expert_capacity()) {
                ++load.dropped;
                continue;
            }
            load.most = std::max(load.most, ++given[e]);
            const double gate = order.size() == 1 ? chances[e] : chances[e] / both;
            const Doubles found = mlp(layer + "experts", e, experts, row);
            for (std::size_t i = 0; i < output.size(); ++i) output[i] += gate * found[i];
        }
        result.push_back(std::move(output));
        ++load.tokens;
        load.chosen[order[0]] += 1;
        add_to(load.probabilities, chances);
    }
    return result;
}

std::vector<Doubles> PlainTransformer::logits(const std::vector<std::uint32_t>& tokens,
                                              std::vector<ExpertLoad>* loads) const {
    const std::size_t width = spec_.width;
    const Doubles& table = parameter("wte");
    std::vector<Doubles> x;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
        x.emplace_back(&table[tokens[t] * width], &table[tokens[t] * width] + width);
        if (spec_.positions != Positions::learned) continue;
        const Doubles& places = parameter("wpe");
        add_to(x.back(), Doubles(&places[t * width], &places[t * width] + width));
    }
    for (std::uint32_t number = 0; number < spec_.layers; ++number) {
        const std::string layer = "h." + std::to_string(number) + ".";
        std::vector<Doubles> before;
        for (const Doubles& row : x) before.push_back(normed(layer + "ln_1", row));
        const auto after = attended(layer, before);
        before.clear();
        for (std::size_t t = 0; t < x.size(); ++t) {
            add_to(x[t], after[t]);
            before.push_back(normed(layer + "ln_2", x[t]));
        }
        std::vector<Doubles> branch;
        if (spec_.experts.count != 0) {
            ExpertLoad none;
            branch = mixture(layer, before, loads == nullptr ? none : (*loads)[number]);
        } else {
            for (const Doubles& row : before) branch.push_back(mlp(layer + "mlp", 0, 1, row));
        }
        for (std::size_t t = 0; t < x.size(); ++t) add_to(x[t], branch[t]);
    }
    std::vector<Doubles> result;
    for (const Doubles& row : x) {
        const Doubles last = normed("ln_f", row);
        if (!spec_.tied) {
            result.push_back(times(last, parameter("head")));
            continue;
        }
        Doubles scores(spec_.vocabulary, 0);
        for (std::size_t token = 0; token < scores.size(); ++token)
            for (std::size_t i = 0; i < width; ++i) scores[token] += last[i] * table[token * width + i];
        result.push_back(std::move(scores));
    }
    return result;
}

}  // namespace quern::compute::program::test
