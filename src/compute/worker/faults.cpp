#include "compute/worker/faults.h"

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

Alteration flip_one_element(const Program& program) {
    const std::uint32_t target = middle_matmul(program);
    return [target](std::uint32_t node, Tensor& output) {
        if (node == target) output.words.front() ^= kFlippedBit;
    };
}

Alteration double_first_update(const Program& program, const State& before) {
    for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
        if ((program.slots[slot].flags & vm::tensor::kSlotParameter) == 0) continue;
        const std::uint32_t target = program.updates[slot];
        const Tensor& old = before[slot];
        return [target, &old](std::uint32_t node, Tensor& output) {
            if (node != target) return;
            for (std::size_t i = 0; i < output.words.size(); ++i) {
                const float updated = std::bit_cast<float>(output.words[i]);
                output.words[i] =
                    std::bit_cast<std::uint32_t>(updated + (updated - std::bit_cast<float>(old.words[i])));
            }
        };
    }
    return {};
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

Alteration freeze_tensors(const Program& program, const State& before) {
    return [&program, &before](std::uint32_t node, Tensor& output) {
        for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
            const auto& spec = program.slots[slot];
            if (program.updates[slot] == node && spec.dtype == DType::f32 && spec.shape.elements() > 1)
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
        case Fault::flip_element:
        case Fault::false_accusation:
            return step == chosen ? flip_one_element(program) : Alteration{};
        case Fault::wrong_slot:
            return step == chosen ? misread_first_parameter(program) : Alteration{};
        case Fault::none:
        case Fault::pass_without_work:
        case Fault::wrong_choice:
        case Fault::silent_opening:
            break;
    }
    return {};
}

}  // namespace quern::compute::worker
