#include "compute/program/held_out.h"

#include <bit>
#include <string_view>

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

constexpr std::string_view kLoss = "evaluation.loss";
constexpr std::string_view kAccuracy = "evaluation.accuracy";
constexpr std::string_view kStep = "evaluation.step";

Value numbers(Builder& b, Value x) { return b.type(x).dtype == DType::f32 ? x : b.to_f32(x); }

// [1,1,n,1]: of each row of outputs.
Value losses_of(Builder& b, LayersSpec::Loss loss, Value outputs, Value targets) {
    switch (loss) {
        case LayersSpec::Loss::cross_entropy:
        case LayersSpec::Loss::next_token:
            return cross_entropy_of_rows(b, outputs, targets);
        case LayersSpec::Loss::mean_squared_error: {
            const auto difference = b.sub(outputs, numbers(b, targets));
            return mean_last(b, b.mul(difference, difference));
        }
        case LayersSpec::Loss::binary_cross_entropy:
            return mean_last(b, binary_cross_entropy_of_each(b, outputs, numbers(b, targets)));
    }
    return {};
}

// f32 [1,1,n,1]: 1 where the first of the largest outputs is the target's. Columns are numbered from the last one, so
// that the first has the largest number; a row with a NaN, which is its own maximum and equals nothing, has none.
Value right_of(Builder& b, Value outputs, Value targets) {
    if (b.failed()) return {};
    const auto columns = static_cast<std::int32_t>(b.shape(outputs).columns());
    const auto largest = b.eq(outputs, b.max_last(outputs));
    const auto place = b.iota(vector_shape(b.shape(outputs).columns()), 3);
    const auto from_last = b.to_f32(b.elementwise(ElementOp::isub, {b.constant_i32(columns), place}));
    const auto first = b.max_last(b.select(largest, from_last, b.constant(0.0F)));
    const auto of_target = b.to_f32(b.elementwise(ElementOp::isub, {b.constant_i32(columns), targets}));
    const auto is_target = b.eq(first, of_target);
    return b.to_f32(is_target);
}

// Of rows [1,1,batch * rows,1] the sum over the examples that count.
Value sum_of(Builder& b, Value rows, Value counts, const HeldOutExamples& examples) {
    const auto by_example = b.reshape(rows, matrix_shape(examples.batch, examples.rows));
    return sum_all(b, b.select(counts, by_example, b.constant(0.0F)));
}

}  // namespace

MetricSlots declare_metrics(Builder& b, bool has_classes) {
    const auto scalar = [&](std::string_view name, DType type) {
        return b.slot(std::string(name), type, scalar_shape(), Initializer::zeros());
    };
    MetricSlots slots;
    slots.loss = scalar(kLoss, DType::f32);
    if (has_classes) slots.accuracy = scalar(kAccuracy, DType::f32);
    slots.step = scalar(kStep, DType::i32);
    slots.batch = scalar("evaluation.batch", DType::i32);
    slots.loss_sum = scalar("evaluation.loss_sum", DType::f32);
    if (has_classes) slots.right = scalar("evaluation.right", DType::i32);
    return slots;
}

Value next_examples(Builder& b, const MetricSlots& slots, const HeldOutExamples& examples) {
    const auto first = b.imul(slots.batch, b.constant_i32(static_cast<std::int32_t>(examples.batch)));
    return b.iadd(b.iota(matrix_shape(examples.batch, 1), 2), first);
}

void add_to_metrics(Builder& b, const MetricSlots& slots, const HeldOutExamples& examples, Value batch,
                    LayersSpec::Loss loss, Value outputs, Value targets, Value step) {
    if (b.failed()) return;
    const std::uint32_t batches = (examples.count - 1) / examples.batch + 1;
    const auto counts = b.ilt(batch, b.constant_i32(static_cast<std::int32_t>(examples.count)));
    const auto done = b.iadd(slots.batch, b.constant_i32(1));
    const auto is_last = b.ieq(done, b.constant_i32(static_cast<std::int32_t>(batches)));
    const auto zero = b.constant(0.0F);
    const auto none = b.constant_i32(0);
    const auto all = b.constant(static_cast<float>(std::uint64_t{examples.count} * examples.rows));
    const auto keep = [&](Value slot, Value found) { b.update(slot, b.select(is_last, found, slot)); };
    const auto choose = [&](Value yes, Value no) { return b.elementwise(ElementOp::iselect, {is_last, yes, no}); };

    const auto losses = losses_of(b, loss, outputs, targets);
    const auto loss_sum = b.add(slots.loss_sum, sum_of(b, losses, counts, examples));
    keep(slots.loss, b.div(loss_sum, all));
    b.update(slots.loss_sum, b.select(is_last, zero, loss_sum));
    if (slots.accuracy.valid()) {
        const auto right = right_of(b, outputs, targets);
        const auto more = b.elementwise(ElementOp::f2i, {sum_of(b, right, counts, examples)});
        const auto sum = b.iadd(slots.right, more);
        keep(slots.accuracy, b.div(b.to_f32(sum), all));
        b.update(slots.right, choose(none, sum));
    }
    b.update(slots.step, choose(step, slots.step));
    b.update(slots.batch, choose(none, done));
}

json::Value describe(const Metrics& metrics) {
    json::Value told =
        json::Value::object({{"step", std::uint64_t{metrics.step}}, {"loss", static_cast<double>(metrics.loss)}});
    if (metrics.accuracy) told.set("accuracy", static_cast<double>(*metrics.accuracy));
    return told;
}

std::optional<Metrics> read_metrics(const Program& program, const vm::tensor::State& state) {
    const auto word_of = [&](std::string_view name, DType type) -> std::optional<std::uint32_t> {
        for (std::size_t s = 0; s < program.slots.size() && s < state.size(); ++s)
            if (program.slots[s].name == name && program.slots[s].dtype == type &&
                program.slots[s].shape == scalar_shape() && state[s].words.size() == 1)
                return state[s].words[0];
        return std::nullopt;
    };
    const auto step = word_of(kStep, DType::i32);
    const auto loss = word_of(kLoss, DType::f32);
    if (!step || *step == 0 || !loss) return std::nullopt;
    Metrics metrics{*step, std::bit_cast<float>(*loss), {}};
    if (const auto accuracy = word_of(kAccuracy, DType::f32)) metrics.accuracy = std::bit_cast<float>(*accuracy);
    return metrics;
}

}  // namespace quern::compute::program
