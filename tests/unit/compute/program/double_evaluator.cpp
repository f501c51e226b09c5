#include "unit/compute/program/double_evaluator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/scalar.h"

namespace quern::test {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::Tensor;
using vm::tensor::arith::ElementOp;
using Index = std::array<std::uint64_t, 4>;

namespace {

Index unravel(const Shape& shape, std::uint64_t position) {
    Index index{};
    for (std::size_t d = 4; d-- > 0;) {
        index[d] = position % shape.dims[d];
        position /= shape.dims[d];
    }
    return index;
}

// Position in a tensor whose dims of 1 are broadcast.
std::uint64_t ravel(const Shape& shape, const Index& index) {
    std::uint64_t position = 0;
    for (std::size_t d = 0; d < 4; ++d) position = position * shape.dims[d] + (shape.dims[d] == 1 ? 0 : index[d]);
    return position;
}

std::uint32_t word(double value) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(value)); }
double from_word(std::uint32_t value) { return static_cast<double>(static_cast<std::int32_t>(value)); }

double element(ElementOp op, double a, double b, double c, std::uint32_t immediate) {
    switch (op) {
        case ElementOp::neg:
            return -a;
        case ElementOp::abs:
            return std::fabs(a);
        case ElementOp::sqrt:
            return std::sqrt(a);
        case ElementOp::exp:
            return std::exp(a);
        case ElementOp::log:
            return std::log(a);
        case ElementOp::tanh:
            return std::tanh(a);
        case ElementOp::sigmoid:
            return 1.0 / (1.0 + std::exp(-a));
        case ElementOp::erf:
            return std::erf(a);
        case ElementOp::add:
            return a + b;
        case ElementOp::sub:
            return a - b;
        case ElementOp::mul:
            return a * b;
        case ElementOp::div:
            return a / b;
        case ElementOp::min:
            return std::min(a, b);
        case ElementOp::max:
            return std::max(a, b);
        case ElementOp::fma:
            return a * b + c;
        case ElementOp::lt:
            return a < b ? 1 : 0;
        case ElementOp::le:
            return a <= b ? 1 : 0;
        case ElementOp::eq:
            return a == b ? 1 : 0;
        case ElementOp::select:
            return a != 0 ? b : c;
        case ElementOp::i2f:
            return a;
        case ElementOp::f2i:
            return std::clamp(std::nearbyint(a), -0x1p31, 0x1p31 - 1);
        case ElementOp::bits:
            return from_word(__builtin_bit_cast(std::uint32_t, static_cast<float>(a)));
        default:  // integer ops have one definition
            return from_word(vm::tensor::arith::evaluate_scalar(op, word(a), word(b), word(c), immediate));
    }
}

struct Operands {
    std::vector<const Doubles*> values;
    std::vector<Shape> shapes;
};

double matmul_element(const Node& node, const Operands& in, const Index& at) {
    const bool ta = node.attributes[0] != 0;
    const bool tb = node.attributes[1] != 0;
    const std::uint64_t inner = in.shapes[0].dims[ta ? 2 : 3];
    double sum = 0;
    for (std::uint64_t k = 0; k < inner; ++k) {
        const Index left{at[0], at[1], ta ? k : at[2], ta ? at[2] : k};
        const Index right{at[0], at[1], tb ? at[3] : k, tb ? k : at[3]};
        sum += (*in.values[0])[ravel(in.shapes[0], left)] * (*in.values[1])[ravel(in.shapes[1], right)];
    }
    return sum;
}

// What imatmul reads of a word: its lowest byte with its sign, and of a scale the power of two below it.
double byte_of(double value) {
    const std::uint32_t low = word(value) & 0xffU;
    return low < 128 ? low : static_cast<double>(low) - 256;
}
double scale_of(double value) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
    int exponent = 0;
    std::frexp(value, &exponent);
    return std::ldexp(1.0, value == 0 ? -60 : std::clamp(exponent - 1, -60, 52));
}

