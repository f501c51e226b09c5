#include "compute/program/transformer.h"

#include <map>
#include <tuple>

#include "compute/program/composite.h"
#include "compute/program/quantized.h"

namespace quern::compute::program {

namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kEmbeddingDeviation = 0.1F;
constexpr float kWeightGain = 0.8F;

float inverse_root(std::uint32_t x) { return 1.0F / canonical(ElementOp::sqrt, static_cast<float>(x)); }

class Model {
public:
    Model(Builder& b, const TransformerSpec& spec, std::uint32_t batch, std::vector<Parameter>& parameters, Value key)
        : b_(b), spec_(spec), batch_(batch), parameters_(parameters), bytes_(key) {}

    Value logits(Value tokens) {
        const std::uint32_t width = spec_.width;
        if (spec_.adapter_rank != 0) declare_adapters();
        // Tied it must be what the output layer needs; the positions and the first norm make up for it.
        const float deviation = spec_.tied ? weight_deviation() : kEmbeddingDeviation;
        const auto table = matrix("wte", spec_.vocabulary, width, deviation);
        const auto places = matrix("wpe", spec_.context, width, kEmbeddingDeviation);
        const Shape windows{{1, batch_, spec_.context, width}};
        auto x = b_.add(b_.reshape(embedding(b_, table, tokens), windows), places);
        x = b_.reshape(x, matrix_shape(rows(), width));
        for (std::uint32_t layer = 0; layer < spec_.layers && !b_.failed(); ++layer) {
            prefix_ = "h." + std::to_string(layer) + ".";
            x = b_.add(x, attention(norm("ln_1", x)));
            x = b_.add(x, mlp(norm("ln_2", x)));
        }
        prefix_.clear();
        if (spec_.tied) return times(spec_.head_precision, norm("ln_f", x), table, false, true);
        const auto head = matrix("head", width, spec_.vocabulary, weight_deviation());
        return times(spec_.head_precision, norm("ln_f", x), head);
    }

private:
    [[nodiscard]] std::uint32_t rows() const { return batch_ * spec_.context; }

    Value parameter(const std::string& name, const Shape& shape, Initializer initializer, bool decay) {
        const std::string full_name = "model." + prefix_ + name;
        const auto slot = b_.slot(full_name, DType::f32, shape, initializer, vm::tensor::kSlotParameter);
        if (spec_.adapter_rank == 0) parameters_.push_back({full_name, slot, decay});
        return slot;
    }

    Value times(TransformerSpec::Precision precision, Value left, Value right, bool transpose_left = false,
                bool transpose_right = false) {
        return precision == TransformerSpec::Precision::int8
                   ? bytes_.matmul(b_, left, right, transpose_left, transpose_right)
                   : b_.matmul(left, right, transpose_left, transpose_right);
    }
    Value linear(Value x, Value weight, Value bias) { return b_.add(times(spec_.precision, x, weight), bias); }

    struct Adapter {
        Value a;
        Value b;
    };
    // Before all other slots, so that what they adapt stays as it lies in the model that was trained without them. B
    // begins with zeros: the first output is that model's.
    void declare_adapters() {
        const std::uint32_t width = spec_.width;
        const std::uint32_t hidden = width * spec_.mlp_ratio;
        for (std::uint32_t layer = 0; layer < spec_.layers && !b_.failed(); ++layer) {
            prefix_ = "h." + std::to_string(layer) + ".";
            for (const auto& [name, rows, columns] :
                 {std::tuple{"attn.w_qkv", width, 3 * width}, std::tuple{"attn.w_o", width, width},
                  std::tuple{"mlp.w_in", width, hidden}, std::tuple{"mlp.w_out", hidden, width}})
                adapters_[prefix_ + name] = {
                    adapter(std::string(name) + ".lora_a", rows, spec_.adapter_rank,
                            Initializer::normal(inverse_root(rows))),
                    adapter(std::string(name) + ".lora_b", spec_.adapter_rank, columns, Initializer::zeros())};
        }
        prefix_.clear();
    }
    Value adapter(const std::string& name, std::uint32_t rows, std::uint32_t columns, Initializer initializer) {
        const std::string full_name = "model." + prefix_ + name;
        const auto slot =
            b_.slot(full_name, DType::f32, matrix_shape(rows, columns), initializer, vm::tensor::kSlotParameter);
        parameters_.push_back({full_name, slot, true});
        return slot;
    }
    // x by the matrix of this name is `product`.
    Value adapted(const std::string& name, Value x, Value product) {
        const auto found = adapters_.find(prefix_ + name);
        if (found == adapters_.end()) return product;
        const auto delta = b_.matmul(b_.matmul(x, found->second.a), found->second.b);
        return b_.add(product, b_.mul(delta, b_.constant(spec_.adapter_scale)));
    }
    Value matrix(const std::string& name, std::uint32_t rows, std::uint32_t columns, float deviation) {
        return parameter(name, matrix_shape(rows, columns), Initializer::normal(deviation), true);
    }
    Value vector(const std::string& name, std::uint32_t size, float value) {
        return parameter(name, vector_shape(size), Initializer::constant(value), false);
    }

