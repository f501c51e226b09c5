#include "compute/cost/counts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compute/cost/reuse.h"
#include "crypto/sha256_batch.h"
#include "vm/tensor/structural_ops.h"

namespace quern::compute::cost {
namespace {

using vm::tensor::ExecutionPlan;
using vm::tensor::kGroupBlock;
using vm::tensor::Member;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::Shape;
using vm::tensor::Step;
using vm::tensor::Strides;
using vm::tensor::arith::Backend;
using vm::tensor::arith::kChainBlock;

constexpr std::array<std::string_view, kUnits> kNames{"step",
                                                      "tap",
                                                      "loop",
                                                      "element_call",
                                                      "gathered_word",
                                                      "copy_row",
                                                      "copy_word",
                                                      "fill_word",
                                                      "turned_word",
                                                      "odd_word",
                                                      "product_call",
                                                      "product_step",
                                                      "product_fma",
                                                      "product_tile",
                                                      "product_store",
                                                      "pack_left",
                                                      "pack_left_steps",
                                                      "pack_left_far",
                                                      "pack_right",
                                                      "pack_right_turned",
                                                      "pack_right_far",
                                                      "bytes_call",
                                                      "bytes_step",
                                                      "bytes_dot",
                                                      "bytes_tile",
                                                      "bytes_store",
                                                      "bytes_pack",
                                                      "bytes_pack_lines",
                                                      "bytes_pack_far",
                                                      "sum_row",
                                                      "sum_chunk",
                                                      "max_row",
                                                      "max_chunk",
                                                      "rows_call",
                                                      "rows_strip",
                                                      "rows_single",
                                                      "scatter_index",
                                                      "scatter_number",
                                                      "scatter_row",
                                                      "scatter_word",
                                                      "gather_row",
                                                      "gather_word",
                                                      "random_word",
                                                      "random_quarter",
                                                      "number_word",
                                                      "kth_row",
                                                      "kth_word",
                                                      "kth_pair",
                                                      "window_row",
                                                      "window_byte",
                                                      "window_short",
                                                      "window_word",
                                                      "hash_tile",
                                                      "hash_batch",
                                                      "tree_tile",
                                                      "hash_slot",
                                                      "read_128k",
                                                      "read_512k",
                                                      "read_2m",
                                                      "read_8m",
                                                      "read_32m",
                                                      "read_128m",
                                                      "write_128k",
                                                      "write_512k",
                                                      "write_2m",
                                                      "write_8m",
                                                      "write_32m",
                                                      "write_128m"};
constexpr std::string_view kElement = "element.";

// How the kernels of a backend cut their work (vm/tensor/arith). Where one is changed and this is not, predictions get
// worse and nothing else does.
struct Cut {
    double width = 1;          // words of a vector
    double panel_rows = 1;     // of a product's tile in registers
    double panel_vectors = 1;  // its columns
    double group = 1;          // bytes that one instruction multiplies
};
Cut cut_of(Backend backend) {
    switch (backend) {
        case Backend::avx2:
            return {8, 6, 2, 2};
        case Backend::avx512:
            return {16, 14, 2, 2};
        case Backend::vnni:
            return {16, 14, 2, 4};
        case Backend::neon:
            return {4, 6, 4, 2};
        case Backend::soft:
        case Backend::scalar:
        case Backend::cuda:  // cuts no vectors
            break;
    }
    return {};
}
constexpr double kLeastFmas = 8;  // of a tile in a step: fewer wait for their sums
constexpr double kColumnsAtOnce = 1024;
constexpr std::size_t kRowGrain = 48;  // as node_kernels.cpp has them
constexpr std::size_t kColumnGrain = 64;
constexpr double kScatterColumns = 256;
constexpr double kRanked = 64;
constexpr double kWordBytes = 4;
// Bytes that come from far meanwhile, where there is so much arithmetic: of elementwise work one for each unit beyond a
// simple operation's, of products one for four multiply-adds.
constexpr double kSimpleWork = 8;
constexpr double kHiddenByProducts = 0.25;

double ceil_div(double a, double b) { return std::ceil(a / b); }
double elements(const Shape& shape) { return static_cast<double>(shape.elements()); }

// A view of A or B, as node_kernels.cpp takes it.
struct Factor {
    std::ptrdiff_t outer = 0;
    std::ptrdiff_t inner = 0;
    std::ptrdiff_t line = 0;
    std::ptrdiff_t along = 0;
};

struct Axis {
    double size = 1;
    std::ptrdiff_t from = 0;
    std::ptrdiff_t to = 0;
};

class Counter {
public:
    Counter(const Program& program, const ExecutionPlan& plan, const Setup& setup)
        : program_(program),
          plan_(plan),
          setup_(setup),
          cut_(cut_of(setup.backend)),
          threads_(static_cast<double>(setup.threads)),
          reuse_(program, plan, setup.threads) {}

