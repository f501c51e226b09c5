#include "compute/program/transformer.h"

#include <map>
#include <tuple>

#include "compute/program/attention.h"
#include "compute/program/composite.h"
#include "compute/program/experts.h"
#include "compute/program/quantized.h"

namespace quern::compute::program {

namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kEmbeddingDeviation = 0.1F;
constexpr float kWeightGain = 0.8F;
constexpr float kRotaryBase = 10'000.0F;
// Uses of the key from here on: products in bytes count theirs from 1.
constexpr std::uint32_t kDropoutUses = 1U << 30;

float inverse_root(std::uint32_t x) { return 1.0F / canonical(ElementOp::sqrt, static_cast<float>(x)); }

class Model {
public:
    Model(Builder& b, const TransformerSpec& spec, std::uint32_t batch, const LayersPass& pass,
          std::vector<Parameter>& parameters)
        : b_(b),
          spec_(spec),
          batch_(batch),
          pass_(pass),
          parameters_(parameters),
          bytes_(pass.key),
          precisions_(spec.layer_precision) {}

    TransformerOutputs outputs(Value tokens) {
        const auto result = logits(tokens);
        if (const std::string* const unused = precisions_.unused(); unused != nullptr && !b_.failed())
            b_.set_error("arch.unknown_matrix",
                         "model.layer_precision: no matrix of a layer has that of \"" + *unused + "\"");
        return {result, balance_};
    }

private:
    Value logits(Value tokens) {
        const std::uint32_t width = spec_.width;
        if (spec_.adapter_rank != 0) declare_adapters();
        // Tied it must be what the output layer needs; the positions and the first norm make up for it.
        const float deviation = spec_.tied ? weight_deviation() : kEmbeddingDeviation;
        const auto table = matrix("wte", spec_.vocabulary, width, deviation);
        auto x = embedded(table, tokens);
        for (std::uint32_t layer = 0; layer < spec_.layers && !b_.failed(); ++layer) {
            b_.cut();
            prefix_ = "h." + std::to_string(layer) + ".";
            x = b_.add(x, dropped(attention(norm("ln_1", x))));
            const auto normed = norm("ln_2", x);
            x = b_.add(x, dropped(spec_.experts.count == 0 ? mlp("mlp", 1, normed) : mixture(normed)));
        }
        b_.cut();
        prefix_.clear();
        if (spec_.tied) return times(spec_.head_precision, norm("ln_f", x), table, false, true);
        const auto head = matrix("head", width, spec_.vocabulary, weight_deviation());
        return times(spec_.head_precision, norm("ln_f", x), head);
    }

    [[nodiscard]] std::uint32_t rows() const { return batch_ * spec_.context; }
    [[nodiscard]] bool is_rotary() const { return spec_.positions == TransformerSpec::Positions::rotary; }
    [[nodiscard]] bool is_gated() const { return spec_.activation == TransformerSpec::Activation::swiglu; }
    [[nodiscard]] std::uint32_t head_size() const { return spec_.width / spec_.heads; }
    [[nodiscard]] std::uint32_t hidden() const { return spec_.width * spec_.mlp_ratio; }
    // Heads of queries, keys and values, side by side.
    [[nodiscard]] std::uint32_t joint_heads() const { return spec_.heads + 2 * spec_.key_heads(); }

    // [1,1,batch*context,d_model]: what the tokens are and where they stand.
    Value embedded(Value table, Value tokens) {
        if (spec_.positions != TransformerSpec::Positions::learned) return dropped(embedding(b_, table, tokens));
        const auto places = matrix("wpe", spec_.context, spec_.width, kEmbeddingDeviation);
        const Shape windows{{1, batch_, spec_.context, spec_.width}};
        const auto x = b_.add(b_.reshape(embedding(b_, table, tokens), windows), places);
        return dropped(b_.reshape(x, matrix_shape(rows(), spec_.width)));
    }
    Value dropped(Value x) {
        if (!pass_.training || !pass_.key.valid() || spec_.dropout == 0.0F) return x;
        return dropout(b_, x, key_of_use(b_, pass_.key, kDropoutUses + ++drops_), spec_.dropout);
    }

    Value parameter(const std::string& name, const Shape& shape, Initializer initializer, bool decay) {
        const std::string full_name = "model." + prefix_ + name;
        const auto slot = b_.slot(full_name, DType::f32, shape, initializer, vm::tensor::kSlotParameter);
        if (spec_.adapter_rank == 0) parameters_.push_back({full_name, slot, decay});
        return slot;
    }

