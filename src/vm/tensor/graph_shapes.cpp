// What dtype and shape each op gives, and what it costs.
#include <algorithm>
#include <limits>

#include "vm/tensor/arith/kernel_table.h"
#include "vm/tensor/graph.h"

namespace quern::vm::tensor {
namespace {

// Costs are counted in fused multiply-adds of a matmul, as ElementOpInfo::work is; 512 of them, about 1 kFLOP, are one
// work unit. What only moves words costs what it takes of the memory's bandwidth (doc/work-units.md).
constexpr std::uint64_t kFillCost = 2;      // full, iota: per element
constexpr std::uint64_t kPhiloxCost = 64;   // per element: 10 rounds of two 32 x 32 products
constexpr std::uint64_t kReduceCost = 4;    // per element of the input
constexpr std::uint64_t kFoldCost = 64;     // per row of a reduction over the last axis
constexpr std::uint64_t kCopyCost = 8;      // slice, concat, gather_rows: per element of the output
constexpr std::uint64_t kPermuteCost = 12;  // per element
constexpr std::uint64_t kScatterCost = 16;  // per element of the source; kFillCost per element of the output
constexpr std::uint64_t kIndexCost = 8;     // per index of gather_rows and scatter_add_rows
constexpr std::uint64_t kCostPerUnit = 512;

std::size_t input_count(const Node& node) {
    switch (node.op) {
        case Op::slot:
        case Op::data:
        case Op::seed:
        case Op::full:
        case Op::iota:
            return 0;
        case Op::matmul:
        case Op::concat:
        case Op::gather_rows:
        case Op::scatter_add_rows:
            return 2;
        case Op::elementwise: {
            const arith::ElementOpInfo* info = arith::find_element_op(node.element);
            return info == nullptr ? 0 : info->arity;
        }
        default:
            return 1;
    }
}

std::size_t attribute_count(Op op) {
    switch (op) {
        case Op::slot:
        case Op::iota:
        case Op::concat:
            return 1;
        case Op::matmul:
            return 2;
        case Op::permute:
        case Op::slice:
            return 4;
        default:
            return 0;
    }
}

Status expect_dtype(DType actual, DType wanted, std::string_view what) {
    if (actual == wanted) return {};
    return fail("program.bad_dtype", std::string(what) + " must be " + (wanted == DType::f32 ? "f32" : "i32"));
}

Status expect_shape(const Shape& actual, const Shape& wanted, std::string_view what) {
    if (actual == wanted) return {};
    return fail("program.bad_shape", std::string(what) + " is " + actual.to_string() + ", not " + wanted.to_string());
}

Status bad_shape(std::string detail) { return fail("program.bad_shape", std::move(detail)); }
Status bad_attribute(std::string detail) { return fail("program.bad_attribute", std::move(detail)); }

Status check_elementwise(const Node& node, std::span<const OperandType> inputs) {
    const arith::ElementOpInfo* info = arith::find_element_op(node.element);
    if (info == nullptr) return fail("program.unknown_element_op");
    if (!info->uses_immediate && node.immediate != 0)
        return fail("program.bad_immediate", std::string(info->name) + " has no immediate");
    QUERN_CHECK(expect_dtype(node.dtype, static_cast<DType>(info->output), "the output"));
    Shape result;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        QUERN_CHECK(expect_dtype(inputs[i].dtype, static_cast<DType>(info->inputs[i]), "an input"));
        for (std::size_t d = 0; d < 4; ++d) {
            const std::uint32_t dim = inputs[i].shape.dims[d];
            if (dim != 1 && dim != node.shape.dims[d])
                return bad_shape("an input of " + inputs[i].shape.to_string() + " does not broadcast to " +
                                 node.shape.to_string());
            result.dims[d] = std::max(result.dims[d], dim);
        }
    }
    return expect_shape(node.shape, result, "the output");
}

Status check_matmul(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::f32, "the output"));
    for (const OperandType& input : inputs) QUERN_CHECK(expect_dtype(input.dtype, DType::f32, "an input"));
    if (node.attributes[0] > 1 || node.attributes[1] > 1) return bad_attribute("a transpose flag is 0 or 1");
    const Shape& a = inputs[0].shape;
    const Shape& b = inputs[1].shape;
    const bool transpose_a = node.attributes[0] != 0;
    const bool transpose_b = node.attributes[1] != 0;
    const std::uint32_t inner_a = a.dims[transpose_a ? 2 : 3];
    const std::uint32_t inner_b = b.dims[transpose_b ? 3 : 2];
    if (inner_a != inner_b) return bad_shape("inner dims differ: " + a.to_string() + " and " + b.to_string());
    Shape result;
    for (std::size_t d = 0; d < 2; ++d) {
        result.dims[d] = std::max(a.dims[d], b.dims[d]);
        for (const Shape* operand : {&a, &b})
            if (operand->dims[d] != 1 && operand->dims[d] != result.dims[d])
                return bad_shape("leading dims differ: " + a.to_string() + " and " + b.to_string());
    }
    result.dims[2] = a.dims[transpose_a ? 3 : 2];
    result.dims[3] = b.dims[transpose_b ? 2 : 3];
    return expect_shape(node.shape, result, "the output");
}

