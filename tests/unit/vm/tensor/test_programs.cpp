#include "test_programs.h"

#include <algorithm>
#include <bit>

namespace quern::vm::tensor::test {

using arith::ElementOp;

Tensor random_tensor(Random& random, DType dtype, const Shape& shape, Fill fill) {
    static constexpr std::uint32_t kSpecialFloats[] = {
        0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xff812345, 0x00000001,
        0x807fffff, 0x00800000, 0x7f7fffff, 0x3f800000, 0x2b7fffff, 0x2b800000, 0xab7fffff, 0xff7fffff};
    static constexpr std::uint32_t kSpecialIntegers[] = {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 31, 32, 33};
    Tensor tensor{dtype, shape, std::vector<std::uint32_t>(shape.elements())};
    for (std::uint32_t& word : tensor.words) {
        const std::uint64_t bits = random.next();
        const bool special = fill == Fill::special && bits >> 60 == 0;
        if (dtype == DType::f32) {
            word = static_cast<std::uint32_t>((bits & 0x807fffffU) | (123U + (bits >> 32 & 7U)) << 23);
            if (special) word = kSpecialFloats[(bits >> 40) % std::size(kSpecialFloats)];
        } else if (fill == Fill::index) {
            word = static_cast<std::uint32_t>(bits >> 32);
            if ((bits & 15U) != 0) word &= 63U;
        } else {
            word = static_cast<std::uint32_t>(bits >> 32) >> (bits & 31U);
            if (special) word = kSpecialIntegers[(bits >> 40) % std::size(kSpecialIntegers)];
        }
    }
    return tensor;
}

std::uint32_t Graph::add(Node node) {
    program.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(program.nodes.size() - 1);
}

std::uint32_t Graph::add_slot(const std::string& name, DType dtype, const Shape& shape) {
    const auto number = static_cast<std::uint32_t>(program.slots.size());
    const auto input = static_cast<std::uint32_t>(program.nodes.size());
    program.slots.push_back({name, dtype, shape, 0});  // before add(): `shape` may be a node's
    program.updates.push_back(input);
    add({Op::slot, {}, dtype, shape, {}, 0, {number}});
    slot_inputs_.push_back(input);
    return input;
}

void Graph::finish(const Shape& data_shape, const std::vector<DataSet>& others) {
    program.header.data = {{DataType::i32, data_shape.elements()}};
    program.header.data.insert(program.header.data.end(), others.begin(), others.end());
    program.header.loss_slot = program.slots.size() - 1;
    complete_header(program);
}

std::uint32_t Graph::element(ElementOp op, std::vector<std::uint32_t> inputs, std::uint32_t immediate) {
    Node node{Op::elementwise, op, static_cast<DType>(arith::find_element_op(op)->output), {}, inputs, immediate, {}};
    for (const std::uint32_t input : inputs)
        for (std::size_t d = 0; d < 4; ++d) node.shape.dims[d] = std::max(node.shape.dims[d], shape(input).dims[d]);
    return add(std::move(node));
}

std::uint32_t Graph::window(std::uint32_t index, std::uint32_t set, DType dtype, std::uint32_t stride,
                            std::uint32_t length) {
    Shape result = shape(index);
    result.dims[3] = length;
    return add({Op::window, {}, dtype, result, {index}, 0, {set, stride}});
}

std::uint32_t Graph::data(const Shape& shape) {
    const std::uint32_t rows = static_cast<std::uint32_t>(shape.leading()) * shape.rows();
    const Shape matrix{{1, 1, rows, shape.columns()}};
    const std::uint32_t all = window(iota({{1, 1, rows, 1}}, 2), 0, DType::i32, shape.columns(), shape.columns());
    return shape == matrix ? all : reshape(all, shape);
}

std::uint32_t Graph::matmul(std::uint32_t a, std::uint32_t b, bool transpose_a, bool transpose_b) {
    Shape result;
    for (std::size_t d = 0; d < 2; ++d) result.dims[d] = std::max(shape(a).dims[d], shape(b).dims[d]);
    result.dims[2] = shape(a).dims[transpose_a ? 3 : 2];
    result.dims[3] = shape(b).dims[transpose_b ? 2 : 3];
    return add({Op::matmul, {}, DType::f32, result, {a, b}, 0, {transpose_a ? 1U : 0U, transpose_b ? 1U : 0U}});
}

std::uint32_t Graph::imatmul(const Scaled& a, const Scaled& b, bool transpose_a, bool transpose_b) {
    Shape result;
    for (std::size_t d = 0; d < 2; ++d) result.dims[d] = std::max(shape(a.bytes).dims[d], shape(b.bytes).dims[d]);
    result.dims[2] = shape(a.bytes).dims[transpose_a ? 3 : 2];
    result.dims[3] = shape(b.bytes).dims[transpose_b ? 2 : 3];
    return add({Op::imatmul,
                {},
                DType::f32,
                result,
                {a.bytes, a.scales, b.bytes, b.scales},
                0,
                {transpose_a ? 1U : 0U, transpose_b ? 1U : 0U}});
}

std::uint32_t Graph::reduce(Op op, std::uint32_t x) {
    Shape result = shape(x);
    result.dims[op == Op::sum_rows ? 2 : 3] = 1;
    return add({op, {}, DType::f32, result, {x}, 0, {}});
}

std::uint32_t Graph::permute(std::uint32_t x, std::vector<std::uint32_t> axes) {
    Shape result;
    for (std::size_t d = 0; d < 4; ++d) result.dims[d] = shape(x).dims[axes[d]];
    return add({Op::permute, {}, dtype(x), result, {x}, 0, std::move(axes)});
}

std::uint32_t Graph::concat(std::uint32_t a, std::uint32_t b, std::uint32_t axis) {
    Shape result = shape(a);
    result.dims[axis] += shape(b).dims[axis];
    return add({Op::concat, {}, dtype(a), result, {a, b}, 0, {axis}});
}

std::uint32_t Graph::kth(std::uint32_t x, std::uint32_t k) {
    Shape result = shape(x);
    result.dims[3] = 1;
    return add({Op::kth_last, {}, DType::i32, result, {x}, 0, {k}});
}

std::uint32_t Graph::gather(std::uint32_t table, std::uint32_t index) {
    const Shape& at = shape(index);
    const Shape result{{at.dims[0], at.dims[1], at.dims[2] * at.dims[3], shape(table).columns()}};
    return add({Op::gather_rows, {}, dtype(table), result, {table, index}, 0, {}});
}

std::uint32_t Graph::scatter_add(std::uint32_t source, std::uint32_t index, std::uint32_t rows) {
    return add({Op::scatter_add_rows, {}, DType::f32, {{1, 1, rows, shape(source).columns()}}, {source, index}, 0, {}});
}

namespace {

// Something finite that depends on x's elements, as f32 [1,1,1,1].
std::uint32_t digest(Graph& g, std::uint32_t x) {
    if (g.dtype(x) == DType::i32) x = g.element(ElementOp::i2f, {x});
    const std::uint32_t large = g.full(DType::f32, {}, std::bit_cast<std::uint32_t>(0x1p60F));
    const std::uint32_t low = g.full(DType::f32, {}, std::bit_cast<std::uint32_t>(-0x1p60F));
    x = g.element(ElementOp::select, {g.element(ElementOp::le, {x, large}), x, large});  // NaN too
    x = g.element(ElementOp::max, {x, low});
    const auto count = static_cast<std::uint32_t>(g.shape(x).elements());
    return g.reduce(Op::sum_last, g.reshape(x, {{1, 1, 1, count}}));
}

std::uint32_t flat_row(Graph& g, std::uint32_t flat) {
    return g.slice(flat, {0, 0, 0, 0}, {{1, 1, 1, g.shape(flat).columns()}});
}

// Products of bytes: of any words, with scales that are any. `tall` has two matrices, `wide` one, `flat` two of one
// row.
void add_byte_products(Graph& g, std::uint32_t f, std::uint32_t i, std::uint32_t wide, std::uint32_t tall,
                       std::uint32_t flat, std::vector<std::uint32_t>& parts) {
    const auto bits = [&](std::uint32_t x) { return g.element(ElementOp::bits, {x}); };
    const auto scales = [&](std::uint32_t from, const Shape& shape) { return g.slice(from, {0, 0, 0, 0}, shape); };
    const Graph::Scaled rows{i, scales(f, {{1, 3, 37, 1}})};     // inner dim 70
    const Graph::Scaled columns{i, scales(f, {{1, 3, 1, 70}})};  // inner dim 37
    parts.push_back(g.imatmul(rows, rows, false, true));
    parts.push_back(g.imatmul(columns, columns, true));
    const Graph::Scaled all{bits(f), scales(f, {{2, 3, 37, 1}})};
    parts.push_back(g.imatmul({g.slice(i, {0, 1, 0, 0}, {{1, 1, 37, 70}}), scales(f, {{1, 1, 37, 1}})}, all, false,
                              true));  // broadcast A
    parts.push_back(g.imatmul(
        all, {g.full(DType::i32, {{1, 1, 70, 41}}, 0xffffff81), g.full(DType::f32, {{1, 1, 1, 41}}, 0x3f000000)}));
    const Graph::Scaled three{bits(wide), scales(wide, {{1, 1, 33, 3}})};  // k = 600: three strips
    parts.push_back(g.imatmul(three, three, false, true));
    const Graph::Scaled upright{bits(tall), scales(tall, {{1, 2, 3, 35}})};  // k = 513, stored across
    parts.push_back(g.imatmul(upright, upright, true));
    const std::uint32_t heads = g.permute(g.reshape(bits(f), {{6, 37, 7, 10}}), {0, 2, 1, 3});  // [6,7,37,10]
    const std::uint32_t of_heads =
        g.slice(g.permute(g.reshape(f, {{6, 37, 7, 10}}), {0, 2, 1, 3}), {0, 0, 0, 4}, {{6, 7, 37, 1}});
    parts.push_back(g.imatmul({heads, of_heads}, {heads, of_heads}, false, true));  // of views
    const Graph::Scaled row{bits(flat), scales(flat, {{2, 1, 1, 5}})};
    parts.push_back(g.imatmul(row, row, false, true));                         // 1 x 1100 x 1
    parts.push_back(g.imatmul({bits(flat), flat}, {bits(flat), flat}, true));  // 1100 x 1 x 1100
    const std::uint32_t column = g.permute(bits(flat), {0, 1, 3, 2});
    parts.push_back(g.imatmul(row, {column, g.reshape(scales(flat, {{2, 1, 1, 5}}), {{2, 1, 5, 1}})}));
}

Program make_program(bool first_ops) {
    Graph g;
    const Shape matrix{{2, 3, 37, 70}};
    const std::uint32_t f = g.add_slot("f", DType::f32, matrix);
    const std::uint32_t f2 = g.add_slot("f2", DType::f32, {{2, 1, 37, 1}});
    const std::uint32_t f3 = g.add_slot("f3", DType::f32, {{1, 1, 1, 70}});
    const std::uint32_t i = g.add_slot("i", DType::i32, {{1, 3, 37, 70}});
    const std::uint32_t i2 = g.add_slot("i2", DType::i32, {{2, 1, 1, 70}});
    const std::uint32_t table = g.add_slot("table", DType::f32, {{1, 1, 50, 67}});
    const std::uint32_t wide = g.add_slot("wide", DType::f32, {{1, 1, 33, 600}});
    g.add_slot("unchanged", DType::f32, {{1, 1, 2, 5}});
    const std::uint32_t swap_a = g.add_slot("swap_a", DType::f32, {{1, 1, 3, 4}});
    const std::uint32_t swap_b = g.add_slot("swap_b", DType::f32, {{1, 1, 3, 4}});
    g.add_slot("reshaped", DType::f32, {{1, 1, 4, 3}});
    g.add_slot("permuted", DType::f32, {{1, 1, 4, 3}});
    const std::uint32_t data = g.data({{1, 1, 9, 11}});
    const std::uint32_t seed = g.seed();
    const std::uint32_t tall = g.add_slot("tall", DType::f32, {{1, 2, 513, 35}});  // three blocks of rows
    const std::uint32_t flat = g.add_slot("flat", DType::f32, {{2, 1, 1, 1100}});  // tiles of 1 x 1,024

    std::vector<std::uint32_t> parts;
    for (const arith::ElementOpInfo& info : arith::kElementOps) {
        std::vector<std::uint32_t> inputs;
        for (std::size_t k = 0; k < info.arity; ++k) {
            const bool is_float = info.inputs[k] == arith::WordType::f32;
            const std::uint32_t choices[2][3] = {{i, i2, i}, {f, f2, f3}};
            inputs.push_back(choices[is_float ? 1 : 0][k]);
        }
        if (info.op == ElementOp::permute_index)
            inputs = {i, g.slice(seed, {0, 0, 0, 0}, {}), g.slice(seed, {0, 0, 0, 1}, {})};
        parts.push_back(g.element(info.op, inputs, info.uses_immediate ? 1000 : 0));
    }
    const std::uint32_t noise = g.philox(seed, {{1, 2, 5, 33}});
    parts.push_back(noise);
    parts.push_back(g.iota({{2, 3, 4, 5}}, 1));
    parts.push_back(g.element(ElementOp::iadd, {g.iota({{1, 1, 40, 1}}, 2), g.iota({{1, 1, 1, 40}}, 3)}));

    const std::uint32_t scores = g.matmul(f, f, false, true);  // [2,3,37,37]
    parts.push_back(scores);
    parts.push_back(g.matmul(f, f, true, false));                                         // [2,3,70,70]
    parts.push_back(g.matmul(g.slice(table, {0, 0, 3, 0}, {{1, 1, 37, 67}}), f, true));   // broadcast A
    parts.push_back(g.matmul(f, g.full(DType::f32, {{1, 1, 70, 41}}, 0x3f000000)));       // one B for all
    parts.push_back(g.matmul(wide, wide, false, true));                                   // k = 600: three blocks
    const std::uint32_t heads = g.permute(g.reshape(f, {{6, 37, 7, 10}}), {0, 2, 1, 3});  // [6,7,37,10]
    const std::uint32_t mixed = g.matmul(heads, heads, false, true);                      // of views
    parts.push_back(mixed);
    parts.push_back(g.matmul(g.permute(f, {1, 0, 3, 2}), g.permute(f, {1, 0, 2, 3})));  // transposed view
    parts.push_back(g.reshape(heads, {{1, 6, 37, 70}}));                                // needs a copy
    parts.push_back(g.element(ElementOp::mul, {g.permute(f, {0, 1, 3, 2}), g.permute(f, {0, 1, 3, 2})}));
    parts.push_back(g.element(ElementOp::add, {heads, g.full(DType::f32, {{1, 1, 1, 10}}, 0x40000000)}));
    for (const Op op : {Op::sum_last, Op::max_last, Op::sum_rows}) {
        parts.push_back(g.reduce(op, f));
        parts.push_back(g.reduce(op, heads));
        parts.push_back(g.reduce(op, g.permute(f, {3, 2, 1, 0})));
        parts.push_back(g.reduce(op, g.slice(wide, {0, 0, 5, 17}, {{1, 1, 20, 100}})));
        parts.push_back(g.reduce(op, g.full(DType::f32, {{1, 2, 5, 40}}, 0x3f800001)));
    }
    const std::uint32_t words = g.element(ElementOp::bits, {f});
    for (const std::uint32_t k : {1U, 35U, 70U}) parts.push_back(g.kth(words, k));
    parts.push_back(g.kth(noise, 5));
    parts.push_back(g.kth(g.permute(noise, {3, 2, 0, 1}), 2));
    parts.push_back(g.kth(g.slice(words, {0, 0, 5, 17}, {{2, 3, 31, 40}}), 7));
    parts.push_back(g.kth(g.reshape(words, {{1, 2, 3, 2590}}), 1000));
    parts.push_back(g.kth(g.reshape(words, {{6, 1, 1, 2590}}), 2590));  // one row, in tiles of 1,024 words
    for (std::uint32_t axis = 0; axis < 4; ++axis) {
        Shape part = matrix;
        part.dims[axis] = 1;
        std::vector<std::uint32_t> starts(4, 0);
        starts[axis] = matrix.dims[axis] - 1;
        parts.push_back(g.concat(f, g.slice(f, starts, part), axis));
    }
    const std::uint32_t index_row = g.slice(data, {0, 0, 4, 0}, {{1, 1, 1, 11}});
    const std::uint32_t index_column = g.slice(data, {0, 0, 0, 3}, {{1, 1, 9, 1}});
    parts.push_back(g.gather(table, index_row));
    parts.push_back(g.gather(table, g.reshape(data, {{3, 3, 11, 1}})));
    parts.push_back(g.gather(g.slice(table, {0, 0, 0, 5}, {{1, 1, 50, 40}}), index_column));
    parts.push_back(g.gather(g.reshape(noise, {{1, 1, 33, 10}}), index_column));
    parts.push_back(g.scatter_add(g.slice(wide, {0, 0, 0, 100}, {{1, 1, 11, 45}}), index_row, 40));
    parts.push_back(g.scatter_add(g.gather(table, index_column), index_column, 64));
    parts.push_back(g.scatter_add(g.reshape(wide, {{1, 1, 99, 200}}), g.reshape(data, {{1, 1, 99, 1}}), 35));

    // Sums over more than a block of rows, of whole tensors and of views.
    const std::uint32_t one_of_two = g.slice(tall, {0, 1, 0, 0}, {{1, 1, 513, 35}});
    const std::uint32_t spread = g.element(
        ElementOp::iand, {g.element(ElementOp::imul, {g.iota({{1, 1, 513, 1}}, 2), g.full(DType::i32, {}, 7)}),
                          g.full(DType::i32, {}, 15)});  // a row in 16, each in every block
    parts.push_back(g.reduce(Op::sum_rows, tall));
    parts.push_back(g.reduce(Op::sum_rows, g.slice(tall, {0, 0, 1, 3}, {{1, 2, 512, 32}})));
    parts.push_back(g.reduce(Op::sum_rows, g.permute(wide, {0, 1, 3, 2})));
    parts.push_back(g.scatter_add(one_of_two, spread, 13));
    parts.push_back(g.scatter_add(g.slice(tall, {0, 0, 0, 2}, {{1, 1, 257, 33}}),
                                  g.reshape(g.slice(spread, {0, 0, 0, 0}, {{1, 1, 257, 1}}), {{1, 1, 1, 257}}), 16));
    parts.push_back(g.scatter_add(flat_row(g, flat), g.full(DType::i32, {}, 0), 1));
    // One row: as operands, as results, and between the two layouts.
    const std::uint32_t flat_columns = g.permute(flat, {0, 1, 3, 2});  // [2,1,1100,1]
    for (const Op op : {Op::sum_last, Op::max_last, Op::sum_rows}) parts.push_back(g.reduce(op, flat));
    parts.push_back(g.element(ElementOp::add, {flat, flat_row(g, flat)}));
    parts.push_back(flat_columns);
    parts.push_back(g.reshape(flat_columns, {{1, 1, 1, 2200}}));
    parts.push_back(g.reshape(flat, {{1, 1, 44, 50}}));
    parts.push_back(g.slice(flat, {1, 0, 0, 1000}, {{1, 1, 1, 60}}));
    parts.push_back(g.concat(flat, flat, 3));
    parts.push_back(g.concat(flat, flat, 2));
    parts.push_back(g.gather(flat_row(g, flat), index_row));
    parts.push_back(g.matmul(flat, flat_columns));  // 1 x 1100 x 1
    parts.push_back(g.matmul(flat, flat, false, true));
    parts.push_back(g.matmul(flat_columns, g.slice(flat, {0, 0, 0, 7}, {{2, 1, 1, 33}})));  // 1100 x 1 x 33
    parts.push_back(g.matmul(g.slice(flat, {0, 0, 0, 500}, {{2, 1, 1, 300}}),
                             g.reshape(g.slice(tall, {0, 0, 0, 0}, {{1, 2, 300, 35}}), {{2, 1, 300, 35}})));
    parts.push_back(g.matmul(g.slice(flat, {0, 0, 0, 1019}, {{2, 1, 1, 2}}),  // 1 x 2 x 1100
                             g.concat(flat, flat, 2)));
    parts.push_back(
        g.matmul(flat, g.slice(flat, {0, 0, 0, 1}, {{1, 1, 1, 3}}), true));  // 1100 x 1 x 3, A stored across

    // Windows of data of each type: with the stride of their length and others, apart, overlapping, over the end, and
    // by indices that are any words.
    const std::uint32_t any = g.slice(i, {0, 0, 0, 0}, {{1, 3, 37, 1}});
    const std::uint32_t few = g.element(ElementOp::iand, {any, g.full(DType::i32, {}, 63)});
    parts.push_back(g.window(few, 1, DType::i32, 97, 40));
    parts.push_back(g.window(few, 1, DType::i32, 1, 5000));
    parts.push_back(g.window(few, 2, DType::i32, 65, 70));
    parts.push_back(g.window(few, 3, DType::i32, 32, 64));
    parts.push_back(g.window(few, 4, DType::f32, 17, 33));
    parts.push_back(g.window(few, 0, DType::i32, 3, 4));
    parts.push_back(g.window(any, 2, DType::i32, 1, 3));
    parts.push_back(g.window(any, 4, DType::f32, 0xffffffff, 2));
    parts.push_back(g.window(g.full(DType::i32, {{1, 1, 1, 1}}, 2), 1, DType::i32, 1000, 2000));  // tiles of 1 x 1,024
    parts.push_back(g.window(g.full(DType::i32, {{2, 1, 3, 1}}, 0xffffffff), 3, DType::i32, 0, 9));
    if (!first_ops) {
        add_byte_products(g, f, i, wide, tall, flat, parts);
        for (const Shape& shape : {Shape{{1, 2, 5, 33}}, Shape{{1, 1, 1, 3}}, Shape{{1, 1, 1, 1030}}})
            parts.push_back(g.philox_words(seed, shape));
    }

    g.update(0, g.element(ElementOp::select, {g.element(ElementOp::lt, {f, g.full(DType::f32, {}, 0x3f800000)}), f,
                                              g.element(ElementOp::mul, {f, f2})}));
    g.update(3, g.element(ElementOp::iadd, {i, g.full(DType::i32, {}, 7)}));
    g.update(5, g.element(ElementOp::fma, {table, table, g.full(DType::f32, {}, 0x3e800000)}));
    g.update(8, swap_b);
    g.update(9, swap_a);
    g.update(10, g.reshape(swap_a, {{1, 1, 4, 3}}));
    g.update(11, g.permute(swap_b, {0, 1, 3, 2}));
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const std::uint32_t sum = digest(g, parts[k]);
        if (k % 2 != 0) {  // the others are read by the digest alone
            g.add_slot("part" + std::to_string(k), g.dtype(parts[k]), g.shape(parts[k]));
            g.update(g.program.slots.size() - 1, parts[k]);
        }
        g.add_slot("digest" + std::to_string(k), DType::f32, {});
        g.update(g.program.slots.size() - 1, sum);
    }
    g.finish({{1, 1, 9, 11}},
             {{DataType::u8, 5000}, {DataType::i8, 4097}, {DataType::u16, 2300}, {DataType::f32, 1030}});
    return g.program;
}

}  // namespace

