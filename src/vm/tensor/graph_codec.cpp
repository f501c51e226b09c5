// Serialisation of programs (grammar in graph.h) and their Merkle root.
#include <algorithm>
#include <limits>

#include "base/rlp.h"
#include "crypto/merkle.h"
#include "vm/tensor/graph.h"

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kMaxAttributes = 4;

void write_shape(rlp::Writer& writer, const Shape& shape) {
    writer.begin_list();
    for (const std::uint32_t dim : shape.dims) writer.integer(std::uint64_t{dim});
    writer.end_list();
}

Expected<std::uint32_t> read_u32(rlp::Reader& reader) {
    QUERN_TRY(const std::uint64_t value, reader.u64());
    if (value > std::numeric_limits<std::uint32_t>::max())
        return fail("program.number_too_large", std::to_string(value) + " is not a 32-bit number");
    return static_cast<std::uint32_t>(value);
}

Expected<DType> read_dtype(rlp::Reader& reader) {
    QUERN_TRY(const std::uint64_t value, reader.u64());
    if (value < static_cast<std::uint64_t>(DType::f32) || value > static_cast<std::uint64_t>(DType::i32))
        return fail("program.unknown_dtype", "no dtype has number " + std::to_string(value));
    return static_cast<DType>(value);
}

Expected<Shape> read_shape(rlp::Reader& reader) {
    QUERN_TRY(rlp::Reader items, reader.list());
    Shape shape;
    for (std::uint32_t& dim : shape.dims) {
        QUERN_TRY(dim, read_u32(items));
    }
    QUERN_CHECK(items.expect_end());
    QUERN_CHECK(shape.validate());
    return shape;
}

Expected<std::vector<std::uint32_t>> read_u32_list(rlp::Reader& reader, std::size_t limit) {
    QUERN_TRY(rlp::Reader items, reader.list());
    std::vector<std::uint32_t> values;
    while (!items.at_end()) {
        if (values.size() == limit)
            return fail("program.list_too_long", "a list of a node has more than " + std::to_string(limit) + " items");
        QUERN_TRY(const std::uint32_t value, read_u32(items));
        values.push_back(value);
    }
    return values;
}

Expected<DataType> read_data_type(rlp::Reader& reader) {
    QUERN_TRY(const std::uint64_t value, reader.u64());
    if (value < static_cast<std::uint64_t>(DataType::f32) || value > static_cast<std::uint64_t>(DataType::u16))
        return fail("program.unknown_dtype", "no data has dtype " + std::to_string(value));
    return static_cast<DataType>(value);
}

// A list longer than a header may have is refused by check_header.
Expected<std::vector<DataSet>> read_data_sets(rlp::Reader& reader) {
    QUERN_TRY(rlp::Reader items, reader.list());
    std::vector<DataSet> sets;
    while (!items.at_end() && sets.size() <= kMaxDataSets) {
        QUERN_TRY(rlp::Reader fields, items.list());
        DataSet data;
        QUERN_TRY(data.type, read_data_type(fields));
        QUERN_TRY(data.elements, fields.u64());
        QUERN_CHECK(fields.expect_end());
        sets.push_back(data);
    }
    return sets;
}

Expected<Op> read_op(rlp::Reader& reader) {
    QUERN_TRY(const std::uint64_t value, reader.u64());
    if (value <= std::numeric_limits<std::uint8_t>::max() && is_op(static_cast<std::uint8_t>(value)))
        return static_cast<Op>(value);
    return fail("program.unknown_op", "no op has number " + std::to_string(value));
}

Expected<arith::ElementOp> read_element_op(rlp::Reader& reader, Op op) {
    QUERN_TRY(const std::uint64_t value, reader.u64());
    const bool known = value <= std::numeric_limits<std::uint8_t>::max() &&
                       arith::find_element_op(static_cast<std::uint8_t>(value)) != nullptr;
    if (op == Op::elementwise ? !known : value != 0)
        return fail("program.unknown_element_op", "no element op of this node has number " + std::to_string(value));
    return static_cast<arith::ElementOp>(value);
}