double imatmul_element(const Node& node, const Operands& in, const Index& at) {
    const bool ta = node.attributes[0] != 0;
    const bool tb = node.attributes[1] != 0;
    const auto value = [&](std::size_t operand, const Index& place) {
        return (*in.values[operand])[ravel(in.shapes[operand], place)];
    };
    double sum = 0;
    for (std::uint64_t k = 0; k < in.shapes[0].dims[ta ? 2 : 3]; ++k) {
        const std::uint64_t strip = k / 256;
        const double left = byte_of(value(0, {at[0], at[1], ta ? k : at[2], ta ? at[2] : k})) *
                            scale_of(value(1, {at[0], at[1], ta ? strip : at[2], ta ? at[2] : strip}));
        const double right = byte_of(value(2, {at[0], at[1], tb ? at[3] : k, tb ? k : at[3]})) *
                             scale_of(value(3, {at[0], at[1], tb ? at[3] : strip, tb ? strip : at[3]}));
        sum += left * right;
    }
    return sum;
}

double reduce_element(const Node& node, const Operands& in, Index at) {
    const std::size_t axis = node.op == Op::sum_rows ? 2 : 3;
    double result = node.op == Op::max_last ? -std::numeric_limits<double>::infinity() : 0.0;
    for (at[axis] = 0; at[axis] < in.shapes[0].dims[axis]; ++at[axis]) {
        const double x = (*in.values[0])[ravel(in.shapes[0], at)];
        result = node.op == Op::max_last ? std::max(result, x) : result + x;
    }
    return result;
}

double layout_element(const Node& node, const Operands& in, const Index& at, std::uint64_t position) {
    Index from = at;
    switch (node.op) {
        case Op::permute:
            for (std::size_t d = 0; d < 4; ++d) from[node.attributes[d]] = at[d];
            return (*in.values[0])[ravel(in.shapes[0], from)];
        case Op::slice:
            for (std::size_t d = 0; d < 4; ++d) from[d] += node.attributes[d];
            return (*in.values[0])[ravel(in.shapes[0], from)];
        case Op::concat: {
            const std::size_t axis = node.attributes[0];
            const std::uint32_t first = in.shapes[0].dims[axis];
            if (at[axis] < first) return (*in.values[0])[ravel(in.shapes[0], at)];
            from[axis] -= first;
            return (*in.values[1])[ravel(in.shapes[1], from)];
        }
        case Op::gather_rows: {
            const std::uint64_t entry = (at[0] * node.shape.dims[1] + at[1]) * node.shape.dims[2] + at[2];
            const std::uint32_t row = word((*in.values[1])[entry]);
            if (row >= in.shapes[0].rows()) return 0;
            return (*in.values[0])[std::uint64_t{row} * in.shapes[0].columns() + at[3]];
        }
        default:
            return (*in.values[0])[position];  // reshape
    }
}

Doubles scatter(const Node& node, const Operands& in) {
    Doubles out(node.shape.elements(), 0.0);
    const std::uint32_t columns = node.shape.columns();
    for (std::uint64_t r = 0; r < in.shapes[0].rows(); ++r) {
        const std::uint32_t row = word((*in.values[1])[r]);
        if (row >= node.shape.rows()) continue;
        for (std::uint64_t c = 0; c < columns; ++c)
            out[std::uint64_t{row} * columns + c] += (*in.values[0])[r * columns + c];
    }
    return out;
}

