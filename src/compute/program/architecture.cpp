#include "compute/program/architecture.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::compute::program {

namespace {

Status check_range(std::string_view what, std::uint32_t value, std::uint32_t low, std::uint32_t high) {
    if (value >= low && value <= high) return {};
    return fail("arch.out_of_range", std::string(what) + " is " + std::to_string(value) + ", may be " +
                                         std::to_string(low) + " to " + std::to_string(high));
}

Status check_experts(const TransformerSpec& model) {
    const ExpertsSpec& experts = model.experts;
    if (experts.count == 0) return {};
    QUERN_CHECK(check_range("model.experts.count", experts.count, 1, kMaxExperts));
    QUERN_CHECK(check_range("model.experts.top", experts.top, 1, std::min(2U, experts.count)));
    if (!(experts.capacity_factor >= kMinCapacityFactor && experts.capacity_factor < kMaxCapacityFactor))
        return fail("arch.out_of_range", "model.experts.capacity_factor is " + std::to_string(experts.capacity_factor));
    if (!(experts.balance >= 0.0F && experts.balance < kMaxBalance))
        return fail("arch.out_of_range", "model.experts.balance is " + std::to_string(experts.balance));
    if (model.adapter_rank != 0)
        return fail("arch.adapters_of_experts", "model.adapter_rank goes beside the matrices of one MLP");
    return {};
}

Status check_model(const TransformerSpec& model) {
    QUERN_CHECK(check_range("model.layers", model.layers, 1, kMaxLayers));
    QUERN_CHECK(check_range("model.d_model", model.width, 1, kMaxWidth));
    QUERN_CHECK(check_range("model.heads", model.heads, 1, kMaxHeads));
    QUERN_CHECK(check_range("model.context", model.context, 1, kMaxContext));
    QUERN_CHECK(check_range("model.mlp_ratio", model.mlp_ratio, 1, kMaxMlpRatio));
    QUERN_CHECK(check_range("model.vocab", model.vocabulary, 2, kMaxVocabulary));
    QUERN_CHECK(check_range("model.adapter_rank", model.adapter_rank, 0, kMaxAdapterRank));
    if (model.width % model.heads != 0)
        return fail("arch.heads_do_not_divide",
                    std::to_string(model.heads) + " heads, d_model " + std::to_string(model.width));
    QUERN_CHECK(check_range("model.kv_heads", model.key_heads(), 1, kMaxHeads));
    if (model.heads % model.key_heads() != 0)
        return fail("arch.heads_do_not_divide",
                    std::to_string(model.key_heads()) + " kv_heads, " + std::to_string(model.heads) + " heads");
    if (model.attention_precision == TransformerSpec::Precision::int8 &&
        (model.key_heads() != model.heads || model.positions == TransformerSpec::Positions::rotary))
        return fail("arch.attention_in_f32", "model.attention_precision: not of rotary positions or fewer kv_heads");
    if (model.positions == TransformerSpec::Positions::rotary && model.width / model.heads % 2 != 0)
        return fail("arch.odd_head_size", "rotary positions of heads of " + std::to_string(model.width / model.heads));
    if (!(model.dropout >= 0.0F && model.dropout < 1.0F))
        return fail("arch.out_of_range", "model.dropout is " + std::to_string(model.dropout));
    return check_experts(model);
}

// Sizes of the largest tensors of a step; the builder would refuse them later, with less to say about it.
Status check_sizes(const TransformerSpec& model, std::uint64_t batch) {
    const std::uint64_t rows = batch * model.context;
    const auto fits = [](std::uint64_t a, std::uint64_t b) {
        return b == 0 || a <= vm::tensor::kMaxTensorElements / b;
    };
    if (!fits(rows, model.vocabulary)) return fail("arch.too_large", "batch * context * vocab");
    if (!fits(rows, std::uint64_t{model.width} * model.mlp_ratio))
        return fail("arch.too_large", "the MLP's activations");
    if (!fits(rows, 3ULL * model.width)) return fail("arch.too_large", "batch * context * 3 d_model");
    if (!fits(rows * model.heads, model.context)) return fail("arch.too_large", "attention scores");
    if (model.experts.count == 0) return {};
    const std::uint64_t hidden = std::uint64_t{model.width} * model.mlp_ratio;
    if (!fits(std::uint64_t{model.experts.count} * model.width, hidden))
        return fail("arch.too_large", "the matrices of " + std::to_string(model.experts.count) + " experts");
    if (!fits(rows, model.experts.count)) return fail("arch.too_large", "batch * context * experts");
    if (!fits(batch * model.expert_capacity() * model.experts.count, hidden))
        return fail("arch.too_large", "the experts' activations, of " + std::to_string(model.expert_capacity()) +
                                          " places a window and expert");
    return {};
}

bool is_whole(vm::tensor::DataType type) { return type != vm::tensor::DataType::f32; }

std::string elements_of(std::size_t set, const Architecture& architecture) {
    return "data[" + std::to_string(set) + "].elements is " + std::to_string(architecture.data[set].elements);
}

Status check_model(const LayersSpec& model) {
    QUERN_CHECK(check_range("model.input.height", model.image.height, 1, kMaxImageSide));
    QUERN_CHECK(check_range("model.input.width", model.image.width, 1, kMaxImageSide));
    using Input = LayersSpec::Input;
    QUERN_CHECK(check_range(model.input == Input::image    ? "model.input.channels"
                            : model.input == Input::tokens ? "model.input.tokens"
                                                           : "model.input.features",
                            model.channels, 1, kMaxFeatures));
    if (model.is_next_token() && model.input != Input::tokens)
        return fail("arch.wrong_loss", "next_token: model.input is no row of tokens");
    if (!model.network_file.empty() && !model.network) return fail("arch.no_network", model.network_file);
    if (!model.network && model.layers.empty()) return fail("arch.out_of_range", "model.layers is empty");
    return check_range("model.outputs", model.outputs, 1, kMaxFeatures);
}

Status check_data(const Architecture& architecture, const TransformerSpec&) {
    if (architecture.data.size() != 1)
        return fail("arch.wrong_data", std::to_string(architecture.data.size()) + " data tensors, a transformer has 1");
    if (!is_whole(architecture.data[0].type)) return fail("arch.unknown_dtype", "data.dtype: tokens are whole numbers");
    return {};
}
Status check_data(const Architecture& architecture, const LayersSpec& model) {
    if (model.is_next_token()) {
        if (architecture.data.size() != 1)
            return fail("arch.wrong_data",
                        std::to_string(architecture.data.size()) + " data tensors: there are tokens");
        if (!is_whole(architecture.data[0].type))
            return fail("arch.unknown_dtype", "data.dtype: tokens are whole numbers");
        return {};
    }
    if (architecture.data.size() != 2)
        return fail("arch.wrong_data",
                    std::to_string(architecture.data.size()) + " data tensors: there are inputs and targets");
    if (model.loss == LayersSpec::Loss::cross_entropy && !is_whole(architecture.data[1].type))
        return fail("arch.unknown_dtype", "data[1].dtype: classes are whole numbers");
    if (model.input == LayersSpec::Input::tokens && !is_whole(architecture.data[0].type))
        return fail("arch.unknown_dtype", "data[0].dtype: tokens are whole numbers");
    const std::uint64_t count = example_count(architecture);
    if (architecture.data[0].elements != count * model.input_size())
        return fail("arch.wrong_data",
                    elements_of(0, architecture) + ", an example has " + std::to_string(model.input_size()));
    if (architecture.data[1].elements / model.target_size() != count ||
        architecture.data[1].elements % model.target_size() != 0)
        return fail("arch.wrong_data", elements_of(1, architecture) + ", " + std::to_string(count) + " examples have " +
                                           std::to_string(model.target_size()) + " each");
    return {};
}

Status check_sizes(const LayersSpec& model, std::uint64_t batch) {
    if (model.input_size() > vm::tensor::kMaxTensorElements / batch)
        return fail("arch.too_large", "batch * the elements of an example");
    return {};
}

}  // namespace