Program every_op_program() { return make_program(false); }
Program first_ops_program() { return make_program(true); }

Program training_program(std::uint32_t batch, std::uint32_t width, std::uint32_t hidden) {
    Graph g;
    const std::uint32_t w1 = g.add_slot("w1", DType::f32, {{1, 1, width, hidden}});
    const std::uint32_t b1 = g.add_slot("b1", DType::f32, {{1, 1, 1, hidden}});
    const std::uint32_t w2 = g.add_slot("w2", DType::f32, {{1, 1, hidden, 16}});
    const std::uint32_t m1 = g.add_slot("m1", DType::f32, {{1, 1, width, hidden}});
    const std::uint32_t step = g.add_slot("step", DType::i32, {});
    const std::uint32_t data = g.data({{1, 1, 64, 2}});
    const std::uint32_t seed = g.seed();
    const auto constant = [&](float value) { return g.full(DType::f32, {}, std::bit_cast<std::uint32_t>(value)); };

    // Inputs: uniform noise by step; targets: the data rows drawn by a keyed permutation.
    const std::uint32_t key = g.element(ElementOp::iadd, {seed, step});
    const std::uint32_t noise = g.philox(key, {{1, 1, batch, width}});
    const std::uint32_t uniform = g.element(
        ElementOp::mul, {g.element(ElementOp::i2f, {g.element(ElementOp::ishr, {noise, g.full(DType::i32, {}, 8)})}),
                         constant(0x1p-24F)});
    const std::uint32_t drawn = g.element(ElementOp::permute_index,
                                          {g.element(ElementOp::iadd, {g.iota({{1, 1, batch, 1}}, 2), step}),
                                           g.slice(seed, {0, 0, 0, 0}, {}), g.slice(seed, {0, 0, 0, 1}, {})},
                                          64);
    const std::uint32_t rows = g.gather(data, drawn);
    const std::uint32_t label =
        g.element(ElementOp::iand, {g.slice(rows, {0, 0, 0, 1}, {{1, 1, batch, 1}}), g.full(DType::i32, {}, 15)});

    const std::uint32_t z = g.element(ElementOp::add, {g.matmul(uniform, w1), b1});
    const std::uint32_t h = g.element(ElementOp::tanh, {z});
    const std::uint32_t logits = g.matmul(h, w2);
    const std::uint32_t shifted = g.element(ElementOp::sub, {logits, g.reduce(Op::max_last, logits)});
    const std::uint32_t e = g.element(ElementOp::exp, {shifted});
    const std::uint32_t total = g.reduce(Op::sum_last, e);
    const std::uint32_t hit =
        g.element(ElementOp::i2f, {g.element(ElementOp::ieq, {label, g.iota({{1, 1, 1, 16}}, 3)})});
    const std::uint32_t log_p = g.element(ElementOp::sub, {shifted, g.element(ElementOp::log, {total})});
    const std::uint32_t picked = g.reduce(Op::sum_last, g.element(ElementOp::mul, {log_p, hit}));
    const std::uint32_t loss = g.element(ElementOp::mul, {g.reduce(Op::sum_rows, picked), constant(-1.0F / 8)});

    const std::uint32_t d_logits = g.element(
        ElementOp::mul, {g.element(ElementOp::sub, {g.element(ElementOp::div, {e, total}), hit}), constant(1.0F / 8)});
    const std::uint32_t d_w2 = g.matmul(h, d_logits, true);
    const std::uint32_t d_h = g.matmul(d_logits, w2, false, true);
    const std::uint32_t d_z =
        g.element(ElementOp::mul, {d_h, g.element(ElementOp::sub, {constant(1), g.element(ElementOp::mul, {h, h})})});
    const std::uint32_t d_w1 = g.matmul(uniform, d_z, true);
    const std::uint32_t d_b1 = g.reduce(Op::sum_rows, d_z);
    const std::uint32_t momentum = g.element(ElementOp::fma, {m1, constant(0.9F), d_w1});
    const std::uint32_t rate = constant(-0.05F);
    g.update(0, g.element(ElementOp::fma, {momentum, rate, w1}));
    g.update(1, g.element(ElementOp::fma, {d_b1, rate, b1}));
    g.update(2, g.element(ElementOp::fma, {d_w2, rate, w2}));
    g.update(3, momentum);
    g.update(4, g.element(ElementOp::iadd, {step, g.full(DType::i32, {}, 1)}));
    g.add_slot("loss", DType::f32, {});
    g.update(5, loss);
    g.finish({{1, 1, 64, 2}});
    return g.program;
}

