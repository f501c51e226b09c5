// A training that measures itself: how a model does on held-out examples, batch by batch, by a program of its own over
// the slots of the training. What it finds is in the state, so that it is committed to, proved and disputed as anything
// else. Used by model builders. Functions on a Builder; thread-safe.
//
// Slots, behind all others: "evaluation.loss", "evaluation.accuracy" (of classes and tokens), both f32 scalars of the
// last evaluation that is whole; "evaluation.step" (i32: the updates before it; 0: there was none); and of the one that
// is going on "evaluation.batch" (i32: batches that are done), "evaluation.loss_sum" (f32), "evaluation.right" (i32).
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "compute/program/architecture.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

struct MetricSlots {
    Value loss;
    Value accuracy;  // invalid where there are no classes, as `right`
    Value step;
    Value batch;
    Value loss_sum;
    Value right;
};
[[nodiscard]] MetricSlots declare_metrics(Builder& b, bool has_classes);

// The examples of an evaluation, from the first on, `batch` in a step; those beyond the last count for nothing.
struct HeldOutExamples {
    std::uint32_t count = 0;
    std::uint32_t batch = 1;
    std::uint32_t rows = 1;  // of outputs, for each example
};
// i32 [1,1,batch,1]: the examples of the next batch.
[[nodiscard]] Value next_examples(Builder& b, const MetricSlots& slots, const HeldOutExamples& examples);
// Adds a batch with outputs and targets [1,1,batch * rows,...] to the sums. The last batch makes of them mean loss and
// the part of targets whose own output is the largest, the first of equal ones, with `step` as the updates before; then
// sums begin anew. Right ones are counted exactly up to 2^24 targets in a batch, the loss is a sum of f32. An example
// one of whose outputs is NaN is not right, and makes the loss NaN.
void add_to_metrics(Builder& b, const MetricSlots& slots, const HeldOutExamples& examples, Value batch,
                    LayersSpec::Loss loss, Value outputs, Value targets, Value step);

// What the slots of a state say.
struct Metrics {
    std::uint32_t step = 0;
    float loss = 0;
    std::optional<float> accuracy;
};
[[nodiscard]] json::Value describe(const Metrics& metrics);  // members step, loss and, where there is one, accuracy
// Nothing: the program has no such slots, or no evaluation was whole yet.
[[nodiscard]] std::optional<Metrics> read_metrics(const Program& program, const vm::tensor::State& state);

}  // namespace quern::compute::program