bool TransformerSpec::has_byte_products() const {
    const auto in_bytes = [](const auto& each) { return each.second == Precision::int8; };
    return precision == Precision::int8 || head_precision == Precision::int8 ||
           attention_precision == Precision::int8 ||
           std::any_of(layer_precision.begin(), layer_precision.end(), in_bytes);
}

std::uint32_t TransformerSpec::expert_capacity() const {
    // The product is exact, the quotient rounded once.
    const double tokens =
        static_cast<double>(experts.capacity_factor) * static_cast<double>(std::uint64_t{experts.top} * context);
    const double each = std::ceil(tokens / experts.count);
    return each < context ? static_cast<std::uint32_t>(std::max(each, 1.0)) : context;
}

std::vector<vm::tensor::DataSet> Architecture::all_data() const {
    std::vector<vm::tensor::DataSet> all = data;
    if (held_out) all.insert(all.end(), held_out->data.begin(), held_out->data.end());
    return all;
}

Architecture on_held_out(const Architecture& architecture) {
    Architecture other = architecture;
    other.data = std::move(other.held_out->data);
    other.held_out.reset();
    return other;
}

std::uint32_t held_out_count(const Architecture& architecture) {
    const std::uint32_t chosen = architecture.held_out->examples;
    return chosen != 0 ? chosen : static_cast<std::uint32_t>(example_count(on_held_out(architecture)));
}