// Reads a list of encoded parts with one decoder, refusing more than `limit` before reading further.
template <class T>
Expected<std::vector<T>> read_parts(rlp::Reader& reader, std::uint64_t limit, Expected<T> (*decode_part)(BytesView)) {
    QUERN_TRY(rlp::Reader items, reader.list());
    std::vector<T> parts;
    while (!items.at_end()) {
        if (parts.size() == limit)
            return fail("program.too_many_parts", "more than " + std::to_string(limit) + " slots, nodes or updates");
        QUERN_TRY(const rlp::Item item, items.next());
        QUERN_TRY(T part, decode_part(item.whole));
        parts.push_back(std::move(part));
    }
    return parts;
}

}  // namespace

Bytes encode(const ProgramHeader& header) {
    rlp::Writer writer;
    writer.begin_list().integer(header.format).integer(header.arithmetic).begin_list();
    for (const DataSet& data : header.data)
        writer.begin_list().integer(static_cast<std::uint64_t>(data.type)).integer(data.elements).end_list();
    writer.end_list()
        .integer(header.slot_count)
        .bytes(header.slot_root.view())
        .integer(header.node_count)
        .integer(header.loss_slot)
        .integer(header.start)
        .integer(header.work_units)
        .integer(header.sizes.commit_work)
        .integer(header.sizes.trace_bytes)
        .integer(header.sizes.window_bytes)
        .integer(header.sizes.peak_bytes)
        .integer(header.sizes.state_bytes)
        .end_list();
    return std::move(writer).finish();
}

Bytes encode(const Slot& slot) {
    rlp::Writer writer;
    writer.begin_list().bytes(as_bytes(slot.name)).integer(static_cast<std::uint64_t>(slot.dtype));
    write_shape(writer, slot.shape);
    writer.integer(std::uint64_t{slot.flags}).end_list();
    return std::move(writer).finish();
}

Bytes encode(const Node& node) {
    rlp::Writer writer;
    writer.begin_list()
        .integer(static_cast<std::uint64_t>(node.op))
        .integer(static_cast<std::uint64_t>(node.element))
        .integer(static_cast<std::uint64_t>(node.dtype));
    write_shape(writer, node.shape);
    writer.begin_list();
    for (const std::uint32_t input : node.inputs) writer.integer(std::uint64_t{input});
    writer.end_list().integer(std::uint64_t{node.immediate}).begin_list();
    for (const std::uint32_t attribute : node.attributes) writer.integer(std::uint64_t{attribute});
    writer.end_list().end_list();
    return std::move(writer).finish();
}

Bytes encode_update(std::uint32_t node) {
    rlp::Writer writer;
    writer.integer(std::uint64_t{node});
    return std::move(writer).finish();
}

Bytes encode(const Program& program) {
    rlp::Writer writer;
    writer.begin_list().raw(encode(program.header)).begin_list();
    for (const Node& node : program.nodes) writer.raw(encode(node));
    writer.end_list().begin_list();
    for (const Slot& slot : program.slots) writer.raw(encode(slot));
    writer.end_list().begin_list();
    for (const std::uint32_t update : program.updates) writer.raw(encode_update(update));
    writer.end_list().end_list();
    return std::move(writer).finish();
}

Expected<ProgramHeader> decode_header(BytesView bytes) {
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    ProgramHeader header;
    QUERN_TRY(header.format, reader.u64());
    QUERN_TRY(header.arithmetic, reader.u64());
    QUERN_TRY(header.data, read_data_sets(reader));
    QUERN_TRY(header.slot_count, reader.u64());
    QUERN_TRY(header.slot_root, reader.fixed<Hash32::kSize>());
    QUERN_TRY(header.node_count, reader.u64());
    QUERN_TRY(header.loss_slot, reader.u64());
    QUERN_TRY(header.start, reader.u64());
    QUERN_TRY(header.work_units, reader.u64());
    QUERN_TRY(header.sizes.commit_work, reader.u64());
    QUERN_TRY(header.sizes.trace_bytes, reader.u64());
    QUERN_TRY(header.sizes.window_bytes, reader.u64());
    QUERN_TRY(header.sizes.peak_bytes, reader.u64());
    QUERN_TRY(header.sizes.state_bytes, reader.u64());
    QUERN_CHECK(reader.expect_end());
    QUERN_CHECK(check_header(header));
    return header;
}

