// What a program is, for people and for scripts: sizes, slots, what a step's work goes into, and the graph as a
// drawing. Used by quern-compile. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "vm/tensor/graph.h"

namespace quern::compute::program {

inline constexpr std::size_t kLargestNodes = 10;  // that are told of

// A node's operation, of an elementwise one which: "matmul", "tanh".
[[nodiscard]] std::string_view operation_of(const vm::tensor::Node& node);
// Numbers of the kLargestNodes nodes of which there is most, by node: the most first, of equal ones the first.
template <class Number>
[[nodiscard]] std::vector<std::size_t> largest_nodes(const std::vector<Number>& by_node) {
    std::vector<std::size_t> order(by_node.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = std::min(kLargestNodes, order.size());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
        [&](std::size_t a, std::size_t b) { return by_node[a] != by_node[b] ? by_node[a] > by_node[b] : a < b; });
    order.resize(count);
    return order;
}

// As a list of four.
[[nodiscard]] json::Value dims_of(const vm::tensor::Shape& shape);
// Elements of all slots that are exported with the model.
[[nodiscard]] std::uint64_t parameter_count(const vm::tensor::Program& program);

// Root, counts, work units of a step and sizes. `bytes`: of the program's file.
[[nodiscard]] json::Value summarise(const vm::tensor::Program& program, std::uint64_t bytes);

// The same, with "slot_list" ("name", "dtype", "dims", "parameter"), "operations" ("op", "nodes", "work_units"; those
// of an elementwise node by its operation; the most work first), "largest" nodes by work ("node", "op", "dims",
// "work_units").
[[nodiscard]] json::Value describe(const vm::tensor::Program& program, std::uint64_t bytes);

// As lines of text, each ending with '\n': the same, parameters with their elements, other slots by their sizes.
[[nodiscard]] std::string describe_as_text(const vm::tensor::Program& program, std::uint64_t bytes);

// The graph in the DOT language of Graphviz: a box for each node, from its operands to it, and a rounded one for what a
// slot becomes, where that is not its own value.
[[nodiscard]] std::string draw_as_dot(const vm::tensor::Program& program);

}  // namespace quern::compute::program
