// Operations that move words, and whole numbers that are known when the program is built.
#include <algorithm>
#include <array>
#include <utility>

#include "compute/program/lowering.h"

namespace quern::compute::program {
namespace {

constexpr std::int64_t kMaxStep = 1 << 30;  // of a slice

// Elements before an axis and behind it.
std::uint64_t before(const Dims& dims, std::size_t axis) { return product(std::span(dims).first(axis)); }
std::uint64_t behind(const Dims& dims, std::size_t axis) { return product(std::span(dims).subspan(axis + 1)); }

// A tensor with one axis in sight: [1,before,axis,behind], or, behind being 1, [1,1,before,axis].
struct OneAxis {
    Shape shape;
    std::size_t place = 2;
};
OneAxis one_axis(std::uint64_t first, std::uint64_t size, std::uint64_t last) {
    if (last == 1) return {matrix_shape(u32(first), u32(size)), 3};
    return {Shape{{1, u32(first), u32(size), u32(last)}}, 2};
}

Value in_shape(Builder& b, Value x, const Shape& shape) {
    return b.failed() || b.shape(x) == shape ? x : b.reshape(x, shape);
}

// Whole numbers with an axis moved: the element at `index` of known ones.
std::vector<std::int64_t> take(const std::vector<std::int64_t>& known, const Dims& dims, std::size_t axis,
                               const std::vector<std::uint64_t>& indices) {
    std::vector<std::int64_t> result;
    if (known.empty()) return result;  // other dims may be large
    const std::uint64_t first = before(dims, axis);
    const std::uint64_t last = behind(dims, axis);
    for (std::uint64_t i = 0; i < first; ++i)
        for (const std::uint64_t index : indices)
            for (std::uint64_t k = 0; k < last; ++k) result.push_back(known[(i * dims[axis] + index) * last + k]);
    return result;
}

// Axes of size 1 left out, neighbours that stay neighbours joined.
struct Permutation {
    std::vector<std::uint64_t> dims;
    std::vector<std::size_t> axes;
};
Permutation simplified(const Dims& dims, const std::vector<std::size_t>& axes) {
    std::vector<std::size_t> order;  // old axes of more than one, in the new order
    for (const std::size_t axis : axes)
        if (dims[axis] != 1) order.push_back(axis);
    std::vector<std::size_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    const auto rank_of = [&](std::size_t axis) {
        return static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), axis) - sorted.begin());
    };
    // Runs of the new order that are runs of the old one too; each begins at an old rank.
    std::vector<std::pair<std::size_t, std::uint64_t>> runs;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i > 0 && rank_of(order[i]) == rank_of(order[i - 1]) + 1)
            runs.back().second *= dims[order[i]];
        else
            runs.emplace_back(rank_of(order[i]), dims[order[i]]);
    }
    std::vector<std::pair<std::size_t, std::uint64_t>> old = runs;
    std::sort(old.begin(), old.end());
    Permutation result;
    for (const auto& [rank, size] : old) result.dims.push_back(size);
    for (const auto& run : runs)
        result.axes.push_back(static_cast<std::size_t>(std::find(old.begin(), old.end(), run) - old.begin()));
    return result;
}

}  // namespace

// --- Moves
// --------------------------------------------------------------------------------------------------------------------

