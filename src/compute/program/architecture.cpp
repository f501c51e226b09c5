#include "compute/program/architecture.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/program/composite.h"
#include "compute/program/network_lowering.h"
#include "compute/program/transformer.h"

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
    if (model.precision == TransformerSpec::Precision::int8)
        return fail("arch.experts_in_f32", "model.precision is of the matrices of one MLP");
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

std::uint32_t TransformerSpec::expert_capacity() const {
    // The product is exact, the quotient rounded once.
    const double tokens =
        static_cast<double>(experts.capacity_factor) * static_cast<double>(std::uint64_t{experts.top} * context);
    const double each = std::ceil(tokens / experts.count);
    return each < context ? static_cast<std::uint32_t>(std::max(each, 1.0)) : context;
}

bool takes_windows(const Architecture& architecture) {
    return architecture.is_transformer() || architecture.layers().is_next_token();
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
    return std::visit([&](const auto& model) { return check_sizes(model, architecture.batch); }, architecture.model);
}

std::uint64_t example_count(const Architecture& architecture) {
    const std::uint64_t elements = architecture.data.empty() ? 0 : architecture.data[0].elements;
    const auto* const model = std::get_if<LayersSpec>(&architecture.model);
    if (model != nullptr && !model->is_next_token()) return elements / model->input_size();
    const std::uint64_t context = model != nullptr ? model->channels : architecture.transformer().context;
    return elements == 0 ? 0 : (elements - 1) / context;
}

