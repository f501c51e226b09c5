// Operations that move the elements of tensors, and tensors that are made of nothing.
#include <algorithm>
#include <limits>
#include <utility>

#include "compute/torchscript/interpreter.h"

namespace quern::compute::torchscript {

std::span<const Interpreter::Operation> Interpreter::shape_operations() {
    using I = Interpreter;
    static constexpr Operation kOperations[] = {
        {"aten::view", &I::view},
        {"aten::reshape", &I::view},
        {"aten::_unsafe_view", &I::view},
        {"aten::view_as", &I::view_as},
        {"aten::reshape_as", &I::view_as},
        {"aten::flatten", &I::flatten},
        {"aten::unflatten", &I::unflatten},
        {"aten::transpose", &I::transpose},
        {"aten::swapaxes", &I::transpose},
        {"aten::t", &I::transpose_matrix},
        {"aten::permute", &I::permute},
        {"aten::unsqueeze", &I::unsqueeze},
        {"aten::squeeze", &I::squeeze},
        {"aten::expand", &I::expand},
        {"aten::expand_as", &I::expand_as},
        {"aten::cat", &I::cat},
        {"aten::concat", &I::cat},
        {"aten::stack", &I::stack},
        {"aten::chunk", &I::chunk},
        {"aten::split", &I::split},
        {"aten::split_with_sizes", &I::split},
        {"aten::unbind", &I::unbind},
        {"aten::slice", &I::slice},
        {"aten::select", &I::select},
        {"aten::narrow", &I::narrow},
        {"aten::pad", &I::pad},
        {"aten::constant_pad_nd", &I::pad},
        {"aten::contiguous", &I::same},
        {"aten::detach", &I::same},
        {"aten::alias", &I::same},
        {"aten::cpu", &I::same},
        {"aten::clone", &I::copy},
        {"aten::to", &I::to},
        {"aten::type_as", &I::to},
        {"aten::ones", &I::full},
        {"aten::zeros", &I::full},
        {"aten::full", &I::full},
        {"aten::new_ones", &I::full},
        {"aten::new_zeros", &I::full},
        {"aten::new_full", &I::full},
        {"aten::ones_like", &I::full},
        {"aten::zeros_like", &I::full},
        {"aten::full_like", &I::full},
        {"aten::arange", &I::arange},
        {"aten::tensor", &I::tensor_literal},
        {"aten::scalar_tensor", &I::tensor_literal},
        {"aten::tril", &I::triangle},
        {"aten::triu", &I::triangle},
    };
    return kOperations;
}

namespace {

std::optional<Kind> kind_of_code(std::int64_t code) {
    if (code == static_cast<std::int64_t>(at::kBool)) return Kind::boolean;
    if (code >= 0 && code <= static_cast<std::int64_t>(at::kLong)) return Kind::whole;
    for (const at::ScalarType type : {at::kHalf, at::kFloat, at::kDouble, at::kBFloat16})
        if (code == static_cast<std::int64_t>(type)) return Kind::real;
    return {};
}

}  // namespace

// --- What others are made of
// ----------------------------------------------------------------------------------------------

TensorRef Interpreter::view_of(const TensorRef& of, TensorRef result) {
    result->changes = of->changes;
    result->seen = of->seen;
    return result;
}

// The same elements in the same order.
TensorRef Interpreter::share(const TensorRef& tensor, Sizes sizes) {
    const std::string name = use(tensor);
    auto result = std::make_shared<Tensor>(*tensor);
    result->sizes = std::move(sizes);
    result->name = name;
    return result;
}

TensorRef Interpreter::reshaped(const TensorRef& x, const Sizes& sizes) {
    if (failed()) return x;
    if (x->sizes == sizes) return share(x, sizes);
    Ints wanted;
    std::size_t open = 0;
    for (const Size& each : sizes) {
        wanted.push_back(each.is_fixed() ? each.fixed : -1);
        open += each.is_fixed() ? 0 : 1;
    }
    const std::string shape = open <= 1 ? whole_list(wanted) : shape_list(sizes);
    TensorRef result = made(node("Reshape", {use(x), shape}).output(0), sizes, x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

TensorRef Interpreter::permuted(const TensorRef& x, const std::vector<std::size_t>& axes) {
    Sizes sizes;
    Ints order;
    for (const std::size_t axis : axes) {
        sizes.push_back(x->sizes[axis]);
        order.push_back(static_cast<std::int64_t>(axis));
    }
    if (std::is_sorted(axes.begin(), axes.end())) return share(x, std::move(sizes));
    onnx::NodeProto& moved = node("Transpose", {use(x)});
    set(moved, "perm", order);
    return view_of(x, made(moved.output(0), std::move(sizes), x->kind));
}

TensorRef Interpreter::swapped(const TensorRef& x, std::size_t a, std::size_t b) {
    std::vector<std::size_t> axes(x->rank());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    if (a < axes.size() && b < axes.size()) std::swap(axes[a], axes[b]);
    return permuted(x, axes);
}

// Of an axis whose size is known; the bounds as Python has them.
TensorRef Interpreter::sliced(const TensorRef& x, std::size_t axis, std::int64_t begin, std::int64_t end,
                              std::int64_t step) {
    if (failed()) return x;
    const Size whole_axis = x->sizes[axis];
    if (begin == 0 && step == 1 && end == std::numeric_limits<std::int64_t>::max()) return share(x, x->sizes);
    if (!expect(whole_axis.is_fixed(), "a part of the examples of a batch") || !expect(step > 0, "a step below one"))
        return x;
    const std::int64_t size = whole_axis.fixed;
    const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
    begin = clamp(begin);
    end = std::max(begin, clamp(end));
    if (begin == 0 && end == size && step == 1) return share(x, x->sizes);
    if (!expect(end > begin, "an empty part")) return x;
    Sizes sizes = x->sizes;
    sizes[axis] = {(end - begin - 1) / step + 1, 0};
    const std::string from = whole_list({begin});
    const std::string to = whole_list({end});
    const std::string at = whole_list({static_cast<std::int64_t>(axis)});
    const std::string by = whole_list({step});
    TensorRef result = made(node("Slice", {use(x), from, to, at, by}).output(0), std::move(sizes), x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

TensorRef Interpreter::selected(const TensorRef& x, std::size_t axis, std::int64_t index) {
    if (failed()) return x;
    const Size size = x->sizes[axis];
    if (!expect(size.is_fixed(), "an example of a batch") ||
        !expect(index >= -size.fixed && index < size.fixed, "an element that is not there"))
        return x;
    Sizes sizes = x->sizes;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    const std::string which = use(constant(at::scalar_tensor(index < 0 ? index + size.fixed : index, at::kLong)));
    onnx::NodeProto& taken = node("Gather", {use(x), which});
    set(taken, "axis", static_cast<std::int64_t>(axis));
    TensorRef result = made(taken.output(0), std::move(sizes), x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

TensorRef Interpreter::unsqueezed(const TensorRef& x, std::size_t axis) {
    Sizes sizes = x->sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), Size{1, 0});
    const std::string at = whole_list({static_cast<std::int64_t>(axis)});
    TensorRef result = made(node("Unsqueeze", {use(x), at}).output(0), std::move(sizes), x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

TensorRef Interpreter::squeezed(const TensorRef& x, const std::vector<std::size_t>& axes) {
    Sizes sizes;
    Ints gone;
    for (std::size_t i = 0; i < x->rank(); ++i) {
        const bool one = x->sizes[i] == Size{1, 0};
        if (one && std::find(axes.begin(), axes.end(), i) != axes.end())
            gone.push_back(static_cast<std::int64_t>(i));
        else
            sizes.push_back(x->sizes[i]);
    }
    if (gone.empty()) return share(x, x->sizes);
    TensorRef result = made(node("Squeeze", {use(x), whole_list(gone)}).output(0), std::move(sizes), x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

TensorRef Interpreter::joined(std::vector<TensorRef> parts, std::size_t axis) {
    if (!expect(!parts.empty(), "no tensors")) return number(0);
    Kind kind = Kind::boolean;
    for (const TensorRef& each : parts) kind = std::min(kind, each->kind);
    Sizes sizes = parts[0]->sizes;
    Names names;
    for (std::size_t i = 0; i < parts.size() && !failed(); ++i) {
        parts[i] = cast(parts[i], kind);
        Sizes others = parts[i]->sizes;
        if (!expect(others.size() == sizes.size() && axis < others.size(), "tensors of another rank")) break;
        const Size own = others[axis];
        others[axis] = sizes[axis];
        if (!expect(others == sizes, "sizes that do not fit one another")) break;
        if (i > 0) sizes[axis] = combined(sizes[axis], own, 1);
        names.push_back(use(parts[i]));
    }
    if (parts.size() == 1 || failed()) return parts[0];
    onnx::NodeProto& all = node("Concat", names);
    set(all, "axis", static_cast<std::int64_t>(axis));
    return made(all.output(0), std::move(sizes), kind);
}

TensorRef Interpreter::expanded(const TensorRef& x, const Sizes& sizes) {
    if (x->sizes == sizes) return share(x, sizes);
    // What stays as it is is 1 there.
    Sizes shape = sizes;
    const std::size_t added = sizes.size() - x->rank();
    for (std::size_t i = added; i < sizes.size(); ++i)
        if (x->sizes[i - added] == sizes[i]) shape[i] = {1, 0};
    TensorRef result = made(node("Expand", {use(x), shape_list(shape)}).output(0), sizes, x->kind);
    result->zeros = x->zeros;
    return view_of(x, result);
}

// --- Operations
// -----------------------------------------------------------------------------------------------------------

void Interpreter::view() {
    const TensorRef x = tensor(0);
    if (!expect(named("dtype") == nullptr, "a view of the words as those of another type")) return;
    Sizes sizes = sizes_of(arg(1));
    const Size elements = product(x->sizes);
    std::optional<std::size_t> open;
    Size rest{1, 0};
    for (std::size_t i = 0; i < sizes.size() && !failed(); ++i) {
        if (sizes[i] == Size{-1, 0}) {
            if (!expect(!open, "two sizes of -1")) return;
            open = i;
        } else {
            rest = times(rest, sizes[i]);
        }
    }
    if (failed()) return;
    if (open) sizes[*open] = divided(elements, rest);
    if (!expect(product(sizes) == elements, "sizes of another number of elements")) return;
    give(reshaped(x, sizes));
}

void Interpreter::view_as() {
    const TensorRef like = tensor(1);
    give(reshaped(tensor(0), like->sizes));
}

void Interpreter::flatten() {
    const TensorRef x = tensor(0);
    if (x->rank() == 0) return give(reshaped(x, {{1, 0}}));
    const std::size_t begin = axis_of(whole("start_dim", 0), x->rank());
    const std::size_t end = axis_of(whole("end_dim", -1), x->rank());
    if (!expect(begin <= end, "axes from the last to the first")) return;
    Sizes sizes(x->sizes.begin(), x->sizes.begin() + static_cast<std::ptrdiff_t>(begin));
    Size all{1, 0};
    for (std::size_t i = begin; i <= end; ++i) all = times(all, x->sizes[i]);
    sizes.push_back(all);
    sizes.insert(sizes.end(), x->sizes.begin() + static_cast<std::ptrdiff_t>(end) + 1, x->sizes.end());
    give(reshaped(x, sizes));
}

void Interpreter::unflatten() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(fixed_of(arg(1)), x->rank());
    Sizes parts = sizes_of(arg(2));
    if (failed()) return;
    Size rest{1, 0};
    for (const Size& each : parts)
        if (each != Size{-1, 0}) rest = times(rest, each);
    for (Size& each : parts)
        if (each == Size{-1, 0}) each = divided(x->sizes[axis], rest);
    if (!expect(product(parts) == x->sizes[axis], "sizes of another number of elements")) return;
    Sizes sizes = x->sizes;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), parts.begin(), parts.end());
    give(reshaped(x, sizes));
}

void Interpreter::transpose() {
    const TensorRef x = tensor(0);
    const std::size_t first = axis_of(fixed_of(arg(1)), x->rank());
    const std::size_t second = axis_of(fixed_of(arg(2)), x->rank());
    if (!failed()) give(swapped(x, first, second));
}

void Interpreter::transpose_matrix() {
    const TensorRef x = tensor(0);
    if (expect(x->rank() <= 2, "a matrix")) give(swapped(x, 0, 1));
}

void Interpreter::permute() {
    const TensorRef x = tensor(0);
    std::vector<std::size_t> axes;
    for (const std::int64_t each : ints("dims")) axes.push_back(axis_of(each, x->rank()));
    std::vector<std::size_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    if (expect(axes.size() == x->rank() && sorted.size() == axes.size(), "each axis once")) give(permuted(x, axes));
}

void Interpreter::unsqueeze() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank() + 1);
    if (!failed()) give(unsqueezed(x, axis));
}

void Interpreter::squeeze() {
    const TensorRef x = tensor(0);
    std::vector<std::size_t> axes;
    if (const Value* const dim = named("dim"); dim != nullptr)
        for (const std::int64_t each : ints_of(*dim)) axes.push_back(axis_of(each, x->rank()));
    else
        for (std::size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
    if (!failed()) give(squeezed(x, axes));
}

void Interpreter::expand() {
    const TensorRef x = tensor(0);
    Sizes sizes = sizes_of(arg(1));
    if (!expect(sizes.size() >= x->rank(), "fewer axes than there are")) return;
    const std::size_t added = sizes.size() - x->rank();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (i >= added && sizes[i] == Size{-1, 0}) sizes[i] = x->sizes[i - added];
        if (!expect(i < added || x->sizes[i - added] == sizes[i] || x->sizes[i - added] == Size{1, 0},
                    "an axis that is neither 1 nor as long"))
            return;
        if (!expect(!sizes[i].is_fixed() || sizes[i].fixed > 0, "a size below one")) return;
    }
    give(expanded(x, sizes));
}

void Interpreter::expand_as() {
    const TensorRef x = tensor(0);
    const TensorRef like = tensor(1);
    const auto sizes = broadcast(x->sizes, like->sizes);
    if (sizes && expect(*sizes == like->sizes, "sizes that do not fit one another")) give(expanded(x, *sizes));
}

void Interpreter::cat() {
    const Value& all = arg(0);
    if (!expect(all.is(Value::Type::list), "a list of tensors")) return;
    std::vector<TensorRef> parts;
    for (const Value& each : *all.items) parts.push_back(tensor_of(each));
    if (!expect(!parts.empty(), "no tensors")) return;
    const std::size_t axis = axis_of(whole("dim", 0), parts[0]->rank());
    if (!failed()) give(joined(std::move(parts), axis));
}

void Interpreter::stack() {
    const Value& all = arg(0);
    if (!expect(all.is(Value::Type::list) && !all.items->empty(), "a list of tensors")) return;
    std::vector<TensorRef> parts;
    std::size_t axis = 0;
    for (const Value& each : *all.items) {
        const TensorRef part = tensor_of(each);
        axis = axis_of(whole("dim", 0), part->rank() + 1);
        if (failed()) return;
        parts.push_back(unsqueezed(part, axis));
    }
    give(joined(std::move(parts), axis));
}

void Interpreter::split_into(const TensorRef& x, std::size_t axis, const Ints& sizes) {
    std::vector<TensorRef> parts;
    std::int64_t begin = 0;
    for (const std::int64_t each : sizes) {
        if (!expect(each > 0 && each <= x->sizes[axis].fixed - begin, "parts of an axis")) return;
        parts.push_back(sliced(x, axis, begin, begin + each));
        begin += each;
    }
    if (expect(begin == x->sizes[axis].fixed, "parts of an axis")) give_list(parts);
}

void Interpreter::chunk() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    const std::int64_t chunks = whole("chunks", 1);
    if (!expect(x->sizes[axis].is_fixed() && chunks > 0, "parts of a batch")) return;
    const std::int64_t size = x->sizes[axis].fixed;
    const std::int64_t each = size / chunks + (size % chunks != 0 ? 1 : 0);
    Ints sizes;
    for (std::int64_t left = size; left > 0 && sizes.size() < kMaxItems; left -= each)
        sizes.push_back(std::min(left, each));
    split_into(x, axis, sizes);
}

void Interpreter::split() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    if (!expect(x->sizes[axis].is_fixed(), "parts of a batch")) return;
    if (arg(1).is(Value::Type::list)) return split_into(x, axis, ints_of(arg(1)));
    const std::int64_t each = fixed_of(arg(1));
    if (!expect(each > 0, "parts of no size")) return;
    Ints sizes;
    for (std::int64_t left = x->sizes[axis].fixed; left > 0 && sizes.size() < kMaxItems; left -= std::min(left, each))
        sizes.push_back(std::min(left, each));
    split_into(x, axis, sizes);
}

void Interpreter::unbind() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    if (!expect(x->sizes[axis].is_fixed() && x->sizes[axis].fixed <= static_cast<std::int64_t>(kMaxItems),
                "parts of a batch"))
        return;
    std::vector<TensorRef> parts;
    for (std::int64_t i = 0; i < x->sizes[axis].fixed && !failed(); ++i) parts.push_back(selected(x, axis, i));
    give_list(parts);
}

void Interpreter::slice() {
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
    if (arg(0).is(Value::Type::list)) {
        const std::vector<Value>& all = *arg(0).items;
        const auto size = static_cast<std::int64_t>(all.size());
        const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
        const std::int64_t begin = clamp(whole("start", 0));
        const std::int64_t end = clamp(whole("end", kEnd));
        if (!expect(whole("step", 1) == 1, "a step of a list")) return;
        return give_list(begin < end ? std::vector<Value>(all.begin() + begin, all.begin() + end)
                                     : std::vector<Value>{});
    }
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    if (failed()) return;
    // To the end, when the end is the axis' own size.
    const Value* const end = named("end");
    const bool to_end = end == nullptr || (end->is(Value::Type::integer) && end->integer == x->sizes[axis]);
    give(sliced(x, axis, whole("start", 0), to_end ? kEnd : fixed_of(*end), whole("step", 1)));
}

void Interpreter::select() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    give(selected(x, axis, whole("index", 0)));
}

