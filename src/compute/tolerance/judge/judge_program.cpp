#include "compute/tolerance/judge/judge_program.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "compute/tolerance/distance/measuring.h"
#include "compute/tolerance/judge/verdict.h"

namespace quern::compute::tolerance::judge {
namespace {

using distance::kPrevious;
using distance::named;
using program::Builder;
using program::DType;
using program::Initializer;
using program::Program;
using program::Value;
using vm::tensor::DataSet;
using vm::tensor::DataType;
using vm::tensor::Slot;
using vm::tensor::State;
using vm::tensor::Tensor;
using vm::tensor::arith::ElementOp;

constexpr std::string_view kLoose = "loose.";
constexpr std::string_view kJudge = "judge.";
constexpr std::string_view kSegment = "judge.segment";
constexpr std::string_view kAccepted = "judge.accepted";
constexpr std::size_t kJudgeSlots = 2;  // the last ones of the state
constexpr std::size_t kJudgeData = 2;   // the last data: limits, claimed rows
constexpr std::uint32_t kLimitWords = kLimitBytes / 4;

bool is_reserved(std::string_view name) {
    return name.starts_with(kPrevious) || name.starts_with(kLoose) || name.starts_with(kJudge);
}

// --- Rows ----------------------------------------------------------------------------------------------------------

RowLayout layout_of(const Program& training, const std::vector<Class>& classes) {
    RowLayout layout;
    for (std::size_t s = 0; s < classes.size(); ++s) {
        if (classes[s] == Class::exact) continue;
        const std::uint64_t elements = training.slots[s].shape.elements();
        layout.slots.push_back({s, layout.row_elements, elements});
        layout.row_elements += (elements + kRowUnit - 1) / kRowUnit * kRowUnit;
    }
    return layout;
}

Status check_words(const RowLayout& layout, const State& state, std::size_t bytes) {
    if (bytes != layout.row_bytes())
        return fail("executor.bad_state",
                    std::to_string(bytes) + " bytes for a row of " + std::to_string(layout.row_bytes()));
    for (const RowSlot& each : layout.slots)
        if (each.slot >= state.size() || state[each.slot].words.size() != each.elements)
            return fail("executor.bad_state", "slot " + std::to_string(each.slot) + " is not as rows have it");
    return {};
}

// --- Programs ------------------------------------------------------------------------------------------------------

std::vector<Slot> judged_slots(const Program& training, const std::vector<Class>& classes) {
    std::vector<Slot> slots = training.slots;
    for (std::size_t s = 0; s < classes.size(); ++s) {
        if (classes[s] == Class::exact) continue;
        const Slot& slot = training.slots[s];
        slots.push_back({named(classes[s] == Class::loose ? kLoose : kPrevious, slot.name), slot.dtype, slot.shape, 0});
    }
    for (const std::string_view name : {kSegment, kAccepted})
        slots.push_back({std::string(name), DType::i32, program::scalar_shape(), 0});
    return slots;
}

Expected<Program> build_judge(const Program& training, const std::vector<Slot>& slots, const std::vector<DataSet>& data,
                              const JudgedPrograms& judged) {
    Builder b(data);
    std::vector<Value> values;
    for (const Slot& slot : slots)
        values.push_back(b.slot(slot.name, slot.dtype, slot.shape, Initializer::zeros(), slot.flags));
    QUERN_CHECK(b.status());
    b.set_loss_slot(values[training.header.loss_slot]);
    const Value segment = values[slots.size() - 2];
    const Value accepted = values[slots.size() - 1];
    const auto claimed_data = static_cast<std::uint32_t>(data.size() - 1);

    // Row i begins at window i * L / G. Words wrap as unsigned ones; they are below 2^32 (kMaxRowUnits).
    const std::uint64_t units = judged.layout.row_elements / kRowUnit;
    const Value row_units = b.constant_i32(static_cast<std::int32_t>(units));
    const Value row = b.imul(segment, row_units);
    std::vector<distance::Compared> compared(judged.training_slots);
    for (std::size_t i = 0; i < judged.layout.slots.size(); ++i) {
        const RowSlot& slot = judged.layout.slots[i];
        const Value offset = b.constant_i32(static_cast<std::int32_t>(slot.offset / kRowUnit));
        const Value index = b.iadd(row, offset);
        const Value words = b.window(index, claimed_data, kRowUnit, static_cast<std::uint32_t>(slot.elements));
        const Value claimed = b.reshape(words, slots[slot.slot].shape);
        compared[slot.slot] = {claimed, values[slot.slot], values[judged.training_slots + i]};
    }
    const distance::Measures measures = distance::build_measures(b, training, judged.classes, compared);
    const Value first = b.constant_i32(0);
    const Value limits = b.window(first, claimed_data - 1, kLimitWords, kLimitWords);
    const Value ok = build_verdict(b, measures, limits);

    for (std::size_t i = 0; i < judged.layout.slots.size(); ++i) {
        const distance::Compared& slot = compared[judged.layout.slots[i].slot];
        const Value next = b.select(ok, slot.claimed, slot.replayed);
        b.update(slot.replayed, next);
        b.update(slot.previous, next);
    }
    const Value one = b.constant_i32(1);
    const Value done = b.iadd(segment, one);
    const Value rows = b.constant_i32(static_cast<std::int32_t>(judged.rows));
    const Value is_last = b.ieq(done, rows);
    b.update(segment, b.elementwise(ElementOp::iselect, {is_last, first, done}));
    b.update(accepted, b.elementwise(ElementOp::iand, {accepted, ok}));
    QUERN_TRY(program::BuiltProgram built, b.finish());
    return std::move(built.program);
}

// --- Recognising -----------------------------------------------------------------------------------------------------

tl::unexpected<Error> not_judged(std::string what) { return fail("tolerance.not_a_judged_task", std::move(what)); }

}  // namespace

// Without the slots, the nodes and the data that were added. Nothing of it is believed: the programs are built anew and
// compared.
Expected<HeldTraining> held_training(const Program& extended) {
    const std::size_t slots = extended.slots.size();
    if (extended.header.data.size() < kJudgeData)
        return not_judged(std::to_string(extended.header.data.size()) + " data tensors");
    if (slots <= kJudgeSlots || extended.slots[slots - 2].name != kSegment ||
        extended.slots[slots - 1].name != kAccepted)
        return not_judged("the last slots are not the judge's");
    HeldTraining result;
    std::size_t own = slots - kJudgeSlots;
    while (own > 0 && is_reserved(extended.slots[own - 1].name)) {
        const std::string& name = extended.slots[--own].name;
        if (name.starts_with(kLoose)) result.loose.push_back(name.substr(kLoose.size()));
    }
    std::reverse(result.loose.begin(), result.loose.end());
    if (own == 0 || extended.nodes.size() <= slots - own) return not_judged("there is no training in it");
    Program& training = result.training;
    training = extended;
    training.header.data.resize(training.header.data.size() - kJudgeData);
    training.slots.resize(own);
    training.updates.resize(own);
    training.nodes.resize(training.nodes.size() - (slots - own));
    vm::tensor::complete_header(training);
    if (const Status valid = vm::tensor::validate(training); !valid)
        return not_judged("the training in it is not valid: " + valid.error().to_string());
    return result;
}

namespace {

// The first part in which a program differs from what it should be.
Status check_same(std::string_view which, const Program& given, const Program& built) {
    if (vm::tensor::encode(given) == vm::tensor::encode(built)) return {};
    const auto differs = [&](std::string_view part, std::size_t i) {
        return not_judged(std::string(which).append(": ").append(part).append(" ").append(std::to_string(i)));
    };
    if (given.header.data != built.header.data) return not_judged(std::string(which).append(": data"));
    const auto first_of = [](const auto& a, const auto& b) {
        const auto unlike = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
        return static_cast<std::size_t>(unlike.first - a.begin());
    };
    if (given.slots != built.slots) return differs("slot", first_of(given.slots, built.slots));
    if (given.nodes != built.nodes) return differs("node", first_of(given.nodes, built.nodes));
    if (given.updates != built.updates) return differs("update of slot", first_of(given.updates, built.updates));
    return not_judged(std::string(which).append(": header"));
}

// [[k, [0]], 1] or, of one step, [0, 1]; else 0.
std::uint64_t steps_of_segment(const std::vector<core::PlanItem>& body) {
    if (body.size() != 2 || body[1] != core::plan_step(1)) return 0;
    if (body[0] == core::plan_step(0)) return 1;
    return body[0].body == std::vector{core::plan_step(0)} ? body[0].count : 0;
}

}  // namespace

Status RowLayout::write_row(const State& state, std::span<std::uint8_t> out) const {
    QUERN_CHECK(check_words(*this, state, out.size()));
    if (!out.empty()) std::memset(out.data(), 0, out.size());
    for (const RowSlot& each : slots) {
        std::uint8_t* to = out.data() + 4 * each.offset;
        for (const std::uint32_t word : state[each.slot].words)
            for (unsigned byte = 0; byte < 4; ++byte) *to++ = static_cast<std::uint8_t>(word >> (8 * byte));
    }
    return {};
}

Status RowLayout::read_row(BytesView row, State& state) const {
    QUERN_CHECK(check_words(*this, state, row.size()));
    for (const RowSlot& each : slots) {
        const std::uint8_t* from = row.data() + 4 * each.offset;
        for (std::uint32_t& word : state[each.slot].words) {
            word = 0;
            for (unsigned byte = 0; byte < 4; ++byte) word |= std::uint32_t{*from++} << (8 * byte);
        }
    }
    return {};
}

std::vector<core::PlanItem> JudgedPrograms::body(std::uint64_t k, std::uint64_t n) const {
    std::vector<core::PlanItem> segment;
    segment.push_back(k == 1 ? core::plan_step(0) : core::plan_repeat(k, {core::plan_step(0)}));
    segment.push_back(core::plan_step(1));
    if (n == 1) return segment;
    return {core::plan_repeat(n, std::move(segment))};
}

Expected<core::TaskPrograms> JudgedPrograms::task(std::uint64_t k, std::uint64_t n) const {
    return core::TaskPrograms::make({training, judge}, body(k, n));
}

Expected<JudgedPrograms> build_judged_programs(const Program& training, std::uint64_t rows,
                                               std::span<const std::string> loose) {
    for (const Slot& slot : training.slots)
        if (is_reserved(slot.name)) return fail("tolerance.reserved_name", slot.name);
    JudgedPrograms result;
    QUERN_TRY(result.classes, distance::classify(training, loose));
    result.training_slots = training.slots.size();
    result.layout = layout_of(training, result.classes);
    result.rows = rows;
    const std::uint64_t units = result.layout.row_elements / kRowUnit;  // 2^35 at most: 2^14 slots of 2^31 elements
    if (rows == 0 || rows > kMaxRows || units > kMaxRowUnits / rows)
        return fail("tolerance.bad_rows",
                    std::to_string(rows) + " rows of " + std::to_string(result.layout.row_elements) + " elements");
    std::vector<DataSet> data = training.header.data;
    data.push_back({DataType::f32, kLimitWords});
    data.push_back({DataType::f32, rows * result.layout.row_elements});
    const std::vector<Slot> slots = judged_slots(training, result.classes);
    QUERN_TRY(result.training, distance::with_slots(training, slots, data));
    QUERN_TRY(result.judge, build_judge(training, slots, data, result));
    return result;
}

Expected<JudgedPrograms> recognise(const Program& training, const Program& judge) {
    QUERN_TRY(const HeldTraining stripped, held_training(training));
    const auto classes = distance::classify(stripped.training, stripped.loose);
    if (!classes) return not_judged("the training in it: " + classes.error().to_string());
    const DataSet& claimed = training.header.data.back();
    const std::uint64_t row = layout_of(stripped.training, *classes).row_elements;
    if (claimed.type != DataType::f32 || claimed.elements % row != 0)
        return not_judged(std::to_string(claimed.elements) + " claimed elements for rows of " + std::to_string(row));
    auto built = build_judged_programs(stripped.training, claimed.elements / row, stripped.loose);
    if (!built) return not_judged(built.error().to_string());
    QUERN_CHECK(check_same("training", training, built->training));
    QUERN_CHECK(check_same("judge", judge, built->judge));
    return std::move(*built);
}

Expected<JudgedTask> recognise(const core::TaskPrograms& task) {
    if (task.programs.size() != 2) return not_judged(std::to_string(task.programs.size()) + " programs");
    const std::vector<core::PlanItem>& body = task.plan.body();
    JudgedTask result;
    result.k = steps_of_segment(body);
    result.segments = 1;
    if (result.k == 0 && body.size() == 1) {
        result.k = steps_of_segment(body[0].body);
        result.segments = body[0].count;
    }
    if (result.k == 0) return not_judged("the plan is not one of segments that end in a judging step");
    QUERN_TRY(result.programs, recognise(task.programs[0], task.programs[1]));
    if (result.programs.rows > result.segments)
        return not_judged(std::to_string(result.programs.rows) + " rows for " + std::to_string(result.segments) +
                          " segments");
    return result;
}

Expected<JudgedTask> recognise(const core::TaskPrograms& task, std::uint64_t stride, std::uint64_t stretch_steps) {
    QUERN_TRY(JudgedTask judged, recognise(task));
    const std::uint64_t segment = judged.k + 1;
    if (stride % segment != 0)
        return not_judged("strides of " + std::to_string(stride) + " steps, segments of " + std::to_string(segment));
    if (judged.programs.rows * segment != stretch_steps)
        return not_judged(std::to_string(judged.programs.rows) + " rows, but " + std::to_string(stretch_steps) +
                          " steps of a stretch, in segments of " + std::to_string(segment));
    return judged;
}

Expected<State> state_after(const JudgedPrograms& programs, const State& checkpoint, std::uint64_t segments) {
    if (checkpoint.size() != programs.training_slots)
        return fail("executor.bad_state", "a checkpoint has another number of slots than the training");
    State state = checkpoint;
    for (const RowSlot& slot : programs.layout.slots) state.push_back(checkpoint[slot.slot]);
    const auto row = static_cast<std::uint32_t>(segments % programs.rows);
    for (const std::uint32_t word : {row, 1U}) state.push_back(Tensor{DType::i32, program::scalar_shape(), {word}});
    QUERN_CHECK(vm::tensor::check_state(programs.training, state));
    return state;
}

Expected<State> first_state(const JudgedPrograms& programs, const State& training_state) {
    return state_after(programs, training_state, 0);
}

Status check_first_state(const JudgedPrograms& programs, const State& state) {
    QUERN_CHECK(vm::tensor::check_state(programs.training, state));
    QUERN_TRY(const State first, first_state(programs, training_state(programs, state)));
    for (std::size_t s = 0; s < first.size(); ++s)
        if (state[s] != first[s]) return fail("tolerance.bad_first_state", programs.training.slots[s].name);
    return {};
}

State training_state(const JudgedPrograms& programs, const State& state) {
    const std::size_t slots = std::min(programs.training_slots, state.size());
    return {state.begin(), state.begin() + static_cast<std::ptrdiff_t>(slots)};
}

bool accepted(const JudgedPrograms& programs, const State& state) {
    return state.size() == programs.training.slots.size() && state[programs.accepted_slot()].words == std::vector{1U};
}

}  // namespace quern::compute::tolerance::judge
