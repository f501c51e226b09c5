#include "vm/tensor/graph.h"

#include <gtest/gtest.h>

#include "base/rlp.h"
#include "crypto/merkle.h"
#include "test_programs.h"

namespace quern::vm::tensor {
namespace {

using arith::ElementOp;

std::string_view error_of(const Status& status) { return status ? std::string_view("none") : status.error().name; }
template <class T>
std::string_view error_of(const Expected<T>& value) {
    return value ? std::string_view("none") : value.error().name;
}

TEST(ProgramCodec, round_trips) {
    for (const Program& program : {test::every_op_program(), test::training_program(8, 4, 32)}) {
        const Bytes bytes = encode(program);
        const auto decoded = decode_program(bytes);
        ASSERT_TRUE(decoded) << decoded.error().to_string();
        EXPECT_EQ(decoded->header, program.header);
        EXPECT_EQ(decoded->slots, program.slots);
        EXPECT_EQ(decoded->nodes, program.nodes);
        EXPECT_EQ(decoded->updates, program.updates);
        EXPECT_EQ(encode(*decoded), bytes);
        EXPECT_EQ(program_root(*decoded), program_root(program));
    }
}

TEST(ProgramCodec, every_part_opens_to_the_root) {
    const Program program = test::training_program(8, 4, 32);
    const std::vector<Hash32> leaves = program_leaves(program);
    const Hash32 root = program_root(program);
    ASSERT_EQ(leaves.size(), program_leaf_count(program.header));
    const auto opens = [&](const Bytes& part, std::uint64_t index) {
        return static_cast<bool>(crypto::check_list_path(crypto::MerkleTag::program, root, crypto::merkle_leaf(part),
                                                         index, leaves.size(), crypto::merkle_path(leaves, index)));
    };
    EXPECT_TRUE(opens(encode(program.header), header_leaf_index()));
    for (std::size_t i = 0; i < program.nodes.size(); ++i)
        EXPECT_TRUE(opens(encode(program.nodes[i]), node_leaf_index(i)));
    for (std::size_t i = 0; i < program.slots.size(); ++i) {
        EXPECT_TRUE(opens(encode(program.slots[i]), 1 + program.nodes.size() + i));
        EXPECT_TRUE(opens(encode_update(program.updates[i]), update_leaf_index(program.header, i)));
    }
    EXPECT_FALSE(opens(encode(program.nodes[3]), node_leaf_index(4)));
}

TEST(ProgramCodec, any_change_of_a_part_changes_the_root) {
    const Program program = test::training_program(8, 4, 32);
    const Hash32 root = program_root(program);
    Program other = program;
    other.header.work_units += 1;
    EXPECT_NE(program_root(other), root);
    other = program;
    other.slots[1].flags = kSlotParameter;
    EXPECT_NE(program_root(other), root);
    EXPECT_NE(slot_root(other), slot_root(program));
    other = program;
    other.updates[1] += 1;
    EXPECT_NE(program_root(other), root);
    EXPECT_EQ(slot_root(other), slot_root(program));
    other = program;
    other.nodes.back().attributes.push_back(0);
    EXPECT_NE(program_root(other), root);
    other = program;
    std::swap(other.nodes[4], other.nodes[5]);
    EXPECT_NE(program_root(other), root);
}

TEST(ProgramCodec, every_truncation_is_an_error) {
    const Bytes bytes = encode(test::training_program(8, 4, 32));
    for (std::size_t size = 0; size < bytes.size(); ++size)
        ASSERT_FALSE(decode_program(BytesView(bytes).first(size))) << size;
    Bytes longer = bytes;
    longer.push_back(0);
    EXPECT_EQ(error_of(decode_program(longer)), "rlp.trailing_bytes");
}

TEST(ProgramCodec, a_changed_byte_never_passes_as_the_same_program) {
    const Program program = test::training_program(8, 4, 32);
    const Bytes bytes = encode(program);
    const Hash32 root = program_root(program);
    test::Random random(31);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        Bytes changed = bytes;
        changed[i] = static_cast<std::uint8_t>(changed[i] ^ (1 + random.below(255)));
        const auto decoded = decode_program(changed);
        if (!decoded) continue;
        EXPECT_EQ(encode(*decoded), changed) << i;  // only canonical encodings are taken
        EXPECT_NE(program_root(*decoded), root) << i;
    }
}

// A node's encoding with one field replaced.
Bytes node_bytes(std::uint64_t op, std::uint64_t element, std::uint64_t dtype, std::vector<std::uint64_t> dims,
                 std::vector<std::uint64_t> inputs, std::uint64_t immediate, std::vector<std::uint64_t> attributes) {
    rlp::Writer writer;
    const auto list = [&](const std::vector<std::uint64_t>& values) {
        writer.begin_list();
        for (const std::uint64_t value : values) writer.integer(value);
        writer.end_list();
    };
    writer.begin_list().integer(op).integer(element).integer(dtype);
    list(dims);
    list(inputs);
    writer.integer(immediate);
    list(attributes);
    writer.end_list();
    return std::move(writer).finish();
}

TEST(ProgramCodec, nodes_with_fields_out_of_range_are_refused) {
    const std::uint64_t add = 16;
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2}, {0, 1}, 0, {}))), "none");
    EXPECT_EQ(error_of(decode_node(node_bytes(6, 0, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_op");
    EXPECT_EQ(error_of(decode_node(node_bytes(264, add, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_op");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, 0, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_element_op");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, 272, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_element_op");
    EXPECT_EQ(error_of(decode_node(node_bytes(16, add, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_element_op");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 3, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_dtype");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 0, {1, 1, 2, 2}, {}, 0, {}))), "program.unknown_dtype");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2}, {}, 0, {}))), "rlp.truncated");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2, 2}, {}, 0, {}))), "rlp.trailing_bytes");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 0, 2}, {}, 0, {}))), "tensor.bad_shape");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 1ULL << 31, 2}, {}, 0, {}))), "tensor.bad_shape");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 1ULL << 32, 2}, {}, 0, {}))),
              "program.number_too_large");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2}, {0, 0, 0, 0, 0}, 0, {}))),
              "program.list_too_long");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2}, {1ULL << 32}, 0, {}))),
              "program.number_too_large");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2}, {}, 1ULL << 32, {}))),
              "program.number_too_large");
    EXPECT_EQ(error_of(decode_node(node_bytes(8, add, 1, {1, 1, 2, 2}, {}, 0, {0, 0, 0, 0, 0}))),
              "program.list_too_long");
}