    // Twice: the first time says what lies in the caches when a step begins.
    void run(const TakeCounts& take) {
        std::uint32_t last = 0;
        for (const bool counted : {false, true}) {
            for (const Step& step : plan_.steps) {
                if (step.kind == Step::Kind::group) {
                    add_group(step, counted ? &take : nullptr, last);
                    continue;
                }
                counts_ = {};
                at(Unit::step) = 1;
                if (step.kind == Step::Kind::node) last = number_of(step.node);
                add_step(step);
                if (counted) take(last, counts_);
            }
        }
    }

private:
    double& at(Unit unit) { return counts_[static_cast<std::size_t>(unit)]; }
    [[nodiscard]] std::uint32_t number_of(const Node* node) const {
        return static_cast<std::uint32_t>(node - program_.nodes.data());
    }

    // The largest part of a loop over `count` things: parallel_parts.
    double share(double count, double work) {
        const double worth = static_cast<double>(vm::tensor::worth_a_thread) *
                             (setup_.spins ? 1 : static_cast<double>(vm::tensor::kWakingFactor));
        if (setup_.threads <= 1 || work < worth || count < 2) return 1;
        at(Unit::loop) += 1;
        return ceil_div(count, threads_) / count;
    }

    // `part` of what is touched.
    void add_memory(const std::array<double, kLevels>& bytes, Unit first, double part) {
        for (std::size_t i = 0; i < kLevels; ++i) counts_[static_cast<std::size_t>(first) + i] += bytes[i] * part;
    }
    // The share of far bytes that arithmetic does not hide.
    static double shown(double bytes, double hidden) { return hidden <= bytes ? 1 : bytes / hidden; }
    static double bytes_of(const vm::tensor::Value& value) { return kWordBytes * words_of(value); }
    // That are there, whatever repeats them.
    static double words_of(const vm::tensor::Value& value) {
        double words = 1;
        for (std::size_t d = 0; d < 4; ++d)
            if (value.strides[d] != 0) words *= value.shape.dims[d];
        return words;
    }
    void read(const vm::tensor::Value& value, double part) {
        add_memory(reuse_.touch(value.root, value.offset, words_of(value)), Unit::read_128k, part);
    }
    void write(std::size_t root, double words, double part) {
        add_memory(reuse_.touch(root, 0, words), Unit::write_128k, part);
    }

    // What it reads and writes, each root once.
    static double bytes_of_group(const Step& step) {
        double bytes = 0;
        std::vector<std::size_t> seen;
        const auto is_new = [&](std::size_t root) {
            if (root == vm::tensor::kNone || std::find(seen.begin(), seen.end(), root) != seen.end()) return false;
            seen.push_back(root);
            return true;
        };
        for (const Member& member : step.members) {
            for (std::size_t k = 0; k < member.node->inputs.size(); ++k)
                if (is_new(member.operands[k].value.root)) bytes += bytes_of(member.operands[k].value);
            if (is_new(member.root)) bytes += kWordBytes * static_cast<double>(step.words);
        }
        return bytes;
    }

