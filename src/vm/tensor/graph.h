// The step program: a static graph with forward, loss, backward and optimizer, without control flow. Built by
// compute/program, run by the executor here and by compute/torch, judged node by node on chain. Plain values.
//
// Serialisation (RLP), which is also the file format of programs in the content store; what makes a program valid is
// in doc/program-format.md:
//   program = [header, [node...], [slot...], [update...]]
//   header  = [format, arithmetic, [[data type, elements]...], slot count, slot root, node count, loss slot,
//              start, work, commit work, trace bytes, window bytes, peak bytes, state bytes]
//   node    = [op, element op, dtype, dims, [input node...], immediate, [attribute...]]
//   slot    = [name, dtype, dims, flags]
//   update  = node number
// program_root = list_id(program, 1 + nodes + 2 * slots) with leaves merkle_leaf(header), merkle_leaf(node i)...,
// merkle_leaf(slot i)..., merkle_leaf(update i)...: any of them can be opened to the chain on its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "vm/tensor/arith/element_op.h"
#include "vm/tensor/op_table.h"
#include "vm/tensor/tensor.h"

namespace quern::vm::tensor {

inline constexpr std::uint64_t kProgramFormat = 2;
inline constexpr std::uint64_t kArithmeticVersion = 3;
inline constexpr std::uint64_t kMaxNodes = 1U << 17;
inline constexpr std::uint32_t kMaxSelectColumns = 1U << 16;  // of kth_last's operand: each is 32 micro-steps a tile
inline constexpr std::uint64_t kMaxSlots = 1U << 14;
inline constexpr std::size_t kMaxSlotName = 128;
inline constexpr std::size_t kMaxInputs = 4;
inline constexpr std::size_t kMaxProgramBytes = 8U << 20;
// Of a step, its commitment included; exact in JSON numbers.
inline constexpr std::uint64_t kMaxWorkUnits = 1ULL << 53;
// What a dispute hashes of a step must not take more than so many times its work and the hashing of its state: views
// cost next to nothing to execute, and who disputes hashes them all within its clock. Three seconds of it are any
// step's.
inline constexpr std::uint64_t kMaxTraceFactor = 64;
inline constexpr std::uint64_t kTraceAllowance = 1ULL << 28;  // work units
// A disputed tile's micro-states are made and hashed twice, and making one takes as long as hashing it.
inline constexpr std::uint64_t kMicroTraceFactor = 4;
inline constexpr std::uint64_t kTileHashWork = 410;  // of 4,096 bytes
// No sum wraps: a tensor of n elements has at most n tiles.
static_assert((kMaxNodes + 2 * kMaxSlots) * kMaxTensorElements <= ~std::uint64_t{0} / kTileBytes);
static_assert((kMaxNodes + 1) * kMaxTensorElements <= ~std::uint64_t{0} / kTileHashWork);
static_assert(kMaxWorkUnits <= (~std::uint64_t{0} - kTraceAllowance) / kMaxTraceFactor);

struct Node {
    Op op = Op::full;
    arith::ElementOp element{};             // for Op::elementwise; 0 otherwise
    DType dtype = DType::f32;               // of the output
    Shape shape;                            // of the output
    std::vector<std::uint32_t> inputs;      // earlier nodes
    std::uint32_t immediate = 0;            // full: the word; elementwise: the op's immediate
    std::vector<std::uint32_t> attributes;  // at most 4

    bool operator==(const Node&) const = default;
};

struct Slot {
    std::string name;  // printable ASCII, unique: "model.h.0.attn.w_qkv", "adamw.m.…", "step", "loss"
    DType dtype = DType::f32;
    Shape shape;
    std::uint32_t flags = 0;  // kSlotParameter: exported with the model

    bool operator==(const Slot&) const = default;
};
inline constexpr std::uint32_t kSlotParameter = 1;

// Of the elements of a data tensor, little endian. Read they are words: u8 and u16 by zeros, i8 by its sign.
enum class DataType : std::uint8_t { f32 = 1, i32 = 2, u8 = 3, i8 = 4, u16 = 5 };  // serialised in headers

inline constexpr std::size_t kMaxDataSets = 8;  // of a program
inline constexpr std::uint64_t kMaxDataElements = 1ULL << 48;

// A data tensor: a row of elements, which its content is byte by byte.
struct DataSet {
    DataType type = DataType::u8;
    std::uint64_t elements = 1;

    bool operator==(const DataSet&) const = default;
};
[[nodiscard]] constexpr std::uint64_t element_bytes(DataType type) {
    if (type == DataType::f32 || type == DataType::i32) return 4;
    return type == DataType::u16 ? 2 : 1;
}
[[nodiscard]] constexpr DType word_type(DataType type) { return type == DataType::f32 ? DType::f32 : DType::i32; }
[[nodiscard]] constexpr std::uint64_t data_bytes(const DataSet& data) {
    return data.elements * element_bytes(data.type);
}

// What follows from a program's nodes, slots and updates, beside its work (doc/program-format.md, "Sizes").
struct ProgramSizes {
    std::uint64_t commit_work = 0;  // work units: what hashing the state once costs
    std::uint64_t trace_bytes =
        0;  // what a dispute hashes: tiles of all nodes' outputs, and of one tile's micro-states
    std::uint64_t window_bytes = 0;  // of the tiles of data that a step reads at most
    std::uint64_t peak_bytes = 0;    // of a step that updates in place: the state and what is alive at once
    std::uint64_t state_bytes = 0;   // tiles of all slots

