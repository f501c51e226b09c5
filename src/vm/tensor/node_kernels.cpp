#include "vm/tensor/node_kernels.h"

#include <algorithm>
#include <cstring>

#include "vm/tensor/arith/random.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using arith::Kernels;

constexpr std::size_t kRowGrain = 48;         // rows of a matmul given to one thread: a multiple of the kernels' blocks
constexpr std::size_t kColumnGrain = 64;      // words of a row given to one thread
constexpr std::size_t kScatterColumns = 256;  // of a table that rows are scattered into, at a time

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

// A view of A or B of a product, or of an operand's scales: how far it is from one element to the next.
struct Factor {
    const std::uint32_t* data = nullptr;
    std::ptrdiff_t outer = 0;  // along the leading dims
    std::ptrdiff_t inner = 0;
    std::ptrdiff_t line = 0;   // along the rows of A, the columns of B
    std::ptrdiff_t along = 0;  // along the inner dim
};

Factor factor_of(const Node& node, const View& view, std::size_t line_axis) {
    const Shape whole{{node.shape.dims[0], node.shape.dims[1], view.shape.dims[2], view.shape.dims[3]}};
    const Strides strides = broadcast_strides(view.shape, view.strides, whole);
    return {view.data, strides[0], strides[1], strides[line_axis], strides[5 - line_axis]};
}

// A product in parts for threads: call(rows, columns, parts of A's factors, of B's, output). The factors of a side are
// cut alike. `weight`: products in the time of a word.
template <std::size_t Count, class Call>
void product(const Node& node, std::size_t k, std::array<Factor, Count> left, const std::array<Factor, Count>& right,
             std::size_t weight, std::uint32_t* out, ThreadPool* pool, const Call& call) {
    std::size_t m = node.shape.rows();
    const std::size_t n = node.shape.columns();
    Batch batch{node.shape.dims[0], node.shape.dims[1]};
    // One weight matrix for all leading indices: their rows are rows of one product where A steps evenly.
    const auto is_even = [&](std::size_t count, std::ptrdiff_t Factor::*step) {
        if (count == 1) return true;
        return std::all_of(right.begin(), right.end(), [&](const Factor& each) { return each.*step == 0; }) &&
               (m == 1 || std::all_of(left.begin(), left.end(), [&](const Factor& each) {
                    return each.*step == each.line * static_cast<std::ptrdiff_t>(m);
                }));
    };
    const auto make_rows = [&](std::size_t& count, std::ptrdiff_t Factor::*step) {
        if (m == 1)
            for (Factor& each : left) each.line = each.*step;
        m *= count;
        count = 1;
    };
    if (is_even(batch.inner, &Factor::inner)) {
        make_rows(batch.inner, &Factor::inner);
        if (is_even(batch.outer, &Factor::outer)) make_rows(batch.outer, &Factor::outer);
    }
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
            const std::size_t number = task / pieces;
            const std::size_t start = task % pieces * step;
            const std::size_t part = std::min(step, length - start);
            const auto i0 = static_cast<std::ptrdiff_t>(number / batch.inner);
            const auto i1 = static_cast<std::ptrdiff_t>(number % batch.inner);
            const auto first = static_cast<std::ptrdiff_t>(start);
            std::array<arith::MatrixView, Count> a;
            std::array<arith::MatrixView, Count> b;
            for (std::size_t i = 0; i < Count; ++i) {
                const Factor& x = left[i];
                const Factor& y = right[i];
                a[i] = {x.data + i0 * x.outer + i1 * x.inner + (by_rows ? first * x.line : 0), x.line, x.along};
                b[i] = {y.data + i0 * y.outer + i1 * y.inner + (by_rows ? 0 : first * y.line), y.along, y.line};
            }
            call(by_rows ? part : m, by_rows ? n : part, a, b, out + number * m * n + (by_rows ? start * n : start));
        }
    };
    parallel_parts(pool, products * pieces, products * m * n * k / weight, run);
}

void matmul(const Kernels& kernels, const Node& node, const View& a, const View& b, std::uint32_t* out,
            ThreadPool* pool) {
    const std::size_t row_axis = node.attributes[0] != 0 ? 3 : 2;
    const std::size_t column_axis = node.attributes[1] != 0 ? 2 : 3;
    const std::size_t k = a.shape.dims[5 - row_axis];
    product<1>(node, k, {factor_of(node, a, row_axis)}, {factor_of(node, b, column_axis)}, 8, out, pool,
               [&](std::size_t rows, std::size_t columns, const auto& left, const auto& right, std::uint32_t* c) {
                   kernels.matmul(rows, columns, k, left[0], right[0], c, node.shape.columns());
               });
}