TEST(ProgramCodec, oversized_programs_are_refused_before_they_are_read) {
    EXPECT_EQ(error_of(decode_program(Bytes(kMaxProgramBytes + 1))), "program.too_large");
    // More parts than allowed: each is small, and reading stops at the limit.
    const Program program = test::training_program(8, 4, 32);
    rlp::Writer writer;
    writer.begin_list().raw(encode(program.header)).begin_list().end_list().begin_list();
    for (std::size_t i = 0; i <= kMaxSlots; ++i) writer.raw(encode(program.slots[0]));
    writer.end_list().begin_list().end_list().end_list();
    EXPECT_EQ(error_of(decode_program(std::move(writer).finish())), "program.too_many_parts");
}

TEST(ProgramCodec, slot_names_are_short_printable_and_unique) {
    const auto decoded = [](const std::string& name) {
        return error_of(decode_slot(encode(Slot{name, DType::f32, {}, 0})));
    };
    EXPECT_EQ(decoded("adamw.m.w_qkv"), "none");
    EXPECT_EQ(decoded(""), "program.bad_slot_name");
    EXPECT_EQ(decoded("a b"), "program.bad_slot_name");
    EXPECT_EQ(decoded("a\n"), "program.bad_slot_name");
    EXPECT_EQ(decoded("\xc3\xa9"), "program.bad_slot_name");
    EXPECT_EQ(decoded(std::string(128, 'x')), "none");
    EXPECT_EQ(decoded(std::string(129, 'x')), "program.bad_slot_name");
    EXPECT_EQ(error_of(decode_slot(encode(Slot{"w", DType::f32, {}, 2}))), "program.bad_slot_flags");
}