    Value norm(const std::string& name, Value x) {
        const auto gain = vector(name + ".gain", spec_.width, 1.0F);
        const auto bias = vector(name + ".bias", spec_.width, 0.0F);
        return layer_norm(b_, x, gain, bias, kNormEpsilon);
    }

    // Variance 0.64 / d_model keeps activations near 1 from narrow models to wide ones.
    [[nodiscard]] float weight_deviation() const { return kWeightGain * inverse_root(spec_.width); }
    // Residual branches start smaller the more of them are summed (GPT-2).
    [[nodiscard]] float residual_deviation() const { return weight_deviation() * inverse_root(2 * spec_.layers); }

    Value attention(Value x) {
        const std::uint32_t width = spec_.width;
        const std::uint32_t heads = spec_.heads;
        const std::uint32_t size = width / heads;
        // No key bias: softmax does not see it, so its true gradient is zero, and Adam would blow rounding noise up.
        const auto key_bias = b_.full(DType::f32, vector_shape(width), 0);
        const auto weight = matrix("attn.w_qkv", width, 3 * width, weight_deviation());
        const auto query_bias = vector("attn.b_q", width, 0.0F);
        const auto value_bias = vector("attn.b_v", width, 0.0F);
        const auto bias = b_.concat(b_.concat(query_bias, key_bias, 3), value_bias, 3);
        const auto product = adapted("attn.w_qkv", x, linear(x, weight, bias));
        auto qkv = b_.reshape(product, Shape{{batch_, spec_.context, 3 * heads, size}});
        qkv = b_.permute(qkv, {0, 2, 1, 3});
        const Shape part{{batch_, heads, spec_.context, size}};
        const auto scale = b_.constant(inverse_root(size));
        const auto query = b_.mul(b_.slice(qkv, {0, 0, 0, 0}, part), scale);
        const auto key = b_.slice(qkv, {0, heads, 0, 0}, part);
        const auto value = b_.slice(qkv, {0, 2 * heads, 0, 0}, part);
        const auto weights = softmax(b_, causal_mask(b_, times(spec_.attention_precision, query, key, false, true)));
        const auto mixed = b_.permute(times(spec_.attention_precision, weights, value), {0, 2, 1, 3});
        const auto output = matrix("attn.w_o", width, width, residual_deviation());
        const auto output_bias = vector("attn.b_o", width, 0.0F);
        const auto joined = b_.reshape(mixed, matrix_shape(rows(), width));
        return adapted("attn.w_o", joined, linear(joined, output, output_bias));
    }

    Value mlp(Value x) {
        const std::uint32_t hidden = spec_.width * spec_.mlp_ratio;
        const auto in = matrix("mlp.w_in", spec_.width, hidden, weight_deviation());
        const auto before = linear(x, in, vector("mlp.b_in", hidden, 0.0F));
        const auto h = gelu(b_, adapted("mlp.w_in", x, before));
        const auto out = matrix("mlp.w_out", hidden, spec_.width, residual_deviation());
        return adapted("mlp.w_out", h, linear(h, out, vector("mlp.b_out", spec_.width, 0.0F)));
    }

    Builder& b_;
    const TransformerSpec& spec_;
    std::uint32_t batch_;
    std::vector<Parameter>& parameters_;
    ByteProducts bytes_;
    std::string prefix_;
    std::map<std::string, Adapter> adapters_;  // by the matrix
};

}  // namespace

Value transformer_logits(Builder& b, const TransformerSpec& spec, std::uint32_t batch, Value tokens,
                         std::vector<Parameter>& parameters, Value key) {
    return Model(b, spec, batch, parameters, key).logits(tokens);
}

}  // namespace quern::compute::program
