// The programs that architecture.h promises: what a step of each does.
#include <utility>
#include <vector>

#include "compute/program/architecture.h"
#include "compute/program/composite.h"
#include "compute/program/held_out.h"
#include "compute/program/network_lowering.h"
#include "compute/program/transformer.h"

namespace quern::compute::program {

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

// What a step is done on.
struct Batch {
    Value examples;
    Value number;             // the batch's, in training; invalid outside of it
    std::uint32_t first = 0;  // of the data tensors
};

Forward forward(Builder& b, const Architecture& architecture, const TransformerSpec& model, const Batch& taken) {
    const std::uint32_t batch = architecture.batch;
    const std::uint32_t context = model.context;
    const std::uint32_t rows = batch * context;
    const auto windows = b.window(taken.examples, taken.first, context, context + 1);
    const auto tokens = b.reshape(b.slice(windows, {0, 0, 0, 0}, matrix_shape(batch, context)), vector_shape(rows));
    const auto targets = b.reshape(b.slice(windows, {0, 0, 0, 1}, matrix_shape(batch, context)), matrix_shape(rows, 1));
    Forward result;
    LayersPass pass{taken.number.valid(), {}};
    if (pass.training && (model.has_byte_products() || model.dropout != 0.0F)) pass.key = drawing_key(b, taken.number);
    const TransformerOutputs outputs = transformer(b, model, batch, tokens, pass, result.slots.parameters);
    result.outputs = outputs.logits;
    result.targets = targets;
    result.loss = cross_entropy(b, result.outputs, targets);
    if (outputs.balance.valid() && model.experts.balance != 0.0F)
        result.objective = b.fma(outputs.balance, b.constant(model.experts.balance), result.loss);
    return result;
}

Value as_f32(Builder& b, Value x) { return b.type(x).dtype == DType::f32 ? x : b.to_f32(x); }

Features input_of(Builder& b, const Architecture& architecture, const LayersSpec& model, const Batch& taken) {
    const auto size = static_cast<std::uint32_t>(model.input_size());
    if (model.is_next_token()) {
        const auto windows = b.window(taken.examples, taken.first, size, size + 1);
        return {b.slice(windows, {0, 0, 0, 0}, matrix_shape(architecture.batch, size)), architecture.batch, {}};
    }
    auto x = b.window(taken.examples, taken.first, size, size);
    if (model.input == LayersSpec::Input::tokens) return {x, architecture.batch, {}};
    x = as_f32(b, x);
    if (model.scale != 1.0F) x = b.mul(x, b.constant(model.scale));
    if (model.shift != 0.0F) x = b.add(x, b.constant(model.shift));
    if (model.input != LayersSpec::Input::image) return {x, architecture.batch, {}};
    const std::uint32_t places = architecture.batch * model.image.height * model.image.width;
    return {b.reshape(x, matrix_shape(places, model.channels)), architecture.batch, model.image};
}

// [1,1,batch * rows,targets of a row].
Value targets_of(Builder& b, const Architecture& architecture, const LayersSpec& model, const Batch& taken) {
    const std::uint32_t size = model.target_size();
    if (!model.is_next_token()) return b.window(taken.examples, taken.first + 1, size, size);
    const std::uint32_t context = model.channels;
    const auto windows = b.window(taken.examples, taken.first, context, context + 1);
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

Forward forward(Builder& b, const Architecture& architecture, const LayersSpec& model, const Batch& taken) {
    LayersPass pass{taken.number.valid(), {}};
    if (pass.training) pass.key = drawing_key(b, taken.number);
    Forward result;
    const Features x = input_of(b, architecture, model, taken);
    result.outputs = model.network ? apply_network(b, *model.network, model.training, x, pass, result.slots).rows
                                   : apply_layers(b, model.layers, x, pass, result.slots).rows;
    const Shape wanted = matrix_shape(architecture.batch * model.rows(), model.outputs);
    if (!b.failed() && b.shape(result.outputs) != wanted)
        b.set_error("arch.wrong_output", "the last layer gives " + b.shape(result.outputs).to_string() +
                                             ", model.outputs wants " + wanted.to_string());
    if (b.failed()) return result;
    result.targets = targets_of(b, architecture, model, taken);
    result.loss = loss_of(b, model, result.outputs, result.targets);
    return result;
}

Forward forward(Builder& b, const Architecture& architecture, const Batch& taken) {
    return std::visit([&](const auto& model) { return forward(b, architecture, model, taken); }, architecture.model);
}

// Of a batch: rows of outputs, and how wide these and their targets are.
struct OutputSizes {
    std::uint32_t rows;
    std::uint32_t outputs;
    std::uint32_t targets;
};
OutputSizes output_sizes(const Architecture& architecture) {
    const std::uint32_t rows = architecture.batch * rows_of_example(architecture);
    if (architecture.is_transformer()) return {rows, architecture.transformer().vocabulary, 1};
    const LayersSpec& model = architecture.layers();
    return {rows, model.outputs, model.target_size()};
}

enum class Part : std::uint8_t { whole, accumulate, update, evaluate };

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

Training forward_and_backward(const Architecture& architecture, bool accumulates, bool recomputes) {
    Training t{Builder(architecture.all_data()), {}, {}, {}, {}, {}, {}, {}};
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
    Forward result = forward(b, architecture, Batch{examples, batch});
    t.loss = result.loss;
    t.statistics = std::move(result.slots.statistics);

    const Value objective = result.objective.valid() ? result.objective : t.loss;
    if (recomputes) b.recompute(architecture.recompute);
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

// One batch of the held-out examples, as the model is outside training.
void evaluate_batch(Training& t, const Architecture& architecture, const MetricSlots& slots) {
    Builder& b = t.b;
    b.forget_updates();
    b.reuse_slots();
    const HeldOutExamples all{held_out_count(architecture), architecture.batch, rows_of_example(architecture)};
    const auto examples = next_examples(b, slots, all);
    const Forward result =
        forward(b, architecture, Batch{examples, Value{}, static_cast<std::uint32_t>(architecture.data.size())});
    const auto loss = architecture.is_transformer() ? LayersSpec::Loss::next_token : architecture.layers().loss;
    add_to_metrics(b, slots, all, examples, loss, result.outputs, result.targets, t.step);
}

Expected<BuiltProgram> build_part(const Architecture& architecture, Part part) {
    const bool accumulates = architecture.accumulate != 0;
    const bool trains = part == Part::whole || part == Part::accumulate;
    Training t = forward_and_backward(architecture, accumulates, trains && architecture.recompute != 0);
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
    if (architecture.held_out) {
        const bool has_classes = architecture.is_transformer() || architecture.layers().has_classes();
        const MetricSlots slots = declare_metrics(b, has_classes);
        if (part == Part::evaluate) evaluate_batch(t, architecture, slots);
    }
    return b.finish();
}

std::vector<core::PlanItem> repeated(std::uint64_t count, std::vector<core::PlanItem> body) {
    if (count == 1) return body;
    return {core::plan_repeat(count, std::move(body))};
}

std::vector<core::PlanItem> joined(std::vector<core::PlanItem> first, const std::vector<core::PlanItem>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

}  // namespace

Expected<BuiltProgram> build_training_program(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    if (architecture.accumulate != 0 || architecture.held_out) return fail("arch.accumulates", "it takes two programs");
    return build_part(architecture, Part::whole);
}

Expected<TrainingPrograms> build_training_programs(const Architecture& architecture) {
    QUERN_CHECK(check_architecture(architecture));
    TrainingPrograms result;
    const auto add = [&](Part part) -> Status {
        QUERN_TRY(BuiltProgram built, build_part(architecture, part));
        result.programs.push_back(std::move(built));
        return {};
    };
    if (architecture.accumulate == 0) {
        QUERN_CHECK(add(Part::whole));
        result.turn = core::plain_body(1);
    } else {
        QUERN_CHECK(add(Part::accumulate));
        QUERN_CHECK(add(Part::update));
        result.turn = core::plain_body(architecture.accumulate);
        result.turn.push_back(core::plan_step(1));
    }
    if (architecture.held_out) {
        const auto number = static_cast<std::uint32_t>(result.programs.size());
        QUERN_CHECK(add(Part::evaluate));
        result.evaluation =
            repeated((held_out_count(architecture) - 1) / architecture.batch + 1, {core::plan_step(number)});
        result.every = architecture.held_out->every;
    }
    return result;
}

std::vector<core::PlanItem> TrainingPrograms::round() const {
    return every == 0 ? turn : joined(repeated(every, turn), evaluation);
}

std::vector<core::PlanItem> TrainingPrograms::body(std::uint64_t updates) const {
    if (every == 0) return joined(repeated(updates, turn), evaluation);
    std::vector<core::PlanItem> result;
    if (updates >= every) result = repeated(updates / every, round());
    if (updates % every != 0) result = joined(std::move(result), joined(repeated(updates % every, turn), evaluation));
    return result;
}

Expected<BuiltProgram> build_forward_program(const TransformerSpec& spec) {
    QUERN_CHECK(check_transformer(spec, 1));
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
    const Forward result = forward(b, architecture, Batch{examples, Value{}});
    b.update(outputs, result.outputs);
    b.update(targets, as_f32(b, result.targets));
    b.update(loss, result.loss);
    return b.finish();
}

}  // namespace quern::compute::program