TEST(ProgramValidation, wrong_programs_are_named) {
    const Program program = test::training_program(8, 4, 32);
    const auto changed = [&](auto change) {
        Program other = program;
        change(other);
        return error_of(validate(other));
    };
    const auto first = [&](Op op) {
        std::size_t i = 0;
        while (program.nodes[i].op != op) ++i;
        return i;
    };
    EXPECT_EQ(changed([](Program&) {}), "none");
    EXPECT_EQ(changed([](Program& p) { p.header.format = 1; }), "program.unknown_format");
    EXPECT_EQ(changed([](Program& p) { p.header.arithmetic = 0; }), "program.unknown_arithmetic");
    EXPECT_EQ(changed([](Program& p) { p.slots.pop_back(); }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.updates.push_back(0); }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.header.slot_count = kMaxSlots + 1; }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.header.data.resize(9); }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.header.data[0].elements = 0; }), "program.bad_data");
    EXPECT_EQ(changed([](Program& p) { p.header.data[0].elements = (1ULL << 48) + 1; }), "program.bad_data");
    EXPECT_EQ(changed([](Program& p) { p.header.data[0].elements = 1ULL << 48; }), "none") << "nobody has to hold it";
    EXPECT_EQ(changed([](Program& p) { p.header.data[0].type = static_cast<DataType>(6); }), "program.unknown_dtype");
    EXPECT_EQ(changed([](Program& p) { p.header.start = 1; }), "program.bad_start");
    EXPECT_EQ(changed([](Program& p) { p.header.slot_root.data[9] ^= 1; }), "program.wrong_slot_root");
    EXPECT_EQ(changed([](Program& p) { p.header.node_count = 0; }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.header.node_count = kMaxNodes + 1; }), "program.wrong_count");
    EXPECT_EQ(changed([](Program& p) { p.header.loss_slot = p.slots.size(); }), "program.bad_loss_slot");
    EXPECT_EQ(changed([](Program& p) { p.header.loss_slot = 0; }), "program.bad_loss_slot");
    EXPECT_EQ(changed([](Program& p) { p.header.work_units += 1; }), "program.wrong_work_units");
    EXPECT_EQ(changed([](Program& p) { p.header.work_units = kMaxWorkUnits + 1; }), "program.too_much_work");
    EXPECT_EQ(changed([](Program& p) { p.header.work_units = kMaxWorkUnits - p.header.sizes.commit_work + 1; }),
              "program.too_much_work");
    EXPECT_EQ(changed([](Program& p) { p.slots[0].name = p.slots[1].name; }), "program.duplicate_slot_name");
    EXPECT_EQ(changed([](Program& p) { p.updates[0] = static_cast<std::uint32_t>(p.nodes.size()); }),
              "program.bad_update_node");
    EXPECT_EQ(changed([](Program& p) { p.updates[0] = p.updates[1]; }), "program.bad_update_node");
    EXPECT_EQ(changed([&](Program& p) {
                  p.nodes[first(Op::matmul)].inputs[0] = static_cast<std::uint32_t>(first(Op::matmul));
              }),
              "program.bad_input");  // itself
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::matmul)].inputs.pop_back(); }), "program.bad_input");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::slot)].attributes[0] = 99; }), "program.bad_attribute");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::slot)].attributes[0] = 1; }), "program.bad_input");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::window)].shape.dims[2] += 1; }), "program.bad_shape");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::window)].attributes[0] = 1; }), "program.bad_attribute");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::window)].attributes.pop_back(); }), "program.bad_attribute");
    EXPECT_EQ(changed([&](Program& p) { p.nodes[first(Op::window)].inputs = {0}; }), "program.bad_dtype");
    EXPECT_EQ(changed([&](Program& p) { p.header.data.clear(); }), "program.wrong_sizes");
    EXPECT_EQ(changed([&](Program& p) { p.header.data[0].type = DataType::f32; }), "program.bad_dtype");
}

TEST(Program, of_views_alone_takes_no_longer_to_hash_than_its_work_allows) {
    const auto with_views = [](std::uint32_t count) {
        const Shape many{{1, 1, 1024, 1024}};
        Program program;
        program.slots.push_back({"loss", DType::f32, {}, 0});
        program.nodes.push_back({Op::slot, {}, DType::f32, {}, {}, 0, {0}});
        program.nodes.push_back({Op::full, {}, DType::f32, many, {}, 0, {}});
        for (std::uint32_t i = 0; i < count; ++i)
            program.nodes.push_back({Op::reshape, {}, DType::f32, many, {i + 1}, 0, {}});
        program.updates = {0};
        complete_header(program);
        return error_of(validate(program));
    };
    // 410 (1 + 1,024 (1 + n)) against 64 (4,096 + n + 410) + 2^28.
    EXPECT_EQ(with_views(639), "none");
    EXPECT_EQ(with_views(640), "program.trace_too_large");
}

