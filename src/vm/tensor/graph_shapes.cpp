// What dtype and shape each op gives, and what it costs.
#include <algorithm>
#include <limits>

#include "vm/tensor/graph.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

constexpr std::uint64_t kCostPerUnit = 512;  // fused multiply-adds of a matmul, about 1 kFLOP

std::size_t input_count(const Node& node, const OpInfo& info) {
    if (info.arity != kElementArity) return info.arity;
    const arith::ElementOpInfo* const element = arith::find_element_op(node.element);
    return element == nullptr ? 0 : element->arity;
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

// Of a slot the header says the rest; a full tensor's word may be any.
Status check_any(const Node&, std::span<const OperandType>) { return {}; }

Status check_seed(const Node& node, std::span<const OperandType>) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::i32, "the seed"));
    return expect_shape(node.shape, Shape{{1, 1, 1, 4}}, "the seed");
}

Status check_iota(const Node& node, std::span<const OperandType>) {
    if (node.attributes[0] > 3) return bad_attribute("there are axes 0 to 3");
    return expect_dtype(node.dtype, DType::i32, "the output");
}

Status check_philox(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::i32, "the output"));
    QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::i32, "the key"));
    return expect_shape(inputs[0].shape, Shape{{1, 1, 1, 4}}, "the key");
}

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

// Of the data the header says the rest.
Status check_window(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::i32, "the index"));
    Shape index = node.shape;
    index.dims[3] = 1;
    return expect_shape(inputs[0].shape, index, "the index");
}

// The output's shape, and that the transpose flags are any.
Status check_product(const Node& node, const Shape& a, const Shape& b) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::f32, "the output"));
    if (node.attributes[0] > 1 || node.attributes[1] > 1) return bad_attribute("a transpose flag is 0 or 1");
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

Status check_matmul(const Node& node, std::span<const OperandType> inputs) {
    for (const OperandType& input : inputs) QUERN_CHECK(expect_dtype(input.dtype, DType::f32, "an input"));
    return check_product(node, inputs[0].shape, inputs[1].shape);
}

Status check_imatmul(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(check_product(node, inputs[0].shape, inputs[2].shape));
    for (const std::size_t operand : {0U, 2U}) {
        QUERN_CHECK(expect_dtype(inputs[operand].dtype, DType::i32, "an operand"));
        QUERN_CHECK(expect_dtype(inputs[operand + 1].dtype, DType::f32, "an operand's scales"));
        const bool inner_is_rows = operand == 0 ? node.attributes[0] != 0 : node.attributes[1] == 0;
        QUERN_CHECK(expect_shape(inputs[operand + 1].shape, strips_of(inputs[operand].shape, inner_is_rows ? 2 : 3),
                                 "the operand's scales"));
    }
    return {};
}

Status check_reduction(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::f32, "the output"));
    QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::f32, "the input"));
    Shape result = inputs[0].shape;
    result.dims[node.op == Op::sum_rows ? 2 : 3] = 1;
    return expect_shape(node.shape, result, "the output");
}

Status check_kth(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, DType::i32, "the output"));
    QUERN_CHECK(expect_dtype(inputs[0].dtype, DType::i32, "the input"));
    Shape result = inputs[0].shape;
    if (result.columns() > kMaxSelectColumns)
        return bad_shape("rows of " + std::to_string(result.columns()) + " words to select from, at most " +
                         std::to_string(kMaxSelectColumns));
    if (node.attributes[0] == 0 || node.attributes[0] > result.columns())
        return bad_attribute("word " + std::to_string(node.attributes[0]) + " of " + std::to_string(result.columns()));
    result.dims[3] = 1;
    return expect_shape(node.shape, result, "the output");
}

bool is_index_of(const Shape& index, std::uint32_t d0, std::uint32_t d1, std::uint32_t rows) {
    return index == Shape{{d0, d1, 1, rows}} || index == Shape{{d0, d1, rows, 1}};
}

