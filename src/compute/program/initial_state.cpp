#include "compute/program/initial_state.h"

#include <array>
#include <map>
#include <span>
#include <string_view>

#include "compute/program/normal_quantile.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/scalar.h"

namespace quern::compute::program {

namespace {

namespace arith = vm::tensor::arith;

// Canonical binary32 as a value.
struct Real {
    std::uint32_t bits;
    static constexpr Real of(float value) { return {__builtin_bit_cast(std::uint32_t, value)}; }
};
Real apply(ElementOp op, Real a, Real b = {0}, Real c = {0}) {
    return {arith::evaluate_scalar(op, a.bits, b.bits, c.bits, 0)};
}
Real horner(Real x, std::span<const float> coefficients) {  // highest power first
    Real sum = Real::of(coefficients.front());
    for (const float next : coefficients.subspan(1)) sum = apply(ElementOp::fma, sum, x, Real::of(next));
    return sum;
}
Real ratio(Real x, std::span<const float> numerator, std::span<const float> denominator) {
    return apply(ElementOp::div, horner(x, numerator), horner(x, denominator));
}

}  // namespace

std::uint32_t normal_quantile_bits(std::uint32_t k) {
    const Real p = Real::of(static_cast<float>(2 * k + 1) * 0x1p-24F);
    const Real q = apply(ElementOp::sub, p, Real::of(0.5F));
    const Real size = apply(ElementOp::abs, q);
    if (arith::evaluate_scalar(ElementOp::le, size.bits, Real::of(0.425F).bits, 0, 0) != 0) {
        const Real r = apply(ElementOp::fma, apply(ElementOp::neg, q), q, Real::of(0.180625F));
        return apply(ElementOp::mul, q, ratio(r, kCentreTop, kCentreBottom)).bits;
    }
    // p >= 2^-24, so sqrt(-log p) <= 4.08: the tables for the far tail, beyond 5, are never needed.
    const Real tail = apply(ElementOp::min, p, apply(ElementOp::sub, Real::of(1.0F), p));
    const Real depth = apply(ElementOp::sqrt, apply(ElementOp::neg, apply(ElementOp::log, tail)));
    const Real r = apply(ElementOp::sub, depth, Real::of(1.6F));
    const Real x = ratio(r, kMiddleTop, kMiddleBottom);
    return (q.bits >> 31) != 0 ? apply(ElementOp::neg, x).bits : x.bits;
}

vm::tensor::State initial_state(const BuiltProgram& built, std::uint64_t seed, const std::atomic<bool>* stop) {
    vm::tensor::State state;
    state.reserve(built.program.slots.size());
    for (std::size_t s = 0; s < built.program.slots.size() && (stop == nullptr || !*stop); ++s) {
        const vm::tensor::Slot& slot = built.program.slots[s];
        const Initializer& initializer = built.initializers[s];
        vm::tensor::Tensor tensor{slot.dtype, slot.shape, {}};
        if (initializer.kind == Initializer::Kind::given) {
            tensor.words = *initializer.words;
            state.push_back(std::move(tensor));
            continue;
        }
        tensor.words.assign(slot.shape.elements(), initializer.word);
        if (initializer.kind == Initializer::Kind::normal)
            for (std::uint64_t i = 0; i < tensor.words.size(); ++i) {
                const std::uint32_t word =
                    arith::philox_word(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(s), kInitDomain,
                                       static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
                const Real normal{normal_quantile_bits(word >> 9)};
                tensor.words[i] = apply(ElementOp::mul, Real{initializer.word}, normal).bits;
            }
        state.push_back(std::move(tensor));
    }
    return state;
}

namespace {

struct CommonSlot {
    std::size_t earlier = 0;
    std::size_t here = 0;
};

std::vector<CommonSlot> common_slots(const Program& earlier, const Program& program) {
    std::map<std::string_view, std::size_t> by_name;
    for (std::size_t s = 0; s < earlier.slots.size(); ++s) by_name[earlier.slots[s].name] = s;
    std::vector<CommonSlot> common;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        const vm::tensor::Slot& slot = program.slots[s];
        const auto found = by_name.find(slot.name);
        if ((slot.flags & vm::tensor::kSlotParameter) == 0 || found == by_name.end()) continue;
        if (earlier.slots[found->second] == slot) common.push_back({found->second, s});
    }
    return common;
}

}  // namespace

std::vector<std::string> common_parameters(const Program& earlier, const Program& program) {
    std::vector<std::string> names;
    for (const CommonSlot& slot : common_slots(earlier, program)) names.push_back(program.slots[slot.here].name);
    return names;
}

std::vector<std::string> take_parameters(const Program& earlier, const vm::tensor::State& trained,
                                         const Program& program, vm::tensor::State& state) {
    for (const CommonSlot& slot : common_slots(earlier, program)) state[slot.here] = trained[slot.earlier];
    return common_parameters(earlier, program);
}

Expected<std::size_t> slot_index(const Program& program, std::string_view name, std::string_view missing) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].name == name) return s;
    return fail(missing, std::string(name));
}

}  // namespace quern::compute::program