void Interpreter::narrow() {
    const TensorRef x = tensor(0);
    const std::size_t axis = axis_of(whole("dim", 0), x->rank());
    const std::int64_t begin = whole("start", 0);
    const std::int64_t length = whole("length", 0);
    if (expect(begin >= 0 && length > 0 && begin <= (1LL << 40) && length <= (1LL << 40), "bounds of an axis"))
        give(sliced(x, axis, begin, begin + length));
}

void Interpreter::pad() {
    const TensorRef x = tensor(0);
    const Ints given = ints("pad");
    const std::string mode = op_ == "aten::pad" ? text("mode") : "constant";
    if (!expect(mode.empty() || mode == "constant", "padding that repeats what is there") ||
        !expect(real("value", 0) == 0, "padding with other numbers than 0") ||
        !expect(given.size() % 2 == 0 && given.size() / 2 <= x->rank() && x->kind == Kind::real, "padding"))
        return;
    Ints pads(2 * x->rank(), 0);
    Sizes sizes = x->sizes;
    for (std::size_t i = 0; i < given.size() / 2; ++i) {
        const std::size_t axis = x->rank() - 1 - i;
        pads[axis] = given[2 * i];
        pads[x->rank() + axis] = given[2 * i + 1];
        const Size more = combined({given[2 * i], 0}, {given[2 * i + 1], 0}, 1);
        sizes[axis] = combined(sizes[axis], more, 1);
    }
    if (failed()) return;
    give(made(node("Pad", {use(x), whole_list(pads)}).output(0), std::move(sizes)));
}