// Of x, row by row, with these dims; the result too.
Value Lowering::transpose(Value x, const Dims& dims, const std::vector<std::size_t>& axes) {
    Permutation rest = simplified(dims, axes);
    std::vector<std::size_t> have(rest.dims.size());  // the axes as they lie, by their old numbers
    for (std::size_t i = 0; i < have.size(); ++i) have[i] = i;
    if (rest.dims.size() <= 4) {
        Shape shape;
        std::array<std::uint32_t, 4> order{0, 1, 2, 3};
        const std::size_t first = 4 - rest.dims.size();
        for (std::size_t i = 0; i < rest.dims.size(); ++i) {
            shape.dims[first + i] = u32(rest.dims[i]);
            order[first + i] = u32(first + rest.axes[i]);
        }
        if (rest.axes == have) return x;
        return b_.permute(in_shape(b_, x, shape), order);
    }
    // One axis after the other is put into its place, past those between.
    for (std::size_t place = 0; place < rest.axes.size() && !b_.failed(); ++place) {
        const auto found =
            static_cast<std::size_t>(std::find(have.begin(), have.end(), rest.axes[place]) - have.begin());
        if (found == place) continue;
        const auto size = [&](std::size_t from, std::size_t to) {
            std::uint64_t product = 1;
            for (std::size_t i = from; i < to; ++i) product *= rest.dims[have[i]];
            return u32(product);
        };
        const Shape shape{{size(0, place), size(place, found), size(found, found + 1), size(found + 1, have.size())}};
        x = b_.permute(in_shape(b_, x, shape), {0, 2, 1, 3});
        const std::size_t axis = have[found];
        have.erase(have.begin() + static_cast<std::ptrdiff_t>(found));
        have.insert(have.begin() + static_cast<std::ptrdiff_t>(place), axis);
    }
    return x;
}

Value Lowering::slice_axis(Value x, const Dims& dims, std::size_t axis, std::uint64_t begin, std::uint64_t count) {
    if (b_.failed() || (begin == 0 && count == dims[axis])) return x;
    auto [shape, place] = one_axis(before(dims, axis), dims[axis], behind(dims, axis));
    x = in_shape(b_, x, shape);
    std::array<std::uint32_t, 4> start{};
    start.at(place) = u32(begin);
    shape.dims.at(place) = u32(count);
    return b_.slice(x, start, shape);
}

// Of parts with the result's dims but for the axis, in which they have `sizes`. By halves, so that a word is copied as
// often as the parts can be halved.
Value Lowering::join(const std::vector<Value>& parts, const std::vector<std::uint64_t>& sizes, const Dims& dims,
                     std::size_t axis) {
    const std::uint64_t first = before(dims, axis);
    const std::uint64_t last = behind(dims, axis);
    std::vector<std::pair<Value, std::uint64_t>> rest;
    for (std::size_t i = 0; i < parts.size(); ++i)
        rest.emplace_back(in_shape(b_, parts[i], one_axis(first, sizes[i], last).shape), sizes[i]);
    while (rest.size() > 1 && !b_.failed()) {
        std::vector<std::pair<Value, std::uint64_t>> next;
        for (std::size_t i = 0; i + 1 < rest.size(); i += 2)
            next.emplace_back(b_.concat(rest[i].first, rest[i + 1].first, u32(one_axis(first, 1, last).place)),
                              rest[i].second + rest[i + 1].second);
        if (rest.size() % 2 != 0) next.push_back(rest.back());
        rest = std::move(next);
    }
    return rest.front().first;
}

bool Lowering::fits_known(const Dims& dims) {
    if (product(dims) > kMaxKnownElements) refuse("onnx.too_large", "whole numbers of more than 2^20 elements");
    return !b_.failed();
}

void Lowering::give_known(std::vector<std::int64_t> known, Dims dims) {
    if (!fits_known({known.size()})) return;
    Item item{std::move(dims)};
    item.known = std::move(known);
    give(std::move(item));
}

void Lowering::give_reshaped(Item& item, Dims dims) {
    Item result{std::move(dims)};
    result.known = item.known;
    result.scalar = item.scalar;
    if (!item.known && !item.scalar) result.value = words(item);
    give(std::move(result));
}

// Elements [begin, begin + count) of an axis.
void Lowering::give_slice(Item& item, std::size_t axis, std::uint64_t begin, std::uint64_t count, std::size_t output) {
    Item result{item.dims};
    result.dims[axis] = count;
    if (item.known) {
        // No more than the input has, which may be a large table of the file.
        if (product(result.dims) > kMaxKnownInAll - known_) return refuse("onnx.too_large", std::string(kTooManyKnown));
        std::vector<std::uint64_t> indices;
        for (std::uint64_t i = 0; i < count && !item.known->empty(); ++i) indices.push_back(begin + i);
        result.known = take(*item.known, item.dims, axis, indices);
    } else if (item.scalar) {
        result.scalar = item.scalar;
    } else {
        result.value = slice_axis(words(item), item.dims, axis, begin, count);
    }
    give(std::move(result), output);
}