    void add_group(const Step& step, const TakeCounts* take, std::uint32_t& last) {
        const auto words = static_cast<double>(step.words);
        const double blocks = ceil_div(words, kGroupBlock);
        const double parts = std::min(threads_, blocks);
        counts_ = {};
        at(Unit::step) = 1;
        double part = 1;
        if (const double of_parts = share(parts, words * static_cast<double>(step.work) / 8); of_parts != 1)
            part = ceil_div(blocks, parts) / blocks;
        std::vector<std::size_t> touched;  // roots of which a block is in the cache
        const auto is_first = [&](std::size_t root) {
            if (std::find(touched.begin(), touched.end(), root) != touched.end()) return false;
            touched.push_back(root);
            return true;
        };
        double hard = 0;  // work beyond a simple operation's, which waits for its words itself
        for (const Member& member : step.members)
            hard += vm::tensor::arith::find_element_op(member.node->element)->work - kSimpleWork;
        const double shown_part = part * shown(bytes_of_group(step), words * hard);
        for (const Member& member : step.members) {
            const auto length = static_cast<double>(member.nest.row_length);
            const double rows = words / length;
            const std::size_t row = static_cast<std::size_t>(vm::tensor::arith::find_element_op(member.node->element) -
                                                             vm::tensor::arith::kElementOps.data());
            at(Unit::element_call) += (rows + blocks - 1) * part;
            counts_[kUnits + row] += rows * ceil_div(length, cut_.width) * cut_.width * part;
            for (std::size_t k = 0; k < member.node->inputs.size(); ++k) {
                const Member::Operand& operand = member.operands[k];
                if (operand.is_gathered) at(Unit::gathered_word) += words * part;
                const bool outside = operand.value.root != vm::tensor::kNone &&
                                     (operand.scratch == vm::tensor::kNone || operand.is_gathered);
                if (outside && is_first(operand.value.root)) read(operand.value, shown_part);
            }
            if (member.root != vm::tensor::kNone && is_first(member.root)) write(member.root, words, shown_part);
            last = number_of(member.node);
            if (take != nullptr) (*take)(last, counts_);
            counts_ = {};
        }
    }

    void add_step(const Step& step) {
        if (step.kind != Step::Kind::node) {
            const double part = add_copy(step.inputs[0], vm::tensor::dense_strides(step.inputs[0].shape));
            read(step.inputs[0], part);
            write(step.output, elements(step.inputs[0].shape), part);
            return;
        }
        double part = add_node(*step.node, step.inputs);
        if (step.node->op == Op::matmul || step.node->op == Op::imatmul) {
            double bytes = kWordBytes * elements(step.node->shape);
            for (const vm::tensor::Value& input : step.inputs) bytes += bytes_of(input);
            const double inner = step.inputs[0].shape.dims[step.node->attributes[0] != 0 ? 2 : 3];
            part *= shown(bytes, kHiddenByProducts * elements(step.node->shape) * inner);
        }
        for (const vm::tensor::Value& input : step.inputs) read(input, part);
        write(step.output, elements(step.node->shape), part);
    }

    // The part of the thread that has most.
    double add_node(const Node& node, const std::vector<vm::tensor::Value>& in) {
        const double out = elements(node.shape);
        switch (node.op) {
            case Op::full:
                at(Unit::fill_word) += out;
                return 1;
            case Op::iota:
                at(Unit::number_word) += out;
                return 1;
            case Op::philox:
                return add_words(Unit::random_word, out, out * 4, out);
            case Op::philox_words:
                return add_words(Unit::random_quarter, out, out * 4, std::floor(out / 4));
            case Op::window:
                return add_windows(node);
            case Op::matmul:
                return add_product(node, in, false);
            case Op::imatmul:
                return add_product(node, in, true);
            case Op::sum_last:
                return add_reduction(in[0].shape, Unit::sum_row, Unit::sum_chunk);
            case Op::max_last:
                return add_reduction(in[0].shape, Unit::max_row, Unit::max_chunk);
            case Op::sum_rows:
                return add_sum_rows(in[0].shape);
            case Op::kth_last:
                return add_kth(in[0].shape);
            case Op::gather_rows:
                return add_gather(node, in[0].shape);
            case Op::scatter_add_rows:
                return add_scatter(node, in[0].shape);
            case Op::concat: {
                const Strides strides = vm::tensor::dense_strides(node.shape);
                const double first = add_copy(in[0], strides);
                return std::max(first, add_copy(in[1], strides));
            }
            case Op::reshape:
            case Op::permute:
            case Op::slice: {
                vm::tensor::Value value = in[0];
                value.shape = node.shape;
                (void)vm::tensor::view_of(node, in[0].shape, in[0].strides, value.strides, value.offset);
                return add_copy(value, vm::tensor::dense_strides(node.shape));
            }
            case Op::slot:
            case Op::seed:
            case Op::elementwise:
                break;
        }
        return 1;
    }

