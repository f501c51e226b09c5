#include "compute/program/composite.h"

#include <cstdint>
#include <string>

#include "vm/tensor/arith/scalar.h"

namespace quern::compute::program {

float canonical(ElementOp op, float x) {
    const std::uint32_t word = vm::tensor::arith::evaluate_scalar(op, __builtin_bit_cast(std::uint32_t, x), 0, 0, 0);
    return __builtin_bit_cast(float, word);
}

Value broadcast_to(Builder& b, Value x, const Shape& shape) {
    if (b.failed() || b.shape(x) == shape) return x;
    // x + -0 is x for every x, both zeros included.
    if (b.type(x).dtype == DType::f32) return b.add(x, b.full(DType::f32, shape, 0x80000000));
    return b.elementwise(ElementOp::ior, {x, b.full(DType::i32, shape, 0)});
}

Value sum_all(Builder& b, Value x) {
    if (b.failed()) return {};
    const auto row_sums = b.sum_last(x);
    const auto count = static_cast<std::uint32_t>(b.shape(row_sums).elements());
    return count == 1 ? b.reshape(row_sums, scalar_shape()) : b.sum_last(b.reshape(row_sums, vector_shape(count)));
}

Value sum_to(Builder& b, Value x, const Shape& shape) {
    if (b.failed()) return {};
    if (shape == scalar_shape() && b.shape(x) != shape) return sum_all(b, x);
    const auto reduces = [&](std::size_t d) { return shape.dims[d] == 1 && b.shape(x).dims[d] != 1; };
    if (reduces(3)) x = b.sum_last(x);
    Shape now = b.shape(x);
    const bool d0 = reduces(0);
    const bool d1 = reduces(1);
    const bool leading = (d0 || now.dims[0] == 1) && (d1 || now.dims[1] == 1);
    if ((d0 || d1) && leading && reduces(2)) {
        // All but the last axis: one chain over all rows.
        x = b.reshape(x, matrix_shape(static_cast<std::uint32_t>(now.leading() * now.rows()), now.columns()));
        return b.sum_rows(x);
    }
    if (reduces(2)) x = b.sum_rows(x);
    now = b.shape(x);
    const auto merged = [](std::uint64_t a, std::uint64_t c) { return static_cast<std::uint32_t>(a * c); };
    if (d0 && leading) {
        x = b.sum_rows(b.reshape(x, matrix_shape(merged(now.dims[0], now.dims[1]), merged(now.dims[2], now.dims[3]))));
        return b.reshape(x, Shape{{1, 1, now.dims[2], now.dims[3]}});
    }
    if (d1) {
        x = b.sum_rows(b.reshape(x, Shape{{1, now.dims[0], now.dims[1], merged(now.dims[2], now.dims[3])}}));
        x = b.reshape(x, Shape{{now.dims[0], 1, now.dims[2], now.dims[3]}});
        now = b.shape(x);
    }
    if (d0) {
        x = b.sum_rows(b.reshape(x, matrix_shape(now.dims[0], merged(now.dims[1], merged(now.dims[2], now.dims[3])))));
        x = b.reshape(x, Shape{{1, now.dims[1], now.dims[2], now.dims[3]}});
    }
    return x;
}

Value mean_all(Builder& b, Value x) {
    if (b.failed()) return {};
    const auto share = b.constant(1.0F / static_cast<float>(b.shape(x).elements()));
    return b.mul(sum_all(b, x), share);
}

Value mean_last(Builder& b, Value x) {
    if (b.failed()) return {};
    const auto share = b.constant(1.0F / static_cast<float>(b.shape(x).columns()));
    return b.mul(b.sum_last(x), share);
}

Value softmax(Builder& b, Value x) {
    const auto shifted = b.sub(x, b.stop_gradient(b.max_last(x)));
    const auto weights = b.exp(shifted);
    return b.div(weights, b.sum_last(weights));
}

Value cross_entropy_of_rows(Builder& b, Value logits, Value target) {
    if (b.failed()) return {};
    const auto shifted = b.sub(logits, b.stop_gradient(b.max_last(logits)));
    const auto log_sum = b.log(b.sum_last(b.exp(shifted)));
    const auto hit = b.ieq(b.iota(vector_shape(b.shape(logits).columns()), 3), target);
    const auto chosen = b.sum_last(b.select(hit, shifted, b.constant(0.0F)));
    return b.sub(log_sum, chosen);
}

Value cross_entropy(Builder& b, Value logits, Value target) {
    return mean_all(b, cross_entropy_of_rows(b, logits, target));
}

namespace {

// 1 / sqrt(x + epsilon).
Value inverse_root(Builder& b, Value x, float epsilon) {
    const auto root = b.sqrt(b.add(x, b.constant(epsilon)));
    return b.div(b.constant(1.0F), root);
}

// To mean 0 and variance 1 over the last axis.
Value normalise_last(Builder& b, Value x, float epsilon) {
    const auto centred = b.sub(x, mean_last(b, x));
    const auto variance = mean_last(b, b.mul(centred, centred));
    return b.mul(centred, inverse_root(b, variance, epsilon));
}

}  // namespace

Value layer_norm(Builder& b, Value x, Value gain, Value bias, float epsilon) {
    return b.fma(normalise_last(b, x, epsilon), gain, bias);
}

Value group_norm(Builder& b, Value x, Value gain, Value bias, std::uint32_t groups, float epsilon) {
    if (b.failed()) return {};
    const Shape shape = b.shape(x);
    const auto& [images, height, width, channels] = shape.dims;
    if (groups == 0 || channels % groups != 0) {
        b.set_error("norm.bad_groups", std::to_string(groups) + " groups of " + std::to_string(channels) + " channels");
        return {};
    }
    const std::uint32_t places = height * width;
    const std::uint32_t each = channels / groups;
    x = b.permute(b.reshape(x, Shape{{images, places, groups, each}}), {0, 2, 1, 3});
    x = normalise_last(b, b.reshape(x, Shape{{1, images, groups, places * each}}), epsilon);
    x = b.permute(b.reshape(x, Shape{{images, groups, places, each}}), {0, 2, 1, 3});
    return b.fma(b.reshape(x, shape), gain, bias);
}

Value rms_norm(Builder& b, Value x, Value gain, float epsilon) {
    const auto scale = inverse_root(b, mean_last(b, b.mul(x, x)), epsilon);
    return b.mul(b.mul(x, scale), gain);
}

Value normalise(Builder& b, Value x, Value mean, Value variance, Value gain, Value bias, float epsilon) {
    const auto centred = b.sub(x, mean);
    return b.fma(b.mul(centred, inverse_root(b, variance, epsilon)), gain, bias);
}

BatchNormed batch_norm(Builder& b, Value x, Value gain, Value bias, float epsilon) {
    if (b.failed()) return {};
    const Shape shape = b.shape(x);
    const auto count = static_cast<std::uint32_t>(shape.leading() * shape.rows());
    const auto share = b.constant(1.0F / static_cast<float>(count));
    const auto rows = b.reshape(x, matrix_shape(count, shape.columns()));
    BatchNormed normed;
    normed.mean = b.mul(b.sum_rows(rows), share);
    const auto centred = b.sub(rows, normed.mean);
    normed.variance = b.mul(b.sum_rows(b.mul(centred, centred)), share);
    normed.result = b.reshape(normalise(b, rows, normed.mean, normed.variance, gain, bias, epsilon), shape);
    return normed;
}

Value moved_towards(Builder& b, Value running, Value now, float factor, float share) {
    const auto scaled = b.mul(now, b.constant(factor));
    const auto change = b.sub(scaled, running);
    return b.fma(change, b.constant(share), running);
}

Value relu(Builder& b, Value x) {
    const auto zero = b.constant(0.0F);
    return b.select(b.lt(zero, x), x, zero);
}

Value silu(Builder& b, Value x) { return b.mul(x, b.sigmoid(x)); }

Value softplus(Builder& b, Value x) {
    const auto size = b.elementwise(ElementOp::abs, {x});
    const auto one = b.constant(1.0F);
    const auto rest = b.log(b.add(b.exp(b.neg(size)), one));
    return b.add(relu(b, x), rest);
}

Value dropout(Builder& b, Value x, Value key_counter, float rate) {
    if (b.failed()) return {};
    if (!(rate >= 0.0F && rate < 1.0F)) {
        b.set_error("dropout.bad_rate", std::to_string(rate));
        return {};
    }
    // Words of 31 bits, since comparisons have a sign.
    const auto words = b.elementwise(ElementOp::ishr, {b.philox(key_counter, b.shape(x)), b.constant_i32(1)});
    const auto threshold = static_cast<std::int32_t>(rate * 0x1p31F);
    const auto drops = b.ilt(words, b.constant_i32(threshold));
    const auto kept = b.mul(x, b.constant(1.0F / (1.0F - rate)));
    return b.select(drops, b.constant(0.0F), kept);
}

Value key_of_use(Builder& b, Value key, std::uint32_t use) {
    const auto uses = b.constant_i32(static_cast<std::int32_t>(use));
    const auto word = b.iota(vector_shape(4), 3);
    const auto last = b.ieq(word, b.constant_i32(3));
    const auto offset = b.imul(last, uses);
    return b.iadd(key, offset);
}

Value mean_squared_error(Builder& b, Value x, Value target) {
    const auto difference = b.sub(x, target);
    return mean_all(b, b.mul(difference, difference));
}

Value binary_cross_entropy_of_each(Builder& b, Value logits, Value target) {
    const auto size = b.elementwise(ElementOp::abs, {logits});
    const auto one = b.constant(1.0F);
    const auto rest = b.log(b.add(b.exp(b.neg(size)), one));
    const auto positive = relu(b, logits);
    return b.add(b.sub(positive, b.mul(logits, target)), rest);
}

Value binary_cross_entropy(Builder& b, Value logits, Value target) {
    return mean_all(b, binary_cross_entropy_of_each(b, logits, target));
}

Value gelu(Builder& b, Value x) {
    constexpr float kTwiceRoot = 1.5957691216F;  // 2 sqrt(2/pi)
    const auto slope = b.constant(kTwiceRoot);
    const auto cubic = b.constant(kTwiceRoot * 0.044715F);
    const auto factor = b.fma(b.mul(x, x), cubic, slope);
    return b.mul(x, b.sigmoid(b.mul(x, factor)));
}

Value linear(Builder& b, Value x, Value weight, Value bias) {
    const auto product = b.matmul(x, weight);
    return bias.valid() ? b.add(product, bias) : product;
}

Value embedding(Builder& b, Value table, Value tokens) { return b.gather_rows(table, tokens); }

Value causal_mask(Builder& b, Value scores) {
    if (b.failed()) return {};
    const std::uint32_t length = b.shape(scores).rows();
    const auto column = b.iota(vector_shape(length), 3);
    const auto later = b.ilt(b.iota(matrix_shape(length, 1), 2), column);
    return b.select(later, b.constant(-1e9F), scores);
}

}  // namespace quern::compute::program