Program deep_program(std::uint32_t layers, std::uint32_t side) {
    Graph g;
    const std::uint32_t w = g.add_slot("w", DType::f32, {{1, 1, side, side}});
    const std::uint32_t data = g.data({{1, 1, 1, side}});
    const std::uint32_t row = g.element(ElementOp::i2f, {data});
    std::uint32_t x = g.element(ElementOp::add, {w, row});
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
        x = g.matmul(x, w, layer % 2 != 0);
        x = g.element(ElementOp::tanh, {x});
        x = g.permute(x, {0, 1, 3, 2});
    }
    g.add_slot("loss", DType::f32, {});
    g.update(0, g.element(ElementOp::sub, {w, row}));
    g.update(1, g.reduce(Op::sum_rows, g.reduce(Op::sum_last, x)));
    g.finish({{1, 1, 1, side}});
    return g.program;
}

Program tangled_program(std::uint64_t seed) {
    Random random(seed);
    Graph g;
    const std::uint32_t side = random.below(2) == 0 ? 7 : 48;
    const Shape square{{1, 1, side, side}};
    for (int slot = 0; slot < 5; ++slot) g.add_slot("slot" + std::to_string(slot), DType::f32, square);
    std::vector<std::uint32_t> nodes{0, 1, 2, 3, 4};
    const auto any = [&] {
        const auto count = static_cast<std::uint32_t>(nodes.size());
        return nodes[random.below(3) == 0 ? random.below(5) : random.below(count)];
    };
    const auto few = [&](std::uint32_t x) { return g.element(arith::ElementOp::max, {x, g.full(DType::f32, {}, 0)}); };
    for (int i = 0; i < 24; ++i) {
        std::uint32_t made = 0;
        switch (random.below(9)) {
            case 0:
                made = g.permute(any(), {0, 1, 3, 2});
                break;
            case 1:
                made = g.reshape(g.reshape(any(), {{1, 1, 1, side * side}}), square);
                break;
            case 2:
                made = g.matmul(any(), any(), random.below(2) == 0);
                break;
            case 3:
                made = g.element(arith::ElementOp::add, {any(), g.reduce(Op::sum_last, any())});
                break;
            case 4:
                made = g.add({Op::slot, {}, DType::f32, square, {}, 0, {random.below(5)}});
                break;
            case 5:
                made = random.below(2) == 0 ? g.full(DType::f32, square, 0x3f800000)
                                            : g.element(arith::ElementOp::i2f, {g.iota(square, 3)});
                break;
            case 6:
                made = few(any());
                break;
            default:
                made = g.element(arith::ElementOp::fma, {any(), any(), any()});
        }
        nodes.push_back(made);
    }
    for (std::size_t slot = 0; slot < 5; ++slot)
        if (random.below(8) != 0) g.update(slot, nodes[nodes.size() - 1 - random.below(12)]);
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    return g.program;
}