Status check_reduction(const Node& node, const OperandType& input) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::f32, "the output"));
    QUERN_CHECK(expect_dtype(input.dtype, DType::f32, "the input"));
    Shape result = input.shape;
    result.dims[node.op == Op::sum_rows ? 2 : 3] = 1;
    return expect_shape(node.shape, result, "the output");
}

Status check_permute(const Node& node, const OperandType& input) {
    std::uint32_t seen = 0;
    for (const std::uint32_t axis : node.attributes) {
        if (axis > 3 || (seen >> axis & 1U) != 0) return bad_attribute("the axes are not a permutation of 0..3");
        seen |= 1U << axis;
    }
    Shape result;
    for (std::size_t d = 0; d < 4; ++d) result.dims[d] = input.shape.dims[node.attributes[d]];
    return expect_shape(node.shape, result, "the output");
}

Status check_slice(const Node& node, const OperandType& input) {
    for (std::size_t d = 0; d < 4; ++d)
        if (std::uint64_t{node.attributes[d]} + node.shape.dims[d] > input.shape.dims[d])
            return bad_shape("the slice leaves " + input.shape.to_string());
    return {};
}

Status check_concat(const Node& node, std::span<const OperandType> inputs) {
    const std::uint32_t axis = node.attributes[0];
    if (axis > 3) return bad_attribute("there are axes 0 to 3");
    if (inputs[0].dtype != inputs[1].dtype) return fail("program.bad_dtype", "the inputs' dtypes differ");
    for (std::size_t d = 0; d < 4; ++d) {
        const std::uint64_t wanted = d == axis ? std::uint64_t{inputs[0].shape.dims[d]} + inputs[1].shape.dims[d]
                                               : std::uint64_t{inputs[0].shape.dims[d]};
        if ((d != axis && inputs[1].shape.dims[d] != wanted) || node.shape.dims[d] != wanted)
            return bad_shape(inputs[0].shape.to_string() + " and " + inputs[1].shape.to_string() + " do not join to " +
                             node.shape.to_string());
    }
    return {};
}

bool is_index_of(const Shape& index, std::uint32_t d0, std::uint32_t d1, std::uint32_t rows) {
    return index == Shape{{d0, d1, 1, rows}} || index == Shape{{d0, d1, rows, 1}};
}

Status check_gather(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(inputs[1].dtype, DType::i32, "the index"));
    const Shape& table = inputs[0].shape;
    if (table.leading() != 1) return bad_shape("the table must be [1,1,v,d], is " + table.to_string());
    if (node.shape.columns() != table.columns() ||
        !is_index_of(inputs[1].shape, node.shape.dims[0], node.shape.dims[1], node.shape.rows()))
        return bad_shape("rows of " + table.to_string() + " by " + inputs[1].shape.to_string() + " are not " +
                         node.shape.to_string());
    return {};
}

Status check_scatter(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::f32, "the output"));
    QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::f32, "the source"));
    QUERN_CHECK(expect_dtype(inputs[1].dtype, DType::i32, "the index"));
    const Shape& source = inputs[0].shape;
    if (source.leading() != 1 || node.shape.leading() != 1 || source.columns() != node.shape.columns() ||
        !is_index_of(inputs[1].shape, 1, 1, source.rows()))
        return bad_shape(source.to_string() + " by " + inputs[1].shape.to_string() + " does not scatter into " +
                         node.shape.to_string());
    return {};
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

// Cost of a node in fused multiply-adds. Fits: an operand has at most 2^31 elements, so a matmul at most 2^62.
std::uint64_t node_cost(const Node& node, std::span<const OperandType> inputs) {
    const std::uint64_t out = node.shape.elements();
    const auto in = [&](std::size_t i) { return i < inputs.size() ? inputs[i].shape.elements() : 0; };
    switch (node.op) {
        case Op::slot:
        case Op::data:
        case Op::seed:
            return 0;
        case Op::reshape:
            return 1;
        case Op::full:
        case Op::iota:
            return kFillCost * out;
        case Op::slice:
        case Op::concat:
            return kCopyCost * out;
        case Op::permute:
            return kPermuteCost * out;
        case Op::philox:
            return kPhiloxCost * out;
        case Op::elementwise: {
            const arith::ElementOpInfo* info = arith::find_element_op(node.element);
            return info == nullptr ? out : info->work * out;
        }
        case Op::matmul:
            if (inputs.empty() || node.attributes.empty()) return out;
            return out * inputs[0].shape.dims[node.attributes[0] != 0 ? 2 : 3];
        case Op::sum_last:
        case Op::max_last:
            return kReduceCost * in(0) + kFoldCost * out;
        case Op::sum_rows:
            return kReduceCost * in(0);
        case Op::gather_rows:
            return kCopyCost * out + kIndexCost * in(1);
        case Op::scatter_add_rows:
            return kFillCost * out + kScatterCost * in(0) + kIndexCost * in(1);
    }
    return out;
}

}  // namespace