bool takes_windows(const Architecture& architecture) {
    return architecture.is_transformer() || architecture.layers().is_next_token();
}

std::uint32_t rows_of_example(const Architecture& architecture) {
    return architecture.is_transformer() ? architecture.transformer().context : architecture.layers().rows();
}

namespace {

Status check_held_out(const Architecture& architecture) {
    const Architecture other = on_held_out(architecture);
    if (const Status status = check_architecture(other); !status)
        return detailed(status.error(), "held_out: " + status.error().detail);
    const std::uint64_t examples = example_count(other);
    if (architecture.held_out->examples > examples)
        return fail("arch.out_of_range", "held_out.examples is " + std::to_string(architecture.held_out->examples) +
                                             ", there are " + std::to_string(examples));
    if (std::uint64_t{held_out_count(architecture)} * rows_of_example(architecture) > kMaxHeldOutTargets)
        return fail("arch.out_of_range", "held_out: an evaluation is of 2^30 rows of outputs at most");
    return {};
}

}  // namespace

Status check_transformer(const TransformerSpec& spec, std::uint32_t batch) {
    QUERN_CHECK(check_model(spec));
    return check_sizes(spec, batch);
}

Status check_architecture(const Architecture& architecture) {
    QUERN_CHECK(std::visit([](const auto& model) { return check_model(model); }, architecture.model));
    QUERN_CHECK(std::visit([&](const auto& model) { return check_data(architecture, model); }, architecture.model));
    for (const vm::tensor::DataSet& set : architecture.data)
        if (set.elements > vm::tensor::kMaxDataElements)
            return fail("arch.out_of_range", "data: 2^48 elements at most");
    if (const std::uint64_t examples = example_count(architecture); examples == 0 || examples > 0xffffffff)
        return fail("arch.out_of_range", elements_of(0, architecture) + ", may be for 1 to 2^32 - 1 examples" +
                                             (takes_windows(architecture) ? " of context + 1 tokens" : ""));
    QUERN_CHECK(check_range("batch", architecture.batch, 1, kMaxBatch));
    QUERN_CHECK(check_range("accumulate", architecture.accumulate, 0, kMaxAccumulate));
    QUERN_CHECK(check_range("recompute", architecture.recompute, 0,
                            architecture.is_transformer() ? architecture.transformer().layers : kMaxRecomputedParts));
    QUERN_CHECK(
        std::visit([&](const auto& model) { return check_sizes(model, architecture.batch); }, architecture.model));
    return architecture.held_out ? check_held_out(architecture) : Status();
}

std::uint64_t example_count(const Architecture& architecture) {
    const std::uint64_t elements = architecture.data.empty() ? 0 : architecture.data[0].elements;
    const auto* const model = std::get_if<LayersSpec>(&architecture.model);
    if (model != nullptr && !model->is_next_token()) return elements / model->input_size();
    const std::uint64_t context = model != nullptr ? model->channels : architecture.transformer().context;
    return elements == 0 ? 0 : (elements - 1) / context;
}

}  // namespace quern::compute::program