// --- Known numbers
// ------------------------------------------------------------------------------------------------------------

void Lowering::constant() {
    const NetworkAttribute* const given = attribute("value");
    const auto* const tensor = given == nullptr ? nullptr : std::get_if<NetworkTensor>(given);
    if (tensor == nullptr) {
        if (const NetworkAttribute* const whole = attribute("value_int"); whole != nullptr)
            return give_known({integer("value_int", 0)}, {});
        if (attribute("value_float") != nullptr) {
            Item item;
            item.scalar = number("value_float", 0);
            return give(std::move(item));
        }
        if (attribute("value_ints") != nullptr) {
            std::vector<std::int64_t> list = integers("value_ints");
            const std::uint64_t size = list.size();
            return give_known(std::move(list), {size});
        }
        return refuse("onnx.unsupported", "a constant of another kind");
    }
    if (!tensor->is_float) return give_known(tensor->whole, tensor->dims);
    Item item{tensor->dims};
    if (tensor->elements() == 1)
        item.scalar = __builtin_bit_cast(float, tensor->floats->front());
    else
        item.stored = tensor;
    give(std::move(item));
}

void Lowering::constant_of_shape() {
    Dims dims;
    std::uint64_t elements = 1;
    for (const std::int64_t dim : list(0)) {
        if (!expect(dim > 0, "a dim of " + std::to_string(dim))) return;
        dims.push_back(static_cast<std::uint64_t>(dim));
    }
    (void)shape_of(dims);
    if (b_.failed() || !expect(dims.size() <= kMaxNetworkRank, "more than 8 dims")) return;
    for (const std::uint64_t dim : dims) elements *= dim;
    Item item{dims};
    const NetworkAttribute* const given = attribute("value");
    const auto* const tensor = given == nullptr ? nullptr : std::get_if<NetworkTensor>(given);
    if (given != nullptr && !expect(tensor != nullptr && tensor->elements() == 1, "value is one element")) return;
    if (tensor != nullptr && !tensor->is_float) {
        if (elements > kMaxKnownElements) return refuse("onnx.too_large", "whole numbers of more than 2^20 elements");
        return give_known(std::vector<std::int64_t>(elements, tensor->whole.front()), std::move(dims));
    }
    item.scalar = tensor == nullptr ? 0.0F : __builtin_bit_cast(float, tensor->floats->front());
    give(std::move(item));
}

void Lowering::shape() {
    const Item& item = in(0);
    std::vector<std::int64_t> dims(item.dims.begin(), item.dims.end());
    const auto rank = static_cast<std::int64_t>(dims.size());
    const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t begin = clamp(integer("start", 0));
    const std::int64_t end = clamp(integer("end", rank));
    dims = begin < end ? std::vector(dims.begin() + begin, dims.begin() + end) : std::vector<std::int64_t>{};
    const std::uint64_t size = dims.size();
    give_known(std::move(dims), {size});
}

void Lowering::range() {
    std::array<std::int64_t, 3> bounds{};
    for (std::size_t i = 0; i < 3; ++i) {
        const Item& item = in(i);
        if (b_.failed()) return;
        if (!item.known || item.known->size() != 1)
            return refuse("onnx.unsupported", "bounds that are not known beforehand as whole numbers");
        bounds.at(i) = item.known->front();
    }
    const auto [start, limit, step] = bounds;
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    if (!expect(
            step != 0 && start > -kFar && start < kFar && limit > -kFar && limit < kFar && step > -kFar && step < kFar,
            "bounds of a range"))
        return;
    const std::int64_t distance = step > 0 ? limit - start : start - limit;
    const std::int64_t stride = step > 0 ? step : -step;
    const std::int64_t count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
    if (count > static_cast<std::int64_t>(kMaxKnownElements)) return refuse("onnx.too_large", "a range");
    std::vector<std::int64_t> known;
    for (std::int64_t i = 0; i < count; ++i) known.push_back(start + i * step);
    give_known(std::move(known), {static_cast<std::uint64_t>(count)});
}