void imatmul(const Kernels& kernels, const Node& node, std::span<const View> in, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t row_axis = node.attributes[0] != 0 ? 3 : 2;
    const std::size_t column_axis = node.attributes[1] != 0 ? 2 : 3;
    const std::size_t k = in[0].shape.dims[5 - row_axis];
    product<2>(node, k, {factor_of(node, in[0], row_axis), factor_of(node, in[1], row_axis)},
               {factor_of(node, in[2], column_axis), factor_of(node, in[3], column_axis)}, 32, out, pool,
               [&](std::size_t rows, std::size_t columns, const auto& left, const auto& right, std::uint32_t* c) {
                   kernels.imatmul(rows, columns, k, left[0], left[1], right[0], right[1], c, node.shape.columns());
               });
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

// out[i * columns] ... = the sums of the i-th group of `height` rows; groups do not reach over the end of a matrix.
void sum_row_groups(const Kernels& kernels, const View& x, std::size_t height, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t columns = x.shape.columns();
    const std::size_t pieces = (columns + kColumnGrain - 1) / kColumnGrain;
    const std::size_t per_matrix = (x.shape.rows() + height - 1) / height;
    const std::size_t groups = x.shape.leading() * per_matrix;
    parallel_parts(pool, groups * pieces, x.shape.elements(), [&](std::size_t begin, std::size_t end) {
        while (begin < end) {  // neighbouring pieces of one group go in one call
            const std::size_t group = begin / pieces;
            const std::size_t last = std::min(end, (group + 1) * pieces);
            const std::size_t start = begin % pieces * kColumnGrain;
            const std::size_t stop = std::min(columns, (last - group * pieces) * kColumnGrain);
            const std::size_t row = group % per_matrix * height;
            const std::size_t matrix = group / per_matrix;
            const auto i0 = static_cast<std::ptrdiff_t>(matrix / x.shape.dims[1]);
            const auto i1 = static_cast<std::ptrdiff_t>(matrix % x.shape.dims[1]);
            kernels.sum_rows(std::min<std::size_t>(height, x.shape.rows() - row), stop - start,
                             x.data + i0 * x.strides[0] + i1 * x.strides[1] +
                                 static_cast<std::ptrdiff_t>(row) * x.strides[2] + start,
                             static_cast<std::size_t>(x.strides[2]), out + group * columns + start);
            begin = last;
        }
    });
}

void sum_rows(const Kernels& kernels, const View& x, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t columns = x.shape.columns();
    const std::size_t matrices = x.shape.leading();
    const std::size_t blocks = (x.shape.rows() + arith::kChainBlock - 1) / arith::kChainBlock;
    const std::size_t threads = pool == nullptr ? 1 : pool->size();
    if (blocks == 1 || threads == 1 || matrices * columns >= threads * kColumnGrain)
        return sum_row_groups(kernels, x, x.shape.rows(), out, pool);
    // Too few columns for the threads: the blocks' sums side by side, then their total.
    std::vector<std::uint32_t> sums(matrices * blocks * columns);
    sum_row_groups(kernels, x, arith::kChainBlock, sums.data(), pool);
    for (std::size_t matrix = 0; matrix < matrices; ++matrix) {
        std::uint32_t* total = out + matrix * columns;
        std::fill_n(total, columns, 0);
        for (std::size_t block = 0; block < blocks; ++block)
            kernels.elementwise(arith::ElementOp::add, columns, total, 1,
                                sums.data() + (matrix * blocks + block) * columns, 1, nullptr, 0, 0, total);
    }
}

// Rows that are shorter are searched by rank: a count for each byte takes longer than they have words.
constexpr std::size_t kRanked = 64;

// The word that less than k of the others are before: larger ones, and equal ones that stand before it. Takes as long
// whatever they are.
std::uint32_t kth_by_rank(const std::uint32_t* words, std::size_t count, std::size_t k) {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t before = 0;
        for (std::size_t j = 0; j < count; ++j)
            before += (words[j] > words[i] ? 1 : 0) + (j < i && words[j] == words[i] ? 1 : 0);
        found |= before == k - 1 ? words[i] : 0;
    }
    return found;
}

// The k-th largest of `count` words, unsigned: its bytes from the highest, each by counting those words that share the
// ones before. It takes as long whatever they are.
std::uint32_t kth_largest(const std::uint32_t* words, std::size_t count, std::size_t k) {
    if (count <= kRanked) return kth_by_rank(words, count, k);
    std::uint32_t found = 0;
    std::uint32_t known = 0;  // which bits of it are
    for (unsigned shift = 32; shift != 0;) {
        shift -= 8;
        std::array<std::uint32_t, 256> counts{};
        for (std::size_t i = 0; i < count; ++i)
            counts[words[i] >> shift & 0xff] += ((words[i] ^ found) & known) == 0 ? 1 : 0;
        std::size_t byte = 255;
        for (; counts[byte] < k; --byte) k -= counts[byte];
        found |= static_cast<std::uint32_t>(byte) << shift;
        known |= 0xffU << shift;
    }
    return found;
}