Expected<Slot> decode_slot(BytesView bytes) {
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    Slot slot;
    QUERN_TRY(const BytesView name, reader.bytes());
    if (name.size() > kMaxSlotName) return fail("program.bad_slot_name", "longer than 128 bytes");
    slot.name = std::string(as_text(name));
    QUERN_TRY(slot.dtype, read_dtype(reader));
    QUERN_TRY(slot.shape, read_shape(reader));
    QUERN_TRY(slot.flags, read_u32(reader));
    QUERN_CHECK(reader.expect_end());
    QUERN_CHECK(check_slot(slot));
    return slot;
}

Expected<Node> decode_node(BytesView bytes) {
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    Node node;
    QUERN_TRY(node.op, read_op(reader));
    QUERN_TRY(node.element, read_element_op(reader, node.op));
    QUERN_TRY(node.dtype, read_dtype(reader));
    QUERN_TRY(node.shape, read_shape(reader));
    QUERN_TRY(node.inputs, read_u32_list(reader, kMaxInputs));
    QUERN_TRY(node.immediate, read_u32(reader));
    QUERN_TRY(node.attributes, read_u32_list(reader, kMaxAttributes));
    QUERN_CHECK(reader.expect_end());
    return node;
}

Expected<std::uint32_t> decode_update(BytesView bytes) {
    rlp::Reader reader(bytes);
    QUERN_TRY(const std::uint32_t node, read_u32(reader));
    QUERN_CHECK(reader.expect_end());
    return node;
}

Expected<Program> decode_program(BytesView bytes) {
    if (bytes.size() > kMaxProgramBytes)
        return fail("program.too_large", std::to_string(bytes.size()) + " bytes, at most 8 MiB");
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    Program program;
    QUERN_TRY(const rlp::Item header, reader.next());
    QUERN_TRY(program.header, decode_header(header.whole));
    QUERN_TRY(program.nodes, read_parts<Node>(reader, kMaxNodes, decode_node));
    QUERN_TRY(program.slots, read_parts<Slot>(reader, kMaxSlots, decode_slot));
    QUERN_TRY(program.updates, read_parts<std::uint32_t>(reader, kMaxSlots, decode_update));
    QUERN_CHECK(reader.expect_end());
    QUERN_CHECK(validate(program));
    return program;
}

std::vector<Hash32> program_leaves(const Program& program) {
    std::vector<Hash32> leaves;
    leaves.reserve(1 + program.nodes.size() + program.slots.size() + program.updates.size());
    leaves.push_back(crypto::merkle_leaf(encode(program.header)));
    for (const Node& node : program.nodes) leaves.push_back(crypto::merkle_leaf(encode(node)));
    for (const Slot& slot : program.slots) leaves.push_back(crypto::merkle_leaf(encode(slot)));
    for (const std::uint32_t update : program.updates) leaves.push_back(crypto::merkle_leaf(encode_update(update)));
    return leaves;
}

Hash32 slot_root(const Program& program) {
    std::vector<Hash32> leaves;
    leaves.reserve(program.slots.size());
    for (const Slot& slot : program.slots) leaves.push_back(crypto::merkle_leaf(encode(slot)));
    return crypto::list_id_of(crypto::MerkleTag::slots, leaves);
}

Hash32 program_root(const Program& program) {
    return crypto::list_id_of(crypto::MerkleTag::program, program_leaves(program));
}

}  // namespace quern::vm::tensor