Doubles evaluate(const Node& node, const Operands& in) {
    if (node.op == Op::scatter_add_rows) return scatter(node, in);
    Doubles out(node.shape.elements());
    for (std::uint64_t i = 0; i < out.size(); ++i) {
        const Index at = unravel(node.shape, i);
        switch (node.op) {
            case Op::full:
                out[i] = node.dtype == DType::i32 ? from_word(node.immediate)
                                                  : static_cast<double>(__builtin_bit_cast(float, node.immediate));
                break;
            case Op::iota:
                out[i] = static_cast<double>(at[node.attributes[0]]);
                break;
            case Op::philox: {
                const Doubles& key = *in.values[0];
                out[i] = from_word(vm::tensor::arith::philox_word(static_cast<std::uint32_t>(i), word(key[2]),
                                                                  word(key[3]), word(key[0]), word(key[1])));
                break;
            }
            case Op::philox_words: {
                const Doubles& key = *in.values[0];
                out[i] = from_word(vm::tensor::arith::philox_four_word(static_cast<std::uint32_t>(i), word(key[2]),
                                                                       word(key[3]), word(key[0]), word(key[1])));
                break;
            }
            case Op::elementwise: {
                std::array<double, 3> x{};
                for (std::size_t k = 0; k < in.values.size(); ++k) x[k] = (*in.values[k])[ravel(in.shapes[k], at)];
                out[i] = element(node.element, x[0], x[1], x[2], node.immediate);
                break;
            }
            case Op::matmul:
                out[i] = matmul_element(node, in, at);
                break;
            case Op::imatmul:
                out[i] = imatmul_element(node, in, at);
                break;
            case Op::sum_last:
            case Op::max_last:
            case Op::sum_rows:
                out[i] = reduce_element(node, in, at);
                break;
            case Op::kth_last: {
                std::vector<std::uint32_t> words;
                for (Index place = at; place[3] < in.shapes[0].columns(); ++place[3])
                    words.push_back(word((*in.values[0])[ravel(in.shapes[0], place)]));
                std::sort(words.rbegin(), words.rend());
                out[i] = from_word(words[node.attributes[0] - 1]);
                break;
            }
            default:
                out[i] = layout_element(node, in, at, i);
        }
    }
    return out;
}

}  // namespace

Doubles to_doubles(const Tensor& tensor) {
    Doubles result;
    for (const std::uint32_t w : tensor.words)
        result.push_back(tensor.dtype == DType::i32 ? from_word(w) : static_cast<double>(__builtin_bit_cast(float, w)));
    return result;
}

DoubleState to_doubles(const vm::tensor::State& state) {
    DoubleState result;
    for (const Tensor& tensor : state) result.push_back(to_doubles(tensor));
    return result;
}

std::vector<Doubles> evaluate_in_double(const Program& program, const DoubleState& state,
                                        const vm::tensor::DataSource& data, const Tensor& seed) {
    std::vector<Doubles> outputs;
    outputs.reserve(program.nodes.size());
    for (const Node& node : program.nodes) {
        if (node.op == Op::slot) {
            outputs.push_back(state[node.attributes[0]]);
        } else if (node.op == Op::window) {
            std::vector<std::uint32_t> index;
            for (const double at : outputs[node.inputs[0]])
                index.push_back(static_cast<std::uint32_t>(static_cast<std::int64_t>(at)));
            Tensor words{node.dtype, node.shape, std::vector<std::uint32_t>(node.shape.elements())};
            const bool complete =
                vm::tensor::read_windows(program.header, node, index.data(), data, words.words.data(), nullptr);
            outputs.push_back(complete ? to_doubles(words) : Doubles());
        } else if (node.op == Op::seed) {
            outputs.push_back(to_doubles(seed));
        } else {
            Operands operands;
            for (const std::uint32_t input : node.inputs) {
                operands.values.push_back(&outputs[input]);
                operands.shapes.push_back(program.nodes[input].shape);
            }
            outputs.push_back(evaluate(node, operands));
        }
    }
    return outputs;
}

DoubleState step_in_double(const Program& program, const DoubleState& state, const vm::tensor::DataSource& data,
                           const Tensor& seed) {
    std::vector<Doubles> outputs = evaluate_in_double(program, state, data, seed);
    DoubleState next;
    for (const std::uint32_t update : program.updates) next.push_back(outputs[update]);
    return next;
}

}  // namespace quern::test
