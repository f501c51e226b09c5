#include "compute/program/architecture.h"

#include <string>
#include <string_view>
#include <vector>

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
    QUERN_CHECK(check_range("model.adapter_rank", model.adapter_rank, 0, kMaxAdapterRank));
    if (model.width % model.heads != 0)
        return fail("arch.heads_do_not_divide",
                    std::to_string(model.heads) + " heads, d_model " + std::to_string(model.width));
    return {};
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
    return {};
}

// i32 [1,1,batch,context+1]: the windows of this step.
Value batch_windows(Builder& b, const Architecture& architecture, Value step) {
    const auto seed = b.seed();
    const auto key0 = b.slice(seed, {0, 0, 0, 0}, scalar_shape());
    const auto key1 = b.slice(seed, {0, 0, 0, 1}, scalar_shape());
    const auto first = b.imul(step, b.constant_i32(static_cast<std::int32_t>(architecture.batch)));
    const auto place = b.iadd(b.iota(matrix_shape(architecture.batch, 1), 2), first);
    // permute_index takes the place modulo the number of windows.
    const auto window = b.elementwise(ElementOp::permute_index, {place, key0, key1},
                                      static_cast<std::uint32_t>(window_count(architecture)));
    return b.window(window, 0, architecture.model.context, architecture.model.context + 1);
}

}  // namespace

Status check_architecture(const Architecture& architecture) {
    QUERN_CHECK(check_model(architecture.model));
    if (architecture.data.type == vm::tensor::DataType::f32)
        return fail("arch.unknown_dtype", "data.dtype: tokens are whole numbers");
    if (const std::uint64_t windows = window_count(architecture);
        architecture.data.elements > vm::tensor::kMaxDataElements || windows == 0 || windows > 0xffffffff)
        return fail("arch.out_of_range", "data.elements is " + std::to_string(architecture.data.elements) +
                                             ", may be for 1 to 2^32 - 1 windows of context + 1, 2^48 at most");
    QUERN_CHECK(check_range("batch", architecture.batch, 1, kMaxBatch));
    QUERN_CHECK(check_range("accumulate", architecture.accumulate, 0, kMaxAccumulate));
    return check_sizes(architecture.model, architecture.batch);
}

std::uint64_t window_count(const Architecture& architecture) {
    return architecture.data.elements == 0 ? 0 : (architecture.data.elements - 1) / architecture.model.context;
}

namespace {

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
};

Value zeros_like(Builder& b, Value x) { return b.full(DType::f32, b.shape(x), 0); }

Training forward_and_backward(const Architecture& architecture, bool accumulates) {
    const std::uint32_t batch = architecture.batch;
    const std::uint32_t context = architecture.model.context;
    const std::uint32_t rows = batch * context;
    Training t{Builder({architecture.data}), {}, {}, {}, {}, {}, {}};
    Builder& b = t.b;
    t.step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    t.loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    t.next_step = b.iadd(t.step, b.constant_i32(1));
    b.set_loss_slot(t.loss_slot);
    if (accumulates) {
        t.sums.micro = b.slot("micro", DType::i32, scalar_shape(), Initializer::zeros());
        t.sums.loss = b.slot("loss_sum", DType::f32, scalar_shape(), Initializer::zeros());
    }

    const auto windows = batch_windows(b, architecture, accumulates ? t.sums.micro : t.step);
    const auto tokens = b.reshape(b.slice(windows, {0, 0, 0, 0}, matrix_shape(batch, context)), vector_shape(rows));
    const auto targets = b.reshape(b.slice(windows, {0, 0, 0, 1}, matrix_shape(batch, context)), matrix_shape(rows, 1));
    std::vector<Parameter> parameters;
    const auto logits = transformer_logits(b, architecture.model, batch, tokens, parameters);
    t.loss = cross_entropy(b, logits, targets);

    t.parameters = parameter_gradients(b, t.loss, parameters);
    if (accumulates)
        for (const ParameterGradient& each : t.parameters)
            t.sums.gradients.push_back(
                b.slot("gradient." + each.name, DType::f32, b.shape(each.slot), Initializer::zeros()));
    return t;
}

void add_up(Training& t) {
    Builder& b = t.b;
    b.forget_updates();
    b.update(t.sums.micro, b.iadd(t.sums.micro, b.constant_i32(1)));
    b.update(t.sums.loss, b.add(t.sums.loss, t.loss));
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
    const auto logits = transformer_logits(b, spec, 1, tokens, parameters);
    b.update(chances, softmax(b, b.mul(logits, inverse)));
    return b.finish();
}

}  // namespace quern::compute::program
