#include "vm/tensor/graph.h"

#include <algorithm>

namespace quern::vm::tensor {
namespace {

std::string at_node(std::size_t node, const Error& error) {
    return "node " + std::to_string(node) + (error.detail.empty() ? "" : ": " + error.detail);
}

Status check_slots(const Program& program) {
    std::vector<std::string_view> names;
    names.reserve(program.slots.size());
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        const Slot& slot = program.slots[i];
        QUERN_CHECK(check_slot(slot));
        names.push_back(slot.name);
        if (program.updates[i] >= program.nodes.size())
            return fail("program.bad_update_node", "slot " + slot.name + " names a node that does not exist");
        const Node& update = program.nodes[program.updates[i]];
        if (update.dtype != slot.dtype || update.shape != slot.shape)
            return fail("program.bad_update_node", "the update of slot " + slot.name + " has another type");
    }
    std::sort(names.begin(), names.end());
    if (const auto same = std::adjacent_find(names.begin(), names.end()); same != names.end())
        return fail("program.duplicate_slot_name", std::string(*same));
    const Slot& loss = program.slots[program.header.loss_slot];
    if (loss.dtype != DType::f32 || loss.shape != Shape{})
        return fail("program.bad_loss_slot", "the loss is f32 [1,1,1,1]");
    return {};
}

Status check_nodes(const Program& program) {
    std::vector<OperandType> inputs;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        inputs.clear();
        if (node.inputs.size() > kMaxInputs) return fail("program.bad_input", "node " + std::to_string(i));
        for (const std::uint32_t input : node.inputs) {
            if (input >= i) return fail("program.bad_input", "node " + std::to_string(i) + " reads a later node");
            inputs.push_back({program.nodes[input].dtype, program.nodes[input].shape});
        }
        if (const Status status = check_node(node, inputs, program.header); !status)
            return detailed(status.error(), at_node(i, status.error()));
        if (node.op == Op::slot) {
            const Slot& slot = program.slots[node.attributes[0]];
            if (node.dtype != slot.dtype || node.shape != slot.shape)
                return fail("program.bad_input",
                            "node " + std::to_string(i) + " has another type than slot " + slot.name);
        }
    }
    return {};
}

Status check_data_sets(const ProgramHeader& header) {
    if (header.data.size() > kMaxDataSets)
        return fail("program.wrong_count", "more than " + std::to_string(kMaxDataSets) + " data tensors");
    for (const DataSet& data : header.data) {
        if (data.type < DataType::f32 || data.type > DataType::u16) return fail("program.unknown_dtype", "of the data");
        if (data.elements == 0 || data.elements > kMaxDataElements)
            return fail("program.bad_data", std::to_string(data.elements) + " elements");
    }
    return {};
}

// What each size must be, given the others and the counts.
Status check_sizes(const ProgramHeader& header) {
    const ProgramSizes& sizes = header.sizes;
    const auto tiles = [](std::uint64_t bytes) { return bytes / kTileBytes; };
    const auto is_size = [&](std::uint64_t bytes, std::uint64_t tensors) {
        return bytes % kTileBytes == 0 && tiles(bytes) <= tensors * kMaxTensorElements;
    };
    if (!is_size(sizes.state_bytes, header.slot_count) || tiles(sizes.state_bytes) < header.slot_count)
        return fail("program.wrong_sizes", "a state of " + std::to_string(sizes.state_bytes) + " bytes");
    if (!is_size(sizes.trace_bytes, std::uint64_t{header.node_count} + 1))
        return fail("program.wrong_sizes", "a trace of " + std::to_string(sizes.trace_bytes) + " bytes");
    if (!is_size(sizes.peak_bytes, header.node_count + 2 * header.slot_count) || sizes.peak_bytes < sizes.state_bytes)
        return fail("program.wrong_sizes", "a peak of " + std::to_string(sizes.peak_bytes) + " bytes");
    if (!is_size(sizes.window_bytes, header.node_count) || (sizes.window_bytes != 0 && header.data.empty()))
        return fail("program.wrong_sizes", "windows of " + std::to_string(sizes.window_bytes) + " bytes");
    if (tiles(sizes.window_bytes) > header.work_units / kTileHashWork)
        return fail("program.wrong_sizes", "the work has not the hashing of the tiles that windows read");
    if (sizes.commit_work != tiles(sizes.state_bytes) * kTileHashWork)
        return fail("program.wrong_sizes", "commit work " + std::to_string(sizes.commit_work));
    if (header.work_units > kMaxWorkUnits || sizes.commit_work > kMaxWorkUnits - header.work_units)
        return fail("program.too_much_work", std::to_string(header.work_units) + " work units in a step and " +
                                                 std::to_string(sizes.commit_work) + " in its commitment");
    const std::uint64_t most = kMaxTraceFactor * step_work(header) + kTraceAllowance;
    const std::uint64_t work = tiles(sizes.trace_bytes) * kTileHashWork;
    if (work <= most) return {};
    return fail("program.trace_too_large",
                "what a dispute hashes takes " + std::to_string(work) + " work units, at most " + std::to_string(most));
}

}  // namespace

