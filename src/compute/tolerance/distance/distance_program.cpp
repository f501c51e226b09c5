#include "compute/tolerance/distance/distance_program.h"

#include <string>
#include <string_view>

#include "compute/tolerance/distance/measuring.h"

namespace quern::compute::tolerance::distance {
namespace {

using program::Builder;
using program::DType;
using program::Initializer;
using program::Node;
using program::Op;
using program::Program;
using program::Value;
using vm::tensor::Slot;
using vm::tensor::State;
using vm::tensor::Tensor;
using vm::tensor::arith::ElementOp;

constexpr std::string_view kClaimed = "claimed.";
constexpr std::string_view kDistance = "distance.";

// --- Classes -----------------------------------------------------------------------------------------------------

// Operations that every IEEE-754 machine computes to the same bits. Not fma: some take two roundings for it.
bool is_exact(ElementOp op) {
    switch (op) {
        case ElementOp::exp:
        case ElementOp::log:
        case ElementOp::tanh:
        case ElementOp::sigmoid:
        case ElementOp::erf:
        case ElementOp::fma:
            return false;
        default:
            return true;
    }
}
bool is_exact(const Node& node) {
    switch (node.op) {
        case Op::elementwise:
            return is_exact(node.element);
        case Op::matmul:
        case Op::imatmul:
        case Op::sum_last:
        case Op::sum_rows:
        case Op::scatter_add_rows:
            return false;
        default:
            return true;
    }
}

// By slot: whether its value after any number of steps is exact when the first state is. What rounds taints its
// readers, the slots that they update, and these slots' readers; each node is taken up once.
std::vector<bool> exact_slots(const Program& training) {
    const std::size_t count = training.nodes.size();
    std::vector<std::vector<std::uint32_t>> readers(count);
    std::vector<std::vector<std::uint32_t>> updated(count);                   // slots, by node
    std::vector<std::vector<std::uint32_t>> nodes_of(training.slots.size());  // `slot` nodes, by slot
    std::vector<bool> tainted(count);
    std::vector<std::uint32_t> left;
    const auto taint = [&](std::uint32_t node) {
        if (!tainted[node]) left.push_back(node);
        tainted[node] = true;
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        const Node& node = training.nodes[i];
        for (const std::uint32_t input : node.inputs) readers[input].push_back(i);
        if (node.op == Op::slot) nodes_of[node.attributes[0]].push_back(i);
        if (!is_exact(node)) taint(i);
    }
    for (std::uint32_t s = 0; s < training.updates.size(); ++s) updated[training.updates[s]].push_back(s);
    std::vector<bool> exact(training.slots.size(), true);
    while (!left.empty()) {
        const std::uint32_t node = left.back();
        left.pop_back();
        for (const std::uint32_t reader : readers[node]) taint(reader);
        for (const std::uint32_t slot : updated[node]) {
            exact[slot] = false;
            for (const std::uint32_t each : nodes_of[slot]) taint(each);
        }
    }
    return exact;
}

// By slot: whether the loss of a step depends on what it was before the step. Running statistics are exported as
// parameters are, but nothing is trained by them.
std::vector<bool> read_by_loss(const Program& training) {
    std::vector<bool> reached(training.nodes.size());
    reached[training.updates[training.header.loss_slot]] = true;
    std::vector<bool> slots(training.slots.size());
    for (std::size_t i = reached.size(); i-- > 0;) {  // operands are earlier nodes
        if (!reached[i]) continue;
        const Node& node = training.nodes[i];
        if (node.op == Op::slot) slots[node.attributes[0]] = true;
        for (const std::uint32_t input : node.inputs) reached[input] = true;
    }
    return slots;
}

}  // namespace

std::string prefix_of(const std::string& name, const Names& parameters) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
        if (parameters.contains(std::string_view(name).substr(dot + 1))) return name.substr(0, dot);
    return {};
}

Names parameter_names(const Program& training, std::span<const Class> classes) {
    Names names;
    for (std::size_t s = 0; s < classes.size(); ++s)
        if (classes[s] == Class::parameter || classes[s] == Class::loose) names.insert(training.slots[s].name);
    return names;
}

Expected<std::vector<Class>> classify(const Program& training, std::span<const std::string> loose) {
    const std::vector<bool> exact = exact_slots(training);
    const std::vector<bool> read = read_by_loss(training);
    std::vector<Class> classes(training.slots.size(), Class::rest);
    for (std::size_t s = 0; s < classes.size(); ++s) {
        const Slot& slot = training.slots[s];
        if (exact[s]) {
            classes[s] = Class::exact;
            continue;
        }
        if (slot.dtype != DType::f32)
            return fail("tolerance.rounded_integers", slot.name + " depends on floating-point sums");
        if ((slot.flags & vm::tensor::kSlotParameter) != 0 && read[s]) classes[s] = Class::parameter;
    }
    const Names parameters = parameter_names(training, classes);
    for (const std::string& name : loose)
        if (!parameters.contains(name)) return fail("tolerance.unknown_parameter", name);
    const Names left_out(loose.begin(), loose.end());
    for (std::size_t s = 0; s < classes.size(); ++s)
        if (left_out.contains(training.slots[s].name)) classes[s] = Class::loose;
    if (parameters.size() == left_out.size()) return fail("tolerance.no_parameters", "no parameter is compared");
    for (std::size_t s = 0; s < classes.size(); ++s)
        if (classes[s] == Class::rest && !prefix_of(training.slots[s].name, parameters).empty())
            classes[s] = Class::companion;
    return classes;
}

