#include "compute/program/description.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {
namespace {

namespace tensor = vm::tensor;
using tensor::Node;
using tensor::Program;

std::vector<std::uint64_t> work_of_nodes(const Program& program) {
    std::vector<std::uint64_t> work;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        std::vector<tensor::OperandType> operands;
        for (const std::uint32_t input : node.inputs)
            operands.push_back({program.nodes[input].dtype, program.nodes[input].shape});
        work.push_back(tensor::node_work_units(node, operands, tensor::copies_operand(program, i)));
    }
    return work;
}

struct Share {
    std::string op;
    std::uint64_t nodes = 0;
    std::uint64_t work = 0;
};
// By operation, the most work first.
std::vector<Share> shares_of(const Program& program, const std::vector<std::uint64_t>& work) {
    std::map<std::string, Share, std::less<>> by_name;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const std::string name(operation_of(program.nodes[i]));
        Share& share = by_name[name];
        share.op = name;
        ++share.nodes;
        share.work += work[i];
    }
    std::vector<Share> shares;
    for (auto& [name, share] : by_name) shares.push_back(std::move(share));
    std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.work > b.work; });
    return shares;
}

std::string_view name_of(tensor::DType dtype) { return dtype == tensor::DType::f32 ? "f32" : "i32"; }
bool is_parameter(const tensor::Slot& slot) { return (slot.flags & tensor::kSlotParameter) != 0; }

// 1234567 as 1,234,567.
std::string grouped(std::uint64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
    return digits;
}
std::string left(std::string_view text, std::size_t width) {
    std::string line(text);
    if (line.size() < width) line.append(width - line.size(), ' ');
    return line;
}
std::string right(const std::string& text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

constexpr std::size_t kNameColumn = 44;
constexpr std::size_t kNumberColumn = 22;

void row(std::string& text, std::string_view name, const std::string& number, std::string_view more = {}) {
    text += "  " + left(name, kNameColumn) + right(number, kNumberColumn);
    if (!more.empty()) text.append("  ").append(more);
    text += '\n';
}

// The share of `part` in `whole`, to a tenth of a percent.
std::string percent(std::uint64_t part, std::uint64_t whole) {
    const auto tenths =
        whole == 0 ? 0
                   : static_cast<std::uint64_t>(static_cast<double>(part) * 1000 / static_cast<double>(whole) + 0.5);
    return right(std::to_string(tenths / 10), 3) + '.' + std::to_string(tenths % 10) + " %";
}

std::string numbered(char kind, std::uint64_t number) { return std::string(1, kind).append(std::to_string(number)); }

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result;
}

}  // namespace

std::string_view operation_of(const Node& node) {
    if (node.op == tensor::Op::elementwise) return tensor::arith::find_element_op(node.element)->name;
    return tensor::find_op(node.op)->name;
}

json::Value dims_of(const tensor::Shape& shape) {
    json::Value dims = json::Value::array();
    for (const std::uint32_t dim : shape.dims) dims.push(dim);
    return dims;
}

std::uint64_t parameter_count(const Program& program) {
    std::uint64_t count = 0;
    for (const tensor::Slot& slot : program.slots)
        if (is_parameter(slot)) count += slot.shape.elements();
    return count;
}

json::Value summarise(const Program& program, std::uint64_t bytes) {
    json::Value result = json::Value::object();
    result.set("program_root", to_hex0x(tensor::program_root(program)));
    result.set("bytes", bytes);
    result.set("work_units", program.header.work_units);
    result.set("commit_work", program.header.sizes.commit_work);
    result.set("slots", program.slots.size());
    result.set("nodes", program.nodes.size());
    result.set("parameters", parameter_count(program));
    result.set("state_bytes", program.header.sizes.state_bytes);
    result.set("peak_bytes", program.header.sizes.peak_bytes);
    json::Value data = json::Value::array();
    for (const tensor::DataSet& set : program.header.data)
        data.push(json::Value::object({{"dtype", std::string(tensor::name_of(set.type))}, {"elements", set.elements}}));
    result.set("data", std::move(data));
    result.set("window_bytes", program.header.sizes.window_bytes);
    return result;
}

