#include "compute/torch/node_ops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "compute/torch/word_ops.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/scalar.h"
#include "vm/tensor/structural_ops.h"

namespace quern::compute::torch_backend {
namespace {

using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::OpKind;
using vm::tensor::Shape;
using vm::tensor::arith::ElementOp;

// By definition, element by element: integer ops that torch lacks or leaves undefined (division by zero, shifts).
at::Tensor by_definition(const Node& node, const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> whole;
    for (const at::Tensor& input : inputs) whole.push_back(input.detach().expand(sizes_of(node.shape)).contiguous());
    at::Tensor result = at::empty(sizes_of(node.shape), kProcessor.of(type_of(node.dtype)));
    auto* out = static_cast<char*>(result.data_ptr());
    for (std::int64_t i = 0; i < result.numel(); ++i) {
        const auto word = [&](std::size_t k) { return k < whole.size() ? word_at(whole[k], i) : 0; };
        const std::uint32_t value =
            vm::tensor::arith::evaluate_scalar(node.element, word(0), word(1), word(2), node.immediate);
        std::memcpy(out + i * 4, &value, 4);
    }
    return result;
}

// Whether a single number, a counter like the powers of Adam's betas: these decay to subnormal numbers, which the
// definition flushes, and are compared bit by bit where the training is otherwise near.
bool is_counted(const Node& node, const std::vector<at::Tensor>& in) {
    return node.shape.elements() == 1 && vm::tensor::arith::flushes(node.element) &&
           std::none_of(in.begin(), in.end(), [](const at::Tensor& each) { return each.requires_grad(); });
}

// What torch has no op for. Few words come to permute_index, mostly indices of a batch, which are the processor's
// anyway.
at::Tensor without_op(const Node& node, const std::vector<at::Tensor>& in, const Place& place) {
    if (place.by_loops) return by_definition(node, in);
    if (auto found = word_op(node.element, in)) return *found;
    std::vector<at::Tensor> here;
    for (const at::Tensor& input : in) here.push_back(to_processor(input));
    return to_place(by_definition(node, here), place);
}

at::Tensor elementwise(const Node& node, const std::vector<at::Tensor>& in, const Place& place) {
    if (place.by_loops && is_counted(node, in)) return by_definition(node, in);
    const auto truth = [](const at::Tensor& x) { return x.to(at::kInt); };
    switch (node.element) {
        case ElementOp::neg:
            return at::neg(in[0]);
        case ElementOp::abs:
            return at::abs(in[0]);
        case ElementOp::sqrt:
            return at::sqrt(in[0]);
        case ElementOp::exp:
            return at::exp(in[0]);
        case ElementOp::log:
            return at::log(in[0]);
        case ElementOp::tanh:
            return at::tanh(in[0]);
        case ElementOp::sigmoid:
            return at::sigmoid(in[0]);
        case ElementOp::erf:
            return at::erf(in[0]);
        case ElementOp::add:
            return at::add(in[0], in[1]);
        case ElementOp::sub:
            return at::sub(in[0], in[1]);
        case ElementOp::mul:
            return at::mul(in[0], in[1]);
        case ElementOp::div:
            return at::div(in[0], in[1]);
        case ElementOp::min:
            return at::minimum(in[0], in[1]);
        case ElementOp::max:
            return at::maximum(in[0], in[1]);
        case ElementOp::fma:
            return at::addcmul(in[2], in[0], in[1]);
        case ElementOp::lt:
        case ElementOp::ilt:
            return truth(at::lt(in[0], in[1]));
        case ElementOp::le:
            return truth(at::le(in[0], in[1]));
        case ElementOp::eq:
        case ElementOp::ieq:
            return truth(at::eq(in[0], in[1]));
        case ElementOp::select:
        case ElementOp::iselect:
            return at::where(at::ne(in[0], 0), in[1], in[2]);
        case ElementOp::iadd:
            return at::add(in[0], in[1]);
        case ElementOp::isub:
            return at::sub(in[0], in[1]);
        case ElementOp::imul:
            return at::mul(in[0], in[1]);
        case ElementOp::i2f:
            return in[0].to(at::kFloat);
        default:
            return without_op(node, in, place);
    }
}

at::Tensor matmul(const Node& node, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor left = node.attributes[0] != 0 ? a.transpose(2, 3) : a;
    const at::Tensor right = node.attributes[1] != 0 ? b.transpose(2, 3) : b;
    if (node.shape.leading() != 1) return at::matmul(left, right);
    return at::mm(left[0][0], right[0][0]).unsqueeze(0).unsqueeze(0);
}

at::Tensor matmul(const Node& node, const at::Tensor& a, const at::Tensor& b, const ProductKind& kind) {
    const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
    const auto whole = [](const at::Tensor& x) { return x.to(at::kFloat); };
    if (kind.products == Products::bf16 && kind.has_bf16) return whole(matmul(node, half(a), half(b)));
    if (kind.products == Products::bf16) return whole(half(matmul(node, whole(half(a)), whole(half(b)))));
    if (kind.products == Products::f64) return matmul(node, a.to(at::kDouble), b.to(at::kDouble)).to(at::kFloat);
    return matmul(node, a, b);
}

// Values of an imatmul's operand, A [a,b,m,k] or B [a,b,k,n], times its scales. Of 8 bits and a power of two, so exact.
at::Tensor scaled(const at::Tensor& bytes, const at::Tensor& scales, std::int64_t inner_axis) {
    const at::Tensor low = at::bitwise_and(bytes, static_cast<std::int64_t>(0xff));
    const at::Tensor values = at::sub(at::bitwise_xor(low, static_cast<std::int64_t>(0x80)), 0x80).to(at::kFloat);
    // The exponent field, clamped; NaN where it is full.
    const at::Tensor words = scales.contiguous().view(at::kInt);
    const at::Tensor field = at::bitwise_and(at::bitwise_right_shift(words, 23), static_cast<std::int64_t>(0xff));
    const at::Tensor finite = at::bitwise_left_shift(at::clamp(field, 67, 179), 23);
    const at::Tensor nothing = at::full_like(finite, static_cast<std::int64_t>(0x7fc00000));
    const at::Tensor powers = at::where(at::eq(field, 0xff), nothing, finite).contiguous().view(at::kFloat);
    const at::Tensor strips = at::arange(bytes.size(inner_axis), bytes.options().dtype(at::kLong));
    const at::Tensor strip = at::div(strips, static_cast<std::int64_t>(vm::tensor::kStrip), "floor");
    return at::mul(values, at::index_select(powers, inner_axis, strip));
}

at::Tensor imatmul(const Node& node, const std::vector<at::Tensor>& in) {
    const at::Tensor a = scaled(in[0], in[1], node.attributes[0] != 0 ? 2 : 3);
    const at::Tensor b = scaled(in[2], in[3], node.attributes[1] != 0 ? 3 : 2);
    return matmul(node, a, b);
}

at::Tensor philox(const Node& node, const at::Tensor& key_counter, const Place& place) {
    if (!place.by_loops) {
        const auto count = static_cast<std::int64_t>(node.shape.elements());
        return philox_words(key_counter, count, node.op == Op::philox_words).reshape(sizes_of(node.shape));
    }
    const auto word_of = node.op == Op::philox ? vm::tensor::arith::philox_word : vm::tensor::arith::philox_four_word;
    const at::Tensor key = key_counter.contiguous();
    at::Tensor result = at::empty(sizes_of(node.shape), kProcessor.of(at::kInt));
    auto* out = static_cast<char*>(result.data_ptr());
    for (std::int64_t i = 0; i < result.numel(); ++i) {
        const std::uint32_t word =
            word_of(static_cast<std::uint32_t>(i), word_at(key, 2), word_at(key, 3), word_at(key, 0), word_at(key, 1));
        std::memcpy(out + i * 4, &word, 4);
    }
    return result;
}

struct RowIndex {
    at::Tensor rows;   // int64, in range
    at::Tensor valid;  // bool column: false where the index was out of range
};
RowIndex row_index(const at::Tensor& index, std::uint32_t table_rows) {
    const at::Tensor wide = index.reshape({-1}).to(at::kLong);
    const at::Tensor valid = at::bitwise_and(at::ge(wide, 0), at::lt(wide, static_cast<std::int64_t>(table_rows)));
    return {at::where(valid, wide, at::zeros_like(wide)), valid.unsqueeze(1)};
}

at::Tensor gather(const Node& node, const at::Tensor& table, const at::Tensor& index) {
    const RowIndex which = row_index(index, static_cast<std::uint32_t>(table.size(2)));
    const at::Tensor rows = at::index_select(table[0][0], 0, which.rows);
    return at::where(which.valid, rows, at::zeros_like(rows)).reshape(sizes_of(node.shape));
}

at::Tensor scatter(const Node& node, const at::Tensor& source, const at::Tensor& index) {
    const RowIndex which = row_index(index, node.shape.rows());
    const at::Tensor rows = at::where(which.valid, source[0][0], at::zeros_like(source[0][0]));
    const at::Tensor table =
        at::zeros({node.shape.rows(), node.shape.columns()}, source.options().requires_grad(false));
    return at::index_add(table, 0, which.rows, rows).reshape(sizes_of(node.shape));
}

at::Tensor iota(const Node& node, const Place& place) {
    std::vector<std::int64_t> line{1, 1, 1, 1};
    const std::size_t axis = node.attributes[0];
    line[axis] = node.shape.dims[axis];
    return at::arange(line[axis], place.of(at::kInt)).reshape(line).expand(sizes_of(node.shape));
}

at::Tensor full(const Node& node, const Place& place) {
    if (!place.by_loops) {
        const auto word = static_cast<std::int64_t>(static_cast<std::int32_t>(node.immediate));
        const at::Tensor one = at::full({1, 1, 1, 1}, word, place.of(at::kInt));
        return one.view(type_of(node.dtype)).expand(sizes_of(node.shape));
    }
    at::Tensor one = at::empty({1, 1, 1, 1}, kProcessor.of(type_of(node.dtype)));
    std::memcpy(one.data_ptr(), &node.immediate, 4);
    return one.expand(sizes_of(node.shape));
}

at::Tensor slice(const Node& node, at::Tensor x) {
    for (std::size_t d = 0; d < 4; ++d)
        if (node.shape.dims[d] != x.size(static_cast<std::int64_t>(d)))
            x = x.narrow(static_cast<std::int64_t>(d), node.attributes[d], node.shape.dims[d]);
    return x;
}

// Word by word, by the definition of the op: for structural ops without a way of their own.
at::Tensor copied(const Node& node, const std::vector<at::Tensor>& in, const Place& place) {
    std::vector<vm::tensor::OperandType> types;
    std::vector<at::Tensor> flat;
    std::vector<std::int64_t> first;
    std::int64_t words = 0;
    for (const at::Tensor& input : in) {
        Shape shape;
        for (std::size_t d = 0; d < 4; ++d)
            shape.dims[d] = static_cast<std::uint32_t>(input.size(static_cast<std::int64_t>(d)));
        types.push_back({node.dtype, shape});
        flat.push_back(input.reshape({-1}));
        first.push_back(words);
        words += input.numel();
    }
    std::vector<std::int64_t> index(node.shape.elements());
    for (std::size_t i = 0; i < index.size(); ++i) {
        const auto source = vm::tensor::copy_source(node, types, vm::tensor::coordinates_of(node.shape, i));
        const std::uint64_t at = vm::tensor::logical_index(types[source.operand].shape, source.at);
        index[i] = first[source.operand] + static_cast<std::int64_t>(at);
    }
    const at::Tensor places =
        at::from_blob(index.data(), {static_cast<std::int64_t>(index.size())}, kProcessor.of(at::kLong));
    return at::index_select(at::cat(flat), 0, place.by_loops ? places : to_place(places, place))
        .reshape(sizes_of(node.shape));
}

at::Tensor structural(const Node& node, const std::vector<at::Tensor>& in, const Place& place) {
    if (node.op == Op::reshape) return in[0].reshape(sizes_of(node.shape));
    if (node.op == Op::permute)
        return in[0].permute(std::vector<std::int64_t>(node.attributes.begin(), node.attributes.end()));
    if (node.op == Op::slice) return slice(node, in[0]);
    if (node.op == Op::concat) return at::cat({in[0], in[1]}, node.attributes[0]);
    return copied(node, in, place);
}

at::Tensor generated(const Node& node, const std::vector<at::Tensor>& in, const Place& place) {
    if (node.op == Op::full) return full(node, place);
    if (node.op == Op::iota) return iota(node, place);
    if (node.op == Op::philox || node.op == Op::philox_words) return philox(node, in[0], place);
    return {};
}

// Unsigned: with the sign bit turned over words are in the order of their numbers.
at::Tensor kth(const Node& node, const at::Tensor& x) {
    const at::Tensor flipped = at::bitwise_xor(x, static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min()));
    const auto rank = x.size(3) - static_cast<std::int64_t>(node.attributes[0]) + 1;  // from the smallest, from 1
    const at::Tensor found = std::get<0>(at::kthvalue(flipped, rank, 3, true));
    return at::bitwise_xor(found, static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min()));
}

