// The step program: a static graph with forward, loss, backward and optimizer, without control flow. Built by
// compute/program, run by the executor here and by compute/torch, judged node by node on chain. Plain values.
//
// Serialisation (RLP), which is also the file format of programs in the content store:
//   program = [header, [slot...], [node...]]
//   header  = [format, arithmetic, slot count, node count, data dtype, data dims (list of 4), loss slot,
//              work units per step]
//   slot    = [name, dtype, dims, update node, flags]
//   node    = [op, element op, dtype, dims, [input node...], immediate, [attribute...]]
// program_root = list_id(program, 1 + slots + nodes) with leaves merkle_leaf(header), merkle_leaf(slot i)...,
// merkle_leaf(node i)...: any of them can be opened to the chain on its own.
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

inline constexpr std::uint64_t kProgramFormat = 1;
inline constexpr std::uint64_t kArithmeticVersion = 2;
inline constexpr std::uint64_t kMaxNodes = 1U << 14;
inline constexpr std::uint64_t kMaxSlots = 1U << 12;
inline constexpr std::size_t kMaxSlotName = 128;
inline constexpr std::size_t kMaxInputs = 3;
inline constexpr std::size_t kMaxProgramBytes = 8U << 20;
inline constexpr std::uint64_t kMaxWorkUnits = 1ULL << 53;  // per step; exact in JSON numbers
// A step's outputs must not take more than so many times its work and the hashing of its state to hash: views cost next
// to nothing to execute, and who disputes hashes them all within its clock.
inline constexpr std::uint64_t kMaxTraceFactor = 64;
inline constexpr std::uint64_t kTileHashWork = 410;
static_assert(kMaxNodes * (kMaxTensorElements + 1) <= ~std::uint64_t{0} / kTileHashWork, "trace work does not wrap");
static_assert(kMaxWorkUnits + kMaxSlots * (kMaxTensorElements + 1) * kTileHashWork <=
              ~std::uint64_t{0} / kMaxTraceFactor);

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
    std::uint32_t update_node = 0;  // its output is the slot's value after the step
    std::uint32_t flags = 0;        // kSlotParameter: exported with the model

    bool operator==(const Slot&) const = default;
};
inline constexpr std::uint32_t kSlotParameter = 1;

struct ProgramHeader {
    std::uint64_t format = kProgramFormat;
    std::uint64_t arithmetic = kArithmeticVersion;
    std::uint64_t slot_count = 0;
    std::uint64_t node_count = 0;
    DType data_dtype = DType::i32;
    Shape data_shape;
    std::uint64_t loss_slot = 0;   // f32 [1,1,1,1]
    std::uint64_t work_units = 0;  // per step, see work_units()

    bool operator==(const ProgramHeader&) const = default;
};

struct Program {
    ProgramHeader header;
    std::vector<Slot> slots;
    std::vector<Node> nodes;
};

// Checks everything: counts, order, names, dtypes and shapes against infer_shape, update nodes' types against slots,
// header fields, work units. Errors: program.* (program.bad_input, program.bad_shape, program.wrong_work_units, ...).
[[nodiscard]] Status validate(const Program& program);
// What can be checked of a header or a slot alone; decoding them checks it.
[[nodiscard]] Status check_header(const ProgramHeader& header);
[[nodiscard]] Status check_slot(const Slot& slot);
// Whether the declared dtype and shape of `node` are what its op gives for inputs of these dtypes and shapes.
struct OperandType {
    DType dtype = DType::f32;
    Shape shape;
};
[[nodiscard]] Status check_node(const Node& node, std::span<const OperandType> inputs, const ProgramHeader& header);
// The part of check_node that needs no header: all but the slot's number and the data's type.
[[nodiscard]] Status check_operands(const Node& node, std::span<const OperandType> inputs);
// Static cost of one step: sum over nodes of a table of costs per op and element (doc/work-units.md), like gas.
[[nodiscard]] std::uint64_t node_work_units(const Node& node, std::span<const OperandType> inputs);
[[nodiscard]] std::uint64_t work_units(const Program& program);

[[nodiscard]] Bytes encode(const ProgramHeader& header);
[[nodiscard]] Bytes encode(const Slot& slot);
[[nodiscard]] Bytes encode(const Node& node);
[[nodiscard]] Expected<ProgramHeader> decode_header(BytesView bytes);
[[nodiscard]] Expected<Slot> decode_slot(BytesView bytes);
[[nodiscard]] Expected<Node> decode_node(BytesView bytes);
[[nodiscard]] Bytes encode(const Program& program);
[[nodiscard]] Expected<Program> decode_program(BytesView bytes);  // strict, and validated

// Leaves of the program's tree, in order; indices of the parts in it.
[[nodiscard]] std::vector<Hash32> program_leaves(const Program& program);
[[nodiscard]] Hash32 program_root(const Program& program);
[[nodiscard]] constexpr std::uint64_t program_leaf_count(const ProgramHeader& h) {
    return 1 + h.slot_count + h.node_count;
}
[[nodiscard]] constexpr std::uint64_t header_leaf_index() { return 0; }
[[nodiscard]] constexpr std::uint64_t slot_leaf_index(std::uint64_t slot) { return 1 + slot; }
[[nodiscard]] constexpr std::uint64_t node_leaf_index(const ProgramHeader& h, std::uint64_t node) {
    return 1 + h.slot_count + node;
}

// The seed tensor of Op::seed: i32 [1,1,1,4], words = first 16 bytes of `beacon`, big endian.
[[nodiscard]] Tensor seed_tensor(const Hash32& beacon);

}  // namespace quern::vm::tensor