json::Value describe(const Program& program, std::uint64_t bytes) {
    json::Value result = summarise(program, bytes);
    result.set("trace_bytes", program.header.sizes.trace_bytes);
    json::Value slots = json::Value::array();
    for (const tensor::Slot& slot : program.slots) {
        json::Value entry = json::Value::object({{"name", slot.name}, {"dtype", name_of(slot.dtype)}});
        entry.set("dims", dims_of(slot.shape));
        entry.set("parameter", is_parameter(slot));
        slots.push(std::move(entry));
    }
    result.set("slot_list", std::move(slots));
    const std::vector<std::uint64_t> work = work_of_nodes(program);
    json::Value operations = json::Value::array();
    for (const Share& share : shares_of(program, work))
        operations.push(json::Value::object({{"op", share.op}, {"nodes", share.nodes}, {"work_units", share.work}}));
    result.set("operations", std::move(operations));
    json::Value largest = json::Value::array();
    for (const std::size_t i : largest_nodes(work)) {
        json::Value entry = json::Value::object({{"node", i}, {"op", operation_of(program.nodes[i])}});
        entry.set("dims", dims_of(program.nodes[i].shape));
        entry.set("work_units", work[i]);
        largest.push(std::move(entry));
    }
    result.set("largest", std::move(largest));
    return result;
}

std::string describe_as_text(const Program& program, std::uint64_t bytes) {
    const std::vector<std::uint64_t> work = work_of_nodes(program);
    std::uint64_t sum = 0;
    for (const std::uint64_t each : work) sum += each;
    const tensor::ProgramSizes& sizes = program.header.sizes;
    std::string text = "program " + to_hex0x(tensor::program_root(program)) + "\n";
    row(text, "bytes of the file", grouped(bytes));
    row(text, "parameters", grouped(parameter_count(program)));
    row(text, "work units of a step", grouped(program.header.work_units));
    row(text, "work units of its commitment", grouped(sizes.commit_work));
    row(text, "bytes of the state", grouped(sizes.state_bytes));
    row(text, "bytes of memory at most", grouped(sizes.peak_bytes));
    row(text, "bytes that a dispute hashes", grouped(sizes.trace_bytes));
    row(text, "bytes of data that a step reads at most", grouped(sizes.window_bytes));
    for (std::size_t i = 0; i < program.header.data.size(); ++i)
        row(text, "elements of data tensor " + std::to_string(i), grouped(program.header.data[i].elements),
            tensor::name_of(program.header.data[i].type));
    text += "\nparameters, by their elements\n";
    std::uint64_t others = 0;
    std::uint64_t other_elements = 0;
    for (const tensor::Slot& slot : program.slots) {
        if (is_parameter(slot)) {
            row(text, slot.name, grouped(slot.shape.elements()), slot.shape.to_string());
        } else {
            ++others;
            other_elements += slot.shape.elements();
        }
    }
    row(text, std::to_string(others) + " other slots (moments, counters, constants)", grouped(other_elements));
    text += "\noperations, by the work units of their nodes\n";
    for (const Share& share : shares_of(program, work))
        row(text, share.op, grouped(share.work), percent(share.work, sum) + "  " + grouped(share.nodes) + " nodes");
    text += "\nnodes with the most work\n";
    for (const std::size_t i : largest_nodes(work))
        row(text, std::to_string(i) + " " + std::string(operation_of(program.nodes[i])), grouped(work[i]),
            program.nodes[i].shape.to_string());
    return text;
}

std::string draw_as_dot(const Program& program) {
    std::string dot = "digraph program {\n  node [shape=box];\n";
    const auto box = [&](const std::string& name, const std::string& label, std::string_view style) {
        dot.append("  ").append(name).append(" [label=\"").append(label).append("\"").append(style).append("];\n");
    };
    const auto edge = [&](std::uint32_t from, const std::string& to) {
        dot.append("  ").append(numbered('n', from)).append(" -> ").append(to).append(";\n");
    };
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        std::string label = std::to_string(i).append(" ").append(operation_of(node));
        const bool is_slot = node.op == tensor::Op::slot;
        if (is_slot) label.append(" ").append(escaped(program.slots[node.attributes[0]].name));
        label.append("\\n").append(node.shape.to_string());
        box(numbered('n', i), label, is_slot ? ", style=filled, fillcolor=lightgrey" : "");
        for (const std::uint32_t input : node.inputs) edge(input, numbered('n', i));
    }
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        const Node& node = program.nodes[program.updates[s]];
        if (node.op == tensor::Op::slot && node.attributes[0] == s) continue;
        box(numbered('s', s), escaped(program.slots[s].name).append("'"),
            ", style=\"rounded,filled\", fillcolor=lightgrey");
        edge(program.updates[s], numbered('s', s));
    }
    return dot + "}\n";
}

}  // namespace quern::compute::program