    double add_words(Unit unit, double words, double work, double count) {
        const double part = share(count, work);
        at(unit) += words * part;
        return part;
    }

    double add_windows(const Node& node) {
        const double length = node.shape.columns();
        const double rows = elements(node.shape) / length;
        const double part = share(rows, elements(node.shape));
        at(Unit::window_row) += rows * part;
        const std::uint64_t size = vm::tensor::element_bytes(program_.header.data[node.attributes[0]].type);
        at(size == 1 ? Unit::window_byte : size == 2 ? Unit::window_short : Unit::window_word) += rows * length * part;
        return part;
    }

    double add_reduction(const Shape& x, Unit row, Unit chunk) {
        const double columns = x.columns();
        const double rows = elements(x) / columns;
        const double part = share(rows, rows * columns);
        at(row) += rows * part;
        at(chunk) += rows * ceil_div(columns, vm::tensor::arith::kReductionLanes) * part;
        return part;
    }

    double add_row_groups(const Shape& x, double height) {
        const double columns = x.columns();
        const double pieces = ceil_div(columns, kColumnGrain);
        const double groups = static_cast<double>(x.leading()) * ceil_div(x.rows(), height);
        const double part = share(groups * pieces, elements(x));
        const double of_thread = ceil_div(columns * (groups == 1 ? part : 1), cut_.width);  // vectors
        const double rows = elements(x) / columns * (groups == 1 ? 1 : part);
        const double strips = std::floor(of_thread / 8);
        at(Unit::rows_call) += std::max(1.0, groups * part);
        at(Unit::rows_strip) += rows * strips;
        at(Unit::rows_single) += rows * (of_thread - 8 * strips);
        return part;
    }

    double add_sum_rows(const Shape& x) {
        const double columns = x.columns();
        const auto matrices = static_cast<double>(x.leading());
        const double blocks = ceil_div(x.rows(), kChainBlock);
        if (blocks == 1 || setup_.threads <= 1 || matrices * columns >= threads_ * kColumnGrain)
            return add_row_groups(x, x.rows());
        at(Unit::element_call) += matrices * blocks;
        return add_row_groups(x, kChainBlock);
    }

    double add_kth(const Shape& x) {
        const double columns = x.columns();
        const double rows = elements(x) / columns;
        const double part = share(rows, rows * columns * 4);
        if (columns <= kRanked) {
            at(Unit::kth_pair) += rows * columns * columns * part;
        } else {
            at(Unit::kth_row) += rows * part;
            at(Unit::kth_word) += rows * columns * part;
        }
        return part;
    }

    double add_gather(const Node& node, const Shape& table) {
        const double columns = table.columns();
        const double rows = static_cast<double>(node.shape.leading()) * node.shape.rows();
        const double part = share(rows, rows * columns);
        at(Unit::gather_row) += rows * part;
        at(Unit::gather_word) += rows * columns * part;
        return part;
    }