void Lowering::identity() { give(Item(in(0))); }

void Lowering::cast() {
    Item& item = in(0);
    // onnx.proto3, TensorProto.DataType: FLOAT, FLOAT16, DOUBLE, BFLOAT16; BOOL; the rest are whole numbers.
    constexpr std::int64_t kBool = 9;
    const std::int64_t to = integer("to", 1);
    const bool to_float = to == 1 || to == 10 || to == 11 || to == 16;
    if (b_.failed()) return;
    if (to_float) {
        if (!is_whole(item)) return give(Item(item));
        if (item.known && item.known->size() == 1) {
            Item result{item.dims};
            result.scalar = static_cast<float>(item.known->front());
            return give(std::move(result));
        }
        return give(b_.to_f32(words(item)), item.dims);
    }
    if (item.scalar && item.elements() == 1) {
        const float value = *item.scalar;
        if (!expect(value > -0x1p62F && value < 0x1p62F, "a number that is cast to a whole one")) return;
        return give_known({to == kBool ? std::int64_t{value != 0.0F} : static_cast<std::int64_t>(value)}, item.dims);
    }
    if (!is_whole(item)) {
        if (to != kBool) return refuse("onnx.unsupported", "numbers that are computed are not cast to whole ones");
        const auto zero = b_.eq(words(item), b_.constant(0.0F));
        return give(b_.ieq(zero, b_.constant_i32(0)), item.dims);
    }
    if (to != kBool) return give(Item(item));
    if (item.known) {
        std::vector<std::int64_t> known = *item.known;
        for (std::int64_t& each : known) each = each == 0 ? 0 : 1;
        return give_known(std::move(known), item.dims);
    }
    const auto zero = b_.ieq(words(item), b_.constant_i32(0));
    give(b_.ieq(zero, b_.constant_i32(0)), item.dims);
}

// --- Dims
// ---------------------------------------------------------------------------------------------------------------------

void Lowering::reshape() {
    Item& item = in(0);
    const std::vector<std::int64_t> wanted = list(1);
    if (b_.failed() || !expect(wanted.size() <= kMaxNetworkRank, "more than 8 dims")) return;
    Dims dims;
    std::optional<std::size_t> open;
    std::uint64_t so_far = 1;
    const std::uint64_t elements = item.elements();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        std::uint64_t dim = 1;
        if (wanted[i] == -1) {
            if (!expect(!open, "two dims of -1")) return;
            open = i;
        } else if (wanted[i] == 0) {
            if (!expect(i < item.dims.size(), "a dim of 0, which is the input's, where it has none")) return;
            dim = item.dims[i];
        } else {
            if (!expect(wanted[i] > 0, "a dim of " + std::to_string(wanted[i]))) return;
            dim = static_cast<std::uint64_t>(wanted[i]);
        }
        if (!expect(so_far <= elements / std::max<std::uint64_t>(dim, 1) || elements == 0,
                    "more elements than there are"))
            return;
        dims.push_back(dim);
        so_far = product(dims);
    }
    if (open && so_far != 0) dims[*open] = elements / so_far;
    if (!expect(product(dims) == elements, "the input has " + std::to_string(elements) + " elements")) return;
    give_reshaped(item, std::move(dims));
}

void Lowering::flatten() {
    Item& item = in(0);
    const std::int64_t given = integer("axis", 1);
    if (b_.failed()) return;
    const auto rank = static_cast<std::int64_t>(item.dims.size());
    const std::int64_t axis = given < 0 ? given + rank : given;
    if (!expect(axis >= 0 && axis <= rank, "axis " + std::to_string(given))) return;
    const std::uint64_t rows = before(item.dims, static_cast<std::size_t>(axis));
    give_reshaped(item, {rows, rows == 0 ? 0 : item.elements() / rows});
}