void Interpreter::same() {
    const TensorRef x = tensor(0);
    give(share(x, x->sizes));
}

void Interpreter::copy() {
    const TensorRef x = tensor(0);
    TensorRef result = share(x, x->sizes);
    result->changes = std::make_shared<std::uint64_t>(0);
    result->seen = 0;
    give(result);
}

void Interpreter::to() {
    const TensorRef x = tensor(0);
    std::optional<Kind> kind = x->kind;
    if (const Value* const type = named("dtype"); type != nullptr && type->is(Value::Type::integer))
        kind = kind_of_code(fixed_of(*type));
    else if (const TensorRef like = tensor_named("other"); like)
        kind = like->kind;
    if (!expect(kind.has_value(), "a type of numbers that is not known")) return;
    if (*kind == x->kind) return give(x);
    if (x == input_ && *kind == Kind::whole) {
        input_->kind = Kind::whole;
        return give(x);
    }
    give(cast(x, *kind));
}

// --- Made of nothing
// -------------------------------------------------------------------------------------------------------

void Interpreter::full() {
    const bool like = op_.ends_with("_like");
    const bool is_new = op_.starts_with("aten::new_");
    const bool zeros = op_.find("zeros") != std::string::npos;
    const bool ones = op_.find("ones") != std::string::npos;
    const Value* const given = named("fill_value");
    double value = zeros ? 0 : 1;
    Kind kind = Kind::real;
    if (!zeros && !ones) {
        if (!expect(given != nullptr, "a number")) return;
        value = real_of(*given);
        if (given->is(Value::Type::boolean)) kind = Kind::boolean;
        if (given->is(Value::Type::integer)) kind = Kind::whole;
    }
    if (like || is_new) kind = tensor(0)->kind;
    if (const Value* const type = named("dtype"); type != nullptr) {
        const auto wanted = kind_of_code(fixed_of(*type));
        if (!expect(wanted.has_value(), "a type of numbers that is not known")) return;
        kind = *wanted;
    }
    if (!expect(kind == Kind::real || (value > -0x1p53 && value < 0x1p53), "a whole number")) return;
    const Sizes sizes = like ? tensor(0)->sizes : sizes_of(arg(is_new ? 1 : 0));
    if (!failed()) give(filled(value, sizes, kind));
}

