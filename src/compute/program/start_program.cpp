#include "compute/program/start_program.h"

#include <algorithm>

#include "compute/program/normal_quantile.h"

namespace quern::compute::program {
namespace {

Value horner(Builder& b, Value x, std::span<const float> coefficients) {  // highest power first
    Value sum = b.constant(coefficients.front());
    for (const float next : coefficients.subspan(1)) sum = b.fma(sum, x, b.constant(next));
    return sum;
}

// One call a line where nodes are made: their order, and so the program's root, must not be the compiler's choice.
Value ratio(Builder& b, Value x, std::span<const float> numerator, std::span<const float> denominator) {
    const Value top = horner(b, x, numerator);
    const Value bottom = horner(b, x, denominator);
    return b.div(top, bottom);
}

// normal_quantile_bits of random words, operation by operation; where that takes one branch this computes both.
Value normal_quantile(Builder& b, Value words) {
    const Value half = b.constant(0.5F);
    const Value one = b.constant(1.0F);
    const Value k = b.elementwise(ElementOp::ishr, {words, b.constant_i32(9)});
    const Value even = b.imul(k, b.constant_i32(2));
    const Value odd = b.to_f32(b.iadd(even, b.constant_i32(1)));
    const Value p = b.mul(odd, b.constant(0x1p-24F));
    const Value q = b.sub(p, half);
    const Value minus_q = b.neg(q);
    const Value centre = b.fma(minus_q, q, b.constant(0.180625F));
    const Value middle = b.mul(q, ratio(b, centre, kCentreTop, kCentreBottom));
    const Value tail = b.min(p, b.sub(one, p));
    const Value depth = b.sqrt(b.neg(b.log(tail)));
    const Value outer = ratio(b, b.sub(depth, b.constant(1.6F)), kMiddleTop, kMiddleBottom);
    const Value minus_outer = b.neg(outer);
    const Value side = b.select(b.lt(q, b.constant(0.0F)), minus_outer, outer);
    const Value size = b.elementwise(ElementOp::abs, {q});
    return b.select(b.le(size, b.constant(0.425F)), middle, side);
}

}  // namespace

Expected<BuiltProgram> build_start_program(const BuiltProgram& training, std::span<const std::string> kept) {
    const Program& program = training.program;
    Builder b(program.header.data);
    std::vector<Value> slots;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        const vm::tensor::Slot& slot = program.slots[s];
        slots.push_back(b.slot(slot.name, slot.dtype, slot.shape, training.initializers[s], slot.flags));
    }
    if (!b.failed()) b.set_loss_slot(slots[program.header.loss_slot]);
    const Value key = b.slice(b.seed(), {0, 0, 0, 0}, vector_shape(2));
    for (std::size_t s = 0; s < program.slots.size() && !b.failed(); ++s) {
        const vm::tensor::Slot& slot = program.slots[s];
        const Initializer& initializer = training.initializers[s];
        if (std::find(kept.begin(), kept.end(), slot.name) != kept.end()) continue;
        if (initializer.kind == Initializer::Kind::given)
            return fail("start.given_words", slot.name + " begins with words of a file, which no program makes");
        if (initializer.kind == Initializer::Kind::constant) {
            b.update(slots[s], b.full(slot.dtype, slot.shape, initializer.word));
            continue;
        }
        const Value number = b.constant_i32(static_cast<std::int32_t>(s));
        const Value counter = b.concat(number, b.constant_i32(static_cast<std::int32_t>(kInitDomain)), 3);
        const Value normal = normal_quantile(b, b.philox(b.concat(key, counter, 3), slot.shape));
        b.update(slots[s], b.mul(b.constant(__builtin_bit_cast(float, initializer.word)), normal));
    }
    return b.finish();
}

}  // namespace quern::compute::program