void Lowering::squeeze() {
    Item& item = in(0);
    const auto given = list_or_attribute("axes", 1);
    std::vector<bool> gone(item.dims.size());
    if (given) {
        for (const std::int64_t each : *given) {
            const auto axis = axis_of(each, item.dims.size());
            if (!axis || !expect(item.dims[*axis] == 1, "a dim that is not 1")) return;
            gone[*axis] = true;
        }
    } else {
        for (std::size_t i = 0; i < gone.size(); ++i) gone[i] = item.dims[i] == 1;
    }
    Dims dims;
    for (std::size_t i = 0; i < gone.size(); ++i)
        if (!gone[i]) dims.push_back(item.dims[i]);
    if (!b_.failed()) give_reshaped(item, std::move(dims));
}

void Lowering::unsqueeze() {
    Item& item = in(0);
    const auto given = list_or_attribute("axes", 1);
    if (b_.failed() || !expect(given.has_value(), "axes")) return;
    const std::size_t rank = item.dims.size() + given->size();
    if (!expect(rank <= kMaxNetworkRank, "more than 8 dims")) return;
    std::vector<bool> added(rank);
    for (const std::int64_t each : *given) {
        const auto axis = axis_of(each, rank);
        if (!axis || !expect(!added[*axis], "an axis twice")) return;
        added[*axis] = true;
    }
    Dims dims;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i) dims.push_back(added[i] ? 1 : item.dims[next++]);
    give_reshaped(item, std::move(dims));
}

void Lowering::transpose() {
    Item& item = in(0);
    std::vector<std::int64_t> given = integers("perm");
    const std::size_t rank = item.dims.size();
    if (given.empty())
        for (std::size_t i = rank; i-- > 0;) given.push_back(static_cast<std::int64_t>(i));
    if (b_.failed() || !expect(given.size() == rank, "perm has " + std::to_string(given.size()) + " axes")) return;
    std::vector<std::size_t> axes;
    std::vector<bool> seen(rank);
    Dims dims;
    for (const std::int64_t each : given) {
        const auto axis = axis_of(each, rank);
        if (!axis || !expect(!seen[*axis], "an axis twice")) return;
        seen[*axis] = true;
        axes.push_back(*axis);
        dims.push_back(item.dims[*axis]);
    }
    if (item.scalar) return give_reshaped(item, std::move(dims));
    if (item.known) {
        std::vector<std::int64_t> known;
        for (std::uint64_t i = 0; i < item.known->size(); ++i) {
            // The old place of the new element i: axis by axis from the last.
            std::uint64_t rest = i;
            std::uint64_t place = 0;
            for (std::size_t k = rank; k-- > 0;) {
                place += rest % dims[k] * behind(item.dims, axes[k]);
                rest /= dims[k];
            }
            known.push_back((*item.known)[place]);
        }
        return give_known(std::move(known), std::move(dims));
    }
    Item result{std::move(dims)};
    // Channels to the end and back: places lie so already.
    std::vector<std::size_t> to_end{0};
    for (std::size_t i = 2; i < rank; ++i) to_end.push_back(i);
    to_end.push_back(1);
    std::vector<std::size_t> from_end{0, rank - 1};
    for (std::size_t i = 1; i + 1 < rank; ++i) from_end.push_back(i);
    materialise(item);
    if (b_.failed()) return;
    if (item.places && axes == to_end) {
        result.value = item.value;
    } else if (!item.places && rank >= 3 && axes == from_end) {
        const Shape rows = matrix_shape(u32(item.elements() / item.dims.back()), u32(item.dims.back()));
        result.value = words(item, rows);
        result.places = true;
    } else {
        result.value = transpose(words(item), item.dims, axes);
    }
    give(std::move(result));
}