    // Of a source whose targets differ within a block: more repeats take less.
    double add_scatter(const Node& node, const Shape& source) {
        const double columns = source.columns();
        const double rows = source.rows();
        at(Unit::fill_word) += elements(node.shape) * share(elements(node.shape), elements(node.shape));
        const bool by_columns = columns >= threads_ * kColumnGrain;
        const double shared = by_columns ? ceil_div(columns, threads_) : columns;
        const double width = std::min(kScatterColumns, ceil_div(shared, kColumnGrain) * kColumnGrain);
        const double pieces = ceil_div(columns, width);
        const double part = share(by_columns ? pieces : node.shape.rows(), elements(source));
        const double later = std::max(0.0, rows - static_cast<double>(kChainBlock));
        // Rows of sums that are added to the table's: one for each target of a block.
        const double again = later * std::min(1.0, node.shape.rows() / static_cast<double>(kChainBlock));
        at(Unit::scatter_index) += rows * (by_columns ? pieces * part : pieces);
        at(Unit::scatter_number) += later * (by_columns ? pieces * part : pieces);
        at(Unit::scatter_row) += (rows + again) * pieces * part;
        at(Unit::scatter_word) += (rows + again) * columns * part;
        return part;
    }

    // copy_view().
    double add_copy(const vm::tensor::Value& source, const Strides& to) {
        std::array<Axis, 4> axes{};
        std::size_t count = 0;
        for (std::size_t d = 0; d < 4; ++d) {
            const Axis axis{static_cast<double>(source.shape.dims[d]), source.strides[d], to[d]};
            if (source.shape.dims[d] == 1) continue;
            const auto length = static_cast<std::ptrdiff_t>(source.shape.dims[d]);
            if (count != 0 && axes[count - 1].from == axis.from * length && axes[count - 1].to == axis.to * length)
                axes[count - 1] = {axes[count - 1].size * axis.size, axis.from, axis.to};
            else
                axes[count++] = axis;
        }
        std::rotate(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end());
        const Axis& inner = axes[3];
        const double words = elements(source.shape);
        if (words == 1 || inner.to != 1) {
            at(Unit::odd_word) += words;
            return 1;
        }
        const double rows = words / inner.size;
        if (inner.from <= 1) {
            const double part = share(rows, words);
            at(Unit::copy_row) += rows * part;
            at(inner.from == 1 ? Unit::copy_word : Unit::fill_word) += words * part;
            return part;
        }
        const double part = share(ceil_div(rows, 32), words);
        at(Unit::turned_word) += words * part;
        return part;
    }

    static Factor factor_of(const Node& node, const vm::tensor::Value& value, std::size_t line_axis) {
        const Shape whole{{node.shape.dims[0], node.shape.dims[1], value.shape.dims[2], value.shape.dims[3]}};
        const Strides strides = vm::tensor::broadcast_strides(value.shape, value.strides, whole);
        return {strides[0], strides[1], strides[line_axis], strides[5 - line_axis]};
    }

