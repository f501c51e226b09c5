#include "compute/program/attention.h"

#include <string>

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

// x less the nearest multiple of pi/2, and how many of these that is.
struct Turned {
    Value rest;     // in [-pi/4, pi/4], a little more for rounding
    Value quarter;  // i32
};
Turned turn(Builder& b, Value x) {
    const auto share = b.mul(x, b.constant(0.636619772F));  // 2 / pi
    const auto quarter = b.elementwise(ElementOp::f2i, {share});
    const auto back = b.neg(b.to_f32(quarter));
    // pi/2 in three parts; of the first two the product with a number below 2^22 / 1.5 needs one rounding at most.
    auto rest = b.fma(back, b.constant(0x1.92p0F), x);
    rest = b.fma(back, b.constant(0x1.fb4p-12F), rest);
    rest = b.fma(back, b.constant(0x1.4442d2p-24F), rest);
    return {rest, quarter};
}

// The polynomial with these coefficients, the highest power first.
Value polynomial(Builder& b, Value x, std::initializer_list<float> coefficients) {
    Value sum;
    for (const float coefficient : coefficients) {
        const auto next = b.constant(coefficient);
        sum = sum.valid() ? b.fma(sum, x, next) : next;
    }
    return sum;
}

// sin(rest + quarter pi/2).
Value sine_of(Builder& b, Value rest, Value quarter) {
    const auto square = b.mul(rest, rest);
    // Taylor's: what is left out is below 2^-27 in [-pi/4, pi/4].
    const auto odd = polynomial(b, square, {2.7557319e-6F, -1.9841270e-4F, 8.3333333e-3F, -1.6666667e-1F});
    const auto sine = b.fma(b.mul(rest, square), odd, rest);
    const auto even = polynomial(b, square, {2.4801587e-5F, -1.3888889e-3F, 4.1666667e-2F, -0.5F});
    const auto cosine = b.fma(square, even, b.constant(1.0F));
    const auto is_odd = b.elementwise(ElementOp::iand, {quarter, b.constant_i32(1)});
    const auto turned = b.select(is_odd, cosine, sine);
    const auto is_half = b.elementwise(ElementOp::iand, {quarter, b.constant_i32(2)});
    return b.select(is_half, b.neg(turned), turned);
}

}  // namespace

Value sine(Builder& b, Value x) {
    const auto [rest, quarter] = turn(b, x);
    return sine_of(b, rest, quarter);
}

Value cosine(Builder& b, Value x) {
    const auto [rest, quarter] = turn(b, x);
    return sine_of(b, rest, b.iadd(quarter, b.constant_i32(1)));
}

Value rotary(Builder& b, Value x, float base) {
    if (b.failed()) return {};
    const Shape shape = b.shape(x);
    const auto& [batches, heads, rows, size] = shape.dims;
    if (size % 2 != 0) {
        b.set_error("attention.odd_size", "heads of " + std::to_string(size) + " elements have no pairs");
        return {};
    }
    const std::uint32_t half = size / 2;
    const auto place = b.to_f32(b.iota(matrix_shape(rows, 1), 2));
    const auto pair = b.to_f32(b.iota(vector_shape(half), 3));
    // base^(-2 i / size) = exp(-i 2 ln(base) / size), by the canonical exponential.
    const auto slope = b.constant(-2.0F * canonical(ElementOp::log, base) / static_cast<float>(size));
    const auto angle = b.mul(place, b.exp(b.mul(pair, slope)));
    const auto sine = program::sine(b, angle);
    const auto cosine = program::cosine(b, angle);
    const Shape part{{batches, heads, rows, half}};
    const auto first = b.slice(x, {0, 0, 0, 0}, part);
    const auto second = b.slice(x, {0, 0, 0, half}, part);
    const auto crossed = b.mul(second, sine);
    const auto left = b.sub(b.mul(first, cosine), crossed);
    const auto right = b.fma(first, sine, b.mul(second, cosine));
    return b.concat(left, right, 3);
}

Value attention(Builder& b, Value query, Value key, Value value, bool causal) {
    if (b.failed()) return {};
    const Shape shape = b.shape(query);
    const auto& [batches, heads, rows, size] = shape.dims;
    const std::uint32_t groups = b.shape(key).dims[1];
    const std::uint32_t others = b.shape(key).rows();
    if (heads % groups != 0) {
        b.set_error("attention.bad_groups", std::to_string(groups) + " groups of " + std::to_string(heads) + " heads");
        return {};
    }
    if (causal && rows != others) {
        b.set_error("attention.not_square", std::to_string(rows) + " rows over " + std::to_string(others));
        return {};
    }
    // Heads that read the same are one matrix of all their rows.
    const std::uint32_t joined = heads / groups * rows;
    const auto scale = b.constant(1.0F / canonical(ElementOp::sqrt, static_cast<float>(size)));
    const auto asked = b.reshape(b.mul(query, scale), Shape{{batches, groups, joined, size}});
    auto scores = b.reshape(b.matmul(asked, key, false, true), Shape{{batches, heads, rows, others}});
    if (causal) scores = causal_mask(b, scores);
    const auto weights = b.reshape(softmax(b, scores), Shape{{batches, groups, joined, others}});
    return b.reshape(b.matmul(weights, value), Shape{{batches, heads, rows, b.shape(value).columns()}});
}

}  // namespace quern::compute::program
