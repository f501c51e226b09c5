// No floating-point type may appear in this file: what it computes is part of the chain's verdict.
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using Inputs = std::span<const OperandType>;

Status bad_shape(std::string detail) { return fail("program.bad_shape", std::move(detail)); }
Status bad_attribute(std::string detail) { return fail("program.bad_attribute", std::move(detail)); }

// --- reshape
Status check_reshape(const Node& node, Inputs inputs) {
    if (node.shape.elements() == inputs[0].shape.elements()) return {};
    return bad_shape(inputs[0].shape.to_string() + " has not the elements of " + node.shape.to_string());
}
ElementSource reshape_source(const Node& node, Inputs inputs, const Coordinates& at) {
    return {0, coordinates_of(inputs[0].shape, logical_index(node.shape, at))};
}
bool reshape_view(const Node& node, const Shape& input, const Strides& strides, Strides& result, std::ptrdiff_t&) {
    return reshape_strides(input, strides, node.shape, result);
}

// --- permute
Status check_permute(const Node& node, Inputs inputs) {
    std::uint32_t seen = 0;
    for (const std::uint32_t axis : node.attributes) {
        if (axis > 3 || (seen >> axis & 1U) != 0) return bad_attribute("the axes are not a permutation of 0..3");
        seen |= 1U << axis;
    }
    Shape result;
    for (std::size_t d = 0; d < 4; ++d) result.dims[d] = inputs[0].shape.dims[node.attributes[d]];
    if (node.shape == result) return {};
    return bad_shape("the output is " + node.shape.to_string() + ", not " + result.to_string());
}
ElementSource permute_source(const Node& node, Inputs, const Coordinates& at) {
    ElementSource source{0, at};
    for (std::size_t d = 0; d < 4; ++d) source.at[node.attributes[d]] = at[d];
    return source;
}
bool permute_view(const Node& node, const Shape&, const Strides& strides, Strides& result, std::ptrdiff_t&) {
    for (std::size_t d = 0; d < 4; ++d) result[d] = strides[node.attributes[d]];
    return true;
}

// --- slice
Status check_slice(const Node& node, Inputs inputs) {
    for (std::size_t d = 0; d < 4; ++d)
        if (std::uint64_t{node.attributes[d]} + node.shape.dims[d] > inputs[0].shape.dims[d])
            return bad_shape("the slice leaves " + inputs[0].shape.to_string());
    return {};
}
ElementSource slice_source(const Node& node, Inputs, const Coordinates& at) {
    ElementSource source{0, at};
    for (std::size_t d = 0; d < 4; ++d) source.at[d] += node.attributes[d];
    return source;
}
bool slice_view(const Node& node, const Shape&, const Strides& strides, Strides& result, std::ptrdiff_t& offset) {
    result = strides;
    for (std::size_t d = 0; d < 4; ++d) offset += static_cast<std::ptrdiff_t>(node.attributes[d]) * strides[d];
    return true;
}

// --- concat
Status check_concat(const Node& node, Inputs inputs) {
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
ElementSource concat_source(const Node& node, Inputs inputs, const Coordinates& at) {
    const std::size_t axis = node.attributes[0];
    const std::uint64_t first = inputs[0].shape.dims[axis];
    if (at[axis] < first) return {0, at};
    ElementSource source{1, at};
    source.at[axis] -= first;
    return source;
}

// ---------------------------------------------------------------------------------------------------------------------
struct Structural {
    Op op{};
    Status (*check)(const Node&, Inputs) = nullptr;
    ElementSource (*source)(const Node&, Inputs, const Coordinates&) = nullptr;
    bool (*view)(const Node&, const Shape&, const Strides&, Strides&,
                 std::ptrdiff_t&) = nullptr;  // of an OpInfo::is_view
};
constexpr std::array<Structural, 4> kStructural{{
    {Op::reshape, check_reshape, reshape_source, reshape_view},
    {Op::permute, check_permute, permute_source, permute_view},
    {Op::slice, check_slice, slice_source, slice_view},
    {Op::concat, check_concat, concat_source, nullptr},
}};
constexpr bool views_agree() {
    for (const Structural& entry : kStructural)
        if (find_op(entry.op)->is_view != (entry.view != nullptr)) return false;
    return true;
}
static_assert(covers(kStructural, [](const OpInfo& info) { return info.kind == OpKind::structural; }));
static_assert(views_agree(), "kOps says which ops are views, this table how");

}  // namespace

Status check_structural(const Node& node, std::span<const OperandType> inputs) {
    if (node.dtype != inputs[0].dtype)
        return fail("program.bad_dtype",
                    std::string("the output must be ") + (inputs[0].dtype == DType::f32 ? "f32" : "i32"));
    return find_entry(kStructural, node.op)->check(node, inputs);
}

ElementSource copy_source(const Node& node, std::span<const OperandType> inputs, const Coordinates& at) {
    return find_entry(kStructural, node.op)->source(node, inputs, at);
}

bool view_of(const Node& node, const Shape& input, const Strides& strides, Strides& result, std::ptrdiff_t& offset) {
    const Structural* const entry = find_entry(kStructural, node.op);
    return entry != nullptr && entry->view != nullptr && entry->view(node, input, strides, result, offset);
}

}  // namespace quern::vm::tensor