TEST(Program, as_large_as_one_may_be_is_taken_and_one_node_more_is_not) {
    Program program;
    program.nodes.push_back({Op::full, {}, DType::f32, {}, {}, 0, {}});
    while (program.nodes.size() < kMaxNodes)
        program.nodes.push_back({Op::elementwise,
                                 ElementOp::neg,
                                 DType::f32,
                                 {},
                                 {static_cast<std::uint32_t>(program.nodes.size() - 1)},
                                 0,
                                 {}});
    for (std::size_t i = 0; i < kMaxSlots; ++i) program.slots.push_back({std::to_string(i), DType::f32, {}, 0});
    program.updates.assign(kMaxSlots, static_cast<std::uint32_t>(kMaxNodes - 1));
    complete_header(program);
    const auto decoded = decode_program(encode(program));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(program_root(*decoded), program_root(program));
    // All slots at once, a node and its operand, and a copy for each slot but the first.
    EXPECT_EQ(program.header.sizes.peak_bytes, (kMaxSlots + 2 + kMaxSlots - 1) * kTileBytes);
    program.nodes.push_back(program.nodes.back());
    complete_header(program);
    EXPECT_EQ(error_of(decode_program(encode(program))), "program.wrong_count");
}

TEST(Program, a_header_that_belies_its_sizes_is_refused_alone_or_by_the_program) {
    const Program program = test::training_program(8, 4, 32);
    const auto changed = [&](auto change) {
        Program other = program;
        change(other.header.sizes);
        return std::pair(error_of(check_header(other.header)), error_of(validate(other)));
    };
    using Errors = std::pair<std::string_view, std::string_view>;
    const Errors alone{"program.wrong_sizes", "program.wrong_sizes"};
    const Errors by_program{"none", "program.wrong_sizes"};
    EXPECT_EQ(changed([](ProgramSizes& s) { s.commit_work += 1; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.state_bytes += kTileBytes; }), alone);  // the commit work is another's
    EXPECT_EQ(changed([](ProgramSizes& s) { s.state_bytes = 0, s.commit_work = 0; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.window_bytes += 4; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.window_bytes = std::uint64_t{kTileBytes} << 40; }), alone)
        << "the work has not the hashing of so many tiles";
    EXPECT_EQ(changed([](ProgramSizes& s) { s.trace_bytes += 4; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.peak_bytes += 4; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.peak_bytes = s.state_bytes - kTileBytes; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.trace_bytes = ~std::uint64_t{0} / kTileBytes * kTileBytes; }), alone);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.peak_bytes += kTileBytes; }), by_program);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.trace_bytes -= kTileBytes; }), by_program);
    EXPECT_EQ(changed([](ProgramSizes& s) { s.state_bytes += kTileBytes, s.commit_work += kTileHashWork; }),
              by_program);
    // The chain, which sees the header alone, learns from it that the trace is too large.
    EXPECT_EQ(changed([](ProgramSizes& s) { s.trace_bytes += std::uint64_t{kTileBytes} << 20; }),
              (Errors{"program.trace_too_large", "program.trace_too_large"}));
}

// check_node for a node with operands of the given types.
std::string_view checked(Node node, const std::vector<OperandType>& inputs) {
    node.inputs.resize(inputs.size());
    ProgramHeader header;
    header.slot_count = 1;
    return error_of(check_node(node, inputs, header));
}

