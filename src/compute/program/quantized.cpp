#include "compute/program/quantized.h"

#include <array>
#include <utility>

#include "compute/program/composite.h"

namespace quern::compute::program {

namespace {

constexpr std::int32_t kLargestByte = 127;

struct Powers {
    Value power;    // 2^e of a strip
    Value inverse;  // 2^-e
};

// Of the strips' maxima, 0 or more: e = floor(log2 m) - 6 within -60 to 52; NaN where m is no number. 2^e is what is
// left of m / 64 divided by its mantissa, which is exact.
Powers powers_of(Builder& b, Value largest) {
    const auto zero = b.constant(0.0F);
    const auto number = b.fma(largest, zero, largest);  // of an infinity NaN
    const auto sixth = b.mul(number, b.constant(0x1p-6F));
    const auto above = b.max(sixth, b.constant(0x1p-60F));
    const auto bounded = b.min(above, b.constant(0x1p52F));
    const auto word = b.bits(bounded);
    const auto fraction = b.elementwise(ElementOp::iand, {word, b.constant_i32(0x7fffff)});
    const auto whole = b.elementwise(ElementOp::ior, {fraction, b.constant_i32(0x800000)});
    const auto number_of_it = b.to_f32(whole);
    const auto mantissa = b.mul(number_of_it, b.constant(0x1p-23F));
    const auto power = b.div(bounded, mantissa);
    return {power, b.div(mantissa, bounded)};
}

Value swapped(Builder& b, Value x) { return b.permute(x, {0, 1, 3, 2}); }

// u - 0.5 with u a multiple of 2^-24 in [0, 1).
Value noise(Builder& b, Value key, const Shape& shape) {
    const auto eight = b.constant_i32(8);
    const auto bits = b.elementwise(ElementOp::ishr, {b.philox_words(key, shape), eight});
    const auto unit = b.constant(0x1p-24F);
    const auto half = b.constant(-0.5F);
    return b.fma(b.to_f32(bits), unit, half);
}

// The largest size of each line along the axis. Lines whose words lie apart are folded by halves, which are compared as
// they are read, down to so few words that to turn them costs little.
Value largest_along(Builder& b, Value x, std::uint32_t axis) {
    if (axis == 3) return b.max_last(b.elementwise(ElementOp::abs, {x}));
    constexpr std::uint32_t kFew = 16;
    const auto is_long = [&](Value lines) { return !b.failed() && b.shape(lines).rows() > kFew; };
    const auto halves = [&](Value whole) {
        Shape half = b.shape(whole);
        const auto size = static_cast<std::uint32_t>(half.rows());
        half.dims[2] = (size + 1) / 2;
        const auto first = b.slice(whole, {}, half);
        return std::pair(first, b.slice(whole, {0, 0, size - half.dims[2], 0}, half));  // of an odd size one is in both
    };
    Value largest;
    if (is_long(x)) {
        const auto [first, second] = halves(x);
        const auto sizes = b.elementwise(ElementOp::abs, {first});
        largest = b.max(sizes, b.elementwise(ElementOp::abs, {second}));
    } else {
        largest = b.elementwise(ElementOp::abs, {x});
    }
    while (is_long(largest)) {
        const auto [first, second] = halves(largest);
        largest = b.max(first, second);
    }
    return swapped(b, b.max_last(swapped(b, largest)));
}

// x in so many strips of one length along the axis.
Builder::Scaled equal_strips(Builder& b, Value x, std::uint32_t axis, std::uint32_t strips, Value key) {
    const Shape shape = b.shape(x);
    const auto leading = static_cast<std::uint32_t>(shape.leading());
    const std::uint32_t length = shape.dims[axis] / strips;
    auto lines = x;  // with a strip as the whole of the axis, and no dim that fills its tiles badly
    if (strips != 1)
        lines = b.reshape(x, axis == 3 ? matrix_shape(leading * shape.rows() * strips, length)
                                       : Shape{{1, leading * strips, length, shape.columns()}});
    const Powers powers = powers_of(b, largest_along(b, lines, axis));
    const auto scaled =
        key.valid() ? b.fma(lines, powers.inverse, noise(b, key, b.shape(lines))) : b.mul(lines, powers.inverse);
    const auto rounded = b.elementwise(ElementOp::f2i, {scaled});
    const auto above = b.elementwise(ElementOp::imin, {rounded, b.constant_i32(kLargestByte)});
    auto bytes = b.elementwise(ElementOp::imax, {above, b.constant_i32(-kLargestByte)});
    auto scales = powers.power;
    if (strips != 1) {
        bytes = b.reshape(bytes, shape);
        Shape of_scales = shape;
        of_scales.dims[axis] = strips;
        scales = b.reshape(scales, of_scales);
    }
    return {bytes, scales};
}

}  // namespace

Builder::Scaled to_bytes(Builder& b, Value x, std::uint32_t axis, Value key) {
    if (axis != 2 && axis != 3) b.set_error("quantized.bad_axis", std::to_string(axis));
    if (b.failed()) return {};
    const Shape shape = b.shape(x);
    const std::uint32_t size = shape.dims[axis];
    const std::uint32_t whole = size / vm::tensor::kStrip;
    const std::uint32_t rest = size % vm::tensor::kStrip;
    if (whole == 0 || rest == 0) return equal_strips(b, x, axis, whole == 0 ? 1 : whole, key);
    Shape first = shape;
    first.dims[axis] = size - rest;
    Shape last = shape;
    last.dims[axis] = rest;
    std::array<std::uint32_t, 4> start{};
    const auto front = equal_strips(b, b.slice(x, start, first), axis, whole, key);
    start[axis] = size - rest;
    // Another key than the first strips have, whose words begin at the same index.
    const auto other = key.valid() ? key_of_use(b, key, 0x80000000U) : key;
    const auto back = equal_strips(b, b.slice(x, start, last), axis, 1, other);
    const auto bytes = b.concat(front.bytes, back.bytes, axis);
    return {bytes, b.concat(front.scales, back.scales, axis)};
}

Value ByteProducts::next_key(Builder& b) const {
    if (!key_.valid()) b.set_error("quantized.no_key", "gradients are rounded by random words");
    return b.failed() ? Value{} : key_of_use(b, key_, ++*uses_);
}

Value ByteProducts::matmul(Builder& b, Value left, Value right, bool transpose_left, bool transpose_right) const {
    const auto inner = [](bool is_left, bool transposed) { return is_left != transposed ? 3U : 2U; };
    const auto bytes_left = to_bytes(b, left, inner(true, transpose_left));
    const auto bytes_right = to_bytes(b, right, inner(false, transpose_right));
    const auto product = b.imatmul(bytes_left, bytes_right, transpose_left, transpose_right);
    // With C = op(A) op(B): d op(A) = G op(B)', d op(B) = op(A)' G; transposed where the operand is stored transposed.
    const auto gradients = [self = *this, left, right, transpose_left, transpose_right, inner](
                               Builder& to, Value gradient) -> std::vector<Value> {
        const auto times = [&](Value a, bool transpose_a, Value c, bool transpose_c) {
            const auto key_a = a.id == gradient.id ? self.next_key(to) : Value{};
            const auto bytes_a = to_bytes(to, a, inner(true, transpose_a), key_a);
            const auto key_c = c.id == gradient.id ? self.next_key(to) : Value{};
            const auto bytes_c = to_bytes(to, c, inner(false, transpose_c), key_c);
            return to.imatmul(bytes_a, bytes_c, transpose_a, transpose_c);
        };
        const auto of_left = transpose_left ? times(right, transpose_right, gradient, true)
                                            : times(gradient, false, right, !transpose_right);
        const auto of_right = transpose_right ? times(gradient, true, left, transpose_left)
                                              : times(left, !transpose_left, gradient, false);
        if (to.failed()) return {};
        return {sum_to(to, of_left, to.shape(left)), sum_to(to, of_right, to.shape(right))};
    };
    return b.with_gradient(product, {left, right}, gradients);
}

}  // namespace quern::compute::program