Status check_operands(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(node.shape.validate());
    if (node.op == Op::elementwise && arith::find_element_op(node.element) == nullptr)
        return fail("program.unknown_element_op");
    if (node.op != Op::elementwise && static_cast<std::uint8_t>(node.element) != 0)
        return fail("program.unknown_element_op", "only an elementwise node has one");
    if (inputs.size() != input_count(node) || node.inputs.size() != inputs.size())
        return fail("program.bad_input", "the op has " + std::to_string(input_count(node)) + " inputs");
    if (node.attributes.size() != attribute_count(node.op))
        return bad_attribute("the op has " + std::to_string(attribute_count(node.op)) + " attributes");
    for (const OperandType& input : inputs) QUERN_CHECK(input.shape.validate());
    if (node.op != Op::full && node.op != Op::elementwise && node.immediate != 0)
        return fail("program.bad_immediate", "the op has no immediate");

    switch (node.op) {
        case Op::slot:
        case Op::data:
            return {};
        case Op::seed:
            QUERN_CHECK(expect_dtype(node.dtype, DType::i32, "the seed"));
            return expect_shape(node.shape, Shape{{1, 1, 1, 4}}, "the seed");
        case Op::full:
            if (node.dtype == DType::f32 && (node.immediate & 0x7fffffffU) > 0x7f800000U &&
                node.immediate != arith::kCanonicalNan)
                return fail("program.non_canonical_nan", "the immediate is a NaN other than 0x7fc00000");
            return {};
        case Op::iota:
            if (node.attributes[0] > 3) return bad_attribute("there are axes 0 to 3");
            return expect_dtype(node.dtype, DType::i32, "the output");
        case Op::philox:
            QUERN_CHECK(expect_dtype(node.dtype, DType::i32, "the output"));
            QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::i32, "the key"));
            return expect_shape(inputs[0].shape, Shape{{1, 1, 1, 4}}, "the key");
        case Op::elementwise:
            return check_elementwise(node, inputs);
        case Op::matmul:
            return check_matmul(node, inputs);
        case Op::sum_last:
        case Op::max_last:
        case Op::sum_rows:
            return check_reduction(node, inputs[0]);
        case Op::scatter_add_rows:
            return check_scatter(node, inputs);
        case Op::concat:
            QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
            return check_concat(node, inputs);
        case Op::reshape:
            QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
            if (node.shape.elements() == inputs[0].shape.elements()) return {};
            return bad_shape(inputs[0].shape.to_string() + " has not the elements of " + node.shape.to_string());
        case Op::permute:
            QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
            return check_permute(node, inputs[0]);
        case Op::slice:
            QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
            return check_slice(node, inputs[0]);
        case Op::gather_rows:
            QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
            return check_gather(node, inputs);
    }
    return fail("program.unknown_op");
}

Status check_node(const Node& node, std::span<const OperandType> inputs, const ProgramHeader& header) {
    QUERN_CHECK(check_operands(node, inputs));
    if (node.op == Op::slot && node.attributes[0] >= header.slot_count)
        return bad_attribute("there is no slot " + std::to_string(node.attributes[0]));
    if (node.op == Op::data) {
        QUERN_CHECK(expect_dtype(node.dtype, header.data_dtype, "the data"));
        QUERN_CHECK(expect_shape(node.shape, header.data_shape, "the data"));
    }
    return {};
}

std::uint64_t node_work_units(const Node& node, std::span<const OperandType> inputs) {
    const std::uint64_t cost = node_cost(node, inputs);
    return cost / kCostPerUnit + (cost % kCostPerUnit != 0 ? 1 : 0);
}

std::uint64_t work_units(const Program& program) {
    std::uint64_t total = 0;
    std::vector<OperandType> inputs;
    for (const Node& node : program.nodes) {
        inputs.clear();
        for (const std::uint32_t input : node.inputs) {
            if (input >= program.nodes.size()) continue;
            inputs.push_back({program.nodes[input].dtype, program.nodes[input].shape});
        }
        total = saturating_add(total, node_work_units(node, inputs));
    }
    return total;
}

}  // namespace quern::vm::tensor