at::Tensor reduction(const Node& node, const std::vector<at::Tensor>& in, const ProductKind& products) {
    if (node.op == Op::matmul) return matmul(node, in[0], in[1], products);
    if (node.op == Op::imatmul) return imatmul(node, in);
    if (node.op == Op::sum_last) return at::sum(in[0], {3}, true);
    if (node.op == Op::max_last) return at::amax(in[0], {3}, true);
    if (node.op == Op::sum_rows) return at::sum(in[0], {2}, true);
    if (node.op == Op::kth_last) return kth(node, in[0]);
    if (node.op == Op::scatter_add_rows) return scatter(node, in[0], in[1]);
    return {};
}

}  // namespace

at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in, const Place& place,
                    const ProductKind& products) {
    switch (vm::tensor::find_op(node.op)->kind) {  // the program was validated
        case OpKind::input:
        case OpKind::window:
            return {};  // given by the caller
        case OpKind::generated:
            return generated(node, in, place);
        case OpKind::elementwise:
            return elementwise(node, in, place);
        case OpKind::reduction:
            return reduction(node, in, products);
        case OpKind::structural:
            return structural(node, in, place);
        case OpKind::gather:
            return gather(node, in[0], in[1]);
    }
    return {};
}

}  // namespace quern::compute::torch_backend