void kth_last(const Node& node, const View& x, std::uint32_t* out, ThreadPool* pool) {
    const std::size_t columns = x.shape.columns();
    const std::size_t rows = node.shape.elements();
    parallel_parts(pool, rows, rows * columns * 4, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
            const Coordinates at = coordinates_of(node.shape, row);
            std::ptrdiff_t first = 0;
            for (std::size_t d = 0; d < 3; ++d) first += static_cast<std::ptrdiff_t>(at[d]) * x.strides[d];
            out[row] = kth_largest(x.data + first, columns, node.attributes[0]);
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

// scatter_add_rows for a part of the table's rows and a piece of its columns: a block of positions at a time.
class Scatter {
public:
    Scatter(const Kernels& kernels, const View& source, const View& index, std::uint32_t* table,
            std::uint32_t table_rows)
        : kernels_(kernels),
          source_(source),
          index_(index.data),
          table_(table),
          table_rows_(table_rows),
          columns_(source.shape.columns()),
          ld_(static_cast<std::size_t>(source.strides[2])) {}

    // Rows [begin, end) of the table, which are +0; columns [start, start + width).
    void run(std::uint32_t begin, std::uint32_t end, std::size_t start, std::size_t width) {
        const std::size_t rows = source_.shape.rows();
        std::uint32_t* const table = table_ + start;
        for (std::size_t first = 0; first < rows; first += arith::kChainBlock) {
            const std::size_t count = std::min(arith::kChainBlock, rows - first);
            const std::uint32_t* const x = source_.data + first * ld_ + start;
            std::size_t kept = 0;
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t target = index_[first + i];
                const bool is_here = target - begin < end - begin;
                target_[i] = is_here ? target : kNowhere;
                kept += is_here ? 1 : 0;
            }
            const std::size_t sums = first == 0 ? kept : number_targets(count, table);
            if (sums == kept) {
                // The table's rows are the chains where the totals are +0, and each row of the source is one where no
                // two have the same target: total + x and total + (+0 + x) are the same, since a total is never -0.
                kernels_.add_rows(count, width, x, ld_, target_.data(), table_rows_, table, columns_);
                continue;
            }
            sums_.assign(sums * width, 0);
            kernels_.add_rows(count, width, x, ld_, number_.data(), sums, sums_.data(), width);
            kernels_.add_rows(sums, width, sums_.data(), width, numbered_.data(), table_rows_, table, columns_);
        }
    }

private:
    static constexpr std::uint32_t kNowhere = 0xffffffff;
    using Places = std::array<std::uint32_t, arith::kChainBlock>;

    // Numbers the targets of a block's rows, each once: number_ for a row, numbered_ for a number. The first word of a
    // row of the table holds its number meanwhile; one that has none yet cannot be mistaken to have one, since the
    // number would have to be there and of this target. So it takes no longer whatever the targets are, which anybody
    // may choose.
    std::size_t number_targets(std::size_t count, std::uint32_t* table) {
        Places words{};
        std::uint32_t used = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t target = target_[i];
            number_[i] = kNowhere;
            if (target == kNowhere) continue;
            std::uint32_t& word = table[target * columns_];
            const std::uint32_t known = word % arith::kChainBlock;
            const bool is_new = word >= used || numbered_[known] != target;
            const std::uint32_t number = is_new ? used : known;
            words[number] = is_new ? word : words[number];
            numbered_[number] = target;
            number_[i] = word = number;
            used += is_new ? 1 : 0;
        }
        for (std::uint32_t i = 0; i < used; ++i) table[numbered_[i] * columns_] = words[i];
        return used;
    }

    const Kernels& kernels_;
    const View& source_;
    const std::uint32_t* const index_;
    std::uint32_t* const table_;
    const std::uint32_t table_rows_;
    const std::size_t columns_;
    const std::size_t ld_;
    Places target_{};    // of the block's rows
    Places number_{};    // of the block's rows
    Places numbered_{};  // targets
    std::vector<std::uint32_t> sums_;
};