std::vector<core::PlanItem> SegmentPrograms::body(std::uint64_t k) const {
    if (k == 1) return {core::plan_step(0), core::plan_step(1)};
    return {core::plan_repeat(k, {core::plan_step(0)}), core::plan_step(1)};
}

namespace {

// --- The slot list -----------------------------------------------------------------------------------------------

std::vector<Slot> segment_slots(const Program& training, const std::vector<Class>& classes) {
    std::vector<Slot> slots = training.slots;
    for (const Slot& slot : training.slots) slots.push_back({named(kClaimed, slot.name), slot.dtype, slot.shape, 0});
    for (std::size_t s = 0; s < classes.size(); ++s) {
        const Slot& slot = training.slots[s];
        if (classes[s] != Class::exact) slots.push_back({named(kPrevious, slot.name), slot.dtype, slot.shape, 0});
    }
    for (const std::string_view measure : kMeasureNames)
        slots.push_back({named(kDistance, measure), DType::f32, program::scalar_shape(), 0});
    return slots;
}

Expected<Program> build_distance(const Program& training, const std::vector<Slot>& slots,
                                 const std::vector<Class>& classes) {
    Builder b(training.header.data);
    std::vector<Value> values;
    for (const Slot& slot : slots)
        values.push_back(b.slot(slot.name, slot.dtype, slot.shape, Initializer::zeros(), slot.flags));
    QUERN_CHECK(b.status());
    b.set_loss_slot(values[training.header.loss_slot]);
    const std::size_t count = classes.size();
    std::vector<Compared> compared;
    for (std::size_t s = 0, previous = 2 * count; s < count; ++s) {
        Compared& slot = compared.emplace_back(Compared{values[count + s], values[s], {}});
        if (classes[s] != Class::exact) slot.previous = values[previous++];
    }
    const Measures measures = build_measures(b, training, classes, compared);
    for (std::size_t m = 0; m < kMeasures; ++m) {
        const Value slot = values[slots.size() - kMeasures + m];
        b.update(slot, measures[m].valid() ? measures[m] : b.constant(0.0F));
    }
    QUERN_TRY(program::BuiltProgram built, b.finish());
    return std::move(built.program);
}

}  // namespace

Expected<SegmentPrograms> build_segment_programs(const Program& training, std::span<const std::string> loose) {
    SegmentPrograms result;
    QUERN_TRY(result.classes, classify(training, loose));
    const std::vector<Slot> slots = segment_slots(training, result.classes);
    QUERN_TRY(result.training, with_slots(training, slots, training.header.data));
    QUERN_TRY(result.distance, build_distance(training, slots, result.classes));
    result.training_slots = training.slots.size();
    result.first_measure = slots.size() - kMeasures;
    return result;
}

Expected<State> segment_state(const SegmentPrograms& programs, const State& previous, const State& claimed) {
    if (previous.size() != programs.training_slots || claimed.size() != programs.training_slots)
        return fail("executor.bad_state", "a checkpoint has another number of slots than the training");
    State state = previous;
    state.insert(state.end(), claimed.begin(), claimed.end());
    for (std::size_t s = 0; s < previous.size(); ++s)
        if (programs.classes[s] != Class::exact) state.push_back(previous[s]);
    state.resize(state.size() + kMeasures, Tensor{DType::f32, program::scalar_shape(), {0}});
    QUERN_CHECK(vm::tensor::check_state(programs.training, state));
    return state;
}

std::vector<Hash32> segment_slot_roots(const SegmentPrograms& programs, std::span<const Hash32> previous,
                                       std::span<const Hash32> claimed) {
    if (previous.size() != programs.training_slots || claimed.size() != programs.training_slots) return {};
    std::vector<Hash32> roots(previous.begin(), previous.end());
    roots.insert(roots.end(), claimed.begin(), claimed.end());
    for (std::size_t s = 0; s < previous.size(); ++s)
        if (programs.classes[s] != Class::exact) roots.push_back(previous[s]);
    const Hash32 zero = vm::tensor::tensor_root(Tensor{DType::f32, program::scalar_shape(), {0}});
    roots.resize(roots.size() + kMeasures, zero);
    return roots;
}

Measured read_measured(const SegmentPrograms& programs, const State& state) {
    Measured measured;
    for (std::size_t m = 0; m < kMeasures; ++m) measured.words[m] = state[programs.first_measure + m].words[0];
    return measured;
}

}  // namespace quern::compute::tolerance::distance
