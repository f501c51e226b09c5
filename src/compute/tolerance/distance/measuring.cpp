#include "compute/tolerance/distance/measuring.h"

#include <functional>
#include <map>

#include "compute/program/composite.h"
#include "compute/tolerance/distance/adam_moments.h"

namespace quern::compute::tolerance::distance {
namespace {

using program::Builder;
using program::DType;
using program::Node;
using program::Op;
using program::Program;
using program::Value;
using vm::tensor::Slot;
using vm::tensor::arith::ElementOp;

using Group = std::vector<Compared>;

constexpr float kSmallest = 0x1p-126F;

Value largest_of(Builder& b, Value x) {  // of |x|, f32 scalar
    const Value rows = b.max_last(b.elementwise(ElementOp::abs, {x}));
    const auto count = static_cast<std::uint32_t>(b.shape(rows).elements());
    if (count == 1) return b.reshape(rows, program::scalar_shape());
    return b.max_last(b.reshape(rows, program::vector_shape(count)));
}

// Sums over the slots of a group, in their order.
Value total(Builder& b, const Group& group, const std::function<Value(const Compared&)>& part,
            Value (Builder::*join)(Value, Value)) {
    Value sum;
    for (const Compared& each : group) {
        const Value next = part(each);
        sum = sum.valid() ? (b.*join)(sum, next) : next;
    }
    return sum;
}

// Of all elements of x by y, squared.
Value squares(Builder& b, Value x, Value y) {
    const Value scaled = b.div(x, y);
    return program::sum_all(b, b.mul(scaled, scaled));
}

// sqrt(error / base), +0 where both are 0. `base` is 0, NaN or of order 1 and more: it was divided by its largest
// element. A NaN in it, of an infinity among the elements, must not be lost where the error is 0 beside it.
Value ratio(Builder& b, Value error, Value base) {
    const Value bottom = b.max(base, b.constant(kSmallest));
    const Value root = b.sqrt(b.div(error, bottom));
    return b.add(root, b.mul(base, b.constant(0.0F)));
}

struct Norms {
    Value scale;     // the largest |r - p|, 2^-126 at least
    Value movement;  // the sum of ((r - p) / scale)^2
    Value l2;        // invalid of movement_of()
};
Norms movement_of(Builder& b, const Group& group) {
    Norms norms;
    const auto moved = [&](const Compared& each) { return largest_of(b, b.sub(each.replayed, each.previous)); };
    const Value largest = total(b, group, moved, &Builder::max);
    norms.scale = b.max(largest, b.constant(kSmallest));
    const auto way = [&](const Compared& each) { return squares(b, b.sub(each.replayed, each.previous), norms.scale); };
    norms.movement = total(b, group, way, &Builder::add);
    return norms;
}
Norms norms_of(Builder& b, const Group& group) {
    Norms norms = movement_of(b, group);
    const auto error = [&](const Compared& each) {
        return squares(b, b.sub(each.claimed, each.replayed), norms.scale);
    };
    norms.l2 = ratio(b, total(b, group, error, &Builder::add), norms.movement);
    return norms;
}

Value linf_of(Builder& b, const Group& group, const Norms& norms) {
    const auto error = [&](const Compared& each) { return largest_of(b, b.sub(each.claimed, each.replayed)); };
    const Value relative = b.div(total(b, group, error, &Builder::max), norms.scale);
    return b.add(relative, b.mul(norms.movement, b.constant(0.0F)));
}

Value cosine_of(Builder& b, const Group& group, const Norms& norms) {
    const auto dot = [&](const Compared& each) {
        const Value claimed = b.div(b.sub(each.claimed, each.previous), norms.scale);
        const Value replayed = b.div(b.sub(each.replayed, each.previous), norms.scale);
        return program::sum_all(b, b.mul(claimed, replayed));
    };
    const auto way = [&](const Compared& each) { return squares(b, b.sub(each.claimed, each.previous), norms.scale); };
    const Value product = total(b, group, dot, &Builder::add);
    const Value claimed = b.sqrt(total(b, group, way, &Builder::add));
    const Value replayed = b.sqrt(norms.movement);
    return b.div(product, b.mul(claimed, replayed));
}

Value loose_of(Builder& b, const Group& group, const Norms& norms) {
    const auto way = [&](const Compared& each) { return largest_of(b, b.sub(each.claimed, each.previous)); };
    const Value relative = b.div(total(b, group, way, &Builder::max), norms.scale);
    return b.add(relative, b.mul(norms.movement, b.constant(0.0F)));
}

Value length_of(Builder& b, const Norms& norms) { return b.mul(norms.scale, b.sqrt(norms.movement)); }

// Of a slot of the rest: its movement may be small by chance, so its size counts as well.
Value rest_of(Builder& b, const Compared& slot) {
    const Value moved = b.elementwise(ElementOp::abs, {b.sub(slot.replayed, slot.previous)});
    const Value size = b.max(moved, b.elementwise(ElementOp::abs, {slot.replayed}));
    const Value scale = b.max(largest_of(b, size), b.constant(kSmallest));
    const Value base = squares(b, size, scale);
    return ratio(b, squares(b, b.sub(slot.claimed, slot.replayed), scale), base);
}

Value differing_words(Builder& b, Value claimed, Value replayed, DType dtype) {
    const Value ours = dtype == DType::f32 ? b.bits(replayed) : replayed;
    const Value theirs = dtype == DType::f32 ? b.bits(claimed) : claimed;
    const Value one = b.constant_i32(1);
    const Value different = b.elementwise(ElementOp::isub, {one, b.ieq(theirs, ours)});
    return program::sum_all(b, b.to_f32(different));
}

// 1 where an element of a claimed first moment is larger than the second beside it allows (MomentPair), or a second one
// below 0, else 0. Of NaN it says nothing.
Value beyond_second(Builder& b, Value first, Value second, float bound) {
    const Value zero = b.constant(0.0F);
    const Value root = b.sqrt(b.max(second, zero));
    const Value most = b.fma(root, b.sqrt(b.constant(bound)), b.constant(kTinyMoment));
    const Value above = b.lt(most, b.elementwise(ElementOp::abs, {first}));
    const Value negative = b.lt(second, zero);
    return largest_of(b, b.to_f32(b.elementwise(ElementOp::ior, {above, negative})));
}

// The larger of two that may not be there.
void take_larger(Builder& b, Value& largest, Value next) { largest = largest.valid() ? b.max(largest, next) : next; }

}  // namespace

Measures build_measures(Builder& b, const Program& training, std::span<const Class> classes,
                        std::span<const Compared> slots) {
    Group parameters;
    Group loose;
    std::map<std::string, Group> companions;
    Value rest;
    Value exact;
    const Names names = parameter_names(training, classes);
    for (std::size_t s = 0; s < classes.size(); ++s) {
        const Compared& slot = slots[s];
        if (!slot.claimed.valid()) continue;
        if (classes[s] == Class::exact) {
            const Value words = differing_words(b, slot.claimed, slot.replayed, training.slots[s].dtype);
            exact = exact.valid() ? b.add(exact, words) : words;
        }
        if (classes[s] == Class::parameter) parameters.push_back(slot);
        if (classes[s] == Class::loose) loose.push_back(slot);
        if (classes[s] == Class::companion) companions[prefix_of(training.slots[s].name, names)].push_back(slot);
        if (classes[s] == Class::rest) take_larger(b, rest, rest_of(b, slot));
    }
    Measures measures;
    const auto of = [&](Measure measure) -> Value& { return measures[static_cast<std::size_t>(measure)]; };
    const Norms norms = norms_of(b, parameters);
    of(Measure::l2) = norms.l2;
    for (const auto& [prefix, group] : companions) take_larger(b, of(Measure::moments), norms_of(b, group).l2);
    Value beyond;
    for (const MomentPair& pair : find_moment_pairs(training)) {
        const Value first = slots[pair.first].claimed;
        const Value second = slots[pair.second].claimed;
        if (classes[pair.first] == Class::companion && classes[pair.second] == Class::companion)
            take_larger(b, beyond, beyond_second(b, first, second, pair.bound));
    }
    // By 1 - beyond: the same word, or no finite number.
    if (beyond.valid()) of(Measure::moments) = b.div(of(Measure::moments), b.sub(b.constant(1.0F), beyond));
    of(Measure::rest) = rest;
    of(Measure::exact) = exact;
    of(Measure::linf) = linf_of(b, parameters, norms);
    of(Measure::movement) = length_of(b, norms);
    of(Measure::cosine) = cosine_of(b, parameters, norms);
    if (!loose.empty()) of(Measure::loose) = loose_of(b, loose, norms);
    return measures;
}

Value build_movement(Builder& b, std::span<const Compared> parameters) {
    return length_of(b, movement_of(b, {parameters.begin(), parameters.end()}));
}

Expected<Program> with_slots(const Program& training, std::vector<Slot> slots, std::vector<vm::tensor::DataSet> data) {
    Program result = training;
    result.header.data = std::move(data);
    for (auto s = static_cast<std::uint32_t>(training.slots.size()); s < slots.size(); ++s) {
        result.updates.push_back(static_cast<std::uint32_t>(result.nodes.size()));
        Node node;
        node.op = Op::slot;
        node.dtype = slots[s].dtype;
        node.shape = slots[s].shape;
        node.attributes = {s};
        result.nodes.push_back(std::move(node));
    }
    result.slots = std::move(slots);
    vm::tensor::complete_header(result);
    QUERN_CHECK(vm::tensor::validate(result));
    return result;
}

}  // namespace quern::compute::tolerance::distance