Status check_gather(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(expect_dtype(node.dtype, inputs[0].dtype, "the output"));
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

struct Rule {
    Op op{};
    Status (*check)(const Node&, std::span<const OperandType>) = nullptr;
};
constexpr std::array<Rule, 16> kRules{{
    {Op::slot, check_any},
    {Op::seed, check_seed},
    {Op::full, check_any},
    {Op::iota, check_iota},
    {Op::philox, check_philox},
    {Op::elementwise, check_elementwise},
    {Op::window, check_window},
    {Op::matmul, check_matmul},
    {Op::sum_last, check_reduction},
    {Op::max_last, check_reduction},
    {Op::sum_rows, check_reduction},
    {Op::kth_last, check_kth},
    {Op::imatmul, check_imatmul},
    {Op::philox_words, check_philox},
    {Op::gather_rows, check_gather},
    {Op::scatter_add_rows, check_scatter},
}};
static_assert(covers(kRules, [](const OpInfo& info) { return info.kind != OpKind::structural; }));

// Cost of a node in fused multiply-adds. Fits: an operand has at most 2^31 elements, so a matmul of tiles at most 2^58,
// and what products of bytes read of their operands is at most 2^48 words.
std::uint64_t node_cost(const Node& node, const OpInfo& info, std::span<const OperandType> inputs, bool copies) {
    const std::uint64_t out = node.shape.elements();
    const auto in = [&](std::size_t i) { return i < inputs.size() ? inputs[i].shape.elements() : 0; };
    if (copies) return detail::kPermute * out;
    std::uint64_t per_output = info.cost.output;
    if (info.kind == OpKind::elementwise) {
        const arith::ElementOpInfo* const element = arith::find_element_op(node.element);
        per_output = element == nullptr ? 1 : element->work;
    } else if (info.micro_steps == MicroSteps::inner_tiles || info.micro_steps == MicroSteps::inner_tiles_and_scales) {
        // As if sides were multiples of 32: narrow products wait for their operands' words.
        const bool known = !inputs.empty() && !node.attributes.empty();
        const std::uint64_t inner = known ? inputs[0].shape.dims[node.attributes[0] != 0 ? 2 : 3] : 1;
        const bool of_bytes = info.micro_steps == MicroSteps::inner_tiles_and_scales;
        const std::uint64_t steps = of_bytes ? (inner + 3) / 4 : inner;
        const auto whole = [](std::uint64_t side) { return (side + kTileSide - 1) / kTileSide * kTileSide; };
        const std::uint64_t lines = node.shape.leading() * (std::uint64_t{node.shape.rows()} + node.shape.columns());
        return node.shape.leading() * whole(node.shape.rows()) * whole(node.shape.columns()) *
                   (steps + detail::kProduct) +
               (of_bytes ? detail::kByte * lines * inner : 0);
    }
    return info.cost.node + per_output * out + info.cost.first * in(0) + info.cost.second * in(1);
}

}  // namespace

Shape strips_of(Shape operand, std::size_t axis) {
    operand.dims[axis] = (operand.dims[axis] - 1) / kStrip + 1;
    return operand;
}

Status check_operands(const Node& node, std::span<const OperandType> inputs) {
    QUERN_CHECK(node.shape.validate());
    const OpInfo* const info = find_op(node.op);
    if (info == nullptr) return fail("program.unknown_op");
    if (info->kind == OpKind::elementwise && arith::find_element_op(node.element) == nullptr)
        return fail("program.unknown_element_op");
    if (info->kind != OpKind::elementwise && static_cast<std::uint8_t>(node.element) != 0)
        return fail("program.unknown_element_op", "only an elementwise node has one");
    const std::size_t count = input_count(node, *info);
    if (inputs.size() != count || node.inputs.size() != count)
        return fail("program.bad_input", "the op has " + std::to_string(count) + " inputs");
    if (node.attributes.size() != info->attributes)
        return bad_attribute("the op has " + std::to_string(info->attributes) + " attributes");
    for (const OperandType& input : inputs) QUERN_CHECK(input.shape.validate());
    if (!info->has_immediate && node.immediate != 0) return fail("program.bad_immediate", "the op has no immediate");
    if (info->kind == OpKind::structural) return check_structural(node, inputs);
    return find_entry(kRules, node.op)->check(node, inputs);
}

Status check_node(const Node& node, std::span<const OperandType> inputs, const ProgramHeader& header) {
    QUERN_CHECK(check_operands(node, inputs));
    if (node.op == Op::slot && node.attributes[0] >= header.slot_count)
        return bad_attribute("there is no slot " + std::to_string(node.attributes[0]));
    if (node.op == Op::window) {
        if (node.attributes[0] >= header.data.size())
            return bad_attribute("there is no data tensor " + std::to_string(node.attributes[0]));
        QUERN_CHECK(expect_dtype(node.dtype, word_type(header.data[node.attributes[0]].type), "the output"));
    }
    return {};
}

std::uint64_t node_work_units(const Node& node, std::span<const OperandType> inputs, bool copies) {
    const OpInfo* const info = find_op(node.op);
    const std::uint64_t cost = info == nullptr ? node.shape.elements() : node_cost(node, *info, inputs, copies);
    return cost / kCostPerUnit + (cost % kCostPerUnit != 0 ? 1 : 0);
}

// A window begins at any element, so that it may read a byte of one tile more than it fills.
std::uint64_t window_tiles(const Node& node, const DataSet& data) {
    const std::uint64_t rows = node.shape.leading() * node.shape.rows();
    const std::uint64_t behind_first = (std::uint64_t{node.shape.columns()} - 1) * element_bytes(data.type);
    return rows * ((behind_first + kTileBytes - 1) / kTileBytes + 1);
}

std::uint64_t window_tiles(const Node& node, const ProgramHeader& header) {
    if (!is_kind(node.op, OpKind::window) || node.attributes.empty() || node.attributes[0] >= header.data.size() ||
        !node.shape.validate())
        return 0;
    return window_tiles(node, header.data[node.attributes[0]]);
}

std::uint64_t work_units(const Program& program) {
    std::uint64_t total = 0;
    std::vector<OperandType> inputs;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        inputs.clear();
        for (const std::uint32_t input : node.inputs) {
            if (input >= program.nodes.size()) continue;
            inputs.push_back({program.nodes[input].dtype, program.nodes[input].shape});
        }
        total = saturating_add(total, node_work_units(node, inputs, copies_operand(program, i)));
        total = saturating_add(total, kTileHashWork * window_tiles(node, program.header));
    }
    return total;
}

}  // namespace quern::vm::tensor