    bool operator==(const ProgramSizes&) const = default;
};

struct ProgramHeader {
    std::uint64_t format = kProgramFormat;
    std::uint64_t arithmetic = kArithmeticVersion;
    std::vector<DataSet> data;  // at most kMaxDataSets
    std::uint64_t slot_count = 0;
    Hash32 slot_root;  // see slot_root()
    std::uint64_t node_count = 0;
    std::uint64_t loss_slot = 0;   // f32 [1,1,1,1]
    std::uint64_t start = 0;       // 1: makes the first state; reserved
    std::uint64_t work_units = 0;  // per step, see work_units()
    ProgramSizes sizes;

    bool operator==(const ProgramHeader&) const = default;
};

struct Program {
    ProgramHeader header;
    std::vector<Node> nodes;
    std::vector<Slot> slots;
    std::vector<std::uint32_t> updates;  // by slot: the node whose output is its value after the step
};

// Sets what in the header follows from the rest: counts, slot root, work and sizes. The nodes may be any.
void complete_header(Program& program);
// Checks everything: counts, order, names, dtypes and shapes against infer_shape, update nodes' types against slots,
// header fields, work units, sizes. Errors: program.* (program.bad_input, program.bad_shape,
// program.wrong_work_units, program.wrong_sizes, ...).
[[nodiscard]] Status validate(const Program& program);
// What can be checked of a header or a slot alone; decoding them checks it. Of a header also what its sizes must be to
// each other, so that the chain, which sees no more of a program, knows of it.
[[nodiscard]] Status check_header(const ProgramHeader& header);
[[nodiscard]] Status check_slot(const Slot& slot);
// Scales of an operand of imatmul whose inner dim is `axis`: one for each strip of kStrip along it, the last one
// shorter.
inline constexpr std::uint32_t kStrip = 256;
[[nodiscard]] Shape strips_of(Shape operand, std::size_t axis);
// Whether the declared dtype and shape of `node` are what its op gives for inputs of these dtypes and shapes.
struct OperandType {
    DType dtype = DType::f32;
    Shape shape;
};
[[nodiscard]] Status check_node(const Node& node, std::span<const OperandType> inputs, const ProgramHeader& header);
// The part of check_node that needs no header: all but the numbers of slot and data and the data's type.
[[nodiscard]] Status check_operands(const Node& node, std::span<const OperandType> inputs);
// Static cost of one step: sum over nodes of a table of costs per op and element (doc/work-units.md), like gas.
// `copies`: of a reshape of what does not lie in its order. Of a window node without the tiles that it reads, which
// depend on the header.
[[nodiscard]] std::uint64_t node_work_units(const Node& node, std::span<const OperandType> inputs, bool copies = false);
[[nodiscard]] std::uint64_t work_units(const Program& program);
// Tiles of data that a window node reads at most, each time that it runs: `data` is what it reads.
[[nodiscard]] std::uint64_t window_tiles(const Node& node, const DataSet& data);
// The same of any node of a program with this header; 0 of one that reads no data.
[[nodiscard]] std::uint64_t window_tiles(const Node& node, const ProgramHeader& header);
// What a step is paid as: its work and the hashing of the state after it.
[[nodiscard]] constexpr std::uint64_t step_work(const ProgramHeader& header) {
    return header.work_units + header.sizes.commit_work;
}
[[nodiscard]] ProgramSizes sizes_of(const Program& program);
// Whether node i is a reshape that copies.
[[nodiscard]] bool copies_operand(const Program& program, std::size_t i);

[[nodiscard]] Bytes encode(const ProgramHeader& header);
[[nodiscard]] Bytes encode(const Slot& slot);
[[nodiscard]] Bytes encode(const Node& node);
[[nodiscard]] Expected<ProgramHeader> decode_header(BytesView bytes);
[[nodiscard]] Expected<Slot> decode_slot(BytesView bytes);
[[nodiscard]] Expected<Node> decode_node(BytesView bytes);
[[nodiscard]] Bytes encode_update(std::uint32_t node);
[[nodiscard]] Expected<std::uint32_t> decode_update(BytesView bytes);
[[nodiscard]] Bytes encode(const Program& program);
[[nodiscard]] Expected<Program> decode_program(BytesView bytes);  // strict, and validated

// Leaves of the program's tree, in order; indices of the parts in it.
[[nodiscard]] std::vector<Hash32> program_leaves(const Program& program);
[[nodiscard]] Hash32 program_root(const Program& program);
// list_id(slots) over the slots' records: two programs of one root have the same state.
[[nodiscard]] Hash32 slot_root(const Program& program);
[[nodiscard]] constexpr std::uint64_t program_leaf_count(const ProgramHeader& h) {
    return 1 + h.node_count + 2 * h.slot_count;
}
[[nodiscard]] constexpr std::uint64_t header_leaf_index() { return 0; }
[[nodiscard]] constexpr std::uint64_t node_leaf_index(std::uint64_t node) { return 1 + node; }
[[nodiscard]] constexpr std::uint64_t update_leaf_index(const ProgramHeader& h, std::uint64_t slot) {
    return 1 + h.node_count + h.slot_count + slot;
}

// The seed tensor of Op::seed: i32 [1,1,1,4], words = first 16 bytes of `beacon`, big endian.
[[nodiscard]] Tensor seed_tensor(const Hash32& beacon);

}  // namespace quern::vm::tensor
