#include "vm/tensor/node_kernels.h"

#include <algorithm>
#include <cstring>

#include "vm/tensor/arith/random.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using arith::Kernels;

constexpr std::size_t kRowGrain = 48;     // rows of a matmul given to one thread: a multiple of the kernels' blocks
constexpr std::size_t kColumnGrain = 64;  // words of a row given to one thread

struct Batch {
    std::size_t outer = 1;
    std::size_t inner = 1;
};

void elementwise(const Kernels& kernels, const Node& node, std::span<const View> inputs, std::uint32_t* out,
                 ThreadPool* pool) {
    std::array<Strides, kMaxOperands> strides{};
    std::array<ElementwiseOperand, kMaxOperands> operands{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        strides[i] = broadcast_strides(inputs[i].shape, inputs[i].strides, node.shape);
        operands[i].data = inputs[i].data;
    }
    const LoopNest nest = make_loop_nest(node.shape, {strides.data(), inputs.size()});
    const arith::ElementOpInfo* info = arith::find_element_op(node.element);
    const std::size_t count = nest.rows() * nest.row_length;
    parallel_parts(pool, count, count * (info->work / 8), [&](std::size_t begin, std::size_t end) {
        run_elementwise(kernels, node, nest, operands, begin, end, out + begin);
    });
}

void matmul(const Kernels& kernels, const Node& node, const View& a, const View& b, std::uint32_t* out,
            ThreadPool* pool) {
    const bool transpose_a = node.attributes[0] != 0;
    const bool transpose_b = node.attributes[1] != 0;
    const std::size_t row_axis = transpose_a ? 3 : 2;
    const std::size_t inner_axis = transpose_a ? 2 : 3;
    const Strides as = broadcast_strides(a.shape, a.strides,
                                         {{node.shape.dims[0], node.shape.dims[1], a.shape.dims[2], a.shape.dims[3]}});
    const Strides bs = broadcast_strides(b.shape, b.strides,
                                         {{node.shape.dims[0], node.shape.dims[1], b.shape.dims[2], b.shape.dims[3]}});
    std::size_t m = node.shape.rows();
    const std::size_t n = node.shape.columns();
    const std::size_t k = a.shape.dims[inner_axis];
    Batch batch{node.shape.dims[0], node.shape.dims[1]};
    std::ptrdiff_t a_row = as[row_axis];
    // One weight matrix for all leading indices: their rows are rows of one product where A steps evenly.
    if ((batch.inner == 1 || bs[1] == 0) &&
        (m == 1 || batch.inner == 1 || as[1] == a_row * static_cast<std::ptrdiff_t>(m))) {
        if (m == 1) a_row = as[1];
        m *= batch.inner;
        batch.inner = 1;
        if ((batch.outer == 1 || bs[0] == 0) &&
            (m == 1 || batch.outer == 1 || as[0] == a_row * static_cast<std::ptrdiff_t>(m))) {
            if (m == 1) a_row = as[0];
            m *= batch.outer;
            batch.outer = 1;
        }
    }
    const std::ptrdiff_t a_column = as[inner_axis];
    const std::ptrdiff_t b_row = bs[transpose_b ? 3 : 2];
    const std::ptrdiff_t b_column = bs[transpose_b ? 2 : 3];
    const std::size_t products = batch.outer * batch.inner;
    const std::size_t threads = pool == nullptr ? 1 : pool->size();
    // Cut each product in pieces along its longer side only where whole products would leave a thread idle.
    const bool by_rows = m >= n;
    const std::size_t length = by_rows ? m : n;
    const std::size_t grain = by_rows ? kRowGrain : kColumnGrain;
    const std::size_t wanted = products >= 8 * threads || products % threads == 0 ? 1 : threads;
    const std::size_t step = std::max(grain, ((length + wanted - 1) / wanted + grain - 1) / grain * grain);
    const std::size_t pieces = (length + step - 1) / step;
    const auto run = [&](std::size_t begin, std::size_t end) {
        for (std::size_t task = begin; task < end; ++task) {
            const std::size_t product = task / pieces;
            const std::size_t start = task % pieces * step;
            const std::size_t part = std::min(step, length - start);
            const auto i0 = static_cast<std::ptrdiff_t>(product / batch.inner);
            const auto i1 = static_cast<std::ptrdiff_t>(product % batch.inner);
            const auto first = static_cast<std::ptrdiff_t>(start);
            const std::uint32_t* a_data = a.data + i0 * as[0] + i1 * as[1] + (by_rows ? first * a_row : 0);
            const std::uint32_t* b_data = b.data + i0 * bs[0] + i1 * bs[1] + (by_rows ? 0 : first * b_column);
            std::uint32_t* c = out + product * m * n + (by_rows ? start * n : start);
            kernels.matmul(by_rows ? part : m, by_rows ? n : part, k, {a_data, a_row, a_column},
                           {b_data, b_row, b_column}, c, n);
        }
    };
    parallel_parts(pool, products * pieces, products * m * n * k / 8, run);
}

