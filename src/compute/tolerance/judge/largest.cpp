#include "compute/tolerance/judge/largest.h"

#include <algorithm>
#include <numeric>

#include "compute/tolerance/distance/measuring.h"
#include "compute/tolerance/measures.h"

namespace quern::compute::tolerance::judge {
namespace {

using program::Builder;
using program::Initializer;
using program::Value;
using vm::tensor::DType;
using vm::tensor::Executor;
using vm::tensor::Program;
using vm::tensor::Slot;
using vm::tensor::State;
using vm::tensor::Tensor;

bool is_parameter(const JudgedPrograms& programs, const RowSlot& slot) {
    return programs.classes[slot.slot] == Class::parameter;
}

// Slots: of each parameter what it is and what it was, which becomes what it is; and the movement.
Expected<Program> movement_program(const JudgedPrograms& programs) {
    Builder b;
    std::vector<distance::Compared> parameters;
    for (const RowSlot& each : programs.layout.slots) {
        if (!is_parameter(programs, each)) continue;
        const Slot& slot = programs.training.slots[each.slot];
        const auto named = [&](std::string name) {
            return b.slot(std::move(name), slot.dtype, slot.shape, Initializer::zeros());
        };
        distance::Compared compared;
        compared.replayed = named(slot.name);
        compared.previous = named(distance::named(distance::kPrevious, slot.name));
        b.update(compared.previous, compared.replayed);
        parameters.push_back(compared);
    }
    const Value moved = b.slot("movement", DType::f32, program::scalar_shape(), Initializer::zeros());
    b.set_loss_slot(moved);
    b.update(moved, distance::build_movement(b, parameters));
    QUERN_TRY(program::BuiltProgram built, b.finish());
    return std::move(built.program);
}

Tensor scalar_i32(std::uint32_t word) { return {DType::i32, program::scalar_shape(), {word}}; }

}  // namespace

std::vector<std::uint64_t> largest_segments(std::span<const std::uint32_t> movements, std::uint64_t count) {
    std::vector<std::uint64_t> segments(movements.size());
    std::iota(segments.begin(), segments.end(), 0);
    std::stable_sort(segments.begin(), segments.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return order_of(movements[a]) > order_of(movements[b]); });
    segments.resize(std::min<std::uint64_t>(segments.size(), count));
    std::sort(segments.begin(), segments.end());
    return segments;
}

Expected<Program> exact_part(const Program& training, std::span<const Class> classes) {
    std::vector<bool> needed(training.nodes.size());
    for (std::size_t s = 0; s < classes.size(); ++s)
        if (classes[s] == Class::exact) needed[training.updates[s]] = true;
    for (std::size_t i = needed.size(); i-- > 0;)
        if (needed[i])
            for (const std::uint32_t input : training.nodes[i].inputs) needed[input] = true;
    Program result = training;
    result.nodes.clear();
    std::vector<std::uint32_t> moved(needed.size());
    for (std::size_t i = 0; i < needed.size(); ++i) {
        if (!needed[i]) continue;
        moved[i] = static_cast<std::uint32_t>(result.nodes.size());
        result.nodes.push_back(training.nodes[i]);
        for (std::uint32_t& input : result.nodes.back().inputs) input = moved[input];
    }
    for (std::uint32_t s = 0; s < classes.size(); ++s) {
        if (classes[s] == Class::exact) {
            result.updates[s] = moved[training.updates[s]];
            continue;
        }
        result.updates[s] = static_cast<std::uint32_t>(result.nodes.size());
        vm::tensor::Node node;
        node.op = vm::tensor::Op::slot;
        node.dtype = training.slots[s].dtype;
        node.shape = training.slots[s].shape;
        node.attributes = {s};
        result.nodes.push_back(std::move(node));
    }
    vm::tensor::complete_header(result);
    QUERN_CHECK(vm::tensor::validate(result));
    return result;
}

Expected<bool> is_checked(const JudgedPrograms& programs) {
    QUERN_TRY(const HeldTraining held, held_training(programs.training));
    QUERN_TRY(const Program exact, exact_part(held.training, programs.classes));
    return exact.header.work_units <= held.training.header.work_units / kMostExactPart;
}

struct RowWalk::Impl {
    Impl(const Parts& given, Program exact_program, Program movement_program)
        : parts(given),
          exact(std::move(exact_program)),
          movement(std::move(movement_program)),
          exact_steps(exact, given.backend, given.pool, given.cancellation),
          movement_step(movement, given.backend, given.pool, given.cancellation) {}

    Parts parts;
    Program exact;
    Program movement;
    Executor exact_steps;
    Executor movement_step;
    State state;                    // of the training
    State moved;                    // of `movement`
    std::vector<Hash32> roots;      // of `state`: those of slots that no step changes, once
    std::vector<bool> is_constant;  // by slot
    std::uint64_t segments = 0;
    bool accepted = true;