    Value times(Precision precision, Value left, Value right, bool transpose_left = false,
                bool transpose_right = false) {
        return bytes_.matmul(b_, precision, left, right, transpose_left, transpose_right);
    }
    // By the matrix of this name of the layer that is laid.
    Value product(const std::string& name, Value x, Value weight) {
        return times(precisions_.of(prefix_ + name, spec_.precision), x, weight);
    }
    Value linear(const std::string& name, Value x, Value weight, Value bias) {
        return b_.add(product(name, x, weight), bias);
    }

    struct Adapter {
        Value a;
        Value b;
    };
    // Before all other slots, so that what they adapt stays as it lies in the model that was trained without them. B
    // begins with zeros: the first output is that model's.
    void declare_adapters() {
        const std::uint32_t width = spec_.width;
        for (std::uint32_t layer = 0; layer < spec_.layers && !b_.failed(); ++layer) {
            prefix_ = "h." + std::to_string(layer) + ".";
            for (const auto& [name, rows, columns] :
                 {std::tuple{"attn.w_qkv", width, joint_heads() * head_size()}, std::tuple{"attn.w_o", width, width},
                  std::tuple{"mlp.w_in", width, hidden()}, std::tuple{"mlp.w_gate", width, is_gated() ? hidden() : 0},
                  std::tuple{"mlp.w_out", hidden(), width}}) {
                if (columns == 0) continue;
                adapters_[prefix_ + name] = {
                    adapter(std::string(name) + ".lora_a", rows, spec_.adapter_rank,
                            Initializer::normal(inverse_root(rows))),
                    adapter(std::string(name) + ".lora_b", spec_.adapter_rank, columns, Initializer::zeros())};
            }
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
        if (spec_.norm == TransformerSpec::Norm::rms) return rms_norm(b_, x, gain, kNormEpsilon);
        const auto bias = vector(name + ".bias", spec_.width, 0.0F);
        return layer_norm(b_, x, gain, bias, kNormEpsilon);
    }

    // Variance 0.64 / d_model keeps activations near 1 from narrow models to wide ones.
    [[nodiscard]] float weight_deviation() const { return kWeightGain * inverse_root(spec_.width); }
    // Residual branches start smaller the more of them are summed (GPT-2).
    [[nodiscard]] float residual_deviation() const { return weight_deviation() * inverse_root(2 * spec_.layers); }

    Value attention(Value x) {
        const std::uint32_t width = spec_.width;
        const std::uint32_t size = head_size();
        const std::uint32_t read = spec_.key_heads() * size;  // columns of keys, and of values
        // No key bias: softmax does not see it, so its true gradient is zero, and Adam would blow rounding noise up.
        // (Behind a turn it does; models with rotary positions have none either.)
        const auto key_bias = b_.full(DType::f32, vector_shape(read), 0);
        const auto weight = matrix("attn.w_qkv", width, width + 2 * read, weight_deviation());
        const auto query_bias = vector("attn.b_q", width, 0.0F);
        const auto value_bias = vector("attn.b_v", read, 0.0F);
        const auto bias = b_.concat(b_.concat(query_bias, key_bias, 3), value_bias, 3);
        const auto joint = adapted("attn.w_qkv", x, linear("attn.w_qkv", x, weight, bias));
        const auto qkv = b_.reshape(joint, Shape{{batch_, spec_.context, joint_heads(), size}});
        const auto mixed = b_.permute(attended(b_.permute(qkv, {0, 2, 1, 3})), {0, 2, 1, 3});
        const auto output = matrix("attn.w_o", width, width, residual_deviation());
        const auto output_bias = vector("attn.b_o", width, 0.0F);
        const auto joined = b_.reshape(mixed, matrix_shape(rows(), width));
        return adapted("attn.w_o", joined, linear("attn.w_o", joined, output, output_bias));
    }

    // [batch,heads,context,size] of queries, keys and values [batch,joint_heads(),context,size].
    Value attended(Value qkv) {
        const std::uint32_t heads = spec_.heads;
        const std::uint32_t groups = spec_.key_heads();
        const Shape asked{{batch_, heads, spec_.context, head_size()}};
        const Shape read{{batch_, groups, spec_.context, head_size()}};
        if (groups == heads && !is_rotary()) {
            // As attention() has it, in the order of nodes that programs of such models always had.
            const auto scale = b_.constant(inverse_root(head_size()));
            const auto query = b_.mul(b_.slice(qkv, {0, 0, 0, 0}, asked), scale);
            const auto key = b_.slice(qkv, {0, heads, 0, 0}, read);
            const auto value = b_.slice(qkv, {0, 2 * heads, 0, 0}, read);
            const auto weights =
                softmax(b_, causal_mask(b_, times(spec_.attention_precision, query, key, false, true)));
            return times(spec_.attention_precision, weights, value);
        }
        auto query = b_.slice(qkv, {0, 0, 0, 0}, asked);
        auto key = b_.slice(qkv, {0, heads, 0, 0}, read);
        const auto value = b_.slice(qkv, {0, heads + groups, 0, 0}, read);
        if (is_rotary()) {
            query = rotary(b_, query, kRotaryBase);
            key = rotary(b_, key, kRotaryBase);
        }
        return program::attention(b_, query, key, value, true);
    }

    Value activated(Value x) {
        switch (spec_.activation) {
            case TransformerSpec::Activation::gelu:
                return gelu(b_, x);
            case TransformerSpec::Activation::relu:
                return relu(b_, x);
            case TransformerSpec::Activation::silu:
            case TransformerSpec::Activation::swiglu:  // of the gate
                return silu(b_, x);
        }
        return {};
    }

    // Of `count` MLPs side by side, each of its own rows: x [1,count,rows,d_model].
    Value mlp(const std::string& name, std::uint32_t count, Value x) {
        const auto matrices = [&](const std::string& part, std::uint32_t rows, std::uint32_t columns, float deviation) {
            return parameter(name + part, Shape{{1, count, rows, columns}}, Initializer::normal(deviation), true);
        };
        const auto vectors = [&](const std::string& part, std::uint32_t size) {
            return parameter(name + part, Shape{{1, count, 1, size}}, Initializer::zeros(), false);
        };
        if (is_gated()) {
            const auto gate = matrices(".w_gate", spec_.width, hidden(), weight_deviation());
            const auto open = activated(adapted(name + ".w_gate", x, product(name + ".w_gate", x, gate)));
            const auto in = matrices(".w_in", spec_.width, hidden(), weight_deviation());
            const auto h = b_.mul(open, adapted(name + ".w_in", x, product(name + ".w_in", x, in)));
            const auto out = matrices(".w_out", hidden(), spec_.width, residual_deviation());
            return adapted(name + ".w_out", h, product(name + ".w_out", h, out));
        }
        const auto in = matrices(".w_in", spec_.width, hidden(), weight_deviation());
        const auto before = linear(name + ".w_in", x, in, vectors(".b_in", hidden()));
        const auto h = activated(adapted(name + ".w_in", x, before));
        const auto out = matrices(".w_out", hidden(), spec_.width, residual_deviation());
        return adapted(name + ".w_out", h, linear(name + ".w_out", h, out, vectors(".b_out", spec_.width)));
    }

    Value mixture(Value x) {
        const std::uint32_t count = spec_.experts.count;
        const auto router = matrix("experts.w_router", spec_.width, count, weight_deviation());
        const auto scores = b_.reshape(b_.matmul(x, router), Shape{{1, batch_, spec_.context, count}});
        const Routing routing = route(b_, scores, spec_.experts.top, spec_.expert_capacity());
        balance_ = balance_.valid() ? b_.add(balance_, routing.balance) : routing.balance;
        return combine(b_, mlp("experts", count, dispatch(b_, x, routing)), routing);
    }

    Builder& b_;
    const TransformerSpec& spec_;
    std::uint32_t batch_;
    const LayersPass& pass_;
    std::vector<Parameter>& parameters_;
    ByteProducts bytes_;
    PrecisionOfLayers precisions_;
    std::string prefix_;
    std::uint32_t drops_ = 0;
    Value balance_;
    std::map<std::string, Adapter> adapters_;  // by the matrix
};

}  // namespace

TransformerOutputs transformer(Builder& b, const TransformerSpec& spec, std::uint32_t batch, Value tokens,
                               const LayersPass& pass, std::vector<Parameter>& parameters) {
    return Model(b, spec, batch, pass, parameters).outputs(tokens);
}

}  // namespace quern::compute::program