void reduce_last(const Kernels& kernels, const Node& node, const View& x, std::uint32_t* out, ThreadPool* pool) {
    const auto kernel = node.op == Op::sum_last ? kernels.sum_last : kernels.max_last;
    const std::size_t columns = x.shape.columns();
    const Strides strides = {x.strides[0], x.strides[1], x.strides[2], 0};
    const LoopNest nest = make_loop_nest(node.shape, {&strides, 1});
    const auto ld = nest.inner[0];
    const std::size_t count = nest.rows() * nest.row_length;
    parallel_parts(pool, count, count * columns, [&](std::size_t begin, std::size_t end) {
        while (begin < end) {
            const std::size_t row = begin / nest.row_length;
            const std::size_t first = begin % nest.row_length;
            const std::size_t part = std::min(nest.row_length - first, end - begin);
            kernel(part, columns, x.data + nest.row_offset(0, row) + static_cast<std::ptrdiff_t>(first) * ld,
                   static_cast<std::size_t>(ld), out + begin);
            begin += part;
        }
    });
}

void sum_rows(const Kernels& kernels, const View& x, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t columns = x.shape.columns();
    const std::size_t pieces = (columns + kColumnGrain - 1) / kColumnGrain;
    parallel_parts(pool, x.shape.leading() * pieces, x.shape.elements(), [&](std::size_t begin, std::size_t end) {
        while (begin < end) {  // neighbouring pieces of one matrix go in one call
            const std::size_t matrix = begin / pieces;
            const std::size_t last = std::min(end, (matrix + 1) * pieces);
            const std::size_t start = begin % pieces * kColumnGrain;
            const std::size_t stop = std::min(columns, (last - matrix * pieces) * kColumnGrain);
            const auto i0 = static_cast<std::ptrdiff_t>(matrix / x.shape.dims[1]);
            const auto i1 = static_cast<std::ptrdiff_t>(matrix % x.shape.dims[1]);
            kernels.sum_rows(x.shape.rows(), stop - start, x.data + i0 * x.strides[0] + i1 * x.strides[1] + start,
                             static_cast<std::size_t>(x.strides[2]), out + matrix * columns + start);
            begin = last;
        }
    });
}

void gather(const Node& node, const View& table, const View& index, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t columns = table.shape.columns();
    const std::size_t count = node.shape.leading() * node.shape.rows();
    parallel_parts(pool, count, count * columns, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
            const std::uint32_t at = index.data[row];
            if (at < table.shape.rows())
                std::memcpy(out + row * columns, table.data + static_cast<std::ptrdiff_t>(at) * table.strides[2],
                            columns * sizeof(std::uint32_t));
            else
                std::memset(out + row * columns, 0, columns * sizeof(std::uint32_t));
        }
    });
}

void philox(const Node& node, const View& key, std::uint32_t* out, ThreadPool* pool) {
    const std::uint32_t* k = key.data;
    const std::size_t count = node.shape.elements();
    parallel_parts(pool, count, count * 8, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
            out[i] = arith::philox_word(static_cast<std::uint32_t>(i), k[2], k[3], k[0], k[1]);
    });
}

void iota(const Node& node, std::uint32_t* out) {
    const std::size_t axis = node.attributes[0];
    const auto inner = static_cast<std::size_t>(dense_strides(node.shape)[axis]);
    const std::size_t count = node.shape.elements();
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; i += inner) {
        std::fill_n(out + i, inner, value);
        value = value + 1 == node.shape.dims[axis] ? 0 : value + 1;
    }
}

void concat(const Node& node, std::span<const View> inputs, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t axis = node.attributes[0];
    const Strides strides = dense_strides(node.shape);
    copy_view(inputs[0], out, strides, pool);
    copy_view(inputs[1], out + static_cast<std::ptrdiff_t>(inputs[0].shape.dims[axis]) * strides[axis], strides, pool);
}

void structural(const Node& node, std::span<const View> inputs, std::uint32_t* out, ThreadPool* pool) {
    View view{inputs[0].data, node.shape, {}};
    std::ptrdiff_t offset = 0;
    if (view_of(node, inputs[0].shape, inputs[0].strides, view.strides, offset)) {
        view.data += offset;
        copy_view(view, out, dense_strides(node.shape), pool);
    } else if (node.op == Op::concat) {
        concat(node, inputs, out, pool);
    } else {
        copy_words(node, inputs, out, pool);
    }
}

