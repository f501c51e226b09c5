#include "vm/tensor/view.h"

#include <algorithm>
#include <cstring>

namespace quern::vm::tensor {
namespace {

constexpr std::size_t kTransposeBlock = 32;

struct Axis {
    std::size_t size = 1;
    std::ptrdiff_t from = 0;
    std::ptrdiff_t to = 0;
};

// The dims of a copy without those of size 1, neighbours merged where both sides allow it, padded in front.
std::array<Axis, 4> copy_axes(const View& source, const Strides& out_strides) {
    std::array<Axis, 4> axes{};
    std::size_t count = 0;
    for (std::size_t d = 0; d < 4; ++d) {
        const Axis axis{source.shape.dims[d], source.strides[d], out_strides[d]};
        if (axis.size == 1) continue;
        const auto length = static_cast<std::ptrdiff_t>(axis.size);
        if (count != 0 && axes[count - 1].from == axis.from * length && axes[count - 1].to == axis.to * length) {
            axes[count - 1] = {axes[count - 1].size * axis.size, axis.from, axis.to};
        } else {
            axes[count++] = axis;
        }
    }
    std::rotate(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end());
    return axes;
}

void copy_row(const std::uint32_t* from, std::ptrdiff_t step, std::uint32_t* to, std::size_t count) {
    if (step == 1) {
        std::memcpy(to, from, count * sizeof(std::uint32_t));
    } else if (step == 0) {
        std::fill_n(to, count, *from);
    } else {
        for (std::size_t i = 0; i < count; ++i) to[i] = from[static_cast<std::ptrdiff_t>(i) * step];
    }
}

void transpose_block(const std::uint32_t* from, const Axis& row, const Axis& column, std::uint32_t* to,
                     std::size_t rows) {
    for (std::size_t start = 0; start < column.size; start += kTransposeBlock) {
        const std::size_t end = std::min(start + kTransposeBlock, column.size);
        for (std::size_t r = 0; r < rows; ++r) {
            const std::uint32_t* source = from + static_cast<std::ptrdiff_t>(r) * row.from;
            std::uint32_t* target = to + static_cast<std::ptrdiff_t>(r) * row.to;
            for (std::size_t c = start; c < end; ++c) target[c] = source[static_cast<std::ptrdiff_t>(c) * column.from];
        }
    }
}

}  // namespace

Strides dense_strides(const Shape& shape) {
    Strides strides{};
    std::ptrdiff_t step = 1;
    for (std::size_t d = 4; d-- > 0;) {
        strides[d] = step;
        step *= shape.dims[d];
    }
    return strides;
}

bool is_dense(const Shape& shape, const Strides& strides) {
    const Strides wanted = dense_strides(shape);
    for (std::size_t d = 0; d < 4; ++d)
        if (shape.dims[d] != 1 && strides[d] != wanted[d]) return false;
    return true;
}

bool is_uniform(const Shape& shape, const Strides& strides) {
    for (std::size_t d = 0; d < 4; ++d)
        if (shape.dims[d] != 1 && strides[d] != 0) return false;
    return true;
}

View dense_view(const Tensor& tensor) { return {tensor.words.data(), tensor.shape, dense_strides(tensor.shape)}; }

bool reshape_strides(const Shape& from, const Strides& strides, const Shape& to, Strides& result) {
    // Groups of source dims and of target dims with equal products are matched from the left; within a group the
    // source must be one evenly spaced run.
    std::size_t s = 0;
    std::size_t t = 0;
    result.fill(0);
    while (s < 4 || t < 4) {
        const std::size_t first_s = s;
        const std::size_t first_t = t;
        std::uint64_t source_product = s < 4 ? from.dims[s++] : 1;
        std::uint64_t target_product = t < 4 ? to.dims[t++] : 1;
        while (source_product != target_product) {
            if (source_product < target_product) {
                if (s == 4) return false;
                source_product *= from.dims[s++];
            } else {
                if (t == 4) return false;
                target_product *= to.dims[t++];
            }
        }
        std::ptrdiff_t step = 0;    // between neighbours of the group's run
        std::ptrdiff_t reach = -1;  // step times the elements seen so far
        for (std::size_t d = s; d-- > first_s;) {
            if (from.dims[d] == 1) continue;
            if (reach < 0) {
                step = strides[d];
                reach = step;
            }
            if (strides[d] != reach) return false;
            reach = strides[d] * from.dims[d];
        }
        for (std::size_t d = t; d-- > first_t;) {
            result[d] = step;
            step *= to.dims[d];
        }
    }
    return true;
}

Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& to) {
    Strides result = strides;
    for (std::size_t d = 0; d < 4; ++d)
        if (from.dims[d] == 1 && to.dims[d] != 1) result[d] = 0;
    return result;
}