TEST(ShapeRules, elementwise_broadcasts_dims_of_one_only) {
    const auto add = [](const Shape& out, const Shape& a, const Shape& b, DType dtype = DType::f32) {
        return checked({Op::elementwise, ElementOp::add, DType::f32, out, {}, 0, {}}, {{DType::f32, a}, {dtype, b}});
    };
    EXPECT_EQ(add({{2, 3, 4, 5}}, {{2, 1, 4, 1}}, {{1, 3, 1, 5}}), "none");
    EXPECT_EQ(add({{2, 3, 4, 5}}, {{2, 3, 4, 5}}, {{1, 1, 2, 5}}), "program.bad_shape");
    EXPECT_EQ(add({{2, 3, 4, 5}}, {{2, 1, 4, 5}}, {{2, 1, 4, 5}}), "program.bad_shape");  // nothing gives the 3
    EXPECT_EQ(add({{1, 1, 1, 5}}, {{1, 1, 4, 5}}, {{1, 1, 4, 5}}), "program.bad_shape");
    EXPECT_EQ(add({}, {}, {}, DType::i32), "program.bad_dtype");
    EXPECT_EQ(checked({Op::elementwise, ElementOp::lt, DType::f32, {}, {}, 0, {}}, {{}, {}}), "program.bad_dtype");
    EXPECT_EQ(checked({Op::elementwise, ElementOp::add, DType::f32, {}, {}, 1, {}}, {{}, {}}), "program.bad_immediate");
    EXPECT_EQ(checked({Op::elementwise, ElementOp{}, DType::f32, {}, {}, 0, {}}, {}), "program.unknown_element_op");
    EXPECT_EQ(checked({Op::elementwise, ElementOp::add, DType::f32, {}, {}, 0, {}}, {{}}), "program.bad_input");
}

TEST(ShapeRules, matmul_matches_inner_dims_after_transposes) {
    const auto matmul = [](const Shape& out, const Shape& a, const Shape& b, std::uint32_t ta, std::uint32_t tb) {
        return checked({Op::matmul, {}, DType::f32, out, {}, 0, {ta, tb}}, {{DType::f32, a}, {DType::f32, b}});
    };
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 3, 4, 5}}, {{2, 3, 5, 6}}, 0, 0), "none");
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 3, 5, 4}}, {{1, 3, 6, 5}}, 1, 1), "none");
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 1, 4, 5}}, {{1, 3, 5, 6}}, 0, 0), "none");
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 3, 4, 5}}, {{2, 3, 6, 5}}, 0, 0), "program.bad_shape");
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 3, 4, 5}}, {{2, 2, 5, 6}}, 0, 0), "program.bad_shape");
    EXPECT_EQ(matmul({{2, 3, 6, 4}}, {{2, 3, 4, 5}}, {{2, 3, 5, 6}}, 0, 0), "program.bad_shape");
    EXPECT_EQ(matmul({{2, 3, 4, 6}}, {{2, 3, 4, 5}}, {{2, 3, 5, 6}}, 2, 0), "program.bad_attribute");
}