namespace {

// i32 [1,1,batch,1]: the examples of batch number `batch`.
Value batch_examples(Builder& b, const Architecture& architecture, Value batch) {
    const auto seed = b.seed();
    const auto key0 = b.slice(seed, {0, 0, 0, 0}, scalar_shape());
    const auto key1 = b.slice(seed, {0, 0, 0, 1}, scalar_shape());
    const auto first = b.imul(batch, b.constant_i32(static_cast<std::int32_t>(architecture.batch)));
    const auto place = b.iadd(b.iota(matrix_shape(architecture.batch, 1), 2), first);
    // permute_index takes the place modulo the number of examples.
    return b.elementwise(ElementOp::permute_index, {place, key0, key1},
                         static_cast<std::uint32_t>(example_count(architecture)));
}

// Loss of a batch, and what the model declares.
struct Forward {
    Value outputs;
    Value targets;
    Value loss;
    Value objective;  // what is differentiated; invalid: the loss
    LayersSlots slots;
};

// The key of what a step draws: another one each batch.
Value drawing_key(Builder& b, Value batch) {
    const auto seed = b.seed();
    return b.iadd(seed, batch);
}

// number: the batch's, in training; invalid outside of it.
Forward forward(Builder& b, const Architecture& architecture, const TransformerSpec& model, Value examples,
                Value number) {
    const std::uint32_t batch = architecture.batch;
    const std::uint32_t context = model.context;
    const std::uint32_t rows = batch * context;
    const auto windows = b.window(examples, 0, context, context + 1);
    const auto tokens = b.reshape(b.slice(windows, {0, 0, 0, 0}, matrix_shape(batch, context)), vector_shape(rows));
    const auto targets = b.reshape(b.slice(windows, {0, 0, 0, 1}, matrix_shape(batch, context)), matrix_shape(rows, 1));
    Forward result;
    LayersPass pass{number.valid(), {}};
    if (pass.training && (model.has_byte_products() || model.dropout != 0.0F)) pass.key = drawing_key(b, number);
    const TransformerOutputs outputs = transformer(b, model, batch, tokens, pass, result.slots.parameters);
    result.outputs = outputs.logits;
    result.targets = targets;
    result.loss = cross_entropy(b, result.outputs, targets);
    if (outputs.balance.valid() && model.experts.balance != 0.0F)
        result.objective = b.fma(outputs.balance, b.constant(model.experts.balance), result.loss);
    return result;
}

Value as_f32(Builder& b, Value x) { return b.type(x).dtype == DType::f32 ? x : b.to_f32(x); }

Features input_of(Builder& b, const Architecture& architecture, const LayersSpec& model, Value examples) {
    const auto size = static_cast<std::uint32_t>(model.input_size());
    if (model.is_next_token()) {
        const auto windows = b.window(examples, 0, size, size + 1);
        return {b.slice(windows, {0, 0, 0, 0}, matrix_shape(architecture.batch, size)), architecture.batch, {}};
    }
    auto x = b.window(examples, 0, size, size);
    if (model.input == LayersSpec::Input::tokens) return {x, architecture.batch, {}};
    x = as_f32(b, x);
    if (model.scale != 1.0F) x = b.mul(x, b.constant(model.scale));
    if (model.shift != 0.0F) x = b.add(x, b.constant(model.shift));
    if (model.input != LayersSpec::Input::image) return {x, architecture.batch, {}};
    const std::uint32_t places = architecture.batch * model.image.height * model.image.width;
    return {b.reshape(x, matrix_shape(places, model.channels)), architecture.batch, model.image};
}

// [1,1,batch * rows,targets of a row].
Value targets_of(Builder& b, const Architecture& architecture, const LayersSpec& model, Value examples) {
    const std::uint32_t size = model.target_size();
    if (!model.is_next_token()) return b.window(examples, 1, size, size);
    const std::uint32_t context = model.channels;
    const auto windows = b.window(examples, 0, context, context + 1);
    const auto next = b.slice(windows, {0, 0, 0, 1}, matrix_shape(architecture.batch, context));
    return b.reshape(next, matrix_shape(architecture.batch * context, 1));
}

Value loss_of(Builder& b, const LayersSpec& model, Value outputs, Value targets) {
    switch (model.loss) {
        case LayersSpec::Loss::cross_entropy:
        case LayersSpec::Loss::next_token:
            return cross_entropy(b, outputs, targets);
        case LayersSpec::Loss::mean_squared_error:
            return mean_squared_error(b, outputs, as_f32(b, targets));
        case LayersSpec::Loss::binary_cross_entropy:
            return binary_cross_entropy(b, outputs, as_f32(b, targets));
    }
    return {};
}

Forward forward(Builder& b, const Architecture& architecture, const LayersSpec& model, Value examples,
                const LayersPass& pass) {
    Forward result;
    const Features x = input_of(b, architecture, model, examples);
    result.outputs = model.network ? apply_network(b, *model.network, model.frozen, x, pass, result.slots).rows
                                   : apply_layers(b, model.layers, x, pass, result.slots).rows;
    const Shape wanted = matrix_shape(architecture.batch * model.rows(), model.outputs);
    if (!b.failed() && b.shape(result.outputs) != wanted)
        b.set_error("arch.wrong_output", "the last layer gives " + b.shape(result.outputs).to_string() +
                                             ", model.outputs wants " + wanted.to_string());
    if (b.failed()) return result;
    result.targets = targets_of(b, architecture, model, examples);
    result.loss = loss_of(b, model, result.outputs, result.targets);
    return result;
}
Forward forward(Builder& b, const Architecture& architecture, const LayersSpec& model, Value examples, Value number) {
    LayersPass pass{number.valid(), {}};
    if (pass.training) pass.key = drawing_key(b, number);
    return forward(b, architecture, model, examples, pass);
}

// Of a batch: rows of outputs, and how wide these and their targets are.
struct OutputSizes {
    std::uint32_t rows;
    std::uint32_t outputs;
    std::uint32_t targets;
};
OutputSizes output_sizes(const Architecture& architecture) {
    if (architecture.is_transformer()) {
        const TransformerSpec& model = architecture.transformer();
        return {architecture.batch * model.context, model.vocabulary, 1};
    }
    const LayersSpec& model = architecture.layers();
    return {architecture.batch * model.rows(), model.outputs, model.target_size()};
}

enum class Part : std::uint8_t { whole, accumulate, update };

// Slots of which only programs that accumulate have any.
struct Sums {
    Value micro;
    Value loss;
    std::vector<Value> gradients;  // by parameter
};

// What all parts have: every slot, in one order. What a part does not need of the rest is dropped as dead.
struct Training {
    Builder b;
    Value step;
    Value next_step;
    Value loss_slot;
    Value loss;
    Sums sums;
    std::vector<ParameterGradient> parameters;
    std::vector<SlotUpdate> statistics;
};

Value zeros_like(Builder& b, Value x) { return b.full(DType::f32, b.shape(x), 0); }

Training forward_and_backward(const Architecture& architecture, bool accumulates) {
    Training t{Builder(architecture.data), {}, {}, {}, {}, {}, {}, {}};
    Builder& b = t.b;
    t.step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    t.loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    t.next_step = b.iadd(t.step, b.constant_i32(1));
    b.set_loss_slot(t.loss_slot);
    if (accumulates) {
        t.sums.micro = b.slot("micro", DType::i32, scalar_shape(), Initializer::zeros());
        t.sums.loss = b.slot("loss_sum", DType::f32, scalar_shape(), Initializer::zeros());
    }

    const Value batch = accumulates ? t.sums.micro : t.step;
    const auto examples = batch_examples(b, architecture, batch);
    Forward result = std::visit([&](const auto& model) { return forward(b, architecture, model, examples, batch); },
                                architecture.model);
    t.loss = result.loss;
    t.statistics = std::move(result.slots.statistics);

    const Value objective = result.objective.valid() ? result.objective : t.loss;
    t.parameters = parameter_gradients(b, objective, result.slots.parameters);
    if (accumulates)
        for (const ParameterGradient& each : t.parameters)
            t.sums.gradients.push_back(
                b.slot("gradient." + each.name, DType::f32, b.shape(each.slot), Initializer::zeros()));
    return t;
}

void keep_statistics(Training& t) {
    for (const SlotUpdate& each : t.statistics) t.b.update(each.slot, each.next);
}

void add_up(Training& t) {
    Builder& b = t.b;
    b.forget_updates();
    b.update(t.sums.micro, b.iadd(t.sums.micro, b.constant_i32(1)));
    b.update(t.sums.loss, b.add(t.sums.loss, t.loss));
    keep_statistics(t);
    for (std::size_t i = 0; i < t.parameters.size(); ++i)
        b.update(t.sums.gradients[i], b.add(t.sums.gradients[i], t.parameters[i].gradient));
}

Expected<BuiltProgram> build_part(const Architecture& architecture, Part part) {
    Training t = forward_and_backward(architecture, part != Part::whole);
    Builder& b = t.b;
    Value loss = t.loss;
    if (part == Part::update) {
        const auto share = b.constant(1.0F / static_cast<float>(architecture.accumulate));
        loss = b.mul(t.sums.loss, share);
        b.update(t.sums.loss, zeros_like(b, t.sums.loss));
        for (std::size_t i = 0; i < t.parameters.size(); ++i) {
            t.parameters[i].gradient = b.mul(t.sums.gradients[i], share);
            b.update(t.sums.gradients[i], zeros_like(b, t.sums.gradients[i]));
        }
    }
    b.update(t.step, t.next_step);
    b.update(t.loss_slot, loss);
    append_optimizer(b, architecture.optimizer, t.parameters, t.step);
    if (part == Part::accumulate) add_up(t);
    if (part == Part::whole) keep_statistics(t);
    return b.finish();
}

}  // namespace