    // product() in node_kernels.cpp.
    double add_product(const Node& node, const std::vector<vm::tensor::Value>& in, bool of_bytes) {
        const std::size_t row_axis = node.attributes[0] != 0 ? 3 : 2;
        const std::size_t column_axis = node.attributes[1] != 0 ? 2 : 3;
        const std::size_t per_side = of_bytes ? 2 : 1;
        std::array<Factor, 2> left;
        std::array<Factor, 2> right;
        for (std::size_t i = 0; i < per_side; ++i) {
            left[i] = factor_of(node, in[i], row_axis);
            right[i] = factor_of(node, in[per_side + i], column_axis);
        }
        const double k = in[0].shape.dims[5 - row_axis];
        double m = node.shape.rows();
        const double n = node.shape.columns();
        double outer = node.shape.dims[0];
        double inner = node.shape.dims[1];
        const auto merge = [&](double& count, std::ptrdiff_t Factor::*step) {
            for (std::size_t i = 0; i < per_side && count != 1; ++i) {
                const bool even = m == 1 || left[i].*step == left[i].line * static_cast<std::ptrdiff_t>(m);
                if (right[i].*step != 0 || !even) return false;
            }
            if (m == 1)
                for (Factor& each : left) each.line = each.*step;
            m *= count;
            count = 1;
            return true;
        };
        if (merge(inner, &Factor::inner)) (void)merge(outer, &Factor::outer);
        const double products = outer * inner;
        const bool by_rows = m >= n;
        const double length = by_rows ? m : n;
        const auto grain = static_cast<double>(by_rows ? kRowGrain : kColumnGrain);
        const bool whole = products >= 8 * threads_ || std::fmod(products, threads_) == 0;
        const double wanted = whole ? 1 : threads_;
        const double step = std::max(grain, ceil_div(ceil_div(length, wanted), grain) * grain);
        const double pieces = ceil_div(length, step);
        const double part = share(products * pieces, products * m * n * k / (of_bytes ? 32 : 8));
        const double tasks = std::round(products * pieces * part);  // of the thread that has most
        const double last = std::floor(tasks / pieces);             // pieces of them that are what is left of a product
        const auto add = [&](double calls, double lines) {
            if (calls <= 0) return;
            const Piece piece{calls, by_rows ? lines : m, by_rows ? n : lines, k};
            if (of_bytes)
                add_bytes_calls(piece, left[0], right[0]);
            else
                add_calls(piece, left[0], right[0]);
        };
        add(tasks - last, step);
        add(last, length - (pieces - 1) * step);
        return part;
    }

    struct Piece {
        double calls = 0;
        double m = 0;
        double n = 0;
        double k = 0;
    };
    struct Tiles {
        double count = 0;
        double vectors = 0;  // of all tiles
        double fmas = 0;     // in a step
    };
    // An odd number of rows computes one more; a panel of one vector's columns or less has one.
    [[nodiscard]] Tiles tiles_of(double m, double n) const {
        const double columns = cut_.panel_vectors * cut_.width;
        const double rest = std::fmod(m, cut_.panel_rows);
        const double wide = std::floor(n / columns);
        const double narrow = n - wide * columns;
        Tiles tiles;
        const auto add = [&](double panels, double rows) {
            if (rows == 0) return;
            const double even = std::max(1.0, cut_.panel_rows > 1 ? 2 * ceil_div(rows, 2) : 1);
            const auto of_columns = [&](double count, double vectors) {
                tiles.count += panels * count;
                tiles.vectors += panels * count * even * vectors;
                tiles.fmas += panels * count * std::max(kLeastFmas, even * vectors);
            };
            of_columns(wide, cut_.panel_vectors);
            if (narrow > 0) of_columns(1, narrow <= cut_.width ? 1 : cut_.panel_vectors);
        };
        add(std::floor(m / cut_.panel_rows), cut_.panel_rows);
        add(1, rest);
        return tiles;
    }

    void add_calls(const Piece& piece, const Factor& left, const Factor& right) {
        const Tiles tiles = tiles_of(piece.m, piece.n);
        const double blocks = ceil_div(piece.k, kChainBlock);
        const double calls = piece.calls;
        at(Unit::product_call) += calls * blocks * ceil_div(piece.n, kColumnsAtOnce);
        at(Unit::product_step) += calls * tiles.count * piece.k;
        at(Unit::product_fma) += calls * tiles.fmas * piece.k;
        at(Unit::product_tile) += calls * tiles.count * blocks;
        at(Unit::product_store) += calls * tiles.vectors * blocks;
        const double rows = ceil_div(piece.m, cut_.panel_rows) * cut_.panel_rows;
        const double panel = cut_.panel_vectors * cut_.width;
        const double columns = ceil_div(piece.n, panel) * panel;
        at(left.along == 1                     ? Unit::pack_left
           : left.line == 1 && left.along != 1 ? Unit::pack_left_steps
                                               : Unit::pack_left_far) +=
            calls * rows * piece.k * ceil_div(piece.n, kColumnsAtOnce);
        at(right.line == 1    ? Unit::pack_right
           : right.along == 1 ? Unit::pack_right_turned
                              : Unit::pack_right_far) += calls * columns * piece.k;
    }