TEST(ShapeRules, imatmul_has_a_scale_for_each_strip_of_a_line) {
    struct Given {
        Shape out{{2, 3, 4, 6}};
        Shape a{{2, 3, 4, 600}};
        Shape scale_a{{2, 3, 4, 3}};
        Shape b{{1, 3, 600, 6}};
        Shape scale_b{{1, 3, 3, 6}};
        std::uint32_t transpose_a = 0;
        std::uint32_t transpose_b = 0;
        DType bytes = DType::i32;
        DType scales = DType::f32;
        DType result = DType::f32;
    };
    const auto imatmul = [](const Given& g) {
        return checked({Op::imatmul, {}, g.result, g.out, {}, 0, {g.transpose_a, g.transpose_b}},
                       {{g.bytes, g.a}, {g.scales, g.scale_a}, {g.bytes, g.b}, {g.scales, g.scale_b}});
    };
    const auto with = [&](auto change) {
        Given given;
        change(given);
        return imatmul(given);
    };
    EXPECT_EQ(imatmul({}), "none");
    EXPECT_EQ(with([](Given& g) { g.a = {{2, 3, 600, 4}}, g.scale_a = {{2, 3, 3, 4}}, g.transpose_a = 1; }), "none");
    EXPECT_EQ(with([](Given& g) { g.b = {{1, 3, 6, 600}}, g.scale_b = {{1, 3, 6, 3}}, g.transpose_b = 1; }), "none");
    EXPECT_EQ(with([](Given& g) { g.scale_a = {{2, 3, 4, 2}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.scale_a = {{1, 3, 4, 3}}; }), "program.bad_shape");  // its bytes are of two
    EXPECT_EQ(with([](Given& g) { g.scale_b = {{1, 3, 4, 6}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.scale_b = {{1, 3, 6, 3}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.b = {{1, 3, 599, 6}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.b = {{1, 2, 600, 6}}, g.scale_b = {{1, 2, 3, 6}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.out = {{2, 3, 6, 4}}; }), "program.bad_shape");
    EXPECT_EQ(with([](Given& g) { g.transpose_a = 2; }), "program.bad_attribute");
    EXPECT_EQ(with([](Given& g) { g.bytes = DType::f32; }), "program.bad_dtype");
    EXPECT_EQ(with([](Given& g) { g.scales = DType::i32; }), "program.bad_dtype");
    EXPECT_EQ(with([](Given& g) { g.result = DType::i32; }), "program.bad_dtype");
    EXPECT_EQ(strips_of({{1, 2, 256, 257}}, 2), (Shape{{1, 2, 1, 257}}));
    EXPECT_EQ(strips_of({{1, 2, 256, 257}}, 3), (Shape{{1, 2, 256, 2}}));
    EXPECT_EQ(strips_of({{1, 1, 1, 1U << 31}}, 3), (Shape{{1, 1, 1, 1U << 23}}));
}

TEST(ShapeRules, the_other_ops) {
    const OperandType f{DType::f32, {{2, 3, 4, 5}}};
    const auto node = [](Op op, DType dtype, const Shape& shape, std::vector<std::uint32_t> attributes = {},
                         std::uint32_t immediate = 0) {
        return Node{op, {}, dtype, shape, {}, immediate, std::move(attributes)};
    };
    EXPECT_EQ(checked(node(Op::sum_last, DType::f32, {{2, 3, 4, 1}}), {f}), "none");
    EXPECT_EQ(checked(node(Op::sum_rows, DType::f32, {{2, 3, 1, 5}}), {f}), "none");
    EXPECT_EQ(checked(node(Op::sum_rows, DType::f32, {{2, 3, 4, 1}}), {f}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::max_last, DType::f32, {{2, 3, 4, 1}}), {{DType::i32, f.shape}}), "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::reshape, DType::f32, {{1, 1, 6, 20}}), {f}), "none");
    EXPECT_EQ(checked(node(Op::reshape, DType::f32, {{1, 1, 6, 21}}), {f}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::reshape, DType::i32, {{1, 1, 6, 20}}), {f}), "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::permute, DType::f32, {{5, 2, 4, 3}}, {3, 0, 2, 1}), {f}), "none");
    EXPECT_EQ(checked(node(Op::permute, DType::f32, {{5, 2, 4, 3}}, {3, 0, 2, 2}), {f}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::permute, DType::f32, {{5, 2, 4, 3}}, {3, 0, 2, 4}), {f}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::slice, DType::f32, {{1, 2, 2, 3}}, {1, 1, 2, 2}), {f}), "none");
    EXPECT_EQ(checked(node(Op::slice, DType::f32, {{1, 2, 2, 3}}, {1, 1, 2, 3}), {f}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::slice, DType::f32, {{1, 2, 2, 3}}, {1, 1, 2, 0xffffffff}), {f}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::concat, DType::f32, {{2, 3, 8, 5}}, {2}), {f, f}), "none");
    EXPECT_EQ(checked(node(Op::concat, DType::f32, {{2, 3, 8, 5}}, {4}), {f, f}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::concat, DType::f32, {{2, 6, 4, 5}}, {2}), {f, f}), "program.bad_shape");
    const OperandType words{DType::i32, {{2, 3, 4, 5}}};
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{2, 3, 4, 1}}, {5}), {words}), "none");
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{2, 3, 4, 1}}, {6}), {words}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{2, 3, 4, 1}}, {0}), {words}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{2, 3, 1, 5}}, {1}), {words}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{2, 3, 4, 1}}, {1}), {f}), "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::kth_last, DType::f32, {{2, 3, 4, 1}}, {1}), {words}), "program.bad_dtype");
    const auto wide = [](std::uint32_t columns) { return OperandType{DType::i32, {{1, 1, 4, columns}}}; };
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{1, 1, 4, 1}}, {1}), {wide(kMaxSelectColumns)}), "none");
    EXPECT_EQ(checked(node(Op::kth_last, DType::i32, {{1, 1, 4, 1}}, {1}), {wide(kMaxSelectColumns + 1)}),
              "program.bad_shape");
    const OperandType table{DType::f32, {{1, 1, 9, 5}}};
    EXPECT_EQ(checked(node(Op::gather_rows, DType::f32, {{2, 3, 7, 5}}), {table, {DType::i32, {{2, 3, 1, 7}}}}),
              "none");
    EXPECT_EQ(checked(node(Op::gather_rows, DType::f32, {{2, 3, 7, 5}}), {table, {DType::i32, {{2, 3, 7, 1}}}}),
              "none");
    EXPECT_EQ(checked(node(Op::gather_rows, DType::f32, {{2, 3, 7, 5}}), {table, {DType::i32, {{2, 3, 7, 2}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::gather_rows, DType::f32, {{2, 3, 7, 5}}), {f, {DType::i32, {{2, 3, 7, 1}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::gather_rows, DType::f32, {{2, 3, 7, 5}}), {table, {DType::f32, {{2, 3, 7, 1}}}}),
              "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::scatter_add_rows, DType::f32, {{1, 1, 4, 5}}), {table, {DType::i32, {{1, 1, 1, 9}}}}),
              "none");
    EXPECT_EQ(checked(node(Op::scatter_add_rows, DType::f32, {{1, 1, 4, 6}}), {table, {DType::i32, {{1, 1, 1, 9}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::scatter_add_rows, DType::f32, {{1, 1, 4, 5}}), {table, {DType::i32, {{1, 1, 1, 8}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::iota, DType::i32, {{1, 1, 4, 5}}, {2}), {}), "none");
    EXPECT_EQ(checked(node(Op::iota, DType::f32, {{1, 1, 4, 5}}, {2}), {}), "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::philox, DType::i32, {{1, 1, 4, 5}}), {{DType::i32, {{1, 1, 1, 4}}}}), "none");
    EXPECT_EQ(checked(node(Op::philox_words, DType::i32, {{1, 1, 4, 5}}), {{DType::i32, {{1, 1, 1, 4}}}}), "none");
    EXPECT_EQ(checked(node(Op::philox_words, DType::f32, {{1, 1, 4, 5}}), {{DType::i32, {{1, 1, 1, 4}}}}),
              "program.bad_dtype");
    EXPECT_EQ(checked(node(Op::philox_words, DType::i32, {{1, 1, 4, 5}}), {{DType::i32, {{1, 1, 1, 5}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::philox, DType::i32, {{1, 1, 4, 5}}), {{DType::i32, {{1, 1, 4, 1}}}}),
              "program.bad_shape");
    EXPECT_EQ(checked(node(Op::full, DType::f32, {{1, 1, 4, 5}}, {}, 0x7fc00000), {}), "none");
    EXPECT_EQ(checked(node(Op::full, DType::f32, {{1, 1, 4, 5}}, {}, 0x7fc00001), {}), "none");
    EXPECT_EQ(checked(node(Op::full, DType::i32, {{1, 1, 4, 5}}, {}, 0x7fc00001), {}), "none");
    EXPECT_EQ(checked(node(Op::seed, DType::i32, {{1, 1, 1, 4}}), {}), "none");
    EXPECT_EQ(checked(node(Op::seed, DType::i32, {{1, 1, 4, 1}}), {}), "program.bad_shape");
    EXPECT_EQ(checked(node(Op::slot, DType::i32, {}, {0}), {}), "none");
    EXPECT_EQ(checked(node(Op::slot, DType::i32, {}, {1}), {}), "program.bad_attribute");
    EXPECT_EQ(checked(node(Op::reshape, DType::f32, {{1, 1, 6, 20}}, {}, 1), {f}), "program.bad_immediate");
}

TEST(WorkUnits, follow_the_table) {
    const auto cost = [](Node node, const std::vector<OperandType>& inputs) {
        node.inputs.resize(inputs.size());
        return node_work_units(node, inputs);
    };
    const Shape big{{2, 3, 64, 128}};  // 49,152 elements
    const OperandType f{DType::f32, big};
    EXPECT_EQ(cost({Op::slot, {}, DType::f32, big, {}, 0, {0}}, {}), 0U);
    EXPECT_EQ(cost({Op::full, {}, DType::f32, big, {}, 0, {}}, {}), 192U);
    EXPECT_EQ(cost({Op::elementwise, ElementOp::add, DType::f32, big, {}, 0, {}}, {f, f}), 768U);
    EXPECT_EQ(cost({Op::elementwise, ElementOp::add, DType::f32, {}, {}, 0, {}}, {{}, {}}), 1U);
    EXPECT_EQ(cost({Op::matmul, {}, DType::f32, {{2, 3, 64, 64}}, {}, 0, {0, 1}}, {f, f}),
              2U * 3 * 64 * 64 * (128 + 16) / 512);
    EXPECT_EQ(cost({Op::matmul, {}, DType::f32, {{2, 3, 128, 128}}, {}, 0, {1, 0}}, {f, f}),
              2U * 3 * 128 * 128 * (64 + 16) / 512);
    EXPECT_EQ(cost({Op::sum_last, {}, DType::f32, {{2, 3, 64, 1}}, {}, 0, {}}, {f}), (49152U * 4 + 384 * 64) / 512);
    // A matrix by a vector is bound by the memory, as is a product without an inner dim worth it.
    EXPECT_EQ(cost({Op::matmul, {}, DType::f32, {{2, 3, 64, 1}}, {}, 0, {0, 0}}, {f, {DType::f32, {{2, 3, 128, 1}}}}),
              2U * 3 * 64 * 32 * (128 + 16) / 512);
    EXPECT_EQ(cost({Op::matmul, {}, DType::f32, {{1, 1, 1, 33}}, {}, 0, {0, 0}},
                   {{DType::f32, {{1, 1, 1, 1}}}, {DType::f32, {{1, 1, 1, 33}}}}),
              32U * 64 * (1 + 16) / 512);
    EXPECT_EQ(cost({Op::kth_last, {}, DType::i32, {{2, 3, 64, 1}}, {}, 0, {1}}, {{DType::i32, big}}),
              (49152U * 256 + 384 * 512) / 512);
    EXPECT_EQ(cost({Op::gather_rows, {}, DType::f32, {{1, 1, 64, 128}}, {}, 0, {}},
                   {{DType::f32, {{1, 1, 9, 128}}}, {DType::i32, {{1, 1, 1, 64}}}}),
              (64U * 128 * 8 + 64 * 128) / 512);
    // Of bytes a quarter of the inner dim, rounded up.
    const OperandType bytes{DType::i32, big};
    const OperandType scales{DType::f32, {{2, 3, 64, 1}}};
    EXPECT_EQ(cost({Op::imatmul, {}, DType::f32, {{2, 3, 64, 64}}, {}, 0, {0, 1}}, {bytes, scales, bytes, scales}),
              (2U * 3 * 64 * 64 * (32 + 16) + 2 * 49152 * 16) / 512);
    const OperandType short_bytes{DType::i32, {{1, 1, 500, 5}}};
    EXPECT_EQ(cost({Op::imatmul, {}, DType::f32, {{1, 1, 500, 500}}, {}, 0, {0, 1}},
                   {short_bytes, scales, short_bytes, scales}),
              512U * (2 + 16) + (2 * 2500 * 16 + 511) / 512);
    EXPECT_EQ(cost({Op::philox_words, {}, DType::i32, big, {}, 0, {}}, {{DType::i32, {{1, 1, 1, 4}}}}),
              49152U * 48 / 512);
    // An operand that is broadcast is read for each product.
    EXPECT_EQ(cost({Op::imatmul, {}, DType::f32, {{4, 1, 64, 64}}, {}, 0, {0, 1}},
                   {{DType::i32, {{1, 1, 64, 128}}}, scales, {DType::i32, {{4, 1, 64, 128}}}, scales}),
              (4U * 64 * 64 * (32 + 16) + 4 * 2 * 64 * 128 * 16) / 512);
    // The largest matmul that shapes allow does not overflow.
    const Shape row{{1, 1, 1, 1U << 31}};
    EXPECT_EQ(cost({Op::matmul, {}, DType::f32, {}, {}, 0, {0, 1}}, {{DType::f32, row}, {DType::f32, row}}),
              (1ULL << 32) + 32);
}

TEST(Seed, words_are_big_endian_bytes_of_the_beacon) {
    Hash32 beacon;
    for (std::size_t i = 0; i < 32; ++i) beacon.data[i] = static_cast<std::uint8_t>(i + 1);
    EXPECT_EQ(seed_tensor(beacon).words, (std::vector<std::uint32_t>{0x01020304, 0x05060708, 0x090a0b0c, 0x0d0e0f10}));
}

}  // namespace
}  // namespace quern::vm::tensor
