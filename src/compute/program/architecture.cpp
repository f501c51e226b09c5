#include "compute/program/architecture.h"

#include <string>
#include <string_view>
#include <vector>

#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/transformer.h"

namespace quern::compute::program {

namespace {

Status check_range(std::string_view what, std::uint32_t value, std::uint32_t low, std::uint32_t high) {
    if (value >= low && value <= high) return {};
    return fail("arch.out_of_range", std::string(what) + " is " + std::to_string(value) + ", may be " +
                                         std::to_string(low) + " to " + std::to_string(high));
}

Status check_model(const TransformerSpec& model) {
    QUERN_CHECK(check_range("model.layers", model.layers, 1, kMaxLayers));
    QUERN_CHECK(check_range("model.d_model", model.width, 1, kMaxWidth));
    QUERN_CHECK(check_range("model.heads", model.heads, 1, kMaxHeads));
    QUERN_CHECK(check_range("model.context", model.context, 1, kMaxContext));
    QUERN_CHECK(check_range("model.mlp_ratio", model.mlp_ratio, 1, kMaxMlpRatio));
    QUERN_CHECK(check_range("model.vocab", model.vocabulary, 2, kMaxVocabulary));
    if (model.width % model.heads != 0)
        return fail("arch.heads_do_not_divide",
                    std::to_string(model.heads) + " heads, d_model " + std::to_string(model.width));
    return {};
}

// Sizes of the largest tensors of a step; the builder would refuse them later, with less to say about it.
Status check_sizes(const TransformerSpec& model, std::uint64_t batch, std::uint64_t windows) {
    const std::uint64_t rows = batch * model.context;
    const auto fits = [](std::uint64_t a, std::uint64_t b) {
        return b == 0 || a <= vm::tensor::kMaxTensorElements / b;
    };
    if (!fits(windows, std::uint64_t{model.context} + 1)) return fail("arch.too_large", "the data set");
    if (!fits(rows, model.vocabulary)) return fail("arch.too_large", "batch * context * vocab");
    if (!fits(rows, std::uint64_t{model.width} * model.mlp_ratio))
        return fail("arch.too_large", "the MLP's activations");
    if (!fits(rows, 3ULL * model.width)) return fail("arch.too_large", "batch * context * 3 d_model");
    if (!fits(rows * model.heads, model.context)) return fail("arch.too_large", "attention scores");
    return {};
}

// i32 [1,1,batch,context+1]: the windows of this step.
Value batch_windows(Builder& b, const Architecture& architecture, Value step) {
    const auto seed = b.seed();
    const auto key0 = b.slice(seed, {0, 0, 0, 0}, scalar_shape());
    const auto key1 = b.slice(seed, {0, 0, 0, 1}, scalar_shape());
    const auto first = b.imul(step, b.constant_i32(static_cast<std::int32_t>(architecture.batch)));
    const auto place = b.iadd(b.iota(vector_shape(architecture.batch), 3), first);
    // permute_index takes the place modulo the number of windows.
    const auto window = b.elementwise(ElementOp::permute_index, {place, key0, key1}, architecture.windows);
    return b.reshape(b.gather_rows(b.data(), window), matrix_shape(architecture.batch, architecture.model.context + 1));
}

}  // namespace

Status check_architecture(const Architecture& architecture) {
    QUERN_CHECK(check_model(architecture.model));
    QUERN_CHECK(check_range("data.windows", architecture.windows, 1, kMaxWindows));
    QUERN_CHECK(check_range("batch", architecture.batch, 1, kMaxBatch));
    return check_sizes(architecture.model, architecture.batch, architecture.windows);
}

Shape data_shape(const Architecture& architecture) {
    return matrix_shape(architecture.windows, architecture.model.context + 1);
}

Expected<BuiltProgram> build_training_program(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    const std::uint32_t batch = architecture.batch;
    const std::uint32_t context = architecture.model.context;
    const std::uint32_t rows = batch * context;
    Builder b(DType::i32, data_shape(architecture));
    const auto step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(step, b.iadd(step, b.constant_i32(1)));
    b.set_loss_slot(loss_slot);

    const auto windows = batch_windows(b, architecture, step);
    const auto tokens = b.reshape(b.slice(windows, {0, 0, 0, 0}, matrix_shape(batch, context)), vector_shape(rows));
    const auto targets = b.reshape(b.slice(windows, {0, 0, 0, 1}, matrix_shape(batch, context)), matrix_shape(rows, 1));
    std::vector<Parameter> parameters;
    const auto logits = transformer_logits(b, architecture.model, batch, tokens, parameters);
    const auto loss = cross_entropy(b, logits, targets);
    b.update(loss_slot, loss);

    std::vector<Value> slots;
    for (const Parameter& parameter : parameters) slots.push_back(parameter.slot);
    const auto derivatives = gradients(b, loss, slots);
    std::vector<ParameterGradient> updates;
    for (std::size_t i = 0; i < parameters.size(); ++i)
        updates.push_back({parameters[i].name, slots[i], derivatives[i], parameters[i].decay});
    append_optimizer(b, architecture.optimizer, updates, step);
    return b.finish();
}

Expected<BuiltProgram> build_forward_program(const TransformerSpec& spec) {
    QUERN_CHECK(check_model(spec));
    QUERN_CHECK(check_sizes(spec, 1, 1));
    Builder b(DType::i32, scalar_shape());
    const auto tokens = b.slot("tokens", DType::i32, vector_shape(spec.context), Initializer::zeros());
    const auto inverse = b.slot("inverse_temperature", DType::f32, scalar_shape(), Initializer::constant(1.0F));
    const auto chances =
        b.slot("probabilities", DType::f32, matrix_shape(spec.context, spec.vocabulary), Initializer::zeros());
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    std::vector<Parameter> parameters;
    const auto logits = transformer_logits(b, spec, 1, tokens, parameters);
    b.update(chances, softmax(b, b.mul(logits, inverse)));
    return b.finish();
}

}  // namespace quern::compute::program