void Lowering::gather() {
    Item& table = in(0);
    Item& index = in(1);
    if (b_.failed()) return;
    const auto axis = axis_of(integer("axis", 0), table.dims.size());
    if (!axis) return;
    Dims dims(table.dims.begin(), table.dims.begin() + static_cast<std::ptrdiff_t>(*axis));
    dims.insert(dims.end(), index.dims.begin(), index.dims.end());
    dims.insert(dims.end(), table.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, table.dims.end());
    if (!expect(dims.size() <= kMaxNetworkRank, "more than 8 dims") ||
        !expect(is_whole(index), "indices are whole numbers"))
        return;
    if (index.known) {
        const auto size = static_cast<std::int64_t>(table.dims[*axis]);
        if (!count_known(index.known->size()) || (table.known && !fits_known(dims))) return;
        std::vector<std::uint64_t> indices;
        for (const std::int64_t each : *index.known) {
            if (!expect(each >= -size && each < size, "index " + std::to_string(each))) return;
            indices.push_back(static_cast<std::uint64_t>(each < 0 ? each + size : each));
        }
        if (table.known) return give_known(take(*table.known, table.dims, *axis, indices), std::move(dims));
        bool in_a_row = !indices.empty();
        for (std::size_t i = 1; i < indices.size(); ++i) in_a_row = in_a_row && indices[i] == indices[i - 1] + 1;
        if (in_a_row)
            return give(slice_axis(words(table), table.dims, *axis, indices.front(), indices.size()), std::move(dims));
    }
    if (*axis != 0) return refuse("onnx.unsupported", "rows of an axis that is not the first");
    const std::uint64_t rows = table.dims[0];
    const Value from = words(table, matrix_shape(u32(rows), u32(behind(table.dims, 0))));
    const Value which = words(index, vector_shape(u32(index.elements())));
    give(b_.gather_rows(from, which), std::move(dims));
}