void Interpreter::arange() {
    const Value* const start = named("start");
    const Value* const end = named("end");
    const Value* const step = named("step");
    if (!expect(end != nullptr, "an end")) return;
    const bool is_real = end->is(Value::Type::real) || (start != nullptr && start->is(Value::Type::real)) ||
                         (step != nullptr && step->is(Value::Type::real));
    const double from = start == nullptr ? 0 : real_of(*start);
    const double to = real_of(*end);
    const double by = step == nullptr ? 1 : real_of(*step);
    if (failed() || !expect(by != 0 && (to - from) / by >= 0 && (to - from) / by <= static_cast<double>(kMaxFolded),
                            "a range of so many"))
        return;
    folded_ += static_cast<std::int64_t>((to - from) / by) + 1;
    if (folded_ > kMaxFoldedInAll) return refuse("torchscript.too_large", "constants of so many elements");
    Kind kind = is_real ? Kind::real : Kind::whole;
    if (const Value* const type = named("dtype"); type != nullptr) kind = kind_of_code(fixed_of(*type)).value_or(kind);
    give(constant(at::arange(from, to, by, kind == Kind::real ? at::kFloat : at::kLong)));
}

void Interpreter::tensor_literal() {
    const Value& value = arg(0);
    if (!value.is(Value::Type::list)) {
        TensorRef result = tensor_of(value);
        if (const Value* const type = named("dtype"); type != nullptr)
            result = cast(result, kind_of_code(fixed_of(*type)).value_or(result->kind));
        // Its own: the number may be one that others have.
        result = std::make_shared<Tensor>(*result);
        result->changes = std::make_shared<std::uint64_t>(0);
        return give(result);
    }
    bool whole_numbers = true;
    std::vector<double> numbers;
    for (const Value& each : *value.items) {
        whole_numbers = whole_numbers && each.is(Value::Type::integer);
        numbers.push_back(real_of(each));
    }
    if (!failed()) give(constant(at::tensor(numbers, whole_numbers ? at::kLong : at::kFloat)));
}

void Interpreter::triangle() {
    const TensorRef x = tensor(0);
    const std::int64_t diagonal = whole("diagonal", 0);
    if (!expect(x->words && x->path.empty() && x->rank() >= 2 && x->words->numel() <= kMaxFolded,
                "a triangle of what is no constant"))
        return;
    folded_ += x->words->numel();
    if (folded_ > kMaxFoldedInAll) return refuse("torchscript.too_large", "constants of so many elements");
    give(constant(op_ == "aten::tril" ? at::tril(*x->words, diagonal) : at::triu(*x->words, diagonal)));
}

}  // namespace quern::compute::torchscript