    void find_roots() {
        const bool first = roots.empty();
        std::vector<std::size_t> changed;
        State words;
        for (std::size_t s = 0; s < state.size(); ++s) {
            if (!first && is_constant[s]) continue;
            changed.push_back(s);
            words.push_back(std::move(state[s]));
        }
        const std::vector<Hash32> found = vm::tensor::slot_roots(words, parts.pool, parts.cancellation);
        roots.resize(state.size());
        for (std::size_t i = 0; i < changed.size(); ++i) {
            state[changed[i]] = std::move(words[i]);
            roots[changed[i]] = found[i];
        }
    }
    // The parameters where `movement` has what they are.
    void take_parameters() {
        std::size_t to = 0;
        for (const RowSlot& each : parts.programs.layout.slots) {
            if (!is_parameter(parts.programs, each)) continue;
            moved[to].words = state[each.slot].words;
            to += 2;
        }
    }
    Status read_row(std::uint64_t number) {
        const RowLayout& layout = parts.programs.layout;
        Bytes bytes;
        for (const RowSlot& each : layout.slots) {
            bytes.resize(4 * each.elements);
            if (!parts.data.read(parts.programs.claimed_data(), number * layout.row_bytes() + 4 * each.offset, bytes))
                return busy("tolerance.no_rows", std::to_string(number));
            const std::uint8_t* from = bytes.data();
            for (std::uint32_t& word : state[each.slot].words) {
                word = 0;
                for (unsigned byte = 0; byte < 4; ++byte) word |= std::uint32_t{*from++} << (8 * byte);
            }
        }
        return {};
    }
    Expected<std::uint32_t> measure() {
        take_parameters();
        if (!movement_step.step(moved, parts.data, parts.seed)) return busy("tolerance.no_rows", "stopped");
        return moved.back().words.front();
    }
};

RowWalk::RowWalk(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowWalk::~RowWalk() = default;

Expected<std::unique_ptr<RowWalk>> RowWalk::make(const Parts& parts, State start) {
    const JudgedPrograms& programs = parts.programs;
    QUERN_CHECK(vm::tensor::check_state(programs.training, start));
    QUERN_TRY(HeldTraining held, held_training(programs.training));
    QUERN_TRY(Program exact, exact_part(held.training, programs.classes));
    QUERN_TRY(Program movement, movement_program(programs));
    auto impl = std::make_unique<Impl>(parts, std::move(exact), std::move(movement));
    impl->accepted = judge::accepted(programs, start);
    impl->state = std::move(start);
    impl->state.resize(programs.training_slots);
    for (std::size_t s = 0; s < programs.training_slots; ++s) {
        const vm::tensor::Node& update = impl->exact.nodes[impl->exact.updates[s]];
        impl->is_constant.push_back(programs.classes[s] == Class::exact && update.op == vm::tensor::Op::slot &&
                                    update.attributes[0] == s);
    }
    for (const Slot& slot : impl->movement.slots)
        impl->moved.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements())});
    QUERN_CHECK(impl->measure());  // so that what they were is the start
    return std::unique_ptr<RowWalk>(new RowWalk(std::move(impl)));
}

Expected<std::uint32_t> RowWalk::advance(std::uint64_t segments) {
    Impl& walk = *impl_;
    if (segments == 0 || segments > walk.parts.programs.rows - walk.segments)
        return fail("tolerance.bad_rows", "no row " + std::to_string(walk.segments + segments));
    for (std::uint64_t step = 0; step < segments * walk.parts.k; ++step)
        if (!walk.exact_steps.step(walk.state, walk.parts.data, walk.parts.seed))
            return busy("tolerance.no_rows", "stopped");
    walk.segments += segments;
    QUERN_CHECK(walk.read_row(walk.segments - 1));
    return walk.measure();
}

Status RowWalk::check(const Hash32& root) {
    Impl& walk = *impl_;
    const JudgedPrograms& programs = walk.parts.programs;
    walk.find_roots();
    if (is_requested(walk.parts.cancellation)) return busy("tolerance.no_rows", "stopped");
    std::vector<Hash32> roots = walk.roots;
    for (const RowSlot& each : programs.layout.slots) roots.push_back(Hash32(roots[each.slot]));
    roots.push_back(vm::tensor::tensor_root(scalar_i32(static_cast<std::uint32_t>(walk.segments % programs.rows))));
    roots.emplace_back();
    const auto is_root = [&](bool accepted) {
        roots.back() = vm::tensor::tensor_root(scalar_i32(accepted ? 1 : 0));
        return vm::tensor::state_root(roots) == root;
    };
    if (walk.accepted && is_root(true)) return {};
    if (is_root(false)) {
        walk.accepted = false;
        return {};
    }
    return fail("tolerance.unbound_rows",
                "the state after segment " + std::to_string(walk.segments - 1) + " is not its row");
}

}  // namespace quern::compute::tolerance::judge