void Lowering::slice() {
    Item& item = in(0);
    const auto starts = list_or_attribute("starts", 1);
    const auto ends = list_or_attribute("ends", 2);
    const auto axes = list_or_attribute("axes", 3);
    const auto steps = list_or_attribute("steps", 4);
    if (b_.failed() || node_->outputs[0].empty()) return;
    if (!expect(starts && ends && starts->size() == ends->size() && (!axes || axes->size() == starts->size()) &&
                    (!steps || steps->size() == starts->size()),
                "starts, ends, axes and steps of one length"))
        return;
    Item* from_axes = &item;  // a copy of a large table for each node would be time and memory
    for (std::size_t i = 0; i < starts->size() && !b_.failed(); ++i) {
        Item& now = *from_axes;
        const auto axis = axis_of(axes ? (*axes)[i] : static_cast<std::int64_t>(i), item.dims.size());
        if (!axis) return;
        const std::int64_t step = steps ? (*steps)[i] : 1;
        const auto size = static_cast<std::int64_t>(now.dims[*axis]);
        if (step < -kMaxStep || step == 0 || step > kMaxStep || (step < 0 && !now.known))
            return refuse("onnx.unsupported", "a step of " + std::to_string(step));
        const auto clamp = [&](std::int64_t at) {  // backwards the first is the last, the end before the first
            if (at < 0) at = at < -size ? -1 : at + size;
            return std::clamp<std::int64_t>(at, step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
        };
        const std::int64_t begin = clamp((*starts)[i]);
        const std::int64_t end = clamp((*ends)[i]);
        const std::int64_t distance = step < 0 ? begin - end : end - begin;
        const std::int64_t stride = step < 0 ? -step : step;
        if (distance <= 0) return refuse("onnx.unsupported", "an empty slice");
        const std::int64_t count = (distance + stride - 1) / stride;
        if (step == 1) {
            give_slice(now, *axis, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(count), 0);
        } else if (now.known) {
            Dims dims = now.dims;
            dims[*axis] = static_cast<std::uint64_t>(count);
            if (!fits_known(dims)) return;
            std::vector<std::uint64_t> indices;
            for (std::int64_t k = 0; k < count && !now.known->empty(); ++k)
                indices.push_back(static_cast<std::uint64_t>(begin + k * step));
            give_known(take(*now.known, now.dims, *axis, indices), std::move(dims));
        } else {
            // Groups of `step` elements, of each one: from the beginning on, or from where groups of the axis begin.
            const std::int64_t from = begin + count * step <= size ? begin : begin - begin % step;
            if (from + count * step > size) return refuse("onnx.unsupported", "a step that does not divide the axis");
            const Value part = slice_axis(words(now), now.dims, *axis, static_cast<std::uint64_t>(from),
                                          static_cast<std::uint64_t>(count * step));
            Dims grouped(now.dims.begin(), now.dims.begin() + static_cast<std::ptrdiff_t>(*axis));
            grouped.push_back(static_cast<std::uint64_t>(count));
            grouped.push_back(static_cast<std::uint64_t>(step));
            grouped.insert(grouped.end(), now.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, now.dims.end());
            Dims dims = now.dims;
            dims[*axis] = static_cast<std::uint64_t>(count);
            give(slice_axis(part, grouped, *axis + 1, static_cast<std::uint64_t>(begin - from), 1), std::move(dims));
        }
        if (b_.failed()) return;
        from_axes = &items_.at(node_->outputs[0]);
    }
    if (starts->empty()) give(Item(item));
}

void Lowering::split() {
    Item& item = in(0);
    const auto given = list_or_attribute("split", 1);
    const auto axis = b_.failed() ? std::nullopt : axis_of(integer("axis", 0), item.dims.size());
    if (!axis) return;
    const std::uint64_t size = item.dims[*axis];
    const std::uint64_t parts = node_->outputs.size();
    if (!expect(!given || given->size() == parts, "split has another length than there are outputs") ||
        !expect(given || size % parts == 0, "an axis that is not so many parts"))
        return;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < parts && !b_.failed(); ++i) {
        const std::int64_t count = given ? (*given)[i] : static_cast<std::int64_t>(size / parts);
        if (!expect(count > 0 && static_cast<std::uint64_t>(count) <= size - begin, "parts of an axis")) return;
        give_slice(item, *axis, begin, static_cast<std::uint64_t>(count), i);
        begin += static_cast<std::uint64_t>(count);
    }
}

void Lowering::concat() {
    std::vector<Item*> items;
    for (std::size_t i = 0; i < node_->inputs.size(); ++i) items.push_back(&in(i));
    if (b_.failed()) return;
    const auto axis = axis_of(integer("axis", 0), items[0]->dims.size());
    if (!axis) return;
    Dims dims = items[0]->dims;
    dims[*axis] = 0;
    bool known = true;
    std::vector<std::uint64_t> sizes;
    for (const Item* each : items) {
        Dims other = each->dims;
        if (!expect(other.size() == dims.size(), "dims of inputs")) return;
        sizes.push_back(other[*axis]);
        other[*axis] = dims[*axis];
        if (!expect(other == dims, "dims of inputs") ||
            !expect(is_whole(*each) == is_whole(*items[0]), "numbers and whole numbers"))
            return;
        dims[*axis] += sizes.back();
        known = known && each->known.has_value();
    }
    if (known) {
        if (!fits_known(dims)) return;
        std::vector<std::int64_t> all;
        if (product(dims) == 0) return give_known(std::move(all), std::move(dims));  // other dims may be large
        const std::uint64_t rows = before(dims, *axis);
        const std::uint64_t last = behind(dims, *axis);
        for (std::uint64_t row = 0; row < rows; ++row)
            for (std::size_t i = 0; i < items.size(); ++i) {
                const auto from = items[i]->known->begin() + static_cast<std::ptrdiff_t>(row * sizes[i] * last);
                all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(sizes[i] * last));
            }
        return give_known(std::move(all), std::move(dims));
    }
    std::vector<Value> parts;
    // Channels of places are columns.
    const bool places =
        *axis == 1 && std::all_of(items.begin(), items.end(), [](const Item* each) { return each->places; });
    for (Item* each : items) parts.push_back(places ? each->value : words(*each));
    if (b_.failed()) return;
    if (places) {
        const std::uint64_t channels = dims[1];
        std::uint64_t rows = dims[0];
        for (std::size_t i = 2; i < dims.size(); ++i) rows *= dims[i];
        Item result{std::move(dims), join(parts, sizes, {rows, channels}, 1)};
        result.places = true;
        return give(std::move(result));
    }
    const Value joined = join(parts, sizes, dims, *axis);
    give(joined, std::move(dims));
}

