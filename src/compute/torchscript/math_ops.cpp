// Elementwise operations, reductions, products and attention.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "compute/torchscript/interpreter.h"

namespace quern::compute::torchscript {

std::span<const Interpreter::Operation> Interpreter::math_operations() {
    using I = Interpreter;
    static constexpr Operation kOperations[] = {
        {"aten::add", &I::add},
        {"aten::sub", &I::sub},
        {"aten::rsub", &I::rsub},
        {"aten::mul", &I::mul},
        {"aten::multiply", &I::mul},
        {"aten::div", &I::div},
        {"aten::true_divide", &I::div},
        {"aten::pow", &I::pow},
        {"aten::square", &I::square},
        {"aten::neg", &I::negate},
        {"aten::rsqrt", &I::rsqrt},
        {"aten::sqrt", &I::unary},
        {"aten::exp", &I::unary},
        {"aten::log", &I::unary},
        {"aten::abs", &I::unary},
        {"aten::erf", &I::unary},
        {"aten::reciprocal", &I::unary},
        {"aten::relu", &I::unary},
        {"aten::sigmoid", &I::unary},
        {"aten::tanh", &I::unary},
        {"aten::relu6", &I::relu6},
        {"aten::gelu", &I::gelu},
        {"aten::silu", &I::silu},
        {"aten::mish", &I::mish},
        {"aten::hardswish", &I::hardswish},
        {"aten::hardsigmoid", &I::hardsigmoid},
        {"aten::leaky_relu", &I::leaky_relu},
        {"aten::elu", &I::elu},
        {"aten::prelu", &I::prelu},
        {"aten::softplus", &I::softplus},
        {"aten::clamp", &I::clamp},
        {"aten::clip", &I::clamp},
        {"aten::clamp_min", &I::clamp},
        {"aten::clamp_max", &I::clamp},
        {"aten::hardtanh", &I::clamp},
        {"aten::maximum", &I::extreme},
        {"aten::minimum", &I::extreme},
        {"aten::softmax", &I::softmax},
        {"aten::log_softmax", &I::softmax},
        {"aten::mean", &I::mean},
        {"aten::sum", &I::sum},
        {"aten::amax", &I::largest},
        {"aten::max", &I::largest},
        {"aten::var", &I::variance},
        {"aten::matmul", &I::matmul},
        {"aten::mm", &I::matmul},
        {"aten::bmm", &I::matmul},
        {"aten::addmm", &I::addmm},
        {"aten::baddbmm", &I::addmm},
        {"aten::linear", &I::linear},
        {"aten::eq", &I::compare},
        {"aten::ne", &I::compare},
        {"aten::lt", &I::compare},
        {"aten::le", &I::compare},
        {"aten::gt", &I::compare},
        {"aten::ge", &I::compare},
        {"aten::logical_and", &I::logical},
        {"aten::logical_or", &I::logical},
        {"aten::bitwise_and", &I::logical},
        {"aten::bitwise_or", &I::logical},
        {"aten::logical_not", &I::logical_not},
        {"aten::bitwise_not", &I::logical_not},
        {"aten::where", &I::where},
        {"aten::masked_fill", &I::masked_fill},
        {"aten::scaled_dot_product_attention", &I::attention},
        {"aten::_scaled_dot_product_attention", &I::attention},
    };
    return kOperations;
}

// --- Two operands
// -------------------------------------------------------------------------------------------------------------

std::optional<Sizes> Interpreter::broadcast(const Sizes& a, const Sizes& b) {
    const std::size_t rank = std::max(a.size(), b.size());
    Sizes result(rank, Size{1, 0});
    for (const Sizes* const each : {&a, &b})
        for (std::size_t i = 0; i < each->size(); ++i) {
            Size& size = result[rank - each->size() + i];
            const Size own = (*each)[i];
            if (own == Size{1, 0}) continue;
            if (!expect(size == Size{1, 0} || size == own, "sizes that do not fit one another")) return {};
            size = own;
        }
    return result;
}

TensorRef Interpreter::cast(const TensorRef& x, Kind kind) {
    if (failed() || x->kind == kind) return x;
    if (x->words && x->path.empty() && x->words->numel() == 1) {
        const at::ScalarType type = kind == Kind::real ? at::kFloat : kind == Kind::whole ? at::kLong : at::kBool;
        return constant(x->words->to(type));
    }
    const onnx::TensorProto_DataType type = kind == Kind::real    ? onnx::TensorProto_DataType_FLOAT
                                            : kind == Kind::whole ? onnx::TensorProto_DataType_INT64
                                                                  : onnx::TensorProto_DataType_BOOL;
    onnx::NodeProto& result = node("Cast", {use(x)});
    set(result, "to", static_cast<std::int64_t>(type));
    return made(result.output(0), x->sizes, kind);
}

// Numbers where one of them is; a number alone becomes what the tensor is, as PyTorch promotes types.
TensorRef Interpreter::both(std::string_view op, TensorRef a, TensorRef b) {
    if (failed()) return a;
    Kind kind = std::min(a->kind, b->kind);
    if (kind == Kind::boolean && op != "Equal") kind = Kind::whole;
    a = cast(a, kind);
    b = cast(b, kind);
    const auto sizes = broadcast(a->sizes, b->sizes);
    if (!sizes) return a;
    return made(op, {a, b}, *sizes, kind);
}

TensorRef Interpreter::times(const TensorRef& x, double factor) {
    return factor == 1 ? x : both("Mul", x, number(factor));
}

TensorRef Interpreter::map(std::string_view op, const TensorRef& x) {
    const TensorRef of = real_tensor(x);
    return failed() ? x : made(op, {of}, of->sizes);
}

void Interpreter::add() {
    if (plain("add")) return;
    const TensorRef a = tensor(0);
    const TensorRef b = tensor(1);
    give(both("Add", a, times(b, real("alpha", 1))));
}
void Interpreter::sub() {
    if (plain("sub")) return;
    const TensorRef a = tensor(0);
    const TensorRef b = tensor(1);
    give(both("Sub", a, times(b, real("alpha", 1))));
}
void Interpreter::rsub() {
    if (plain("rsub")) return;
    const TensorRef a = tensor(0);
    const TensorRef b = tensor(1);
    give(both("Sub", b, times(a, real("alpha", 1))));
}
void Interpreter::mul() {
    if (plain("mul")) return;
    const TensorRef a = tensor(0);
    give(both("Mul", a, tensor(1)));
}
void Interpreter::div() {
    const std::string rounding = text("rounding_mode");
    if (!rounding.empty()) return floor_division();
    if (!arg(0).is(Value::Type::tensor) && !arg(1).is(Value::Type::tensor)) {
        if (arg(0).is(Value::Type::integer) && arg(1).is(Value::Type::integer) &&
            !(arg(0).integer.is_fixed() && arg(1).integer.is_fixed()))
            return give_real(static_cast<double>(divided(arg(0).integer, arg(1).integer).fixed));
        plain("div");
        return;
    }
    const TensorRef a = real_tensor(tensor(0));
    give(both("Div", a, real_tensor(tensor(1))));
}

void Interpreter::pow() {
    if (plain("pow")) return;
    if (!expect(!arg(1).is(Value::Type::tensor) || arg(1).tensor->words, "an exponent that is computed")) return;
    const TensorRef x = real_tensor(tensor(0));
    const TensorRef by = number(real_of(arg(1)));
    if (!failed()) give(made("Pow", {x, by}, x->sizes));
}
void Interpreter::square() {
    const TensorRef x = tensor(0);
    give(both("Mul", x, x));
}

void Interpreter::extreme() {
    const bool largest = op_.find("max") != std::string::npos;
    if (plain(largest ? "max" : "min")) return;
    const TensorRef a = tensor(0);
    give(both(largest ? "Max" : "Min", a, tensor(1)));
}

// --- One operand
// --------------------------------------------------------------------------------------------------------------

void Interpreter::unary() {
    if (!arg(0).is(Value::Type::tensor)) {
        const double x = real_of(arg(0));
        return give_real(op_ == "aten::sqrt"  ? std::sqrt(x)
                         : op_ == "aten::exp" ? std::exp(x)
                         : op_ == "aten::log" ? std::log(x)
                                              : std::fabs(x));
    }
    std::string name = op_.substr(6);
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    give(map(name, tensor(0)));
}

void Interpreter::negate() {
    if (arg(0).is(Value::Type::integer)) return give(combined({0, 0}, arg(0).integer, -1));
    if (!arg(0).is(Value::Type::tensor)) return give_real(-real_of(arg(0)));
    give(map("Neg", tensor(0)));
}
void Interpreter::rsqrt() { give(map("Reciprocal", map("Sqrt", tensor(0)))); }

void Interpreter::gelu() {
    const TensorRef x = real_tensor(tensor(0));
    TensorRef inner;
    if (text("approximate") == "tanh") {
        const TensorRef cube = both("Mul", both("Mul", x, x), x);
        inner = map("Tanh", times(both("Add", x, times(cube, 0.044715)), std::sqrt(2 / std::numbers::pi)));
    } else {
        inner = map("Erf", both("Div", x, number(std::sqrt(2.0))));
    }
    give(times(both("Mul", x, both("Add", inner, number(1))), 0.5));
}
void Interpreter::silu() {
    const TensorRef x = real_tensor(tensor(0));
    give(both("Mul", x, map("Sigmoid", x)));
}
void Interpreter::mish() {
    const TensorRef x = real_tensor(tensor(0));
    give(both("Mul", x, map("Tanh", map("Softplus", x))));
}
void Interpreter::hardswish() { give(map("HardSwish", tensor(0))); }
void Interpreter::hardsigmoid() {
    const TensorRef x = real_tensor(tensor(0));
    onnx::NodeProto& result = node("HardSigmoid", {use(x)});
    set_float(result, "alpha", 1.0 / 6);
    set_float(result, "beta", 0.5);
    give(made(result.output(0), x->sizes));
}
void Interpreter::leaky_relu() {
    const TensorRef x = real_tensor(tensor(0));
    onnx::NodeProto& result = node("LeakyRelu", {use(x)});
    set_float(result, "alpha", real("negative_slope", 0.01));
    give(made(result.output(0), x->sizes));
}
void Interpreter::elu() {
    const TensorRef x = real_tensor(tensor(0));
    if (!expect(real("scale", 1) == 1 && real("input_scale", 1) == 1, "scales of an elu")) return;
    onnx::NodeProto& result = node("Elu", {use(x)});
    set_float(result, "alpha", real("alpha", 1));
    give(made(result.output(0), x->sizes));
}
void Interpreter::prelu() {
    const TensorRef x = real_tensor(tensor(0));
    TensorRef slope = tensor(1);
    if (!expect(slope->rank() == 1, "slopes")) return;
    // Of channels, the second of the axes.
    if (x->rank() > 2 && slope->sizes[0] != Size{1, 0})
        for (std::size_t i = 2; i < x->rank(); ++i) slope = unsqueezed(slope, slope->rank());
    give(made("PRelu", {x, slope}, x->sizes));
}
void Interpreter::softplus() {
    if (expect(real("beta", 1) == 1, "another beta than 1")) give(map("Softplus", tensor(0)));
}

void Interpreter::relu6() {
    const TensorRef x = real_tensor(tensor(0));
    const TensorRef low = number(0);
    give(made("Clip", {x, low, number(6)}, x->sizes));
}

void Interpreter::clamp() {
    const TensorRef x = real_tensor(tensor(0));
    const bool is_tanh = op_ == "aten::hardtanh";
    const auto bound = [&](std::string_view name) -> std::string {
        const Value* const value = named(name);
        return value == nullptr ? std::string() : use(number(real_of(*value)));
    };
    const std::string low = bound(is_tanh ? "min_val" : "min");
    const std::string high = bound(is_tanh ? "max_val" : "max");
    give(made(node("Clip", {use(x), low, high}).output(0), x->sizes));
}

TensorRef Interpreter::softmaxed(std::string_view op, const TensorRef& x, std::size_t axis) {
    onnx::NodeProto& result = node(op, {use(x)});
    set(result, "axis", static_cast<std::int64_t>(axis));
    return made(result.output(0), x->sizes);
}
void Interpreter::softmax() {
    const TensorRef x = real_tensor(tensor(0));
    const std::size_t axis = axis_of(whole("dim", -1), x->rank());
    if (!failed()) give(softmaxed(op_ == "aten::softmax" ? "Softmax" : "LogSoftmax", x, axis));
}

// --- Reductions
// ---------------------------------------------------------------------------------------------------------------

std::vector<std::size_t> Interpreter::axes_of(const TensorRef& x) {
    std::vector<std::size_t> axes;
    if (const Value* const dim = named("dim"); dim != nullptr)
        for (const std::int64_t each : ints_of(*dim)) axes.push_back(axis_of(each, x->rank()));
    if (axes.empty())
        for (std::size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
    std::sort(axes.begin(), axes.end());
    return axes;
}

TensorRef Interpreter::reduced(std::string_view op, const TensorRef& x, std::vector<std::size_t> axes, bool keeps) {
    Ints list(axes.begin(), axes.end());
    Sizes sizes;
    for (std::size_t i = 0; i < x->rank(); ++i) {
        const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
        if (!gone) sizes.push_back(x->sizes[i]);
        if (gone && keeps) sizes.push_back({1, 0});
    }
    Names inputs{use(x)};
    if (op == "ReduceSum") inputs.push_back(whole_list(list));
    onnx::NodeProto& result = node(op, inputs);
    if (op != "ReduceSum") set(result, "axes", list);
    set(result, "keepdims", keeps ? 1 : 0);
    return made(result.output(0), std::move(sizes));
}

void Interpreter::mean() {
    const TensorRef x = real_tensor(tensor(0));
    give(reduced("ReduceMean", x, axes_of(x), flag("keepdim", false)));
}
void Interpreter::sum() {
    const TensorRef x = real_tensor(tensor(0));
    give(reduced("ReduceSum", x, axes_of(x), flag("keepdim", false)));
}
// Of max() the values; which they are is not known.
void Interpreter::largest() {
    if (op_ == "aten::max" && named("other") != nullptr) return extreme();
    const TensorRef x = real_tensor(tensor(0));
    give(reduced("ReduceMax", x, axes_of(x), flag("keepdim", false)));
}

void Interpreter::variance() {
    const TensorRef x = real_tensor(tensor(0));
    const std::vector<std::size_t> axes = axes_of(x);
    Size count{1, 0};
    for (const std::size_t axis : axes) count = times(count, x->sizes[axis]);
    const std::int64_t correction = flag("unbiased", true) ? whole("correction", 1) : 0;
    if (!expect(count.is_fixed() && count.fixed > correction && correction >= 0, "a variance of so few")) return;
    const TensorRef difference = both("Sub", x, reduced("ReduceMean", x, axes, true));
    const TensorRef squares = both("Mul", difference, difference);
    const TensorRef mean = reduced("ReduceMean", squares, axes, flag("keepdim", false));
    give(times(mean, static_cast<double>(count.fixed) / static_cast<double>(count.fixed - correction)));
}

// --- Products
// -----------------------------------------------------------------------------------------------------------------

TensorRef Interpreter::product_of(const TensorRef& a, const TensorRef& b) {
    if (!expect(a->rank() >= 2 && b->rank() >= 1 && a->kind == Kind::real && b->kind == Kind::real,
                "a product of other things than matrices of numbers"))
        return a;
    if (b->rank() == 1) {
        const TensorRef column = product_of(a, unsqueezed(b, 1));
        return failed() ? a : squeezed(column, {column->rank() - 1});
    }
    const Sizes outer_a(a->sizes.begin(), a->sizes.end() - 2);
    const Sizes outer_b(b->sizes.begin(), b->sizes.end() - 2);
    auto sizes = broadcast(outer_a, outer_b);
    if (!sizes || !expect(a->sizes.back() == b->sizes[b->rank() - 2], "inner sizes that do not fit one another"))
        return a;
    sizes->push_back(a->sizes[a->rank() - 2]);
    sizes->push_back(b->sizes.back());
    return made("MatMul", {a, b}, std::move(*sizes));
}
void Interpreter::matmul() {
    const TensorRef a = tensor(0);
    give(product_of(a, tensor(1)));
}

void Interpreter::addmm() {
    const TensorRef added = tensor(0);
    const TensorRef a = tensor(1);
    const TensorRef product = times(product_of(a, tensor(2)), real("alpha", 1));
    const double beta = real("beta", 1);
    if (beta == 0) return give(product);
    give(both("Add", times(added, beta), product));
}

TensorRef Interpreter::linear_of(const TensorRef& x, const TensorRef& weight, const TensorRef& bias) {
    if (!expect(x->rank() >= 1 && weight->rank() == 2 && x->kind == Kind::real && x->sizes.back() == weight->sizes[1] &&
                    (!bias || bias->sizes == Sizes{weight->sizes[0]}),
                "sizes of a linear layer"))
        return x;
    Sizes sizes = x->sizes;
    sizes.back() = weight->sizes[0];
    if (x->rank() == 2) {
        Names inputs{use(x), use(weight)};
        if (bias) inputs.push_back(use(bias));
        onnx::NodeProto& result = node("Gemm", inputs);
        set(result, "transB", 1);
        return made(result.output(0), std::move(sizes));
    }
    const TensorRef turned = swapped(weight, 0, 1);
    const TensorRef product = made("MatMul", {x, turned}, std::move(sizes));
    return bias ? both("Add", product, bias) : product;
}
void Interpreter::linear() {
    const TensorRef x = tensor(0);
    const TensorRef weight = tensor(1);
    give(linear_of(x, weight, tensor_named("bias")));
}

// --- Conditions
// ---------------------------------------------------------------------------------------------------------------

void Interpreter::compare() {
    const std::string op = op_.substr(6);
    if (compare_plain(op)) return;
    const TensorRef a = tensor(0);
    const TensorRef b = tensor(1);
    TensorRef result = both(op == "lt"   ? "Less"
                            : op == "le" ? "LessOrEqual"
                            : op == "gt" ? "Greater"
                            : op == "ge" ? "GreaterOrEqual"
                                         : "Equal",
                            a, b);
    result->kind = Kind::boolean;
    if (op == "ne") result = made("Not", {result}, result->sizes, Kind::boolean);
    give(result);
}

void Interpreter::logical() {
    const TensorRef a = cast(tensor(0), Kind::boolean);
    const TensorRef b = cast(tensor(1), Kind::boolean);
    const auto sizes = failed() ? std::nullopt : broadcast(a->sizes, b->sizes);
    const bool both_hold = op_.find("and") != std::string::npos;
    if (sizes) give(made(both_hold ? "And" : "Or", {a, b}, *sizes, Kind::boolean));
}
void Interpreter::logical_not() {
    const TensorRef x = cast(tensor(0), Kind::boolean);
    if (!failed()) give(made("Not", {x}, x->sizes, Kind::boolean));
}

TensorRef Interpreter::chosen(const TensorRef& condition, const TensorRef& yes, const TensorRef& no) {
    const TensorRef flag = cast(condition, Kind::boolean);
    const Kind kind = std::min({yes->kind, no->kind, Kind::whole});
    const TensorRef first = cast(yes, kind);
    const TensorRef second = cast(no, kind);
    const auto inner = failed() ? std::nullopt : broadcast(first->sizes, second->sizes);
    const auto sizes = inner ? broadcast(*inner, flag->sizes) : std::nullopt;
    return sizes ? made("Where", {flag, first, second}, *sizes, kind) : yes;
}
void Interpreter::where() {
    const TensorRef condition = tensor(0);
    const TensorRef yes = tensor(1);
    give(chosen(condition, yes, tensor(2)));
}
void Interpreter::masked_fill() {
    const TensorRef x = tensor(0);
    const TensorRef mask = tensor(1);
    give(chosen(mask, cast(tensor(2), x->kind), x));
}

// --- Attention
// ----------------------------------------------------------------------------------------------------------------

// Scores where the mask is true, or with what it adds.
TensorRef Interpreter::masked(const TensorRef& scores, const TensorRef& mask) {
    if (mask->kind != Kind::boolean) return both("Add", scores, mask);
    return chosen(mask, scores, number(-std::numeric_limits<double>::infinity()));
}

void Interpreter::attention() {
    const TensorRef query = tensor(0);
    const TensorRef key = tensor(1);
    const TensorRef value = tensor(2);
    if (!expect(query->rank() >= 2 && key->rank() >= 2 && query->sizes.back().is_fixed() &&
                    query->sizes.back().fixed > 0 && !flag("enable_gqa", false),
                "attention of other things than matrices, or of groups"))
        return;
    const double size = static_cast<double>(query->sizes.back().fixed);
    const TensorRef scaled = times(query, real("scale", 1 / std::sqrt(size)));
    TensorRef scores = product_of(scaled, swapped(key, key->rank() - 2, key->rank() - 1));
    if (failed()) return;
    if (flag("is_causal", false)) {
        const Size rows = scores->sizes[scores->rank() - 2];
        const Size columns = scores->sizes.back();
        const TensorRef all = filled(-std::numeric_limits<double>::infinity(), {rows, columns}, Kind::real);
        if (!expect(all->words.has_value(), "causal attention over so many")) return;
        scores = both("Add", scores, constant(at::triu(*all->words, 1)));
    }
    if (const TensorRef mask = tensor_named("attn_mask"); mask) scores = masked(scores, mask);
    if (failed()) return;
    const TensorRef weights = softmaxed("Softmax", scores, scores->rank() - 1);
    const double rate = real("dropout_p", 0);
    const TensorRef mixed = product_of(dropped(weights, rate, rate > 0), value);
    give(mixed);
    give(weights, 1);
}

}  // namespace quern::compute::torchscript