LoopNest make_loop_nest(const Shape& shape, std::span<const Strides> operands) {
    std::array<std::size_t, 4> sizes{};
    std::array<Strides, kMaxOperands> steps{};
    std::size_t count = 0;
    for (std::size_t d = 0; d < 4; ++d) {
        const std::size_t size = shape.dims[d];
        if (size == 1) continue;
        bool merge = count != 0;
        for (std::size_t i = 0; i < operands.size(); ++i)
            merge = merge && steps[i][count - 1] == operands[i][d] * static_cast<std::ptrdiff_t>(size);
        if (!merge) sizes[count++] = 1;
        sizes[count - 1] *= size;
        for (std::size_t i = 0; i < operands.size(); ++i) steps[i][count - 1] = operands[i][d];
    }
    LoopNest nest;
    if (count == 0) return nest;
    nest.row_length = sizes[count - 1];
    for (std::size_t i = 0; i < operands.size(); ++i) nest.inner[i] = steps[i][count - 1];
    for (std::size_t d = 0; d + 1 < count; ++d) {
        const std::size_t at = 3 - (count - 1) + d;
        nest.outer[at] = sizes[d];
        for (std::size_t i = 0; i < operands.size(); ++i) nest.steps[i][at] = steps[i][d];
    }
    return nest;
}

void copy_view(const View& source, std::uint32_t* out, const Strides& out_strides, ThreadPool* pool) {
    const std::array<Axis, 4> axes = copy_axes(source, out_strides);
    const Axis& inner = axes[3];
    const std::size_t words = source.shape.elements();
    if (words == 1 ||
        inner.to != 1) {  // one word, or a last dim of size 1: the innermost axis is strided on both sides
        for (std::size_t i = 0; i < axes[0].size; ++i)
            for (std::size_t j = 0; j < axes[1].size; ++j)
                for (std::size_t k = 0; k < axes[2].size; ++k)
                    for (std::size_t l = 0; l < axes[3].size; ++l) {
                        const auto at = [&](std::ptrdiff_t Axis::*side) {
                            return static_cast<std::ptrdiff_t>(i) * (axes[0].*side) +
                                   static_cast<std::ptrdiff_t>(j) * (axes[1].*side) +
                                   static_cast<std::ptrdiff_t>(k) * (axes[2].*side) +
                                   static_cast<std::ptrdiff_t>(l) * (axes[3].*side);
                        };
                        out[at(&Axis::to)] = source.data[at(&Axis::from)];
                    }
        return;
    }
    if (inner.from <= 1) {
        const std::size_t rows = axes[0].size * axes[1].size * axes[2].size;
        const auto copy_rows = [&](std::size_t begin, std::size_t end) {
            for (std::size_t row = begin; row < end; ++row) {
                const auto k = static_cast<std::ptrdiff_t>(row % axes[2].size);
                const auto j = static_cast<std::ptrdiff_t>(row / axes[2].size % axes[1].size);
                const auto i = static_cast<std::ptrdiff_t>(row / axes[2].size / axes[1].size);
                copy_row(source.data + i * axes[0].from + j * axes[1].from + k * axes[2].from, inner.from,
                         out + i * axes[0].to + j * axes[1].to + k * axes[2].to, inner.size);
            }
        };
        parallel_parts(pool, rows, words, copy_rows);
        return;
    }
    // A transpose: walk the axis with the shortest step on the source's side together with the rows of the output.
    std::size_t fast = 2;
    for (const std::size_t d : {std::size_t{1}, std::size_t{0}})
        if (axes[d].size > 1 && (axes[fast].size == 1 || axes[d].from < axes[fast].from)) fast = d;
    const Axis row = axes[fast];
    const Axis& outer0 = axes[fast == 0 ? 1 : 0];
    const Axis& outer1 = axes[fast == 2 ? 1 : 2];
    const std::size_t blocks = (row.size + kTransposeBlock - 1) / kTransposeBlock;
    const auto copy_blocks = [&](std::size_t begin, std::size_t end) {
        for (std::size_t task = begin; task < end; ++task) {
            const std::size_t start = task % blocks * kTransposeBlock;
            const auto j = static_cast<std::ptrdiff_t>(task / blocks % outer1.size);
            const auto i = static_cast<std::ptrdiff_t>(task / blocks / outer1.size);
            const auto first = static_cast<std::ptrdiff_t>(start);
            transpose_block(source.data + i * outer0.from + j * outer1.from + first * row.from, row, inner,
                            out + i * outer0.to + j * outer1.to + first * row.to,
                            std::min(kTransposeBlock, row.size - start));
        }
    };
    parallel_parts(pool, outer0.size * outer1.size * blocks, words, copy_blocks);
}

void gather_words(const View& source, const Shape& shape, std::size_t begin, std::size_t end, std::uint32_t* out) {
    const Strides strides = broadcast_strides(source.shape, source.strides, shape);
    const std::size_t columns = shape.columns();
    while (begin < end) {
        const std::size_t row = begin / columns;
        const std::size_t first = begin % columns;
        const std::size_t part = std::min(columns - first, end - begin);
        const auto k = static_cast<std::ptrdiff_t>(row % shape.dims[2]);
        const auto j = static_cast<std::ptrdiff_t>(row / shape.dims[2] % shape.dims[1]);
        const auto i = static_cast<std::ptrdiff_t>(row / shape.dims[2] / shape.dims[1]);
        const std::uint32_t* const at = source.data + i * strides[0] + j * strides[1] + k * strides[2];
        for (std::size_t c = 0; c < part; ++c) out[c] = at[static_cast<std::ptrdiff_t>(first + c) * strides[3]];
        out += part;
        begin += part;
    }
}

}  // namespace quern::vm::tensor