void Lowering::expand() {
    Item& item = in(0);
    Dims wanted;
    for (const std::int64_t dim : list(1)) {
        if (!expect(dim > 0, "a dim of " + std::to_string(dim))) return;
        wanted.push_back(static_cast<std::uint64_t>(dim));
    }
    if (b_.failed()) return;
    auto dims = broadcast({item.dims, wanted});
    if (!dims) return;
    if (item.scalar) {
        (void)shape_of(*dims);
        Item result{std::move(*dims)};
        result.scalar = item.scalar;
        return give(std::move(result));
    }
    if (*dims == item.dims) return give(Item(item));
    std::vector<Value> values;
    Shape shape;
    if (!align({&item}, *dims, values, shape)) return;
    give(broadcast_to(b_, values[0], shape), std::move(*dims));
}

void Lowering::pad() {
    Item& item = in(0);
    const auto pads = list_or_attribute("pads", 1);
    if (text("mode", "constant") != "constant") return refuse("onnx.unsupported", "a mode that is not constant");
    if (has(2)) {
        const Item& value = in(2);
        if (!value.scalar || *value.scalar != 0.0F) return refuse("onnx.unsupported", "padding that is not zeros");
    } else if (number("value", 0.0F) != 0.0F) {
        return refuse("onnx.unsupported", "padding that is not zeros");
    }
    const std::size_t rank = item.dims.size();
    if (b_.failed() || !expect(pads && pads->size() == 2 * rank, "pads of each axis") ||
        !expect(!is_whole(item), "numbers"))
        return;
    Value x = words(item);
    Dims dims = item.dims;
    for (std::size_t axis = 0; axis < rank && !b_.failed(); ++axis) {
        // What is below zero is cut off.
        const auto size = static_cast<std::int64_t>(dims[axis]);
        const std::int64_t front = std::min<std::int64_t>((*pads)[axis], 0);
        const std::int64_t back = std::min<std::int64_t>((*pads)[rank + axis], 0);
        if (!expect(front > -size && back > -size && size + front + back > 0, "padding that cuts all off")) return;
        const std::int64_t kept = size + front + back;
        x = slice_axis(x, dims, axis, static_cast<std::uint64_t>(-front), static_cast<std::uint64_t>(kept));
        dims[axis] = static_cast<std::uint64_t>(kept);
        std::vector<Value> parts{x};
        std::vector<std::uint64_t> sizes{dims[axis]};
        for (const std::size_t side : {axis, rank + axis}) {
            const std::int64_t count = (*pads)[side];
            if (count > 0x7fffffff) return refuse("onnx.unsupported", "padding of " + std::to_string(count));
            if (count <= 0) continue;
            Dims zeros = dims;
            zeros[axis] = static_cast<std::uint64_t>(count);
            const Value part = b_.full(DType::f32, shape_of(zeros), 0);
            const bool first = side == axis;
            parts.insert(first ? parts.begin() : parts.end(), part);
            sizes.insert(first ? sizes.begin() : sizes.end(), zeros[axis]);
        }
        if (parts.size() == 1) continue;
        std::uint64_t sum = 0;
        for (const std::uint64_t each : sizes) sum += each;
        dims[axis] = sum;
        (void)shape_of(dims);
        if (b_.failed()) return;
        x = join(parts, sizes, dims, axis);
    }
    give(x, std::move(dims));
}

}  // namespace quern::compute::program