State random_state(const Program& program, std::uint64_t seed, Fill fill) {
    Random random(seed);
    State state;
    for (const Slot& slot : program.slots) state.push_back(random_tensor(random, slot.dtype, slot.shape, fill));
    return state;
}

Bytes bytes_of(std::span<const std::uint32_t> words) {
    Bytes bytes;
    for (const std::uint32_t word : words)
        for (unsigned b = 0; b < 4; ++b) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * b)));
    return bytes;
}

MemoryData random_data(const Program& program, std::uint64_t seed) {
    Random random(seed);
    std::vector<Bytes> sets;
    for (const DataSet& data : program.header.data) {
        if (data.type == DataType::i32) {
            const Shape row{{1, 1, 1, static_cast<std::uint32_t>(data.elements)}};
            sets.push_back(bytes_of(random_tensor(random, DType::i32, row, Fill::index).words));
            continue;
        }
        Bytes& bytes = sets.emplace_back(data_bytes(data));
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    }
    return MemoryData(std::move(sets));
}

Tensor test_seed() {
    Hash32 beacon;
    for (std::size_t i = 0; i < 32; ++i) beacon.data[i] = static_cast<std::uint8_t>(17 * i + 3);
    return seed_tensor(beacon);
}

Execution run_every_op(Fill fill) {
    Execution run{every_op_program(), {}};
    const State state = random_state(run.program, 11, fill);
    const MemoryData data = random_data(run.program, 12);
    run.outputs = Executor(run.program, arith::best_backend(), nullptr).run_all(state, data, test_seed());
    return run;
}

std::vector<OperandType> operand_types(const Program& program, const Node& node) {
    std::vector<OperandType> types;
    for (const std::uint32_t input : node.inputs)
        types.push_back({program.nodes[input].dtype, program.nodes[input].shape});
    return types;
}

std::vector<const Tensor*> operands(const NodeOutputs& outputs, const Node& node) {
    std::vector<const Tensor*> result;
    for (const std::uint32_t input : node.inputs) result.push_back(&outputs[input]);
    return result;
}

}  // namespace quern::vm::tensor::test