void scatter_add(const Kernels& kernels, const Node& node, const View& source, const View& index, std::uint32_t* out,
                 ThreadPool* pool) {
    const std::size_t columns = source.shape.columns();
    const std::size_t words = node.shape.elements();
    const std::size_t threads = pool == nullptr ? 1 : pool->size();
    parallel_parts(pool, words, words,
                   [&](std::size_t begin, std::size_t end) { std::fill(out + begin, out + end, 0); });
    // Threads share the columns, or where these are too few the rows of the table.
    const bool by_columns = columns >= threads * kColumnGrain;
    const std::size_t share = by_columns ? (columns + threads - 1) / threads : columns;
    const std::size_t width = std::min(kScatterColumns, (share + kColumnGrain - 1) / kColumnGrain * kColumnGrain);
    const std::size_t pieces = (columns + width - 1) / width;
    const std::size_t rows = node.shape.rows();
    parallel_parts(pool, by_columns ? pieces : rows, source.shape.elements(), [&](std::size_t begin, std::size_t end) {
        Scatter scatter(kernels, source, index, out, node.shape.rows());
        const std::size_t last = by_columns ? end : pieces;
        for (std::size_t piece = by_columns ? begin : 0; piece < last; ++piece)
            scatter.run(static_cast<std::uint32_t>(by_columns ? 0 : begin),
                        static_cast<std::uint32_t>(by_columns ? rows : end), piece * width,
                        std::min(width, columns - piece * width));
    });
}

// Of calls one after the other, whose number is the counter's first word; `domain` is its last.
void philox(const Kernels& kernels, const Node& node, const View& key, std::uint32_t domain, std::uint32_t* out,
            ThreadPool* pool) {
    const std::uint32_t keys[2] = {key.data[0], key.data[1]};  // may lie where out does
    const std::uint32_t counter[3] = {key.data[2], key.data[3], domain};
    const bool whole = node.op == Op::philox_words;
    const std::size_t words = whole ? 4 : 1;
    const std::size_t count = node.shape.elements();
    parallel_parts(pool, count / words, count * 4, [&](std::size_t begin, std::size_t end) {
        kernels.philox(static_cast<std::uint32_t>(begin), counter, keys, end - begin, whole, out + words * begin);
    });
    const std::size_t calls = count / words;
    const auto last = arith::philox4x32_10({static_cast<std::uint32_t>(calls), counter[0], counter[1], counter[2]},
                                           {keys[0], keys[1]});
    std::copy_n(last.begin(), count % words, out + words * calls);
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
constexpr std::array<Runner, 13> kRunners{{
    {Op::full, [](const Kernels&, const Node& node, Inputs, std::uint32_t* out,
                  ThreadPool*) { std::fill_n(out, node.shape.elements(), node.immediate); }},
    {Op::iota, [](const Kernels&, const Node& node, Inputs, std::uint32_t* out, ThreadPool*) { iota(node, out); }},
    {Op::philox,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         philox(kernels, node, in[0], 0, out, pool);
     },
     {Layout::dense}},
    {Op::elementwise, elementwise},
    {Op::matmul,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         matmul(kernels, node, in[0], in[1], out, pool);
     },
     {Layout::unit_line, Layout::unit_line}},
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
    {Op::kth_last,
     [](const Kernels&, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         kth_last(node, in[0], out, pool);
     },
     {Layout::unit_columns}},
    {Op::imatmul,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         imatmul(kernels, node, in, out, pool);
     },
     {Layout::unit_line, Layout::any, Layout::unit_line, Layout::any}},
    {Op::philox_words,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         philox(kernels, node, in[0], 1, out, pool);
     },
     {Layout::dense}},
    {Op::gather_rows,
     [](const Kernels&, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         gather(node, in[0], in[1], out, pool);
     },
     {Layout::unit_columns, Layout::dense}},
    {Op::scatter_add_rows,
     [](const Kernels& kernels, const Node& node, Inputs in, std::uint32_t* out, ThreadPool* pool) {
         scatter_add(kernels, node, in[0], in[1], out, pool);
     },
     {Layout::unit_columns, Layout::dense}},
}};
static_assert(covers(kRunners, [](const OpInfo& info) {
    return info.kind != OpKind::input && info.kind != OpKind::window && info.kind != OpKind::structural;
}));

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
    if (op == Op::window) return Layout::dense;   // read_windows takes the index in order
    const Runner* const runner = find_entry(kRunners, op);
    return runner == nullptr ? Layout::any : runner->layouts[operand];
}

bool has_layout(const View& view, Layout layout) {
    switch (layout) {
        case Layout::any:
            return true;
        case Layout::unit_columns:
            return view.shape.columns() == 1 || view.strides[3] == 1;
        case Layout::unit_line:
            return view.shape.columns() == 1 || view.shape.rows() == 1 || view.strides[3] == 1 || view.strides[2] == 1;
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
    const arith::Flushing flushing(arith::flushes(node.element));
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
