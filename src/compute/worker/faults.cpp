#include "compute/worker/faults.h"

#include <algorithm>
#include <bit>

namespace quern::compute::worker {
namespace {

using vm::tensor::DType;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::State;
using vm::tensor::Tensor;

// A change of one part in 2^11, so that it is not rounded away before it reaches the state. The first element: a causal
// mask may hide later ones.
constexpr std::uint32_t kFlippedBit = 1U << 12;

// The matmul whose output is altered: the middle one, so that a dispute has something to search.
std::uint32_t middle_matmul(const Program& program) {
    std::vector<std::uint32_t> matmuls;
    for (std::uint32_t i = 0; i < program.nodes.size(); ++i)
        if (program.nodes[i].op == Op::matmul) matmuls.push_back(i);
    if (matmuls.empty()) return static_cast<std::uint32_t>(program.nodes.size() - 1);
    return matmuls[matmuls.size() / 2];
}

Alteration flip_one_element(const Program& program, std::uint32_t bit) {
    const std::uint32_t target = middle_matmul(program);
    return [target, bit](std::uint32_t node, Tensor& output) {
        if (node == target) output.words.front() ^= bit;
    };
}

float as_float(std::uint32_t word) { return std::bit_cast<float>(word); }

// Each update of a parameter becomes what `made` makes of its words before the step and of those that it should have.
template <typename Made>
Alteration remake_parameters(const Program& program, const State& before, Made made) {
    return [&program, &before, made](std::uint32_t node, Tensor& output) {
        for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
            if (program.updates[slot] != node || (program.slots[slot].flags & vm::tensor::kSlotParameter) == 0)
                continue;
            for (std::size_t i = 0; i < output.words.size(); ++i)
                output.words[i] =
                    std::bit_cast<std::uint32_t>(made(as_float(before[slot].words[i]), as_float(output.words[i])));
            return;
        }
    };
}

Alteration scale_updates(const Program& program, const State& before, float factor) {
    return remake_parameters(program, before,
                             [factor](float old, float updated) { return old + (updated - old) * factor; });
}

Alteration double_first_update(const Program& program, const State& before) {
    for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
        if ((program.slots[slot].flags & vm::tensor::kSlotParameter) == 0) continue;
        const std::uint32_t target = program.updates[slot];
        return [target, all = scale_updates(program, before, 2)](std::uint32_t node, Tensor& output) {
            if (node == target) all(node, output);
        };
    }
    return {};
}

Alteration halve_what_is_read(const Program& program) {
    return [&program](std::uint32_t at, Tensor& output) {
        const vm::tensor::Node& node = program.nodes[at];
        if (node.op != Op::slot || (program.slots[node.attributes[0]].flags & vm::tensor::kSlotParameter) == 0) return;
        for (std::uint32_t& word : output.words) word = std::bit_cast<std::uint32_t>(as_float(word) * 0.5F);
    };
}

Alteration change_windows(const Program& program, void (*change)(std::span<std::uint32_t>)) {
    return [&program, change](std::uint32_t node, Tensor& output) {
        if (program.nodes[node].op == Op::window) change(output.words);
    };
}

Alteration misread_first_parameter(const Program& program) {
    for (std::uint32_t i = 0; i < program.nodes.size(); ++i) {
        const vm::tensor::Node& node = program.nodes[i];
        if (node.op != Op::slot || (program.slots[node.attributes[0]].flags & vm::tensor::kSlotParameter) == 0)
            continue;
        return [i](std::uint32_t at, Tensor& output) {
            if (at == i) output.words.front() ^= kFlippedBit;
        };
    }
    return {};
}

Alteration freeze_tensors(const Program& program, const State& before, bool parameters = true) {
    return [&program, &before, parameters](std::uint32_t node, Tensor& output) {
        for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
            const auto& spec = program.slots[slot];
            const bool is_frozen = parameters || (spec.flags & vm::tensor::kSlotParameter) == 0;
            if (program.updates[slot] == node && spec.dtype == DType::f32 && spec.shape.elements() > 1 && is_frozen)
                output.words = before[slot].words;
        }
    };
}

}  // namespace

Alteration alteration(const FaultPlan& plan, const Program& program, const State& before, std::uint64_t step,
                      std::uint64_t steps) {
    const std::uint64_t chosen = plan.step != 0 ? plan.step : steps / 2 + 1;
    switch (plan.fault) {
        case Fault::skip_work:
            return step >= chosen ? freeze_tensors(program, before) : Alteration{};
        case Fault::wrong_update:
            return step == chosen ? double_first_update(program, before) : Alteration{};
        case Fault::large_update:
            return step == chosen ? scale_updates(program, before, 64) : Alteration{};
        case Fault::flip_element:
        case Fault::false_accusation:
            return step == chosen ? flip_one_element(program, kFlippedBit) : Alteration{};
        case Fault::other_flip:
            return step == chosen ? flip_one_element(program, kFlippedBit << 1) : Alteration{};
        case Fault::wrong_slot:
            return step == chosen ? misread_first_parameter(program) : Alteration{};
        case Fault::wrong_init:
            return step == 1 ? halve_what_is_read(program) : Alteration{};
        default:
            break;
    }
    if (step < plan.step) return {};
    switch (plan.fault) {
        case Fault::easy_data:
            return change_windows(program, [](std::span<std::uint32_t> words) { std::ranges::fill(words, words[0]); });
        case Fault::data_order:
            return change_windows(program, [](std::span<std::uint32_t> words) { std::ranges::reverse(words); });
        case Fault::altered_rate:
            return scale_updates(program, before, 0.5F);
        case Fault::tiny_updates:
            return scale_updates(program, before, 0x1p-10F);
        case Fault::stale_momentum:
            return freeze_tensors(program, before, false);
        case Fault::every_other_step:
            return step % 2 == 0 ? freeze_tensors(program, before) : Alteration{};
        case Fault::interpolated:
            return remake_parameters(program, before, [](float old, float) { return old * (1 - 0x1p-10F); });
        default:
            break;
    }
    return {};
}

}  // namespace quern::compute::worker