    void add_bytes_calls(const Piece& piece, const Factor& left, const Factor& right) {
        const Tiles tiles = tiles_of(piece.m, piece.n);
        const double strips = ceil_div(piece.k, kChainBlock);
        const double groups = ceil_div(piece.k, cut_.group);
        const double calls = piece.calls;
        at(Unit::bytes_call) += calls * strips * ceil_div(piece.n, kColumnsAtOnce);
        at(Unit::bytes_step) += calls * tiles.count * groups;
        at(Unit::bytes_dot) += calls * tiles.fmas * groups;
        at(Unit::bytes_tile) += calls * tiles.count * strips;
        at(Unit::bytes_store) += calls * tiles.vectors * strips;
        const double rows = ceil_div(piece.m, cut_.panel_rows) * cut_.panel_rows;
        const double panel = cut_.panel_vectors * cut_.width;
        const double columns = ceil_div(piece.n, panel) * panel;
        const auto pack = [&](const Factor& factor, double words) {
            at(factor.line == 1    ? Unit::bytes_pack_lines
               : factor.along == 1 ? Unit::bytes_pack
                                   : Unit::bytes_pack_far) += calls * words * piece.k;
        };
        pack(left, rows * ceil_div(piece.n, kColumnsAtOnce));
        pack(right, columns);
    }

    const Program& program_;
    const ExecutionPlan& plan_;
    const Setup setup_;
    const Cut cut_;
    const double threads_;
    Reuse reuse_;
    Counts counts_{};
};

}  // namespace

std::string name_of(std::size_t counted) {
    if (counted < kUnits) return std::string(kNames[counted]);
    if (counted >= kCounted) return {};
    std::string name(kElement);
    return name.append(vm::tensor::arith::kElementOps[counted - kUnits].name);
}

std::size_t counted_of(std::string_view name) {
    for (std::size_t i = 0; i < kCounted; ++i)
        if (name_of(i) == name) return i;
    return kCounted;
}

void count_step(const Program& program, vm::tensor::PlanMode mode, const Setup& setup, const TakeCounts& take) {
    const ExecutionPlan plan = vm::tensor::make_plan(program, nullptr, mode);
    Counter(program, plan, setup).run(take);
    if (mode == vm::tensor::PlanMode::step) return;
    Counts tap{};
    tap[static_cast<std::size_t>(Unit::tap)] = 1;
    for (std::uint32_t i = 0; i < program.nodes.size(); ++i) take(i, tap);
}

Counts count_commitment(const Program& program, const Setup& setup) {
    Counts counts{};
    double tiles = 0;
    for (const vm::tensor::Slot& slot : program.slots) tiles += static_cast<double>(slot.shape.tiles());
    const double worth = static_cast<double>(vm::tensor::worth_a_thread) *
                         (setup.spins ? 1 : static_cast<double>(vm::tensor::kWakingFactor));
    const bool spread = setup.threads > 1 && tiles * vm::tensor::kTileWords >= worth && tiles >= 2;
    if (spread) counts[static_cast<std::size_t>(Unit::loop)] = 1;
    const double of_thread = spread ? ceil_div(tiles, static_cast<double>(setup.threads)) : tiles;
    counts[static_cast<std::size_t>(Unit::hash_tile)] = of_thread;
    counts[static_cast<std::size_t>(Unit::hash_batch)] = ceil_div(of_thread, static_cast<double>(crypto::kHashLanes));
    // A step lies between two commitments.
    const std::array<double, kLevels> levels =
        levels_of(of_thread * vm::tensor::kTileBytes,
                  static_cast<double>(program.header.sizes.peak_bytes) / static_cast<double>(setup.threads));
    for (std::size_t i = 0; i < kLevels; ++i) counts[static_cast<std::size_t>(Unit::read_128k) + i] = levels[i];
    counts[static_cast<std::size_t>(Unit::tree_tile)] = tiles;
    counts[static_cast<std::size_t>(Unit::hash_slot)] = static_cast<double>(program.slots.size());
    return counts;
}

}  // namespace quern::compute::cost