Status check_header(const ProgramHeader& header) {
    if (header.format != kProgramFormat)
        return fail("program.unknown_format", "format " + std::to_string(header.format));
    if (header.arithmetic != kArithmeticVersion)
        return fail("program.unknown_arithmetic", "arithmetic " + std::to_string(header.arithmetic));
    if (header.slot_count == 0 || header.slot_count > kMaxSlots)
        return fail("program.wrong_count", std::to_string(header.slot_count) + " slots");
    if (header.node_count == 0 || header.node_count > kMaxNodes)
        return fail("program.wrong_count", std::to_string(header.node_count) + " nodes");
    if (header.loss_slot >= header.slot_count) return fail("program.bad_loss_slot", "there is no such slot");
    if (header.start != 0) return fail("program.bad_start", "no program makes a first state");
    QUERN_CHECK(check_data_sets(header));
    return check_sizes(header);
}

Status check_slot(const Slot& slot) {
    if (slot.name.empty() || slot.name.size() > kMaxSlotName)
        return fail("program.bad_slot_name", "a name has 1 to 128 characters");
    if (std::any_of(slot.name.begin(), slot.name.end(), [](char c) { return c <= ' ' || c > '~'; }))
        return fail("program.bad_slot_name", "a name is printable ASCII without spaces");
    if ((slot.flags & ~kSlotParameter) != 0) return fail("program.bad_slot_flags", slot.name);
    if (slot.dtype != DType::f32 && slot.dtype != DType::i32) return fail("program.unknown_dtype", slot.name);
    return slot.shape.validate();
}

Status validate(const Program& program) {
    QUERN_CHECK(check_header(program.header));
    if (program.slots.size() != program.header.slot_count || program.nodes.size() != program.header.node_count ||
        program.updates.size() != program.header.slot_count)
        return fail("program.wrong_count", "the header's counts are not the program's");
    QUERN_CHECK(check_nodes(program));
    QUERN_CHECK(check_slots(program));
    if (const std::uint64_t work = work_units(program); work != program.header.work_units)
        return fail("program.wrong_work_units",
                    std::to_string(work) + ", the header says " + std::to_string(program.header.work_units));
    if (sizes_of(program) != program.header.sizes)
        return fail("program.wrong_sizes", "the header says others than the program has");
    if (slot_root(program) != program.header.slot_root)
        return fail("program.wrong_slot_root", "the header names another than the slots have");
    return {};
}

void complete_header(Program& program) {
    program.header.slot_count = program.slots.size();
    program.header.slot_root = slot_root(program);
    program.header.node_count = program.nodes.size();
    program.header.work_units = work_units(program);
    program.header.sizes = sizes_of(program);
}

Tensor seed_tensor(const Hash32& beacon) {
    Tensor seed{DType::i32, Shape{{1, 1, 1, 4}}, std::vector<std::uint32_t>(4)};
    for (std::size_t i = 0; i < 16; ++i) seed.words[i / 4] = seed.words[i / 4] << 8 | beacon.data[i];
    return seed;
}

}  // namespace quern::vm::tensor