using Inputs = std::span<const View>;
struct Runner {
    Op op{};
    void (*run)(const Kernels&, const Node&, Inputs, std::uint32_t* out, ThreadPool*) = nullptr;
    std::array<Layout, kMaxInputs> layouts{};  // required of the operands
};
constexpr std::array<Runner, 10> kRunners{{
    {Op::full, [](const Kernels&, const Node& node, Inputs, std::uint32_t* out,
                  ThreadPool*) { std::fill_n(out, node.shape.elements(), node.immediate); }},
    {Op::iota, [](const Kernels&, const Node& node, Inputs, std::uint32_t* out, ThreadPool*) { iota(node, out); }},
    {Op::philox,
     [](const Kernels&, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         philox(node, in[0], out, pool);
     },
     {Layout::dense}},
    {Op::elementwise, elementwise},
    {Op::matmul, [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out,
                    ThreadPool* pool) { matmul(kernels, node, in[0], in[1], out, pool); }},
    {Op::sum_last,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         reduce_last(kernels, node, in[0], out, pool);
     },
     {Layout::unit_columns}},
    {Op::max_last,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         reduce_last(kernels, node, in[0], out, pool);
     },
     {Layout::unit_columns}},
    {Op::sum_rows,
     [](const Kernels& kernels, const Node&, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         sum_rows(kernels, in[0], out, pool);
     },
     {Layout::unit_columns}},
    {Op::gather_rows,
     [](const Kernels&, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         gather(node, in[0], in[1], out, pool);
     },
     {Layout::unit_columns, Layout::dense}},
    {Op::scatter_add_rows,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool*) {
         std::memset(out, 0, node.shape.elements() * sizeof(std::uint32_t));
         kernels.scatter_add_rows(in[0].shape.rows(), in[0].shape.columns(), in[0].data,
                                  static_cast<std::size_t>(in[0].strides[2]), in[1].data, node.shape.rows(), out);
     },
     {Layout::unit_columns, Layout::dense}},
}};
static_assert(covers(kRunners,
                     [](const OpInfo& info) { return info.kind != OpKind::input && info.kind != OpKind::structural; }));

}  // namespace

void copy_words(const Node& node, std::span<const View> inputs, std::uint32_t* out, ThreadPool* pool) {
    std::vector<OperandType> types;
    for (const View& input : inputs) types.push_back({node.dtype, input.shape});
    const std::size_t count = node.shape.elements();
    parallel_parts(pool, count, count * 8, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            const ElementSource source = copy_source(node, types, coordinates_of(node.shape, i));
            const View& view = inputs[source.operand];
            std::ptrdiff_t at = 0;
            for (std::size_t d = 0; d < 4; ++d) at += static_cast<std::ptrdiff_t>(source.at[d]) * view.strides[d];
            out[i] = view.data[at];
        }
    });
}

Layout required_layout(Op op, std::size_t operand) {
    if (op == Op::reshape) return Layout::dense;  // any other order of the words is no view
    const Runner* const runner = find_entry(kRunners, op);
    return runner == nullptr ? Layout::any : runner->layouts[operand];
}

bool has_layout(const View& view, Layout layout) {
    switch (layout) {
        case Layout::any:
            return true;
        case Layout::unit_columns:
            return view.shape.columns() == 1 || view.strides[3] == 1;
        case Layout::dense:
            return is_dense(view.shape, view.strides);
    }
    return false;
}

bool is_runnable(const LoopNest& nest, std::size_t operands) {
    for (std::size_t i = 0; i < operands; ++i)
        if (nest.inner[i] != 0 && nest.inner[i] != 1) return false;
    return true;
}

void run_elementwise(const Kernels& kernels, const Node& node, const LoopNest& nest,
                     const std::array<ElementwiseOperand, kMaxOperands>& operands, std::size_t begin, std::size_t end,
                     std::uint32_t* out) {
    const std::size_t arity = node.inputs.size();
    std::array<const std::uint32_t*, kMaxOperands> at{};
    std::array<std::size_t, kMaxOperands> step{};
    for (std::size_t i = 0; i < arity; ++i) step[i] = static_cast<std::size_t>(nest.inner[i]);
    while (begin < end) {
        const std::size_t row = begin / nest.row_length;
        const std::size_t first = begin % nest.row_length;
        const std::size_t part = std::min(nest.row_length - first, end - begin);
        for (std::size_t i = 0; i < arity; ++i)
            at[i] = operands[i].data +
                    (nest.row_offset(i, row) + static_cast<std::ptrdiff_t>(first * step[i]) - operands[i].origin);
        kernels.elementwise(node.element, part, at[0], step[0], at[1], step[1], at[2], step[2], node.immediate, out);
        begin += part;
        out += part;
    }
}

void run_node(const Kernels& kernels, const Node& node, std::span<const View> inputs, std::uint32_t* out,
              ThreadPool* pool) {
    if (is_kind(node.op, OpKind::structural)) return structural(node, inputs, out, pool);
    if (const Runner* const runner = find_entry(kRunners, node.op)) runner->run(kernels, node, inputs, out, pool);
}

Tensor run_node_checked(const Kernels& kernels, const Node& node, std::span<const View> inputs, ThreadPool* pool) {
    std::array<View, kMaxInputs> views{};
    std::array<Tensor, kMaxInputs> copies;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        views[i] = inputs[i];
        const Layout layout = node.op == Op::elementwise ? Layout::dense : required_layout(node.op, i);
        if (has_layout(views[i], layout)) continue;
        copies[i].shape = views[i].shape;
        copies[i].words.resize(views[i].shape.elements());
        copy_view(views[i], copies[i].words.data(), dense_strides(views[i].shape), pool);
        views[i] = dense_view(copies[i]);
    }
    Tensor result{node.dtype, node.shape, std::vector<std::uint32_t>(node.shape.elements())};
    run_node(kernels, node, {views.data(), inputs.size()}, result.words.data(), pool);
    return result;
}

}  // namespace quern::vm::tensor