Expected<BuiltProgram> build_training_program(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    if (architecture.accumulate != 0) return fail("arch.accumulates", "it takes two programs");
    return build_part(architecture, Part::whole);
}

Expected<TrainingPrograms> build_training_programs(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    TrainingPrograms result;
    if (architecture.accumulate == 0) {
        QUERN_TRY(BuiltProgram whole, build_part(architecture, Part::whole));
        result.programs.push_back(std::move(whole));
        result.turn = core::plain_body(1);
        return result;
    }
    QUERN_TRY(BuiltProgram accumulate, build_part(architecture, Part::accumulate));
    QUERN_TRY(BuiltProgram update, build_part(architecture, Part::update));
    result.programs.push_back(std::move(accumulate));
    result.programs.push_back(std::move(update));
    result.turn = core::plain_body(architecture.accumulate);
    result.turn.push_back(core::plan_step(1));
    return result;
}

std::vector<core::PlanItem> TrainingPrograms::body(std::uint64_t updates) const {
    if (updates == 1) return turn;
    return {core::plan_repeat(updates, turn)};
}

Expected<BuiltProgram> build_forward_program(const TransformerSpec& spec) {
    QUERN_CHECK(check_model(spec));
    QUERN_CHECK(check_sizes(spec, 1));
    Builder b;
    const auto tokens = b.slot("tokens", DType::i32, vector_shape(spec.context), Initializer::zeros());
    const auto inverse = b.slot("inverse_temperature", DType::f32, scalar_shape(), Initializer::constant(1.0F));
    const auto chances =
        b.slot("probabilities", DType::f32, matrix_shape(spec.context, spec.vocabulary), Initializer::zeros());
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    std::vector<Parameter> parameters;
    const auto outputs = transformer(b, spec, 1, tokens, LayersPass{false, {}}, parameters);
    b.update(chances, softmax(b, b.mul(outputs.logits, inverse)));
    return b.finish();
}

Expected<BuiltProgram> build_evaluation_program(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    Builder b(architecture.data);
    const OutputSizes sizes = output_sizes(architecture);
    const auto first = b.slot("first", DType::i32, scalar_shape(), Initializer::zeros());
    const auto outputs = b.slot("outputs", DType::f32, matrix_shape(sizes.rows, sizes.outputs), Initializer::zeros());
    const auto targets = b.slot("targets", DType::f32, matrix_shape(sizes.rows, sizes.targets), Initializer::zeros());
    const auto loss = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss);
    const auto examples = b.iadd(b.iota(matrix_shape(architecture.batch, 1), 2), first);
    const Forward result = std::visit(
        [&](const auto& model) { return forward(b, architecture, model, examples, Value{}); }, architecture.model);
    b.update(outputs, result.outputs);
    b.update(targets, as_f32(b, result.targets));
    b.update(loss, result.loss);
    return b.finish();
}

}  // namespace quern::compute::program
